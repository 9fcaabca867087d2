"""What a run that follows another is told of it: its goal, its change, its verdicts, each short enough for a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.patch.undo import Net, NetFile
from orchestra.runs.following import told
from tests.runs.test_tree import Place, Told
from tests.support.core import REDACTOR

VERDICT: Told = (
    "EVALUATION_FAILED_FIXABLE",
    "verdict.1",
    "10:00:01",
    {"effect": "Evaluate", "outcome": {"grounds": "틀"}},
)
REJECTED: Told = ("APPROVAL_REJECTED", "ask.1", "10:00:02", {"effect": "Approve", "outcome": {"reason": "크다"}})
END: Told = ("RUN_FAILED", "", "10:00:03", {"error": {"code": "X", "message": "망가짐"}, "exitCode": 1})


def notes(path: Path, net: Net, *events: Told) -> list[str]:
    place = Place(path)
    found = told(place.runs.summary(place.write("목표", *events)), net, REDACTOR)
    assert [note.name.rpartition(": ")[2] for note in found] == [
        "its goal",
        "what it changed, already in the files",
        "how it ended",
    ]
    return [note.content for note in found]


def test_a_run_without_a_change_is_told_by_its_goal_and_its_end(tmp_path: Path) -> None:
    assert notes(tmp_path / "a", Net(()), END) == ["목표\n", "nothing\n", "- failed: 망가짐\n"]
    how = notes(tmp_path / "b", Net(()), VERDICT, REJECTED, END)[2].splitlines()
    assert how[0] == "- iteration 1 needs a fix: 틀"
    assert how[1:] == ["- a person rejected the patch of iteration 1: 크다", "- failed: 망가짐"]


@pytest.mark.parametrize("more", [0, 1])
def test_a_long_change_is_cut_and_files_that_changed_again_are_named(tmp_path: Path, more: int) -> None:
    def net(size: int) -> Net:
        return Net((NetFile("a.py", None, b"x" * size + b"\n", None, 0o644),), ("b.py", "c.py"))

    around = len(notes(tmp_path / "first", net(1), END)[1].partition("\nAlso changed")[0])
    text = notes(tmp_path / "second", net(40_000 - around + 1 + more), END)[1]
    assert ("… the rest of it is left out\n" in text) == bool(more)
    assert text.endswith("\nAlso changed, and changed again since: b.py, c.py\n\n")
