"""A patch computed to the last byte, not yet written: this is what is approved (D-11) and applied (D-12).

Rules
1. A `Prepared` has the hash of every file before and after: it shows whether a file is done, not done or in conflict.
2. Files are independent of each other, so any choice of them is a `Prepared` again; a rename is one file.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Collection, Sequence

import msgspec

from orchestra.core.errors import UsageError
from orchestra.core.work import FileStat
from orchestra.patch.header import Kind


class PreparedFile(msgspec.Struct, frozen=True):
    """One file's change. `before`/`after`: `sha256:<hex>`, None for no file; `mode`: the permission bits after.
    `doubts`: sentences on what cannot be known from the patch, so that only a person may approve it."""

    path: str
    kind: Kind
    old_path: str | None
    before: str | None
    after: str | None
    mode: int | None
    data: bytes | None
    added: int
    removed: int
    diff: str
    before_mode: int | None = None
    doubts: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that is written or removed."""
        return (self.path,) if self.old_path is None else (self.old_path, self.path)


class Prepared(msgspec.Struct, frozen=True):
    """All files of a patch. `diff` is canonical: right counts, what will really change."""

    files: tuple[PreparedFile, ...]
    diff: str
    added: int
    removed: int

    @property
    def doubts(self) -> tuple[str, ...]:
        return tuple(doubt for file in self.files for doubt in file.doubts)

    @property
    def digest(self) -> str:
        """The digest that an approval is bound to (D-11): of names, modes and both hashes of every file."""
        facts = [(f.path, f.old_path, f.kind, f.before, f.after, f.mode) for f in self.files]
        return sha256(msgspec.json.encode(facts))

    def select(self, paths: Collection[str]) -> Prepared:
        """Only the files that were accepted. A rename may be named by either of its paths."""
        unknown = set(paths) - {path for file in self.files for path in file.paths}
        if unknown:
            raise UsageError(f"not in this patch: {', '.join(sorted(unknown))}")
        return prepared([file for file in self.files if set(file.paths) & set(paths)])


def prepared(files: Sequence[PreparedFile]) -> Prepared:
    """Make a `Prepared` of files."""
    return Prepared(
        files=tuple(files),
        diff="".join(file.diff for file in files),
        added=sum(file.added for file in files),
        removed=sum(file.removed for file in files),
    )


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Diffstat(msgspec.Struct, frozen=True):
    """Added and removed lines per file."""

    files: tuple[FileStat, ...]
    added: int
    removed: int

    def render(self, width: int = 40) -> str:
        """One line per file and a total, like `git diff --stat`; Hangul takes two cells."""
        names = max((_cells(file.path) for file in self.files), default=0)
        most = max((file.added + file.removed for file in self.files), default=0)
        digits = len(str(most))
        lines = []
        for file in self.files:
            total = file.added + file.removed
            scale = min(1.0, width / most) if most else 0.0
            plus, minus = round(file.added * scale), round(file.removed * scale)
            bar = "+" * max(plus, bool(file.added)) + "-" * max(minus, bool(file.removed))
            lines.append(f" {file.path}{' ' * (names - _cells(file.path))} | {total:>{digits}} {bar}".rstrip())
        count = len(self.files)
        lines.append(f" {count} file{'' if count == 1 else 's'} changed, +{self.added} -{self.removed}")
        return "\n".join(lines)


def diffstat(patch: Prepared) -> Diffstat:
    """Added and removed lines per file and in all; a rename is shown as `old => new`."""
    stats = [FileStat(f"{f.old_path} => {f.path}" if f.old_path else f.path, f.added, f.removed) for f in patch.files]
    return Diffstat(tuple(stats), patch.added, patch.removed)


def _cells(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(bool(unicodedata.combining(char)) for char in text)
