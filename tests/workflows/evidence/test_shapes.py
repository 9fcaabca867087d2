"""What the models of an evidence run are told, and which files its evidence is about."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestra.core.command import CommandOutcome
from orchestra.core.records import ArtifactRef, Event
from orchestra.workflows.evidence.foundfiles import MOST_FILES, files_of
from orchestra.workflows.evidence.prompting import worker_prompt
from orchestra.workflows.evidence.shapes import (
    KEPT_CHARACTERS,
    Evidence,
    FoundFile,
    Job,
    Loop,
    Shortened,
    cut,
    evidence_of,
    exit_codes,
)
from orchestra.workflows.evidence.workflow import EVIDENCE

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


def test_a_worker_is_given_the_newest_three_words_of_main() -> None:
    sent = worker_prompt(Job(goal="왜?"), Loop(guidance=("첫째", "둘째", "셋째", "넷째"))).user
    assert "첫째" not in sent and all(word in sent for word in ("둘째", "셋째", "넷째"))


@pytest.mark.parametrize(
    ("code", "codes", "shown"), [(0, (0, 1), "0,1"), (2, (), "2"), (0, (), "0"), (None, (), "killed")]
)
def test_the_exit_codes_of_a_command_in_words(code: int | None, codes: tuple[int, ...], shown: str) -> None:
    assert exit_codes(Evidence(1, "ls", code, "", exitCodes=codes)) == shown


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


@pytest.mark.parametrize(
    ("command", "text", "lines"),
    [
        ("grep -n 값 '가.py'", "12:값\n15-값", (12, 15)),
        ("rg --line-number 값 가.py | head -n 2", "12:값\n15:값", (12, 15)),
        ("grep -n 값 가.py | cut -d: -f2-", "12:30 값", None),  # the numbers of the lines are cut off
        ("grep 값 가.py", "12:값", None),  # the file has `12:` there
        ("grep -n 값 가.py 나.py", "가.py:3:값\n나.py:4:값", (3, 3)),
        ("sed -n 50,60p 가.py", "a\nb\nc", (50, 52)),  # it has no line 53
        ("sed -n '7p' 가.py", "a", (7, 7)),
        ("sed -n 50,60p 가.py | grep b", "b", None),
        ("head -n 20 가.py", "a\nb", (1, 2)),
        ("cat 가.py", "a\nb", None),
        ("head -n 20 가.py > a", "a", None),  # refused
        ("grep -n 값 nowhere 가.py", "", None),
    ],
)
def test_a_command_that_reads_one_file_shows_known_lines_of_it(
    tmp_path: Path, command: str, text: str, lines: tuple[int, int] | None
) -> None:
    for name in ("가.py", "나.py"):
        (tmp_path / name).touch()
    found = files_of(tmp_path, (Evidence(1, command, 0, text, (1, len(text.splitlines())) if text else (0, 0)),))
    assert found[0] == FoundFile("가.py", lines)


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        ("가\n나\n", "exit 0, 2 lines"),
        ("가" * KEPT_CHARACTERS, "exit 0, 1 line"),
        ("가\n" * KEPT_CHARACTERS, "exit 0, 12000 lines kept of 1.5 MiB"),
    ],
)
def test_the_line_of_a_command_has_its_kept_lines_and_of_how_much(printed: str, line: str) -> None:
    kept = ArtifactRef("artifacts/a.stdout.txt", 3 << 19, f"sha256:{0:064}")
    outcome = CommandOutcome("cat", 0, "pass", 1, False, "", artifacts=(kept,), stdout=printed, exitCodes=(0,))
    told = {"native": "tool-result", "step": 1, "effect": "RunCommand", "outcome": msgspec.to_builtins(outcome)}
    event = Event(id="1", runId="r", type="PHASE_COMPLETED", ts="2026-01-31T00:00:00.000Z", payload=told)
    assert EVIDENCE.headline(event) == f"tool-result: step 1: {line}"


@pytest.mark.parametrize(
    ("text", "tokens", "kept"),
    [
        ("x" * 30, 10, 30),
        ("x" * 30, 9, 27),
        ("x" * 31, 10, 27),
        ("x" * 30, 1, 3),
        ("😀" * 9, 1, 1),  # at least one character, though it is two tokens
        ("", 0, 0),
    ],
)
def test_a_text_is_cut_to_about_so_many_tokens(text: str, tokens: int, kept: int) -> None:
    note = f"\n[… {len(text) - kept} more characters]" if kept < len(text) else ""
    assert cut(text, tokens=tokens) == Shortened(text[:kept] + note, kept)


@pytest.mark.parametrize(("more", "lines"), [(0, (1, 6_000)), (1, (1, 3_000))])
def test_only_lines_before_a_gap_in_the_output_are_counted(more: int, lines: tuple[int, int]) -> None:
    """So many characters of an output are kept; of a longer one, half of them are before the gap."""
    printed = "x\n" * (KEPT_CHARACTERS // 2) + "y" * more
    outcome = CommandOutcome("cat", 0, "pass", 1, False, "", stdout=printed, exitCodes=(0,))
    assert evidence_of(1, "cat", outcome, 100_000).lines == lines


def test_two_thousand_names_of_the_evidence_are_looked_up(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).touch()
    words = ["cat", *(f"x{number}" for number in range(1_998)), "a.py", "b.py"]
    assert files_of(tmp_path, (piece(" ".join(words)),)) == (FoundFile("a.py"),)
