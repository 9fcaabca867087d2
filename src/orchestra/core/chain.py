"""The chain of a journal's lines: each is sealed, and linked to the line before it. Pure.

    {"id":…,"type":…,"payload":{"seal":"<of this line and the seal before it>","prev":"<digest of the line before>",…}}

Rules
1. A line is sealed with its writer's key, together with the seal of the line before it (core/seal.py, rule 2). The seal
   covers the line without its newline, with BLANK in the seal's place. That place is fixed: the first field of the
   payload, which no string before it can contain. A journal is *foreign* from the first line that this user's key did
   not seal.
2. Each line also has the plain digest of the line before it. The digest proves no author. But a reader without the key
   can find a changed byte with it, except in the last line. Lines with a valid seal need no such check.
3. A person who adopts a foreign journal vouches for its bytes at that time (core/adoption.py). The next line that is
   written records this (`vouches`), and is sealed together with a digest of all lines since the last sealed one. From
   then on the journal needs no other file as proof (S1-120).
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from orchestra.core.adoption import Adoption, Vouching
from orchestra.core.records import Event
from orchestra.core.seal import BLANK, Seal

_PLACE = b'"payload":{"seal":"'
_BLANK = BLANK.encode()
_WIDTH = len(_BLANK)
_BLANK_PLACE = _PLACE + _BLANK
_LONG = 1 << 20
_NONE = "it was not made with your key"
_UNSEALED = "it was made before runs were sealed, or elsewhere: it was not made with your key"
_BROKEN = "its line {} was not made with your key, or was changed since"


class Chain:
    """Checks a journal line by line, and makes the opening and the seal of the next line."""

    def __init__(self, seal: Seal | None) -> None:
        self.foreign = 0  # the number of the first foreign line; 0: there is none
        self.own_first = True  # whether this user's key sealed the first line; an adoption does not change that
        self.lines = 0
        self.workspace = ""  # the project folder recorded with the run's adoption
        self._state = seal.line_state if seal is not None else None
        self._before = b""  # the seal that the next line follows
        self._since: Any = None  # a running hash of the foreign lines
        self._last: bytes | str = b""  # the line before; only its digest if the line is long
        self._adopted: Adoption | None = None  # an adoption that is not in the journal yet
        self._begun = False  # whether the first line has a seal, of any key

    def holds(self, line: bytes) -> bool:
        """Whether this user's key sealed the line in this place. If so, the line is added; else call `take`.

        Nearly all lines are checked here, and every start waits for it. So the code avoids function calls.
        """
        if self._state is None or self._since is not None:
            return False
        head, _, rest = line.partition(_PLACE)
        mark = rest[:_WIDTH]
        state = self._state.copy()
        state.update(b"".join((self._before, head, _BLANK_PLACE, rest[_WIDTH:-1])))
        if state.hexdigest().encode() != mark:
            return False
        self._before, self._last = mark, line if len(line) <= _LONG else _short(line)
        self.lines += 1
        return True

    def take(self, line: bytes, event: Event) -> str:
        """Add a line that `holds` refused. Returns why the line before it is damaged, or an empty string."""
        self.lines += 1
        if self._state is not None:
            if self._since is None:
                self._since = hashlib.sha256(self._before)
            mark = line.partition(_PLACE)[2][:_WIDTH]
            if "vouches" in event.payload and mark == _seal(self._state, self.digest.encode(), line):
                self._vouch(event.payload["vouches"], mark)
                self._last = _kept(line)
                return ""
            self._since.update(line)
        before, self._last = self._last, _kept(line)
        self.foreign = self.foreign or self.lines
        if self.lines == 1:
            self.own_first, self._begun = False, "seal" in event.payload
        prev = event.payload.get("prev")
        damaged = prev is not None and prev != (_short(before) if before else "")
        return f"its digest is not the one that line {self.lines} recorded" if damaged else ""

    @property
    def digest(self) -> str:
        """A digest of all lines since the last sealed one, including that one."""
        since = hashlib.sha256(self._before) if self._since is None else self._since
        return f"sha256:{since.hexdigest()}"

    @property
    def why_foreign(self) -> str:
        if self.foreign != 1:
            return _BROKEN.format(self.foreign)
        return _NONE if self._begun else _UNSEALED

    def adopt(self, adoption: Adoption) -> None:
        """Treat the lines as vouched for, if the adoption is about exactly these lines."""
        if adoption.lines == self.lines and adoption.sha256 == self.digest:
            self._adopted = adoption
            self.foreign = 0
            self.workspace = adoption.workspace

    # -- writing ------------------------------------------------------------------------------------------------------

    def opening(self) -> dict[str, Any]:
        """What the payload of the next line begins with."""
        opening: dict[str, Any] = {"seal": BLANK}
        if self._last:
            opening["prev"] = _short(self._last)
        if self._adopted is not None:
            opening["vouches"] = msgspec.to_builtins(self._adopted.vouching)
        return opening

    def close(self, line: bytes) -> tuple[bytes, str]:
        """The next line with its seal in the blank place, and the seal."""
        assert self._state is not None
        state = self._state.copy()
        state.update((self._before if self._adopted is None else self._adopted.sha256.encode()) + line[:-1])
        mark: str = state.hexdigest()
        at = line.find(_PLACE) + len(_PLACE)
        return line[:at] + mark.encode() + line[at + _WIDTH :], mark

    def wrote(self, line: bytes, mark: str) -> None:
        """Note that the line with this seal was written."""
        self._before, self._last, self._since, self._adopted = mark.encode(), _kept(line), None, None
        self.lines += 1

    def _vouch(self, said: Any, mark: bytes) -> None:
        vouching = msgspec.convert(said, Vouching)
        self.foreign, self._since, self._before, self.workspace = 0, None, mark, vouching.workspace


def _seal(state: Any, before: bytes, line: bytes) -> bytes:
    """The seal of a line that follows `before`."""
    head, _, rest = line.partition(_PLACE)
    state = state.copy()
    state.update(before + head + _BLANK_PLACE + rest[_WIDTH:-1])
    seal: str = state.hexdigest()
    return seal.encode()


def _kept(line: bytes) -> bytes | str:
    """What is kept of a line until the next one: the line itself, whose digest is rarely needed, or a digest."""
    return line if len(line) <= _LONG else _short(line)


def _short(line: bytes | str) -> str:
    return line if isinstance(line, str) else hashlib.sha256(line).hexdigest()[:16]
