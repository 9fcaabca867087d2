"""The Messages API, streaming. Prefixes that repeat from call to call are marked for the cache.

A cached prefix ends after the system prompt, another after the context before the user's prompt. A call with the same
context (a repair, a second reviewer, the next fix of an unchanged file set) reads them at a tenth of the price.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from orchestra.core.model import OnToken, ProviderCapabilities, ProviderRequest, ProviderResponse
from orchestra.providers.bounds import bounds
from orchestra.providers.http import Http
from orchestra.providers.messages import MessagesWire
from orchestra.providers.prompting import context
from orchestra.providers.reading import StreamedReply

VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 16_384  # the API demands a limit
_CACHED = {"type": "ephemeral"}


class Anthropic:
    """Answers from a Messages endpoint."""

    def __init__(
        self, http: Http, *, model: str, max_output_tokens: int = 0, context_tokens: int | UnsetType = UNSET
    ) -> None:
        self._http = http
        self._model = model
        self._max_tokens = max_output_tokens or DEFAULT_MAX_TOKENS
        self._context_tokens = context_tokens

    @property
    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities(
            name="anthropic",
            version=VERSION,
            supportsPatchFirst=True,
            supportsStreaming=True,
            supportsToolCalls=False,
            maxContextTokens=self._context_tokens,
        )

    async def complete(self, request: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        """Make one request and stream the reply."""
        reply = StreamedReply(bounds(self._limit(request)), MessagesWire())
        return await self._http.converse("/v1/messages", self.body(request), reply, request, on_token)

    def _limit(self, request: ProviderRequest) -> int:
        return request.constraints.maxOutputTokens or self._max_tokens

    def body(self, request: ProviderRequest) -> dict[str, Any]:
        """The body of the request."""
        shown = context(request.contextArtifacts)
        content: list[dict[str, Any]] = [{"type": "text", "text": shown, "cache_control": _CACHED}] if shown else []
        content.append({"type": "text", "text": request.prompt.user})
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._limit(request),
            "messages": [{"role": "user", "content": content}],
            "stream": True,
        }
        if request.prompt.system:
            body["system"] = [{"type": "text", "text": request.prompt.system, "cache_control": _CACHED}]
        if not isinstance(request.constraints.temperature, UnsetType):
            body["temperature"] = request.constraints.temperature
        return body

    async def models(self) -> list[str]:
        """The names of the server's models."""
        return await self._http.models("/v1/models?limit=100")
