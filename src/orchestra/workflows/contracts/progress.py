"""How far a request has come, by the events of its run: one fold for state.json, results, reports and faces. Pure.

Rules
1. Everything here follows from events in the order of time. When a part is begun again (another edition), it is pending
   again, with its gates.
2. A subtask is complete when GATE-2 passed on a result that says so, never by a model's word. A task is complete when
   the flow says so, after all its subtasks (S3-132); a request when its run has completed (S3-133).
3. The newest result of a subtask is its test-result.yaml; those before it are its history (G3-5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct, field

from orchestra.core.reading import StepEvent, effect_of, job_of, key_of, outcome_as
from orchestra.core.records import FINAL, Event
from orchestra.core.text import count
from orchestra.workflows.contracts.effects import Settle, Settled, Taken, TakeRequest
from orchestra.workflows.contracts.gates import Passing
from orchestra.workflows.contracts.knowledge import Known
from orchestra.workflows.contracts.merging import Judged
from orchestra.workflows.contracts.places import task_of
from orchestra.workflows.contracts.proving import Proved
from orchestra.workflows.contracts.records import TestResult
from orchestra.workflows.contracts.storage import (
    GATES,
    ContractState,
    ContractTaskState,
    Gate,
    GateStatus,
    Manifest,
    RequestState,
    Session,
    SessionProject,
    SessionStatus,
    SubtaskPhase,
    SubtaskState,
    SubtaskStatus,
    TaskStatus,
)
from orchestra.workflows.contracts.testruns import TestRun

_PHASES: dict[str, SubtaskPhase] = {
    "test-contract": "test_first",
    "test-code": "test_first",
    "red": "test_first",
    "implement": "implementation",
    "verify": "verification",
}


class Named(Struct, frozen=True):
    """A task or a subtask by its id and name."""

    id: str
    name: str


class Planned(Struct, frozen=True, tag_field="kind", tag=True, omit_defaults=True):
    """What the flow records of a breakdown or a brief, after it looked at the file."""

    tasks: tuple[Named, ...] = ()
    order: tuple[str, ...] = ()
    task: str = ""  # of a brief
    subtasks: tuple[Named, ...] = ()


class Verified(Struct, frozen=True, tag_field="kind", tag=True, omit_defaults=True):
    """What the flow records of a verification."""

    result: TestResult
    run: TestRun
    attempt: int = 1
    pitfall: str = ""


class TaskEnded(Struct, frozen=True, tag_field="kind", tag=True, omit_defaults=True):
    """What the flow records of a task that is complete."""

    completed: str
    decisions: tuple[str, ...] = ()


class Merged(Struct, frozen=True, tag_field="kind", tag=True, omit_defaults=True):
    """What the flow records of the merge."""

    assumptions: tuple[Judged, ...]
    replanned: bool


Recorded = Planned | Passing | Verified | TaskEnded | Merged | Proved


class SubtaskProgress(Struct):
    """A subtask so far."""

    id: str
    name: str
    status: SubtaskStatus = "pending"
    phase: SubtaskPhase = "test_first"
    gates: dict[Gate, GateStatus] = field(default_factory=lambda: dict.fromkeys(GATES, "pending"))
    attempts: int = 0
    rewrites: int = 0
    results: list[Verified] = field(default_factory=list)
    proved: Proved | None = None

    def begin_again(self) -> None:
        """Pending, with its gates (rule 1). Its results stay."""
        self.status, self.phase, self.attempts = "pending", "test_first", 0
        self.gates = dict.fromkeys(GATES, "pending")


class TaskProgress(Struct):
    """A task so far."""

    id: str
    name: str
    status: TaskStatus = "pending"
    redesigns: int = 0
    subtasks: dict[str, SubtaskProgress] = field(default_factory=dict)
    order: tuple[str, ...] = ()


class Progress:
    """A request so far."""

    def __init__(self) -> None:
        self.request = ""
        self.text = ""
        self.taken: Taken | None = None
        self.tasks: dict[str, TaskProgress] = {}
        self.order: tuple[str, ...] = ()
        self.current: str | None = None  # the subtask that is worked on
        self.known = Known()
        self.merged: Merged | None = None
        self.created = self.updated = ""
        self.ended = ""  # the type of the event that ended the run

    @classmethod
    def of(cls, events: Iterable[Event]) -> Progress:
        """The progress of a whole journal."""
        progress = cls()
        for event in events:
            progress.add(event)
        return progress

    def add(self, event: Event) -> bool:
        """Take over an event; whether a file may be another one after it."""
        step = StepEvent.of(event)
        if event.type == "RUN_CREATED":
            self.created = self.updated = event.ts
            self.text = str(job_of(event).get("request", ""))
            return False
        changed = self._note(event, step)
        if changed:
            self.updated = event.ts
        return changed

    def pace(self, event: Event) -> tuple[int, int] | None:
        """Take over an event; how many subtasks began, of how many. A task that has none yet counts as one."""
        self.add(event)
        tasks = self.tasks.values()
        begun = sum(one.status != "pending" for task in tasks for one in task.subtasks.values())
        return (begun, sum(len(task.subtasks) or 1 for task in tasks)) if tasks else None

    def _note(self, event: Event, step: StepEvent) -> bool:
        if event.type in FINAL:
            self.ended = event.type
            self._end()
            return True
        if effect_of(event) == TakeRequest.__name__ and (taken := outcome_as(event, Taken)):
            self.taken, self.request, self.known = taken, taken.request, Known(taken.knowledge)
            return True
        if effect_of(event) == Settle.__name__ and (settled := outcome_as(event, Settled)):
            return self._settled(settled.value, step)
        return self._stepped(event, step)

    def _stepped(self, event: Event, step: StepEvent) -> bool:
        """A step of a task or a subtask began or ended."""
        task = self.tasks.get(task_of(step.target)) if step.target else None
        if task is None:
            return False
        begins = effect_of(event) == "Edition"
        if step.native == "retry":
            return self._retried(task, step.target, event)
        if step.native == "design" and begins and not key_of(event).endswith("@1.1"):
            for one in task.subtasks.values():
                one.begin_again()
        if step.native in ("design", "design-brief") and begins:
            task.status = "in_progress"
            return True
        subtask = task.subtasks.get(step.target)
        if subtask is None or step.native not in _PHASES:
            return False
        if begins and step.native in ("test-contract", "test-code"):
            subtask.begin_again()
        if step.native == "implement" and event.type == "PHASE_STARTED" and step.childRunId:
            subtask.attempts = step.round
        task.status, self.current = "in_progress", subtask.id
        before = (subtask.status, subtask.phase)
        subtask.status, subtask.phase = "in_progress", _PHASES[step.native]
        return begins or before != (subtask.status, subtask.phase)

    def _retried(self, task: TaskProgress, target: str, event: Event) -> bool:
        if effect_of(event) != "Keep":
            return False
        if target == task.id:
            task.redesigns += 1
        elif target in task.subtasks:
            task.subtasks[target].rewrites += 1
        return True

    def _settled(self, value: object, step: StepEvent) -> bool:
        """What the flow recorded (effects.py: Settle). What does not fit is of another version, and is passed over."""
        try:
            record: Recorded = msgspec.convert(value, Recorded)
        except msgspec.ValidationError:
            return False
        match record:
            case Planned():
                self._planned(record)
            case Passing():
                self._passed(record, step.target)
            case Verified():
                self._verified(record, step.target)
            case TaskEnded():
                self._completed(record)
            case Merged():
                self.merged = record
            case Proved() if (subtask := self._subtask(step.target)) is not None:
                subtask.proved = record
        return True

    def _planned(self, planned: Planned) -> None:
        if planned.task:
            task = self.tasks.setdefault(planned.task, TaskProgress(planned.task, planned.task))
            task.subtasks = {
                one.id: task.subtasks.get(one.id) or SubtaskProgress(one.id, one.name) for one in planned.subtasks
            }
            task.order = planned.order
            return
        self.tasks = {one.id: self.tasks.get(one.id) or TaskProgress(one.id, one.name) for one in planned.tasks}
        self.order = planned.order

    def _passed(self, passing: Passing, target: str) -> None:
        subtask = self._subtask(target)
        if subtask is None:
            return
        subtask.gates[passing.gate] = passing.status
        if passing.gate == "GATE-2" and passing.status == "passed":
            subtask.status, subtask.phase = "completed", "complete"
            task = self.tasks[task_of(target)]
            if all(one.status == "completed" for one in task.subtasks.values()):  # S3-132
                task.status = "completed"

    def _verified(self, verified: Verified, target: str) -> None:
        if (subtask := self._subtask(target)) is not None:
            subtask.results.append(verified)
        self.known.learn_pitfall(verified.pitfall)

    def _completed(self, ended: TaskEnded) -> None:
        self.known.learn_decisions(ended.decisions)

    def _end(self) -> None:
        subtask = self._subtask(self.current or "")
        if self.ended == "RUN_FAILED" and subtask is not None and subtask.status == "in_progress":
            subtask.status = "failed"

    def _subtask(self, target: str) -> SubtaskProgress | None:
        task = self.tasks.get(task_of(target)) if target else None
        return task.subtasks.get(target) if task else None

    # -- the records of files -----------------------------------------------------------------------------------------

    @property
    def status(self) -> SessionStatus:
        """The request in the storage document's words (C-05)."""
        if not self.ended:
            return "active"
        return "completed" if self.ended == "RUN_COMPLETED" else "stopped"

    @property
    def current_task(self) -> str | None:
        """The id of the task in progress; None if there is none."""
        return next((one for one in self.order if self.tasks[one].status == "in_progress"), None)

    @property
    def state(self) -> ContractState:
        """The record of state.json."""
        return ContractState(
            version=2,
            request=RequestState(
                id=self.request,
                original_request=self.text,
                status=self.status,
                current_task=self.current_task,
                global_phase="complete"
                if self.status == "completed"
                else "task_loop"
                if self.order
                else "global_discovery",
            ),
            tasks={task.id: _task_state(task) for task in self.tasks.values()},
            task_order=self.order,
        )

    def session(self, path: str, name: str, hash: str) -> Session:
        """The record of session.json."""
        return Session(
            version=1,
            project=SessionProject(path=path, name=name, hash=hash),
            status=self.status,
            current_task=self.current_task,
            created_at=self.created,
            updated_at=self.updated,
            manifest=self.taken.manifest if self.taken else Manifest(claude_md=None, agents_md=None),
        )

    # -- for people ---------------------------------------------------------------------------------------------------

    def outline(self) -> Iterator[str]:
        """The request as a tree: task, subtask, its state, gates and retries."""
        if not self.request:
            return
        yield f"{self.request} {self.status}: {self.text}"
        for task_id in self.order:
            task = self.tasks[task_id]
            yield f"  {task.id} {task.status}{_times(task.redesigns, 'redesign')}: {task.name}"
            for subtask_id in task.order:
                yield f"    {_line(task.subtasks[subtask_id])}"


def _line(one: SubtaskProgress) -> str:
    where = f" ({one.phase})" if one.status == "in_progress" else ""
    signs = {"passed": "✓", "failed": "✗", "pending": "·"}
    gates = " ".join(f"{gate[-1]}{signs[status]}" for gate, status in sorted(one.gates.items()))
    retries = f"{_times(one.attempts, 'attempt')}{_times(one.rewrites, 'rewrite')}"
    last = one.results[-1].result if one.results else None
    tests = f", {last.summary.passed} of {last.summary.total} tests passed" if last else ""
    return f"{one.id} {one.status}{where}, gates {gates}{tests}{retries}: {one.name}"


def _times(number: int, what: str) -> str:
    return f", {count(number, what)}" if number else ""


def _task_state(task: TaskProgress) -> ContractTaskState:
    working = next((one.id for one in task.subtasks.values() if one.status == "in_progress"), None)
    return ContractTaskState(
        name=task.name,
        status=task.status,
        current_subtask=working,
        subtasks={one.id: _subtask_state(one) for one in task.subtasks.values()},
        subtask_order=task.order,
    )


def _subtask_state(one: SubtaskProgress) -> SubtaskState:
    return SubtaskState(name=one.name, status=one.status, phase=one.phase, gates=dict(one.gates))


def results_of(progress: Progress) -> Iterator[tuple[str, Sequence[Verified]]]:
    """The results of each subtask, the newest last."""
    for task in progress.tasks.values():
        for subtask in task.subtasks.values():
            if subtask.results:
                yield subtask.id, subtask.results
