"""Where a goal comes from: stdin, a file, the person's editor; an empty one starts nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestra.core.reading import RunCreated
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, Project, role
from tests.support.terminal import Terminal

REST = ["--check", "true", "--no-baseline"]


def goal(project: Project) -> str:
    return RunCreated.of(project.events()[0]).goal


def made(path: Path) -> Project:
    return Project(path, role("planner", PLAN), role("developer", RIGHT_PATCH))


def piped(project: Project, data: bytes, word: str = "-") -> subprocess.CompletedProcess[bytes]:
    words = [PROGRAM, "loop", word, *REST, "--provider", f"scripted:{project.script}"]
    return subprocess.run(words, cwd=project.path, input=data, capture_output=True)


def test_a_goal_comes_from_standard_input_or_a_file(tmp_path: Path) -> None:
    project = made(tmp_path / "p")
    assert piped(project, "\ufeff  더하기를\n고쳐라\n".encode()).returncode == 3
    assert goal(project) == "더하기를\n고쳐라"
    other = made(tmp_path / "q")
    (other.path / "목표.txt").write_text("add, please\n")
    assert piped(other, b"", "@목표.txt").returncode == 3
    assert goal(other) == "add, please"


@pytest.mark.parametrize(
    ("data", "word", "why"),
    [
        (b" \n\t ", "-", "the goal is empty"),
        (b"\xff\xfe", "-", "is not UTF-8"),
        (b"x" * (1 << 20) + b"x", "-", "longer than"),
        (b"", "@nothing.txt", "No such file"),
        (b"", "@.", "cannot be read"),
        (b"", "", "the goal is empty"),
    ],
)
def test_what_is_no_goal_starts_nothing(tmp_path: Path, data: bytes, word: str, why: str) -> None:
    project = made(tmp_path / "p")
    done = piped(project, data, word)
    assert done.returncode == 2 and why in done.stderr.decode() and project.runs == []


def test_without_a_goal_nobody_at_a_terminal_is_told_the_ways(tmp_path: Path) -> None:
    project = made(tmp_path / "p")
    for words in (["loop"], ["dag"], ["loop", "--edit"], ["loop", "x", "-e", "--no-input"]):
        done = project.run(*words)
        assert done.returncode == 2 and done.stderr.startswith("orchestra: ") and project.runs == []


@pytest.mark.parametrize(("begun", "written"), [([], "목표"), (["하나", "--edit"], "하나 목표")])
def test_the_editor_is_opened_at_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[str], written: str
) -> None:
    project = made(tmp_path / "p")
    editor = tmp_path / "editor"
    editor.write_text(
        '#!/bin/sh\n{ head -n1 "$1" | tr "\\n" " "; echo 목표; tail -n +2 "$1"; } > "$1.new"\nmv "$1.new" "$1"\n'
    )
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    terminal = Terminal(
        [PROGRAM, "loop", *begun, *REST, "--provider", f"scripted:{project.script}", "-y"], project.path
    )
    assert terminal.end() == 0, terminal.seen
    assert goal(project) == written


def test_an_editor_that_writes_nothing_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = made(tmp_path / "p")
    monkeypatch.setenv("EDITOR", "true")
    terminal = Terminal([PROGRAM, "loop", *REST, "--provider", f"scripted:{project.script}"], project.path)
    assert terminal.end() == 2 and "the goal is empty" in terminal.seen and project.runs == []


def test_yes_is_approval_never_and_contradicts_another(tmp_path: Path) -> None:
    project = made(tmp_path / "p")
    done = project.run("loop", "g", *REST, "--yes", "--approval", "risk")
    assert done.returncode == 2 and "choose one" in done.stderr
    done = project.run("loop", "g", *REST, "--yes", "--provider", f"scripted:{project.script}")
    assert done.returncode == 0 and "a + b" in project.calc()
