"""Deciding well, without a terminal: parts of a patch, rejections that cost no fix, a waiting run that is changed, and
a run that follows another."""

from __future__ import annotations

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
    conforms,
    new_file,
    patch,
    reply,
    role,
)

LINES = "".join(f"줄 {number}\n" for number in range(1, 31))
HUNKS = "diff --git a/글.txt b/글.txt\n--- a/글.txt\n+++ b/글.txt\n" + "".join(
    f"@@ -{n},3 +{n},3 @@\n 줄 {n}\n-줄 {n + 1}\n+새 줄 {n + 1}\n 줄 {n + 2}\n" for n in (1, 14, 28)
)


def prompt_of(project: Project, key: str) -> str:
    return project.run("show", "last", "--prompt", key).stdout


# -- parts of a patch -------------------------------------------------------------------------------------------------


@pytest.fixture
def waiting(tmp_path: Path) -> Project:
    both = reply(HUNKS + new_file("NEWS", "news"))
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", both), role("fixer", RIGHT_PATCH))
    (project.path / "글.txt").write_text(LINES, encoding="utf-8")
    assert project.loop().returncode == 3
    return project


@pytest.mark.spec("D-11", "S1-74")
def test_hunks_are_granted_by_number_and_the_fixer_is_told_of_the_rest(waiting: Project) -> None:
    done = waiting.run("approve", "last", "--hunks", "글.txt:1,3", "--reason", "가운데는 빼라", "--no-input")
    assert done.returncode == 3, done.stderr  # the fixer's patch waits
    lines = (waiting.path / "글.txt").read_text().splitlines()
    assert (lines[1], lines[14], lines[28]) == ("새 줄 2", "줄 15", "새 줄 29")
    assert not (waiting.path / "NEWS").exists()
    told = prompt_of(waiting, "fix.1")
    assert "Reason: 가운데는 빼라" in told and "+새 줄 15" in told and "+news" in told
    own = waiting.events()[[event.type for event in waiting.events()].index("APPROVAL_GRANTED") - 1]
    assert (own.type, own.payload["outcome"]["by"]) == ("PATCH_PRODUCED", "person")
    conforms(waiting)
    assert "이미" not in waiting.run("undo", "last", "--yes").stderr
    assert (waiting.path / "글.txt").read_text() == LINES  # what was granted in part is taken back whole


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hunks", "글.txt:4"], "there is no hunk 4 in 글.txt; it has 3 hunks:\n  1  @@ -1,5 +1,5 @@ -줄 2\n"),
        (["--hunks", "글.txt:0"], "there is no hunk 0"),
        (["--hunks", "없다:1"], "'없다' is not in this patch; it touches: NEWS, 글.txt"),
        (["--hunks", "글.txt"], "want FILE:NUMBERS"),
        (["--reason", "왜"], "give --only or --hunks too"),
    ],
)
def test_a_choice_that_is_none_is_refused_and_nothing_is_recorded(
    waiting: Project, words: list[str], said: str
) -> None:
    refused = waiting.run("approve", "last", *words)
    assert refused.returncode == 2 and said in refused.stderr, refused.stderr
    assert not list(waiting.folder.inbox.glob("approval*"))


@pytest.mark.spec("D-11", "D-12")
def test_a_file_that_changes_around_a_choice_is_not_overwritten(waiting: Project) -> None:
    file = waiting.path / "글.txt"
    for mine, said in (("줄 21", "글.txt has changed since the patch was made"), ("줄 30", "does not fit the files")):
        file.write_text(LINES.replace(mine, "내 줄"), encoding="utf-8")
        refused = waiting.run("approve", "last", "--hunks", "글.txt:1")
        assert refused.returncode == 2 and said in refused.stderr, refused.stderr
    file.write_text(LINES, encoding="utf-8")
    assert waiting.run("approve", "last", "--hunks", "글.txt:1", "--no-drive").returncode == 0
    mine = LINES.replace("줄 30", "내 줄")
    file.write_text(mine, encoding="utf-8")
    assert waiting.run("resume", "last", "--no-input").returncode == 3
    assert file.read_text() == mine
    [failed] = [event for event in waiting.events() if event.type == "PATCH_APPLY_FAILED"]
    assert "a file has changed since this version of the patch was approved" in str(failed.payload)
    conforms(waiting)


# -- rejections and limits --------------------------------------------------------------------------------------------


@pytest.mark.spec("S1-71", "S1-76")
def test_a_persons_rejection_costs_no_fix_and_the_same_patch_again_is_told(tmp_path: Path) -> None:
    fixers = [role("fixer", WRONG_PATCH), role("fixer", WRONG_PATCH), role("fixer", RIGHT_PATCH)]
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH), *fixers)
    assert project.loop("--max-fixes", "0").returncode == 3
    for number, reason in enumerate(("곱하지 마라", "또 같다", "그만 곱해라"), start=1):
        assert project.run("reject", "last", "--reason", reason, "--no-input").returncode == 3
        assert project.state()["iteration"] == number + 1
        again = "it is the same patch that you rejected" in project.events()[-1].payload["reasons"]
        assert again == (number < 3)
    told = prompt_of(project, "fix.3")
    assert all(reason in told for reason in ("곱하지 마라", "또 같다", "그만 곱해라"))  # all of them stay
    assert "It is the same patch that the person rejected before" in told
    assert project.run("approve", "last", "--no-input").returncode == 0
    conforms(project)


def test_past_the_limit_the_end_names_retry_which_goes_on_with_the_next_fix(tmp_path: Path) -> None:
    worse = patch("a * b", "a / b")
    fixers = [role("fixer", worse), role("fixer", patch("a / b", "a + b"))]
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH), *fixers)
    ended = project.loop("--approval", "never", "--max-fixes", "1")
    assert ended.returncode == 1 and project.state()["lastError"]["code"] == "FIX_LIMIT"
    assert "The patch was:" not in project.state()["lastError"]["message"]  # the person has seen it; the fixer is told
    assert "The patch was:" in prompt_of(project, "fix.1")
    [first] = project.runs
    shown = project.run("resume", first.id, "--no-input")
    assert f"orchestra retry {first.id} --max-fixes N" in shown.stderr
    assert shown.stderr.count("still failing after 1 fix") == 1  # a failure is told once
    assert project.run("retry", first.id, "--max-fixes", "2", "--no-input").returncode == 0
    assert project.calc().endswith(RIGHT)


def test_a_waiting_run_is_changed_and_its_journal_says_so(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", FIX_PATCH))
    assert project.loop("--max-fixes", "0").returncode == 3
    refused = project.run("resume", "last", "--max-fixes", "0")
    assert refused.returncode == 2 and "give more than" in refused.stderr
    words = ["--max-fixes", "1", "--approval", "never", "--check", project.check, "--check", "test -f calc.py"]
    assert project.run("resume", "last", *words, "--no-input").returncode == 3  # the patch still waits
    assert project.run("approve", "last", "--no-input", env={"LOGNAME": "가영"}).returncode == 0
    [changed] = [event.payload["changed"] for event in project.events() if "changed" in event.payload]
    assert changed["values"]["maxFixIterations"] == 1 and changed["values"]["approval"] == "never" and changed["by"]
    assert project.types().count("APPROVAL_REQUESTED") == 1 and project.types().count("APPROVAL_GRANTED") == 2
    assert project.state()["maxFixIterations"] == 1
    assert len(project.events()[-1].payload["result"]["checks"]) == 2
    conforms(project)
    late = project.run("resume", "last", "--max-fixes", "9")
    assert late.returncode == 2 and "is completed" in late.stderr


def test_a_file_may_not_widen_a_waiting_run_and_a_flag_may(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", FIX_PATCH))
    assert project.loop("--approval", "always").returncode == 3
    project.configure("loop: {approval: never}\n")
    assert project.run("approve", "last", "--no-input").returncode == 3  # the fix is asked about all the same
    assert project.types().count("APPROVAL_REQUESTED") == 2


# -- what a person is shown -------------------------------------------------------------------------------------------


def test_a_reply_is_shown_by_its_key_and_a_noop_says_why(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", NOOP), role("fixer", RIGHT_PATCH))
    (project.path / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    done = project.run("loop", "g", "--check", project.check, "--provider", f"scripted:{project.script}", "--no-input")
    assert "nothing to change: 이미 목표 상태임 (execute.1)" in done.stderr
    assert project.run("show", "last", "--reply", "plan.1").stdout.strip() == PLAN
    wrong = project.run("show", "last", "--reply", "fix.9")
    assert wrong.returncode == 2 and "its calls: plan.1, execute.1" in wrong.stderr


# -- a run that follows another ---------------------------------------------------------------------------------------


def test_more_goes_on_from_a_run_that_ended_and_knows_what_it_did(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert project.loop("--approval", "never", goal="더하기를 고쳐라").returncode == 0
    [first] = project.runs
    told = {"match": {"role": "developer", "contains": "+    return a + b"}, "text": reply(new_file("NEWS", "덧셈"))}
    project.write_script(role("planner", PLAN), told)
    asked = project.run("more", "last", "이제 소식도 써라", "--check", "test -f NEWS", "--no-input")
    assert asked.returncode == 3, asked.stderr  # `--approval never` was said for the run before, and for no other
    assert project.run("approve", "last", "--no-input").returncode == 0
    [second] = [run for run in project.runs if run.id != first.id]
    created = project.events_of(second.id)[0].payload
    assert (created["inputRunId"], created["goal"]) == (first.id, "이제 소식도 써라")
    assert created["params"]["checks"] == [["test", "-f", "NEWS"]]
    seen = prompt_of(project, "plan.1")
    assert "더하기를 고쳐라" in seen and "iteration 1 passed" in seen
    assert first.id in project.run("lineage", second.id).stdout


def test_more_needs_a_run_that_has_ended(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert project.loop().returncode == 3
    refused = project.run("more", "last", "그리고")
    assert refused.returncode == 2 and "it has not ended. orchestra resume" in refused.stderr
