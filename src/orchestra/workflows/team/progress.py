"""How far a team's run has come, read from its events: phases, log lines, reviews, files, findings. Pure.

Everything that people and programs read of a run comes from here: run-meta.json, the agents' logs, the review files,
the report, `compare`.

Rules
1. A phase is running from its first step, and completed when it is settled, or when a later phase begins. Work on an
   earlier phase (`rerun --stale`) makes it the running one again.
2. The newest review of a target in a round counts. A first review that is made again takes the place of both rounds.
3. A file is the run's own while its phase lasts. When the phase has ended, the run has looked at the file, and from
   then on it is a person's to edit (flow.py, rule 1): its text is not derived from events any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchestra.core.errors import ContractError
from orchestra.core.looks import Seen
from orchestra.core.reading import RunCreated, StepEvent, effect_of, job_of, outcome_as, outcome_of
from orchestra.core.records import FINAL, Event
from orchestra.core.tables import Fold
from orchestra.core.text import brief
from orchestra.workflows.team.board import Board
from orchestra.workflows.team.definitions import DECISIONS, Definition
from orchestra.workflows.team.effects import Settled
from orchestra.workflows.team.replies import Kept, read_reply
from orchestra.workflows.team.shapes import Job

PhaseStatus = Literal["pending", "running", "completed", "failed"]  # G4-5
LogStatus = Literal["in_progress", "completed", "error"]  # S4-89
_WORK = ("ModelCall", "ChildRun")
_WRITING = ("draft", "update", "revise")
_DOING = {
    "draft": "drafts {}",
    "update": "brings {} up to date",
    "review": "reviews {}",
    "revise": "revises {}",
    "decide": "decides between findings",
    "build": "builds",
}


class LogLine(Struct, frozen=True, omit_defaults=True):
    """A line of `logs/{agent}.jsonl` (S4-84 … S4-92)."""

    timestamp: str
    agent: str
    phase: int
    turn: int
    status: LogStatus
    message: str
    artifact: str = ""


class MetaPhase(Struct, frozen=True, omit_defaults=True):
    """A phase in run-meta.json (S4-28, S4-29)."""

    phase: int
    status: PhaseStatus
    reviewRounds: int = 0
    startedAt: str = ""
    completedAt: str = ""


class MetaError(Struct, frozen=True):
    """A failure of an agent in run-meta.json."""

    phase: int
    agent: str
    message: str
    timestamp: str
    retried: bool


class Meta(Struct, frozen=True):
    """run-meta.json (S4-20 … S4-31)."""

    id: str
    orchestrator: str
    task: str
    status: str
    startedAt: str
    completedAt: str | None
    agents: tuple[str, ...]
    phases: tuple[MetaPhase, ...]
    inputRunId: str | None
    totalCostUsd: float
    totalInputTokens: int = 0
    totalOutputTokens: int = 0
    errors: tuple[MetaError, ...] = ()


class Progress:
    """The state of a run, event by event."""

    def __init__(self) -> None:
        self.fold = Fold()
        self.definition: Definition | None = None
        self.inputRun = ""
        self.errors: list[MetaError] = []
        self.reviews: dict[str, dict[int, str]] = {}  # by file: the text of each round
        self.drafts: dict[str, str] = {}  # by path: the newest text of a reply
        self.looked: dict[str, str] = {}  # by path: the digest of the file, when it was last looked at
        self.settled: dict[int, Settled] = {}
        self.kept_out: list[tuple[str, Kept]] = []  # by agent: blocks of replies that were kept out
        self.touched: set[str] = set()  # the paths of texts that the last event changed
        self._started = self._ended = ""
        self._phases: dict[int, dict[str, str]] = {}

    @classmethod
    def of(cls, events: Iterable[Event]) -> Progress:
        """The state after these events."""
        progress = cls()
        for event in events:
            progress.add(event)
        return progress

    def add(self, event: Event) -> None:
        """Take over one event."""
        self.fold.add(event)
        self.touched.clear()
        if event.type == "RUN_CREATED":
            self._begin(event)
        elif event.type in FINAL:
            self._end(event)
        elif effect_of(event) in ("Look", "WriteFile"):
            self._look(event)
        elif (step := StepEvent.of(event)).stage:
            self._work(event, step)

    # -- the run ------------------------------------------------------------------------------------------------------

    def _begin(self, event: Event) -> None:
        created = RunCreated.of(event)
        self._started = created.forkedFrom.made if created.forkedFrom else event.ts
        self.inputRun = created.inputRunId
        try:
            job = msgspec.convert(job_of(event), Job)
        except msgspec.ValidationError:
            return  # of another version: the run is shown as far as every run can be
        self.definition = job.definition
        self.drafts = {given.path: given.text for given in job.given if given.path == DECISIONS}
        self._phases = {phase.number: {"status": "pending"} for phase in self.definition.team.phases}

    def _end(self, event: Event) -> None:
        self._ended = event.ts
        for known in self._phases.values():
            if event.type == "RUN_COMPLETED":
                known["status"] = "completed"
                known.setdefault("startedAt", event.ts)
                known.setdefault("completedAt", event.ts)
            elif known["status"] == "running":
                known["status"] = "failed"

    def _look(self, event: Event) -> None:
        seen = outcome_as(event, Seen)
        if seen is not None and seen.inside == "run" and not seen.conflict:
            self.looked[seen.path] = seen.file

    # -- steps of agents ----------------------------------------------------------------------------------------------

    def _work(self, event: Event, step: StepEvent) -> None:
        self._note_phase(event, step)
        if (done := outcome_as(event, Settled)) is not None and effect_of(event) == "SettlePhase":
            self.settled[done.phase] = done
            self.touched.add(DECISIONS)
        if effect_of(event) not in _WORK:
            return
        if event.type == "PHASE_FAILED":
            again = bool(step.retryAt)
            self.errors.append(MetaError(step.stage, step.agent, brief(step.message, 1000), event.ts, again))
        elif event.type == "PHASE_COMPLETED" and step.native in _WRITING:
            self._note_files(event, step)
        elif event.type == "PHASE_COMPLETED" and step.native == "review" and self.definition:
            file = self.definition.review_file(step.stage, step.agent, step.target)
            before = {number: text for number, text in self.reviews.get(file, {}).items() if number < step.round}
            self.reviews[file] = {**before, step.round: outcome_of(event).text}  # rule 2
            self.touched.add(file)

    def _note_phase(self, event: Event, step: StepEvent) -> None:
        """Rule 1."""
        for number, known in self._phases.items():
            if number < step.stage and known["status"] == "running":
                known |= {"status": "completed", "completedAt": known.get("completedAt", event.ts)}
            elif number == step.stage:
                known.setdefault("startedAt", event.ts)
                known |= {"status": "completed" if step.native == "settle" else "running", "completedAt": event.ts}

    def _note_files(self, event: Event, step: StepEvent) -> None:
        if self.definition is None:
            return
        try:
            reply = read_reply(outcome_of(event).text, self.definition.artifacts_of(step.agent))
        except ContractError:
            return  # of another version
        self.drafts |= reply.files
        self.touched |= reply.files.keys()
        self.kept_out += [(step.agent, one) for one in reply.out]

    # -- what is shown ------------------------------------------------------------------------------------------------

    @property
    def board(self) -> Board:
        """The findings and decisions of the phases that have ended, and the newest texts of replies."""
        return Board(self.drafts, tuple(self.settled[number] for number in sorted(self.settled)))

    @property
    def own_files(self) -> tuple[str, ...]:
        """The paths of deliverables that are still the run's own (rule 3)."""
        return tuple(path for path in dict.fromkeys((*self.drafts, DECISIONS)) if self.text(path))

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all deliverables so far."""
        return tuple(dict.fromkeys((*self.looked, *self.own_files)))

    def text(self, path: str) -> str:
        """The text of a file that is the run's own: a review, a deliverable; empty if it is not (rule 3)."""
        if path in self.reviews:
            return self._review(self.reviews[path])
        if path in self.looked:
            return ""
        return self.board.decisions_file if path == DECISIONS else self.drafts.get(path, "")

    def _review(self, rounds: dict[int, str]) -> str:
        """The text of a review file: all rounds (G4-4)."""
        return "\n".join(
            f"{text.strip()}\n" if number == 1 else f"## Round {number}\n\n{text.strip()}\n"
            for number, text in sorted(rounds.items())
        )

    def meta(self, cost: float, tokens: tuple[int, int]) -> Meta | None:
        """run-meta.json; None before the run began."""
        if self.definition is None:
            return None
        state = self.fold.state
        return Meta(
            id=state.runId,
            orchestrator=self.definition.team.name,
            task=self.definition.task.name,
            status=state.status,
            startedAt=self._started,
            completedAt=self._ended or None,
            agents=tuple(agent.name for agent in self.definition.agents),
            phases=tuple(self._phase(number, known) for number, known in self._phases.items()),
            inputRunId=self.inputRun or None,
            totalCostUsd=round(cost, 6),
            totalInputTokens=tokens[0],
            totalOutputTokens=tokens[1],
            errors=tuple(self.errors),
        )

    def _phase(self, number: int, known: dict[str, str]) -> MetaPhase:
        done = self.settled.get(number)
        fields: dict[str, Any] = dict(known)
        if known["status"] == "running":
            fields.pop("completedAt", None)
        return MetaPhase(number, reviewRounds=done.rounds if done else 0, **fields)


def log_line(event: Event) -> LogLine | None:
    """The line of an event in its agent's log; None if it has none (S4-92)."""
    step = StepEvent.of(event)
    if not step.stage or not step.agent or effect_of(event) not in _WORK:
        return None
    doing = what_is_done(step)
    match event.type:
        case "PHASE_STARTED":
            status, message = "in_progress", doing
        case "PHASE_COMPLETED":
            status, message = "completed", f"{doing}: done"
        case "PHASE_FAILED":
            status, message = "error", f"{doing}: {step.message}"
        case _:
            return None
    return LogLine(event.ts, step.agent, step.stage, step.turn, status, message, step.target)  # type: ignore[arg-type]


def what_is_done(step: StepEvent) -> str:
    """What an agent does in a step, in words."""
    return _DOING.get(step.native, step.native).format(step.target.rpartition("/")[2])
