"""Any OpenAI-compatible server, by chat completions with streaming: OpenAI, vLLM, Ollama, llama.cpp, LM Studio (S5-68).

Rules
1. A reply is whole when a choice gave its finish reason and `[DONE]` came.
2. If no model is configured and the server has just one, that one is used.
3. Features that not every server has are configured: `constrain` (a schema is sent as
   `response_format`), `think_bypass`, `thinking_switch` (`enable_thinking` is sent in the three places that servers
   look for it), `extra` (merged into every body).
4. Some servers repeat the injected think block at the start of a reply that comes as a whole (llama.cpp does). The raw
   reply keeps it; core/thinking.py takes it apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core.errors import UsageError
from orchestra.core.model import (
    Destination,
    FinishReason,
    OnToken,
    ProviderCapabilities,
    ProviderRequest,
    ProviderResponse,
    Usage,
    unasked,
)
from orchestra.providers.bounds import bounds
from orchestra.providers.http import Endpoint, Http, is_here
from orchestra.providers.prompting import alternating, conversation, with_bypass
from orchestra.providers.reading import UNREADABLE, StreamedReply, figure
from orchestra.providers.setup import WAYS, ProviderSetup

URL = "https://api.openai.com/v1"
_FINISH: dict[str, FinishReason] = {"stop": "stop", "eos": "stop", "length": "length"}


class Wishes(Struct, frozen=True, kw_only=True):
    """The configured features of a server (rule 3)."""

    model: str = ""
    max_output_tokens: int = 0  # 0: the server's own limit
    limit_name: str = "max_tokens"  # `max_completion_tokens` for OpenAI's own
    context_tokens: int | UnsetType = UNSET
    constrain: bool = False
    think_bypass: bool = False
    thinking_switch: bool = False
    alternating: bool = False  # the model's chat template refuses any other order of messages
    extra: Mapping[str, Any] = {}


class OpenAICompat:
    """Answers from a chat completions endpoint."""

    def __init__(self, http: Http, wishes: Wishes, *, name: str = "openai_compat") -> None:
        self._http = http
        self._wishes = wishes
        self._name = name
        self._only = ""  # the server's one model (rule 2)

    @property
    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities(
            name=self._name,
            supportsPatchFirst=True,
            supportsStreaming=True,
            supportsToolCalls=False,
            maxContextTokens=self._wishes.context_tokens,
        )

    async def complete(self, request: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        """Make one request and stream the reply."""
        model = self._wishes.model or self._only
        if not model:
            try:
                model = self._only = _one(await self.models(request.runId))
            except OSError as error:
                why = f"no model is named, and the server does not say which it has: {error}"
                return unasked("UNKNOWN", why, retriable=True)
        if not model:
            why = f"{self._http.url('/models')} has more than one model, or none: name one with --model NAME"
            return unasked("UNKNOWN", why)
        reply = StreamedReply(bounds(self._limit(request)), ChatWire())
        return await self._http.converse("/chat/completions", self.body(request, model), reply, request, on_token)

    def _limit(self, request: ProviderRequest) -> int:
        """The most tokens of the reply; 0: the server's own limit."""
        return request.constraints.maxOutputTokens or self._wishes.max_output_tokens

    def body(self, request: ProviderRequest, model: str) -> dict[str, Any]:
        """The body of the request."""
        wishes, constraints = self._wishes, request.constraints
        bypass = self.bypasses_thinking(request)
        said = conversation(request)
        said = alternating(said) if wishes.alternating and request.history else said
        said = with_bypass(said) if bypass else said
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": message.role, "content": message.content} for message in said],
            "stream": constraints.stream is not False,
        }
        if body["stream"]:
            body["stream_options"] = {"include_usage": True}
        body |= wishes.extra
        if wishes.thinking_switch:
            body |= _switched(body, on=not bypass)
        if limit := self._limit(request):
            body[wishes.limit_name] = limit
        if not isinstance(constraints.temperature, UnsetType):
            body["temperature"] = constraints.temperature
        if not isinstance(constraints.topP, UnsetType):
            body["top_p"] = constraints.topP
        if wishes.constrain and not isinstance(constraints.schema, UnsetType):
            schema = {"name": "reply", "strict": True, "schema": constraints.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def bypasses_thinking(self, request: ProviderRequest) -> bool:
        """Whether the reply is begun with an empty think block (S5-47, S5-54)."""
        asked = request.constraints.thinkBypass
        return self._wishes.think_bypass if isinstance(asked, UnsetType) else asked

    async def models(self, run: str = "") -> list[str]:
        """The names of the server's models, requested for a run if there is one; OSError if it does not list them."""
        return await self._http.models("/models", run)


def _switched(body: Mapping[str, Any], *, on: bool) -> dict[str, Any]:
    """`enable_thinking` in the three places that servers look for it."""
    switch: dict[str, Any] = {"enable_thinking": on}
    for name in ("chat_template_kwargs", "extra_body"):
        own = body.get(name)
        switch[name] = {**(own if isinstance(own, dict) else {}), "enable_thinking": on}
    return switch


def make(setup: ProviderSetup) -> OpenAICompat:
    """The provider of an entry or of the usual variables; UsageError if neither names a server or a key."""
    url, url_from = _url(setup)
    key, key_from = setup.key("OPENAI_API_KEY")
    if not key and url == URL:
        raise UsageError(
            f"provider openai_compat needs a server or a key: set OPENAI_BASE_URL or OPENAI_API_KEY; {WAYS}"
        )
    headers = {"authorization": f"Bearer {key}"} if key else {}
    choice, entry = setup.choice, setup.choice.entry
    endpoint = Endpoint(
        base_url=url,
        headers=headers,
        secret=key,
        key_from=key_from,
        url_from=url_from,
        trace_header=setup.trace_header,
        idempotent=True,
        connect_sec=setup.choice.entry.connect_sec,
        limits=setup.limits,
    )
    return OpenAICompat(
        Http(endpoint),
        Wishes(
            model=choice.model,
            max_output_tokens=entry.max_output_tokens or 0,
            limit_name="max_completion_tokens" if url == URL else "max_tokens",
            context_tokens=choice.context_tokens,
            constrain=entry.constrain,
            think_bypass=entry.think_bypass,
            thinking_switch=entry.thinking_switch,
            extra=entry.extra,
        ),
    )


def destination(setup: ProviderSetup) -> Destination:
    """The server's address."""
    url, _ = _url(setup)
    return Destination(url, leaves=not is_here(url))


def _url(setup: ProviderSetup) -> tuple[str, str]:
    return setup.url("OPENAI_BASE_URL", URL)


def _one(models: list[str]) -> str:
    return models[0] if len(models) == 1 else ""


class _Delta(Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    message: _Delta | None = None  # of a reply that came as a whole
    finish_reason: str | None = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    model: str | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class ChatWire:
    """Reads one reply of a chat completions endpoint."""

    name: ClassVar[str] = "a chat completion chunk"

    def hear(self, reply: StreamedReply, event: str, data: str) -> str:
        """Read one server-sent event."""
        if data == "[DONE]":
            reply.done = True
            return ""
        return self._take(reply, data)

    def whole(self, reply: StreamedReply, data: str) -> str:
        """Read a reply that came as one document."""
        text = self._take(reply, data)
        reply.done = True
        return text

    def _take(self, reply: StreamedReply, data: str) -> str:
        try:
            chunk = _decode(data)
        except UNREADABLE:
            reply.garbage(self.name, data)
            return ""
        if chunk.error is not None:
            _fail(reply, chunk.error)
            return ""
        if isinstance(chunk.usage, dict):
            reply.usage = _usage(chunk.usage)
        if chunk.model:
            reply.model = chunk.model
        return _add(reply, chunk.choices[0]) if chunk.choices else ""


def _add(reply: StreamedReply, choice: _Choice) -> str:
    """Add what a chunk contains; return its text."""
    delta = choice.delta or choice.message or _Delta()
    if thought := delta.reasoning_content or delta.reasoning:
        reply.think(thought)
    text = reply.say(delta.content) if delta.content else ""
    if delta.refusal:
        reply.fail("BAD_REQUEST", f"the model refused to answer: {delta.refusal}", retriable=False)
    if choice.finish_reason:
        reply.news += 1
        reply.finish = _FINISH.get(choice.finish_reason)
        if reply.finish is None:
            filtered = choice.finish_reason == "content_filter"
            why = "the provider's filter ended it" if filtered else f"finish reason {choice.finish_reason!r}"
            reply.fail("BAD_REQUEST", f"the reply is not a text: {why}", retriable=False)
    return text


def _fail(reply: StreamedReply, error: Any) -> None:
    """Fail the reply because the server sent an error instead of a chunk."""
    said = error.get("message", error) if isinstance(error, dict) else error
    kind = f"{error.get('type', '')} {error.get('code', '')}" if isinstance(error, dict) else ""
    what = f"the server failed within the stream: {said}"
    if "invalid_request" in kind or "context" in kind:
        reply.fail("BAD_REQUEST", what, retriable=False)
    elif "rate_limit" in kind or "overloaded" in kind:
        reply.fail("RATE_LIMIT", what, retriable=True)
    else:
        reply.fail("UNKNOWN", what, retriable=True)


def _usage(said: dict[str, Any]) -> Usage:
    into, out, both = (figure(said.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
    details = said.get("prompt_tokens_details")
    cached = figure(details.get("cached_tokens")) if isinstance(details, dict) else None
    return Usage(
        UNSET if into is None else into,
        UNSET if out is None else out,
        (into or 0) + (out or 0) if both is None else both,
        cacheReadTokens=UNSET if cached is None else cached,
    )
