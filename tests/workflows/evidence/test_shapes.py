"""What the models of an evidence run are told, and which files its evidence is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.workflows.evidence.effects import MOST_FILES, files_of
from orchestra.workflows.evidence.prompting import worker_prompt
from orchestra.workflows.evidence.shapes import Evidence, FoundFile, Job, Loop

HINT = "You ran your last command before"


def piece(command: str, text: str = "") -> Evidence:
    return Evidence(1, command, 0, text)


@pytest.mark.parametrize(
    ("commands", "repeated"),
    [
        ((), False),
        (("ls",), False),
        (("ls", "ls"), True),
        (("ls", "rg 값"), False),
        (("ls", "ls", "rg 값"), False),
        (("rg 값", "ls", "ls"), True),
        (("ls", "rg 값", "ls"), True),
    ],
)
def test_a_worker_that_repeats_a_command_is_given_a_hint(commands: tuple[str, ...], repeated: bool) -> None:
    loop = Loop(evidence=tuple(piece(command) for command in commands))
    assert (HINT in worker_prompt(Job(goal="왜?"), loop).user) is repeated


def test_the_files_of_the_evidence_have_their_lines_and_are_limited(tmp_path: Path) -> None:
    names = [f"파일{number}.py" for number in range(MOST_FILES + 1)]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / ".env").write_text("TOKEN=x")
    (tmp_path / "folder").mkdir()
    named = piece(f"cat {names[0]} .env folder nowhere ../x", f"{names[0]}:7: a\n{names[0]}:3: b\n{names[1]}:5-c")
    assert files_of(tmp_path, (named,)) == (FoundFile(names[0], (3, 7)), FoundFile(names[1], (5, 5)))
    every = (piece(" ".join(["cat", *names])),)
    assert [found.path for found in files_of(tmp_path, every)] == names[:MOST_FILES]
