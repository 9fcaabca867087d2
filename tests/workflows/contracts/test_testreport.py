"""Reports of test runners: read within bounds, into cases that belong to test cases of a contract."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.core.errors import ContractError
from orchestra.workflows.contracts import records
from orchestra.workflows.contracts import testcommand as commands
from orchestra.workflows.contracts.testreport import MOST_BYTES, Case, case_of, cases_in, read_report

TESTS = '''
import unittest

class Service(unittest.TestCase):
    def test_tc_1_finds(self):
        print("looks like the end ... FAIL")

    def test_tc_2_refuses(self):
        """한글 설명"""
        self.assertEqual(1, 2)

    @unittest.skip("나중에")
    def test_tc_3_later(self):
        pass

    def test_tc_4_breaks(self):
        print("hello ... ok")
        raise ValueError("없음")
'''
EXPECTED = {
    "test_tc_1_finds": ("passed", ""),
    "test_tc_2_refuses": ("failed", "AssertionError: 1 != 2"),
    "test_tc_3_later": ("skipped", "나중에"),
    "test_tc_4_breaks": ("failed", "ValueError: 없음"),
}


@pytest.mark.parametrize("runner", ["pytest", "unittest"])
def test_a_real_run_of_pytest_and_unittest_gives_the_same_cases(tmp_path: Path, runner: commands.Runner) -> None:
    (tmp_path / "test_service.py").write_text(TESTS)
    (tmp_path / "test_broken.py").write_text("import not_there_at_all\n")
    command = commands.TestCommand((sys.executable, "-m", runner), runner)
    how = commands.reporting(command, str(tmp_path))
    more = ("-p", "no:cacheprovider", "--continue-on-collection-errors") if runner == "pytest" else ()
    env = {"PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **dict(how.env)}
    ran = subprocess.run([*how.argv, *more], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    reports = [path.read_bytes() for path in tmp_path.glob("*.xml")]
    assert len(reports) == (runner == "pytest")
    cases = {case.name: case for case in cases_in(runner, reports, ran.stdout + ran.stderr)}
    broken = cases.pop("test_broken")
    assert broken.status == "failed" and "No module named 'not_there_at_all'" in broken.reason
    assert {name: case.status for name, case in cases.items()} == {
        name: status for name, (status, _) in EXPECTED.items()
    }
    for name, (_, reason) in EXPECTED.items():
        assert reason in cases[name].reason
        assert cases[name].group.endswith("Service")


GRADLE = b"""<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="com.x.ATest" tests="2" skipped="1" failures="1" errors="0">
  <properties/>
  <testcase name="tc_1 finds()" classname="com.x.ATest" time="0.01"><skipped/></testcase>
  <testcase name="TC-2 \xec\x97\x86\xec\x9d\x8c" classname="com.x.ATest" time="0.02">
    <failure message="java.lang.AssertionError: expected: &lt;1&gt; but was: &lt;2&gt;" type="x">stack</failure>
  </testcase>
  <system-out><![CDATA[<testcase name="forged"/>]]></system-out>
</testsuite>"""
VITEST = b"""<testsuites name="vitest tests"><testsuite name="src/a.test.ts">
<testcase classname="src/a.test.ts" name="adder &gt; tc_1 adds"/>
<testcase classname="src/a.test.ts" name="adder &gt; tc_2 fails"><failure message="" type="AssertionError">
AssertionError: expected 3 to be 4</failure></testcase></testsuite></testsuites>"""
JEST = b"""{"numTotalTests": 3, "testResults": [
 {"name": "/p/a.test.js", "status": "failed", "message": "", "assertionResults": [
  {"ancestorTitles": ["adder"], "title": "tc_1 adds", "status": "passed", "failureMessages": []},
  {"ancestorTitles": ["adder", "TC-1 nested"], "title": "tc_2", "status": "failed",
   "failureMessages": ["Error: expected 4"]},
  {"ancestorTitles": [], "title": "tc_3", "status": "pending", "failureMessages": null}]},
 {"name": "/p/b.test.js", "status": "failed", "message": "Cannot find module './b'", "assertionResults": []}]}"""
# As go 1.19 printed it: with `-v` a test's own lines come before its end.
GO = """# example.com/x/broken [example.com/x/broken.test]
broken/b_test.go:5:28: undefined: nope
FAIL\texample.com/x/broken [build failed]
=== RUN   TestTC_1
--- PASS: TestTC_1 (0.00s)
=== RUN   TestAdd
=== RUN   TestAdd/tc_2
    a_test.go:7: got 3, want 4 한글
=== RUN   TestAdd/tc_3
    a_test.go:8: hello
--- FAIL: TestAdd (0.00s)
    --- FAIL: TestAdd/tc_2 (0.00s)
    --- PASS: TestAdd/tc_3 (0.00s)
=== RUN   TestLater
    a_test.go:11: later
--- SKIP: TestLater (0.00s)
=== RUN   TestOwn
=== RUN   TestOwn/tc_4
=== CONT  TestOwn
    a_test.go:14: own failure
--- FAIL: TestOwn (0.00s)
    --- PASS: TestOwn/tc_4 (0.00s)
FAIL
FAIL\texample.com/x/pkg\t0.003s
=== RUN   TestTC_1
--- PASS: TestTC_1 (0.00s)
PASS
ok  \texample.com/x/other\t(cached)
FAIL
"""
OLD_GO = """=== RUN   TestAdd/tc_2
--- FAIL: TestAdd (0.00s)
    --- FAIL: TestAdd/tc_2 (0.00s)
        a_test.go:9: got 3, want 4
"""
# As cargo 1.95 printed it, shortened.
CARGO = """   Compiling x v0.1.0 (/p)
     Running unittests src/lib.rs (target/debug/deps/x-1111)

running 3 tests
test tests::tc_1_adds ... ok
test tests::tc_2_panics - should panic ... ok
test tests::tc_3_later ... ignored, later

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/a.rs (target/debug/deps/a-2222)

running 2 tests
test tc_1_adds ... ok
test tc_4_fails ... FAILED

failures:

---- tc_4_fails stdout ----
printed
thread 'tc_4_fails' (23434) panicked at tests/a.rs:2:40:
assertion `left == right` failed: 한글 이유

failures:
    tc_4_fails

   Doc-tests x

running 1 test
test src/lib.rs - add (line 2) ... ok
"""
NODE = """const { describe, test } = require("node:test");
const assert = require("node:assert");
describe("더하기", () => {
  describe("TC-1 nested suite", () => {
    test("positive", () => assert.equal(2, 2));
    test("tc_2 inner wins", () => assert.equal(2, 3));
  });
  test.skip("tc_3 later", () => {});
});
"""


def short(cases: tuple[Case, ...]) -> list[tuple[str, str, str]]:
    return [(case.name, case.status, case.reason) for case in cases]


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (
            GRADLE,
            [
                ("tc_1 finds()", "skipped", ""),
                ("TC-2 없음", "failed", "java.lang.AssertionError: expected: <1> but was: <2>"),
            ],
        ),
        (
            VITEST,
            [
                ("adder > tc_1 adds", "passed", ""),
                ("adder > tc_2 fails", "failed", "AssertionError: expected 3 to be 4"),
            ],
        ),
        (
            JEST,
            [
                ("adder > tc_1 adds", "passed", ""),
                ("adder > TC-1 nested > tc_2", "failed", "Error: expected 4"),
                ("tc_3", "skipped", ""),
                ("/p/b.test.js", "failed", "Cannot find module './b'"),
            ],
        ),
    ],
)
def test_reports_of_other_runners_are_read(report: bytes, expected: list[tuple[str, str, str]]) -> None:
    assert short(read_report(report)) == expected


def test_the_output_of_go_is_read_by_package_and_tests_inside_tests_count_once() -> None:
    found = cases_in("go", [], GO)
    assert [(case.group.rpartition("/")[2], *line) for case, line in zip(found, short(found), strict=True)] == [
        ("", "example.com/x/broken", "failed", "build failed"),
        ("pkg", "TestTC_1", "passed", ""),
        ("pkg", "TestAdd/tc_2", "failed", "a_test.go:7: got 3, want 4 한글"),
        ("pkg", "TestAdd/tc_3", "passed", ""),
        ("pkg", "TestLater", "skipped", ""),
        ("pkg", "TestOwn", "failed", "a_test.go:14: own failure"),
        ("pkg", "TestOwn/tc_4", "passed", ""),
        ("other", "TestTC_1", "passed", ""),
    ]
    assert short(cases_in("go", [], OLD_GO)) == [("TestAdd/tc_2", "failed", "a_test.go:9: got 3, want 4")]
    nested = b'<testsuite name="p"><testcase name="TestA"/><testcase name="TestA/tc_1"/></testsuite>'
    assert short(cases_in("gotestsum", [nested], "")) == [("TestA/tc_1", "passed", "")]
    assert cases_in("other", [], GO) == ()


def test_the_output_of_cargo_is_read_with_the_tests_of_documents() -> None:
    found = cases_in("cargo", [], CARGO)
    assert [(case.id, case.status) for case in found] == [
        ("src/lib.rs::tests::tc_1_adds", "passed"),
        ("src/lib.rs::tests::tc_2_panics", "passed"),
        ("src/lib.rs::tests::tc_3_later", "skipped"),
        ("tests/a.rs::tc_1_adds", "passed"),
        ("tests/a.rs::tc_4_fails", "failed"),
        ("x::src/lib.rs - add (line 2)", "passed"),
    ]
    assert found[4].reason.endswith("assertion `left == right` failed: 한글 이유")


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_real_run_of_node_has_the_names_of_its_suites(tmp_path: Path) -> None:
    (tmp_path / "a.test.js").write_text(NODE)
    how = commands.reporting(commands.given(("node", "--test"), "--check"), str(tmp_path))
    env = {"PATH": os.environ["PATH"], **dict(how.env)}
    subprocess.run(how.argv, cwd=tmp_path, env=env, capture_output=True, check=False)
    cases = cases_in("node", [(tmp_path / "report.xml").read_bytes()], "")
    assert [(case.name, case.status, case_of(case.id, contract("가나다라", "b", "c"))) for case in cases] == [
        ("더하기 > TC-1 nested suite > positive", "passed", "TC-1"),
        ("더하기 > TC-1 nested suite > tc_2 inner wins", "failed", "TC-2"),
        ("더하기 > tc_3 later", "skipped", "TC-3"),
    ]
    assert cases[1].reason == "2 == 3"


BOMB = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<testsuite><testcase name="&b;"/></testsuite>"""


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (BOMB, "document type"),
        (b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite/>', "document type"),
        (b"<testsuite>" * 100, "nested deeper"),
        (b"<testsuite><testcase name='a'>", "no XML"),
        (b"", "no XML"),
        (b"\xff\xfe\x00", "no XML"),
        (b"<?xml version='1.0' encoding='nope'?><a/>", "no XML"),
        (b"<testsuite>" + b"<testcase name='x'/>" * 20_001 + b"</testsuite>", "more than 20,000 tests"),
        (b" " * (MOST_BYTES + 1), "4 MiB"),
        (b" " * MOST_BYTES, "no XML"),
        (b'{"testResults": 1}', "no report of jest"),
        (b'{"testResults":' + b"[" * 100_000, "no report of jest"),
    ],
)
def test_a_hostile_or_broken_report_is_refused(report: bytes, said: str) -> None:
    with pytest.raises(ContractError, match=said):
        read_report(report)


@settings(deadline=None)
@given(st.text(max_size=400))
def test_any_output_is_read_without_an_error(output: str) -> None:
    for runner in ("unittest", "go", "cargo", "pytest"):
        cases_in(runner, [], output)


def test_a_long_hostile_output_is_read_in_time_in_proportion_to_its_length() -> None:
    line = "======================================================================\nFAIL: a (b)\n"
    assert len(cases_in("unittest", [], line * 12_000)) == 1  # quadratic reading would take minutes here


def contract(*names: str) -> tuple[records.TestCase, ...]:
    return tuple(
        records.TestCase(id=f"TC-{number}", name=name, target="x", given="", when="", then="", category="happy_path")
        for number, name in enumerate(names, start=1)
    )


@pytest.mark.spec("S3-111")
@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("test_tc_1", "TC-1"),
        ("test_TC-2_x", "TC-2"),
        ("tests/test_a.py::Service::test_tc_2_fails", "TC-2"),
        ("TestTC_1", "TC-1"),
        ("tests/test_tc_1.py::test_x", ""),  # the name of the file is not the name of the test
        ("test_a.py::TestTC_2::test_x", "TC-2"),
        ("TestTC_1/tc_2", "TC-2"),
        ("a.test.js::adder > TC-2 suite > adds", "TC-2"),
        ("test_tc_1[a/tc_2]", "TC-1"),
        ("[TC-2] adds", "TC-2"),
        ("test_tc_10", "TC-10"),
        ("test_tc_11", ""),
        ("test_etc_1", ""),
        ("test_tc1", ""),
        ("test_존재하는_ID로_조회_성공", "TC-3"),
        ("존재하는 id로 조회 성공!", "TC-3"),
        ("test_존재하는_ID로_조회_성공_다시", "TC-4"),
        ("test_other", ""),
    ],
)
def test_a_test_belongs_to_a_case_by_its_number_or_name(test: str, expected: str) -> None:
    names = ["하나", "b", "존재하는_ID로_조회_성공", "존재하는_ID로_조회_성공_다시", *"efghij"]
    assert case_of(test, contract(*names)) == expected


def junit(inner: str, depth: int = 1) -> bytes:
    return f"{'<testsuite>' * depth}{inner}{'</testsuite>' * depth}".encode()


@pytest.mark.parametrize(("depth", "fits"), [(19, True), (20, False)])
def test_a_report_is_twenty_levels_deep_at_most(depth: int, fits: bool) -> None:
    report = junit('<testcase name="a"/>', depth)
    if fits:
        assert short(cases_in("pytest", [report], "")) == [("a", "passed", "")]
    else:
        with pytest.raises(ContractError, match="nested deeper than 20 levels"):
            cases_in("pytest", [report], "")


@pytest.mark.parametrize("more", [0, 1])
def test_a_report_has_twenty_thousand_tests_at_most(more: int) -> None:
    report = junit('<testcase name="a"/>' * (20_000 + more))
    if more:
        with pytest.raises(ContractError, match="more than 20,000 tests"):
            cases_in("pytest", [report], "")
    else:
        assert len(cases_in("pytest", [report], "")) == 20_000


@pytest.mark.parametrize(("message", "reason"), [("m" * 24, "m" * 24 + ": the cause"), ("m" * 25, "m" * 25)])
def test_a_short_message_is_followed_by_the_last_line_of_the_failure(message: str, reason: str) -> None:
    failed = f'<testcase name="a"><failure message="{message}">above\nthe cause\n</failure></testcase>'
    assert short(cases_in("pytest", [junit(failed)], "")) == [("a", "failed", reason)]


@pytest.mark.parametrize(("name", "found"), [("read", "TC-1"), ("rea", "")])
def test_a_test_is_of_a_case_by_a_name_of_four_letters_at_least(name: str, found: str) -> None:
    assert case_of("test_it_can_read", contract(name)) == found


def test_the_reason_of_a_failure_of_cargo_has_twenty_lines() -> None:
    body = [f"line {number}." for number in range(1, 22)]
    lines = ["test a::b ... FAILED", "", "failures:", "", "---- a::b stdout ----", *body, "", "failures:", "    a::b"]
    [one] = cases_in("cargo", [], "\n".join(lines))
    assert "line 20." in one.reason and "line 21." not in one.reason
