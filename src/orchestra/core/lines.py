"""Reads the lines of a journal within limits. Each line is one event, of any writer.

Rules
1. A journal is a regular file with a maximal size, a maximal number of lines and a maximal length of a line. Anything
   else is refused, and nothing waits for it. A run ends before its journal becomes longer (core/journal.py, rule 10).
   The limits are what a view can read within two seconds and 200 MB (docs/design/0006).
2. JSON is small, but its Python objects are not: a line of one megabyte can take fifty in memory. The memory for a long
   line is estimated before the line is decoded. A line above the limit is damage. So are lines that together are above
   the limit, unless this user's key sealed them.
3. For a view, an event that would take more than VIEWED is read without its longest parts: long texts are shortened,
   other long parts of outcomes and results are left out, and the payload has `abridged`. The rights of a run are never
   left out. The driver, and views that need the tasks of a plan, read whole events.
4. A view gets only payloads whose fields have the right types; others are damage (core/shape.py).
5. A line is `sealed` only if its seal was checked before (core/chain.py). Then its time need not be checked.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from orchestra.core.errors import JournalCorrupt, OddFile
from orchestra.core.files import MIB, open_bounded, size
from orchestra.core.records import Event, is_time
from orchestra.core.shape import ERROR, OUTCOME, PARAMS, PAYLOAD, misfit

MOST_BYTES = 128 * MIB  # 10,000 tasks with the most output take 93
MOST_EVENTS = 150_000  # 20,000 tasks, each tried three times, have 120,000
MOST_LINE = 28 * MIB  # the longest reply takes 24 with all escapes; a plan of 20,000 tasks has 15
MOST_COST = 144 * MIB  # of one event in memory; that plan takes 80, or 125 with a four-byte character
MOST_FOREIGN = 1 << 30  # of all foreign lines together; ordinary ones take a third of it
MOST_HELD = 48 * MIB  # of foreign lines that stay in memory (requests, child runs); 10,000 take less
_ASKS = ("APPROVAL_REQUESTED", "QUESTION_RAISED")
VIEWED = 32 * MIB  # the plan of 10,000 tasks takes less
_SHORT = 65_536  # bytes of a line whose memory need not be estimated
_PART = 16_384  # bytes of a value that is kept in an abridged event
_BEGINNING = 4_000  # bytes of a long text that are shown

_decode = msgspec.json.Decoder(Event).decode
_value = msgspec.json.Decoder().decode


def _rough(name: str, fields: tuple[str, ...]) -> Any:
    """A record type whose fields are not decoded; other fields are skipped and take no memory."""
    made = msgspec.defstruct(name, [(field, Raw | UnsetType, UNSET) for field in fields])
    return msgspec.json.Decoder(made).decode


class _Long(Struct, frozen=True):
    """An event whose payload is not decoded."""

    id: str
    runId: str
    ts: str
    type: str
    payload: Raw
    phase: Any = UNSET
    iteration: Any = UNSET


_long = msgspec.json.Decoder(_Long).decode
_payload = _rough("Payload", PAYLOAD)
_parts = {"outcome": _rough("Outcome", OUTCOME), "params": _rough("Params", PARAMS), "error": _rough("Error", ERROR)}
_LEFT_OUT = ("files", "result", "masked", "commands")
_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")  # the first half of a surrogate pair


def open_journal(path: Path, *, write: bool = False) -> int:
    """A descriptor of the journal's file (rule 1)."""
    try:
        return open_bounded(path, MOST_BYTES, write=write)
    except OddFile as odd:
        raise JournalCorrupt(str(path), odd.what) from odd
    except PermissionError as error:
        raise JournalCorrupt(str(path), "cannot be read: permission denied") from error


def lines(fd: int, path: str, offset: int = 0, number: int = 0, *, buffer: int = MIB) -> Iterator[bytes]:
    """The lines of an open file, each with its end; the last one may have none. `number`: of the line before."""
    with io.BufferedReader(io.FileIO(fd, closefd=False), buffer) as file:
        file.seek(offset)
        while line := file.readline(MOST_LINE + 1):
            number += 1
            if len(line) > MOST_LINE:
                raise JournalCorrupt(path, f"it has more than {size(MOST_LINE)}", line=number)
            if number > MOST_EVENTS:
                raise JournalCorrupt(path, f"has more than {MOST_EVENTS:,} lines; no journal has")
            yield line


def whole(line: bytes, path: str, number: int) -> Event:
    """The unabridged event of a line of any writer."""
    event = sealed(line, path, number)
    if not is_time(event.ts):
        raise JournalCorrupt(path, f"its time {event.ts} is none", line=number)
    return event


def sealed(line: bytes, path: str, number: int) -> Event:
    """The unabridged event of a line that this user's key sealed (rule 5)."""
    try:
        if long := too_long(line):
            raise JournalCorrupt(path, long, line=number)
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JournalCorrupt(path, str(error), line=number) from error


def viewed(line: bytes, path: str, number: int) -> Event:
    """The event of a line, for a view (rules 3 and 4)."""
    if len(line) <= _SHORT or weight(line) <= VIEWED:
        return fitting(line, path, number)
    try:
        return _fits(_abridged(line), path, number)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JournalCorrupt(path, str(error), line=number) from error


def fitting(line: bytes, path: str, number: int) -> Event:
    """The unabridged event of a line, for a view (rule 4)."""
    return _fits(sealed(line, path, number), path, number)  # `_fits` checks the time too


def _fits(event: Event, path: str, number: int) -> Event:
    if wrong := misfit(event, number):
        raise JournalCorrupt(path, wrong, line=number)
    return event


class Allowance:
    """The memory that foreign lines may take together (rule 2)."""

    def __init__(self) -> None:
        self._all = MOST_FOREIGN
        self._held = MOST_HELD

    def spend(self, line: bytes, event: Event) -> str:
        """Count one more line; returns why it is too much, or an empty string."""
        cost = weight(line)
        self._all -= cost
        if event.type in _ASKS or "childRunId" in event.payload:
            self._held -= cost
            if self._held < 0:
                return "with it the run would wait for more people and child runs than can be shown"
        return f"with it the journal would take more than {size(MOST_FOREIGN)} to read" if self._all < 0 else ""


def too_long(line: bytes) -> str:
    """Why a line is too long; empty if it is not."""
    if len(line) <= _SHORT:
        return ""
    if len(line) > MOST_LINE:
        return f"it has {size(len(line))}, and no line has more than {size(MOST_LINE)}"
    cost = weight(line)
    return f"it would take {size(cost)} to read, and none takes more than {size(MOST_COST)}" if cost > MOST_COST else ""


def weight(line: bytes) -> int:
    """An upper estimate of the memory that the objects of a JSON text take, in bytes."""
    return objects(line) + len(line) * (_width(line) if len(line) > _SHORT else 2)


def objects(line: bytes) -> int:
    """The same as `weight`, without the characters of texts."""
    return 240 * line.count(b"{") + 90 * line.count(b"[") + 60 * line.count(b",")


def _width(line: bytes) -> int:
    """How many bytes each character of a text takes: as many as its widest one."""
    if b"\xf0" in line:
        return 4
    if b"\\" not in line or rb"\u" not in line:  # one byte is found much faster than two
        return 1 if line.isascii() else 2
    return 4 if rb"\ud" in line or rb"\uD" in line else 2


def _abridged(line: bytes) -> Event:
    """The event of a long line, without its longest parts (rule 3)."""
    fields = msgspec.structs.asdict(_long(line))
    fields["payload"] = {**_kept(_payload(fields["payload"])), "abridged": True}
    return msgspec.convert({name: value for name, value in fields.items() if value is not UNSET}, Event)


def _kept(record: Struct, *, within: str = "") -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, raw in msgspec.structs.asdict(record).items():
        if raw is UNSET:
            continue
        text = memoryview(raw)
        if len(text) <= _PART:
            kept[name] = _value(raw)
        elif text[0] == ord('"'):
            kept[name] = _beginning(text)
        elif name in _parts and not within:
            kept[name] = _kept(_parts[name](raw), within=name)
        elif within == "outcome" or name in _LEFT_OUT:
            kept[name] = {} if text[0] == ord("{") else []
        else:
            raise msgspec.DecodeError(f"its {name} has {size(len(text))}")
    return kept


def _beginning(text: memoryview) -> str:
    """The first characters of a long JSON string, and how long it is."""
    head = bytes(text[1:_BEGINNING]).decode("utf-8", "ignore")
    head = head[:-12] + head[-12:].partition("\\")[0]  # the last escape may be cut off
    head = _HALF.sub("", head)
    if (len(head) - len(head.rstrip("\\"))) % 2:
        head = head[:-1]  # half of an escaped backslash
    return f"{_value(chr(34) + head + chr(34))}… ({size(len(text))} in all)"
