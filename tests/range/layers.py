"""The sandbox minus one layer: if no case notices, either the layer or the range is worth nothing.

Layers are taken away where the launcher's request is written: bwrap's options, the limits of a process and those of the
watchdog.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from orchestra.worker import starting
from orchestra.worker.task import Command, Limits, Sandbox
from orchestra.worker.wrap import WrapFacts
from orchestra.worker.wrap import wrap as original

Options = list[bytes]
_MUCH = 1 << 50


def _drop(options: Options, *words: bytes) -> Options:
    """Without this run of options."""
    size = len(words)
    for at in range(len(options) - size + 1):
        if tuple(options[at : at + size]) == words:
            return options[:at] + options[at + size :]
    raise LookupError(words)


def _bound(options: Options, path: bytes) -> Options:
    """The folder itself, bound for writing, in place of whatever is mounted there."""
    at = max(n for n, word in enumerate(options) if word == path and options[n - 1] != b"--chdir")
    start = at
    while options[start] not in (b"--perms", b"--overlay-src", b"--size"):
        start -= 1
    while options[start - 2] in (b"--overlay-src", b"--perms"):
        start -= 2
    return [*options[:start], b"--bind", path, path, *options[at + 1 :]]


EDITS: dict[str, Callable[[Options, bytes], Options]] = {
    "seccomp": lambda options, _: _drop(options, b"--seccomp", b"4"),
    "network namespace": lambda options, _: _drop(options, b"--unshare-net"),
    "ipc namespace": lambda options, _: _drop(options, b"--unshare-ipc"),
    "uts namespace": lambda options, _: _drop(_drop(options, b"--hostname", b"sandbox"), b"--unshare-uts"),
    "private /tmp": lambda options, _: _bound(options, b"/tmp"),
    "minimal root": lambda options, _: [b"--ro-bind", b"/", b"/", *options],
    "overlay": lambda options, workspace: _bound(options, workspace),
    "seccomp and no nested namespaces": lambda options, _: _drop(
        _drop(options, b"--seccomp", b"4"), b"--disable-userns"
    ),
}


@contextlib.contextmanager
def removed(layer: str | None) -> Iterator[None]:
    """The launcher of this process without the layer."""
    wrap, rlimits = original, starting._rlimits

    def edited(command: Command, sandbox: Sandbox, facts: WrapFacts) -> Options:
        options = wrap(command, sandbox, facts)
        return EDITS[layer](options, sandbox.workspace.encode()) if layer in EDITS else options

    try:
        starting.wrap = edited  # type: ignore[attr-defined]  # the seam is the name that starting.py calls
        if layer == "limits of a process":
            starting._rlimits = lambda limits: []
        yield
    finally:
        starting.wrap, starting._rlimits = wrap, rlimits  # type: ignore[attr-defined]


def watchdog(limits: Limits, layer: str | None) -> Limits:
    """The limits, or ones that nothing can reach."""
    if layer != "watchdog":
        return limits
    return Limits(memory_bytes=_MUCH, disk_bytes=_MUCH, files=_MUCH, processes=limits.processes)
