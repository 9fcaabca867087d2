"""The Messages API, streaming. Prefixes that repeat from call to call are marked for the cache.

A cached prefix ends after the system prompt, another after the history, another after the context before the user's
prompt. A call with the same
context (a repair, a second reviewer, the next fix of an unchanged file set) reads them at a tenth of the price.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from orchestra.core.errors import UsageError
from orchestra.core.model import Destination, OnToken, ProviderCapabilities, ProviderRequest, ProviderResponse
from orchestra.providers.bounds import bounds
from orchestra.providers.http import Endpoint, Http, is_here
from orchestra.providers.messages import MessagesWire
from orchestra.providers.prompting import BEGINNING, context
from orchestra.providers.reading import StreamedReply
from orchestra.providers.setup import MAX_OUTPUT, WAYS, ProviderSetup

VERSION = "2023-06-01"
URL = "https://api.anthropic.com"
_CACHED = {"type": "ephemeral"}
_GO_ON = "(go on)"  # the API wants the user's words last


class Anthropic:
    """Answers from a Messages endpoint."""

    def __init__(
        self, http: Http, *, model: str, max_output_tokens: int = 0, context_tokens: int | UnsetType = UNSET
    ) -> None:
        self._http = http
        self._model = model
        self._max_tokens = max_output_tokens or MAX_OUTPUT["anthropic"]  # the API demands a limit
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
        constraints = request.constraints
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._limit(request),
            "messages": _turns(request),
            "stream": constraints.stream is not False,
        }
        system = [request.prompt.system, *(m.content for m in request.history if m.role == "system")]
        if any(system):
            body["system"] = [{"type": "text", "text": text} for text in system if text]
            body["system"][-1]["cache_control"] = _CACHED
        if not isinstance(constraints.temperature, UnsetType):
            body["temperature"] = constraints.temperature
        elif not isinstance(constraints.topP, UnsetType):  # newer models refuse both at once
            body["top_p"] = constraints.topP
        return body

    async def models(self) -> list[str]:
        """The names of the server's models."""
        return await self._http.models("/v1/models?limit=100")


def _turns(request: ProviderRequest) -> list[dict[str, Any]]:
    """The messages: neighbours of one role are one message; the first and the last are the user's."""
    said = [(m.role, _block(m.content)) for m in request.history if m.role != "system" and m.content]
    if said:
        said[-1][1]["cache_control"] = _CACHED
    if shown := context(request.contextArtifacts):
        said.append(("user", {**_block(shown), "cache_control": _CACHED}))
    if request.prompt.user or not said:
        said.append(("user", _block(request.prompt.user)))
    if said[0][0] == "assistant":
        said.insert(0, ("user", _block(BEGINNING)))
    if said[-1][0] == "assistant":
        said.append(("user", _block(_GO_ON)))
    turns: list[dict[str, Any]] = []
    for role, block in said:
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].append(block)
        else:
            turns.append({"role": role, "content": [block]})
    return turns


def _block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def make(setup: ProviderSetup) -> Anthropic:
    """The provider of an entry or of the usual variables; UsageError if its key is missing."""
    url, url_from = _url(setup)
    key, key_from = setup.key("ANTHROPIC_API_KEY")
    token = "" if key or setup.choice.entry.base_url else setup.environ.get("ANTHROPIC_AUTH_TOKEN", "")
    if not (key or token) and url == URL:
        raise UsageError(f"provider anthropic needs a key: set ANTHROPIC_API_KEY; {WAYS}")
    headers = {"authorization": f"Bearer {token}"} if token else {"x-api-key": key} if key else {}
    headers["anthropic-version"] = VERSION
    key_from = "ANTHROPIC_AUTH_TOKEN" if token else key_from
    endpoint = Endpoint(
        base_url=url,
        headers=headers,
        secret=key or token,
        key_from=key_from,
        url_from=url_from,
        trace_header=setup.trace_header,
        connect_sec=setup.choice.entry.connect_sec,
        limits=setup.limits,
    )
    return Anthropic(
        Http(endpoint),
        model=setup.choice.model,
        max_output_tokens=setup.max_output_tokens,
        context_tokens=setup.choice.context_tokens,
    )


def destination(setup: ProviderSetup) -> Destination:
    """The server's address."""
    url, _ = _url(setup)
    return Destination(url, leaves=not is_here(url))


def _url(setup: ProviderSetup) -> tuple[str, str]:
    return setup.url("ANTHROPIC_BASE_URL", URL)
