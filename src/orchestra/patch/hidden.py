"""The places where a masked patch hides what it writes from the person who reads it.

A patch is shown with its secrets masked and applied with its exact bytes. A mask may hide more than a secret,
so the request for approval lists where each mask is and how long the hidden text is.

Rules
1. Only added lines count: removed lines and context are in the files already.
2. Lines are numbered as in the new file. They are taken from the diff in its normal form (unified.py), not from the
   model's, whose numbers may be wrong.
3. Hidden text over several lines (a private key) is listed once, at its first added line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from orchestra.core.redact import Redactor
from orchestra.core.work import Masked

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def hidden_lines(path: str, diff: str, redactor: Redactor) -> Iterator[Masked]:
    """The masked parts of the lines that the normal-form diff of one file adds."""
    found = redactor.hidden(diff)
    if not found:
        return
    lines = diff.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    added = dict(_added(lines))
    for span in found:
        first, last = (bisect_right(starts, at) - 1 for at in (span.start, max(span.start, span.end - 1)))
        number = next((added[index] for index in range(first, last + 1) if index in added), 0)
        if number:
            yield Masked(path, number, span.end - span.start, ", ".join(span.names))


def _added(lines: list[str]) -> Iterator[tuple[int, int]]:
    """The index of each added line, and its number in the new file."""
    number = 0  # of the next line; 0: no hunk has begun
    for index, line in enumerate(lines):
        if begun := _HUNK.match(line):  # no line of a hunk begins with @
            number = max(int(begun[1]), 1)
        elif number and line[:1] in ("+", " "):
            if line[0] == "+":
                yield index, number
            number += 1
