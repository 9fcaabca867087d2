"""The files of a task graph: plan.json, and what follows from its events: tasks.jsonl, messages.jsonl (S2-85, S2-132).

The latter are projections: appended as events come, those of tasks within a twentieth of a second or when 256 wait, and
rebuilt whole when a kill left them behind or somebody removed them.
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
_MOST = 256  # events that wait for their lines, at the most
_WAIT_S = 0.05  # and how long
MOST_PLAN = 48 * MIB  # the plan of 20,000 tasks that depend on four others each, made readable, has 22
MOST_LINES = 256 * MIB  # of tasks.jsonl: that graph has 76, and more if tasks are tried again
P = TypeVar("P")
_encode = msgspec.json.Encoder().encode
_ndjson = msgspec.json.Encoder().encode_lines


class TaskFiles:
    """Both files of one run. tasks.jsonl grows with every event; messages.jsonl is written when the run is left."""

    def __init__(self, folder: RunFolder, disk: Disk, level: Threshold = "info") -> None:
        """`level` is telemetry.level: quieter lines are left out, but never how a task ended."""
        self._disk = disk
        self._least = _WEIGHT[level]
        self._board = Board()
        self._tasks = folder.path / "tasks.jsonl"
        self._messages = folder.path / "messages.jsonl"
        self._fd = -1
        self._unwritten: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None  # of a write in the loop's own time: raised to whoever comes next

    def restore(self, events: Iterable[Event]) -> None:
        """Bring both files up to the journal."""
        self._board = Board()
        for event in events:
            self._board.add(event)
        lines = self._shown()
        data = _read(self._tasks)
        if lines and not (data.count(b"\n") == len(lines) and data.endswith(_ndjson(lines[-1:]))):
            self._disk.publish(self._tasks, _ndjson(lines), durable=False)
        self._publish_messages()

    def write(self, event: Event) -> None:
        """Add what this event changed."""
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
        """Write soon: lines of a busy graph are made and written many at once.

        After every sync Python runs cold: made one by one, between other things, they take twice as long.
        """
        try:
            self._timer = asyncio.get_running_loop().call_later(_WAIT_S, self._flush)
        except RuntimeError:  # there is no loop: history is being copied
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
            return []  # nothing is executed: plan.json is all there is (F2-03)
        return [x for x in lines if _WEIGHT[x.severity] >= self._least or x.state in ("done", "failed")]


def decode_plan(data: bytes, kind: type[P]) -> P:
    """A plan's file, whoever wrote it, as this kind of record."""
    if (cost := weight(data)) > MOST_COST:
        raise msgspec.DecodeError(f"it would take {size(cost)} to read, and no plan takes more than {size(MOST_COST)}")
    return msgspec.json.decode(data, type=kind)


def read_plan_file(folder: RunFolder, said: Reference | None) -> Plan:
    """A plan as an event of the run names it."""
    try:
        return decode_plan(folder.recorded(said, MOST_PLAN), Plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"run {folder.id}: its plan cannot be read: {error}") from error


async def adopt(effect: AdoptPlan, step: Step, *, approval: Asking | None = None) -> Adopted:
    """Handler of `AdoptPlan`: the plan as a file of its own, whole before the event that names it (D-04).

    `approval` is what the project says now, where that asks a person more often than the run does.
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
    ledger.disk.publish(ledger.folder.path / "plan.json", data, durable=False)  # the newest, where people look
    return Adopted(plan=plan, file=ledger.folder.reference(path, data), added=effect.added, approval=approval)


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path, MOST_LINES)
    except (OSError, OddFile):
        return b""
