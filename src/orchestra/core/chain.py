"""The chain of a journal's lines: what each says of the one before it, and who sealed it. Pure.

    {"id":…,"type":…,"payload":{"seal":"<of this line and the seal before it>","prev":"<digest of the line before>",…}}

Rules
1. A line is sealed with its writer's key, together with the seal of the line before it (core/seal.py, rule 2). From the
   first line on that this user's key did not seal, a journal is *foreign*.
2. Each line also says the plain digest of the line before it. That vouches for nothing, but whoever has no key finds a
   changed byte by it, anywhere but in the last line. Where the seal holds, nobody needs to look.
3. A person who adopts a foreign journal vouches for the bytes it has then (core/adoption.py). The next line that is
   written says so (`vouches`) and is sealed together with a digest of all lines since the last sealed one. From there
   on the journal vouches for itself, with no other file beside it (S1-120).
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
_LONG = 1 << 20
_NONE = "it was not made with your key"
_BROKEN = "its line {} was not made with your key, or was changed since"


class Chain:
    """Checks a journal line by line, and says what the next line must begin with."""

    def __init__(self, seal: Seal | None) -> None:
        self.foreign = 0  # the first line that nobody vouches for; 0: all are vouched for
        self.workspace = ""  # the folder a person bound the run to when adopting it
        self._seal = seal
        self._before = ""  # the seal that the next line follows
        self._since: Any = None  # hashes the lines that nobody vouches for
        self._last: bytes | str = b""  # the line before, or if that is long only its digest
        self._count = 0
        self._adopted: Adoption | None = None  # not in the journal yet

    def take(self, line: bytes, event: Event, number: int) -> str:
        """Check one more line; why the line before it is damaged, or an empty string."""
        before, self._last, self._count = self._last, _kept(line), number
        if self._seal is not None:
            mark = _mark(line)
            if self._since is None and self._made(line, mark, self._before):
                self._before = mark
                return ""
            if self._since is None:
                self._since = hashlib.sha256(self._before.encode())
            if "vouches" in event.payload and self._made(line, mark, self.digest):
                self._vouch(event.payload["vouches"], mark)
                return ""
            self._since.update(line)
        self.foreign = self.foreign or number
        prev = event.payload.get("prev")
        damaged = prev is not None and prev != (_short(before) if before else "")
        return f"its digest is not the one that line {number} recorded" if damaged else ""

    @property
    def digest(self) -> str:
        """What stands for all lines since the last sealed one, that one included."""
        since = hashlib.sha256(self._before.encode()) if self._since is None else self._since
        return f"sha256:{since.hexdigest()}"

    @property
    def lines(self) -> int:
        return self._count

    @property
    def why_foreign(self) -> str:
        return _NONE if self.foreign == 1 else _BROKEN.format(self.foreign)

    def adopt(self, adoption: Adoption) -> None:
        """Take a person's word for the lines it covers, if it is about exactly these."""
        if adoption.lines == self._count and adoption.sha256 == self.digest:
            self._adopted = adoption
            self.foreign = 0
            self.workspace = adoption.workspace

    # -- writing ------------------------------------------------------------------------------------------------------

    @property
    def before(self) -> str:
        """What the next line's seal follows: the seal before it, or what was adopted."""
        return self._before if self._adopted is None else self._adopted.sha256

    def opening(self) -> dict[str, Any]:
        """What the payload of the next line begins with."""
        opening: dict[str, Any] = {"seal": BLANK}
        if self._last:
            opening["prev"] = _short(self._last)
        if self._adopted is not None:
            opening["vouches"] = msgspec.to_builtins(self._adopted.vouching)
        return opening

    def wrote(self, line: bytes, mark: str) -> None:
        """The line with this seal is in the journal."""
        self._before, self._last, self._since, self._adopted = mark, _kept(line), None, None
        self._count += 1

    def _made(self, line: bytes, mark: str, before: str) -> bool:
        if not mark or self._seal is None:
            return False
        at, whole = line.find(_PLACE) + len(_PLACE), memoryview(line)  # a line may be long: it is not copied
        return self._seal.line(before, whole[:at], _BLANK, whole[at + len(mark) :]) == mark

    def _vouch(self, said: Any, mark: str) -> None:
        vouching = msgspec.convert(said, Vouching)
        self.foreign, self._since, self._before, self.workspace = 0, None, mark, vouching.workspace


def sealed(line: bytes, before: str, seal: Seal) -> tuple[bytes, str]:
    """The line with its seal in the place that is blank, and the seal."""
    mark = seal.line(before, line)
    at = line.find(_PLACE) + len(_PLACE)
    return line[:at] + mark.encode() + line[at + len(mark) :], mark


def _mark(line: bytes) -> str:
    """The seal a line carries, in the one place it can be: first in its payload. Empty if there is none."""
    at = line.find(b'"payload":{')
    if at < 0 or not line.startswith(_PLACE, at):
        return ""
    mark = line[at + len(_PLACE) : at + len(_PLACE) + len(BLANK)]
    return mark.decode("latin-1") if line.startswith(b'"', at + len(_PLACE) + len(BLANK)) else ""


def _kept(line: bytes) -> bytes | str:
    """What is kept of a line until the next one: mostly nobody asks for its digest."""
    return line if len(line) <= _LONG else _short(line)


def _short(line: bytes | str) -> str:
    return line if isinstance(line, str) else hashlib.sha256(line).hexdigest()[:16]
