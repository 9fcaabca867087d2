"""Files as they were and as a command left them -> one unified diff for the patch gate.

Rules
1. The diff takes the same steps as a model's patch: parse, check, locate, apply. So this is verified here first:
   the gate's result for each file must be the command's bytes, or the file is refused.
2. It is small: only changed lines with their context, like git's own diff; a rename is a delete and a create.
3. If the gate refuses the whole (too large, too many files), there is no diff, and the gate's reason is the refusal.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Protocol

import msgspec

from orchestra.core.work import Refusal
from orchestra.patch.diff import FileChange, parse_diff
from orchestra.patch.locate import Image, compute
from orchestra.patch.safety import check
from orchestra.patch.text import FileText
from orchestra.patch.unified import Edit, Names, render, trim

_CLOSE = 1_000_000  # pairs of lines up to which every line is compared; above, frequent lines are not
_FAR = 400_000_000  # and above this the changed middle is one edit


class WrittenFile(Protocol):
    """One text file that changed; None: the file does not exist."""

    @property
    def path(self) -> str: ...
    @property
    def before(self) -> bytes | None: ...
    @property
    def after(self) -> bytes | None: ...
    @property
    def before_mode(self) -> int | None: ...
    @property
    def after_mode(self) -> int | None: ...


class WrittenDiff(msgspec.Struct, frozen=True):
    """The diff of all changes that a diff can express, and the reasons why others are refused."""

    diff: str
    refused: tuple[Refusal, ...] = ()


def diff_of(files: Iterable[WrittenFile]) -> WrittenDiff:
    """One diff that turns every `before` into its `after`."""
    parts: list[str] = []
    changes: list[FileChange] = []
    refused: list[Refusal] = []
    for file in files:
        made = _file(file)
        if isinstance(made, Refusal):
            refused.append(made)
        else:
            parts.append(made[0])
            changes.append(made[1])
    if not parts:
        return WrittenDiff("", tuple(refused))
    diff = "".join(parts)
    read = parse_diff(diff)
    wrong = read if isinstance(read, Refusal) else check(read)
    if wrong is None and read != tuple(changes):
        wrong = Refusal("invalid_patch", "the files cannot be put together into one diff")
    return WrittenDiff("", (*refused, wrong)) if wrong is not None else WrittenDiff(diff, tuple(refused))


def _file(file: WrittenFile) -> tuple[str, FileChange] | Refusal:
    """The diff of one file, and the change that the gate reads from it."""
    old, new = FileText(file.before or b"").lines, FileText(file.after or b"").lines
    names = _names(file)
    refused = Refusal("invalid_patch", f"{file.path}: a diff cannot express its text", file.path)
    whole = [Edit(0, len(old), tuple(new))] if old != new else []
    for edits in (edits_between(old, new), whole):
        diff = render(names, edits, old)
        read = _read_back(diff, file)
        if not isinstance(read, Refusal):
            return diff, read
        refused = read
    return refused


def diff_text(file: WrittenFile, *, errors: str = "backslashreplace") -> str:
    """The diff of one file for people and for `git apply`; the gate need not be able to read it."""
    old, new = FileText(file.before or b"").lines, FileText(file.after or b"").lines
    return render(_names(file), edits_between(old, new), old, errors=errors)


def _names(file: WrittenFile) -> Names:
    return Names(
        old=None if file.before is None else file.path,
        new=None if file.after is None else file.path,
        old_mode=_git_mode(file.before_mode),
        new_mode=_git_mode(file.after_mode),
    )


def edits_between(old: Sequence[bytes], new: Sequence[bytes]) -> list[Edit]:
    """The edits that turn the lines of one file into those of another."""
    middle = trim([Edit(0, len(old), tuple(new))], old)
    if not middle:
        return []
    start, stop, lines = middle[0].start, middle[0].stop, middle[0].lines
    pairs = (stop - start) * len(lines)
    if pairs > _FAR:
        return middle
    matcher = SequenceMatcher(None, old[start:stop], lines, autojunk=pairs > _CLOSE)
    return [
        Edit(start + first, start + last, lines[begin:end])
        for tag, first, last, begin, end in matcher.get_opcodes()
        if tag != "equal"
    ]


def _read_back(diff: str, file: WrittenFile) -> FileChange | Refusal:
    """The change that the gate reads from the diff; a refusal if its result is not the command's bytes (rule 1)."""
    changes = parse_diff(diff)
    if isinstance(changes, Refusal):
        return changes
    if wrong := check(changes):
        return wrong
    image = None if file.before is None else Image(file.before, file.before_mode or 0)
    prepared = compute(changes, {path: image for change in changes for path in change.paths})
    if isinstance(prepared, Refusal):
        return prepared
    found = [(part.file.path, part.data, bool((part.file.mode or 0) & 0o100)) for part in prepared.files]
    executable = file.after is not None and bool((file.after_mode or 0) & 0o100)
    if len(changes) != 1 or found != [(file.path, file.after, executable)]:
        return Refusal("invalid_patch", f"{file.path}: a diff cannot express its text", file.path)
    return changes[0]


def _git_mode(mode: int | None) -> str | None:
    return None if mode is None else "100755" if mode & 0o100 else "100644"
