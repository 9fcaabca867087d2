"""`loop --worktree`: runs beside the project's files, at the same time; their results come through the gate."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.test_undo import files
from tests.support.project import (
    FIX_PATCH,
    PLAN,
    PROGRAM,
    RIGHT_PATCH,
    WRONG_PATCH,
    Project,
    conforms,
    new_file,
    records,
    reply,
    role,
)
from tests.support.repository import IDENTITY, git, repository

OTHER = reply(new_file("다른/파일.txt", "둘"))


def placed(path: Path) -> Project:
    project = Project(path, role("planner", PLAN), role("developer", RIGHT_PATCH))
    (path / ".gitignore").write_text("ignored.txt\n")
    repository(path)
    (path / "ignored.txt").write_text("not in the commit\n")
    return project


def copies(project: Project) -> list[Path]:
    """The worktrees: each is the folder `workspace` of a child run."""
    return sorted((project.path / ".runs" / "workflows").glob("*/workspace"))


def test_two_runs_work_at_once_and_each_result_is_approved_as_one_patch(tmp_path: Path) -> None:
    project = placed(tmp_path / "p")
    (project.path / "mine.txt").write_text("mine\n")
    git(project.path, "add", "mine.txt")
    before = files(project)
    other = tmp_path / "other.json"
    other.write_text(project.script.read_text().replace(*_as_json(RIGHT_PATCH, OTHER)))
    command = [PROGRAM, "loop", "일", "--no-input", "--json", "--worktree", "--provider"]
    checks = (project.check, "test -f 다른/파일.txt")
    both = [
        subprocess.Popen(
            [*command, f"scripted:{script}", "--check", check],
            cwd=project.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for script, check in zip((project.script, other), checks, strict=True)
    ]
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [3, 3], said
    assert all("the worktree begins with your uncommitted changes: mine.txt" in errors for _, errors in said)
    assert files(project) == before and len(copies(project)) == 2
    inside = copies(project)[0]
    assert not (inside / "ignored.txt").exists() and (inside / "mine.txt").exists()
    runs = [records(output)[0]["runId"] for output, _ in said]
    assert {one["status"] for one in records(project.run("runs", "--json").stdout) if one["runId"] in runs} == {
        "awaiting_approval"
    }
    for run in runs:
        done = project.run("approve", run)
        assert done.returncode == 0, done.stderr
    assert "a + b" in project.calc() and (project.path / "다른/파일.txt").read_text() == "둘\n"
    assert project.run("apply", runs[1], "--branch", "둘", env=IDENTITY).returncode == 0
    for run in runs:
        assert project.run("undo", run).returncode == 0
    assert files(project) == before
    conforms(project)


def _as_json(*texts: str) -> tuple[str, str]:
    first, second = (text.replace("\n", "\\n") for text in texts)
    return first, second


@pytest.mark.parametrize("how", ["changed", "rejected"])
def test_a_result_that_does_not_come_is_kept_and_the_files_stay(tmp_path: Path, how: str) -> None:
    project = placed(tmp_path / "p")
    assert project.loop("--worktree").returncode == 3
    if how == "rejected":
        done = project.run("reject", "last", "--reason", "싫다")
        said = "a person rejected the result: 싫다"
    else:
        (project.path / "calc.py").write_text("def sub(a, b):\n    return a - b\n")
        done = project.run("approve", "last")
        said = "calc.py changed on disk since the patch was computed; nothing was written"
    now = files(project)
    assert done.returncode == 1 and said in done.stderr, done.stderr
    assert "left in your files: nothing" in done.stderr
    [kept] = copies(project)
    assert "a + b" in (kept / "calc.py").read_text() and files(project) == now
    child = kept.parent.name
    assert f"orchestra apply {child} --branch NAME" in done.stderr
    assert project.run("apply", child, "--branch", "kept", env=IDENTITY).returncode == 0
    assert "a + b" in git(project.path, "show", "kept:calc.py")
    refused = project.run("apply", child, "--commit", env=IDENTITY)
    assert refused.returncode == 1 and files(project) == now
    assert project.run("clean", "--keep", "0", "--yes").returncode == 0
    assert copies(project) == []


def test_a_worktree_needs_no_git_and_a_job_that_would_be_refused_is_refused_at_once(tmp_path: Path) -> None:
    both = RIGHT_PATCH.replace("[PATCH_END]", new_file("extra.md", "x") + "[PATCH_END]")
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", both))
    assert project.run("loop", "x", "--worktree", "--check", "no-such-program").returncode == 2
    assert project.runs == []
    assert project.loop("--worktree").returncode == 3
    assert project.run("approve", "last", "--only", "calc.py").returncode == 0
    assert "a + b" in project.calc() and not (project.path / "extra.md").exists()
    assert project.run("undo", "last").returncode == 0 and "a - b" in project.calc()
    conforms(project)
    refused = project.run("start", "worktree", "workflow=loop")
    assert refused.returncode == 2 and "cannot be set from outside" in refused.stderr


def test_what_a_person_hides_from_the_models_is_hidden_in_a_worktree_too(tmp_path: Path) -> None:
    project = placed(tmp_path / "p")
    (project.path / "price.txt").write_text("the price is 4711\n")
    (project.path / "data.txt").write_text("the figure is 4712\n")
    flags = ("--worktree", "--no-context", "price.txt", "--context", "data.txt")
    assert project.loop(*flags, goal="price.txt").returncode == 3
    first = _prompts(project)
    assert first and not any("4711" in prompt for prompt in first) and all("4712" in prompt for prompt in first)
    assert project.run("approve", "last").returncode == 0
    project.write_script(role("planner", PLAN), role("developer", OTHER))
    assert project.run("more", "last", "price.txt", "--no-input", "--json").returncode == 3
    assert len(_prompts(project)) > len(first) and not any("4711" in prompt for prompt in _prompts(project))


def _prompts(project: Project) -> list[str]:
    return [path.read_text() for run in project.runs for path in run.path.glob("artifacts/**/*.prompt.json")]


def test_a_change_of_lines_that_the_model_was_not_shown_is_a_reason_to_ask_about_the_result(tmp_path: Path) -> None:
    project = placed(tmp_path / "p")
    done = project.loop("--worktree", "--approval", "risk", "--no-context", "calc.py")
    assert done.returncode == 3 and "a - b" in project.calc()
    [asked] = [one for one in records(done.stdout) if one["type"] == "APPROVAL_REQUESTED"]
    assert asked["payload"]["reasons"] == ["changes calc.py, which the model was not shown"]


def test_the_worktree_of_a_linked_worktree_is_no_worktree_of_git(tmp_path: Path) -> None:
    main = placed(tmp_path / "main")
    git(main.path, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    assert (tmp_path / "side" / ".git").is_file()
    project = Project(tmp_path / "side", role("planner", PLAN), role("developer", RIGHT_PATCH))
    assert project.loop("--worktree").returncode == 3
    [inside] = copies(project)
    assert sorted(path.name for path in inside.iterdir()) == [".gitignore", "calc.py"]


@pytest.mark.parametrize("how", ["gone", "a link"])
def test_a_copy_that_is_gone_is_named_and_no_other_folder_is_read_for_it(tmp_path: Path, how: str) -> None:
    project = placed(tmp_path / "p")
    assert project.loop("--worktree").returncode == 3
    [copy] = copies(project)
    copy.rename(tmp_path / "elsewhere")
    if how == "a link":
        copy.symlink_to(tmp_path / "elsewhere")
    shown = project.run("diff", copy.parent.name)
    assert shown.returncode == 0 and "+    return a + b" in shown.stdout
    refused = project.run("apply", copy.parent.name, "--branch", "gone", env=IDENTITY)
    assert refused.returncode == 1 and "its copy of the project, and that is gone" in refused.stderr


@pytest.mark.parametrize("command", ["dag", "contracts", "agent:run", "orchestrate", "start", "retry"])
def test_a_command_without_worktrees_says_which_have_them(tmp_path: Path, command: str) -> None:
    refused = Project(tmp_path / "p").run(command, "일", "--worktree")
    assert refused.returncode == 2 and refused.stdout == ""
    assert "only loop and more take it" in refused.stderr and len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["비밀/.env", "ignored.txt", "node_modules/x.js"])
def test_a_file_that_no_copy_has_cannot_be_opened_for_a_worktree(tmp_path: Path, name: str) -> None:
    project = placed(tmp_path / "p")
    (project.path / ".gitignore").write_text("ignored.txt\nnode_modules/\n")
    (project.path / name).parent.mkdir(exist_ok=True)
    (project.path / name).write_text("값\n")
    refused = project.loop("--worktree", "--context", f"{name}:1")
    assert refused.returncode == 2 and f"--context {name}: a worktree has no file that" in refused.stderr
    assert project.runs == [] and copies(project) == []
    outside = project.loop("--worktree", "--context", "../밖.txt")
    assert outside.returncode == 2 and "it is not in the project" in outside.stderr and project.runs == []


def test_work_that_reached_the_limit_of_fixes_goes_on_with_more_in_a_copy_of_its_own(tmp_path: Path) -> None:
    project = placed(tmp_path / "p")
    project.write_script(role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", FIX_PATCH))
    by = ("--check", project.check, "--provider", f"scripted:{project.script}", "--no-input")
    failed = project.run("loop", "더하기", *by, "--worktree", "--max-fixes", "0")
    assert failed.returncode == 1 and "left in your files: nothing" in failed.stderr, failed.stderr
    [run] = [one.id for one in project.runs if "_worktree_" in one.id]
    assert f"orchestra retry {run} --max-fixes N" in failed.stderr
    before = len(project.runs)
    refused = project.run("retry", run, "--max-fixes", "0", "--no-input")
    assert refused.returncode == 2 and "give more than" in refused.stderr and len(project.runs) == before
    assert project.run("retry", run, "--max-fixes", "1", "--no-input").returncode == 3
    assert len(copies(project)) == 2 and "a - b" in project.calc()
    kept = [event for event in project.events_of(copies(project)[1].parent.name) if event.type == "PHASE_STARTED"]
    assert [event.payload["key"] for event in kept if event.phase == "fix"] == ["fix.1"]
    assert project.run("approve", "last").returncode == 0 and "a + b" in project.calc()
    conforms(project)


def test_a_run_that_follows_another_may_work_in_a_worktree_too(tmp_path: Path) -> None:
    project = placed(tmp_path / "p")
    assert project.loop("--approval", "never").returncode == 0
    project.write_script(role("planner", PLAN), role("developer", OTHER))
    assert project.run("more", "last", "다른 파일도", "--worktree", "--no-input", "--json").returncode == 3
    assert len(copies(project)) == 1 and not (project.path / "다른").exists()
    assert any("make add() add" in prompt and "다른 파일도" in prompt for prompt in _prompts(project))
    assert project.run("approve", "last").returncode == 0 and (project.path / "다른/파일.txt").exists()
