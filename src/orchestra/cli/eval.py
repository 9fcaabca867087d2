"""`orchestra eval run`: runs golden scenarios, and compares the results with the expected ones.

Rules
1. Every scenario, its configuration, plan and provider is checked before the first run begins.
2. A run is made like one of `orchestra dag`, without a person to ask. A run that parks, or that no model answered, has
   failed its scenario. A refusal by the policy is a result, and may be the expected one.
3. Exit code: 0 if all passed, 130 if interrupted, else that of the first run that could not be carried out (4, 5, 6),
   else 1.
4. Progress goes to stderr, the report to stdout.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.advice import command
from orchestra.cli.audit import total
from orchestra.cli.dag import read_plan
from orchestra.cli.driving import Drive
from orchestra.cli.graph import graph_events
from orchestra.cli.text import safe
from orchestra.config.judge import refuse
from orchestra.core.calls import calls_in
from orchestra.core.engine import RunEnd
from orchestra.core.errors import OrchestraError, PolicyError, ProviderErrorCode, UsageError
from orchestra.core.reading import Request, RunEnded
from orchestra.core.records import FINAL
from orchestra.core.text import cell
from orchestra.policy.policy import ApprovalPolicy
from orchestra.providers.choose import Models
from orchestra.runs.find import RunSummary
from orchestra.workflows.dag.report import board_of
from orchestra.workflows.dag.scenario import EvalReport, Expectation, Read, Result, judge, read_scenario
from orchestra.workflows.dag.shapes import Job
from orchestra.workflows.dag.workflow import configured_job

_ORDINARY = (0, 1, 2, 3)  # exit codes of runs that count as 1 if the scenario failed; 2 means that nothing was run
_NO_RESULT = get_args(ProviderErrorCode)  # error codes of a run without a model's answer, which is never expected
INTERRUPTED = 130


class Ready(NamedTuple):
    """A checked scenario, with its app, job and models."""

    read: Read
    drive: Drive
    job: Job
    models: Models
    typed: tuple[str, ...]


@click.group()
def eval() -> None:
    """Run golden scenarios and compare their results with the expected ones."""


@eval.command(short_help="Run scenarios, and report which passed.")
@click.argument("paths", metavar="SCENARIO...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--report", type=click.Choice(["md", "json"]), default="md", show_default=True, help="What is printed on stdout."
)
@options.approval("a plan or a change", default="risk")
@options.models
@options.project
def run(
    paths: tuple[Path, ...],
    report: Literal["md", "json"],
    approval: ApprovalPolicy | None,
    who: options.Answering,
    project: Path,
) -> int:
    """Run each SCENARIO, a YAML file or a folder of them, as `orchestra dag` would, in the project folder.

    \b
    orchestra eval run scenarios/                      # every *.yaml in it
    orchestra eval run licences.yaml --report json
    orchestra eval run licences.yaml --provider scripted:replies.yaml

    No person is asked: a run that needs an approval fails its scenario, unless you give --approval never.

    Exit code 0: all passed; 1: one failed; 2: a scenario cannot be used, and nothing was run; 4, 5, 6: a run could not
    be carried out (budget, policy, provider).
    """
    files = {file.resolve(): file for path in paths for file in _files(path)}.values()  # each once
    app = App(project)
    ready = _checked(files, approval, who, project)
    results: list[Result] = []
    for number, one in enumerate(ready, start=1):
        if results and results[-1].exitCode == INTERRUPTED:
            results.append(_not_run(one, INTERRUPTED, "the one before was interrupted"))
            continue
        _say(f"\nscenario {number} of {len(ready)}: {safe(one.read.name)} ({safe(str(one.read.path))})")
        results.append(_run(one))
    code = _exit_code(results)
    made = EvalReport(passed=code == 0, exitCode=code, scenarios=tuple(results))
    _say("")
    text = msgspec.json.encode(made).decode() if report == "json" else "\n".join(_markdown(made))
    click.echo(app.project.redactor.text(text))
    return made.exitCode


def _say(text: str) -> None:
    """Print progress to stderr; ignore a closed stderr."""
    try:
        click.echo(text, err=True)
    except OSError:
        pass


# -- checking ---------------------------------------------------------------------------------------------------------


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [_regular(path, "scenario")]
    found = [_regular(file, "scenario") for file in sorted(path.glob("*.yaml"))]
    if not found:
        raise UsageError(f"{path} has no scenario: no *.yaml is in it")
    return found


def _regular(path: Path, what: str) -> Path:
    """The path, if it is a regular file. Reading a device or a pipe in a repository would never end."""
    if path.exists() and not path.is_dir() and not path.is_file():
        raise UsageError(f"{what} {path} is no regular file")
    return path


def _checked(
    files: Iterable[Path], approval: ApprovalPolicy | None, who: options.Answering, project: Path
) -> list[Ready]:
    """Check all scenarios (rule 1); UsageError with the mistakes of all files."""
    ready: list[Ready] = []
    wrong: list[OrchestraError] = []
    for file in files:
        try:
            ready.append(_check(read_scenario(file), approval, who, project))
        except (UsageError, PolicyError) as error:
            wrong.append(error)
    if wrong:
        kind = UsageError if any(isinstance(error, UsageError) for error in wrong) else PolicyError
        raise kind("\n".join(dict.fromkeys(map(str, wrong))))
    return ready


def _check(read: Read, approval: ApprovalPolicy | None, who: options.Answering, project: Path) -> Ready:
    drive = Drive(options.Driving(project, as_json=False, no_input=True, quiet=False), overlay=read.overlay)
    app = drive.app
    if read.overlay is not None:
        given = read.overlay.origins.given
        wrong = (
            mistake
            for mistake in app.project.providers.mistakes(app.workflows.wrong_role)
            if given(*map(str, mistake[0])) is not None
        )
        refuse(read.path, read.overlay.origins, wrong)
    models = options.routed(who, app.project.providers)
    usual = configured_job(app.project, options.clean(read.scenario.input.intent).strip())
    plan = read_plan(_regular(read.plan, "plan"), f"{read.path}: the plan") if read.plan is not None else None
    job = msgspec.structs.replace(usual, plan=plan, approval=approval or usual.approval, source=_source(read))
    job, models = app.check("dag", job, models)  # now, so that `replay:last` is not a run of another scenario
    return Ready(read, drive, job, models, ("approval",) if approval else ())


def _source(read: Read) -> str:
    return os.path.relpath(read.plan) if read.plan is not None else "the plan"


# -- running ----------------------------------------------------------------------------------------------------------


def _run(ready: Ready) -> Result:
    """Run one scenario and judge it."""
    app, began = ready.drive.app, time.monotonic()
    try:
        end = ready.drive.conduct(lambda: app.start("dag", ready.job, ready.models, typed=ready.typed))
    except OrchestraError as error:  # no run could be made, e.g. the disk is full
        return _not_run(ready, error.exit_code, str(error))
    spent = round((time.monotonic() - began) * 1000)
    folder = app.runs.find(end.run_id)
    summary = app.runs.summary(folder)
    report = "\n".join(app.runs.report_of(folder))
    found = judge(ready.read.scenario, board_of(graph_events(summary)), end.status, report)
    failure = RunEnded.of(summary.events[-1]).error
    unanswered = failure is not None and failure.code in _NO_RESULT
    calls = total(calls_in(folder, summary.events))
    return _result(
        ready,
        passed=not unanswered and end.status in FINAL.values() and all(one.passed for one in found),
        status=end.status,
        exitCode=end.exit_code,
        runId=folder.id,
        dir=str(folder.path),
        message=f"no model answered, which is no result: {end.message}"
        if unanswered
        else _message(end, ready, summary),
        durationMs=spent,
        tokens=calls["inputTokens"] + calls["outputTokens"],
        costUsd=calls["costUsd"],
        expectations=found,
    )


def _exit_code(results: list[Result]) -> int:
    """The exit code of the command (rule 3)."""
    codes = [result.exitCode for result in results if not result.passed]
    if INTERRUPTED in codes:
        return INTERRUPTED
    return next((code for code in codes if code not in _ORDINARY), 1 if codes else 0)


def _not_run(ready: Ready, code: int, why: str) -> Result:
    return _result(ready, passed=False, status="not run", exitCode=code, message=why)


def _result(ready: Ready, **facts: Any) -> Result:
    return Result(name=options.clean(ready.read.name), file=options.clean(str(ready.read.path)), **facts)


def _message(end: RunEnd, ready: Ready, summary: RunSummary) -> str:
    """A message for a person, in addition to the expectations."""
    if end.exit_code == INTERRUPTED and ready.read.overlay is not None:
        return f"interrupted; run the scenario again. End this run: {command(ready.drive.app, 'cancel', end.run_id)}"
    if end.exit_code == INTERRUPTED:
        return f"interrupted; go on: {command(ready.drive.app, 'resume', end.run_id)}"
    if end.exit_code != 3:
        return end.message
    app, asks = ready.drive.app, ready.job.approval != "never"
    reasons = [reason for event in summary.fold.pending.values() for reason in Request.of(event).reasons]
    why = f" ({'; '.join(reasons)})" if reasons else ""
    cure = "give --approval never, or let the project allow it" if asks else "let a rule of the project allow it"
    still = f"It still waits: {command(app, 'show', end.run_id)}"
    return f"the run waits for a person{why}, and a scenario has nobody to ask: {cure}. {still}"


# -- telling ----------------------------------------------------------------------------------------------------------


def _markdown(report: EvalReport) -> Iterator[str]:
    scenarios = report.scenarios
    yield f"# Scenarios: {sum(result.passed for result in scenarios)} of {len(scenarios)} passed"
    yield from ("", "| scenario | result | time | tokens | cost | run |", "|---|---|---|---|---|---|")
    for result in scenarios:
        cost = "unknown" if result.costUsd is None else f"${result.costUsd:.4f}"
        run = f"`{result.runId}`" if result.runId else ""
        took = f"{result.durationMs / 1000:.1f} s"
        yield f"| {cell(result.name)} | {_bold(_verdict(result))} | {took} | {result.tokens} | {cost} | {run} |"
    for result in scenarios:
        yield from ("", f"## {cell(result.name)}: {_verdict(result)}", "", f"- file: `{cell(result.file)}`")
        if result.dir:
            yield f"- run folder: `{cell(result.dir)}`"
        if result.message:
            yield f"- {result.status}: {cell(result.message, 2000)}"
        if result.expectations:
            yield from ("", "| expectation | expected | actual | |", "|---|---|---|---|")
        for one in result.expectations:
            verdict = _bold("passed" if one.passed else "failed")
            yield f"| {one.name} | {_expected(one)} | {_value(one.actual)} | {verdict} |"


def _verdict(result: Result) -> str:
    return "passed" if result.passed else "failed" if result.runId else "not run"


def _bold(word: str) -> str:
    return word if word == "passed" else f"**{word}**"


def _expected(one: Expectation) -> str:
    if isinstance(one.expected, dict):
        sides = {"min": "at least", "max": "at most"}
        return ", ".join(f"{sides[side]} {number}" for side, number in one.expected.items())
    return _value(one.expected)


def _value(value: object) -> str:
    return cell(", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value))
