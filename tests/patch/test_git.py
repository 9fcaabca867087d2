"""A repository is read as files, and what is read is what git says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestra.core.errors import OrchestraError, UsageError
from orchestra.patch.git.identity import Identity, identity
from orchestra.patch.git.repository import FOLDER, Head, find_repository, wrong_branch
from orchestra.patch.git.status import uncommitted
from tests.support.repository import git, repository


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "저장소"
    for name in ("한글.txt", "a/b/c.py", "run.sh", "win.txt", "gone.txt", "touched.txt"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(f"{name}\r\n".encode() * 50)
    (top / "link").symlink_to("한글.txt")
    (top / "run.sh").chmod(0o755)
    return repository(top)


def found(folder: Path) -> tuple[Head, tuple[str, ...] | None]:
    seen = find_repository(folder, ())
    assert seen is not None
    head = seen.head()
    return head, uncommitted(seen, head)


def test_head_refs_and_objects_are_read_loose_and_packed(folder: Path) -> None:
    commit = git(folder, "rev-parse", "HEAD")
    assert found(folder) == (Head("main", commit), ())
    for number in range(4):  # texts that git packs as deltas of each other
        (folder / "한글.txt").write_text("줄\n" * (100 + number))
        git(folder, "commit", "-qam", str(number))
    git(folder, "gc", "-q", "--aggressive", "--prune=now")
    assert (folder / ".git" / "packed-refs").exists() and not list((folder / ".git" / "objects").glob("??"))
    assert found(folder) == (Head("main", git(folder, "rev-parse", "HEAD")), ())
    seen = find_repository(folder, ())
    assert seen is not None and seen.commit_of("nothing") == ""
    listed = git(folder, "ls-tree", "-r", "HEAD").split("\n")
    with seen.objects() as objects:
        names = {os.fsdecode(path): sha for path, _, sha in objects.files(objects.tree_of(seen.head().commit), 99)}
        assert names == {line.split("\t")[1]: line.split()[2] for line in listed}
        assert objects.data(names["한글.txt"], b"blob") == (folder / "한글.txt").read_bytes()
        with pytest.raises(UsageError, match="more than 3 files"):
            list(objects.files(objects.tree_of(seen.head().commit), 3))
        with pytest.raises(UsageError, match="lacks blob"):
            objects.data("0" * 40, b"blob")
    git(folder, "branch", "a/b")
    assert [seen.in_the_way(name) for name in ("main/x", "a", "a/b/c", "a/c", "mai", "new")] == [
        *("main", "a/…", "a/b", "", "", "")
    ]
    git(folder, "checkout", "-q", "--detach")
    assert found(folder)[0].branch == ""


def test_uncommitted_changes_are_those_that_git_names(folder: Path) -> None:
    (folder / "한글.txt").write_text("changed\n")
    (folder / "run.sh").chmod(0o644)
    (folder / "gone.txt").unlink()
    (folder / "a/b/c.py").write_bytes((folder / "a/b/c.py").read_bytes().replace(b"c.py", b"d.py"))  # the same size
    os.utime(folder / "touched.txt")
    (folder / "new.txt").write_text("staged\n")
    (folder / "untracked.txt").write_text("of nobody\n")
    git(folder, "add", "new.txt")
    git(folder, "rm", "-q", "--cached", "win.txt")
    said = git(folder, "status", "--porcelain", "--untracked-files=no").split("\n")
    assert found(folder)[1] == tuple(sorted(line[3:] for line in said))


def test_a_repository_without_a_commit_and_a_linked_worktree(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q", "-b", "trunk")
    assert found(empty) == (Head("trunk", ""), ())
    other = tmp_path / "linked"
    git(folder, "worktree", "add", "-q", "-b", "next/one", str(other))
    assert found(other) == (Head("next/one", git(folder, "rev-parse", "HEAD")), ())
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / ".git").write_text((other / ".git").read_text())  # it claims to be that worktree
    assert find_repository(fake, ()) is None


@pytest.mark.parametrize("how", ["folder", "file"])
def test_a_repository_cannot_name_another_one_as_its_own(folder: Path, tmp_path: Path, how: str) -> None:
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    git(hostile, "init", "-q", "-b", "main")
    own = hostile / ".git"
    if how == "file":
        own = own.rename(tmp_path / "anywhere")
        (own / "gitdir").write_text(f"{hostile / '.git'}\n")
        (hostile / ".git").write_text(f"gitdir: {own}\n")
    (own / "commondir").write_text(f"{folder / '.git'}\n")
    assert git(hostile, "rev-parse", "HEAD") == git(folder, "rev-parse", "HEAD")  # git itself believes it
    assert find_repository(hostile, ()) is None


def test_a_project_below_the_top_is_found_but_not_beyond_a_home(folder: Path) -> None:
    seen = find_repository(folder / "a" / "b", ())
    assert seen is not None and (seen.top, seen.prefix) == (folder, "a/b/")
    assert find_repository(folder / "a" / "b", (str(folder / "a"),)) is None


@pytest.mark.parametrize("what", ["index", "HEAD", "objects", "pack", "refs", "alternates", "sha256", "reftable"])
def test_what_is_damaged_hostile_or_not_understood_is_said_and_never_waited_for(folder: Path, what: str) -> None:
    own = folder / ".git"
    match what:
        case "index":
            data = (own / "index").read_bytes()
            (own / "index").write_bytes(data[:40] + b"\xff" * 8 + data[48:200])
        case "HEAD":
            (own / "HEAD").unlink()
            os.mkfifo(own / "HEAD")
        case "objects":
            for loose in own.glob("objects/??/*"):
                loose.chmod(0o600)
                loose.write_bytes(b"x\x9c" + bytes(40))
        case "pack":
            os.mkfifo(own / "objects" / "pack" / "pack-1.pack")
        case "refs":
            (own / "refs" / "heads" / "main").write_text("not a commit\n")
        case "alternates":
            (own / "objects" / "info").mkdir(exist_ok=True)
            (own / "objects" / "info" / "alternates").write_text("/somewhere\n")
        case "sha256":
            (own / "HEAD").write_text("a" * 64)
        case _:
            (own / "reftable").mkdir()
    with pytest.raises(OrchestraError) as raised:
        found(folder)
    assert str(folder) in str(raised.value) or "git fsck" in str(raised.value)


@pytest.mark.parametrize(
    "name", ["", "a b", "-x", "a..b", "a/", "/a", "a.lock", ".a", "a~1", "HEAD", "a@{1}", "a\n", "a\x1f", "a\x7f"]
)
def test_a_name_that_git_refuses_is_no_branch(name: str, tmp_path: Path) -> None:
    assert wrong_branch(name)


def test_the_users_name_is_the_users_own(folder: Path, tmp_path: Path) -> None:
    git(folder, "config", "user.name", "evil")
    home = {"HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    with pytest.raises(UsageError, match=r"git config --global user.name"):
        identity(home)
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = 홍 <길동>\n[include]\n\tpath = more\n")
    (tmp_path / "more").write_text("[user]\n\temail = hong@example.com\n")
    assert identity(home) == Identity("홍 길동", "hong@example.com")
    assert identity({**home, "GIT_AUTHOR_NAME": "other"}).name == "other"


def made_tree(folder: Path, entry: str) -> str:
    """The id of a tree with this one entry (`MODE KIND ID`, and its name)."""
    done = subprocess.run(
        ["git", "mktree", "-z"], cwd=folder, input=f"{entry}\0".encode(), capture_output=True, check=True
    )
    return done.stdout.decode().strip()


@pytest.mark.parametrize(("size", "fits"), [(4095, True), (4096, False)])
def test_files_are_listed_below_folders_of_so_long_a_path(folder: Path, size: int, fits: bool) -> None:
    inner = made_tree(folder, f"100755 blob {git(folder, 'rev-parse', 'HEAD:run.sh')}\trun.sh")
    top = made_tree(folder, f"{FOLDER:06o} tree {inner}\t{'d' * size}")
    seen = find_repository(folder, ())
    assert seen is not None
    with seen.objects() as objects:
        if fits:
            assert [path for path, _, _ in objects.files(top, 2)] == [b"d" * size + b"/run.sh"]
            with pytest.raises(UsageError, match="more than 1 files"):
                list(objects.files(top, 1))
        else:
            with pytest.raises(UsageError, match="paths without end"):
                list(objects.files(top, 2))


def test_a_file_that_changed_in_the_instant_of_the_index_is_compared_by_its_text(folder: Path) -> None:
    """The same size and time as recorded, but the index was written no later: as git, nothing is taken on trust."""
    file, index = folder / "run.sh", folder / ".git" / "index"
    stamp = file.stat().st_mtime_ns
    file.write_bytes(file.read_bytes().replace(b"run", b"RUN"))
    os.utime(file, ns=(stamp, stamp))
    os.utime(index, ns=(stamp, stamp))
    assert found(folder)[1] == ("run.sh",)
    os.utime(index, ns=(stamp + 1, stamp + 1))
    assert found(folder)[1] == ()
