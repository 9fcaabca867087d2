"""Running tests, for real, in the sandbox: the red run, the verification, the whole suite.

Rules
1. The test command is a person's, the configuration's or detected, never a model's (G3-9). A subtask's run has the name
   of its test file as one more word, where the runner can select it.
2. A run that cannot do its work for want of something outside the project asks a person, and runs again: no patch can
   mend it.
3. Failing tests are run again on the same files, so often as the job says. A test that then passes is flaky: it is
   recorded, and counts as passed.
"""

from __future__ import annotations

from orchestra.core.command import CommandOutcome, RunCommand
from orchestra.core.context import Context
from orchestra.core.inbox import free_name
from orchestra.core.looks import file_name
from orchestra.core.work import AskPerson
from orchestra.workflows.contracts.effects import ReadTests
from orchestra.workflows.contracts.shapes import Work
from orchestra.workflows.contracts.testcommand import TestCommand, reporting, selecting
from orchestra.workflows.contracts.testruns import TestRun, settled

FOLDER = "{artifacts}"  # stands for the folder that a test run writes its report into (core/command.py)
MOST_ASKED = 5  # times that a person is asked about a missing environment in one place


async def run_tests(here: Context, work: Work, name: str, command: TestCommand) -> TestRun:
    """Run a test command on the files as they are, and read its results (rule 2)."""
    for _ in range(MOST_ASKED):
        run, outcome = await _run(here, work, name, command)
        if not outcome.blocked:
            break
        await _ask_for_environment(here, name, outcome)
    return run


async def _run(here: Context, work: Work, name: str, command: TestCommand) -> tuple[TestRun, CommandOutcome]:
    key = here.peek_key(name)
    started = reporting(command, FOLDER)
    effect = RunCommand(
        argv=started.argv,
        timeoutMs=work.job.testTimeoutMs,
        artifact=f"tests/{file_name(key)}.txt",
        asker=work.job.asker,
        keeps="layer",
        env=started.env,
        files=started.files,
        reports=True,
    )
    outcome = await here.perform(name, effect)
    read = await here.perform(f"{name}-results", ReadTests(command.runner, of=key, line=command.line))
    assert read.found is not None  # the command was run just now
    return read.found, outcome


async def _ask_for_environment(here: Context, name: str, outcome: CommandOutcome) -> None:
    key = here.peek_key(f"{name}-environment")
    question = AskPerson(
        questionId=free_name(file_name(key)),
        question=f"`{outcome.command}` cannot do its work here: {outcome.blocked}. Answer when it is cured: the tests"
        " run again. Or cancel the run.",
        reason="what is missing lies outside the project, so no patch can mend it",
        needed_input=(outcome.cure,) if outcome.cure else (),
        artifact=f"ask/{file_name(key)}.md",
    )
    await here.at("ask", 1).perform(f"{name}-environment", question)


async def settled_run(here: Context, work: Work, name: str, command: TestCommand, run: TestRun) -> TestRun:
    """The run, after its failing tests were run again (rule 3)."""
    if run.passed or run.error:
        return run
    for _ in range(work.job.reruns):
        run = settled(run, await run_tests(here, work, f"{name}-again", command))
        if run.passed:
            break
    return run


def whole_suite(work: Work) -> TestCommand:
    """The command that runs all tests."""
    return TestCommand(work.job.test, work.job.runner)


def subtask_command(work: Work, test_file: str) -> TestCommand:
    """The command that runs one test file; all tests, if the runner cannot select one (rule 1)."""
    suite = whole_suite(work)
    return selecting(suite, test_file) or suite
