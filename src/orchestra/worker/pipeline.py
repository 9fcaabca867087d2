"""A pipe of up to three programs as one command of the sandbox, and the exit code of each of them.

Rules
1. /bin/sh connects the programs, because it is in every sandbox and starts in a millisecond. Its script is made of
   numbers only: the words are its parameters (`"${1}"`), so no word of a model is ever read by a shell.
2. Every program is named by its absolute path, so none is a function or a built-in of the shell. It has the
   descriptors 0, 1 and 2, and default signals: `yes | head -1` ends at once (141, 0).
3. The shell writes the exit code of each stage to a pipe of its own, as a shell gives it: 128 + n for signal n,
   127 for a program that is not there. A stage that was killed together with its shell has 137.
4. The shells outlive TERM, so that the programs get the whole grace period.
5. These codes are the command's own word, like its exit code: nothing that protects depends on them.
"""

from __future__ import annotations

import os
import re
import signal

from orchestra.core.command import Stage
from orchestra.worker.task import Command

CODES = 7  # the descriptor of the codes' pipe (spawner.py)
SHELL = "/bin/sh"
_TARGET = {"apart": "", "stdout": " 2>&1", "nothing": " 2>/dev/null"}
_REPORT = re.compile(rb"^([0-9]) ([0-9]{1,3})$", re.MULTILINE)
_MOST = 4096  # bytes that are read of the codes' pipe


def needs_shell(command: Command) -> bool:
    """Whether the command is more than one program with its own stdout and stderr."""
    return bool(command.then) or command.errors != "apart"


def stages_of(command: Command) -> tuple[Stage, ...]:
    """All programs of a command."""
    return (Stage(command.argv, command.errors), *command.then)


def started_argv(command: Command) -> tuple[str, ...]:
    """What the sandbox starts: the program itself, or the shell that connects the stages (rule 1)."""
    if not needs_shell(command):
        return command.argv
    stages = stages_of(command)
    groups, at = [], 1
    for number, stage in enumerate(stages):
        words = " ".join(f'"${{{at + word}}}"' for word in range(len(stage.argv)))
        at += len(stage.argv)
        run = f"{words}{_TARGET[stage.errors]} {CODES}>&-"
        groups.append(f'{{ trap : TERM; {run}; s=$?; echo "{number} $s" >&{CODES}; exit $s; }}')
    script = "trap : TERM; " + " | ".join(groups)
    return (SHELL, "-c", script, "sh", *(word for stage in stages for word in stage.argv))


class Codes:
    """The pipe that the exit codes of the stages come through."""

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._fd = -1

    def open(self) -> list[int]:
        """Make the pipe; return the command's end of it."""
        self._fd, theirs = os.pipe()
        os.set_blocking(self._fd, False)
        return [theirs]

    def close(self) -> tuple[int, ...]:
        """The exit codes, one for each stage; nothing if the pipe was not opened. May be called twice."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return ()
        try:
            said = os.read(fd, _MOST)
        except BlockingIOError:
            said = b""
        finally:
            os.close(fd)
        return read_codes(said, self._stages)


def read_codes(said: bytes, stages: int) -> tuple[int, ...]:
    """The exit codes in the report; the first one counts, and a missing one is that of a killed stage (rule 3)."""
    found: dict[int, int] = {}
    for number, code in _REPORT.findall(said):
        if int(code) <= 255:
            found.setdefault(int(number), int(code))
    return tuple(found.get(number, 128 + signal.SIGKILL) for number in range(stages))
