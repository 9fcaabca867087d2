"""A patch computed to the last byte, not yet written: this is what is approved (D-11) and applied (D-12).

Rules
1. A `Prepared` has the hash of every file before and after: it shows whether a file is done, not done or in conflict.
2. Files are independent of each other; a rename is one file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

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
