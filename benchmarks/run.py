"""`make bench`: every figure of benchmarks/README.md, measured anew. `benchmarks/run.py [NAME…]` runs some groups.

Exit code 1 if a target is missed. Timings decide nothing in tests/ (U-24).
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

import branches
import children
import concurrent_runs
import editions
import evidence
import following
import graph
import launch
import parts
import redaction
import replay
import resume
import startup
import steps
import streaming
import tasks
import teams
import telling
import tui
from measure import SCRATCH, Row, markdown

from orchestra.core.collector import relax

GROUPS: dict[str, Callable[[], list[Row]]] = {
    "tasks": tasks.bench,  # first: on a disk without a journal, whoever removes files slows who makes some (README.md)
    "steps": steps.bench,
    "editions": editions.bench,
    "runs": concurrent_runs.bench,
    "resume": resume.bench,
    "branches": branches.bench,
    "children": children.bench,
    "evidence": evidence.bench,
    "replay": replay.bench,
    "startup": startup.bench,
    "parts": parts.bench,
    "launch": launch.bench,
    "graph": graph.bench,
    "redaction": redaction.bench,
    "streaming": streaming.bench,
    "following": following.bench,
    "teams": teams.bench,
    "telling": telling.bench,
    "tui": tui.bench,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        sys.stderr.write(f"no benchmark {', '.join(unknown)}; there are: {', '.join(GROUPS)}\n")
        return 2
    rows: list[Row] = []
    relax()  # as the program itself does
    try:
        for name in names or GROUPS:
            start = time.perf_counter()
            rows += GROUPS[name]()
            sys.stderr.write(f"{name}: measured in {time.perf_counter() - start:.0f} s\n")
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
    print(markdown(rows))
    missed = [row.name.strip() for row in rows if not row.ok]
    if missed:
        sys.stderr.write(f"missed: {'; '.join(missed)}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
