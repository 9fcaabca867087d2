"""A patch computed to the last byte, not yet written: this is what is approved (D-11) and applied (D-12).

Rules
1. A `Prepared` has the hash of every file before and after: it shows whether a file is done, not done or in conflict.
2. Files are independent of each other; a rename is one file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from orchestra.core.work import PatchFile
from orchestra.patch.unified import Edit


class PreparedFile(msgspec.Struct, frozen=True):
    """One file's change: what is recorded of it, and its new text.

    `doubts` are sentences on what cannot be known from the patch, so that only a person may approve it.
    """

    file: PatchFile
    data: bytes | None  # None: the file is removed
    diff: str
    doubts: tuple[str, ...] = ()
    replaced: tuple[tuple[int, int], ...] = ()  # lines [start, stop) of the old file, from 0; equal: an insertion
    length: int = 0  # of the old file, in lines
    back: tuple[Edit, ...] = ()  # of the new file: they give the old one again


class Prepared(msgspec.Struct, frozen=True):
    """All files of a patch. `diff` is canonical: right counts, what will really change."""

    files: tuple[PreparedFile, ...]
    diff: str
    added: int
    removed: int

    @property
    def doubts(self) -> tuple[str, ...]:
        return tuple(doubt for part in self.files for doubt in part.doubts)

    @property
    def digest(self) -> str:
        """The digest that an approval is bound to (D-11): of names, modes and both hashes of every file."""
        facts = [(f.path, f.oldPath, f.change, f.before, f.after, f.mode) for f in (part.file for part in self.files)]
        return sha256(msgspec.json.encode(facts))


def prepared(files: Sequence[PreparedFile]) -> Prepared:
    """Make a `Prepared` of files."""
    return Prepared(
        files=tuple(files),
        diff="".join(part.diff for part in files),
        added=sum(part.file.added for part in files),
        removed=sum(part.file.removed for part in files),
    )


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
