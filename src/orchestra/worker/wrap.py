"""Wrap: from a command and a containment to the argument list that is really started. Pure.

decide (policy) → **wrap** (here) → run (launcher). A containment is asked for by name; one that cannot be had is
refused, never weakened (design §5).

Only tier "none" exists yet: the command as it is. Tier "strict" (bubblewrap, seccomp, overlay: sandbox.md §4) will
return `bwrap --args FD … -- argv` here; the descriptors it needs (options, seccomp filter, status) will come with the
argument list, and the supervisor will pass them on.
"""

from __future__ import annotations

from typing import Literal, assert_never

from orchestra.worker.task import Command

Containment = Literal["none"]


def wrap(command: Command, containment: Containment) -> tuple[str, ...]:
    """The argument list that runs the command inside the containment."""
    match containment:
        case "none":
            return command.argv
        case _:
            assert_never(containment)
