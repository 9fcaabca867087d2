"""Applying: only what was prepared, only where it was prepared for, never through a link."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from orchestra.core.disk import Disk
from orchestra.core.work import PatchFile, Refusal
from orchestra.patch.apply import AppliedFiles, FileStatus, apply, read_images, status
from orchestra.patch.diff import FileChange
from orchestra.patch.locate import Image, Prepared
from orchestra.patch.prepared import PreparedFile, prepared, sha256
from orchestra.patch.safety import check

from .support import apply_in, changes_of, make_diff, prepare_in, snapshot


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("1\n2\n3\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_text("x\n")
    return folder


A = make_diff("a.txt", "1\n2\n3\n", "1\nTWO\n3\n")
B = make_diff("sub/b.txt", "x\n", "y\n")
NEW = make_diff("new/deep/c.txt", None, "c\n")


def put(root: Path, patch: Prepared, disk: Disk | None = None) -> AppliedFiles | Refusal:
    return apply(root, patch, disk=disk or Disk(), scratch=root.parent / "scratch")


def test_a_patch_of_several_files_is_written_and_told(root: Path) -> None:
    assert apply_in(root, A + B + NEW) == AppliedFiles(("a.txt", "sub/b.txt", "new/deep/c.txt"), ())
    assert (root / "a.txt").read_text() == "1\nTWO\n3\n"
    assert (root / "sub/b.txt").read_text() == "y\n"
    assert (root / "new/deep/c.txt").read_text() == "c\n"
    scratch = root.parent / "scratch"
    assert list(scratch.iterdir()) == [] and stat.S_IMODE(scratch.stat().st_mode) == 0o700
    assert str(scratch) not in map(os.path.realpath, Path("/proc/self/fd").iterdir())


def test_applying_again_after_success_writes_nothing(root: Path) -> None:
    patch = prepare_in(root, A + NEW)
    assert put(root, patch) == AppliedFiles(("a.txt", "new/deep/c.txt"), ())
    before = {path: path.stat().st_ino for path in root.rglob("*")}
    assert put(root, patch) == AppliedFiles((), ("a.txt", "new/deep/c.txt"))
    assert {path: path.stat().st_ino for path in root.rglob("*")} == before


def test_a_half_applied_patch_is_completed(root: Path) -> None:
    patch = prepare_in(root, A + B)
    (root / "a.txt").write_text("1\nTWO\n3\n")
    assert status(root, [part.file for part in patch.files]) == (
        FileStatus("a.txt", "after"),
        FileStatus("sub/b.txt", "before"),
    )
    assert put(root, patch) == AppliedFiles(("sub/b.txt",), ("a.txt",))


@pytest.mark.parametrize("disturb", ["text", "gone", "folder", "link", "executable", "new file taken"])
def test_a_file_changed_meanwhile_is_a_conflict_and_nothing_is_written(root: Path, disturb: str) -> None:
    patch = prepare_in(root, A + NEW + B)
    target = root / "sub/b.txt"
    match disturb:
        case "text":
            target.write_text("mine\n")
        case "executable":
            target.chmod(0o755)
        case "new file taken":
            (root / "new/deep").mkdir(parents=True)
            (root / "new/deep/c.txt").write_text("mine\n")
        case _:
            target.unlink()
            if disturb == "folder":
                target.mkdir()
            elif disturb == "link":
                target.symlink_to("../a.txt")
    before = snapshot(root)
    refused = put(root, patch)
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.path) == (
        "conflict",
        "new/deep/c.txt" if disturb == "new file taken" else "sub/b.txt",
    )
    assert "Nothing was written" in refused.message
    assert snapshot(root) == before


def test_delete_and_rename_remove_the_folders_they_emptied_and_no_others(root: Path) -> None:
    (root / "one/two").mkdir(parents=True)
    (root / "one/two/x.txt").write_text("x\n")
    (root / "empty").mkdir()
    rename = "diff --git a/sub/b.txt b/moved.txt\nrename from sub/b.txt\nrename to moved.txt\n"
    done = apply_in(root, make_diff("one/two/x.txt", "x\n", None) + rename)
    assert isinstance(done, AppliedFiles)
    assert sorted(path.name for path in root.iterdir()) == ["a.txt", "empty", "moved.txt"]


def test_a_folder_with_other_files_stays(root: Path) -> None:
    (root / "sub/keep").write_text("k")
    assert isinstance(apply_in(root, make_diff("sub/b.txt", "x\n", None)), AppliedFiles)
    assert [path.name for path in (root / "sub").iterdir()] == ["keep"]


@pytest.mark.parametrize(("mode", "after"), [(0o644, 0o755), (0o600, 0o700), (0o664, 0o775)])
def test_modes_are_kept_and_only_x_changes(root: Path, mode: int, after: int) -> None:
    (root / "a.txt").chmod(mode)
    assert isinstance(apply_in(root, A), AppliedFiles)
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == mode
    only_mode = "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n"
    assert apply_in(root, only_mode) == AppliedFiles(("a.txt",), ())
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == after


def test_new_files_follow_the_umask(root: Path) -> None:
    executable = make_diff("run.sh", None, "x\n").replace("100644", "100755")
    old = os.umask(0o027)
    try:
        assert isinstance(apply_in(root, make_diff("n.txt", None, "x\n") + executable), AppliedFiles)
    finally:
        os.umask(old)
    assert [stat.S_IMODE((root / name).stat().st_mode) for name in ("n.txt", "run.sh")] == [0o640, 0o750]


def test_a_renamed_file_keeps_its_mode(root: Path) -> None:
    (root / "a.txt").chmod(0o750)
    assert isinstance(apply_in(root, "diff --git a/a.txt b/z.txt\nrename from a.txt\nrename to z.txt\n"), AppliedFiles)
    assert stat.S_IMODE((root / "z.txt").stat().st_mode) == 0o750


def test_a_hard_link_elsewhere_keeps_the_old_text(root: Path) -> None:
    outside = root.parent / "outside.txt"
    os.link(root / "a.txt", outside)
    assert isinstance(apply_in(root, A), AppliedFiles)
    assert outside.read_text() == "1\n2\n3\n"


# --- links and special files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["last", "folder", "first folder", "inside"])
def test_nothing_is_read_or_written_through_a_symlink(root: Path, where: str) -> None:
    outside = root.parent / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "f.txt").write_text("x\n")
    path = {"last": "f.txt", "folder": "sub/link/f.txt", "first folder": "link/deep/f.txt", "inside": "inside/b.txt"}[
        where
    ]
    link = {"last": "f.txt", "folder": "sub/link", "first folder": "link", "inside": "inside"}[where]
    (root / link).symlink_to({"last": outside / "f.txt", "inside": root / "sub"}.get(where, outside))
    before, elsewhere = snapshot(root), snapshot(outside)
    for diff in (make_diff(path, "x\n", "y\n"), make_diff(path, None, "y\n"), make_diff(path, "x\n", None)):
        images = read_images(root, changes_of(diff))
        assert isinstance(images, Refusal)
        assert images.reason == "unsafe"
        assert "symbolic link" in images.message
    forged = PreparedFile(PatchFile(path, "create", None, sha256(b"y\n"), 1, 0, 0o644), b"y\n", "")
    assert isinstance(put(root, prepared([forged])), Refusal)
    assert (snapshot(root), snapshot(outside)) == (before, elsewhere)


@pytest.mark.parametrize("path", ["../out.txt", "/tmp/orchestra-out.txt", "a/../../out.txt", "./x", "a//b", ""])
def test_a_forged_path_never_leaves_the_root(root: Path, path: str) -> None:
    forged = PreparedFile(PatchFile(path, "create", None, sha256(b"y\n"), 1, 0, 0o644), b"y\n", "")
    before = snapshot(root.parent)
    refused = put(root, prepared([forged]))
    assert isinstance(refused, Refusal)
    assert snapshot(root.parent) == before
    assert isinstance(read_images(root, [FileChange("create", None, path)]), Refusal)


def test_special_files_and_folders_are_refused(root: Path) -> None:
    os.mkfifo(root / "pipe")
    for path in ("pipe", "sub", "a.txt/below"):
        images = read_images(root, [FileChange("modify", path, path)])
        assert isinstance(images, Refusal)
        assert images.reason == "unsafe"


def test_a_link_put_in_the_way_after_preparing_is_not_followed(root: Path) -> None:
    patch = prepare_in(root, NEW)
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "new").symlink_to(outside)
    refused = put(root, patch)
    assert isinstance(refused, Refusal)
    assert list(outside.iterdir()) == []


def test_images_hold_bytes_and_mode(root: Path) -> None:
    (root / "a.txt").write_bytes(b"\xff\r\n")
    (root / "a.txt").chmod(0o755)
    images = read_images(root, changes_of(A + NEW))
    assert images == {"a.txt": Image(b"\xff\r\n", 0o755), "new/deep/c.txt": None}


# --- failing half-way -----------------------------------------------------------------------------------------------


class FailingDisk(Disk):
    """A disk whose n-th rename or unlink in the workspace is not permitted; taking back is."""

    def __init__(self, at: int) -> None:
        self._left = at

    def replace(
        self, source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        self._count()
        super().replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        if path.endswith(".txt"):
            self._count()
        super().unlink(path, dir_fd=dir_fd)

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_a_failure_half_way_takes_everything_back(root: Path, at: int) -> None:
    (root / "gone.txt").write_text("g\n")
    (root / "gone.txt").chmod(0o640)
    rename = "diff --git a/sub/b.txt b/sub/z.txt\nrename from sub/b.txt\nrename to sub/z.txt\n"
    patch = prepare_in(root, A + make_diff("gone.txt", "g\n", None) + NEW + rename)
    before = snapshot(root)
    refused = put(root, patch, FailingDisk(at))
    assert isinstance(refused, Refusal)
    assert refused.reason == "io_error"
    assert "as they were before" in refused.message
    assert snapshot(root) == before
    assert isinstance(put(root, patch), AppliedFiles)


class MeddlingDisk(Disk):
    """Someone else writes to a file while the patch is being applied: just after its first rename."""

    def __init__(self, victim: Path) -> None:
        self._victim = victim
        self._done = False

    def replace(
        self, source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        super().replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        if not self._done:
            self._done = True
            self._victim.write_text("mine\n")


@pytest.mark.parametrize("victim", ["a.txt", "sub/b.txt"])
def test_a_file_changed_while_applying_keeps_that_change_and_the_rest_is_taken_back(root: Path, victim: str) -> None:
    patch = prepare_in(root, A + B)
    refused = put(root, patch, MeddlingDisk(root / victim))
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.path) == ("conflict", victim)
    texts = {"a.txt": "1\n2\n3\n", "sub/b.txt": "x\n"} | {victim: "mine\n"}
    assert {name: (root / name).read_text() for name in texts} == texts


# --- git around the workspace ---------------------------------------------------------------------------------------


def test_a_workspace_in_a_sub_folder_of_a_repository_is_really_patched(root: Path) -> None:  # T-2
    subprocess.run(["git", "init", "-q", str(root.parent)], check=True)
    assert isinstance(apply_in(root, A), AppliedFiles)
    assert (root / "a.txt").read_text() == "1\nTWO\n3\n"


def test_a_symlink_that_a_patch_would_create_is_refused_long_before(root: Path) -> None:  # T-4
    refused = check(changes_of(make_diff("l", None, "/etc/passwd").replace("100644", "120000")))
    assert refused is not None and refused.reason == "unsafe"


def test_without_a_folder_to_write_in_first_nothing_is_written(root: Path) -> None:
    patch, before = prepare_in(root, A + NEW), snapshot(root)
    for place in ("file", "link"):
        (root.parent / "file").write_text("x")
        (root.parent / "link").unlink(missing_ok=True)
        (root.parent / "link").symlink_to(root)
        refused = apply(root, patch, disk=Disk(), scratch=root.parent / place)
        assert isinstance(refused, Refusal) and refused.reason == "io_error"
        assert refused.message.endswith("Nothing was written") and snapshot(root) == before


@pytest.mark.parametrize("more", [0, 1])
def test_a_file_of_exactly_16_mib_is_read(root: Path, more: int) -> None:
    with (root / "a.txt").open("wb") as file:
        file.truncate((16 << 20) + more)
    found = read_images(root, changes_of(A))
    if more:
        assert isinstance(found, Refusal) and "at most 16 MiB" in found.message
    else:
        assert isinstance(found, dict) and len(found["a.txt"].data) == 16 << 20  # type: ignore[union-attr]
