"""SIGKILL at every append of a run whose patch a person grants in part: the end is the same, each hunk applied once.

The run: a patch of three hunks and a new file; a person grants two hunks; the check fails, and the fixer, who is told
what was declined, ends it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestra.workflows.all import ALL
from tests.kill.harness import JOURNAL, Gone, Zygote, findings, journals, other_end
from tests.kill.test_kill_everywhere import Ending
from tests.support.project import PLAN, RIGHT_PATCH, Project, new_file, reply, role
from tests.support.runs import read_events

LINES = "".join(f"줄 {number}\n" for number in range(1, 31))
HUNKS = "diff --git a/글.txt b/글.txt\n--- a/글.txt\n+++ b/글.txt\n" + "".join(
    f"@@ -{n},3 +{n},3 @@\n 줄 {n}\n-줄 {n + 1}\n+새 줄 {n + 1}\n 줄 {n + 2}\n" for n in (1, 14, 28)
)
REPLIES = (
    role("planner", PLAN),
    role("developer", reply(HUNKS + new_file("NEWS", "news"))),
    {"match": {"role": "fixer", "contains": "새 줄 15"}, "text": RIGHT_PATCH},
)
KINDS = {workflow.name: workflow for workflow in ALL}
APPENDS = frozenset({("append", JOURNAL), ("link", "approval-0001.json")})  # and before and after the person's message


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("kill")
    template = Project(base / "template", *REPLIES)
    (template.path / "글.txt").write_text(LINES, encoding="utf-8")

    def fill(work: Path) -> None:
        for name in ("calc.py", "글.txt"):
            shutil.copy(template.path / name, work)

    zygote = Zygote(base, "hunks", template.script, fill)
    yield zygote
    zygote.close()


@pytest.mark.spec("D-11", "D-12", "S1-125")
def test_a_patch_that_is_granted_in_part_survives_a_kill_at_every_append(zygote: Zygote) -> None:
    work, operations = zygote.undisturbed()
    expected = Ending(work)
    lines = expected.files["글.txt"].decode().splitlines()
    assert (lines[1], lines[14], lines[28]) == ("새 줄 2", "줄 15", "새 줄 29")
    assert "NEWS" not in expected.files and expected.files["calc.py"].endswith(b"return a + b\n")
    [journal] = journals(work)
    made = [event.payload["outcome"].get("by") for event in read_events(journal) if event.type == "PATCH_PRODUCED"]
    assert made == [None, "person", None]
    wrong = zygote.kill_each(operations, 0, lambda gone: _problem(gone, expected), shards=1, only=APPENDS)
    assert not wrong, "\n".join(wrong)


def _problem(gone: Gone, expected: Ending) -> str:
    return other_end(gone, expected) or findings(gone.work, KINDS.get)
