"""What the worker is asked to run, and what it says about it. Data only.

Rules
1. A command is an argument list, never a shell line (decisions section 5, S2 "Safety").
2. Its environment is whole: nothing of orchestra's own is inherited (S2-136).
3. A result is always given, also for a command that could not start; only cancellation and a full disk raise.
4. Whatever text is in a result has been redacted and cleaned; raw bytes leave the worker nowhere.
"""

from __future__ import annotations

import msgspec

MIB = 1 << 20


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process to run."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    timeout_ms: int
    stdin: bytes = b""  # empty: /dev/null
    grace_ms: int = 500  # between TERM and KILL (decisions section 5, S1 "Allowlist by id")
    capture_limit: int = 8 * MIB  # bytes kept in the artifact, both streams together
    excerpt_limit: int = 4_000  # bytes of each stream quoted in the result: half from its head, half from its tail


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """The kept output: both streams in order of arrival, redacted; as stored and synced (D-04)."""

    path: str
    bytes: int
    sha256: str  # "sha256:<hex>" (G2-8)


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """What one stream said."""

    bytes: int = 0  # written by the command
    kept: int = 0  # of it in the artifact, after redaction
    truncated: bool = False  # some of it is not in the artifact
    excerpt: str = ""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended. Exactly one of exitCode, signal and error is set."""

    exitCode: int | None = None
    signal: int | None = None
    error: str | None = None  # it did not start, or its supervisor was lost: why, for a person
    timedOut: bool = False
    canceled: bool = False  # the launcher raises instead; for callers that make an outcome of it
    durationMs: int = 0
    stdout: Captured = Captured()
    stderr: Captured = Captured()
    artifact: Artifact | None = None
