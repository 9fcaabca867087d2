"""The replay provider: answers from a recorded run's raw files, found by the request's digest. No model, no network."""

from __future__ import annotations

from collections import defaultdict, deque

import msgspec

from orchestra.core.errors import UsageError
from orchestra.core.journal import read_events
from orchestra.core.model import OnToken, ProviderCapabilities, ProviderFailure, ProviderRequest, ProviderResponse
from orchestra.core.records import ArtifactRef, Phase, Role
from orchestra.core.run import RunFolder
from orchestra.providers.calling import request_digest


class ReplayProvider:
    """Answers what the recorded run was answered."""

    def __init__(self, source: RunFolder) -> None:
        self._source = source
        self._roles: set[str] = set()
        self._replies: dict[str, deque[ArtifactRef]] = defaultdict(deque)
        for event in read_events(source.events):
            self._roles.add(event.payload.get("role", ""))
            outcome = event.payload.get("outcome")
            if event.payload.get("effect") == "ModelCall" and isinstance(outcome, dict):
                self._replies[outcome["request"]].append(msgspec.convert(outcome["raw"], ArtifactRef))

    @property
    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities(name="replay", supportsPatchFirst=True, supportsStreaming=True)

    def remember(self, raw_sha256: str, error: ProviderFailure | None) -> None:
        """Leave out a reply that this run already has."""
        for replies in self._replies.values():
            for ref in replies:
                if ref.sha256 == raw_sha256:
                    replies.remove(ref)
                    return

    def serves(self, role: Role, phase: Phase) -> bool:
        """Whether the recorded run asked anyone in this role."""
        return role in self._roles

    async def complete(self, request: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        """Give the recorded reply to the same request; BAD_REQUEST if the recorded run never made it."""
        replies = self._replies.get(request_digest(request))
        if not replies:
            failure = ProviderFailure(
                code="BAD_REQUEST",
                message=f"run {self._source.id} has no recorded reply to this request "
                f"(role={request.role} phase={request.phase} iteration={request.iteration}); "
                f"goal, checks and workspace must be those of the recorded run",
                retriable=False,
            )
            return ProviderResponse(rawText="", finishReason="error", durationMs=0, error=failure)
        ref = replies.popleft()
        path = self._source.find(ref)
        if path is None:
            raise UsageError(f"cannot replay: {self._source.path / ref.path} is gone or was changed")
        text = path.read_text(encoding="utf-8", errors="replace")
        on_token(text)
        return ProviderResponse(rawText=text, finishReason="stop", durationMs=0)
