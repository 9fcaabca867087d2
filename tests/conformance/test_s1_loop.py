"""S1 on the real program: what a loop records, writes and refuses. Works on files and messages only (S1-126)."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import (
    FIX_PATCH,
    NOOP,
    PLAN,
    RIGHT,
    RIGHT_PATCH,
    WRONG_PATCH,
    Project,
    ask,
    conforms,
    gone_file,
    patch,
    records,
    reply,
    role,
)

FAST = "retries: {max: 2, backoff_base_sec: 0.01}\n"


def milestones(project: Project) -> list[str]:
    """The events that mark the loop's way; steps inside a phase count once."""
    names: list[str] = []
    for event in project.events():
        name = f"{event.type} {event.phase}" if event.type.startswith("PHASE_") else event.type
        if event.type not in ("PHASE_COMPLETED",) and (not names or names[-1] != name):
            names.append(name)
    return names


# -- the basic loop ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("S1-60", "S1-61", "S1-62", "S1-63", "S1-66", "S1-67", "S1-68", "S1-73", "S1-110", "S1-123")
def test_plan_wrong_patch_failing_check_fix_pass(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    done = project.loop("--approval", "never")
    assert done.returncode == 0, done.stderr
    assert project.calc().endswith(RIGHT)
    assert milestones(project) == [
        "RUN_CREATED",
        "PHASE_STARTED plan",
        "PHASE_STARTED execute",
        "PATCH_PRODUCED",
        "APPROVAL_GRANTED",
        "PATCH_APPLIED",
        "PHASE_STARTED evaluate",
        "EVALUATION_FAILED_FIXABLE",
        "PHASE_STARTED fix",
        "PATCH_PRODUCED",
        "APPROVAL_GRANTED",
        "PATCH_APPLIED",
        "PHASE_STARTED evaluate",
        "EVALUATION_PASSED",
        "RUN_COMPLETED",
    ]
    conforms(project)


@pytest.mark.spec("S1-100", "S1-101", "S1-102", "S1-103", "S1-104", "S1-105")
@pytest.mark.spec("S1-106", "S1-107", "S1-108", "S1-109", "S1-111", "S1-112")
def test_the_run_folder_is_the_tree_of_the_contract(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", WRONG_PATCH),
        role("fixer", ask("plus?")),
        role("fixer", FIX_PATCH),
    )
    assert project.loop("--approval", "never").returncode == 3
    assert project.run("answer", "last", "네, 더하기", "--no-input").returncode == 0
    folder = project.folder
    assert folder.path == project.path / ".runs" / "workflows" / folder.id
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}_001_loop_make-add-add", folder.id)
    for name in (
        "state.json",
        "events.ndjson",
        "artifacts/plan/iter-0001.md",
        "artifacts/execute/iter-0001.raw.txt",
        "artifacts/execute/iter-0001.patch",
        "artifacts/evaluate/iter-0001.json",
        "artifacts/fix/iter-0002.raw.txt",
        "artifacts/fix/iter-0002.patch",
        "artifacts/ask/iter-0002.md",
        "logs/provider-plan.log",
        "logs/provider-execute.log",
        "logs/provider-fix.log",
        "logs/gatekeeper.log",
        "report.md",
    ):
        assert (folder.path / name).is_file(), name
    assert (folder.path / "artifacts/plan/iter-0001.md").read_text() == PLAN
    assert "네, 더하기" in (folder.path / "artifacts/ask/iter-0002.md").read_text()
    assert (folder.path / "artifacts/fix/iter-0002.attempt-1.raw.txt").read_text() == ask("plus?")  # G1-8
    conforms(project)


@pytest.mark.spec("S1-01", "S1-02", "S1-04", "S1-53", "S1-54", "S1-55", "S1-56", "S1-57", "S1-58", "S1-59", "S1-115")
def test_every_event_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.loop("--approval", "never")
    lines = [json.loads(line) for line in project.folder.events.read_text().splitlines()]
    assert len({line["id"] for line in lines}) == len(lines)
    assert sorted(line["id"] for line in lines) == [line["id"] for line in lines]
    for line in lines:
        assert set(line) <= {"id", "runId", "ts", "type", "phase", "iteration", "payload"}
        assert isinstance(line["id"], str) and isinstance(line["payload"], dict)
        assert line["runId"] == project.folder.id
        assert line.get("phase") in {"plan", "execute", "evaluate", "fix", "ask", None}
    times = re.findall(r'"\d{4}-\d\d-\d\dT[^"]*"', project.folder.events.read_text() + project.folder.state.read_text())
    assert times and all(re.fullmatch(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"', t) for t in times)


@pytest.mark.spec("S1-40", "S1-41", "S1-46", "S1-50", "S1-113")
def test_the_state_is_one_snapshot_of_the_newest_event(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.loop("--approval", "never")
    state = project.state()
    assert set(state) == {
        "runId",
        "status",
        "currentPhase",
        "iteration",
        "maxFixIterations",
        "lastEventId",
        "createdAt",
        "updatedAt",
    }
    assert (state["status"], state["currentPhase"], state["iteration"], state["maxFixIterations"]) == (
        "completed",
        None,
        2,
        3,
    )
    assert state["lastEventId"] == project.events()[-1].id


@pytest.mark.spec("S1-117")
def test_the_diffstat_before_and_after_is_in_event_and_evaluation(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.loop("--approval", "never")
    row = {"path": "calc.py", "added": 1, "removed": 1}
    applied = next(e for e in project.events() if e.type == "PATCH_APPLIED").payload["outcome"]
    assert (applied["before"], applied["after"]) == ([row], [row])
    evaluation = json.loads((project.folder.path / "artifacts/evaluate/iter-0001.json").read_text())
    assert evaluation["diffstat"] == {"before": [row], "after": [row]}
    assert evaluation["decision"] == "fixable"
    assert evaluation["checks"] == [
        {"command": "grep -q 'a + b' calc.py", "status": "fail", "exitCode": 1, "before": "fail"}
    ]


@pytest.mark.spec("S1-37", "S1-116")
def test_every_reply_is_kept_byte_for_byte_for_its_owner_only(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *(role("planner", PLAN + "\r\n끝 \t"), *_judged("DECISION: PASS\nok")))
    assert project.loop("--approval", "never").returncode == 0
    raw = {p.parent.name: p for p in project.folder.artifacts.rglob("*.raw.txt")}
    assert set(raw) == {"plan", "execute", "evaluate"}
    assert raw["plan"].read_bytes() == (PLAN + "\r\n끝 \t").encode()
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in raw.values())


def _judged(*decisions: str) -> list[dict[str, Any]]:
    return [role("developer", RIGHT_PATCH), *(role("evaluator", text) for text in decisions)]


# -- results of execute and fix ---------------------------------------------------------------------------------------


@pytest.mark.spec("S1-65", "S1-81", "S1-48", "S1-93")
def test_a_question_parks_the_run_and_its_answer_reaches_the_developer(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", ask("더할까요, 곱할까요?")),
        {"match": {"role": "developer", "contains": "더해 주세요"}, "text": RIGHT_PATCH},
    )
    parked = project.loop("--approval", "never")
    assert parked.returncode == 3
    assert project.state()["status"] == "awaiting_input"
    assert project.state()["pendingQuestionId"] == "question-0001-1"
    assert project.state()["currentPhase"] == "ask"
    done = project.run("answer", "last", "더해 주세요", "--json", "--no-input")
    assert done.returncode == 0, done.stderr
    assert "QUESTION_ANSWERED" in project.types()
    assert [e.iteration for e in project.events() if e.phase == "execute"] == [1] * 7  # G1-3: not a fix iteration
    conforms(project)


@pytest.mark.spec("S1-82", "S1-96")
def test_noop_goes_straight_to_evaluate_and_completes_nothing_by_itself(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", NOOP), role("fixer", RIGHT_PATCH))
    assert project.loop("--approval", "never").returncode == 0
    names = milestones(project)
    assert names.index("PHASE_STARTED evaluate") < names.index("PATCH_PRODUCED")
    assert "EVALUATION_FAILED_FIXABLE" in names
    conforms(project)


@pytest.mark.spec("S1-98", "S1-99", "S1-95", "S1-91", "S1-90", "S1-89")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I cannot do that.", "not_found"),
        ("", "not_found"),
        (RIGHT_PATCH + RIGHT_PATCH, "ambiguous"),
        (RIGHT_PATCH.replace("type: PATCH", "type: POEM"), "invalid_format"),
        (RIGHT_PATCH.split("[PATCH_END]")[0], "truncated"),
        (reply("@@ -1 +1 @@\n-x\n+y\n"), "invalid_format"),
        (RIGHT_PATCH.replace("calc.py", "../calc.py"), "path_violation"),
        (ask("x").replace("question: x\n", ""), "no_question"),
        (reply("diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n"), "unsafe"),
    ],
)
def test_a_reply_that_fits_no_form_fails_the_phase_and_is_fixed(tmp_path: Path, text: str, reason: str) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", text), role("fixer", RIGHT_PATCH))
    assert project.loop("--approval", "never").returncode == 0
    [failed] = [e for e in project.events() if e.type == "PHASE_FAILED"]
    assert failed.payload["error"]["code"] == "CONTRACT"
    assert failed.payload["error"]["reason"] == reason
    prompt = json.loads((project.folder.path / "artifacts/fix/iter-0002.prompt.json").read_text())
    notes = {a["name"]: a["content"] for a in prompt["contextArtifacts"]}
    assert reason in notes["what failed (reply)"]  # the fixer is told precisely
    conforms(project)


@pytest.mark.spec("S1-66")
def test_a_patch_that_does_not_fit_is_never_offered_and_the_fixer_sees_the_file(tmp_path: Path) -> None:
    wrong = patch("x ** y", "a + b")
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", wrong), role("fixer", RIGHT_PATCH))
    assert project.loop("--approval", "never").returncode == 0
    [failed] = [e for e in project.events() if e.type == "PATCH_APPLY_FAILED"]
    refusal = failed.payload["outcome"]["refusal"]
    assert refusal["reason"] == "context_mismatch"
    assert "return a - b" in refusal["message"]  # what the file really says there
    conforms(project)


def test_a_reply_cut_by_the_length_limit_is_no_patch_even_if_a_prefix_would_apply(tmp_path: Path) -> None:
    bare = "```diff\n" + RIGHT_PATCH.split("[PATCH_BEGIN]\n")[1].split("[PATCH_END]")[0]
    cut = role("developer", bare, finishReason="length")
    project = Project(tmp_path / "p", role("planner", PLAN), cut, role("fixer", RIGHT_PATCH))
    assert project.loop("--approval", "never").returncode == 0
    assert [e.payload["error"]["reason"] for e in project.events() if e.type == "PHASE_FAILED"] == ["truncated"]  # G1-7


@pytest.mark.spec("S1-71", "S1-72")
def test_the_third_fix_is_allowed_and_the_fourth_is_not(tmp_path: Path) -> None:
    words = ["a * b", "a / b", "a % b", "a ** b"]
    fixes = [role("fixer", patch(old, new)) for old, new in itertools.pairwise(words)]
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH), *fixes)
    done = project.loop("--approval", "never")
    assert done.returncode == 1
    assert project.types()[-1] == "RUN_FAILED"
    assert sorted({e.iteration for e in project.events() if e.phase == "fix"}) == [2, 3, 4]  # type: ignore[type-var]
    assert project.events()[-1].payload["error"]["code"] == "FIX_LIMIT"
    assert project.state()["lastError"]["code"] == "FIX_LIMIT"
    conforms(project)


@pytest.mark.spec("S1-69", "S1-72")
def test_blocked_before_the_last_fix_asks_and_after_it_ends(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", WRONG_PATCH),
        role("evaluator", "DECISION: ASK\nQUESTION: plus or times?\nunclear"),
        role("fixer", NOOP),
        role("evaluator", "DECISION: ASK\nQUESTION: really?\nstill unclear"),
    )
    assert project.loop("--approval", "never", "--max-fixes", "1").returncode == 3  # the one fix is still to come
    assert project.types()[-2:] == ["EVALUATION_FAILED_BLOCKED", "QUESTION_RAISED"]
    assert project.run("answer", "last", "plus", "--no-input").returncode == 1
    assert project.types()[-2:] == ["EVALUATION_FAILED_BLOCKED", "RUN_FAILED"]  # an answer could change nothing
    error = project.events()[-1].payload["error"]
    assert (error["code"], error["message"]) == (
        "FIX_LIMIT",
        "still failing after 1 fix. Last problem: still unclear",
    )
    conforms(project)


def test_no_fix_at_all_can_be_allowed(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH))
    assert project.loop("--approval", "never", "--max-fixes", "0").returncode == 1
    assert "PHASE_STARTED fix" not in milestones(project)


def test_each_role_is_asked_for_its_own_task_with_what_it_needs_to_know(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", WRONG_PATCH),
        role("evaluator", "DECISION: FIX\nit multiplies"),
        role("fixer", FIX_PATCH),
        role("evaluator", "DECISION: PASS\nit adds"),
    )
    assert project.loop("--approval", "never").returncode == 0

    def asked(name: str) -> tuple[str, str, dict[str, str]]:
        """The role, the first words it is told, what it is to do, and the notes it gets."""
        said = json.loads((project.folder.artifacts / f"{name}.prompt.json").read_text())
        who = said["prompt"]["system"].partition(" of a patch loop")[0]
        goal, task = said["prompt"]["user"].split("# Your task\n\n")
        assert goal == "# Goal\n\nmake add() add\n\n# Checks that decide\n\n- grep -q 'a + b' calc.py\n\n"
        assert who == f"You are the {said['role']}" and said["agent"] == said["role"]
        notes = {note["name"]: note["content"] for note in said["contextArtifacts"] if not note["path"]}
        notes.pop("about the files shown", "")
        return said["role"], task, notes

    plan = {"plan": PLAN}
    before = {"the checks before any change": "$ grep -q 'a + b' calc.py\n[fail: exit code 1]\n\n"}
    assert asked("plan/iter-0001") == ("planner", "Write the plan.\n", before)
    assert asked("execute/iter-0001") == ("developer", "Carry out the plan.\n", plan | before)
    wrong, right = (text.split("[PATCH_BEGIN]\n")[1].split("[PATCH_END]")[0] for text in (WRONG_PATCH, FIX_PATCH))
    failed = "$ grep -q 'a + b' calc.py\n[fail: exit code 1]\n\n"
    why = {"what failed (evaluation)": f"it multiplies\n\n{failed}\nThe patch was:\n{wrong}"}
    assert asked("fix/iter-0002") == ("fixer", "Repair what failed.\n", plan | why)
    task = "Judge the result.\n"
    assert asked("evaluate/iter-0001") == ("evaluator", task, plan | {"patch": wrong, "check results": failed})
    passed = "$ grep -q 'a + b' calc.py\n[pass: exit code 0]\n"
    assert asked("evaluate/iter-0002") == ("evaluator", task, plan | {"patch": right, "check results": passed})


# -- evaluation -------------------------------------------------------------------------------------------------------


def test_a_failing_check_outranks_an_evaluator_that_says_pass(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", WRONG_PATCH),
        role("evaluator", "DECISION: PASS\nlooks good"),
        role("fixer", FIX_PATCH),
        role("evaluator", "DECISION: PASS\nnow it adds"),
    )
    assert project.loop("--approval", "never").returncode == 0
    [fixable] = [e for e in project.events() if e.type == "EVALUATION_FAILED_FIXABLE"]
    assert "exit codes outrank" in fixable.payload["outcome"]["grounds"]


def test_an_evaluator_can_send_a_passing_result_back(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", RIGHT_PATCH),
        role("evaluator", "DECISION: FIX\n주석이 없다"),
        {"match": {"role": "fixer", "contains": "주석이 없다"}, "text": NOOP},
        role("evaluator", "DECISION: PASS\nfine"),
    )
    assert project.loop("--approval", "never").returncode == 0
    assert project.types().count("EVALUATION_FAILED_FIXABLE") == 1


@pytest.mark.spec("S1-69")
def test_a_blocked_evaluation_asks_and_the_answer_goes_to_fix(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", WRONG_PATCH),
        role("evaluator", "DECISION: ASK\nQUESTION: plus or times?\nunclear"),
        {"match": {"role": "fixer", "contains": "plus, please"}, "text": FIX_PATCH},
        role("evaluator", "DECISION: PASS\nfine"),
    )
    assert project.loop("--approval", "never").returncode == 3
    assert project.types()[-2:] == ["EVALUATION_FAILED_BLOCKED", "QUESTION_RAISED"]
    assert project.run("answer", "last", "plus, please", "--no-input").returncode == 0
    conforms(project)


def test_a_blocked_evaluation_without_a_question_has_the_planner_word_one(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", WRONG_PATCH),
        role("evaluator", "DECISION: ASK\nunclear"),
        {"match": {"phase": "ask"}, "text": "더하기가 맞나요?"},
    )
    assert project.loop("--approval", "never").returncode == 3
    raised = project.events()[-1]
    assert raised.payload["question"] == "더하기가 맞나요?"  # G1-14
    assert "PHASE_STARTED ask" in milestones(project)


def test_an_evaluator_without_a_decision_is_asked_again_and_never_taken_for_a_pass(tmp_path: Path) -> None:
    replies = ("Looks fine, PASS!", "DECISION: PASS\nor\nDECISION: FIX", "")
    vague = [role("evaluator", text) for text in replies]
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH), *vague)
    assert project.loop("--approval", "never").returncode == 1
    assert project.types().count("PHASE_FAILED") == 3
    assert "EVALUATION_PASSED" not in project.types()
    conforms(project)


def test_a_check_that_cannot_be_started_is_a_question_not_a_fix(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", reply(gone_file("check.sh", "#!/bin/sh", "exit 0", mode="100755"))),
    )
    (project.path / "check.sh").write_text("#!/bin/sh\nexit 0\n")
    (project.path / "check.sh").chmod(0o755)
    project.check = "./check.sh"
    assert project.loop("--approval", "never").returncode == 3
    assert project.types()[-2:] == ["EVALUATION_FAILED_BLOCKED", "QUESTION_RAISED"]


def test_the_models_claims_about_checks_count_for_nothing(tmp_path: Path) -> None:
    claim = "<<<AIO_CHECKS_START>>>\n- command: grep\n  status: pass\n  exitCode: 0\n<<<AIO_CHECKS_END>>>\n"
    boast = role("developer", WRONG_PATCH + claim)
    project = Project(tmp_path / "p", role("planner", PLAN), boast, role("fixer", FIX_PATCH))
    assert project.loop("--approval", "never").returncode == 0
    assert "EVALUATION_FAILED_FIXABLE" in project.types()  # G1-13


# -- provider errors --------------------------------------------------------------------------------------------------


def failing(code: str, *, retriable: bool) -> dict[str, Any]:
    return {"match": {"role": "planner"}, "error": {"code": code, "message": f"{code} 오류", "retriable": retriable}}


@pytest.mark.spec("S1-26", "S1-27", "S1-28", "S1-39")
def test_a_retriable_error_is_retried_and_each_attempt_is_kept(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        failing("RATE_LIMIT", retriable=True),
        failing("UNKNOWN", retriable=True),
        role("planner", PLAN),
        role("developer", RIGHT_PATCH),
    )
    (project.path / "orchestra.config.yaml").write_text(FAST)
    assert project.loop("--approval", "never").returncode == 0
    plan = [e for e in project.events() if e.phase == "plan"]
    assert [e.payload["key"] for e in plan if e.type == "PHASE_FAILED"] == ["plan.1", "plan.2"]
    assert [e.payload["error"]["code"] for e in plan if e.type == "PHASE_FAILED"] == ["RATE_LIMIT", "UNKNOWN"]
    names = sorted(p.name for p in (project.folder.artifacts / "plan").glob("*.raw.txt"))
    assert names == ["iter-0001.attempt-1.raw.txt", "iter-0001.attempt-2.raw.txt", "iter-0001.raw.txt"]
    conforms(project)


@pytest.mark.spec("S1-118", "S1-119", "S1-125")
@pytest.mark.parametrize(("code", "exit_code"), [("AUTH", 6), ("RATE_LIMIT", 6), ("UNKNOWN", 6), ("BAD_REQUEST", 1)])
def test_an_error_that_stays_ends_the_run_with_all_its_files(tmp_path: Path, code: str, exit_code: int) -> None:
    project = Project(tmp_path / "p", failing(code, retriable=False))
    done = project.loop("--no-baseline")
    assert done.returncode == exit_code
    assert project.types() == ["RUN_CREATED", "PHASE_STARTED", "PHASE_FAILED", "RUN_FAILED"]  # G1-6
    assert project.events()[-1].payload["error"]["code"] == code
    assert f"{code} 오류" in (project.folder.logs / "provider-plan.log").read_text()
    assert f"{code} 오류" in (project.folder.logs / "run.log").read_text()
    assert records(done.stdout)[-1] == {
        "type": "done",
        "runId": project.folder.id,
        "status": "failed",
        "exitCode": exit_code,
    }
    conforms(project)


@pytest.mark.spec("S1-38", "S1-17", "S1-23")
def test_a_model_that_takes_too_long_is_a_timeout_with_what_had_arrived(tmp_path: Path) -> None:
    slow = role("planner", "a plan that never ends", delayMs=60_000, chunk=2)
    project = Project(tmp_path / "p", slow)
    (project.path / "orchestra.config.yaml").write_text("loop: {timeout_ms: 400}\nretries: {max: 0}\n")
    assert project.loop().returncode == 6
    failed = project.events()[-2]
    assert failed.payload["error"]["code"] == "TIMEOUT"
    assert failed.payload["outcome"]["finishReason"] == "timeout"
    kept = [(project.folder.artifacts / f"plan/iter-0001{k}.raw.txt").read_text() for k in ("", ".attempt-1")]
    assert kept[0] == kept[1] and "a plan that never ends".startswith(kept[0])  # G1-8: the last attempt has the name


def test_no_reply_left_names_the_request(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN))
    assert project.loop().returncode == 1
    message = project.events()[-1].payload["error"]["message"]
    assert "role=developer" in message and "phase=execute" in message and "iteration=1" in message
