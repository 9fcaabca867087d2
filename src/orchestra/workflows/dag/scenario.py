"""Golden scenarios: a known run and its expected results (F2-12). Reads scenario files and judges runs.

Rules
1. A wrong file is refused with every mistake, its line and the nearest known key (config/yamlfile.py).
2. The run must complete, unless the scenario expects another end. A result that was not checked is no success.
3. `execution_order` is about starts: these tasks began in this order. Others may begin between them.
4. Text is compared in one Unicode form: Hangul written in syllables or in letters is the same.

config/overlay.py applies `config_override` to the project's configuration, and decides what it may change.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from orchestra.config.judge import Judgement, refuse
from orchestra.config.overlay import Overlay
from orchestra.config.sections import Config
from orchestra.config.yamlfile import read_yaml
from orchestra.core.errors import UsageError
from orchestra.workflows.dag.board import Board

Count = Annotated[int, Meta(ge=0)]


class _Section(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all sections: unknown keys are refused."""


class Given(_Section, frozen=True):
    """The input of the run; `plan` is a file beside the scenario that replaces the planner."""

    intent: str
    plan: str = ""


class Range(_Section, frozen=True):
    """A range of numbers; a missing limit is open."""

    min: Count | None = None
    max: Count | None = None


class Signals(_Section, frozen=True):
    """What is expected of the run. `done` means completed (F2-12)."""

    final_state: Literal["completed", "done", "failed", "canceled"] = "completed"  # rule 2
    plan_tasks_count: Count | Range | None = None
    artifacts_count: Count | Range | None = None
    execution_order: tuple[str, ...] = ()


class Golden(_Section, frozen=True):
    """What the report must contain."""

    report_contains: tuple[str, ...] = ()


class Scenario(_Section, frozen=True):
    """The whole file."""

    input: Given
    name: str = ""
    config_override: Config = Config()
    expected_signals: Signals = Signals()
    golden_output: Golden = Golden()


class Expectation(Struct, frozen=True):
    """One expected value, and the actual one."""

    name: str
    expected: Any
    actual: Any
    passed: bool


class Result(Struct, frozen=True, kw_only=True):
    """The result of one scenario."""

    name: str
    file: str
    passed: bool
    status: str
    exitCode: int  # the exit code that `orchestra dag` would have
    runId: str = ""
    dir: str = ""
    message: str = ""
    durationMs: int = 0
    tokens: int = 0
    costUsd: float | None = 0.0  # None: the cost of a call is not known
    expectations: tuple[Expectation, ...] = ()


class EvalReport(Struct, frozen=True, kw_only=True):
    """All scenarios of an `eval run`."""

    passed: bool
    exitCode: int
    scenarios: tuple[Result, ...]


# -- reading ----------------------------------------------------------------------------------------------------------


class Read(Struct, frozen=True):
    """A scenario and the path of its file."""

    scenario: Scenario
    path: Path
    overlay: Overlay | None  # None: nothing is overridden

    @property
    def name(self) -> str:
        return self.scenario.name.strip() or self.path.stem

    @property
    def plan(self) -> Path | None:
        return self.path.parent / self.scenario.input.plan if self.scenario.input.plan else None


def read_scenario(path: Path) -> Read:
    """Read a scenario; UsageError with all of its mistakes."""
    scenario, origins, mistakes = read_yaml(path, Scenario)
    try:
        msgspec.json.encode(scenario)
    except UnicodeEncodeError as error:
        raise UsageError(f"{path} cannot be used: {error.object[error.start]!r} is half a character") from error
    refuse(path, origins, () if mistakes else _judged(scenario), mistakes)
    section = origins.below("config_override")
    return Read(scenario, path, Overlay(path, section) if section.given() else None)


def _judged(scenario: Scenario) -> Iterator[Judgement]:
    """Mistakes in values that have the right type."""
    if not scenario.input.intent.strip():
        yield ("input", "intent"), "it is empty; say what to reach"
    signals = scenario.expected_signals
    for name in ("plan_tasks_count", "artifacts_count"):
        wanted = getattr(signals, name)
        if not isinstance(wanted, Range):
            continue
        if wanted.min is None and wanted.max is None:
            yield ("expected_signals", name), "give a number, `min` or `max`"
        elif wanted.min is not None and wanted.max is not None and wanted.min > wanted.max:
            yield ("expected_signals", name), f"nothing is both {wanted.min} or more and {wanted.max} or less"
    order = signals.execution_order
    for index, label in enumerate(order):
        if label in order[:index]:
            yield ("expected_signals", "execution_order", index), f"{label!r} stands twice; a task starts once"
    for index, text in enumerate(scenario.golden_output.report_contains):
        if not text.strip():
            yield ("golden_output", "report_contains", index), "it is empty, which every report holds"


# -- judging ----------------------------------------------------------------------------------------------------------


def judge(scenario: Scenario, board: Board, status: str, report: str) -> tuple[Expectation, ...]:
    """Compare every expectation with the results of a run."""
    signals = scenario.expected_signals
    state = "completed" if signals.final_state == "done" else signals.final_state
    found = [Expectation("final_state", state, status, state == status)]
    artifacts = sum(len(entry.artifacts) for entry in board.tasks)
    for name, actual in (("plan_tasks_count", len(board.tasks)), ("artifacts_count", artifacts)):
        wanted = getattr(signals, name)
        if wanted is not None:
            found.append(Expectation(name, msgspec.to_builtins(wanted), actual, _within(actual, wanted)))
    if signals.execution_order:
        began = started(board)
        fits = [label for label in began if label in signals.execution_order] == list(signals.execution_order)
        found.append(Expectation("execution_order", signals.execution_order, tuple(began), fits))
    text = unicodedata.normalize("NFC", report)
    for wanted in scenario.golden_output.report_contains:
        holds = unicodedata.normalize("NFC", wanted) in text
        found.append(Expectation("report_contains", wanted, "found" if holds else "not found", holds))
    return tuple(found)


def started(board: Board) -> list[str]:
    """The labels of the tasks that began, in this order, each once."""
    return [label for label in board.began if label in board.entries]


def _within(number: int, wanted: int | Range) -> bool:
    if isinstance(wanted, int):
        return number == wanted
    return (wanted.min or 0) <= number and (wanted.max is None or number <= wanted.max)
