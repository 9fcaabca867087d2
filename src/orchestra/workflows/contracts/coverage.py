"""Coverage of a contract's `coverage_targets`: how it is measured, and what coverage.py's report says about each. Pure.

Rules
1. It is measured where the runner is pytest or unittest and coverage.py is installed beside it. Elsewhere the coverage
   of every target is unknown, and said to be so; it is never guessed.
2. A target is a function, method or class (`AService.getData`, `pkg.module.function`), or a file. A name that fits two
   places is unknown: which one is meant cannot be told.
3. The report is made by a command that the project's code ran in: it is read within bounds, and only shown. No gate
   depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import msgspec
from msgspec import Struct

from orchestra.core.errors import ContractError
from orchestra.workflows.contracts.testcommand import TestCommand

MOST_BYTES = 8 << 20


class Covered(Struct, frozen=True, omit_defaults=True):
    """How much of a target the tests ran."""

    target: str
    percent: float | None = None  # None: unknown
    missing: tuple[int, ...] = ()  # lines that no test ran
    path: str = ""
    why: str = ""  # it is unknown

    @property
    def said(self) -> str:
        """The coverage in one line."""
        if self.percent is None:
            return f"{self.target}: unknown ({self.why})"
        left = f", not run: {_ranges(self.missing)}" if self.missing else ""
        return f"{self.target}: {self.percent:.0f} % of {self.path}{left}"


class _Part(Struct, frozen=True):
    """A file, a function or a class of the report."""

    executed_lines: tuple[int, ...] = ()
    missing_lines: tuple[int, ...] = ()


class _File(Struct, frozen=True):
    executed_lines: tuple[int, ...] = ()
    missing_lines: tuple[int, ...] = ()
    functions: dict[str, _Part] = {}
    classes: dict[str, _Part] = {}


class _Report(Struct, frozen=True):
    files: dict[str, _File]


# One process: coverage.py keeps its data in memory, so that no file is left between two commands. pytest's plugins that
# measure themselves, or run the tests in processes of their own, are switched off. Where the tests replace the tracer,
# no report is written: it would show lines as not run that were.
_SCRIPT = """
import importlib.util, runpy, sys
import coverage
report, module = sys.argv[1:3]
sys.argv = sys.argv[2:]
if module == "pytest":
    plugins = (("pytest_cov", "--no-cov"), ("xdist", "-n0"))
    sys.argv += [option for name, option in plugins if importlib.util.find_spec(name)]
measured = coverage.Coverage(data_file=None, source=["."])
measured.start()
tracer = sys.gettrace()
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
finally:
    replaced = sys.gettrace() is not tracer
    measured.stop()
    if not replaced:
        measured.json_report(outfile=report)
"""


def measuring(command: TestCommand, report: str) -> tuple[str, ...] | None:
    """The command that runs the tests and writes coverage.py's report; None if it cannot be measured (rule 1)."""
    module = {"pytest": "pytest", "unittest": "unittest"}.get(command.runner)
    names = [PurePosixPath(word).name for word in command.argv]
    at = next((number for number, name in enumerate(names) if name in (module, "py.test")), None)
    if module is None or at is None:
        return None
    started = command.argv[:at]  # `python -m`, `uv run`, nothing
    before = started[:-1] if started[-1:] == ("-m",) else (*started, "python")
    return (*before, "-c", _SCRIPT, report, module, *command.argv[at + 1 :])


def covered(targets: Sequence[str], report: bytes | None, why: str = "the runner measures none") -> tuple[Covered, ...]:
    """The coverage of each target by coverage.py's JSON report; unknown without one."""
    if report is None:
        return tuple(Covered(target, why=why) for target in targets)
    if len(report) > MOST_BYTES:
        raise ContractError("REPORT_TOO_LONG", f"the coverage report has more than {MOST_BYTES >> 20} MiB")
    try:
        files = msgspec.json.decode(report, type=_Report).files
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ContractError("REPORT_INVALID", f"the coverage report is not coverage.py's JSON: {error}") from error
    return tuple(_of(target, files) for target in targets)


def _of(target: str, files: dict[str, _File]) -> Covered:
    found = list(_places(target, files))
    if not found:
        return Covered(target, why="no measured file has it")
    if len(found) > 1:
        return Covered(target, why=f"{found[0][0]} and {found[1][0]} both have it")
    path, part = found[0]
    lines = len(part.executed_lines) + len(part.missing_lines)
    percent = 100.0 * len(part.executed_lines) / lines if lines else 100.0
    return Covered(target, round(percent, 1), part.missing_lines, path)


def _places(target: str, files: dict[str, _File]) -> Iterator[tuple[str, _Part | _File]]:
    """The files, functions or classes that a target may mean (rule 2)."""
    wanted = re.split(r"\.|::|#", target.strip().removesuffix("()"))
    for path, file in files.items():
        if path == target or path.endswith(f"/{target}"):
            yield path, file
            continue
        module = [*PurePosixPath(path).with_suffix("").parts]
        for name, part in (*file.functions.items(), *file.classes.items()):
            whole = [*module, *name.split(".")]
            if name and whole[-len(wanted) :] == wanted:
                yield f"{path}::{name}", part


def _ranges(lines: Sequence[int]) -> str:
    """Line numbers as people write them: 3-5, 9."""
    found: list[list[int]] = []
    for line in sorted(lines):
        if found and line == found[-1][1] + 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
