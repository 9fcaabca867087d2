"""Requests to models and their responses (S1 §3): the whole contract between workflows and providers.

A provider turns a request into a response and does nothing else: no files, no workflow, no retries (S1-05, S1-06). A
failed call is returned with `error`, not raised (S1-39). Everything around the call is in `providers/calling.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from msgspec import UNSET, Struct, UnsetType

from orchestra.core.errors import ContractError, ProviderErrorCode
from orchestra.core.records import Phase, Role
from orchestra.core.shown import Receipt

FinishReason = Literal["stop", "length", "timeout", "error"]  # S1-23
Form = Literal["plan", "result", "decision"]  # of a reply: a loop's plan; its PATCH, ASK or NOOP; a verdict
RESULT_START, RESULT_END = "<<<AIO_RESULT_START>>>", "<<<AIO_RESULT_END>>>"  # S1-83
PATCH_BEGIN, PATCH_END = "[PATCH_BEGIN]", "[PATCH_END]"  # S1-85


class Prompt(Struct, frozen=True):
    """S1-13, S1-14."""

    system: str
    user: str


Speaker = Literal["system", "user", "assistant"]


class ChatMessage(Struct, frozen=True):
    """One message of a conversation, as the model reads it."""

    role: Speaker
    content: str


class ContextArtifact(Struct, frozen=True):
    """A named piece of context: a workspace file, a plan, an answer (S1-16)."""

    name: str
    path: str
    content: str


class Withheld(Struct, frozen=True, omit_defaults=True):
    """A mentioned file that no model is shown, the reason, and how to change that."""

    path: str
    why: str
    cure: str = ""

    def __str__(self) -> str:
        return f"not shown to the model: {self.path} ({self.why})" + (f"; {self.cure}" if self.cure else "")


class Gathered(Struct, frozen=True):
    """The workspace files for a model, and those that are withheld."""

    artifacts: tuple[ContextArtifact, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    receipt: Receipt = Receipt(method="none")
    everything: bool = False  # every file of the workspace is shown whole: there is nothing to ask for


class Destination(Struct, frozen=True, omit_defaults=True):
    """Where requests go: a server's address, a program, or a script or recording."""

    server: str = ""  # empty: not recorded
    leaves: bool | None = None  # whether requests leave this machine; None: not recorded


class Constraints(Struct, frozen=True, omit_defaults=True):
    """S1-17 … S1-20, and additions that not every provider supports."""

    timeoutMs: int
    patchFirst: bool
    maxOutputTokens: int | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    schema: dict[str, Any] | UnsetType = UNSET  # JSON Schema for the reply: constrains the decoding
    form: Form | UnsetType = UNSET  # of a reply without a schema: for a provider that decodes under a grammar
    thinkBypass: bool | UnsetType = UNSET  # begin the reply with an empty think block (S5-47, S5-54)
    topP: float | UnsetType = UNSET
    stream: bool | UnsetType = UNSET  # False: the reply comes as a whole, and no tokens are told (S5-26)


class ProviderRequest(Struct, frozen=True, omit_defaults=True):
    """S1-09 … S1-21, and additions: `agent`, the native name that scripts and routes may match (D-13); `callId`, the
    same whenever this very call is made again, for providers that recognise a repeated one; and `messages`, the
    conversation before the prompt. A model reads: system prompt, messages, context, the user's prompt."""

    runId: str
    iteration: int
    phase: Phase
    role: Role
    prompt: Prompt
    contextArtifacts: tuple[ContextArtifact, ...]
    constraints: Constraints
    agent: str | UnsetType = UNSET
    callId: str | UnsetType = UNSET
    messages: tuple[ChatMessage, ...] | UnsetType = UNSET

    @property
    def history(self) -> tuple[ChatMessage, ...]:
        """The messages before the prompt; empty if there are none."""
        return () if isinstance(self.messages, UnsetType) else self.messages

    def __post_init__(self) -> None:
        if self.role in ("developer", "fixer") and not self.constraints.patchFirst:  # S1-21
            raise ContractError("patch_first", f"a {self.role} request must have constraints.patchFirst: true")


class Usage(Struct, frozen=True, omit_defaults=True):
    """S1-24. `inputTokens` are all input tokens, including the cached ones, which have other prices."""

    inputTokens: int | UnsetType = UNSET
    outputTokens: int | UnsetType = UNSET
    totalTokens: int | UnsetType = UNSET
    cacheReadTokens: int | UnsetType = UNSET
    cacheWriteTokens: int | UnsetType = UNSET
    cacheWriteHourTokens: int | UnsetType = UNSET  # cache writes kept for an hour: they cost more
    estimated: bool = False  # by us, if the provider does not report it


class ProviderFailure(Struct, frozen=True, omit_defaults=True):
    """S1-27, S1-28."""

    code: ProviderErrorCode
    message: str
    retriable: bool
    retryAfterSec: float = 0.0  # ours: how long the provider asked us to wait


class ProviderResponse(Struct, frozen=True, omit_defaults=True):
    """S1-22 … S1-26."""

    rawText: str
    finishReason: FinishReason
    durationMs: int
    usage: Usage | UnsetType = UNSET
    error: ProviderFailure | UnsetType = UNSET
    source: str | UnsetType = UNSET  # ours: the entry of the script or recording, so that it is used once
    model: str | UnsetType = UNSET  # ours: the model that really answered
    costUsd: float | UnsetType = UNSET  # ours: the cost that the provider itself reports
    requests: int = 1  # ours: how many requests the call made, if known


def unasked(code: ProviderErrorCode, message: str, *, retriable: bool = False) -> ProviderResponse:
    """The answer to a request that was not sent to a model, and why: it took no time and has no text."""
    failure = ProviderFailure(code=code, message=message, retriable=retriable)
    return ProviderResponse(rawText="", finishReason="error", durationMs=0, error=failure)


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
    """A provider of models."""

    @property
    def capabilities(self) -> ProviderCapabilities: ...

    async def complete(self, request: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        """Make one call. Arriving text is passed to `on_token`; a failure is returned in `error`, never raised."""
        ...
