"""Ten small goals through `orchestra loop --provider local`: which replies can be read, how runs end, and how long.

    python benchmarks/goals/patches.py [NUMBER ...]

Each project is one function with a failing test, made for this. The share of readable replies must be 1: the model
writes under a grammar. How many runs end well says what may be expected of the model, and docs/models.md repeats it.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

FIXES = 1


class Goal(NamedTuple):
    goal: str
    code: str
    test: str


GOALS = (
    Goal("add() must add its arguments", "def add(a, b):\n    return a - b\n", "add(2, 3) == 5"),
    Goal("double() returns twice its argument", "def double(x):\n    return x\n", "double(4) == 8"),
    Goal("greet() ends with a !", 'def greet(name):\n    return "Hello, " + name\n', "greet('A') == 'Hello, A!'"),
    Goal("인사말은 한국어로", 'def greet(name):\n    return f"Hello, {name}"\n', "greet('민아') == '안녕, 민아'"),
    Goal("is_even() is true for even numbers", "def is_even(n):\n    return n % 2 == 1\n", "is_even(4) is True"),
    Goal("area() is width times height", "def area(width, height):\n    return width + height\n", "area(3, 4) == 12"),
    Goal("first() of an empty list is None", "def first(items):\n    return items[0]\n", "first([]) is None"),
    Goal("shout() returns upper case", "def shout(text):\n    return text\n", "shout('ab') == 'AB'"),
    Goal("LIMIT is 20", "LIMIT = 10\n", "LIMIT == 20"),
    Goal("last() returns the last item", "def last(items):\n    return items[0]\n", "last([1, 2]) == 2"),
)


def main(numbers: list[str]) -> int:
    """Run the goals; 1 if a reply could not be read."""
    unread = 0
    for number, goal in enumerate(GOALS, start=1):
        if not numbers or str(number) in numbers:
            unread += _run(number, goal)
    return 1 if unread else 0


def _run(number: int, goal: Goal) -> int:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "code.py").write_text(goal.code, encoding="utf-8")
        (Path(folder) / "check.py").write_text(f"from code import *\nassert {goal.test}\n", encoding="utf-8")
        began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run(
            [
                *(Path(sys.executable).with_name("orchestra"), "-C", folder, "loop", goal.goal),
                *("--check", "python3 check.py", "--approval", "never", "--provider", "local"),
                *("--max-fixes", str(FIXES), "--json", "--no-input"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        events = [event for event in map(json.loads, done.stdout.splitlines()) if "payload" in event]
        read = _count(events, "PHASE_COMPLETED")
        unread = _count(events, "PHASE_FAILED")
        applied = sum(event["type"] == "PATCH_APPLIED" for event in events)
        wall = time.monotonic() - began
        cpu = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used
        ended = json.loads(done.stdout.splitlines()[-1])["status"]
        row = f"{number:2}  {ended:10} replies read {read}, not read {unread}; patches applied {applied}"
        print(f"{row}; {wall:.0f} s, {cpu:.0f} processor s  {goal.goal}", flush=True)
        return unread


def _count(events: list[dict[str, object]], kind: str) -> int:
    keys = [str(event["payload"]["key"]) for event in events if event["type"] == kind and "key" in event["payload"]]  # type: ignore[index,operator]  # JSON
    return sum(key.split(".")[0] in ("plan", "execute", "fix") for key in keys)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
