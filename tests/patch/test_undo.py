"""Patches are taken back to the byte, or a file is named and nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestra.core.disk import Disk
from orchestra.core.work import Refusal
from orchestra.patch.apply import AppliedFiles, apply, read_files
from orchestra.patch.diff import parse_diff
from orchestra.patch.locate import Image, Prepared, compute
from orchestra.patch.undo import (
    AppliedPatch,
    Undo,
    UndoFile,
    folders_made,
    left_changed,
    net_change,
    paths_of,
    still_changed,
    taken_back,
    unlike,
)

from .kill_driver import tree
from .support import make_diff, prepare_in

OLD = "안녕\r\nworld \r\nlast"


class Place:
    """A folder, and the patches that were applied to it."""

    def __init__(self, path: Path, files: Mapping[str, bytes]) -> None:
        self.root, self.scratch = path / "work", path / "scratch"
        self.root.mkdir(parents=True)
        for name, data in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_bytes(data)
        self.before = tree(self.root)
        self.patches: list[AppliedPatch] = []

    def patch(self, diff: str, made: tuple[str, ...] = ()) -> None:
        prepared = prepare_in(self.root, diff)
        assert isinstance(prepared, Prepared), prepared
        files = tuple(UndoFile(part.file.path, part.back) for part in prepared.files)
        self.patches.append(AppliedPatch(tuple(part.file for part in prepared.files), Undo(files, made)))
        assert isinstance(apply(self.root, prepared, disk=Disk(), scratch=self.scratch), AppliedFiles)

    def computed(self) -> Prepared | Refusal:
        images = read_files(self.root, paths_of(self.patches))
        assert isinstance(images, dict)
        return taken_back(self.patches, images)

    def take_back(self) -> None:
        back = self.computed()
        assert isinstance(back, Prepared), back
        made = folders_made(self.patches)
        done = apply(self.root, back, disk=Disk(), scratch=self.scratch, made=made)
        assert isinstance(done, AppliedFiles), done


def test_creating_deleting_renaming_and_modes_are_reversed(tmp_path: Path) -> None:
    place = Place(
        tmp_path, {"a.txt": b"1\n2\n3\n", "gone/c.txt": b"bye\n", "old/이름.txt": b"x\ny\n", "run.sh": b"go\n"}
    )
    (place.root / "gone/c.txt").chmod(0o664)
    (place.root / "old/이름.txt").chmod(0o600)
    (place.root / "empty").mkdir()  # it was there before, and empty
    before = tree(place.root)
    place.patch(
        make_diff("a.txt", "1\n2\n3\n", "1\nTWO\n3\n")
        + make_diff("src/deep/b.txt", None, "fresh\n")
        + make_diff("empty/d.txt", None, "d\n")
        + make_diff("gone/c.txt", "bye\n", None)
        + "diff --git a/old/이름.txt b/new/name.txt\nrename from old/이름.txt\nrename to new/name.txt\n"
        + "--- a/old/이름.txt\n+++ b/new/name.txt\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n"
        + "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n",
        made=("src", "src/deep", "new"),
    )
    assert tree(place.root) != before
    place.take_back()
    assert tree(place.root) == before
    place.take_back()  # nothing is left to do
    assert tree(place.root) == before


def test_several_patches_of_one_file_are_taken_back_together(tmp_path: Path) -> None:
    place = Place(tmp_path, {"a.txt": b"1\n2\n3\n"})
    place.patch(make_diff("a.txt", "1\n2\n3\n", "1\n2\n3\n4\n"))
    place.patch("diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n")
    place.patch(make_diff("b.txt", "1\n2\n3\n4\n", "zero\n2\n3\n4\n") + make_diff("a.txt", None, "another\n"))
    place.patch(make_diff("a.txt", "another\n", None))
    place.patch(make_diff("b.txt", "zero\n2\n3\n4\n", None))
    place.take_back()
    assert tree(place.root) == place.before


@pytest.mark.parametrize(
    ("old", "diff"),
    [
        (b"one\ntwo   \nthree\n", "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"),  # blanks that the patch did not have
        (b"a\r\nb\r\nc", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"),  # CRLF, and no newline at the end
        ("\ufeff“x”\ny\n".encode(), '@@ -1,2 +1,2 @@\n-"x"\n+z\n y\n'),  # a mark and typographic quotes
        (b"\xff\xfe raw\nold\nend\n", "@@ -2,2 +2,2 @@\n-old\n+new\n end\n"),  # bytes that are no text
    ],
)
def test_what_the_patch_itself_did_not_say_comes_back_too(tmp_path: Path, old: bytes, diff: str) -> None:
    place = Place(tmp_path, {"f": old})
    place.patch(f"diff --git a/f b/f\n--- a/f\n+++ b/f\n{diff}")
    assert (place.root / "f").read_bytes() != old
    place.take_back()
    assert (place.root / "f").read_bytes() == old


@pytest.mark.parametrize("how", ["edited", "removed", "executable"])
def test_a_file_that_changed_since_is_named_and_nothing_is_changed(tmp_path: Path, how: str) -> None:
    place = Place(tmp_path, {"a.txt": b"1\n", "b.txt": b"1\n"})
    place.patch(make_diff("a.txt", "1\n", "2\n") + make_diff("b.txt", "1\n", "2\n"))
    changed = place.root / "b.txt"
    if how == "edited":
        changed.write_bytes(b"3\n")
    elif how == "removed":
        changed.unlink()
    else:
        changed.chmod(0o755)
    refused = place.computed()
    assert isinstance(refused, Refusal) and refused.reason == "conflict" and refused.path == "b.txt"
    assert refused.message == "b.txt changed since the run's patches were applied"


def test_a_change_between_two_patches_is_told_by_name(tmp_path: Path) -> None:
    place = Place(tmp_path, {"a.txt": b"1\n"})
    place.patch(make_diff("a.txt", "1\n", "2\n"))
    (place.root / "a.txt").write_bytes(b"3\n")
    place.patch(make_diff("a.txt", "3\n", "4\n"))
    refused = place.computed()
    assert isinstance(refused, Refusal) and "a.txt was changed by something else between two patches" in refused.message


def test_what_the_patches_left_as_it_was_may_have_changed_since(tmp_path: Path) -> None:
    place = Place(tmp_path, {"a.txt": b"1\n", "b.txt": b"1\n"})
    place.patch(make_diff("a.txt", "1\n", "2\n") + make_diff("b.txt", "1\n", "2\n"))
    place.patch(make_diff("a.txt", "2\n", "1\n"))
    (place.root / "a.txt").write_bytes(b"mine\n")
    place.take_back()
    assert ((place.root / "a.txt").read_bytes(), (place.root / "b.txt").read_bytes()) == (b"mine\n", b"1\n")


def test_a_record_that_does_not_give_the_old_bytes_is_not_used(tmp_path: Path) -> None:
    place = Place(tmp_path, {"a.txt": b"1\n"})
    place.patch(make_diff("a.txt", "1\n", "2\n"))
    [patch] = place.patches
    assert patch.undo is not None
    for undo, why in ((Undo((UndoFile("a.txt", ()),)), "cannot be worked out"), (None, "of an older version")):
        place.patches = [AppliedPatch(patch.files, undo)]
        refused = place.computed()
        assert isinstance(refused, Refusal) and why in refused.message


def test_a_take_back_can_be_taken_back(tmp_path: Path) -> None:
    place = Place(tmp_path, {"a.txt": b"1\n2\n", "b.txt": b"b\n"})
    place.patch(make_diff("a.txt", "1\n2\n", "2\n3\n") + make_diff("b.txt", "b\n", None))
    patched = tree(place.root)
    back = place.computed()
    assert isinstance(back, Prepared)
    place.take_back()
    files = tuple(UndoFile(part.file.path, part.back) for part in back.files)
    place.patches = [AppliedPatch(tuple(part.file for part in back.files), Undo(files))]
    place.take_back()
    assert tree(place.root) == patched


def test_the_diff_shown_is_one_that_the_gate_reads(tmp_path: Path) -> None:
    place = Place(tmp_path, {"a.txt": b"1\n", "b.txt": b"b\n"})
    place.patch(make_diff("a.txt", "1\n", "2\n") + make_diff("b.txt", "b\n", None) + make_diff("c.txt", None, "c\n"))
    back = place.computed()
    assert isinstance(back, Prepared)
    changes = parse_diff(back.diff)
    assert not isinstance(changes, Refusal)
    images: dict[str, Image | None] = {"a.txt": Image(b"2\n", 0o644), "b.txt": None, "c.txt": Image(b"c\n", 0o644)}
    again = compute(changes, images)
    assert isinstance(again, Prepared)
    assert {part.file.path: part.data for part in again.files} == {"a.txt": b"1\n", "b.txt": b"b\n", "c.txt": None}


def test_what_patches_left_changed_and_what_somebody_restored_since(tmp_path: Path) -> None:
    place = Place(tmp_path, {"a.txt": b"1\n", "b.txt": b"1\n", "c.txt": b"1\n"})
    for name in ("a.txt", "b.txt", "c.txt"):
        place.patch(make_diff(name, "1\n", "2\n"))
    place.patch(make_diff("b.txt", "2\n", "1\n"))  # as it was found
    place.patch(make_diff("d.txt", None, "new\n"))
    (place.root / "c.txt").write_text("1\n")  # restored by somebody

    def images() -> Mapping[str, Image | None]:
        found = read_files(place.root, paths_of(place.patches))
        assert isinstance(found, dict)
        return found

    assert left_changed(place.patches) == ("a.txt", "c.txt", "d.txt")
    assert still_changed(place.patches, images()) == ("a.txt", "d.txt")
    assert unlike(place.patches, (), images()) == ("c.txt",)
    assert unlike((), place.patches, images()) == ("a.txt", "d.txt")
    assert unlike(place.patches[:1], place.patches[1:], images()) == ("d.txt",)
    (place.root / "d.txt").unlink()
    assert still_changed(place.patches, images()) == ("a.txt",)
    assert [file.path for file in net_change(place.patches, (), images()).files] == ["a.txt"]
