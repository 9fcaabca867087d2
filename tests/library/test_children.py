"""What a parent's process does for a child run: it reads no journal again for each of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_DRIVE = """
import os, sys
from collections import Counter
from pathlib import Path
import orchestra

opened = Counter()

def note(event, args):
    if event == "open" and str(args[0]).endswith("events.ndjson"):
        opened[Path(args[0]).parent.name, "write" if args[2] & os.O_ACCMODE else "read"] += 1

@orchestra.workflow
async def child(ctx) -> int:
    return await ctx.step("count", len, "ab")

@orchestra.workflow
async def parent(ctx, children: int) -> int:
    return sum([await ctx.call(f"c{number}", child) for number in range(children)])

sys.addaudithook(note)
end = orchestra.run(parent, project=Path.cwd(), children=int(sys.argv[1]))
assert end.result == 2 * int(sys.argv[1]), end
for name in sorted({name for name, _ in opened} - {end.runId}):
    print("child", opened[name, "read"])
print("parent", opened[end.runId, "read"])
"""


def test_no_journal_is_read_again_for_a_child_run(tmp_path: Path) -> None:
    few, many = (_looks(tmp_path / str(number), number) for number in (1, 4))
    assert few[-1] == many[-1]  # the parent's: as often for one child run as for four
    assert few[:-1] + many[:-1] == ["child 1"] * 5  # a child's: to see that it was not begun yet


def _looks(project: Path, children: int) -> list[str]:
    project.mkdir()
    words = [sys.executable, "-c", _DRIVE, str(children)]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
