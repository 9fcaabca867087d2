"""A patch in parts that a person decides on one by one, and a patch of the parts they chose. Pure.

Rules
1. A part is a hunk of a file that is only modified. A file that is created, deleted, renamed or gets another mode is
   one part: half of such a change is another change.
2. Hunks are those of the canonical diff (patch/unified.py): what will really change, each found by its own lines. So
   any choice of them applies, in whatever way the model cut its own hunks.
3. All parts together are the whole patch, to the byte. Where the canonical diff of a file cannot say that (bytes that
   are no UTF-8), the file is one part, with the model's own text.
4. An edited part replaces a hunk. Whether it fits is for the gate to say (`Gatekeeper.preview`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from orchestra.core.work import Refusal
from orchestra.patch.diff import FileChange, parse_diff
from orchestra.patch.prepared import Prepared, PreparedFile

_HUNK = re.compile(r"^(?=@@ )", re.MULTILINE)
_FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
Compute = Callable[[tuple[FileChange, ...]], Prepared | Refusal]


class Part(msgspec.Struct, frozen=True):
    """A part of a patch. `number` counts the parts of its file from 1, `of` is how many there are."""

    path: str
    number: int
    of: int
    header: str  # the lines above the hunks of its file
    body: str  # the hunk; of a file that is one part: all hunks
    edited: bool = False

    @property
    def diff(self) -> str:
        """The part as a diff of its own."""
        return self.header + self.body


def parts_about(diff: str, paths: set[str]) -> str:
    """The parts of a diff about these files; names may be quoted as git does it."""
    changes = [(part, parse_diff(part)) for part in _FILE.split(diff)]
    return "".join(part for part, made in changes if isinstance(made, Refusal) or {c.path for c in made} & paths)


def parts_of(diff: str, prepared: Prepared, compute: Compute) -> tuple[Part, ...]:
    """The parts of a patch: `diff` is its text, `prepared` what it would change, and `compute` computes that."""
    parts: list[Part] = []
    for file in prepared.files:
        hunks = list(_hunks(file))
        if _gives(file, "".join(part.body for part in hunks), hunks, compute):
            parts += hunks
        else:
            parts.append(Part(file.file.path, 1, 1, "", parts_about(diff, {file.file.path})))
    return tuple(parts)


def joined(parts: Iterable[Part]) -> str:
    """The patch of these parts, in their order."""
    text, last = "", ""
    for part in parts:
        text += part.body if part.path == last else part.diff
        last = part.path
    return text


def _hunks(file: PreparedFile) -> Iterator[Part]:
    """The hunks of a file, or the whole file (rule 1)."""
    header, *hunks = _HUNK.split(file.diff)
    known = file.file
    if known.change != "modify" or known.mode != known.beforeMode or not hunks:
        hunks = ["".join(hunks)]
    for number, hunk in enumerate(hunks, start=1):
        yield Part(known.path, number, len(hunks), header, hunk)


def _gives(file: PreparedFile, bodies: str, parts: Sequence[Part], compute: Compute) -> bool:
    """Whether these parts together change the file as the patch does (rule 3)."""
    changes = parse_diff(parts[0].header + bodies)
    made = changes if isinstance(changes, Refusal) else compute(changes)
    return not isinstance(made, Refusal) and [one.file.after for one in made.files] == [file.file.after]
