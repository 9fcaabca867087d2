"""SIGKILL over a run whose child works in a folder of its own, and over taking its patches back; then a new process.

The run: a parent calls a loop in the folder `build/앱`, with a note, a given plan and a scope. Its first patch is out
of scope; the second, by the fixer, edits, creates, deletes and renames; a person approves it. Then the parent takes
everything back. It is killed at every write of a journal, and in taking back at every disk operation. The files are
then exactly as before, or as patched, each of them whole; and in the end exactly as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kill.harness import JOURNAL, Gone, Operations, Zygote, findings, journals, other_end
from tests.kill.test_kill_everywhere import Ending
from tests.patch.kill_driver import tree
from tests.support.inner import OUTER, furnished
from tests.support.project import KNOWN, Project, gone_file, new_file, reply, role
from tests.support.runs import read_events

SHARDS = 3
CHANGES = """\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
diff --git a/old.txt b/moved/새.txt
rename from old.txt
rename to moved/새.txt
--- a/old.txt
+++ b/moved/새.txt
@@ -1,2 +1,2 @@
 one
-two
+둘
"""
GOOD = CHANGES + gone_file("gone/c.txt", "bye") + new_file("fresh/deep/d.txt", "d")
REPLIES = (
    role("developer", reply(new_file("docs/x.md", "x"))),
    {"match": {"agent": "implementer", "role": "fixer"}, "text": reply(GOOD)},
)
REPLIES[0]["match"]["agent"] = "implementer"


def furnish(work: Path) -> None:
    project = furnished(work)
    inner = project.path / "build/앱"
    (inner / "old.txt").write_text("one\ntwo\n")
    (inner / "gone").mkdir()
    (inner / "gone/c.txt").write_text("bye\n")
    (inner / "gone/c.txt").chmod(0o664)
    project.script.unlink()
    (work / "orchestra.config.yaml").write_text("whitelist_tools: [grep]\nloop: {evaluator: false}\n")


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("inner")
    template = Project(base / "template", *REPLIES)
    zygote = Zygote(base, "inner", template.script, furnish)
    yield zygote
    zygote.close()


def files(work: Path) -> dict[str, str]:
    return {name: what for name, what in tree(work).items() if not name.startswith(".runs")}


def test_the_run_under_test_has_it_all(zygote: Zygote, unkilled: tuple[Ending, Operations]) -> None:
    ending, operations = unkilled
    parent, child = sorted(ending.journals.items(), key=lambda one: "_loop_" in one[0])
    assert [row[0] for row in parent[1]][-4:] == [
        "PATCH_PRODUCED",
        "APPROVAL_GRANTED",
        "PATCH_APPLIED",
        "RUN_COMPLETED",
    ]
    types = [row[0] for row in child[1]]
    assert types.count("PATCH_APPLY_FAILED") == types.count("PATCH_APPLIED") == types.count("APPROVAL_REQUESTED") == 1
    assert len(points(operations)) > 60
    before = zygote.case("before")
    assert files(zygote.base / "unkilled" / "work") == files(before)


def points(operations: Operations) -> list[tuple[int, str]]:
    """Where to kill: at every line of a journal, and at everything after the last patch but one was granted."""
    lines = [number for number, one in enumerate(operations, start=1) if one == ["append", JOURNAL]]
    back = lines[-4]  # PATCH_PRODUCED of the parent; then its grant, the files, PATCH_APPLIED, the end
    found = [(number, mode) for number in lines[1:] for mode in ("torn", "after")]
    others = (n for n in range(back, len(operations) + 1) if n not in lines and operations[n - 1][0] != "sync")
    return found + [(number, "before") for number in others]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_changes_nothing_about_the_end(zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int) -> None:
    expected, operations = unkilled
    before = files(zygote.case(f"before-{shard}"))
    wrong = zygote.kill_at(points(operations)[shard::SHARDS], operations, lambda gone: _problem(gone, expected, before))
    assert not wrong, "\n".join(wrong)


def _problem(gone: Gone, expected: Ending, before: dict[str, str]) -> str:
    if other := other_end(gone, expected):
        return other
    if (found := files(gone.work)) != before:
        return f"other files: {set(found.items()) ^ set(before.items())}"
    kinds = {"outer": OUTER}.get
    return findings(gone.work, lambda name: kinds(name) or KNOWN(name))


def test_in_the_middle_of_taking_back_every_file_is_whole(zygote: Zygote, unkilled: tuple[Ending, Operations]) -> None:
    _, operations = unkilled
    before = files(zygote.case("first"))
    patched_by = [number for number, one in enumerate(operations, start=1) if one == ["append", JOURNAL]][-5]
    later = [(number, mode) for number, mode in points(operations) if number > patched_by and mode == "before"]
    cases = zygote.copied([(patched_by, "after"), *later])
    _, work = next(cases)
    patched = files(work)
    assert patched != before
    zygote.clear(work)
    seen = set()
    for (number, _), work in cases:
        now = files(work)
        for name, what in now.items():
            assert what == "folder" or what in (before.get(name), patched.get(name)), (number, name)
        seen.add(tuple(sorted(now.items())))
        assert any(event.type == "PATCH_PRODUCED" for path in journals(work) for event in read_events(path))
        zygote.clear(work)
    assert len(seen) > 3  # kills fell between two files too
