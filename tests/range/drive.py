"""Drives one category of the range as whoever runs it, and prints what came of it as JSON.

`python -m tests.range.drive CATEGORY [--without LAYER] [--run-as UID] [--only NAME …]`; a program, so that the
tests can start it as another user.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
from pathlib import Path

import msgspec

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.worker import seccomp
from orchestra.worker.host import find_bwrap
from orchestra.worker.launcher import Launcher
from orchestra.worker.task import Command, CommandResult
from tests.range import inside, layers
from tests.range.bombs import BOMBS
from tests.range.cases import CATEGORIES
from tests.range.place import GIVEN, KEY, Place, place

INSIDE = Path(inside.__file__).read_text()
NUMBERS = seccomp.numbers(os.uname().machine) | {"rt_sigqueueinfo": 129 if os.uname().machine == "x86_64" else 138}


class Range:
    """A launcher and a place."""

    def __init__(self, launcher: Launcher, where: Place, run_as: int | None, without: str | None) -> None:
        self.without = without
        self.launcher = launcher
        self.place = where
        self.run_as = run_as
        bwrap = find_bwrap()
        self.facts = where.facts(bwrap.path if bwrap else "/nowhere")

    async def attempts(self, cases: dict[str, str], *, upper: bool) -> dict[str, str]:
        """All of them in one launch: what became of each."""
        work = {"facts": self.facts, "numbers": NUMBERS, "cases": cases}
        command = Command(
            argv=("/usr/bin/python3", "-I", "-S", "-c", INSIDE, self.place.mark + "-case"),
            cwd=str(self.place.workspace),
            env=GIVEN,
            stdin=json.dumps(work).encode(),
            timeout_ms=60_000,
            grace_ms=100,
        )
        sandbox = self.place.sandbox(upper=upper, run_as=self.run_as)
        if self.without:  # the watchdog must not end it first: without a private /tmp it counts the host's
            sandbox = msgspec.structs.replace(sandbox, limits=layers.watchdog(sandbox.limits, "watchdog"))
        out, err = self.place.top.parent / f"{self.place.mark}-out", self.place.top.parent / f"{self.place.mark}-err"
        try:
            result = await self.launcher.launch(command, sandbox, out, err)
            said = dict(json.loads(line) for line in out.read_text().splitlines())
            if len(said) != len(cases):
                said["the launch"] = f"mistake: {result!r}"
            return said
        finally:
            out.unlink(missing_ok=True)
            err.unlink(missing_ok=True)

    async def bomb(self, name: str) -> str:
        bomb = BOMBS[name]
        command = Command(
            argv=("/usr/bin/python3", "-I", "-S", "-c", bomb.code, self.place.mark + "-case"),
            cwd=str(self.place.workspace),
            env=GIVEN,
            timeout_ms=bomb.timeout_ms if self.without is None else 2_000,
            grace_ms=200,
            capture_limit=1 << 20,
        )
        sandbox = self.place.sandbox(upper=True, limits=layers.watchdog(bomb.limits, self.without), run_as=self.run_as)
        out, err = self.place.top.parent / f"{self.place.mark}-out", self.place.top.parent / f"{self.place.mark}-err"
        try:
            result = await self.launcher.launch(command, sandbox, out, err)
            return _judged(bomb.ended, result)
        finally:
            out.unlink(missing_ok=True)
            err.unlink(missing_ok=True)


def _judged(ended: tuple[str, ...], result: CommandResult) -> str:
    ways = {
        "time": result.timedOut,
        "memory": result.limit == "memory",
        "disk": result.limit == "disk",
        "files": result.limit == "files",
        "processes": result.limit == "processes",
        "failed": result.exitCode not in (0, None) or (result.signal is not None and result.limit is None),
        "fine": result.exitCode == 0,
        "cut": result.exitCode == 0 and result.stdout.truncated and result.stdout.kept <= 2 << 20,
    }
    ok = any(ways[way] for way in ended) and not result.refused
    return f"{'ended' if ok else 'NOT as it must'}: {[way for way in ways if ways[way]]} {'' if ok else result!r}"


async def drive(category: str, *, without: str | None, run_as: int | None, only: list[str]) -> dict[str, object]:
    said: dict[str, str] = {}
    outside: dict[str, list[str]] = {}
    with place() as where:
        launcher = Launcher(Disk(), Redactor([]))
        try:
            range_ = Range(launcher, where, run_as, without)
            with layers.removed(without):
                if category == "bombs":
                    for name in only or BOMBS:
                        said[name] = await range_.bomb(name)
                        outside[name] = where.changes()
                elif category == "harmless":
                    for name, code in CATEGORIES[category].items():
                        if not only or name in only:
                            said |= await range_.attempts({name: code}, upper=True)
                            outside[name] = where.changes()
                else:
                    cases = {n: c for n, c in CATEGORIES[category].items() if not only or n in only}
                    said |= await range_.attempts(cases, upper=False)
                    outside[category] = where.changes()
        finally:
            await launcher.close()
    return {"said": said, "outside": {name: found for name, found in outside.items() if found}}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("category")
    parser.add_argument("--without")
    parser.add_argument("--run-as", type=int)
    parser.add_argument("--only", nargs="*", default=[])
    asked = parser.parse_args()
    os.environ[KEY] = secrets.token_hex(16)
    report = drive(asked.category, without=asked.without, run_as=asked.run_as, only=asked.only)
    json.dump(asyncio.run(report), sys.stdout)


if __name__ == "__main__":
    main()
