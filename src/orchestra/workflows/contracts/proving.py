"""What the passed tests of a subtask prove: coverage of `coverage_targets`, and small faults that they notice.

Rules
1. Both are reported and never block: they show tests that prove nothing.
2. Coverage is measured by one more run of the tests, with coverage.py, where the contract has targets and the runner
   can (contracts/coverage.py). Else each target is unknown.
3. Each fault is put over the implemented file for one run of the subtask's tests (mutating.py); the project's own file
   is never touched. So many as the job says, as long as a minute per subtask allows. Faults that are left then were
   not tried, and are said to be so; also if none could be put into the lines, as into other languages than Python.
4. A fault is noticed if the tests fail, or take much longer than without it. What could not be run is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from msgspec import Struct

from orchestra.core.command import CommandOutcome, InputFile, RunCommand
from orchestra.core.context import Context, Handlers, Step
from orchestra.core.effects import Effect
from orchestra.core.errors import ContractError, OddFile
from orchestra.core.files import MIB, read_below
from orchestra.core.looks import file_name
from orchestra.core.reading import key_of, outcome_as
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.work import PatchProposal
from orchestra.workflows.contracts.coverage import MOST_BYTES, Covered, covered, measuring
from orchestra.workflows.contracts.hunks import hunks_of
from orchestra.workflows.contracts.mutating import Mutant, mutants
from orchestra.workflows.contracts.records import TestContract
from orchestra.workflows.contracts.shapes import Work
from orchestra.workflows.contracts.testcommand import TestCommand
from orchestra.workflows.project import Project

FOLDER = "{artifacts}"  # stands for the folder that a test run writes its report into (core/command.py)
_REPORT = "coverage.json"
_MOST_FILE = 64 * 1024  # bytes of a file that faults are put into: its text is in the journal
_TOTAL_MS = 60_000  # of the tests of all faults of a subtask
_LEAST_MS = 5_000  # that the tests of one fault may take
_SLOWER = 4  # tests that take so many times as long as without the fault do not end


Verdict = Literal["noticed", "not noticed", "not run"]


class Fault(Struct, frozen=True):
    """A fault, and whether the tests noticed it."""

    said: str
    verdict: Verdict


class Implemented(Struct, frozen=True):
    """What is proved: the implementation of a child run, and how long its passed tests took."""

    child: str
    tookMs: int


class Proved(Struct, frozen=True, tag_field="kind", tag=True, omit_defaults=True):
    """What the flow records about the tests of a subtask."""

    coverage: tuple[Covered, ...] = ()
    faults: tuple[Fault, ...] = ()
    faultless: tuple[str, ...] = ()  # the implemented files, if no fault could be put into them

    @property
    def lines(self) -> Iterable[str]:
        """For people: each target, then the faults that nothing noticed."""
        yield from (f"coverage of {one.said}" for one in self.coverage)
        if self.faults:
            noticed = sum(one.verdict == "noticed" for one in self.faults)
            left = sum(one.verdict == "not run" for one in self.faults)
            untried = f", {left} could not be tried" if left else ""
            yield f"{noticed} of {len(self.faults)} small faults were noticed by the tests{untried}"
        if self.faultless:
            yield f"no small fault was tried: none can be put into the implemented lines of {', '.join(self.faultless)}"
        yield from (f"not noticed: {one.said}" for one in self.faults if one.verdict == "not noticed")


# -- effects ----------------------------------------------------------------------------------------------------------


class Faults(Struct, frozen=True):
    """The outcome of PlanFaults."""

    mutants: tuple[Mutant, ...]
    paths: tuple[str, ...] = ()  # the implemented files


class PlanFaults(Effect[Faults], frozen=True):
    """Choose faults in the lines that a child run implemented. Only reads."""

    child: str
    most: int

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Faults


class Coverage(Struct, frozen=True):
    """The outcome of ReadCoverage."""

    covered: tuple[Covered, ...]


class ReadCoverage(Effect[Coverage], frozen=True):
    """Read the coverage of targets from the report that a step of this run left."""

    of: str
    targets: tuple[str, ...]

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Coverage


class Proving:
    """The handlers of these effects, for one run."""

    def __init__(self, project: Project, children: Path) -> None:
        """`children` is the folder of the child runs that implement."""
        self._project = project
        self._children = children

    @property
    def handlers(self) -> Handlers:
        return {PlanFaults: self.plan, ReadCoverage: self.read}

    async def plan(self, effect: PlanFaults, step: Step) -> Faults:
        folder = RunFolder(self._children / effect.child)
        lines: dict[str, set[int]] = {}
        for event in self._project.store.all_events(folder):
            proposal = outcome_as(event, PatchProposal) if event.type == "PATCH_PRODUCED" else None
            if proposal is not None:
                diff = folder.recorded(proposal.patch, MIB).decode("utf-8", "replace")
                for hunk in hunks_of(diff):
                    lines.setdefault(hunk.path, set()).update(range(hunk.first, hunk.last + 1))
        return Faults(tuple(_chosen(self._project.workspace, lines, effect.most)), tuple(sorted(lines)))

    async def read(self, effect: ReadCoverage, step: Step) -> Coverage:
        ends = [event for event in step.ledger.events if key_of(event) == effect.of]
        return Coverage(_coverage(step.ledger.folder, ends, effect.targets))


def _chosen(workspace: Path, lines: Mapping[str, set[int]], most: int) -> Iterable[Mutant]:
    """The faults, shared evenly among the files."""
    share = -(-most // max(len(lines), 1))
    found: list[Mutant] = []
    for path in sorted(lines):
        try:
            text = read_below(workspace, path, _MOST_FILE).decode()
        except (OSError, OddFile, UnicodeDecodeError):
            continue
        found += mutants(path, text, lines[path], share)
    return found[:most]


def _coverage(folder: RunFolder, events: Iterable[Event], targets: tuple[str, ...]) -> tuple[Covered, ...]:
    outcomes = [outcome for event in events if (outcome := outcome_as(event, CommandOutcome)) is not None]
    passed = [outcome for outcome in outcomes if outcome.status == "pass"]  # else it was measured only in part
    reports = [one for outcome in passed for one in outcome.artifacts if one.path.endswith(_REPORT)]
    if not reports:
        return covered(targets, None, "coverage.py is not installed beside the tests, or it could not measure them")
    try:
        return covered(targets, folder.recorded(reports[-1], MOST_BYTES))
    except ContractError as unreadable:
        return covered(targets, None, str(unreadable))


# -- the flow's part --------------------------------------------------------------------------------------------------


async def prove(here: Context, work: Work, contract: TestContract, command: TestCommand, tried: Implemented) -> Proved:
    """What the tests of a subtask prove, which passed just now (rules 2 and 3)."""
    coverage = await _measure(here, work, contract, command) if contract.coverage_targets else ()
    if not work.job.mutants:
        return Proved(coverage)
    planned = await here.perform("faults", PlanFaults(tried.child, work.job.mutants))
    faults = await _try_faults(here, work, command, planned.mutants, tried.tookMs)
    return Proved(coverage, faults, () if faults else planned.paths)


async def _measure(here: Context, work: Work, contract: TestContract, command: TestCommand) -> tuple[Covered, ...]:
    argv = measuring(command, f"{FOLDER}/{_REPORT}")
    if argv is None:
        return covered(contract.coverage_targets, None)
    key = here.peek_key("coverage")
    effect = RunCommand(
        argv=argv,
        timeoutMs=work.job.testTimeoutMs,
        artifact=f"tests/{file_name(key)}.txt",
        asker=work.job.asker,
        keeps="layer",
        reports=True,
    )
    await here.perform("coverage", effect)
    read = await here.perform("coverage-results", ReadCoverage(key, contract.coverage_targets))
    return read.covered


async def _try_faults(
    here: Context, work: Work, command: TestCommand, planned: Iterable[Mutant], took_ms: int
) -> tuple[Fault, ...]:
    spent = 0
    found: list[Fault] = []
    for mutant in planned:
        limit = time_for_fault(took_ms, spent)
        if limit is None:
            found.append(Fault(mutant.said, "not run"))
            continue
        effect = RunCommand(
            argv=command.argv,
            timeoutMs=min(work.job.testTimeoutMs, limit),
            artifact=f"tests/{file_name(here.peek_key('fault'))}.txt",
            asker=work.job.asker,
            keeps="nothing",
            files=(InputFile(mutant.path, mutant.text),),
        )
        outcome = await here.perform("fault", effect)
        spent += outcome.durationMs
        found.append(Fault(mutant.said, verdict_of(outcome)))
    return tuple(found)


def time_for_fault(took_ms: int, spent_ms: int) -> int | None:
    """How long the tests may take with the next fault; None if the time of all faults does not allow it (rule 3).

    `took_ms` is what they take without a fault, `spent_ms` what the faults before have taken.
    """
    limit = max(_LEAST_MS, _SLOWER * took_ms)
    return limit if spent_ms + limit <= _TOTAL_MS else None


def verdict_of(outcome: CommandOutcome) -> Verdict:
    """Whether the tests noticed a fault, by how they ended with it (rule 4)."""
    if outcome.blocked:
        return "not run"
    if outcome.limit:
        return "noticed"
    verdicts: dict[str, Verdict] = {"pass": "not noticed", "fail": "noticed"}
    return verdicts.get(outcome.status, "not run")
