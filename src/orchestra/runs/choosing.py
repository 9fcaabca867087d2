"""What a person takes of a patch that waits: its parts, those that were named, and whether they fit the files.

Rules
1. The parts are of exactly the patch that waits (D-11): if a file has changed since, nothing is offered.
2. A choice is checked by the gate of the run before it is recorded, so the person is told at once what does not fit.
   The driver of the run checks it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from orchestra.core.errors import UsageError
from orchestra.core.inbox import Message, message
from orchestra.core.redact import Redactor
from orchestra.core.text import brief, count
from orchestra.core.work import Refusal
from orchestra.patch.choosing import Part, joined
from orchestra.patch.gatekeeper import Gatekeeper, Preview
from orchestra.patch.text import FileText
from orchestra.patch.unified import in_full
from orchestra.runs.find import RunSummary
from orchestra.runs.patches import exact_text, proposed
from orchestra.runs.tree import OpenRequest

__all__ = ["Choice", "Choosing", "GateOf", "Part", "pick", "read_hunks"]  # Part: for the faces, which are given parts

GateOf = Callable[[RunSummary], Gatekeeper]
_HUNKS = re.compile(r"(.+):([0-9]+(?:,[0-9]+)*)", re.DOTALL)
_MOST_DECLINED = 100_000  # characters of the declined parts that are kept for the fixer


class Choice(NamedTuple):
    """The parts of a patch that a person takes, of all that were offered, and why not the others."""

    taken: Sequence[Part]
    offered: Sequence[Part]
    reason: str = ""

    @property
    def declined(self) -> list[Part]:
        """The parts that are not taken, not even in an edited form."""
        kept = {(part.path, part.number) for part in self.taken}
        return [part for part in self.offered if (part.path, part.number) not in kept]


class Choosing:
    """Offers the parts of patches that wait, and checks what a person chose."""

    def __init__(self, gate_of: GateOf, redactor: Redactor) -> None:
        self._gate_of = gate_of
        self._redactor = redactor

    def offer(self, request: OpenRequest) -> tuple[Part, ...]:
        """The parts of the patch that waits; UsageError if it does not fit the files any more (rule 1)."""
        diff = exact_text(request)
        made = self._gate_of(request.run).preview(diff, self._redactor)
        if isinstance(made, Refusal):
            raise UsageError(f"the patch does not fit the files any more: {made.message}")
        hashes = {file.path: (file.before, file.after) for file in proposed(request).files}
        for part in made.prepared.files:
            if hashes.get(part.file.path) != (part.file.before, part.file.after):
                raise UsageError(f"{part.file.path} has changed since the patch was made: look again, or reject it")
        parts = self._gate_of(request.run).offer(diff, self._redactor)
        return () if isinstance(parts, Refusal) else parts

    def preview(self, request: OpenRequest, parts: Sequence[Part]) -> Preview:
        """What these parts would change; UsageError, with the exact reason, if they do not fit (rule 2)."""
        made = self._gate_of(request.run).preview(joined(parts), self._redactor)
        if isinstance(made, Refusal):
            raise UsageError(f"this does not fit: {made.message}")
        if made.prepared.doubts and any(part.edited for part in parts):
            raise UsageError(f"this does not fit: {'; '.join(made.prepared.doubts)}")
        return made

    def text(self, request: OpenRequest) -> str:
        """The whole patch as a person may see it."""
        return self._redactor.text(exact_text(request))

    def shown(self, part: Part) -> str:
        """A part as a person may see it: secrets are masked."""
        return self._redactor.text(part.body or part.header)

    def in_full(self, request: OpenRequest, path: str) -> str:
        """A file as it would be with the whole patch, each line with its mark, as a person may see it."""
        made = self._gate_of(request.run).preview(exact_text(request), self._redactor)
        if isinstance(made, Refusal):
            raise UsageError(f"the patch does not fit the files any more: {made.message}")
        file = next(one for one in made.prepared.files if one.file.path == path)
        text = file.diff if file.data is None else in_full(FileText(file.data).lines, file.back)
        return self._redactor.text(text)

    def grant(self, request: OpenRequest, choice: Choice, *, by: str, digest: str) -> Message:
        """The message that grants a choice: the whole patch by its digest, or else the person's own version."""
        if tuple(choice.taken) == tuple(choice.offered):
            return message("approve", by, digest=digest)
        made = self.preview(request, choice.taken)
        return message(
            "approve",
            by,
            digest=digest,
            text=choice.reason,
            patch=joined(choice.taken),
            chosen=made.digest,
            declined=joined(choice.declined)[:_MOST_DECLINED],
            edited=any(part.edited for part in choice.taken),
        )


def pick(offered: Sequence[Part], only: Sequence[str], hunks: Mapping[str, Sequence[int]]) -> list[Part]:
    """The parts that a person named: files as a whole (`only`), or hunks of files by number. UsageError for others."""
    paths = list(dict.fromkeys(part.path for part in offered))
    for path in (*only, *hunks):
        if path not in paths:
            raise UsageError(f"{path!r} is not in this patch; it touches: {', '.join(sorted(paths))}")
    for path, numbers in hunks.items():
        here = [part for part in offered if part.path == path]
        if wrong := [number for number in numbers if not 1 <= number <= len(here)]:
            listed = "".join(f"\n  {part.number}  {_first_line(part)}" for part in here)
            raise UsageError(f"there is no hunk {wrong[0]} in {path}; it has {count(len(here), 'hunk')}:{listed}")
    return [part for part in offered if part.path in only or part.number in hunks.get(part.path, ())]


def _first_line(part: Part) -> str:
    """Where a hunk is and the first line that it changes."""
    head, *lines = part.body.splitlines() or [""]
    changed = next((line for line in lines if line.startswith(("+", "-"))), "")
    return brief(f"{head}  {changed}", 100)


def read_hunks(words: Sequence[str]) -> dict[str, list[int]]:
    """`FILE:1,3` as the file and its numbers; UsageError if a word has another form."""
    found: dict[str, list[int]] = {}
    for word in words:
        match = _HUNKS.fullmatch(word)
        if match is None:
            raise UsageError(f"--hunks {word!r}: want FILE:NUMBERS, e.g. --hunks src/app.py:1,3")
        found.setdefault(match[1], []).extend(int(number[:9]) for number in match[2].split(","))
    return found
