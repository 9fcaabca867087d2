"""Wrapping is pure: a command and a containment give an argument list."""

from __future__ import annotations

from orchestra.worker.task import Command
from orchestra.worker.wrap import wrap


def test_without_containment_the_command_runs_as_it_is() -> None:
    command = Command(argv=("pytest", "-q"), cwd="/", env={}, timeout_ms=1)
    assert wrap(command, "none") == ("pytest", "-q")
