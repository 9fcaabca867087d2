"""A commit is written as git would write it, and a refusal is returned as such; no git is started."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from dulwich.objects import Commit
from dulwich.repo import Repo

from orchestra.core.context import Step
from orchestra.core.copies import Copies
from orchestra.core.disk import Disk
from orchestra.core.work import CommitTo, Refusal, WriteCommit
from orchestra.patch.git.committing import Committing, _in_commit
from orchestra.patch.git.repository import find_repository
from orchestra.patch.git.writing import NewFile, build, move, write
from orchestra.patch.undo import NetFile
from tests.support.core import open_ledger

WHO = b"first <first@example.com>"


@pytest.fixture
def first(tmp_path: Path) -> str:
    """The commit of a repository with one file."""
    with Repo.init(str(tmp_path)) as repo:
        (tmp_path / "한글.txt").write_text("하나\n")
        repo.get_worktree().stage(["한글.txt".encode()])
        name = repo.get_worktree().commit(message=b"first", author=WHO, committer=WHO)
    return name.decode()


def to(parent: str) -> CommitTo:
    return CommitTo("fix", parent, False, "홍 길동", "hong@example.com", 1_700_000_000, 32_400, "둘\n")


def test_the_objects_of_a_commit_are_there_before_a_branch_names_it(tmp_path: Path, first: str) -> None:
    repository = find_repository(tmp_path, ())
    assert repository is not None
    with repository.objects() as objects:
        new = build(objects, (NewFile("폴더/새.txt", "둘\n".encode(), False),), to(first))
    write(repository, new, Disk())
    assert move(repository, to(first), new.commit, Disk()) is None
    assert repository.commit_of("fix") == new.commit
    with Repo(str(tmp_path)) as repo:
        commit = repo[new.commit.encode()]
        assert isinstance(commit, Commit) and commit.message.decode() == "둘\n" and commit.parents == [first.encode()]
    with repository.objects() as objects:
        tree = objects.tree_of(new.commit)
        found = objects.find(tree, "폴더/새.txt")
        assert found is not None and objects.data(found[1], b"blob").decode() == "둘\n"
        assert objects.find(tree, "한글.txt") is not None


def test_a_file_that_is_a_link_in_the_commit_is_not_committed_over_it(tmp_path: Path, first: str) -> None:
    """The person has replaced the link by a file, and a run has changed the file: both would be committed."""
    repository = find_repository(tmp_path, ())
    assert repository is not None
    with Repo(str(tmp_path)) as repo:
        (tmp_path / "link").symlink_to("한글.txt")
        repo.get_worktree().stage([b"link"])
        parent = repo.get_worktree().commit(message=b"link", author=WHO, committer=WHO).decode()
    with repository.objects() as objects:
        found = _in_commit("", NetFile("link", b"mine", b"the run's", 0o644, 0o644), objects, objects.tree_of(parent))
    assert isinstance(found, Refusal)
    assert (found.path, found.message) == ("link", "link is no ordinary file in the commit; nothing was committed")


@pytest.mark.parametrize("is_there", [True, False])
def test_what_cannot_be_committed_is_refused_by_its_own_reason(tmp_path: Path, first: str, is_there: bool) -> None:
    if not is_there:
        (tmp_path / ".git").rename(tmp_path / "gone")
    committing = Committing(Copies(tmp_path, ()), (str(tmp_path),), trees=lambda run: ())
    ledger = open_ledger(tmp_path / "run")
    effect = WriteCommit(("2026-01-01_001_loop_x",), to(first), f"sha256:{'0' * 64}", ())
    applied = asyncio.run(committing.commit(effect, Step("commit.1", "execute", 1, False, ledger, None)))
    ledger.close()
    why = "run 2026-01-01_001_loop_x changed no file" if is_there else "the project lies in no git repository of yours"
    assert applied.refusal is not None and applied.refusal.message == f"{why}; nothing was committed"
    assert (applied.commit, applied.after) == ("", ())
