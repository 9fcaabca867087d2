"""A patch that is not in the normal form, through the real program: repaired and said so, or asked; never guessed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ..support.project import PLAN, RIGHT, RIGHT_PATCH, Project, conforms, new_file, reply, role

BARE = (
    "--- a/calc.py\t2024-05-01 10:00:00\n+++ b/calc.py\t2024-05-01 10:00:01\n@@ -7,9 +7,9 @@\n"
    " def add(a, b):\n-    return a - b\n+    return a + b\n"
    "--- /dev/null\n+++ b/문서/읽기 쉬운.md\n@@ -0,0 +1 @@\n+더하기\n"
    "--- a/old file.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
)
NAMES = "calc.py, 문서/읽기 쉬운.md, old file.txt"
SHIFTED = (
    "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n"
    "     def add(a, b):\n-        return a - b\n+        return a + b\n"
)


def project_of(tmp_path: Path, diff: str) -> Project:
    replies = (role("planner", PLAN), role("developer", reply(diff)), role("fixer", RIGHT_PATCH))
    project = Project(tmp_path / "p", *replies)
    (project.path / "old file.txt").write_text("gone\n")
    return project


@pytest.mark.spec("S1-89", "S1-97")
def test_a_diff_without_git_lines_is_applied_stored_in_the_normal_form_and_said_to_be_repaired(tmp_path: Path) -> None:
    project = project_of(tmp_path, BARE)
    (project.path / "before").mkdir()
    for name in ("calc.py", "old file.txt"):
        (project.path / "before" / name).write_bytes((project.path / name).read_bytes())
    assert project.loop().returncode == 3
    [made] = [event for event in project.events() if event.type == "PATCH_PRODUCED"]
    assert made.payload["outcome"]["repaired"] == [f"the `diff --git` line was missing and was added: {NAMES}"]

    shown = project.run("diff", "last").stdout
    assert shown.count("diff --git ") == 3
    stored = (project.folder.path / made.payload["outcome"]["patch"]["path"]).read_bytes()
    assert stored.decode() == shown
    git = ["git", "apply", "--whitespace=nowarn", "-"]
    subprocess.run(git, cwd=project.path / "before", input=stored, check=True)

    digest = made.payload["outcome"]["digest"]
    assert project.run("approve", "last", "--digest", "sha256:" + "0" * 64).returncode != 0
    assert project.run("approve", "last", "--digest", digest).returncode == 0
    assert project.run("resume", "last", "--no-input").returncode == 0
    for folder in (project.path, project.path / "before"):  # what git made of the stored patch, and what orchestra did
        assert (folder / "calc.py").read_text().endswith(RIGHT)
        assert (folder / "문서" / "읽기 쉬운.md").read_text() == "더하기\n"
        assert not (folder / "old file.txt").exists()
    report = project.run("report", "last").stdout
    assert "repaired: the `diff --git` line was missing" in report
    conforms(project)


@pytest.mark.parametrize("approval", ["always", "risk"])
def test_a_shifted_indentation_is_asked_about(tmp_path: Path, approval: str) -> None:
    project = project_of(tmp_path, SHIFTED)
    assert project.loop("--approval", approval).returncode == 3
    [request] = [event for event in project.events() if event.type == "APPROVAL_REQUESTED"]
    assert "calc.py, hunk 1: its lines are indented by 4 blanks more than the file's" in request.payload["reasons"][-1]
    assert "\n+    return a + b\n" in project.run("diff", "last").stdout  # what would really be written
    assert project.calc().endswith("return a - b\n")


def test_a_shifted_indentation_goes_back_to_the_fixer_if_nobody_may_be_asked(tmp_path: Path) -> None:
    project = project_of(tmp_path, SHIFTED)
    assert project.loop("--approval", "never").returncode == 0
    [failed] = [event for event in project.events() if event.type == "PATCH_APPLY_FAILED"]
    assert failed.payload["outcome"]["refusal"]["reason"] == "context_mismatch"
    prompt = (project.folder.path / "artifacts/fix/iter-0002.prompt.json").read_text(encoding="utf-8")
    assert "indented by 4 blanks more than the file's" in prompt
    assert project.calc().endswith(RIGHT)
    conforms(project)


@pytest.mark.spec("S1-89")
@pytest.mark.parametrize("twice", [SHIFTED + SHIFTED, new_file("문서/새.md", "하나") + new_file("문서/새.md", "둘")])
def test_a_patch_that_names_one_file_twice_changes_nothing_and_goes_to_the_fixer(tmp_path: Path, twice: str) -> None:
    project = project_of(tmp_path, twice)
    assert project.loop("--approval", "never").returncode == 0
    [refused] = [event for event in project.events() if event.type == "PHASE_FAILED"]
    assert refused.payload["key"] == "execute.1" and "is changed twice; put all its hunks" in str(refused.payload)
    assert [event.phase for event in project.events() if event.type == "PHASE_STARTED"].count("fix") == 1
    assert project.calc().endswith(RIGHT) and not (project.path / "문서").exists()
    conforms(project)
