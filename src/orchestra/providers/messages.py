"""The Messages wire format: read by `anthropic` from a server, and by `claude_code` from the CLI's own stream.

Order of events: message_start, ping*, content_block_start, content_block_delta*, content_block_stop, message_delta,
message_stop. A reply is whole when message_delta gave its stop reason and message_stop came.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Struct

from orchestra.core.errors import ProviderErrorCode
from orchestra.core.model import FinishReason, Usage
from orchestra.providers.reading import UNREADABLE, StreamedReply, figure

_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
# Error types of the API, by what can be done about them.
_ERRORS: dict[str, tuple[ProviderErrorCode, bool]] = {
    "authentication_error": ("AUTH", False),
    "permission_error": ("AUTH", False),
    "billing_error": ("AUTH", False),
    "rate_limit_error": ("RATE_LIMIT", True),
    "overloaded_error": ("RATE_LIMIT", True),
    "timeout_error": ("TIMEOUT", True),
    "invalid_request_error": ("BAD_REQUEST", False),
    "request_too_large": ("BAD_REQUEST", False),
    "not_found_error": ("UNKNOWN", False),
}


class _Block(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""


class _Message(Struct):
    model: str | None = None
    usage: Any = None


class _Whole(Struct):
    """A reply that came as one document, or an error in its place."""

    content: list[_Block] | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: Any = None
    error: _Error | None = None


_FIGURES = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class _Delta(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    stop_reason: str | None = None


class _Error(Struct):
    type: str = ""
    message: str = ""


class Event(Struct):
    type: str = ""
    message: _Message | None = None
    delta: _Delta | None = None
    usage: Any = None
    error: _Error | None = None


_decode = msgspec.json.Decoder(Event).decode
_decode_whole = msgspec.json.Decoder(_Whole).decode


class MessagesWire:
    """Reads one reply of the Messages API."""

    name: ClassVar[str] = "a Messages event"

    def __init__(self) -> None:
        self._tokens = dict.fromkeys(_FIGURES, 0)
        self._hour = 0  # tokens written into the cache for an hour

    def hear(self, reply: StreamedReply, event: str, data: str) -> str:
        """Read one server-sent event."""
        try:
            return self.take(reply, _decode(data))
        except UNREADABLE:
            reply.garbage(self.name, data)
            return ""

    def whole(self, reply: StreamedReply, data: str) -> str:
        """Read a reply that came as one document."""
        try:
            document = _decode_whole(data)
        except UNREADABLE:
            reply.garbage(self.name, data)
            return ""
        if document.error is not None:
            return self.take(reply, Event(type="error", error=document.error))
        text = ""
        for block in document.content or []:
            reply.think(block.thinking)
            text += reply.say(block.text)
        reply.model = document.model or reply.model
        self._count(reply, document.usage)
        if document.stop_reason:
            _stop(reply, document.stop_reason)
        reply.done = True
        return text

    def take(self, reply: StreamedReply, event: Event) -> str:
        """Read one decoded event."""
        match event:
            case Event(type="content_block_delta", delta=_Delta() as delta):
                reply.think(delta.thinking)
                return reply.say(delta.text)
            case Event(type="message_start", message=_Message() as message):
                reply.model = message.model or reply.model
                self._count(reply, message.usage)
            case Event(type="message_delta", delta=_Delta(stop_reason=str(reason))):
                reply.news += 1
                self._count(reply, event.usage)
                _stop(reply, reason)
            case Event(type="message_stop"):
                reply.done = True
            case Event(type="error", error=_Error() as error):
                code, retriable = _ERRORS.get(error.type, ("UNKNOWN", True))
                reply.fail(code, f"{error.type}: {error.message}", retriable=retriable)
        return ""

    def _count(self, reply: StreamedReply, said: Any) -> None:
        """Add usage figures; an event may have some of them, and later ones replace earlier ones."""
        if not isinstance(said, dict):
            return
        for name in _FIGURES:
            if (value := figure(said.get(name))) is not None:
                self._tokens[name] = value
        kept = said.get("cache_creation")
        if isinstance(kept, dict) and (value := figure(kept.get("ephemeral_1h_input_tokens"))) is not None:
            self._hour = value
        plain, out, read, write = self._tokens.values()
        into = plain + read + write
        hour = min(self._hour, write) or UNSET
        reply.usage = Usage(
            into, out, into + out, cacheReadTokens=read, cacheWriteTokens=write, cacheWriteHourTokens=hour
        )


def _stop(reply: StreamedReply, reason: str) -> None:
    """Set why the model stopped; a reason that leaves no whole reply is a failure."""
    reply.finish = _FINISH.get(reason)
    if reply.finish is None:
        what = "refused to answer" if reason == "refusal" else f"stopped for another reason ({reason})"
        reply.fail("BAD_REQUEST", f"the model {what}", retriable=False)
