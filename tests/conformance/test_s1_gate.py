"""S1 on the real program: the gate, resuming, and secrets. Works on files and messages only (S1-126)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

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
    new_file,
    reply,
    role,
)

# -- the gate ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S1-64", "S1-74", "S1-75", "S1-78", "S1-47")
def test_nothing_is_applied_before_a_person_says_so(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    before = project.calc()
    assert project.loop().returncode == 3
    assert project.calc() == before
    assert project.state()["status"] == "awaiting_approval"
    assert project.state()["pendingApprovalId"] == "approval-0001"
    assert project.types()[-2:] == ["PATCH_PRODUCED", "APPROVAL_REQUESTED"]
    assert project.run("approve", "last", "--no-input").returncode == 0
    granted = next(e for e in project.events() if e.type == "APPROVAL_GRANTED")
    assert granted.payload["outcome"]["by"] and granted.payload["approvalId"] == "approval-0001"
    assert project.calc().endswith(RIGHT)
    lines = (project.folder.logs / "gatekeeper.log").read_text().splitlines()
    assert [json.loads(line)["type"] for line in lines] == [
        "PATCH_PRODUCED",
        "APPROVAL_REQUESTED",
        "APPROVAL_GRANTED",
        "PATCH_APPLIED",
    ]
    conforms(project)


@pytest.mark.spec("S1-76", "S1-75")
def test_a_rejection_with_a_reason_goes_to_fix(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", WRONG_PATCH),
        {"match": {"role": "fixer", "contains": "곱하지 말고"}, "text": RIGHT_PATCH},
    )
    assert project.loop().returncode == 3
    assert project.run("reject", "last", "--reason", "곱하지 말고 더해라", "--no-input").returncode == 3
    assert project.calc() == "def add(a, b):\n    return a - b\n"
    assert "APPROVAL_REJECTED" in project.types()
    assert project.state()["iteration"] == 2
    assert project.run("approve", "last", "--no-input").returncode == 0
    conforms(project)


@pytest.mark.spec("S1-77")
def test_a_rejection_that_ends_the_run_cancels_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH))
    assert project.loop().returncode == 3
    assert project.run("reject", "last", "--reason", "그만", "--end", "--no-input").returncode == 1
    assert project.types()[-2:] == ["APPROVAL_REJECTED", "RUN_CANCELED"]
    assert project.state()["status"] == "canceled"
    conforms(project)


def test_whoever_said_it_is_in_the_journal(tmp_path: Path) -> None:
    """Rejection, grant, answer and cancel: each with the name of who said it."""
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", WRONG_PATCH),
        role("fixer", ask("plus?")),
        role("fixer", RIGHT_PATCH),
        role("fixer", RIGHT_PATCH),
    )

    def says(name: str, *words: str) -> int:
        return project.run(*words, env={"LOGNAME": name}).returncode

    assert project.loop().returncode == 3
    assert says("가영", "reject", "last", "--reason", "곱하지 마라", "--no-input") == 3
    assert says("나리", "answer", "last", "네", "--no-input") == 3
    assert says("다온", "approve", "last", "--no-input") == 0
    said = {e.type: e.payload["outcome"]["by"] for e in project.events() if "by" in (e.payload.get("outcome") or {})}
    assert said == {"APPROVAL_REJECTED": "가영", "QUESTION_ANSWERED": "나리", "APPROVAL_GRANTED": "다온"}
    other = Project(tmp_path / "q", role("planner", PLAN), role("developer", WRONG_PATCH))
    assert other.loop().returncode == 3
    assert other.run("cancel", "last", env={"LOGNAME": "라희"}).returncode == 0
    assert other.events()[-1].payload["result"] == {"reason": "canceled by 라희"}


def test_a_file_changed_since_the_approval_was_asked_is_not_overwritten(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH), role("fixer", NOOP))
    assert project.loop().returncode == 3
    mine = "def add(a, b):\n    return sum((a, b))  # a + b, mine\n"
    (project.path / "calc.py").write_text(mine)
    assert project.run("approve", "last", "--no-input").returncode == 0
    assert project.calc() == mine
    [failed] = [e for e in project.events() if e.type == "PATCH_APPLY_FAILED"]
    assert failed.payload["outcome"]["refusal"]["reason"] == "conflict"
    conforms(project)


def test_a_grant_binds_to_the_digest_it_was_shown(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    project.loop()
    other = "sha256:" + hashlib.sha256(b"another patch").hexdigest()
    refused = project.run("approve", "last", "--digest", other)
    assert refused.returncode == 2
    assert "what waits now is sha256:" in refused.stderr
    wanted = project.events()[-1].payload["digest"]
    assert project.run("approve", "last", "--digest", wanted, "--no-input").returncode == 0


def test_only_the_accepted_files_of_a_patch_are_applied(tmp_path: Path) -> None:
    both = RIGHT_PATCH.replace("[PATCH_END]", new_file("NEWS", "news") + "[PATCH_END]")
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", both))
    project.loop()
    wrong = project.run("approve", "last", "--only", "nope.py")
    assert wrong.returncode == 2 and "it touches: NEWS, calc.py" in wrong.stderr
    assert project.run("approve", "last", "--only", "calc.py", "--no-input").returncode == 0
    assert project.calc().endswith(RIGHT)
    assert not (project.path / "NEWS").exists()
    conforms(project)


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        (gone_file("calc.py", "def add(a, b):", "    return a - b"), "delete"),
        (new_file("auth/x.py", "x = 1"), "auth"),
        (new_file("k.py", "K = 'ghp_0123456789abcdefghijABCDEFGHIJ012345'"), "secret"),
    ],
)
def test_policy_risk_asks_for_risky_patches_only(tmp_path: Path, diff: str, reason: str) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", reply(diff)))
    assert project.loop("--approval", "risk").returncode == 3
    assert reason in " ".join(project.events()[-1].payload["reasons"]).lower()  # G1-2
    saved = json.loads((project.folder.artifacts / "execute/iter-0001.gatekeeper-risk.json").read_text())
    assert saved["risks"] == project.events()[-1].payload["reasons"]
    plain = Project(tmp_path / "q", role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert plain.loop("--approval", "risk").returncode == 0
    grant = next(e for e in plain.events() if e.type == "APPROVAL_GRANTED")
    assert grant.payload["outcome"]["by"] == "policy (approval: risk)"  # C-19: recorded all the same


# -- resume -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S1-120", "S1-121", "S1-126")
def test_three_files_are_enough_to_go_on(tmp_path: Path) -> None:
    replies = (role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", FIX_PATCH))
    whole = Project(tmp_path / "whole", *replies)
    bare = Project(tmp_path / "bare", *replies)
    for project in (whole, bare):
        assert project.loop().returncode == 3
        for last in ("execute/iter-0001", "fix/iter-0002"):
            if project is bare:
                _keep_only(bare, f"artifacts/{last}.raw.txt")
            project.run("approve", "last", "--no-input")
    assert whole.types() == bare.types()
    assert whole.calc() == bare.calc() == "def add(a, b):\n" + RIGHT
    assert bare.state()["status"] == "completed"


def _keep_only(project: Project, raw: str) -> None:
    kept = {"state.json", "events.ndjson", raw}
    for path in project.folder.path.rglob("*"):
        if path.is_file() and str(path.relative_to(project.folder.path)) not in kept:
            path.unlink()


@pytest.mark.parametrize("damage", ["deleted", "stale", "corrupt", "empty"])
def test_a_bad_state_file_is_rebuilt_from_the_journal(tmp_path: Path, damage: str) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    project.loop()
    state = project.folder.state
    good = project.state()
    match damage:
        case "deleted":
            state.unlink()
        case "stale":
            state.write_text(json.dumps({**good, "status": "running", "lastEventId": "00000002"}))
        case "corrupt":
            state.write_text(state.read_text()[:50])
        case _:
            state.write_text("")
    assert "awaiting_approval" in project.run("show", "last").stdout
    assert project.run("resume", "last", "--no-input").returncode == 3
    assert {**project.state(), "updatedAt": ""} == {**good, "updatedAt": ""}
    assert project.run("approve", "last", "--no-input").returncode == 0


def test_a_damaged_journal_is_refused_with_its_line_and_left_alone(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    project.loop("--no-baseline")
    lines = project.folder.events.read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace("add() in calc.py", "add() in calc.px")
    project.folder.events.write_text("".join(lines))
    before = project.folder.events.read_bytes()
    for command in (("resume", "last"), ("approve", "last"), ("show", "last")):
        refused = project.run(*command)
        assert refused.returncode == 1
        assert "line 3" in refused.stderr and "Traceback" not in refused.stderr
    assert project.folder.events.read_bytes() == before
    found = project.run("verify", str(project.folder.path))
    assert found.returncode == 1 and "S1-114" in found.stdout


# -- secrets ----------------------------------------------------------------------------------------------------------


def test_a_planted_secret_is_in_no_log_event_state_or_report(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    known = "correct-horse-battery-staple-77"
    diff = new_file("k.py", f"KEY = '{token}'", f"# a + b {known}")
    project = Project(
        tmp_path / "p",
        role("planner", f"{PLAN} use {token}"),
        role("developer", reply(diff, summary=f"key {known}")),
    )
    (project.path / "show.sh").write_text("#!/bin/sh\ncat k.py; exit 0\n")
    (project.path / "show.sh").chmod(0o755)
    project.check = "./show.sh"
    env = {"MY_API_KEY": known}
    parked = project.loop(goal=f"add {known} and {token}", env=env)
    assert parked.returncode == 3
    done = project.run("approve", "last", "--json", "--no-input", env=env)
    assert done.returncode == 0, done.stderr
    assert (project.path / "k.py").read_text() == f"KEY = '{token}'\n# a + b {known}\n"  # never silently altered
    shown = [parked.stdout, parked.stderr, done.stdout, done.stderr]
    shown += [project.run(command, "last", env=env).stdout for command in ("show", "diff", "logs", "report")]
    for secret in (token, known):
        leaks = [p for p in project.folder.path.rglob("*") if p.is_file() and secret in p.read_text(errors="replace")]
        assert [p for p in leaks if not p.name.endswith(".raw.txt")] == []
        assert not any(secret in text for text in shown)
    assert "secret" in " ".join(next(e for e in project.events() if e.type == "APPROVAL_REQUESTED").payload["reasons"])
