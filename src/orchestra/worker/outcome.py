"""Outcome: the spawner's report of a command's end -> the command's result. Pure.

Rules
1. A command ran only if its own exit was reported (MS-3.5). Without that report bwrap could not set it up, or was
   killed; bwrap's message is in stderr and becomes the reason.
2. bwrap reports 128 + n for a command that signal n ended, as a shell does. An exit code 128 + n looks the same; n up
   to 31 is taken for a signal.
3. A command that was killed for a limit or for time has signal SIGKILL, unless it ended by itself before that.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Mapping

from orchestra.worker import host
from orchestra.worker.streams import Kept
from orchestra.worker.task import Captured, Command, CommandResult, Denial, LimitName, Sandbox, Tier

End = Mapping[str, object]
_LIMITS: tuple[LimitName, ...] = ("memory", "disk", "files", "processes")
_PART: dict[Tier, str] = {"strict": "its limits", "landlock": "Landlock", "none": "its limits"}
_NOT_RUN = re.compile(r"^bwrap: (?:execvp .*|Can't chdir to .*): (?P<reason>[^:\n]+)$", re.MULTILINE)
_NUMBERS = {os.strerror(number): number for number in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.E2BIG)}


def result(
    command: Command,
    sandbox: Sandbox,
    end: End,
    *,
    kept: Kept,
    denials: tuple[Denial, ...] = (),
    codes: tuple[int, ...] = (),
) -> CommandResult:
    """The result of a command, from the spawner's report `end`, the captured streams and the codes of its stages."""
    stdout, stderr, artifacts = kept
    code, number = _ended(end)
    error, refused = (
        (None, False)
        if code is not None or number is not None
        else _why_not(command, sandbox.tier, end, stderr.excerpt)
    )
    seconds = end.get("seconds")
    limit = next((name for name in _LIMITS if name == end.get("limit")), None)
    if number == signal.SIGXFSZ:
        limit = "disk"  # one file grew beyond its limit
    if end.get("timed_out"):
        limit = "time"
    return CommandResult(
        exitCode=code,
        signal=number,
        exitCodes=() if error else codes,
        error=error,
        refused=refused,
        timedOut=bool(end.get("timed_out")),
        limit=limit,
        denials=denials,
        durationMs=round(seconds * 1000) if isinstance(seconds, float) else 0,
        stdout=stdout,
        stderr=Captured() if error and sandbox.tier == "strict" and "lost" not in end else stderr,
        artifacts=artifacts,
    )


def _ended(end: End) -> tuple[int | None, int | None]:
    """(exit code, signal): at most one of them is set."""
    match end:
        case {"errno": _} | {"refused": _} | {"lost": _} | {"listener": _}:
            return None, None
        case {"exit-code": int(code)}:
            return (None, code - 128) if 128 < code < 160 else (code, None)
        case {"wait-status": int(status)}:
            code = os.waitstatus_to_exitcode(status)
            return (None, -code) if code < 0 else (code, None)
        case {"killed": True}:
            return None, signal.SIGKILL
    return None, None


def _why_not(command: Command, tier: Tier, end: End, said: str) -> tuple[str, bool]:
    """Why the command did not run, and whether that is a refusal of the containment."""
    match end:
        case {"lost": words}:
            return f"the spawner of the command was killed, and the command with it. {words}".strip(), False
        case {"listener": int(number)}:
            return f"the sandbox cannot be set up: no listener on its loopback ({os.strerror(number)})", True
        case {"refused": int(number)}:
            return f"the sandbox cannot be set up: {_PART[tier]} could not be switched on ({os.strerror(number)})", True
        case {"errno": int(number)}:
            return _cannot_start(number, command), False
        case {"outer": int(status)} if os.WIFSIGNALED(status):
            return f"the command's sandbox was killed from outside (signal {os.WTERMSIG(status)})", False
    found = _NOT_RUN.search(said)
    if found and "chdir" in found[0]:
        return f"cannot start: the working folder {command.cwd!r} does not exist in the sandbox", False
    if found:
        return _cannot_start(_NUMBERS.get(found["reason"], 0), command, found["reason"]), False
    return host.explain(said), True


def _cannot_start(number: int, command: Command, reason: str = "") -> str:
    program = command.argv[0]
    match number:
        case errno.ENOENT | errno.ENOTDIR:
            return f"cannot start: {program!r} was not found (or the interpreter its first line names)"
        case errno.EACCES | errno.EPERM:
            return f"cannot start: {program!r} is not executable, or a folder on the way is closed to us"
        case errno.ENOEXEC:
            return f"cannot start: {program!r} is neither a program nor a script with a #! line"
        case errno.E2BIG:
            return f"cannot start: {program!r}: arguments and environment are too long; pass big input by stdin"
        case _:
            return f"cannot start: {program!r}: {reason or os.strerror(number)}"
