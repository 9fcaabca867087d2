"""The replay provider: answers from a recorded run, found by the request's digest. No model, no network.

A recorded failure is replayed as the same failure, with its usage: the run takes the same path, byte for byte. A
recorded reply that exceeds the bounds of a reply is not used.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from msgspec import UNSET

from orchestra.core.calls import PastCall, past_calls
from orchestra.core.errors import UsageError
from orchestra.core.files import read_bounded
from orchestra.core.model import (
    OnToken,
    ProviderCapabilities,
    ProviderRequest,
    ProviderResponse,
    unasked,
)
from orchestra.core.records import Event, Phase, Role
from orchestra.core.run import RunFolder
from orchestra.providers.bounds import MOST_TEXT
from orchestra.providers.contract import request_digest
from orchestra.providers.setup import ProviderSetup


class ReplayProvider:
    """Returns the replies of the recorded run."""

    def __init__(self, source: RunFolder, events: Iterable[Event]) -> None:
        """`events` are those of the recorded run."""
        self._source = source
        self._calls: dict[str, deque[PastCall]] = defaultdict(deque)
        self._roles: set[str] = set()
        self._context: dict[str, int] = {}
        for call in past_calls(events):
            self._roles.add(call.role)
            self._context[call.key] = call.contextBytes
            if call.status != "open":
                self._calls[call.request].append(call)

    @property
    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities(name="replay", supportsPatchFirst=True, supportsStreaming=True)

    def remember(self, call: PastCall) -> None:
        """Mark a reply as used that this run already has."""
        if self._calls[call.request]:
            self._calls[call.request].popleft()

    def serves(self, role: Role, phase: Phase, agent: str = "") -> bool:
        """Whether the recorded run has a call in this role."""
        return role in self._roles

    def context_of(self, key: str) -> int:
        """The context size of the recorded step's model; this run uses the same."""
        return self._context.get(key, 0)

    async def complete(self, request: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        """Give the recorded reply to the same request; BAD_REQUEST if the recorded run never made it."""
        calls = self._calls[request_digest(request)]
        if not calls:
            return unasked(
                "BAD_REQUEST",
                f"run {self._source.id} has no recorded reply to this request (role={request.role} "
                f"phase={request.phase} iteration={request.iteration}); goal, checks and workspace must be those of it",
            )
        call = calls.popleft()
        path = self._source.find(call.raw) if call.raw and call.raw.bytes <= MOST_TEXT else None
        if path is None:
            return unasked(
                "BAD_REQUEST", f"the raw reply of step {call.key} of run {self._source.id} is gone or was changed"
            )
        text = read_bounded(path, MOST_TEXT).decode("utf-8", "replace")  # not read_text: it converts line endings
        on_token(text)
        return ProviderResponse(
            rawText=text,
            finishReason=call.finishReason,
            durationMs=0,
            usage=call.usage,
            error=call.error or UNSET,
            source=call.key,
        )


def make(setup: ProviderSetup) -> ReplayProvider:
    """The provider of a recorded run."""
    if not setup.choice.argument:
        raise UsageError("provider replay needs a run: --provider replay:RUN")
    source = setup.find(setup.choice.argument)
    return ReplayProvider(source, setup.events(source))
