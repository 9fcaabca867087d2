"""logs/*.log: JSON lines for people and grep, derived from events (S1-111, S1-112, S1-118).

Each event is one short line: what, when, which step, and the whole error if there was one. The logs are projections: a
log that is missing, or lacks lines after a kill, is rebuilt from the journal on the next open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from orchestra.core.disk import Disk
from orchestra.core.projections import Lines
from orchestra.core.records import Event
from orchestra.core.run import RunFolder

_encode = msgspec.json.encode
_GATE = ("APPROVAL_", "PATCH_")
_QUIET = ("prev", "intent", "outcome", "key", "effect", "error", "params")


class LogBook:
    """The open logs of one run."""

    def __init__(self, folder: RunFolder, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk
        self._logs: dict[str, Lines] = {}  # by name

    def write(self, event: Event) -> None:
        """Add the event's line to its log, if it belongs in one."""
        if name := _log_of(event):
            self._log(name).write(event)

    def restore(self, events: Iterable[Event]) -> None:
        """Bring the logs up to date with the journal, after a kill."""
        mine: dict[str, list[Event]] = {}
        for event in events:
            if name := _log_of(event):
                mine.setdefault(name, []).append(event)
        for name, logged in mine.items():
            self._log(name).restore(logged)

    def ending(self, event: Event) -> None:
        """Nothing: the last event's line follows it."""

    def close(self) -> None:
        for log in self._logs.values():
            log.close()

    def _log(self, name: str) -> Lines:
        if name not in self._logs:
            self._logs[name] = Lines.of(self._folder.logs / name, self._disk, _line)
        return self._logs[name]


def _log_of(event: Event) -> str:
    if event.payload.get("effect") == "ModelCall" and event.phase is not UNSET:
        return f"provider-{event.phase}.log"
    if event.type in ("PHASE_STARTED", "PHASE_COMPLETED"):
        return ""  # not logged: the journal is enough
    if event.type.startswith(_GATE):
        return "gatekeeper.log"
    return "run.log"


def _line(event: Event) -> bytes:
    record: dict[str, Any] = {"ts": event.ts, "level": "error" if "error" in event.payload else "info"}
    record |= {"event": event.id, "type": event.type, "runId": event.runId}
    if event.phase is not UNSET:
        record |= {"phase": event.phase, "iteration": event.iteration}
    record |= dict(_facts(event))
    return _encode(record) + b"\n"


def _facts(event: Event) -> Iterator[tuple[str, Any]]:
    payload = event.payload
    if "key" in payload:
        yield "key", payload["key"]
    outcome = payload.get("outcome")
    for name, value in ({**payload, **outcome} if isinstance(outcome, dict) else payload).items():
        if name not in _QUIET and not (isinstance(value, str) and len(value) > 500):
            yield name, value
    if "error" in payload:
        yield "error", payload["error"]  # S1-118: all of it, with the stack
