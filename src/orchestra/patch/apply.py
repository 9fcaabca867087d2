"""Prepared files -> the disk, exactly once and all or nothing (D-12, G1-12).

Rules
1. Before the first byte is written every file must be exactly as it was before or exactly as it will be after: a crash
   may have left some of each. Anything else is a conflict, and nothing is written.
2. All post-images, and copies of all pre-images, are written and synced in `scratch`. Only then do files change: one
   rename (or unlink) each, so a crash finds every file whole, before or after, and calling again completes the rest.
3. If a step fails, this call's own renames are taken back from the kept pre-images; only files that still hold what
   this call wrote are touched.
4. `Applied` is returned only after every file was read back and had the recorded hash (T-2).
5. Everything durable goes through `disk`; every path goes through tree.py. No symlink is followed, none is replaced.

This module has the public functions. The writing itself, rules 2 to 4, is in writer.py.
It does not check the approval and keeps no journal: the caller records the hashes first.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from orchestra.core.disk import Disk
from orchestra.core.work import PatchFile, Refusal
from orchestra.patch.diff import FileChange
from orchestra.patch.locate import Image
from orchestra.patch.prepared import Prepared
from orchestra.patch.tree import Tree, Unsafe
from orchestra.patch.writer import State, Writer, state_of, targets_of


class FileStatus(msgspec.Struct, frozen=True):
    """The state of one file of a patch; `message` describes a conflict."""

    path: str
    state: State
    message: str = ""


class AppliedFiles(msgspec.Struct, frozen=True):
    """Every file is in its new state: `written` by this call, or `already` by an earlier call that was cut short."""

    written: tuple[str, ...]
    already: tuple[str, ...]


def read_images(root: Path, changes: Sequence[FileChange]) -> dict[str, Image | None] | Refusal:
    """Read every file that the changes touch; None for a file that does not exist."""
    return read_files(root, (path for change in changes for path in change.paths))


def read_files(root: Path, paths: Iterable[str]) -> dict[str, Image | None] | Refusal:
    """Read these files; None for a file that does not exist."""
    images: dict[str, Image | None] = {}
    with Tree(root) as tree:
        for path in paths:
            try:
                images[path] = tree.read(path)
            except Unsafe as unsafe:
                return unsafe.refused
            except OSError as error:
                return Refusal("io_error", f"{path} cannot be read: {error.strerror}", path)
    return images


def names_beside(root: Path, paths: Iterable[str]) -> set[str]:
    """The existing names in every folder to which these paths would add a name (a file or a folder)."""
    found: set[str] = set()
    listed: dict[str, set[str]] = {}
    with Tree(root) as tree:
        for parts in (path.split("/") for path in paths):
            for depth in range(1, len(parts) + 1):
                name, above = "/".join(parts[:depth]), "".join(f"{part}/" for part in parts[: depth - 1])
                if above not in listed:
                    listed[above] = {above + other for other in _names(tree, name)}
                if name not in listed[above]:
                    found |= listed[above]
                    break  # nothing can be below a name that does not exist
    return found


def _names(tree: Tree, path: str) -> list[str]:
    try:
        return tree.beside(path) or []
    except (OSError, Unsafe):
        return []  # the folder cannot be listed: there is nothing to compare with


def status(root: Path, files: Sequence[PatchFile]) -> tuple[FileStatus, ...]:
    """Compare the disk with the hashes of each file. A rename half done counts as `before`: it is still to do."""
    with Tree(root) as tree:
        return tuple(_file_status(tree, file) for file in files)


def apply(
    root: Path, prepared: Prepared, *, disk: Disk, scratch: Path, made: Collection[str] | None = None
) -> AppliedFiles | Refusal:
    """Write a patch. Safe to call again after a crash at any point, and after success.

    A full disk raises `DiskFull`, after taking back what can be taken back. With `made` earlier patches are taken back:
    files get exactly their old modes, and of the folders that become empty only those in `made` are removed.
    """
    with Tree(root) as tree:
        states = [_file_status(tree, part.file) for part in prepared.files]
        wrong = [state for state in states if state.state == "conflict"]
        if wrong:
            return _conflict(wrong[0], states)
        exact = made is not None
        targets = [target for part in prepared.files for target in targets_of(part.file, part.data, exact=exact)]
        try:
            scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
            room = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            return Refusal("io_error", f"the scratch folder cannot be used: {error}. Nothing was written")
        try:
            refused = Writer(tree, disk, room=room, made=made).write(targets)
        finally:
            os.close(room)
    if refused:
        return refused
    done = {state.path: state.state == "after" for state in states}
    return AppliedFiles(
        written=tuple(path for path, was_after in done.items() if not was_after),
        already=tuple(path for path, was_after in done.items() if was_after),
    )


def prune(root: Path, files: Iterable[PatchFile], made: Collection[str] | None = None) -> None:
    """Remove the folders that deleting these files has emptied. `apply` does so, but a kill may come before that."""
    with Tree(root) as tree:
        for target in (target for file in files for target in targets_of(file) if target.after is None):
            tree.prune(target.path, made)


def _file_status(tree: Tree, file: PatchFile) -> FileStatus:
    states: set[State] = set()
    for target in targets_of(file):
        try:
            states.add(state_of(target, tree.read(target.path)))
        except Unsafe as unsafe:
            return FileStatus(file.path, "conflict", unsafe.refused.message)
        except OSError as error:
            return FileStatus(file.path, "conflict", f"{target.path} cannot be read: {error.strerror}")
    if "conflict" in states:
        return FileStatus(file.path, "conflict", f"{file.path} was edited after the patch was made")
    return FileStatus(file.path, "after" if states == {"after"} else "before")


def _conflict(wrong: FileStatus, states: Sequence[FileStatus]) -> Refusal:
    done = [state.path for state in states if state.state == "after"]
    rest = f" Already as patched: {', '.join(done)}." if done else ""
    return Refusal("conflict", f"{wrong.message}. Nothing was written by this call.{rest}", wrong.path)
