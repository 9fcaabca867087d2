"""What the worker is asked to run, how it is contained, and what it says about it. Data only.

Rules
1. A command is an argument list, never a shell line (F2-09).
2. Its environment is whole: nothing of orchestra's own is inherited (S2-136).
3. A result is always given, also for a command that could not start; only cancellation and a full disk raise.
4. Whatever text is in a result has been redacted and cleaned; raw bytes leave the worker nowhere.
5. A containment is asked for by name; one that cannot be had is refused, never weakened (U-23).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

MIB = 1 << 20
Tier = Literal["strict", "landlock", "none"]
OnBytes = Callable[[bytes], bool]  # what a program printed, as it came; True: enough was heard, end it
LimitName = Literal["time", "memory", "disk", "files", "processes"]


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process to run."""

    argv: tuple[str, ...]  # argv[0] is a resolved, absolute path
    cwd: str
    env: dict[str, str]
    timeout_ms: int
    stdin: bytes = b""  # empty: /dev/null
    grace_ms: int = 5_000  # between TERM and KILL (F2-09)
    capture_limit: int = 8 * MIB  # bytes kept of each artifact
    excerpt_limit: int = 4_000  # bytes of each stream quoted in the result: half from its head, half from its tail


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one command and everything it starts may use (MS-4.3)."""

    memory_bytes: int = 2048 * MIB  # resident memory and tmpfs pages, summed over its processes
    processes: int = 256
    open_files: int = 1024
    file_bytes: int = 1024 * MIB  # of one file
    disk_bytes: int = 2048 * MIB  # of everything it writes: its layer, its /tmp
    files: int = 200_000  # how many of them
    tmp_bytes: int = 512 * MIB  # /tmp, /dev/shm


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may see and touch. Paths are absolute and the same inside as on the host, unless it says so."""

    tier: Tier = "strict"
    workspace: str
    visible: bool = True  # False: of the workspace only what `reads` names is there
    upper: str | None = None  # a folder outside the workspace that receives what it writes; None: thrown away
    layers: tuple[str, ...] = ()  # folders that lie over the workspace for reading, the lowest first
    hides: tuple[str, ...] = ()  # folders in the workspace that appear empty (runs, secrets)
    reads: tuple[str, ...] = ()  # more of the host, for reading (allow_read, prefixes of tools)
    writes: tuple[tuple[str, str], ...] = ()  # (folder on the host, where it appears): written to for real
    domains: tuple[str, ...] = ()  # who may be reached, through our proxy; empty: no network at all
    online: bool = False  # the host's own network: for a provider that is a program, never for a tool (C-16)
    limits: Limits = Limits()
    run_as: int | None = None  # a uid, if orchestra runs as root


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A kept output, redacted, as stored and synced (D-04)."""

    path: str
    bytes: int
    sha256: str  # "sha256:<hex>" (G2-8)


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """What one stream said."""

    bytes: int = 0  # written by the command
    kept: int = 0  # of it in the artifact, after redaction
    truncated: bool = False  # some of it is not in the artifact
    excerpt: str = ""


class Denial(msgspec.Struct, frozen=True):
    """A connection our proxy refused."""

    host: str
    port: int
    reason: str
    times: int = 1


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended. Exactly one of exitCode, signal and error is set."""

    exitCode: int | None = None
    signal: int | None = None
    error: str | None = None  # it did not start, or its supervisor was lost: why, for a person
    refused: bool = False  # with `error`: the containment could not be had
    timedOut: bool = False
    canceled: bool = False  # the launcher raises instead; for callers that make an outcome of it
    limit: LimitName | None = None  # which limit ended it
    denials: tuple[Denial, ...] = ()
    durationMs: int = 0
    stdout: Captured = Captured()
    stderr: Captured = Captured()
    artifacts: tuple[Artifact, ...] = ()
