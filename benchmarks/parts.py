"""7. Information without a target: the time to work out a patch."""

from __future__ import annotations

import difflib
import time

from measure import Row, interleaved, time_text

from orchestra.patch.diff import Refused, parse_diff
from orchestra.patch.locate import Image, compute
from orchestra.patch.safety import check


def bench() -> list[Row]:
    return [_patch()]


def _patch() -> Row:
    """Parse, check and locate a patch of two hunks in a file of 400 lines, against making it with difflib."""
    old = [f"line {number} = {number * 7}\n" for number in range(400)]
    new = [*old[:100], "added one\n", *old[100:300], "changed\n", *old[301:]]
    text = "".join(difflib.unified_diff(old, new, "a/file.py", "b/file.py"))
    images = {"file.py": Image("".join(old).encode(), 0o644)}

    def computed() -> float:
        start = time.perf_counter()
        changes = parse_diff(text)
        if isinstance(changes, Refused) or check(changes) or isinstance(compute(changes, images), Refused):
            raise RuntimeError("the patch was refused")
        return time.perf_counter() - start

    def made() -> float:
        start = time.perf_counter()
        list(difflib.unified_diff(old, new, "a/file.py", "b/file.py"))
        return time.perf_counter() - start

    times = interleaved(51, computed, made)
    ours, bare = (time_text(times.median(side)) for side in range(2))
    return Row("patch of two hunks, 400 lines: parse, check, locate", ours, f"{bare} difflib", times.ratio(0, 1))
