"""What a provider must keep, what it may offer, and what is made of its response. Pure; calling.py uses it.

Rules
1. A reply is within its bounds, and a failure has its error (S1-38, S1-39).
2. Usage that a provider does not report is estimated, and marked so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core.calls import PastCall
from orchestra.core.model import Destination, Provider, ProviderFailure, ProviderRequest, ProviderResponse, Usage
from orchestra.core.records import Phase, Role
from orchestra.core.text import estimated_tokens
from orchestra.providers.bounds import Bounds, cut
from orchestra.providers.prices import Price
from orchestra.providers.prompting import conversation


@runtime_checkable
class Remembers(Protocol):
    """A provider whose answers depend on what it answered before, across processes."""

    def remember(self, call: PastCall) -> None: ...


@runtime_checkable
class Serves(Protocol):
    """A provider that has replies for some roles only, and can report which."""

    def serves(self, role: Role, phase: Phase, agent: str = "") -> bool: ...


@runtime_checkable
class Weak(Protocol):
    """A provider of which little can be expected, and that says so."""

    @property
    def warning(self) -> str:
        """What to expect, for a person, before a run begins; empty if there is nothing to say."""
        ...


@runtime_checkable
class Recalls(Protocol):
    """A provider that replays others, and must be given the same context as they were."""

    def context_of(self, key: str) -> int:
        """The most bytes of files in the prompt of the recorded step; 0 if it is unknown."""
        ...


class Route(Struct, frozen=True):
    """Where a call goes."""

    provider: Provider
    name: str
    model: str = ""
    price: Price | None = Price()  # None: unknown
    max_output: int = 0  # tokens; the limit of a call if there is a budget
    estimates: bool = False  # usage that the provider does not report is estimated
    bytes_per_token: int = 3  # of a text that must fit into the context; a small vocabulary needs more tokens
    price_of: Callable[[str], Price | None] | None = None  # for a model that is known only once it has answered
    to: Destination = Destination()


def held_to_contract(response: ProviderResponse, most: Bounds) -> ProviderResponse:
    """The response with its text within the bounds, and with an error if it failed without one (rule 1)."""
    text = cut(response.rawText, most.text)
    if text != response.rawText:
        failure = most.failure(most.text_passed)
        return msgspec.structs.replace(response, rawText=text, finishReason="error", error=failure)
    if response.finishReason in ("stop", "length") or not isinstance(response.error, UnsetType):
        return response
    what = "timed out" if response.finishReason == "timeout" else "failed"
    failure = ProviderFailure(
        code="TIMEOUT" if response.finishReason == "timeout" else "UNKNOWN",
        message=f"the provider {what} and did not say why",
        retriable=True,
    )
    return msgspec.structs.replace(response, error=failure)


def late(request: ProviderRequest, text: str, seconds: float) -> ProviderResponse:
    """The response of a call that ran out of time, with what had arrived (S1-38)."""
    message = f"no complete reply within {request.constraints.timeoutMs} ms (raise loop.timeout_ms)"
    failure = ProviderFailure(code="TIMEOUT", message=message, retriable=True)
    return ProviderResponse(rawText=text, finishReason="timeout", durationMs=int(seconds * 1000), error=failure)


def counted(response: ProviderResponse, request: ProviderRequest, route: Route) -> ProviderResponse:
    """The response with its usage estimated, if the provider does not report it and there is a text (rule 2)."""
    said = Usage() if isinstance(response.usage, UnsetType) else response.usage
    complete = isinstance(response.error, UnsetType) and said.inputTokens and said.outputTokens is not UNSET
    if not route.estimates or complete or not response.rawText:
        return response
    # An incomplete reply has figures of its beginning, if any.
    into = said.inputTokens or sum(estimated_tokens(message.content) for message in conversation(request))
    out = max(said.outputTokens or 0, estimated_tokens(response.rawText))
    usage = msgspec.structs.replace(said, inputTokens=into, outputTokens=out, totalTokens=into + out, estimated=True)
    return msgspec.structs.replace(response, usage=usage)


def cost_of(response: ProviderResponse, route: Route) -> float | None:
    """The cost that the provider reports, or that of its tokens; None if their price is unknown."""
    if not isinstance(response.costUsd, UnsetType):
        return max(0.0, response.costUsd)
    named = route.model or isinstance(response.model, UnsetType) or route.price_of is None
    price = route.price if named else route.price_of(str(response.model))  # type: ignore[misc]  # `named` has looked
    if price is not None:
        return price.of(response.usage)
    used = not isinstance(response.usage, UnsetType) and (response.usage.inputTokens or response.usage.outputTokens)
    return None if used else 0.0


def request_digest(request: ProviderRequest) -> str:
    """The digest of a request. It is the same in every run, under every budget, streamed or not.

    The form of the reply does not count: the prompt says it in words.
    """
    constraints = msgspec.structs.replace(request.constraints, maxOutputTokens=UNSET, stream=UNSET, form=UNSET)
    anonymous = msgspec.structs.replace(request, runId="", callId=UNSET, constraints=constraints)
    return "sha256:" + hashlib.sha256(msgspec.json.encode(anonymous, order="deterministic")).hexdigest()
