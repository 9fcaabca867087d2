"""The message for a hunk that does not apply. It goes into the fix prompt, so it quotes the file's real lines.

It decides nothing: a hint here ("seems applied already") never lets a patch pass. If a file is a secret by its
name, the message only states that the hunk does not fit: no line is quoted, and no correct guess is confirmed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

from orchestra.core.secretfiles import secret_by_name
from orchestra.patch.diff import Hunk
from orchestra.patch.match import occurrences
from orchestra.patch.text import KEYS, FileText

SHOWN = 8  # lines of the file
_WIDTH = 160
_SEARCHED = 2000  # file lines compared by similarity; comparing all lines of a huge file takes too long


def withheld(where: str, paths: Sequence[str]) -> str:
    """The message to use instead if one of the hunk's paths is a secret by its name; empty if none is."""
    why = next(filter(None, map(secret_by_name, paths)), "")
    if not why:
        return ""
    return (
        f"{where}: the hunk does not fit the file. The file's text is not shown: it is a secret by its name ({why})."
        " Leave this file alone, or ask the person for what is needed"
    )


def several(where: str, starts: Sequence[int]) -> str:
    lines = ", ".join(str(start + 1) for start in starts[:10])
    return f"{where}: its context fits {len(starts)} places (lines {lines}); add context lines until only one fits"


def mismatch(where: str, hunk: Hunk, *, file: FileText, note: str) -> str:
    """The message: what the hunk expects, and the nearest lines of the file."""
    old = [line.text for line in hunk.lines if line.op != "+"]
    expected = "\n".join(f"    {text[:_WIDTH]}" for text in old[:SHOWN]) or "    (no context lines)"
    why = f" ({note})" if note else ""
    start = _nearest(hunk, file)
    if not file.lines:
        there = "The file is empty."
    elif start is None:
        there = f"Nothing in the file ({len(file.lines)} lines) is similar. It begins:\n{_excerpt(file, 0, SHOWN)}"
    else:
        there = f"The nearest lines of the file:\n{_excerpt(file, start, min(max(len(old), 1) + 2, SHOWN * 2))}"
    return f"{where}: its context is not in the file{why}. It expects:\n{expected}\n{there}"


def applied_already(hunk: Hunk, file: FileText) -> str:
    """A hint if the file already has the hunk's new text; else empty."""
    key = KEYS["trailing blanks"]
    new = [key(line.text) for line in hunk.lines[: len(hunk.lines) - hunk.soft] if line.op != "-"]
    found = occurrences(new, file.keys("trailing blanks")) if any(line.op == "+" for line in hunk.lines) else ()
    return (
        f"\nThe hunk's new text is already in the file at line {found[0] + 1}: it seems applied already."
        if found
        else ""
    )


def _nearest(hunk: Hunk, file: FileText) -> int | None:
    """The file line where most of the hunk's lines are, in their order; else the most similar line."""
    old = [line.text.strip() for line in hunk.lines if line.op != "+"]
    stripped = [text.strip() for text in file.texts]
    places: dict[str, list[int]] = {}
    for index, text in enumerate(stripped):
        places.setdefault(text, []).append(index)
    votes: Counter[int] = Counter()
    for rank, text in enumerate(old):
        if text:
            votes.update(index - rank for index in places.get(text, ()))
    if votes:
        hint = hunk.start - 1 if hunk.start else 0
        most = max(votes.values())
        return max(
            min((start for start in votes if votes[start] == most), key=lambda start: (abs(start - hint), start)), 0
        )
    telling = max(old, key=len, default="")
    if not telling:
        return None
    matcher = SequenceMatcher(None, b=telling)
    best, where = 0.6, None
    for index, line in enumerate(stripped[:_SEARCHED]):
        matcher.set_seq1(line)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, where = ratio, index
    return None if where is None else max(where - old.index(telling), 0)


def _excerpt(file: FileText, start: int, count: int) -> str:
    lines = file.texts[start : start + count]
    shown = (f"{start + i + 1:>6}| {text.removesuffix(chr(13))[:_WIDTH]}" for i, text in enumerate(lines))
    return "\n".join(shown).encode("utf-8", "backslashreplace").decode()
