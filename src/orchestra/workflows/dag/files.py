"""The files of a task graph: plan.json, and tasks.jsonl and messages.jsonl, made from its events (S2-85, S2-132).

The latter two are projections. Lines of tasks are appended within a twentieth of a second, or when 256 events wait. The
files are rebuilt if a kill left them behind or they are missing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from orchestra.core.context import Step
from orchestra.core.disk import Disk
from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import MIB, read_bounded, size
from orchestra.core.lines import MOST_COST, weight
from orchestra.core.reading import Reference
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.work import Asking
from orchestra.workflows.dag.board import Board, Line
from orchestra.workflows.dag.effects import Adopted, AdoptPlan
from orchestra.workflows.dag.shapes import Plan

Threshold = Literal["debug", "info", "warn", "error"]
_WEIGHT: dict[str, int] = {"debug": 0, "info": 1, "warn": 2, "error": 3}
_MOST = 256  # the most events that wait for their lines
_WAIT_S = 0.05  # the longest wait
MOST_PLAN = 48 * MIB  # 20,000 tasks with four dependencies each, indented, have 22
MOST_LINES = 256 * MIB  # of tasks.jsonl: that graph has 76, more with retries
P = TypeVar("P")
_encode = msgspec.json.Encoder().encode
_ndjson = msgspec.json.Encoder().encode_lines


class TaskFiles:
    """Both files of one run. tasks.jsonl grows with every event; messages.jsonl is written on close."""

    def __init__(self, folder: RunFolder, disk: Disk, level: Threshold = "info") -> None:
        """`level` is telemetry.level: less important lines are left out, but never the end of a task."""
        self._disk = disk
        self._least = _WEIGHT[level]
        self._board = Board()
        self._tasks = folder.path / "tasks.jsonl"
        self._messages = folder.path / "messages.jsonl"
        self._fd = -1
        self._unwritten: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None  # of a delayed write: raised by the next call

    def restore(self, events: Iterable[Event]) -> None:
        """Bring both files up to date with the journal."""
        self._board = Board()
        for event in events:
            self._board.add(event)
        lines = self._shown()
        data = _read(self._tasks)
        if lines and not (data.count(b"\n") == len(lines) and data.endswith(_ndjson(lines[-1:]))):
            self._disk.publish(self._tasks, _ndjson(lines), durable=False)
        self._publish_messages()

    def write(self, event: Event) -> None:
        """Add the lines for this event."""
        if self._failure is not None:
            raise self._failure
        self._unwritten.append(event)
        if event.phase != "execute" or len(self._unwritten) == _MOST:
            self._flush()
            if self._failure is not None:
                raise self._failure
        elif self._timer is None:
            self._wait()

    def _wait(self) -> None:
        """Write the lines soon, many at once.

        Made one by one, they take twice as long: after every sync the processor's caches are cold.
        """
        try:
            self._timer = asyncio.get_running_loop().call_later(_WAIT_S, self._flush)
        except RuntimeError:  # no event loop: a fork copies history
            self._flush()

    def close(self) -> None:
        self._flush()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._publish_messages()
        if self._failure is not None:
            raise self._failure

    def _publish_messages(self) -> None:
        if self._board.job is None or self._board.job.planOnly:
            return
        data = _ndjson(self._board.messages)
        if _read(self._messages) != data:
            self._disk.publish(self._messages, data, durable=False)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._unwritten = self._unwritten, []
        if self._failure is not None:
            return
        try:
            for event in events:
                self._board.add(event)
            data = _ndjson(self._shown())
            if not data:
                return
            if self._fd < 0:
                self._fd = self._disk.open_end(self._tasks)
            self._disk.append(self._fd, data)
        except Exception as failure:  # the loop would only log it
            self._failure = failure

    def _shown(self) -> list[Line]:
        lines = self._board.take()
        if self._board.job is not None and self._board.job.planOnly:
            return []  # a dry run has only plan.json (F2-03)
        return [x for x in lines if _WEIGHT[x.severity] >= self._least or x.state in ("done", "failed")]


def decode_plan(data: bytes, kind: type[P]) -> P:
    """Decode the file of a plan, of any origin, as this kind of record."""
    if (cost := weight(data)) > MOST_COST:
        raise msgspec.DecodeError(f"it would take {size(cost)} to read, and no plan takes more than {size(MOST_COST)}")
    return msgspec.json.decode(data, type=kind)


def read_plan_file(folder: RunFolder, said: Reference | None) -> Plan:
    """The plan in the file that an event of the run names."""
    try:
        return decode_plan(folder.recorded(said, MOST_PLAN), Plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"run {folder.id}: its plan cannot be read: {error}") from error


async def adopt(effect: AdoptPlan, step: Step, *, approval: Asking | None = None) -> Adopted:
    """Handler of `AdoptPlan`: write the plan to a file, durable before the event that names it (D-04).

    `approval` is the project's approval mode of now, if it asks a person more often than the run's.
    """
    ledger = step.ledger
    plan: Any = effect.plan
    data = _encode(plan)
    if ledger.redactor.suspects(data):
        plan = ledger.redactor.record(plan)
        data = _encode(plan)
    data = msgspec.json.format(data) + b"\n"
    path = ledger.folder.artifact(f"plan/{step.key}.json")
    ledger.disk.publish(path, data, durable=True)
    ledger.disk.publish(ledger.folder.path / "plan.json", data, durable=False)  # a copy of the newest plan, for people
    return Adopted(plan=plan, file=ledger.folder.reference(path, data), added=effect.added, approval=approval)


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path, MOST_LINES)
    except (OSError, OddFile):
        return b""
