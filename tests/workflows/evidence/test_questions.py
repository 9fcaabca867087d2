"""Five questions about this repository, in one session. All evidence is compared with the files themselves.

The workers are scripted, the commands are real. What is expected is read here from the repository, not from orchestra.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.evidence import ask_agent, decision, finalize, planning, result, runs_of, session, tool
from tests.support.project import Project

ROOT = Path(__file__).parents[3]
PARTS = ("src/orchestra/core", "src/orchestra/workflows/evidence", "docs/spec")
PLACE = re.compile(r"([^:\n]+):(\d+):(.*)")


class Asked(NamedTuple):
    """A question, the command that finds the answer, and the file and the text of the line that answers it."""

    goal: str
    command: str
    path: str
    needle: str


QUESTIONS = (
    Asked(
        "실행은 어느 모듈이 잠그나?",
        "grep -rn flock src --include='*.py'",
        "src/orchestra/core/lock.py",
        "fcntl.flock(",
    ),
    Asked(
        "Which requirement says that Done comes after the session is saved?",
        'grep -rn "session is saved" docs | head -20',
        "docs/spec/s5.md",
        "**S5-11**",
    ),
    Asked(
        "How many steps may the worker take by default?",
        "grep -Hn MAX_STEPS src/orchestra/workflows/evidence/shapes.py",
        "src/orchestra/workflows/evidence/shapes.py",
        "MAX_STEPS = 12",
    ),
    Asked(
        "잠긴 실행의 종료 코드는?",
        'grep -rn "exit_code" src/orchestra/core/errors.py src/orchestra/core/lock.py',
        "src/orchestra/core/errors.py",
        "exit_code = 7",
    ),
    Asked("Where is a context opened?", "grep -rn def src", "src/orchestra/core/context.py", "def at("),
)


def line_of(asked: Asked) -> int:
    """The line of the repository that answers a question."""
    lines = (ROOT / asked.path).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if asked.needle in line)


class Turn(NamedTuple):
    asked: Asked
    run: Path
    result: dict[str, Any]


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> list[Turn]:
    """Five turns of one session, in a copy of parts of this repository."""
    project = Project(tmp_path_factory.mktemp("questions") / "p")
    for part in PARTS:
        shutil.copytree(ROOT / part, project.path / part, ignore=shutil.ignore_patterns("__pycache__"))
    found = []
    for asked in QUESTIONS:
        answer = f"{asked.path}:{line_of(asked)}"
        project.write_script(planning(), tool(asked.command), finalize(), decision(answer=answer))
        ran = ask_agent(project, goal=asked.goal)
        assert (ran.returncode, ran.stdout) == (0, f"{answer}\n"), ran.stderr
        found.append(Turn(asked, runs_of(project)[-1], result(project)))
    assert session(project)["turn"] == len(QUESTIONS)
    return found


def places(text: str) -> Iterator[tuple[str, int, str]]:
    """The places in grep's output: file, line and its text."""
    for line in text.splitlines():
        if found := PLACE.fullmatch(line):
            yield found[1], int(found[2]), found[3]


def test_every_line_of_evidence_is_a_line_of_the_repository(turns: list[Turn]) -> None:
    for turn in turns:
        [piece] = turn.result["evidence"]
        assert piece["command"] == turn.asked.command and piece["exitCode"] == 0
        shown, kept = piece["text"].splitlines(), (turn.run / piece["artifact"]).read_text().splitlines()
        first, last = piece["lines"]
        assert first == 1 and 1 <= last <= len(kept)
        assert shown[: last - 1] == kept[: last - 1] and kept[last - 1].startswith(shown[last - 1])
        checked = 0
        for path, number, text in places("\n".join(kept)):
            assert (ROOT / path).read_text(encoding="utf-8").splitlines()[number - 1] == text
            checked += 1
        assert checked == len(kept)


def test_the_answer_stands_on_its_evidence(turns: list[Turn]) -> None:
    """The place that an answer cites is in the output of its command, and the file has the fact there."""
    for turn in turns:
        path, _, number = turn.result["answer"].rpartition(":")
        [piece] = turn.result["evidence"]
        cited = [
            text for *place, text in places((turn.run / piece["artifact"]).read_text()) if place == [path, int(number)]
        ]
        assert len(cited) == 1 and turn.asked.needle in cited[0]


def test_the_files_of_a_result_are_those_of_its_evidence_with_their_lines(turns: list[Turn]) -> None:
    for turn in turns:
        [piece] = turn.result["evidence"]
        expected: dict[str, list[int]] = {}
        for path, number, _ in places(piece["text"]):
            expected.setdefault(path, []).append(number)
        named = [word for word in turn.asked.command.split() if (ROOT / word).is_file()]
        files = {file["path"]: file["lines"] for file in turn.result["files"]}
        assert files == {**dict.fromkeys(named), **{path: [min(at), max(at)] for path, at in expected.items()}}
        assert all((ROOT / path).is_file() for path in files)


def test_long_output_says_which_of_its_lines_are_shown(turns: list[Turn]) -> None:
    """The last question's output is longer than what is kept: only lines before the gap are counted."""
    [piece] = turns[-1].result["evidence"]
    kept = (turns[-1].run / piece["artifact"]).read_text().splitlines()
    assert piece["lines"][1] < len(kept) and "more characters]" in piece["text"]
