"""How long the context takes and how much memory it needs, on trees of local clones. No model is called.

    python benchmarks/context/speed.py --clones DIR NAME [NAME ...]

The trees of the named clones' HEADs are put side by side into one folder. `cold` is the first call of a process without
kept counts, `warm` the first call of another process, `again` the median of its next calls with the same goal, `other`
the median of calls with goals that it has not seen. Processor seconds stand beside wall seconds: on a busy machine only
these compare.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from recall import _clone

from orchestra.context.workspace import gather
from orchestra.core.shown import Search

GOAL = "Fix eager loading when the connection pool is exhausted and the query cache is enabled; see the test runner"
OTHERS = (
    "Handle timeout of redirects in the request parser",
    "error in option parsing of subcommands; the default value of a flag is printed wrong",
    "glob ignore matcher walk parallel literal search printer json",
    "Response stream decode gzip body context middleware",
    "status code of an empty reply",
)
AGAIN = 15
TOTAL = 200_000


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clones", type=Path)
    options.add_argument("--tree", type=Path)
    options.add_argument("--memory", type=Path)
    options.add_argument("names", nargs="*")
    given = options.parse_args()
    if given.tree:
        return _calls(given.tree, given.memory)
    with tempfile.TemporaryDirectory() as folder:
        tree, memory = Path(folder) / "tree", Path(folder) / "memory"
        for name in given.names:
            _export(_clone(given.clones / name.replace("/", "+")).git_dir, tree / name.replace("/", "+"))
        print(f"{sum(1 for path in tree.rglob('*') if path.is_file())} files")
        for kind in ("cold", "warm"):
            command = [sys.executable, __file__, "--tree", str(tree), "--memory", str(memory)]
            print(kind, subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="")
    return 0


def _export(git_dir: Path, target: Path) -> None:
    """The files of a clone's HEAD."""
    target.mkdir(parents=True)
    archive = subprocess.run(["git", f"--git-dir={git_dir}", "archive", "HEAD"], capture_output=True, check=True)
    subprocess.run(["tar", "x", "-C", str(target)], input=archive.stdout, check=True)


def _calls(tree: Path, memory: Path) -> int:
    """The first call of this process, the next ones, and its memory."""
    walls: list[float] = []
    cpus: list[float] = []
    for goal in (GOAL, *AGAIN * (GOAL,), *OTHERS):
        wall, cpu = time.perf_counter(), time.process_time()
        gather(tree, Search(hints=(goal,)), TOTAL, memory=memory)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    first, again, other = (
        f"{median(walls[calls]):.3f} s ({median(cpus[calls]):.3f} s CPU)"
        for calls in (slice(1), slice(3, 1 + AGAIN), slice(1 + AGAIN, None))
    )
    print(f"{first}, again {again}, other {other}, {most} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
