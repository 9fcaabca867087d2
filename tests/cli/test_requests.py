"""`requests` and `trace R1`: what was asked, what shows that it is there, and which lines were made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.contracts import REQUEST, ContractsProject, code_file, path_of_tests
from tests.support.project import records


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> ContractsProject:
    project = ContractsProject(tmp_path_factory.mktemp("requests") / "프로젝트")
    assert project.contracts().returncode == 0
    return project


@pytest.mark.spec("S3-131", "S3-133")
def test_a_finished_request_is_done_until_a_covered_file_or_a_contract_is_edited(finished: ContractsProject) -> None:
    (row,) = records(finished.run("requests", "--json").stdout)
    run = finished.requests[0].id
    counts = {"tasks": "1 of 1 done", "cases": "1 of 1 passed"}
    assert row == {"request": "R1", "state": "done", "runId": run, "text": REQUEST, **counts}
    covered = {
        finished.path / code_file("T1-S1"): "stale: calc/t1_s1.py was edited since",
        finished.tree / "T1/design-contract.yaml": "stale: R1/T1/design-contract.yaml was edited since",
        finished.tree / "T1/T1-S1/test-contract.yaml": "stale: R1/T1/T1-S1/test-contract.yaml was edited since",
    }
    for path, said in covered.items():
        before = path.read_text()
        try:
            path.write_text(f"{before}\n# 고침\n")
            (stale,) = records(finished.run("requests", "--json").stdout)
            assert stale["state"] == "stale"
            assert said in finished.run("trace", "R1").stdout
        finally:
            path.write_text(before)
    assert REQUEST[:5] in finished.run("requests").stdout


def test_a_trace_leads_from_the_request_to_its_hunks_and_back(finished: ContractsProject) -> None:
    shown = finished.run("trace", "R1").stdout
    assert shown == finished.run("trace", "last").stdout
    code, tests, run = code_file("T1-S1"), path_of_tests("T1-S1"), finished.requests[0].id
    expected = [f"R1 done: {REQUEST}  (run {run})", "  T1 done: ", "    T1-S1 done: ", "      TC-1 passed: "]
    expected += ["        python3 -m unittest ", f"        {tests}:1-", f"        {code}:1-2 +2 -0"]
    lines = iter(shown.splitlines())
    assert [want for want in expected if not any(line.startswith(want) for line in lines)] == []
    back = finished.run("trace", "R1", "--path", f"{code}:2").stdout.splitlines()
    assert back[0].startswith(f"{code}:1-2 +2 -0  implementation (run ")
    assert [line.split()[0] for line in back[1:]] == ["T1-S1", "TC-1", "python3", "T1", "R1:"]
    found = records(finished.run("trace", "R1", "--json").stdout)
    assert [(one["type"], one["subtask"]) for one in found] == [("case", "T1-S1"), ("hunk", "T1-S1"), ("hunk", "T1-S1")]
    evidence = found[0]["evidence"]
    assert (evidence["exitCode"], evidence["status"], evidence["tree"][:7]) == (0, "passed", "sha256:")
    assert evidence["command"] == "python3 -m unittest -q"  # as it was written, to be copied: no options for a report
    (only,) = records(finished.run("trace", "R1", "--path", code, "--json").stdout)
    assert (only["hunk"]["path"], only["cases"]) == (code, ["TC-1"])


def test_wrong_names_are_told_with_what_there_is(finished: ContractsProject) -> None:
    for args, said in (
        (("trace", "R2"), "no run of request R2"),
        (("trace", "R1", "--path", "nothing.py"), "no patch of R1"),
        (("trace", "R1", "--path", f"{code_file('T1-S1')}:99"), "no patch of R1"),
    ):
        ran = finished.run(*args)
        assert (ran.returncode, said in ran.stderr) == (2, True)


def test_contracts_of_another_tool_are_listed_and_not_believed(finished: ContractsProject, tmp_path: Path) -> None:
    other = finished.tree.parent / "R7"
    other.mkdir()
    try:
        rows = records(finished.run("requests", "--json").stdout)
        assert [(row["request"], row["state"]) for row in rows] == [("R1", "done"), ("R7", "not run here")]
    finally:
        other.rmdir()


def test_without_a_request_the_way_to_begin_one_is_shown(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "p")
    assert 'orchestra contracts "REQUEST"' in project.run("requests").stdout
