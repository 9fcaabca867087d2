"""Reads what test runners report: the cases of a run. Pure.

Rules
1. A report comes from a command that a model's code ran in. It is untrusted: its size, depth and number of cases are
   limited, XML with a document type or entities is refused, and reading takes time in proportion to the length.
2. JUnit XML comes from pytest, vitest, node, gradle, gotestsum and jest-junit; JSON from jest. Where there is no such
   file, the output of unittest -v, go test -v and cargo test is read. Of any other command only the exit code is known.
3. Of a name that occurs twice, as a test that is run again after it failed, every case is reported.
4. A test belongs to TC-n if its name contains `tc_n` (any case, `-` or `_`), or the name of the test case. Of nested
   names (`adder > tc_1 adds`, `TestAdd/tc_1`) the innermost that has one counts.
5. A test of go that has tests inside is not counted, unless it failed and none of them did.
6. Only tests of the contract's own test file belong to its cases: every subtask has a TC-1. Where a report does not
   show the files of tests (go), all tests count; else none counts where the file's own did not run.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Literal
from xml.parsers import expat

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchestra.core.errors import ContractError
from orchestra.core.text import brief
from orchestra.workflows.contracts.records import TestCase
from orchestra.workflows.contracts.testcommand import Runner

MOST_BYTES = 4 << 20  # of one report
_MOST_CASES = 20_000
_MOST_DEPTH = 20
_MOST_REASON = 600  # characters
_MOST_TAIL = 4000
_BARE = 25  # a shorter message says too little
_MOST_OUTPUT = 1 << 20  # characters of output that are read
_IN_CLASSES = (".py", ".java")  # files whose modules or classes have their names
_SHORTEST_NAME = 4  # letters of a test case's name that may stand for the case
_TC = re.compile(r"(?:(?<![^\W_])[tT][cC]|(?<=[a-z])TC)[-_](\d{1,9})(?!\d)")
PRINTING: frozenset[Runner] = frozenset(("unittest", "go", "cargo"))  # runners whose output is read
Status = Literal["passed", "failed", "skipped"]


class Case(Struct, frozen=True, omit_defaults=True):
    """One test of a run."""

    name: str
    status: Status
    reason: str = ""  # of a test that failed or was skipped
    group: str = ""  # its class, suite or package
    file: str = ""  # as the runner wrote it

    @property
    def id(self) -> str:
        """The test's name, which is the same in the next test run."""
        return "::".join(part for part in (self.file or self.group, self.group if self.file else "", self.name) if part)


def cases_in(runner: Runner, reports: Iterable[bytes], output: str) -> tuple[Case, ...]:
    """The cases of a test run: from its reports, else from its output; none if only the exit code is known (rule 2)."""
    found: list[Case] = []
    for report in reports:
        found += read_report(report, runner)
    if not found and runner in PRINTING:
        readers = {"unittest": _unittest, "go": _go, "cargo": _cargo}
        found = list(readers[runner](output[-_MOST_OUTPUT:].splitlines()))
    if runner in ("go", "gotestsum"):
        found = list(_innermost(found))
    return tuple(found[:_MOST_CASES])


def read_report(data: bytes, runner: Runner = "other") -> tuple[Case, ...]:
    """The cases of a report file, JUnit XML or jest's JSON; ContractError if it is neither."""
    if len(data) > MOST_BYTES:
        raise report_too_long()
    return _jest(data) if data.lstrip()[:1] == b"{" else _junit(data, suites=runner == "node")


def report_too_long() -> ContractError:
    """The error of a report with more than MOST_BYTES."""
    return ContractError("REPORT_TOO_LONG", f"the test report has more than {MOST_BYTES >> 20} MiB")


def _junit(data: bytes, *, suites: bool) -> tuple[Case, ...]:
    reading = _Junit(suites=suites)
    parser = expat.ParserCreate()
    parser.StartElementHandler = reading.start
    parser.EndElementHandler = reading.end
    parser.CharacterDataHandler = reading.text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError) as error:  # LookupError: an encoding that is unknown
        raise ContractError("REPORT_INVALID", f"the test report is no XML: {error}") from error
    return tuple(reading.cases)


def _refuse_doctype(*declared: object) -> None:
    raise ContractError("REPORT_INVALID", "the test report has a document type, which no test report needs")


class _Junit:
    """JUnit XML while it is read: <testsuite> … <testcase> with <failure>, <error>, <skipped> or nothing."""

    def __init__(self, *, suites: bool) -> None:
        """`suites`: the names of suites are part of a test's name, which says nothing else about them (node)."""
        self.cases: list[Case] = []
        self._suites: list[str] | None = [] if suites else None
        self._depth = 0
        self._case: dict[str, str] | None = None
        self._status: Status = "passed"
        self._reason = ""
        self._tail = ""  # the end of the text inside a failure
        self._inside = False  # of a failure

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ContractError("REPORT_INVALID", f"the test report is nested deeper than {_MOST_DEPTH} levels")
        if tag == "testsuite" and self._suites is not None:
            self._suites.append(attributes.get("name", ""))
        elif tag == "testcase":
            self._case, self._status, self._reason, self._tail = attributes, "passed", "", ""
            if attributes.get("status") in ("skipped", "disabled", "notrun"):
                self._status = "skipped"
        elif self._case is not None and tag in ("failure", "error"):
            self._status, self._inside = "failed", True
            self._reason = self._reason or attributes.get("message", "") or attributes.get("type", "")
        elif self._case is not None and tag == "skipped" and self._status != "failed":
            self._status, self._reason = "skipped", attributes.get("message", "")

    def text(self, text: str) -> None:
        if self._inside:
            self._tail = (self._tail + text)[-_MOST_TAIL:]

    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag in ("failure", "error"):
            self._inside = False
        elif tag == "testsuite" and self._suites is not None:
            self._suites.pop()
        elif tag == "testcase" and self._case is not None:
            if len(self.cases) >= _MOST_CASES:
                raise ContractError("REPORT_INVALID", f"the test report has more than {_MOST_CASES:,} tests")
            given, reason = self._case, self._reason
            last = (self._tail.strip().splitlines() or [""])[-1]
            if len(reason) < _BARE and re.search(r"\w", last):  # "collection failure": the last line has the cause
                reason = last if last.startswith(reason) else f"{reason}: {last}"
            reason = brief(reason, _MOST_REASON)
            name = " > ".join((*(self._suites or ()), given.get("name", "")))
            case = Case(name, self._status, reason, given.get("classname", ""), given.get("file", ""))
            self.cases.append(case)
            self._case = None


class _JestTest(Struct, frozen=True):
    status: str
    title: str = ""
    fullName: str = ""
    ancestorTitles: tuple[str, ...] = ()
    failureMessages: tuple[str, ...] | None = ()


class _JestFile(Struct, frozen=True):
    name: str = ""
    message: str = ""
    status: str = ""
    assertionResults: tuple[_JestTest, ...] = ()


class _JestReport(Struct, frozen=True):
    testResults: tuple[_JestFile, ...]


def _jest(data: bytes) -> tuple[Case, ...]:
    try:
        report = msgspec.json.decode(data, type=_JestReport)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ContractError("REPORT_INVALID", f"the test report is no report of jest: {error}") from error
    found: list[Case] = []
    for file in report.testResults:
        for test in file.assertionResults:
            status: Status = "skipped" if test.status not in ("passed", "failed") else test.status  # type: ignore[assignment]  # one of both
            reason = brief(" ".join(test.failureMessages or ()), _MOST_REASON)
            name = " > ".join((*test.ancestorTitles, test.title)) if test.title else test.fullName
            found.append(Case(name, status, reason, "", file.name))
        if file.status == "failed" and not file.assertionResults:  # it could not be loaded
            found.append(Case(file.name, "failed", brief(file.message, _MOST_REASON), "", file.name))
    return tuple(found)


# -- output -----------------------------------------------------------------------------------------------------------


_UNITTEST = re.compile(r"(\w+) \(([\w.]+)\)")
_UNITTEST_END = re.compile(r".* \.\.\. (ok|FAIL|ERROR|skipped.*|expected failure|unexpected success)")
_UNITTEST_WHY = re.compile(r"(?:FAIL|ERROR): (\w+) \(([\w.]+)\).*")
_ERROR = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Failure)\b.*")
_RULE = re.compile(r"[=-]{20,}")
_WORDS: dict[str, Status] = {
    "ok": "passed",
    "expected failure": "passed",
    "PASS": "passed",
    "FAIL": "failed",
    "FAILED": "failed",
    "ERROR": "failed",
    "unexpected success": "failed",
    "SKIP": "skipped",
    "ignored": "skipped",
}


def _unittest(lines: Sequence[str]) -> Iterator[Case]:
    """The lines of `unittest -v`: a name, then (perhaps in the next line, after its docstring) how it ended."""
    reasons = _unittest_reasons(lines)
    named: tuple[str, str] | None = None
    for line in lines:
        if found := _UNITTEST.match(line):
            named = (found[1], found[2])
        if named and (end := _UNITTEST_END.fullmatch(line)):
            # A test may print what looks like its end; the traceback below is the runner's.
            status = "failed" if named in reasons else _WORDS.get(end[1], "skipped")
            reason = reasons.pop(named, end[1]) if status == "failed" else end[1] if status == "skipped" else ""
            yield _unittest_case(named, status, reason)
            named = None
    for named, reason in reasons.items():  # its own output broke its line, or its module cannot be imported
        yield _unittest_case(named, "failed", reason)


def _unittest_case(named: tuple[str, str], status: Status, reason: str) -> Case:
    name, group = named
    return Case(name, status, brief(reason, _MOST_REASON), group.removesuffix(f".{name}"))


def _unittest_reasons(lines: Sequence[str]) -> dict[tuple[str, str], str]:
    """The error of each traceback, by test: header, docstring, rule, traceback, rule."""
    reasons: dict[tuple[str, str], str] = {}
    named: tuple[str, str] | None = None
    traced = False
    for before, line in itertools.pairwise(["", *lines]):
        if (found := _UNITTEST_WHY.fullmatch(line)) and _RULE.fullmatch(before):
            named, traced = (found[1], found[2]), False
            reasons.setdefault(named, "it failed")
        elif named and _RULE.fullmatch(line):
            named, traced = (None, False) if traced else (named, True)
        elif named and traced and _ERROR.fullmatch(line):
            reasons[named] = line
    return reasons


_GO = re.compile(r" *--- (PASS|FAIL|SKIP): (\S+) \(.*\)")
_GO_BROKEN = re.compile(r"FAIL\t(\S+) \[(.+)\]")  # a package that does not compile
_GO_PACKAGE = re.compile(r"(?:ok  |FAIL)\t(\S+)\t.*")  # the end of a package
_CARGO = re.compile(r"test (\S.*?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:,.*)?")
_CARGO_GROUP = re.compile(r" +(?:Running|Doc-tests) (?:unittests )?(\S+).*")
_CARGO_WHY = re.compile(r"---- (\S.*) stdout ----")


def _go(lines: Sequence[str]) -> Iterator[Case]:
    """The lines of `go test -v`: each package's tests, then the package."""
    own: list[Case] = []
    for number, line in enumerate(lines):
        if found := _GO.fullmatch(line):
            status = _WORDS[found[1]]
            reason = _printed(lines, number, found[2]) if status == "failed" else ""
            own.append(Case(found[2], status, reason))
        elif broken := _GO_BROKEN.fullmatch(line):
            yield Case(broken[1], "failed", brief(broken[2], _MOST_REASON))
        elif package := _GO_PACKAGE.fullmatch(line):
            yield from (replace(one, group=package[1]) for one in own)
            own = []
    yield from own  # the output ends within a package


def _printed(lines: Sequence[str], number: int, name: str) -> str:
    """What a test of go printed: after its end, or before it, after its last line with `=== RUN`, `CONT` or `NAME`."""
    after = _indented(lines[number + 1 : number + 20])
    if after:
        return after
    before = lines[max(0, number - 200) : number]
    starts = [at for at, line in enumerate(before) if line[:4] == "=== " and line[10:] == name]
    return _indented(before[starts[-1] + 1 :][:20]) if starts else ""


def _innermost(cases: Sequence[Case]) -> Iterator[Case]:
    """The tests without those that only stand for tests inside them (rule 5)."""
    outer: dict[tuple[str, str], bool] = {}  # by group and name: whether a test inside failed
    for one in cases:
        parts = one.name.split("/")
        for depth in range(1, len(parts)):
            key = (one.group, "/".join(parts[:depth]))
            outer[key] = outer.get(key, False) or one.status == "failed"
    for one in cases:
        inside = outer.get((one.group, one.name))
        if inside is None or (one.status == "failed" and not inside):
            yield one


def _indented(lines: Sequence[str]) -> str:
    """The indented lines at the beginning: what a test of go printed."""
    own = itertools.takewhile(lambda line: line.startswith("    ") and not line.lstrip().startswith("---"), lines)
    return brief(" ".join(line.strip() for line in own), _MOST_REASON)


def _cargo(lines: Sequence[str]) -> Iterator[Case]:
    reasons: dict[str, list[str]] = {}
    own: list[str] = []
    for line in lines:
        if found := _CARGO_WHY.fullmatch(line):
            own = reasons.setdefault(found[1], [])
        elif line == "failures:":
            own = []
        elif len(own) < 20:
            own.append(line)
    group = ""
    for line in lines:
        if named := _CARGO_GROUP.fullmatch(line):
            group = named[1]
        elif found := _CARGO.fullmatch(line):
            status = _WORDS[found[2]]
            reason = " ".join(reasons.get(found[1], ())) if status == "failed" else ""
            yield Case(found[1], status, brief(reason, _MOST_REASON), group)


# -- test cases of a contract -----------------------------------------------------------------------------------------


def case_of(test: str, cases: Sequence[TestCase]) -> str:
    """The id of the test case that a test belongs to (rule 4); empty if it belongs to none.

    `test` is a test's name or its id (`file::group::name`): the name is looked at first, then its group.
    """
    ids = {one.id for one in cases}
    *above, name = test.split("::")
    group = re.split(r"[./ ]+", above[-1])[-1] if above else ""
    inner = reversed(re.split(r" > |/", name.partition("[")[0]))  # without the values of a test with parameters
    for text in (*inner, name, group):
        for found in _TC.finditer(text):
            if (known := f"TC-{int(found[1])}") in ids:
                return known
    letters = _letters(name)
    named = [one for one in cases if len(own := _letters(one.name)) >= _SHORTEST_NAME and own in letters]
    return max(named, key=lambda one: len(one.name)).id if named else ""


def tests_of(tests: Sequence[Case], path: str) -> Sequence[Case]:
    """The tests of a test file; all tests, if the report does not show the files of tests (rule 6)."""
    own = [one for one in tests if _is_of(one, path)]
    return own if own or any(_shows_file(one, path) for one in tests) else tests


def _is_of(one: Case, path: str) -> bool:
    """Whether a test is of a file, by its file, class or module; or is the file itself, which could not be loaded."""
    stem = PurePosixPath(path).name.partition(".")[0]
    if one.status == "failed" and re.split(r"[./]", one.name)[-1] == stem:
        return True
    place = one.file or one.group
    if one.file or "/" in place:
        module = f".{path.removesuffix('.py').replace('/', '.')}."  # pytest's file is that of an inherited test's base
        return f"/{place}".endswith(f"/{path}") or path.endswith(f"/{place}") or module in f".{one.group}."
    return stem in re.split(r"[.$]", place)


def _shows_file(one: Case, path: str) -> bool:
    """Whether a report shows which file a test is of: the file itself, a module of Python or a class of Java."""
    suffix = PurePosixPath(path).suffix
    return bool(one.file) or PurePosixPath(one.group).suffix == suffix or (bool(one.group) and suffix in _IN_CLASSES)


def has_number(one: Case) -> bool:
    """Whether the name of a test has the number of a test case."""
    return _TC.search(one.id) is not None


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", name).casefold())
