"""6. Starting the program: `--version` and `--help` against a bare `python -c pass`, and what they must not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from measure import Row, interleaved, time_text, timed_process

ROUNDS = 25
HEAVY = ("asyncio", "httpx", "litestar", "rich", "textual")
PROGRAM = str(Path(sys.executable).with_name("orchestra"))


def bench() -> list[Row]:
    commands = (["-c", "pass"], [PROGRAM, "--version"], [PROGRAM, "--help"])
    times = interleaved(ROUNDS, *(timed_process(*command) for command in commands))
    bare, version, help = (time_text(times.median(side)) for side in range(3))
    heavy = {flag: _imported(flag) for flag in ("--version", "--help")}
    return [
        Row("`orchestra --version`", version, f"{bare} python -c pass", times.ratio(1, 0), 4.0),
        Row("`orchestra --help`", help, f"{bare} python -c pass", times.ratio(2, 0), 6.0),
        *(
            Row(f"`{flag}` imports of {', '.join(HEAVY)}", ", ".join(found) or "none", "none", len(found), 0.0)
            for flag, found in heavy.items()
        ),
    ]


def _imported(flag: str) -> list[str]:
    """Which of the heavy packages `-X importtime` saw."""
    command = [sys.executable, "-X", "importtime", PROGRAM, flag]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    modules = {line.rpartition("|")[2].strip() for line in said.splitlines()}
    return [name for name in HEAVY if any(module.split(".")[0] == name for module in modules)]
