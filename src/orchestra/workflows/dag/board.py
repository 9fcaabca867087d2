"""The board: the current state of every task, folded from events (S2-15 … S2-42, S2-120 … S2-131). Pure.

Rules
1. There are tasks on three levels: the run itself (L1), its planning (L2), and each task of the plan (L3).
2. A state changes only as `states.TASK` allows.
3. Every change makes one line of tasks.jsonl: the task's record and a log entry.
4. A task that may write is done when its changes are applied, not when its command ends.
5. Only the end of a task's output is kept, because there are many tasks. The more tasks, the less is kept of each.
6. Lines are made only for a reader that needs them (`tells`): every task of a plan makes two. A view keeps only as many
   artifacts as fit into `room`, and counts the others.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from orchestra.core.command import InputFile
from orchestra.core.errors import DurabilityError
from orchestra.core.reading import (
    Reference,
    RunEnded,
    StepEvent,
    branch_of,
    effect_of,
    is_abridged,
    job_of,
    outcome_of,
    recorded,
)
from orchestra.core.records import Event
from orchestra.core.text import count
from orchestra.workflows.dag.plan import task_uuid
from orchestra.workflows.dag.planning import request_in_words
from orchestra.workflows.dag.shapes import (
    Assignment,
    Constraints,
    Inputs,
    Job,
    LogLevel,
    Plan,
    PlannedTask,
    PlanRequest,
    Task,
    TaskArtifact,
    TaskLog,
    TaskMetrics,
    TaskResult,
    TaskState,
    Timestamps,
    plan_request,
)
from orchestra.workflows.dag.states import move

Level = Literal[1, 2, 3]
Component = Literal["L1", "L2", "L3"]
NETWORK_DENIED = "NETWORK_ACCESS_DENIED"  # a line about a refused connection begins with this (F2-09)


class Line(Task, frozen=True, kw_only=True, gc=False):
    """One line of tasks.jsonl: a task as it is now, and what just happened to it (F2-05)."""

    trace_id: str
    component: Component
    timestamp: str
    severity: LogLevel
    message: str
    payload: dict[str, Any]


class Message(Struct, frozen=True, gc=False):
    """One line of messages.jsonl: a message from one level to another."""

    timestamp: str
    sender: Component = msgspec.field(name="from")
    receiver: Component = msgspec.field(name="to")
    message: PlanRequest | Plan | Assignment | TaskResult


class Entry(Struct, eq=False, gc=False):
    """A task on the board. Only the board changes it."""

    planned: PlannedTask
    inputs: Inputs  # shortened, because every line repeats them
    level: Level
    parent: str | None
    created: str
    state: TaskState = "planned"
    started: str | None = None
    completed: str | None = None
    retries: int = 0
    attempts: int = 0
    logs: tuple[TaskLog, ...] = ()
    artifacts: tuple[TaskArtifact, ...] = ()  # by path, of all attempts
    metrics: TaskMetrics = TaskMetrics()
    output: str = ""
    policy: str = ""
    waits_for_gate: bool = False

    @property
    def label(self) -> str:
        return self.planned.label


class Board:
    """All tasks of a run, the messages between levels, and the lines since `take` was last called."""

    def __init__(self, *, tells: bool = True, room: int | None = None) -> None:
        """`room` is the memory for artifacts, in bytes; None keeps all (rule 6)."""
        self.entries: dict[str, Entry] = {}
        self.plans: list[Plan] = []
        self.job: Job | None = None
        self.summary = ""
        self.lines: list[Line] = []
        self.messages: list[Message] = []
        self.began: list[str] = []  # labels, in the order in which the tasks began
        self.run_id = ""
        self.left_out, self.left_out_bytes = 0, 0  # artifacts without room, and their total size
        self._tells, self._room = tells, room  # rule 6
        self._run: Entry | None = None
        self._planning: Entry | None = None

    @property
    def tasks(self) -> list[Entry]:
        """The plan's tasks, in the plan's order."""
        return list(self.entries.values())

    @property
    def everyone(self) -> list[Entry]:
        """The tasks of all three levels."""
        return [entry for entry in (self._run, self._planning) if entry is not None] + self.tasks

    def add(self, event: Event) -> None:
        """Update the board with one event."""
        match event.type:
            case "RUN_CREATED":
                self._begin(event)
            case "PHASE_STARTED" if event.phase == "execute":
                self._started(event)
            case "PHASE_COMPLETED" | "PHASE_FAILED" if event.phase == "execute":
                self._ran(event)
            case "PHASE_COMPLETED" if effect_of(event) == "AdoptPlan":
                self._adopt(event)
            case "PHASE_COMPLETED" | "PHASE_FAILED" if effect_of(event) == "ModelCall":
                self._called(event)
            case "PATCH_APPLIED" | "PATCH_APPLY_FAILED" | "APPROVAL_REJECTED":
                self._through_the_gate(event)
            case "RUN_COMPLETED" | "RUN_FAILED" | "RUN_CANCELED":
                self._end(event)

    # -- the run and its planning -------------------------------------------------------------------------------------

    def _begin(self, event: Event) -> None:
        job = self.job = _read(event, job_of(event), Job)
        self.run_id = event.runId
        self._run = self._own(event, 1, "run", job.intent, None)
        self._change(self._run, "running", event.ts, "the run begins")
        self._planning = self._own(event, 2, "coordinate", "plan the tasks and their order", self._run.planned.task_id)
        self._change(self._planning, "running", event.ts, "planning begins")
        self.messages.append(Message(event.ts, "L1", "L2", plan_request(job)))

    def _own(self, event: Event, level: Level, label: str, intent: str, parent: str | None) -> Entry:
        assert self.job is not None
        limits = Constraints(max_duration_sec=self.job.policy.max_total_sec, max_retries=self.job.retries)
        # A plan's label never contains "~". So a task that is called "run" is not mistaken for the run itself.
        planned = PlannedTask(task_uuid(event.runId, f"~{label}"), label, intent, (), (), Inputs(), limits)
        return Entry(planned, planned.inputs, level, parent, event.ts, started=event.ts)

    def _called(self, event: Event) -> None:
        """Count a model call for the level that made it."""
        outcome = outcome_of(event)
        who = self._planning if event.phase == "plan" else self._run
        assert who is not None
        if outcome.tokens:
            used = (who.metrics.tokens_used or 0) + outcome.tokens
            who.metrics = msgspec.structs.replace(who.metrics, tokens_used=used)
        if event.type == "PHASE_FAILED":
            message = f"model call failed: {StepEvent.of(event).message}"
            self._tell(who, event.ts, "warn", message, {"error": recorded(event, "error").get("error") or {}})
        elif event.phase == "evaluate":
            self.summary = outcome.text
        elif asked := request_in_words(outcome.text):
            self._tell(who, event.ts, "info", f"the planner asks to see {asked}")

    def _adopt(self, event: Event) -> None:
        assert self._planning is not None
        outcome = outcome_of(event)
        plan = _read(event, outcome.plan, Plan)
        if self.plans and not outcome.added:
            self.entries.clear()  # a person rejected the earlier plan, so none of its tasks began
            self.plans.clear()
        self.plans.append(plan)
        self.messages.append(Message(event.ts, "L2", "L1", plan))
        for warning in plan.warnings:
            self._tell(self._planning, event.ts, "warn", warning)
        self._tell(self._planning, event.ts, "info", f"plan {plan.plan_id} with {count(len(plan.tasks), 'task')}")
        for planned in plan.tasks:
            above = self._planning.planned.task_id
            entry = self.entries[planned.label] = Entry(planned, _shown(planned.inputs), 3, above, event.ts)
            self._tell(entry, event.ts, "info", "planned")
        for planned in plan.tasks:
            if planned.depends_on:  # S2-126
                waits = f"waits for {count(len(planned.depends_on), 'task')}"
                self._change(self.entries[planned.label], "blocked", event.ts, waits)

    def _end(self, event: Event) -> None:
        good = event.type == "RUN_COMPLETED"
        why = RunEnded.of(event).message or event.type.lower().replace("_", " ")
        self.stop(event.ts, why)
        for entry in (self._planning, self._run):
            if entry is not None and entry.state == "running":
                fine = good or (entry is self._planning and bool(self.plans))
                entry.completed = event.ts
                self._change(entry, "done" if fine else "failed", event.ts, why, "info" if fine else "error")

    def stop(self, ts: str, why: str) -> None:
        """Mark running tasks as failed, because the run ends (S2-128)."""
        for entry in self.tasks:
            if entry.state == "running":
                self._finish(entry, "failed", ts, f"stopped: {why}")

    # -- the plan's tasks ---------------------------------------------------------------------------------------------

    def _of(self, event: Event) -> Entry | None:
        return self.entries.get(branch_of(event))

    def _started(self, event: Event) -> None:
        entry = self._of(event)
        if entry is None:
            return
        step = StepEvent.of(event)
        entry.attempts, entry.policy = step.attempt, str(step.policy)
        facts = recorded(event, "argv", "process", "tier")
        if entry.state == "running":
            self._tell(entry, event.ts, "info", f"attempt {entry.attempts} begins", facts)
            return
        entry.started = event.ts
        self.began.append(entry.label)
        task = entry.planned
        self.messages.append(Message(event.ts, "L2", "L3", assignment(task)))
        self._change(entry, "running", event.ts, f"{' '.join(task.tools)} begins", payload=facts)

    def _ran(self, event: Event) -> None:
        entry = self._of(event)
        if entry is None:
            return
        step, outcome = StepEvent.of(event), outcome_of(event)
        entry.metrics = TaskMetrics(entry.metrics.duration_ms + int(outcome.durationMs), outcome.exit_code)
        entry.output = _end_of(outcome.output, _ALL_OUTPUT_CHARS // len(self.entries))
        if outcome.artifacts:
            self._keep(entry, outcome.artifacts)
        for denied in outcome.denials:
            self._tell(entry, event.ts, "warn", f"{NETWORK_DENIED} {denied.what}: {denied.why}")
        for untaken in outcome.untaken:
            self._tell(entry, event.ts, "warn", f"not taken over: {untaken.what}: {untaken.why}")
        error = step.error
        if error is None and outcome.changes:
            entry.waits_for_gate = True  # rule 4
            self._tell(entry, event.ts, "info", "its changes go to the gate")
        elif error is None:
            prefix = "[DRY-RUN] " if self.job and self.job.dry else ""
            self._finish(entry, "done", event.ts, f"{prefix}done")
        elif step.retryAt:  # S2-131
            entry.retries += 1
            message = f"attempt {entry.attempts} failed: {error.message}"
            self._tell(entry, event.ts, "warn", message, {"code": error.code, "retryAt": step.retryAt})
        else:
            self._finish(entry, "failed", event.ts, error.message, {"code": error.code})

    def _keep(self, entry: Entry, refs: tuple[Reference, ...]) -> None:
        """Add the artifacts of an attempt. A file replaces an earlier one of the same path."""
        if self._room is not None:
            self._room -= sum(len(ref.path) + _ARTIFACT_BYTES for ref in refs)
            if self._room < 0:
                self.left_out += len(refs)
                self.left_out_bytes += sum(ref.bytes for ref in refs)
                return
        kept = {artifact.path: artifact for artifact in entry.artifacts}
        kept |= {ref.path: TaskArtifact(ref.path, ref.bytes, ref.sha256) for ref in refs}
        entry.artifacts = tuple(kept.values())

    def _through_the_gate(self, event: Event) -> None:
        entry = self._of(event)
        if entry is None or not entry.waits_for_gate:
            return
        entry.waits_for_gate = False
        outcome = outcome_of(event)
        if event.type == "PATCH_APPLIED":
            files = ", ".join(file.path for file in outcome.applied)
            self._finish(entry, "done", event.ts, f"its changes are applied: {files}")
        else:
            why = outcome.reason or (outcome.refusal.message if outcome.refusal else "")
            self._finish(entry, "failed", event.ts, f"its changes were not applied: {why}")

    def _finish(
        self,
        entry: Entry,
        state: Literal["done", "failed"],
        ts: str,
        message: str,
        payload: dict[str, Any] | None = None,
    ) -> None:
        entry.completed = ts
        self._change(entry, state, ts, message, "info" if state == "done" else "error", payload)
        result = TaskResult(entry.planned.task_id, state, entry.logs, entry.artifacts, entry.metrics)
        self.messages.append(Message(ts, "L3", "L2", result))

    # -- lines --------------------------------------------------------------------------------------------------------

    def _change(
        self,
        entry: Entry,
        state: TaskState,
        ts: str,
        message: str,
        level: LogLevel = "info",
        payload: dict[str, Any] | None = None,
    ) -> None:
        entry.state = move(entry.label, entry.state, state)
        self._tell(entry, ts, level, message, payload)

    def _tell(
        self, entry: Entry, ts: str, level: LogLevel, message: str, payload: dict[str, Any] | None = None
    ) -> None:
        payload = payload or {}
        entry.logs = (*entry.logs, TaskLog(ts, level, message, payload))
        if not self._tells:
            return
        self.lines.append(
            Line(
                *_fields(entry),
                trace_id=self.run_id,
                component=_COMPONENTS[entry.level],
                timestamp=ts,
                severity=level,
                message=message,
                payload=payload,
            )
        )

    def take(self) -> list[Line]:
        """The lines since the last call."""
        taken, self.lines = self.lines, []
        return taken

    def take_messages(self) -> list[Message]:
        """The messages between levels since the last call."""
        taken, self.messages = self.messages, []
        return taken


_COMPONENTS: dict[Level, Component] = {1: "L1", 2: "L2", 3: "L3"}


def record(entry: Entry) -> Task:
    """S2's record of a task."""
    return Task(*_fields(entry))


def _fields(entry: Entry) -> tuple[Any, ...]:
    """The fields of `Task`, in its order."""
    planned = entry.planned
    return (
        planned.task_id,
        entry.parent,
        entry.level,
        planned.intent,
        entry.inputs,
        planned.tools,
        planned.constraints,
        entry.state,
        Timestamps(entry.created, entry.started, entry.completed),
        planned.label,
        planned.depends_on if entry.state == "planned" else (),
        entry.retries,
        entry.logs,
        entry.artifacts,
        entry.metrics,
        entry.policy,
    )


R = TypeVar("R")


def _read(event: Event, value: Any, kind: type[R]) -> R:
    """A value of an event, as this kind of record."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        name, way = kind.__name__.lower(), f"What else is there: orchestra logs {event.runId}"
        why = f"is damaged (it holds no {name}: {error}). {way}"
        if is_abridged(event):
            why = f"holds a {name} too long to be shown as long as nobody vouches for the run: adopt it first. {way}"
        raise DurabilityError(f"run {event.runId}: event {event.id} of its journal {why}") from error


def _end_of(output: str, most: int) -> str:
    """The end of what a task printed (rule 5)."""
    most = min(most, _OUTPUT_CHARS)
    return "\n".join(output.rstrip("\n")[-most:].splitlines()[-_OUTPUT_LINES:])


_ALL_OUTPUT_CHARS = 8_000_000  # of all tasks together: 400 each in a graph of 20,000
_OUTPUT_CHARS, _OUTPUT_LINES = 8_000, 21  # one line more than is shown, to detect that there was more
_SHOWN_CHARS = 2_000
_ARTIFACT_BYTES = 400  # of one artifact in memory, besides its path


def _shown(inputs: Inputs) -> Inputs:
    """Inputs for a line of tasks.jsonl: without the contents of big files, which are in plan.json."""
    if sum(len(file.content) for file in inputs.files) <= _SHOWN_CHARS:
        return inputs
    files = tuple(InputFile(file.path, f"({len(file.content)} characters: see plan.json)") for file in inputs.files)
    return Inputs(inputs.args, inputs.env, files)


def assignment(task: PlannedTask) -> Assignment:
    """The L2 → L3 message of a task."""
    return Assignment(task.task_id, task.tools, task.inputs, task.constraints)
