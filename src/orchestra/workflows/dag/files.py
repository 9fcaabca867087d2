"""The files of a task graph that are made from its events: plan.json, tasks.jsonl and messages.jsonl (S2-85, S2-132).

They are projections (core/projections.py): a file that is missing, or not what the events give, is written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from orchestra.core.context import Step
from orchestra.core.disk import Disk
from orchestra.core.errors import UsageError
from orchestra.core.files import MIB, size
from orchestra.core.lines import MOST_COST, weight
from orchestra.core.projections import Document, Lines
from orchestra.core.reading import Reference, effect_of, outcome_of
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.work import Asking
from orchestra.workflows.dag.board import Board
from orchestra.workflows.dag.effects import Adopted, AdoptPlan
from orchestra.workflows.dag.shapes import Plan

Threshold = Literal["debug", "info", "warn", "error"]
_WEIGHT: dict[str, int] = {"debug": 0, "info": 1, "warn": 2, "error": 3}
MOST_PLAN = 48 * MIB  # 20,000 tasks with four dependencies each, indented, have 22
MOST_LINES = 256 * MIB  # of tasks.jsonl: that graph has 76, more with retries
P = TypeVar("P")
_encode = msgspec.json.Encoder().encode
_ndjson = msgspec.json.Encoder().encode_lines


class TaskFiles:
    """The files of one run: tasks.jsonl grows with every event, plan.json is the newest plan, messages.jsonl is written
    on close."""

    def __init__(self, folder: RunFolder, disk: Disk, level: Threshold = "info") -> None:
        """`level` is telemetry.level: less important lines are left out, but never the end of a task."""
        self._least = _WEIGHT[level]
        self._board = Board()
        self._tasks = Lines(folder.path / "tasks.jsonl", disk, self._fresh, together=_is_of_a_task)
        self._plan = Document(folder.path / "plan.json", disk, _newest_plan, changes=_is_plan)
        self._messages = Document(folder.path / "messages.jsonl", disk, self._said, written="closed")
        self._files = (self._tasks, self._plan, self._messages)  # in this order: the messages are the board's

    def restore(self, events: Sequence[Event]) -> None:
        """Bring the files up to date with the journal."""
        for file in self._files:
            file.restore(events)

    def write(self, event: Event) -> None:
        """Take over an event."""
        for file in self._files:
            file.write(event)

    def ending(self, event: Event) -> None:
        """Nothing: no file here is about the end alone."""

    def close(self) -> None:
        """Write the files to their ends."""
        for file in self._files:
            file.close()

    def _fresh(self) -> Callable[[Event], bytes | None]:
        self._board = Board()
        return self._lines

    def _lines(self, event: Event) -> bytes | None:
        self._board.add(event)
        if not (lines := self._board.take()):
            return None
        if self._board.job is not None and self._board.job.planOnly:
            return None  # a dry run has only plan.json (F2-03)
        return _ndjson([x for x in lines if _WEIGHT[x.severity] >= self._least or x.state in ("done", "failed")])

    def _said(self, events: Sequence[Event]) -> bytes | None:
        if self._board.job is None or self._board.job.planOnly:
            return None
        return _ndjson(self._board.messages)


def _is_of_a_task(event: Event) -> bool:
    return event.phase == "execute"


def _is_plan(event: Event) -> bool:
    return event.type == "PHASE_COMPLETED" and effect_of(event) == AdoptPlan.__name__


def _newest_plan(events: Sequence[Event]) -> bytes | None:
    """plan.json: a copy of the newest plan, for people."""
    adopted = next((event for event in reversed(events) if _is_plan(event)), None)
    if adopted is None:
        return None
    return msgspec.json.format(_encode(outcome_of(adopted).plan)) + b"\n"


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
    return Adopted(plan=plan, file=ledger.folder.reference(path, data), added=effect.added, approval=approval)
