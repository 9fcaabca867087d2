"""A subtask: test contract, test code, the red run, the implementation, its verification, and what follows from it.

    test-contract.yaml ─▶ test code ─ GATE-1 ─▶ red run ─▶ implementation (child run) ─ GATE-3 ─▶ tests ─▶ result
          ▲ test_error                                        ▲ implementation_error                       │
          └───────────────────────────────────────────────────┴──────────────── design_violation: redesign ┘

Rules
1. Test code and implementation hold for their contracts: an edition. One that is replaced takes back what the subtask
   has changed.
2. `retry_implementation` keeps the last attempt in the files. The next attempt is a fixer's, and is told what failed.
3. The implementation is a child run without fixes of its own; the red run is its baseline, its check the verification.
   The tests are run again only if the files are others by then, or to find flaky ones.
4. A person is asked when the retries are used up, with the failing result on disk.
5. After the last subtask of a task the whole suite is run. What fails there, and did not before the request began, is a
   failure of that subtask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchestra.core.command import CommandOutcome
from orchestra.core.context import Context
from orchestra.core.effects import ChildResult
from orchestra.core.errors import OrchestraError
from orchestra.core.inbox import free_name
from orchestra.core.looks import Looked, file_name
from orchestra.core.text import brief
from orchestra.core.work import AskPerson, Note
from orchestra.workflows.contracts import documents
from orchestra.workflows.contracts.asking import begin, edition_number, restore
from orchestra.workflows.contracts.discovery import look, write_document
from orchestra.workflows.contracts.effects import ReadTests, Settle
from orchestra.workflows.contracts.gates import Passing, gate_1, gate_2, gate_3, implementer_scope, wrong_test_path
from orchestra.workflows.contracts.judging import classify, judge_design
from orchestra.workflows.contracts.knowledge import Known
from orchestra.workflows.contracts.places import TESTS
from orchestra.workflows.contracts.progress import Verified
from orchestra.workflows.contracts.proving import Implemented, prove
from orchestra.workflows.contracts.records import DesignContract, PlannedSubtask, TestContract
from orchestra.workflows.contracts.retrying import REDESIGN, RETRY, STOP, Problem, Route, route_of
from orchestra.workflows.contracts.rules import Ids
from orchestra.workflows.contracts.shapes import IMPLEMENTER, TEST_CONTRACT, Brief, Text, Work, labels, template
from orchestra.workflows.contracts.testcommand import TestCommand, reporting
from orchestra.workflows.contracts.testing import write_tests
from orchestra.workflows.contracts.testruns import TestRun, failures_of, passed_cases, result_of, seen_red
from orchestra.workflows.contracts.verification import FOLDER, run_tests, settled_run, subtask_command, whole_suite

BUILDER = "loop"  # the workflow that implements
REWRITES = "rewrites"  # the subtask's state: why its tests were written again
FIX_LIMIT = "FIX_LIMIT"  # how a child run ends whose checks fail
RETRY_LIMIT = "RETRY_LIMIT"  # the error of a request whose retries are used up


class Subtask(Struct, frozen=True):
    """A subtask, and what it is made from."""

    work: Work
    planned: PlannedSubtask
    design: DesignContract
    design_file: Looked
    brief_file: Looked
    tests: tuple[str, ...]  # test files of the subtasks before it
    redesigns: int  # of its task, so far
    red: tuple[str, ...]  # tests that failed before the request began
    last: bool = False  # of its task

    @property
    def id(self) -> str:
        return self.planned.id

    @property
    def ids(self) -> Ids:
        return Ids(request_id=self.work.request, task_id=self.design.task_id, subtask_id=self.id)


class Done(Struct, frozen=True):
    """A complete subtask."""

    test_file: str


class Redesign(Struct, frozen=True):
    """The task must be designed again."""

    problem: Problem


class Rewrite(Struct, frozen=True):
    """The tests must be written again."""

    problem: Problem


class Stopped(OrchestraError):
    """The request ends here: a person's answer, or a child run that failed for good."""

    def __init__(self, code: str, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.code, self.exit_code = code, exit_code


class Attempt(Struct, frozen=True):
    """An attempt at the implementation: its number, and what the one before left to repair."""

    number: int = 1
    problem: str = ""
    cause: str = ""  # of the failure before, in one line

    def pitfall(self, subtask: str) -> str:
        """What later implementers should know of it; empty if nothing failed."""
        return f"{subtask} failed at first: {self.cause}" if self.cause else ""


class Follows(Struct, frozen=True):
    """The result of an attempt: the next step, the problems for the role that repairs them, the cause in one line."""

    route: Route
    problem: str = ""
    cause: str = ""


class Tried(Struct, frozen=True):
    """An attempt at the implementation, and its test run; None: nothing was written that could be tested."""

    child: ChildResult
    run: TestRun | None


async def do_subtask(subtask: Subtask, known: Known, ctx: Context) -> Done | Redesign:
    """One subtask, until it is complete or its task must be designed again (S3-124 … S3-126)."""
    while True:
        here = ctx.again()
        contract, file = await write_contract(here, subtask)
        ended = await build(here, subtask, contract, file, known)
        if not isinstance(ended, Rewrite):
            return ended
        why = [*rewrites(ctx), ended.problem]
        await ctx.at("fix", 1, labels("retry", subtask.id)).keep(REWRITES, why)


def rewrites(ctx: Context) -> list[Problem]:
    """Why the tests were written again, so far."""
    return msgspec.convert(ctx.kept(REWRITES, []), list[Problem])


async def write_contract(ctx: Context, subtask: Subtask) -> tuple[TestContract, Looked]:
    """The test contract, by the QA engineer (S3-74)."""
    work, why = subtask.work, rewrites(ctx)
    sources: dict[str, Text] = {
        "design-contract.yaml": subtask.design_file,
        "subtask": f"{subtask.id} {subtask.planned.name}\n{subtask.planned.description}",
        "what was wrong with the tests before": "\n\n".join(one.text for one in why),
    }
    asked = Brief(work, TEST_CONTRACT, sources, subtask.id, round=1 + len(why))
    stamp = {"subtask_name": subtask.planned.name}
    here = await begin(ctx, "contract", asked)
    made = await write_document(here, asked, TestContract, subtask.ids, stamp, wrong_test_path)
    path = work.places.subtask(work.request, subtask.id, TESTS)
    file = await look(ctx, "test-contract", path, made, TestContract, subtask.ids)
    return documents.read(str(file), TestContract, TESTS, ids=subtask.ids), file


# -- test code, implementation, verification --------------------------------------------------------------------------


class Build(Struct, frozen=True):
    """What the attempts at an implementation have in common."""

    subtask: Subtask
    contract: TestContract
    file: Looked  # of the contract
    command: TestCommand
    pitfalls: str  # what the implementer is told of earlier failures
    rewrites: int = 0  # of the tests, so far

    @property
    def tests(self) -> tuple[str, ...]:
        """The test files that the implementer may not touch."""
        return (*self.subtask.tests, self.contract.test_file_path)


async def build(
    ctx: Context, subtask: Subtask, contract: TestContract, file: Looked, known: Known
) -> Done | Redesign | Rewrite:
    """Everything that holds for these contracts (rule 1)."""
    inputs: dict[str, object] = {"design-contract.yaml": subtask.design_file, "test-contract.yaml": file}
    inputs["rewrites"] = len(rewrites(ctx))
    here = await ctx.at("execute", 1, labels("test-code", subtask.id)).edition("work", inputs)
    if edition_number(here) > 1:
        await restore(here, f"{subtask.design.task_id}/{subtask.id}")
    written = await write_tests(here, subtask.work, subtask.ids, contract, file, subtask.design_file)
    command = subtask_command(subtask.work, contract.test_file_path)
    red = await run_tests(here.at("execute", 1, labels("red", subtask.id)), subtask.work, "red", command)
    gate = gate_1(contract, written, seen_red(red, contract, subtask.red), passed_cases(red, contract))
    await record_gate(here, subtask.id, gate)
    pitfalls = await known.pitfalls_for(here)
    return await attempts(here, Build(subtask, contract, file, command, pitfalls, len(rewrites(ctx))), red, known)


async def attempts(here: Context, build: Build, red: TestRun, known: Known) -> Done | Redesign | Rewrite:
    """Implement and verify, until it passes or something else must be done first (rules 2 and 4)."""
    subtask, attempt, before = build.subtask, Attempt(), red
    while True:
        tried = await implement(here, build, attempt, before)
        next_one = await verify(here, build, attempt, tried)
        if next_one.route == "complete":
            known.learn_pitfall(attempt.pitfall(subtask.id))
            return Done(build.contract.test_file_path)
        chosen = await next_step(here, build, next_one, attempt)
        if chosen == "design":
            return Redesign(Problem(subtask.id, next_one.problem))
        if chosen == "tests":
            return Rewrite(Problem(subtask.id, next_one.problem))
        attempt, before = Attempt(attempt.number + 1, next_one.problem, next_one.cause), tried.run or before


async def verify(here: Context, build: Build, attempt: Attempt, tried: Tried) -> Follows:
    """What follows from an attempt."""
    if tried.run is None:
        return Follows("implementation", tried.child.error, brief(tried.child.error, 300))
    subtask, number = build.subtask, attempt.number
    at = here.at("evaluate", number, labels("verify", subtask.id, number))
    changed = tried.child.paths
    within = gate_3(subtask.design, changed, build.tests)
    await record_gate(at, subtask.id, within)
    if within.status == "failed":
        return Follows("implementation", within.why, within.why)
    run = (await settled_run(at, subtask.work, "tests", build.command, tried.run)).without(subtask.red)
    if run.passed and subtask.last:
        run = await with_suite(at, subtask, build.command, run)
    if run.passed and (wrong := await judge_design(at, subtask.work, subtask.id, subtask.design_file, changed)):
        return Follows("design", wrong, brief(wrong, 300))
    failures = failures_of(run, build.contract)
    classes = await classify(at, subtask.work, subtask.ids, build.file, run, failures) if failures else {}
    result = result_of(run, build.contract, classes, await at.now("verified"))
    passed = result.recommendation.action == "complete"
    verified = Verified(result, run, number, attempt.pitfall(subtask.id) if passed else "")
    await at.perform("result", Settle(msgspec.to_builtins(verified)))
    await record_gate(at, subtask.id, gate_2(result))
    if passed:
        await record_proof(here, build, Implemented(tried.child.childRunId, tried.run.durationMs), number)
        return Follows("complete")
    cause = "; ".join(f"{one.id} {one.name}: {one.reason}" for one in result.failed_tests)
    problem = f"{documents.write(result)}\nOutput of the tests:\n{run.output}"
    return Follows(route_of(result.failed_tests, passed=False), problem, brief(cause, 300))


async def record_proof(here: Context, build: Build, tried: Implemented, number: int) -> None:
    """Record what the passed tests prove, for readers; nothing depends on it."""
    at = here.at("evaluate", number, labels("prove", build.subtask.id, number))
    proved = await prove(at, build.subtask.work, build.contract, build.command, tried)
    if any(proved.lines):
        await at.perform("proved", Settle(msgspec.to_builtins(proved)))


async def with_suite(at: Context, subtask: Subtask, command: TestCommand, run: TestRun) -> TestRun:
    """The run of the task's last subtask, after the whole suite: the suite's own, if that fails (rule 5)."""
    suite = whole_suite(subtask.work)
    if suite.argv == command.argv:
        return run
    whole = await run_tests(at, subtask.work, "suite", suite)
    whole = (await settled_run(at, subtask.work, "suite", suite, whole)).without(subtask.red)
    return run if whole.passed else whole


async def record_gate(here: Context, target: str, passing: Passing) -> None:
    """Record how a gate was judged."""
    name = passing.gate.lower()
    at = here.at("evaluate", 1, labels("gate", target))
    await at.perform(name, Settle(msgspec.to_builtins(passing)))


async def next_step(here: Context, build: Build, follows: Follows, attempt: Attempt) -> Route:
    """The next step; past a limit of retries a person decides (rule 4)."""
    subtask, route, job = build.subtask, follows.route, build.subtask.work.job
    done = {"design": subtask.redesigns, "tests": build.rewrites, "implementation": attempt.number - 1}
    most = job.designs if route == "design" else job.implementations
    if done[route] < most:
        return route
    answer = await _ask(here, subtask, route, follows.problem)
    if answer == STOP:
        raise Stopped(RETRY_LIMIT, f"a person's answer stopped {subtask.id}. Last problem: {follows.cause}")
    return "design" if answer == REDESIGN else "implementation"


async def _ask(here: Context, subtask: Subtask, route: Route, problem: str) -> str:
    key = here.peek_key("retries")
    what = "designs of the task" if route == "design" else "attempts at the implementation"
    question = AskPerson(
        questionId=free_name(file_name(key)),
        question=f"{subtask.id} {subtask.planned.name}: the {what} are used up. What now?",
        reason=problem[:2_000],
        needed_input=(),
        artifact=f"ask/{file_name(key)}.md",
        kind="decision",
        options=(RETRY, REDESIGN, STOP),
        default=STOP,
        impact="retry: the implementation once more. redesign: the task's design anew. stop: the request ends here.",
    )
    return (await here.at("ask", 1, labels("retry", subtask.id)).perform("retries", question)).text


# -- the implementation -----------------------------------------------------------------------------------------------


async def implement(here: Context, build: Build, attempt: Attempt, before: TestRun) -> Tried:
    """One attempt: a child run with the contracts as notes (rule 3)."""
    subtask, number = build.subtask, attempt.number
    at = here.at("fix" if number > 1 else "execute", number, labels("implement", subtask.id, number))
    child = await at.call("implement", BUILDER, _job(build, attempt, before, at.changes))
    if child.status != "completed" and child.code != FIX_LIMIT:
        code = child.code or "CHILD_FAILED"
        raise Stopped(code, f"{subtask.id}: {child.childRunId}: {child.error}", child.exitCode or 1)
    verifying = here.at("evaluate", number, labels("verify", subtask.id, number))
    read = await verifying.perform(
        "results", ReadTests(build.command.runner, child=child.childRunId, line=build.command.line)
    )
    if read.found is not None:
        return Tried(child, read.found)
    if child.status == "failed" and not child.paths:
        return Tried(child, None)
    return Tried(child, await run_tests(verifying, subtask.work, "tests", build.command))


def _job(build: Build, attempt: Attempt, before: TestRun, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The job of the child run: no fixes and no plan of its own. `changes` are a person's (`resume --approval`)."""
    subtask, job = build.subtask, build.subtask.work.job
    started = reporting(build.command, FOLDER)
    notes = [
        Note("design-contract.yaml", str(subtask.design_file)),
        Note("test-contract.yaml", str(build.file)),
        Note("design-brief.yaml", str(subtask.brief_file)),
    ]
    notes += job.notes
    if build.pitfalls:
        notes.append(Note("what went wrong before, in this project", build.pitfalls))
    own = {"subtask": subtask.id, "name": subtask.planned.name, "tests": build.contract.test_file_path}
    wanted = {
        "goal": f"{subtask.id} {subtask.planned.name}\n\n{subtask.planned.description}".strip(),
        "plan": template("implement.plan").format(**own),
        "notes": notes,
        "agent": IMPLEMENTER,
        "checks": [started.argv],
        "testEnv": started.env,
        "testFiles": started.files,
        "before": [_as_outcome(before)],
        "scope": implementer_scope(subtask.design, build.tests),
        "approval": subtask.work.approval(changes),
        "maxFixIterations": 0,
        "evaluator": False,
        "baseline": False,
        "timeoutMs": job.timeoutMs,
        "checkTimeoutMs": job.testTimeoutMs,
        "retries": job.retries,
        "backoffSec": job.backoffSec,
        "context": job.context,
        "hidden": job.hidden,
    }
    if attempt.problem:
        wanted["problem"] = attempt.problem
    jsonable: dict[str, Any] = msgspec.to_builtins(wanted)
    return jsonable


def _as_outcome(run: TestRun) -> CommandOutcome:
    """A test run as the baseline of a child run."""
    status: Literal["pass", "fail", "not_run"] = "not_run" if run.error else "pass" if run.passed else "fail"
    return CommandOutcome(run.command, run.exitCode, status, 0, False, run.output, error=run.error)
