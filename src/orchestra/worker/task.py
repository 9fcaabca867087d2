"""The worker's data: a command, its containment, its result. Nothing else.

Rules
1. A command is an argument list, or a pipe of them, never a shell line (F2-09, C-15).
2. A command's environment is complete: the command inherits nothing from orchestra's own (S2-136).
3. There is always a result, also for a command that could not start; only cancellation and a full disk raise.
4. All text in a result is redacted and cleaned; raw bytes never leave the worker.
5. A containment is requested by name. If it is not available the command is refused; a weaker one is never used (U-23).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from orchestra.core.command import Errors, Stage

MIB = 1 << 20
EXCERPT = 4_000  # bytes of a stream that a result quotes
MOST_PORTS = 16  # of this machine that a command may reach
Tier = Literal["strict", "landlock", "none"]
OnBytes = Callable[[bytes], bool]  # gets a program's output as it arrives; returns True to end the program
LimitName = Literal["time", "memory", "disk", "files", "processes"]


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process to run, or a pipe of several."""

    argv: tuple[str, ...]  # argv[0] is a resolved, absolute path
    cwd: str
    env: dict[str, str]
    timeout_ms: int
    stdin: bytes = b""  # empty: /dev/null
    grace_ms: int = 5_000  # between TERM and KILL (F2-09)
    capture_limit: int = 8 * MIB  # bytes kept of each artifact
    excerpt_limit: int = EXCERPT  # bytes of each stream quoted in the result: half from its head, half from its tail
    excerpt_characters: int = 0  # the same in characters of the quoted text; 0: `excerpt_limit` counts
    errors: Errors = "apart"  # where the stderr of `argv` goes
    then: tuple[Stage, ...] = ()  # programs that read its stdout, one after the other (pipeline.py)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one command and everything it starts may use (MS-4.3)."""

    memory_bytes: int = 2048 * MIB  # resident memory and tmpfs pages, summed over all processes
    processes: int = 256
    open_files: int = 1024
    file_bytes: int = 1024 * MIB  # of one file
    disk_bytes: int = 2048 * MIB  # of everything the command writes: its layer, its /tmp
    files: int = 200_000  # number of files written
    tmp_bytes: int = 512 * MIB  # /tmp, /dev/shm


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may see and change. Paths are absolute, and the same inside as on the host unless noted."""

    tier: Tier = "strict"
    workspace: str
    visible: bool = True  # False: only the paths in `reads` of the workspace are there
    upper: str | None = None  # a folder outside the workspace for the command's writes; None: they are discarded
    layers: tuple[str, ...] = ()  # folders that are mounted over the workspace for reading, lowest first
    hides: tuple[str, ...] = ()  # folders in the workspace that appear empty (runs, secrets)
    reads: tuple[str, ...] = ()  # further host paths, read-only (allow_read, prefixes of tools)
    writes: tuple[tuple[str, str], ...] = ()  # (folder on the host, path inside): the command's writes change the host
    domains: tuple[str, ...] = ()  # domains that can be reached through our proxy; empty: no network
    loopback: tuple[
        int, ...
    ] = ()  # ports of this machine's loopback that can be reached on the command's own (relay.py)
    online: bool = False  # the host's own network: for a provider that is a program, never for a tool (C-16)
    limits: Limits = Limits()
    run_as: int | None = None  # a uid, if orchestra runs as root


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A stored output: redacted and synced (D-04)."""

    path: str
    bytes: int
    sha256: str  # "sha256:<hex>" (G2-8)


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """The output of one stream."""

    bytes: int = 0  # written by the command
    kept: int = 0  # bytes of it in the artifact, after redaction
    truncated: bool = False  # some of it is not in the artifact
    excerpt: str = ""


class Denial(msgspec.Struct, frozen=True):
    """A connection our proxy refused."""

    host: str
    port: int
    reason: str
    times: int = 1


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. Exactly one of exitCode, signal and error is set."""

    exitCode: int | None = None
    signal: int | None = None
    exitCodes: tuple[int, ...] = ()  # of a pipe: one for each program, as a shell gives them
    error: str | None = None  # why it did not start, or that its supervisor died; text for people
    refused: bool = False  # with `error`: the containment is not available
    timedOut: bool = False
    canceled: bool = False  # never set by the launcher, which raises; for callers that turn that into a result
    limit: LimitName | None = None  # the limit that ended the command
    denials: tuple[Denial, ...] = ()
    durationMs: int = 0
    stdout: Captured = Captured()
    stderr: Captured = Captured()
    artifacts: tuple[Artifact, ...] = ()

    @property
    def codes(self) -> tuple[int, ...]:
        """The exit codes of all programs, as a shell gives them; nothing if they did not run."""
        if self.exitCodes or self.signal is not None:
            return self.exitCodes or (128 + (self.signal or 0),)
        return () if self.exitCode is None else (self.exitCode,)
