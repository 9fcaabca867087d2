"""SIGKILL over a loop in a worktree, its result as a commit of what is checked out, and its undo; then a new process.

It is killed at every write of a journal, and from the commit on at every disk operation. In the end the files are as
before, the branch has exactly one new commit, git finds nothing wrong, and no lock is left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kill.harness import JOURNAL, Gone, Operations, Zygote, journals
from tests.kill.test_kill_everywhere import Ending
from tests.patch.kill_driver import tree
from tests.support.project import KNOWN, PLAN, RIGHT_PATCH, Project, new_file, role
from tests.support.repository import git, repository
from tests.support.runs import verify

SHARDS = 2
BOTH = RIGHT_PATCH.replace("[PATCH_END]", new_file("문서/새.md", "새") + "[PATCH_END]")


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("worktree")
    template = Project(base / "template", role("planner", PLAN), role("developer", BOTH))
    repository(template.path)

    def furnish(work: Path) -> None:
        shutil.copytree(template.path, work, dirs_exist_ok=True)

    zygote = Zygote(base, "worktree", template.script, furnish, each=1)  # git's index has inodes: no copy is the same
    yield zygote
    zygote.close()


@pytest.fixture(scope="module")
def unkilled(zygote: Zygote) -> tuple[Ending, Operations]:
    work, operations = zygote.undisturbed()
    return _ending(work), operations


def files(work: Path) -> dict[str, str]:
    return {name: what for name, what in tree(work).items() if not name.startswith((".runs", ".git/"))}


def _ending(work: Path) -> Ending:
    ending = Ending(work)
    ending.files = {name: data for name, data in ending.files.items() if not name.startswith(".git/")}
    ending.journals = {name: [row[:4] for row in rows] for name, rows in ending.journals.items()}
    return ending


def points(operations: Operations) -> list[tuple[int, str]]:
    """Where to kill: after every line of a journal, and from the commit on before everything that is no sync."""
    lines = [number for number, one in enumerate(operations, start=1) if one == ["append", JOURNAL]]
    begun = lines[-10]  # RUN_CREATED of the commit; it has five events, and so has the undo. Torn, there is no run yet
    found = [(number, "after") for number in lines[1:]] + [(number, "torn") for number in (*lines[-9:-5], *lines[-4:])]
    others = (n for n in range(begun, len(operations) + 1) if n not in lines and operations[n - 1][0] != "sync")
    return found + [(number, "before") for number in others]


def test_the_run_under_test_has_it_all(zygote: Zygote, unkilled: tuple[Ending, Operations]) -> None:
    ending, operations = unkilled
    last = {name.split("_")[1]: [row[0] for row in rows] for name, rows in ending.journals.items()}
    assert set(last) == {"worktree", "loop", "commit", "undo"}
    assert (
        last["commit"][1:]
        == last["undo"][1:]
        == ["PATCH_PRODUCED", "APPROVAL_GRANTED", "PATCH_APPLIED", "RUN_COMPLETED"]
    )
    assert "APPROVAL_REQUESTED" in last["worktree"] and "APPROVAL_REQUESTED" not in last["loop"]
    assert 60 < len(points(operations)) < 200


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_changes_nothing_about_the_end(zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int) -> None:
    expected, operations = unkilled
    before = files(zygote.case(f"before-{shard}"))
    wrong = zygote.kill_at(points(operations)[shard::SHARDS], operations, lambda gone: _problem(gone, expected, before))
    assert not wrong, "\n".join(wrong)


def _problem(gone: Gone, expected: Ending, before: dict[str, str]) -> str:
    if gone.code != 0:
        return f"did not go on: exit {gone.code}: {gone.said[:800]}"
    if (found := files(gone.work)) != before:
        return f"other files: {set(found.items()) ^ set(before.items())}"
    if (ending := _ending(gone.work)) != expected:
        return f"another end: {ending.journals} instead of {expected.journals}"
    if (count := git(gone.work, "rev-list", "--count", "main")) != "2":
        return f"{count} commits"
    if left := [
        path.name
        for path in (gone.work / ".git").rglob("*")
        if path.name.endswith(".lock") or "orchestra-" in path.name
    ]:
        return f"left in .git: {left}"
    if (said := git(gone.work, "diff", "--cached", "--stat")) or (said := git(gone.work, "fsck", "--strict")):
        return f"git: {said}"
    return "; ".join(str(f) for path in journals(gone.work) for f in verify(path.parent, KNOWN))
