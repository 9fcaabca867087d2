"""`orchestra contracts`: the real program on a small package, scripted replies, tests that really run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestra.workflows.contracts.workflow import CONTRACTS
from tests.support.contracts import (
    CHECK,
    EXPLORED,
    EXPLORING,
    JUDGED,
    REQUEST,
    ContractsProject,
    breakdown,
    classified,
    code,
    code_file,
    design,
    designed,
    fix,
    implemented,
    path_of_tests,
    qa,
    qa_code,
    qa_contract,
    says,
    script,
)
from tests.support.project import PROGRAM, new_file, reply
from tests.support.runs import paces
from tests.support.terminal import Terminal

S1, S2 = "T1-S1", "T1-S2"
ONE = ("T1", S1)


def done(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The last record of a command that drove a run."""
    record: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return record


def commands(project: ContractsProject) -> list[str]:
    """The test commands that were run, of all runs, in order of time."""
    found = []
    for journal in project.path.rglob("events.ndjson"):
        for line in journal.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["type"] == "PHASE_COMPLETED" and event["payload"].get("effect") == "RunCommand":
                found.append((event["ts"], event["payload"]["outcome"]["command"]))
    return [command for _, command in sorted(found)]


def before(*tasks: tuple[str, ...]) -> list[dict[str, Any]]:
    """The replies before the first design."""
    return [*EXPLORING, says("code-explore", EXPLORED), says("planner", breakdown(*(tasks or (ONE,))))]


# -- one run, looked at from all sides --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> ContractsProject:
    project = ContractsProject(tmp_path_factory.mktemp("contracts") / "프로젝트", *script(ONE))
    result = project.contracts()
    assert done(result)["status"] == "completed", result.stderr
    return project


@pytest.mark.spec("S3-01", "S3-02", "S3-12", "S3-134", "S3-135")
def test_the_contracts_lie_where_the_spec_says_in_three_tiers(finished: ContractsProject) -> None:
    names = {str(path.relative_to(finished.tree)) for path in finished.tree.rglob("*.yaml")}
    assert names == {
        "explored.yaml",
        "task-breakdown.yaml",
        "T1/design-brief.yaml",
        "T1/design-contract.yaml",
        "T1/T1-S1/test-contract.yaml",
        "T1/T1-S1/test-result.yaml",
    }
    assert finished.tree.name == "R1"
    assert finished.read("task-breakdown.yaml")["original_request"] == "계산기를 만들어줘"
    assert "두_배로_만든다" in (finished.tree / "T1/T1-S1/test-contract.yaml").read_text(encoding="utf-8")


@pytest.mark.spec("S3-54", "S3-74")
def test_contracts_are_handed_from_role_to_role(finished: ContractsProject) -> None:
    sent = {
        (one["agent"], one["role"]): finished.run("show", one["runId"], "--prompt", one["key"], "--own").stdout
        for one in map(json.loads, finished.run("audit", "last", "--json").stdout.splitlines())
        if one["type"] == "call" and one["agent"] in ("qa-engineer", "implementer")
    }
    known = ("순수 함수만 쓴다", "두_배로_만든다")  # the architect's invariant, the QA engineer's case
    given = {who: [words in text for words in known] for who, text in sent.items()}
    assert given == {
        ("qa-engineer", "planner"): [True, False],
        ("qa-engineer", "developer"): [True, True],
        ("implementer", "developer"): [True, True],
    }


@pytest.mark.spec("S3-20", "S3-39", "S3-95", "S3-139", "S3-140")
def test_every_role_is_called_as_itself(finished: ContractsProject) -> None:
    assert sorted(finished.calls()) == sorted(
        [
            ("main", "planner", "plan"),
            ("main", "planner", "execute"),
            ("code-explore", "planner", "plan"),
            ("planner", "planner", "plan"),
            ("architect", "planner", "plan"),
            ("qa-engineer", "planner", "execute"),
            ("qa-engineer", "developer", "execute"),
            ("implementer", "developer", "execute"),
            ("architect", "evaluator", "evaluate"),
        ]
    )
    by = {name: finished.read(name)["created_by"] for name in finished.facts()}
    assert by["explored.yaml"] == "code-explore" and by["T1/design-brief.yaml"] == "orchestrator"
    assert by["T1/design-contract.yaml"] == "architect" and by["T1/T1-S1/test-result.yaml"] == "qa-engineer"


@pytest.mark.spec("S3-100", "S3-104", "S3-119", "S3-124", "S3-131", "S3-132", "S3-133")
def test_done_is_what_executed_tests_say(finished: ContractsProject) -> None:
    result = finished.read("T1/T1-S1/test-result.yaml")
    assert result["execution"]["command"] == "python3 -m unittest -q tests/test_t1_s1.py"
    assert result["execution"]["result"] == "pass"
    assert result["summary"] == {"total": 1, "passed": 1, "failed": 0, "skipped": 0}
    state = json.loads((finished.tree / "state.json").read_text(encoding="utf-8"))
    assert state["version"] == 2 and state["request"]["status"] == "completed"
    subtask = state["tasks"]["T1"]["subtasks"][S1]
    assert subtask["status"] == "completed" and set(subtask["gates"].values()) == {"passed"}
    session = json.loads((finished.tree.parents[1] / "session.json").read_text(encoding="utf-8"))
    assert session["status"] == "completed" and session["project"]["hash"] == finished.tree.parents[1].name


@pytest.mark.spec("S3-130")
def test_a_test_run_on_an_unchanged_tree_is_not_repeated(finished: ContractsProject) -> None:
    own = "python3 -m unittest -q tests/test_t1_s1.py -v"
    suite = "python3 -m unittest -q -v"  # before anything changes, and once for the task
    fault = "python3 -m unittest -q tests/test_t1_s1.py"  # in a line of the implementation: do its tests notice?
    # red before the implementation, then the child's check
    assert commands(finished) == [suite, own, own, suite, fault]


def test_the_run_and_its_children_conform_and_show_a_tree(finished: ContractsProject) -> None:
    assert "conforms" in finished.run("verify", "last").stdout
    assert finished.run("verify", str(finished.tree.relative_to(finished.path))).returncode == 0
    shown = finished.run("show", "last").stdout
    assert "R1 completed: 계산기를 만들어줘" in shown
    assert "    T1-S1 completed, gates 1✓ 2✓ 3✓ 4✓, 1 of 1 tests passed" in shown
    report = finished.run("report", "last").stdout
    assert "## Tests" in report and "T1-S1 completed, gates" in report


def test_derived_files_are_made_again_and_contracts_stay_as_they_are(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "project")
    assert project.contracts().returncode == 0
    facts = project.facts()
    result = project.tree / "T1/T1-S1/test-result.yaml"
    kept = result.read_bytes()
    result.write_text("result: whatever I like\n")
    (project.tree / "state.json").unlink()
    assert project.run("resume", "last").returncode == 0
    assert result.read_bytes() == kept and (project.tree / "state.json").exists()
    same = {name: fact for name, fact in project.facts().items() if name != "T1/T1-S1/test-result.yaml"}
    assert same == {name: facts[name] for name in same}


# -- retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S3-110", "S3-113", "S3-114", "S3-120", "S3-125", "S3-142")
def test_an_implementation_error_is_repaired_in_the_files_and_remembered(tmp_path: Path) -> None:
    wrong, right = implemented(S1, code(S1, "n")), implemented(S1, fix(S1, "n", "2 * n"), role="fixer")
    replies = [
        *before(("T1", S1, S2)),
        designed("T1", S1, S2),
        *qa(S1),
        wrong,
        classified(S1, "implementation_error"),
    ]
    project = ContractsProject(tmp_path / "p", *replies, right, *qa(S2), implemented(S2), JUDGED)
    assert done(project.contracts())["status"] == "completed"
    assert (project.path / code_file(S1)).read_text() == "def double(n: int) -> int:\n    return 2 * n\n"
    [first] = (project.tree / "T1/T1-S1/history").iterdir()
    earlier = yaml.safe_load(first.read_text(encoding="utf-8"))
    assert first.name == "test-result-0001.yaml" and earlier["recommendation"]["action"] == "retry_implementation"
    assert earlier["failed_tests"] == [
        {"id": "TC-1", "name": "두_배로_만든다", "reason": "2를 넣으면 4가 아니다", "category": "implementation_error"}
    ]
    assert ("implementer", "fixer", "fix") in project.calls()
    assert "2를 넣으면" in (project.tree.parents[1] / "knowledge.yaml").read_text(encoding="utf-8")
    prompts = [path.read_text(encoding="utf-8") for path in project.path.rglob("execute/iter-0001.prompt.json")]
    assert sum("T1-S1 failed at first" in text for text in prompts) == 1  # the second subtask's implementer was told


@pytest.mark.spec("S3-115", "S3-121", "S3-126")
def test_a_design_violation_goes_back_to_the_tasks_design_and_takes_its_patches_back(tmp_path: Path) -> None:
    tasks = ("T1", S1, S2)
    replies = [*before(tasks), designed("T1", S1, S2), *qa(S1), implemented(S1), *qa(S2)]
    replies += [implemented(S2, code(S2, "n")), classified(S2, "design_violation")]
    replies += [
        designed("T1", S1, S2, rule="다시 설계했다"),
        *qa(S1),
        implemented(S1),
        *qa(S2),
        implemented(S2),
    ]
    project = ContractsProject(tmp_path / "p", *replies, JUDGED)
    result = project.contracts()
    assert done(result)["status"] == "completed", result.stdout[-2000:]
    assert project.read("T1/design-contract.yaml")["invariants"][0]["rule"] == "다시 설계했다"
    events = [json.loads(line) for line in project.requests[0].events.read_text(encoding="utf-8").splitlines()]
    [back] = [e for e in events if e["type"] == "PATCH_APPLIED" and e["payload"]["effect"] == "TakeBack"]
    taken = {file["path"] for file in back["payload"]["outcome"]["after"]}
    assert taken == {path_of_tests(S1), code_file(S1), path_of_tests(S2), code_file(S2)}
    assert "T1 completed, 1 redesign" in project.run("show", "last").stdout


def test_a_test_error_has_the_tests_written_again(tmp_path: Path) -> None:
    wrong = "        self.assertEqual(calc.t1_s1.double(2), 5)"
    replies = [*before(), designed("T1", S1), *qa(S1, wrong), implemented(S1), classified(S1, "test_error")]
    project = ContractsProject(tmp_path / "p", *replies, *qa(S1), implemented(S1), JUDGED)
    assert done(project.contracts())["status"] == "completed"
    assert "), 4)" in (project.path / path_of_tests(S1)).read_text()
    assert "1 rewrite" in project.run("show", "last").stdout


def test_past_the_limits_a_person_is_asked_with_the_result_on_disk(tmp_path: Path) -> None:
    replies = [*before(), designed("T1", S1), *qa(S1), implemented(S1, code(S1, "0"))]
    for number in range(1, 4):
        replies.append(classified(S1, "implementation_error"))
        replies.append(implemented(S1, fix(S1, str(number - 1), str(number)), role="fixer"))
    replies += [classified(S1, "implementation_error"), implemented(S1, fix(S1, "3", "2 * n"), role="fixer"), JUDGED]
    project = ContractsProject(tmp_path / "p", *replies)
    result = project.contracts()
    assert (result.returncode, done(result)["status"]) == (3, "awaiting_input")
    [asked] = [json.loads(line) for line in result.stdout.splitlines() if '"QUESTION_RAISED"' in line]
    assert asked["payload"]["options"] == ["retry", "redesign", "stop"] and asked["payload"]["default"] == "stop"
    assert project.read("T1/T1-S1/test-result.yaml")["execution"]["result"] == "fail"
    assert len(list((project.tree / "T1/T1-S1/history").iterdir())) == 3
    assert project.run("answer", "last", "maybe").returncode == 2
    assert project.run("answer", "last", "retry").returncode == 0
    assert project.read("T1/T1-S1/test-result.yaml")["recommendation"]["action"] == "complete"


def test_stop_ends_the_request_and_a_broken_design_is_judged_by_the_architect(tmp_path: Path) -> None:
    judged = says("architect", "불변식이 깨졌다.\nDECISION: FIX\n", role="evaluator", repeat=True)
    again = [reply for _ in range(3) for reply in (designed("T1", S1, rule=f"{_}"), *qa(S1), implemented(S1))]
    project = ContractsProject(tmp_path / "p", *before(), *again, judged)
    assert done(project.contracts())["status"] == "awaiting_input"
    stopped = project.run("answer", "last", "stop", "--json")
    assert (stopped.returncode, done(stopped)["status"]) == (1, "failed")
    state = json.loads((project.tree / "state.json").read_text(encoding="utf-8"))
    assert state["tasks"]["T1"]["subtasks"][S1]["gates"]["GATE-4"] == "failed"
    assert state["request"]["status"] == "stopped" and state["tasks"]["T1"]["subtasks"][S1]["status"] == "failed"


# -- what models get wrong --------------------------------------------------------------------------------------------


BROKEN: dict[str, tuple[Any, str]] = {
    "a missing field": ({k: v for k, v in breakdown(ONE).items() if k != "assumptions"}, "assumptions: is missing"),
    "an id twice": (breakdown(ONE, ONE), "S3-35"),
    "no permutation": (breakdown(ONE, task_order=["T2"]), "S3-34"),
    "no YAML": ("{", "it is no YAML"),
    "a tag": ("!!python/object:os.system {}", "only plain values"),
}


@pytest.mark.spec("S3-32", "S3-34", "S3-35", "S3-137")
@pytest.mark.parametrize("name", BROKEN)
def test_a_planner_that_breaks_the_contract_is_told_and_asked_again(name: str, tmp_path: Path) -> None:
    wrong, said = BROKEN[name]
    replies = script(ONE)
    replies.insert(3, says("planner", wrong))
    project = ContractsProject(tmp_path / "p", *replies)
    assert done(project.contracts("--approval", "always"))["status"] == "awaiting_approval"
    [prompt] = project.requests[0].artifacts.glob("plan/plan~breakdown@1~breakdown.2.prompt.json")
    assert said in prompt.read_text(encoding="utf-8").replace("\\n", "\n")


@pytest.mark.spec("S3-47", "S3-138")
def test_a_role_that_never_gets_it_right_fails_the_run_and_says_why(tmp_path: Path) -> None:
    wrong = design("T1", file_refs=[{"entity": "x", "path": "calc/x.py", "status": "new"}])
    project = ContractsProject(tmp_path / "p", *before(), says("architect", wrong, role="planner", repeat=True))
    result = project.contracts()
    assert (result.returncode, done(result)["status"]) == (1, "failed")
    failed = json.loads(result.stdout.splitlines()[-2])["payload"]["error"]["message"]
    assert "file_refs[0].status" in failed and "to_create" in failed and "S3-47" in failed
    assert project.calls().count(("architect", "planner", "plan")) == 3


def test_wrong_assumptions_have_the_planner_called_again_with_the_exploration(tmp_path: Path) -> None:
    replies = script(ONE)
    replies[3] = says("planner", breakdown(ONE, assumptions=["인증 코드는 auth/ 에 있을 것", "좋은 코드일 것"]))
    replies.insert(4, says("planner", breakdown(ONE)))
    project = ContractsProject(tmp_path / "p", *replies)
    assert done(project.contracts("--approval", "always"))["status"] == "awaiting_approval"
    [prompt] = project.requests[0].artifacts.glob("plan/breakdown-again@1~breakdown.1.prompt.json")
    said = prompt.read_text(encoding="utf-8")
    assert "auth/ is not there" in said and "calc/__init__.py" in said and "좋은 코드일 것: " not in said
    assert project.read("task-breakdown.yaml")["assumptions"] == ["코드는 calc/ 에 있을 것"]


# -- paths and gates --------------------------------------------------------------------------------------------------


def test_an_implementation_that_edits_tests_is_refused_and_told(tmp_path: Path) -> None:
    cheat = reply(new_file("tests/test_more.py", "x = 1"), summary="cheat")
    replies = [*before(), designed("T1", S1), *qa(S1), implemented(S1, cheat)]
    project = ContractsProject(tmp_path / "p", *replies, implemented(S1, role="fixer"), JUDGED)
    assert done(project.contracts())["status"] == "completed"
    assert not (project.path / "tests/test_more.py").exists()
    assert project.calls().count(("implementer", "fixer", "fix")) == 1


def test_a_file_that_no_design_names_needs_a_person_whatever_the_policy(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "p", *before(), designed("T1"), *qa(S1), implemented(S1), JUDGED)
    project.write_script(*before(), designed("T1", "T1-S9"), *qa(S1), implemented(S1), JUDGED)
    result = project.contracts()
    assert (result.returncode, done(result)["status"]) == (3, "awaiting_approval")
    asked = [json.loads(line) for line in result.stdout.splitlines() if '"APPROVAL_REQUESTED"' in line][-1]
    assert asked["payload"]["reasons"] == ["no design names calc/t1_s1.py"]
    assert done(project.run("approve", "last", "--json"))["status"] == "completed"


def test_the_qa_engineer_may_write_tests_only(tmp_path: Path) -> None:
    bad = says("qa-engineer", qa_code(S1, path="calc/t1_s1.py"), role="developer", contains=f"of subtask {S1}")
    first, second = qa(S1)
    project = ContractsProject(
        tmp_path / "p", *before(), designed("T1", S1), first, bad, second, implemented(S1), JUDGED
    )
    assert done(project.contracts())["status"] == "completed"
    assert project.calls().count(("qa-engineer", "developer", "execute")) == 2


def test_tests_that_pass_without_the_implementation_are_reported(tmp_path: Path) -> None:
    idle = "        self.assertTrue(True)"
    contract, _ = qa(S1)
    code_of = qa_code(S1, idle).replace("+import calc.t1_s1\n", "+import calc\n")
    tests = says("qa-engineer", code_of, role="developer", contains=f"of subtask {S1}")
    project = ContractsProject(tmp_path / "p", *before(), designed("T1", S1), contract, tests, implemented(S1), JUDGED)
    assert done(project.contracts())["status"] == "completed"
    assert "GATE-1 passed: the tests pass without it: they prove nothing" in project.run("show", "last").stdout


def test_a_flaky_test_is_run_again_and_recorded(tmp_path: Path) -> None:
    flaky = (
        "        import os",
        "        self.assertEqual(calc.t1_s1.double(2), 4)",
        "        self.assertNotIn('_loop_', os.environ['ORCHESTRA_ARTIFACTS'])",
    )
    project = ContractsProject(tmp_path / "p", *before(), designed("T1", S1), *qa(S1, *flaky), implemented(S1), JUDGED)
    assert done(project.contracts())["status"] == "completed"
    assert "flaky: " in project.read("T1/T1-S1/test-result.yaml")["recommendation"]["reason"]


def test_tests_that_were_red_before_are_named_and_not_counted(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "p", *script(ONE))
    names = [f"test_old_{number}" for number in range(10, 60)]  # more than the quoted part of the output has
    red = "".join(f"    def {name}(self) -> None:\n        self.fail('long since')\n\n" for name in names)
    (project.path / "tests" / "test_old.py").write_text(f"import unittest\n\n\nclass Old(unittest.TestCase):\n{red}")
    result = done(project.contracts())
    assert result["status"] == "completed"
    assert result["result"]["redBefore"] == [f"tests.test_old.Old::{name}" for name in names]


# -- edits ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S3-127", "S3-129")
def test_an_edited_contract_has_exactly_what_depends_on_it_done_again(tmp_path: Path) -> None:
    tasks = (("T1", S1), ("T2", "T2-S1"))
    more = (*qa(S1)[1:], implemented(S1))
    project = ContractsProject(tmp_path / "p", *script(*tasks), *more)
    assert done(project.contracts())["status"] == "completed"
    facts, path = project.facts(), project.tree / "T1/T1-S1/test-contract.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("두_배로_만든다", "정확히_두_배"), encoding="utf-8")
    again = project.run("rerun", "--stale", "last", "--json")
    assert done(again)["status"] == "completed", again.stderr
    paid = [call for call in project.calls() if call[0] != "architect" or call[1] != "evaluator"]
    assert paid == [("qa-engineer", "developer", "execute"), ("implementer", "developer", "execute")]
    changed = {name for name, fact in project.facts().items() if fact != facts.get(name)}
    own = ("test-contract.yaml", "test-result.yaml", "history/test-result-0001.yaml")
    assert changed == {f"T1/T1-S1/{name}" for name in own}
    assert project.read("T1/T1-S1/test-result.yaml")["summary"]["passed"] == 1
    assert project.run("verify", "R1").stdout.endswith("conforms\n")  # state.json as well: T1 is complete again


@pytest.mark.spec("S3-128")
def test_a_file_that_is_gone_or_cannot_be_read_is_written_again_and_nothing_else(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "p", *script(ONE))
    assert done(project.contracts("--approval", "always"))["status"] == "awaiting_approval"
    facts = project.facts()
    (project.tree / "T1/design-brief.yaml").unlink()
    (project.tree / "explored.yaml").write_text("version: 1\nexplored_files: [")
    (project.tree / "T1/design-contract.yaml").write_bytes(b"\xff\x00")
    paid = len(project.calls())
    assert done(project.run("resume", "last", "--json"))["status"] == "awaiting_approval"
    assert {name: fact[0] for name, fact in project.facts().items()} == {name: fact[0] for name, fact in facts.items()}
    assert len(project.calls()) == paid
    assert project.facts()["task-breakdown.yaml"] == facts["task-breakdown.yaml"]
    [kept] = project.requests[0].artifacts.glob("looks/explored*.before.txt")
    assert kept.read_text() == "version: 1\nexplored_files: ["
    (project.tree / "T1/T1-S1/test-contract.yaml").unlink()  # the patch that waits was made for it
    assert done(project.run("approve", "last", "--json"))["status"] == "awaiting_approval"
    assert done(project.run("approve", "last", "--json", timeout=120))["status"] == "completed"
    assert project.facts()["T1/T1-S1/test-contract.yaml"][0] == facts["T1/T1-S1/test-contract.yaml"][0]
    assert project.calls().count(("qa-engineer", "planner", "execute")) == 1


def test_an_edited_contract_that_is_damaged_later_is_as_it_was_edited(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "p", *script(ONE), *qa(S1)[1:], implemented(S1))
    assert done(project.contracts())["status"] == "completed"
    path = project.tree / "T1/T1-S1/test-contract.yaml"
    edited = path.read_text(encoding="utf-8").replace("두_배로_만든다", "정확히_두_배")
    path.write_text(edited, encoding="utf-8")
    assert project.run("rerun", "--stale", "last", timeout=120).returncode == 0
    for damage in (edited[: len(edited) // 2] + "\n  - [", None):
        if damage is None:
            path.unlink()
        else:
            path.write_text(damage, encoding="utf-8")
        again = project.run("rerun", "--stale", "last", "--json", timeout=120)
        assert again.returncode == 0, again.stderr
        assert path.read_text(encoding="utf-8") == edited
        assert project.calls() == []  # nothing was done again
    kept = {one.read_text(encoding="utf-8") for run in project.requests for one in run.artifacts.glob("looks/*before*")}
    assert kept == {edited[: len(edited) // 2] + "\n  - ["}


def test_an_edit_of_one_task_leaves_the_others_alone(tmp_path: Path) -> None:
    tasks = (("T1", S1), ("T2", "T2-S1"))
    redone = (designed("T2", "T2-S1"), *qa("T2-S1"), implemented("T2-S1"))
    project = ContractsProject(tmp_path / "p", *script(*tasks), *redone)
    assert done(project.contracts())["status"] == "completed"
    path = project.tree / "task-breakdown.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("T2 작업", "두 번째 작업"), encoding="utf-8")
    facts = project.facts()
    again = project.run("rerun", "--stale", "last", "--json")
    assert done(again)["status"] == "completed", again.stdout[-3000:]
    changed = {name for name, fact in project.facts().items() if fact != facts.get(name)}
    assert "T2/design-brief.yaml" in changed and not any(name.startswith("T1/") for name in changed)
    assert project.read("T2/design-brief.yaml")["task_name"] == "두 번째 작업"


# -- starting ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S3-09")
def test_two_requests_have_two_ids_and_a_waiting_one_cannot_be_forked(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "p", *script(ONE))
    assert project.contracts("--approval", "always").returncode == 3
    refused = project.run("fork", "last")
    assert refused.returncode == 2 and "has not ended, and its files are its own until then" in refused.stderr
    assert project.run("cancel", "last").returncode == 0
    assert project.contracts("--approval", "always").returncode == 3
    assert project.tree.name == "R2"


def test_the_approval_mode_of_a_request_can_be_changed_while_it_goes_on(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "p", *script(("T1", S1, S2)))
    rest = ("--check", CHECK, "--provider", f"scripted:{project.script}", "--no-input")
    assert project.run("contracts", REQUEST, *rest).returncode == 3  # the mode is the configuration's: nobody typed it
    for words, flag in ((("--check", "true"), "--check"), (("--max-fixes", "9"), "--max-fixes")):
        refused = project.run("resume", "last", *words)
        assert refused.returncode == 2
        assert f"{flag}: of a contracts run only --approval can be changed" in refused.stderr
    changed = project.run("resume", "last", "--approval", "never", "--json")
    assert done(changed)["status"] == "awaiting_approval"  # a patch that waits still does
    ended = project.run("approve", "last", "--json", timeout=120)
    assert done(ended)["status"] == "completed", ended.stderr  # every later one is applied, in child runs too
    assert project.run("verify", "last").returncode == 0


@pytest.mark.spec("S3-22")
def test_a_request_comes_from_a_file_or_standard_input(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "p", *script(ONE))
    (project.path / "요청.md").write_text("\ufeff계산기를\n만들어줘\n", encoding="utf-8")
    rest = ["--check", CHECK, "--provider", f"scripted:{project.script}", "--no-input"]
    assert project.run("contracts", "@요청.md", *rest).returncode == 3
    assert project.read("task-breakdown.yaml")["original_request"] == "계산기를\n만들어줘"
    piped = subprocess.run(
        [PROGRAM, "contracts", "-", *rest], cwd=project.path, input="두 번째 요청".encode(), capture_output=True
    )
    assert piped.returncode == 3 and project.read("task-breakdown.yaml")["original_request"] == "두 번째 요청"
    for word, why in (("@none.md", "the request @none.md names a file"), ("  ", "the request is empty")):
        refused = project.run("contracts", word, *rest)
        assert refused.returncode == 2 and why in refused.stderr
    assert "--edit" in project.run("contracts", "--no-input").stderr
    assert len(project.requests) == 2


def test_a_request_is_written_in_an_editor_at_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = ContractsProject(tmp_path / "p", says("nobody", "no reply fits: the run fails at once"))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\n{ echo 환율을; cat "$1"; } > "$1.new"\nmv "$1.new" "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    words = ["contracts", "계산하자", "--edit", "--check", CHECK, "--provider", f"scripted:{project.script}"]
    terminal = Terminal([PROGRAM, *words], project.path)
    assert terminal.end() != 0, terminal.seen
    [created, *_] = project.requests[0].events.read_text(encoding="utf-8").splitlines()
    assert json.loads(created)["payload"]["params"]["request"] == "환율을\n계산하자"


def test_bad_input_gets_one_clear_message_and_no_run(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "p", *script(ONE))
    empty = project.run("contracts", "  ", "--check", "true")
    assert empty.returncode == 2 and "the request is empty" in empty.stderr
    for path in ("tests", "calc"):
        for file in (project.path / path).iterdir():
            file.unlink()
        (project.path / path).rmdir()
    none = project.run("contracts", "무엇이든", "--provider", f"scripted:{project.script}")
    assert none.returncode == 2 and "no test command was found: give --check CMD" in none.stderr
    assert not (project.path / "runs").exists()


@pytest.mark.spec("S3-93")
def test_a_test_contract_must_name_a_test(tmp_path: Path) -> None:
    wrong = says("qa-engineer", qa_contract(S1, test_file_path="calc/t1_s1.py"), role="planner")
    project = ContractsProject(tmp_path / "p", *before(), designed("T1", S1), wrong, *qa(S1), implemented(S1), JUDGED)
    assert done(project.contracts("--approval", "always"))["status"] == "awaiting_approval"
    assert project.calls().count(("qa-engineer", "planner", "execute")) == 2


@pytest.mark.spec("S3-37", "S3-53")
def test_tasks_and_subtasks_run_in_their_orders(tmp_path: Path) -> None:
    tasks = (("T1", S1), ("T2", "T2-S1"))
    replies = script(*tasks)
    replies[3] = says("planner", breakdown(*tasks, task_order=["T2", "T1"]))
    project = ContractsProject(tmp_path / "p", *replies)
    assert done(project.contracts())["status"] == "completed"
    files = [line.split()[-2] for line in commands(project) if "test_t" in line and line.endswith("-v")]
    assert files == ["tests/test_t2_s1.py"] * 2 + ["tests/test_t1_s1.py"] * 2
    assert paces(CONTRACTS, project.requests[-1].events) == [(0, 2), (1, 2), (2, 2)]
    nothing = project.run("rerun", "--stale", "last")
    assert nothing.returncode == 0 and "nothing is stale" in nothing.stderr


def test_tests_that_are_always_wrong_end_at_a_question(tmp_path: Path) -> None:
    wrong = "        self.assertEqual(calc.t1_s1.double(2), 5)"
    tried = [one for _ in range(4) for one in (*qa(S1, wrong), implemented(S1), classified(S1, "test_error"))]
    project = ContractsProject(tmp_path / "p", *before(), designed("T1", S1), *tried, JUDGED)
    assert done(project.contracts())["status"] == "awaiting_input"
    assert "3 rewrites" in project.run("show", "last").stdout


def test_contracts_are_not_written_through_a_link(tmp_path: Path) -> None:
    project = ContractsProject(tmp_path / "p", *script(ONE))
    (tmp_path / "elsewhere").mkdir()
    (project.path / ".claude").symlink_to(tmp_path / "elsewhere")
    result = project.contracts()
    assert result.returncode != 0 and "Traceback" not in result.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_failed_request_goes_on_with_retry_and_pays_for_nothing_again(tmp_path: Path) -> None:
    whole = script(ONE)
    project = ContractsProject(tmp_path / "p", *(one for one in whole if one["match"]["agent"] != "implementer"))
    failed = project.contracts()
    assert failed.returncode != 0 and done(failed)["status"] == "failed"
    facts = project.facts()
    project.write_script(*whole)
    again = project.run("retry", "last", "--json", timeout=120)
    assert done(again)["status"] == "completed", again.stdout[-2000:]
    assert sorted(project.calls()) == [("architect", "evaluator", "evaluate"), ("implementer", "developer", "execute")]
    same = {name: fact for name, fact in project.facts().items() if not name.endswith("test-result.yaml")}
    assert same == facts and project.tree.name == "R1"
    state = json.loads((project.tree / "state.json").read_text(encoding="utf-8"))
    assert state["request"]["status"] == "completed"
