"""From a request to the evidence for it, and back: task, subtask, test case, test run, hunk. Pure.

Rules
1. Everything follows from what was executed and applied: test runs as they were read, patches as they were applied. A
   test case is passed if its tests passed in the newest run that had them. No model and no state.json is asked.
2. A test run covers the files that its subtask's patches changed. Its evidence is stale if one of them was changed
   later: by another patch of the request, by a take-back, or by somebody else since (its bytes are not those of its
   last patch).
   Evidence is stale as well if the subtask's test contract, or its task's brief or design, was edited since.
3. What was taken back (a design or tests that were replaced) is no longer there: its hunks are left out. The lines of a
   hunk are those that it has now, after later patches of the request.
4. A subtask is done if its newest result completes it and every test case is passed and not stale. It is unproven if a
   test case was not run, such as one that a person added since. A task is done if all its subtasks are, a request if
   all its tasks are (S3-131 … S3-133).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from orchestra.core.looks import Look, Seen, WriteFile
from orchestra.core.reading import StepEvent, effect_of, key_of, outcome_as
from orchestra.core.records import Event
from orchestra.workflows.contracts.effects import ReadTests, Runs
from orchestra.workflows.contracts.hunks import TracedHunk
from orchestra.workflows.contracts.places import BRIEF, DESIGN, TESTS, task_of
from orchestra.workflows.contracts.progress import Progress, SubtaskProgress, TaskProgress
from orchestra.workflows.contracts.records import TestContract
from orchestra.workflows.contracts.testreport import Case, Status, case_of, tests_of
from orchestra.workflows.contracts.testruns import TestRun, seen_red
from orchestra.workflows.contracts.verifying import is_complete

State = Literal["done", "stale", "unproven", "failed", "in progress", "pending"]
Kind = Literal["tests", "implementation", "taken back"]
# The state of a whole is the first of these that one of its parts has.
_ORDER: tuple[State, ...] = ("failed", "in progress", "unproven", "stale", "pending", "done")


class Change(Struct, frozen=True):
    """A patch that was applied."""

    runId: str
    event: str
    at: str
    target: str  # the subtask; a task for what is taken back of all its subtasks
    kind: Kind
    hunks: tuple[TracedHunk, ...]
    after: Mapping[str, str | None]  # the digest of each file after it; None: it is gone, or unknown


class Evidence(Struct, frozen=True, omit_defaults=True):
    """The test run that shows a test case."""

    key: str  # of the step in the run's journal
    command: str
    exitCode: int | None
    tree: str
    at: str
    status: Status
    tests: tuple[str, ...]
    stale: str = ""  # why it is; empty: it is not


class TracedCase(Struct, frozen=True):
    """A test case and its evidence."""

    id: str
    name: str
    evidence: Evidence | None


class TracedSubtask(Struct, frozen=True):
    """A subtask, its test cases and its hunks."""

    id: str
    name: str
    state: State
    red: bool | None  # whether its tests were seen to fail before the implementation; None: they were not run
    cases: tuple[TracedCase, ...]
    changes: tuple[Change, ...]
    proof: tuple[str, ...] = ()  # coverage of its targets, and small faults that its tests noticed or not


class TracedTask(Struct, frozen=True):
    """A task and its subtasks."""

    id: str
    name: str
    state: State
    subtasks: tuple[TracedSubtask, ...]


class TracedRequest(Struct, frozen=True):
    """A request and its tasks."""

    id: str
    text: str
    runId: str
    state: State
    tasks: tuple[TracedTask, ...]

    @property
    def subtasks(self) -> Iterator[TracedSubtask]:
        return (subtask for task in self.tasks for subtask in task.subtasks)


# -- what was applied -------------------------------------------------------------------------------------------------


def _moved(hunk: TracedHunk, later: TracedHunk) -> TracedHunk:
    """Where the lines of a hunk are after a later one in the same file."""
    more = later.added - later.removed
    if later.path != hunk.path or later.first > hunk.last:
        return hunk
    if later.first + later.removed <= hunk.first:
        return replace(hunk, first=hunk.first + more, last=hunk.last + more)
    return replace(hunk, last=max(hunk.first, hunk.last + more))


def target_of(keys: Iterable[str]) -> str:
    """The subtask or task that a step belongs to, by the keys that lead to it (`T1/T1-S2/work@1/implement.2`)."""
    names = [name for key in keys for name in key.split("/")]
    subtasks = [name for name in names if _is(name, "-S")]
    return subtasks[-1] if subtasks else next((name for name in names if _is(name, "")), "")


def _is(name: str, joint: str) -> bool:
    """Whether a name is the id of a subtask (`joint` is -S) or of a task."""
    task, found, number = name.partition("-S")
    return task[:1] == "T" and task[1:].isdigit() and found == joint and (number.isdigit() or not joint)


def left_of(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes that were not taken back later (rule 3)."""
    left: list[Change] = []
    for change in changes:
        if change.kind != "taken back":
            left = [_after(one, change.hunks) for one in left] + [change]
            continue
        paths = set(change.after)
        left = [one if not _belongs(one.target, change.target) else _without(one, paths) for one in left]
    return tuple(one for one in left if one.hunks)


def _after(change: Change, later: Sequence[TracedHunk]) -> Change:
    """A change with the lines that its hunks have after later ones."""
    hunks = list(change.hunks)
    for one in later:
        hunks = [_moved(hunk, one) for hunk in hunks]
    return replace(change, hunks=tuple(hunks))


def _belongs(target: str, above: str) -> bool:
    return target == above or target.startswith(f"{above}-S")


def _without(change: Change, paths: set[str]) -> Change:
    hunks = tuple(hunk for hunk in change.hunks if hunk.path not in paths)
    after = {path: digest for path, digest in change.after.items() if path not in paths}
    return replace(change, hunks=hunks, after=after)


# -- what was executed ------------------------------------------------------------------------------------------------


class _Run(Struct, frozen=True):
    """A test run and the step that read it."""

    key: str
    native: str
    target: str
    run: TestRun


def _runs(events: Iterable[Event]) -> list[_Run]:
    found: list[_Run] = []
    for event in events:
        if event.type == "PHASE_COMPLETED" and effect_of(event) == ReadTests.__name__:
            read = outcome_as(event, Runs)
            if read is not None and read.found is not None:
                step = StepEvent.of(event)
                found.append(_Run(key_of(event), step.native, step.target, read.found))
    return found


def _looked(events: Iterable[Event]) -> dict[str, str]:
    """The digest of each contract file as the run saw it last, by path."""
    found: dict[str, str] = {}
    for event in events:
        if effect_of(event) in (Look.__name__, WriteFile.__name__) and (seen := outcome_as(event, Seen)):
            found[seen.path] = seen.file
    return found


# -- the trace --------------------------------------------------------------------------------------------------------


class Traced:
    """The parts that a trace is made of."""

    def __init__(
        self,
        run_id: str,
        events: Iterable[Event],
        contracts: Mapping[str, TestContract],
        changes: Sequence[Change],
        now: Callable[[str], str | None],
    ) -> None:
        """`contracts` are those on disk, by subtask; `now` gives the digest of a file as it is, None if it is gone."""
        kept = list(events)
        self._run_id = run_id
        self._progress = Progress.of(kept)
        self._runs = _runs(kept)
        before = next((one.run for one in reversed(self._runs) if one.native == "baseline"), None)
        self._red_before = tuple(one.id for one in before.failing) if before else ()
        self._looked = _looked(kept)
        self._contracts = contracts
        self._all = changes
        self._left = left_of(changes)
        self._now = now

    def request(self) -> TracedRequest:
        """The whole request."""
        progress = self._progress
        tasks = tuple(self._task(progress.tasks[name]) for name in progress.order)
        state = _whole([task.state for task in tasks], progress.ended)
        return TracedRequest(progress.request, progress.text, self._run_id, state, tasks)

    def _task(self, task: TaskProgress) -> TracedTask:
        subtasks = tuple(self._subtask(task.subtasks[name]) for name in task.order)
        state: State = "pending" if task.status == "pending" else _whole([one.state for one in subtasks])
        return TracedTask(task.id, task.name, state, subtasks)

    def _subtask(self, subtask: SubtaskProgress) -> TracedSubtask:
        changes = tuple(change for change in self._left if change.target == subtask.id)
        contract = self._contracts.get(subtask.id)
        cases = tuple(self._cases(subtask, contract, changes)) if contract else ()
        reds = [one.run for one in self._runs if one.native == "red" and one.target == subtask.id]
        red = seen_red(reds[-1], contract, self._red_before) if reds and contract else None
        proof = tuple(subtask.proved.lines) if subtask.proved else ()
        return TracedSubtask(subtask.id, subtask.name, _state(subtask, cases), red, cases, changes, proof)

    def _cases(
        self, subtask: SubtaskProgress, contract: TestContract, changes: Sequence[Change]
    ) -> Iterator[TracedCase]:
        own = [one for one in self._runs if one.native == "verify" and one.target == subtask.id]
        names: dict[str, set[str]] = {one.id: set() for one in contract.test_cases}
        for test in (test for one in own for test in tests_of(one.run.tests, contract.test_file_path)):
            if known := case_of(test.id, contract.test_cases):
                names[known].add(test.id)
        edited = self._edited(subtask.id)
        covered = {path for change in changes for path in change.after}
        undone = [one for one in self._all if one.kind == "taken back" and _belongs(subtask.id, one.target)]
        for case in contract.test_cases:
            found = self._evidence(subtask.id, names[case.id])
            if found is not None:
                gone = {path for one in undone if one.at > found.at for path in one.after}
                found = replace(found, stale=edited or self._stale(found.at, covered | gone))
            yield TracedCase(case.id, case.name, found)

    def _evidence(self, subtask: str, tests: set[str]) -> Evidence | None:
        """The newest run that had these tests; where runs name no tests, the newest of the subtask (rule 1)."""
        for one in reversed([one for one in self._runs if one.native == "verify"]):
            run = one.run
            shown = [test for test in run.tests if test.id in tests]
            if not run.tests and one.target == subtask:
                return _evidence(one, "passed" if run.passed else "failed", ())
            if shown:
                return _evidence(one, _together(shown), tuple(test.id for test in shown))
        return None

    def _edited(self, subtask: str) -> str:
        """Why all evidence of a subtask is stale: a contract that it was made from was edited; empty if none was."""
        request, task = self._progress.request, task_of(subtask)
        own = (f"{task}/{BRIEF}", f"{task}/{DESIGN}", f"{task}/{subtask}/{TESTS}")
        for name in own:
            path = next((path for path in self._looked if path.endswith(f"/{request}/{name}")), "")
            if path and self._now(path) not in (None, self._looked[path]):
                return f"{request}/{name} was edited since"
        return ""

    def _stale(self, at: str, covered: set[str]) -> str:
        """Why evidence of this time is stale (rule 2); empty if it is not."""
        last: dict[str, Change] = {}
        for change in self._all:
            last |= dict.fromkeys(change.after, change)
        for path in sorted(covered):
            change = last[path]
            if change.at > at:
                return f"{path} was changed later, for {change.target}"
            if change.after[path] is not None and self._now(path) != change.after[path]:
                return f"{path} was edited since"
        return ""


def _evidence(one: _Run, status: Status, tests: tuple[str, ...]) -> Evidence:
    run = one.run
    return Evidence(one.key, run.command, run.exitCode, run.tree, run.at, status, tests)


def _together(tests: Sequence[Case]) -> Status:
    """Failed if a test failed, passed if one passed, else skipped."""
    statuses = {test.status for test in tests}
    return "failed" if "failed" in statuses else "passed" if "passed" in statuses else "skipped"


def _state(subtask: SubtaskProgress, cases: Sequence[TracedCase]) -> State:
    """The state of a subtask (rule 4)."""
    if subtask.status in ("pending", "in_progress"):
        return "in progress" if subtask.status == "in_progress" else "pending"
    result = subtask.results[-1].result if subtask.results else None
    evidence = [case.evidence for case in cases]
    if subtask.status == "failed" or result is None or not is_complete(result):
        return "failed"
    if any(one is not None and one.status == "failed" for one in evidence):
        return "failed"
    if not cases or any(one is None or one.status != "passed" for one in evidence):
        return "unproven"
    return "stale" if any(one is not None and one.stale for one in evidence) else "done"


def _whole(states: Sequence[State], ended: str = "") -> State:
    """The state of what these are the parts of."""
    if not states:
        return "failed" if ended and ended != "RUN_COMPLETED" else "in progress"
    if {*states} == {"pending", "done"}:
        return "failed" if ended else "in progress"
    return next(state for state in _ORDER if state in states)
