"""S1 §3: what a model is asked and what it answers. The whole contract between the loop and any provider.

A provider turns a request into a response and does nothing else: no files, no workflow, no retries (S1-05, S1-06). It
raises nothing for a failed call; it fills `error` (S1-39). Everything around the call lives in `providers/calling.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from msgspec import UNSET, Struct, UnsetType

from orchestra.core.errors import ContractError, ProviderErrorCode
from orchestra.core.records import Phase, Role

FinishReason = Literal["stop", "length", "timeout", "error"]  # S1-23


class Prompt(Struct, frozen=True):
    """S1-13, S1-14."""

    system: str
    user: str


class ContextArtifact(Struct, frozen=True):
    """A named piece of context: a workspace file, a plan, an answer (S1-16)."""

    name: str
    path: str
    content: str


class Withheld(Struct, frozen=True, omit_defaults=True):
    """A file somebody mentioned that no model is shown, why, and what to do about it."""

    path: str
    why: str
    cure: str = ""

    def __str__(self) -> str:
        return f"not shown to the model: {self.path} ({self.why})" + (f"; {self.cure}" if self.cure else "")


class Gathered(Struct, frozen=True):
    """What a model is shown of the workspace."""

    artifacts: tuple[ContextArtifact, ...] = ()
    withheld: tuple[Withheld, ...] = ()


class Destination(Struct, frozen=True, omit_defaults=True):
    """Where requests go: the address of a server, a program, or what answers in their place."""

    server: str = ""  # empty: not recorded
    leaves: bool | None = None  # whether they leave this machine; None: not recorded


class Constraints(Struct, frozen=True, omit_defaults=True):
    """S1-17 … S1-20, and two wishes of ours that a provider grants if it can."""

    timeoutMs: int
    patchFirst: bool
    maxOutputTokens: int | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    schema: dict[str, Any] | UnsetType = UNSET  # JSON Schema the reply is to validate against: constrains the decoding
    thinkBypass: bool | UnsetType = UNSET  # begin the reply with an empty think block (S5-47, S5-54)


class ProviderRequest(Struct, frozen=True, omit_defaults=True):
    """S1-09 … S1-21, and two additions: `agent`, the native name that scripts and routes may match (D-13), and
    `callId`, the same whenever this very call is made again, for providers that recognise a repeated one."""

    runId: str
    iteration: int
    phase: Phase
    role: Role
    prompt: Prompt
    contextArtifacts: tuple[ContextArtifact, ...]
    constraints: Constraints
    agent: str | UnsetType = UNSET
    callId: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.role in ("developer", "fixer") and not self.constraints.patchFirst:  # S1-21
            raise ContractError("patch_first", f"a {self.role} request must have constraints.patchFirst: true")


class Usage(Struct, frozen=True, omit_defaults=True):
    """S1-24. `inputTokens` are all that went in; the cached ones are some of them, and priced otherwise."""

    inputTokens: int | UnsetType = UNSET
    outputTokens: int | UnsetType = UNSET
    totalTokens: int | UnsetType = UNSET
    cacheReadTokens: int | UnsetType = UNSET
    cacheWriteTokens: int | UnsetType = UNSET
    cacheWriteHourTokens: int | UnsetType = UNSET  # of those written, the ones kept for an hour: they cost more
    estimated: bool = False  # by us: the provider did not say


class ProviderFailure(Struct, frozen=True, omit_defaults=True):
    """S1-27, S1-28."""

    code: ProviderErrorCode
    message: str
    retriable: bool
    retryAfterSec: float = 0.0  # ours: how long the other side asked us to wait


class ProviderResponse(Struct, frozen=True, omit_defaults=True):
    """S1-22 … S1-26."""

    rawText: str
    finishReason: FinishReason
    durationMs: int
    usage: Usage | UnsetType = UNSET
    error: ProviderFailure | UnsetType = UNSET
    source: str | UnsetType = UNSET  # ours: which entry of a script or recording this was, so that it is used once
    model: str | UnsetType = UNSET  # ours: who really answered
    costUsd: float | UnsetType = UNSET  # ours: what the provider itself says it cost
    requests: int = 1  # ours: how many the call really made, as far as that can be known


class ProviderCapabilities(Struct, frozen=True, omit_defaults=True):
    """S1-29 … S1-35."""

    name: str
    supportsPatchFirst: bool
    version: str | UnsetType = UNSET
    supportsStreaming: bool | UnsetType = UNSET
    supportsToolCalls: bool | UnsetType = UNSET
    maxContextTokens: int | UnsetType = UNSET


OnToken = Callable[[str], None]


class Provider(Protocol):
    """The one contract every model speaks."""

    @property
    def capabilities(self) -> ProviderCapabilities: ...

    async def complete(self, request: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        """Ask once. Text that arrives goes to `on_token` as it arrives; a failure is in `error`, never raised."""
        ...
