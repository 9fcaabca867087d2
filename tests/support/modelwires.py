"""What a model service sends, in both wire formats, whole or broken: steps without any I/O. `modelserver` does them.

1. An answer is a series of steps: `bytes` are one TCP write, a `float` is seconds without a byte.
2. The path chooses the wire: `/v1/chat/completions` (OpenAI) or `/v1/messages` (Anthropic).
3. The last event and the end of the body are one write, so that a client which leaves when it has read the last
   event has not hung up.
4. A behaviour about events, asked for without a stream, does the like to the one JSON document.
5. Ids and times are fixed: the same question gets the same bytes.

It does not check requests, count tokens or call tools.
"""

from __future__ import annotations

import dataclasses
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import responses
from itertools import chain, pairwise
from typing import Any, Literal, NamedTuple, assert_never

MODEL = "wire-model"
_CREATED = 1_767_225_600  # fixed, like every id: answers are the same bytes each time
_BEAT = 0.05  # seconds between signs of life while stalling
_END = b"0\r\n\r\n"
_STREAM = "text/event-stream; charset=utf-8"
_JSON = "application/json"
_HTML = "text/html; charset=utf-8"
_PAGE = b"<!doctype html><title>Sign in</title><p>Please sign in to continue.</p>\n"
# Where a torn write is cut: inside a character of several bytes, inside CRLF, between the two LF that end an event.
_TEAR = re.compile(rb"[\xc0-\xff]|\r(?=\n)|\n(?=\n)")
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal", "filter": "refusal"}
_FINISH_REASONS = {"stop": "stop", "length": "length", "refusal": "stop", "filter": "content_filter"}


@dataclass(frozen=True)
class Say:
    """A complete answer."""

    text: str = "PONG"
    pieces: int = 2  # in how many deltas (one per character at most)
    finish: Literal["stop", "length", "refusal", "filter"] = "stop"
    usage: bool = True
    input_tokens: int = 12  # all of the input, as OpenAI counts it; Anthropic's number is without the cached ones
    output_tokens: int = 3
    cached_tokens: int = 0
    written_tokens: int = 0  # of the input, into the cache (Anthropic only)
    hour_tokens: int = 0  # of those written, the ones kept for an hour
    delay: float = 0  # seconds between pieces
    reasoning: str = ""  # thought before the text, in as many pieces
    torn: bool = False  # TCP writes end in the worst places, and lines end in CRLF and LF by turns


@dataclass(frozen=True)
class Fail:
    """An answer with an error status, in the wire's own shape unless `body` gives the bytes."""

    status: int
    message: str = "the model server was told to fail"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class Cut:
    """The answer ends early: properly, but without its terminal markers; or, not clean, in the middle of a chunk."""

    after: int = 1  # pieces sent first
    clean: bool = True


@dataclass(frozen=True)
class Stall:
    """The answer never ends; the connection lasts until one side leaves."""

    after: int = 0  # pieces sent first
    head: bool = True  # False: not even a status line
    keepalive: bool = False  # signs of life that carry no content


@dataclass(frozen=True)
class Garbage:
    """A stream whose second data line is not JSON."""


@dataclass(frozen=True)
class Page:
    """Status 200 and an HTML page, as from a captive portal."""


@dataclass(frozen=True)
class ErrorEvent:
    """Status 200, one piece, then an error event."""

    type: str = "overloaded_error"


@dataclass(frozen=True)
class Flood:
    """More than anybody asked for, `most` bytes of it before any compression; then the line is cut."""

    what: Literal["text", "thoughts", "tools", "event", "events", "comments", "headers", "error"] = "text"
    most: int = 64 << 20
    piece: str = "가나다라마바사아 abcdefgh"  # what each delta holds
    coding: str = ""  # the content encoding: gzip, once for each time it is named
    charset: str = "utf-8"


Behaviour = Say | Fail | Cut | Stall | Garbage | Page | ErrorEvent | Flood
_Content = Say | Cut | Stall | Garbage | ErrorEvent  # what a stream and a document do each in its own way
Step = bytes | float


# -- the two wires ----------------------------------------------------------------------------------------------------


class _Event(NamedTuple):
    name: str  # "": the wire does not name its events
    data: str

    def framed(self, line_end: str = "\n") -> bytes:
        lines = [f"event: {self.name}"] if self.name else []
        return line_end.join([*lines, f"data: {self.data}", "", ""]).encode()


class _Told(NamedTuple):
    """The events of an answer. Those of one piece travel together."""

    opening: list[_Event]
    pieces: list[list[_Event]]
    closing: list[_Event]


@dataclass(frozen=True)
class _Chat:
    """OpenAI chat completions."""

    request_id: str
    asked: Mapping[str, Any]
    ping = b": ping\n\n"
    piece_name = error_name = ""

    def tell(self, say: Say) -> _Told:
        thoughts = [self.chunk({"reasoning_content": part}) for part in _split(say.reasoning, say.pieces)]
        key = "refusal" if say.finish == "refusal" else "content"
        words = [self.chunk({key: part}) for part in _split(say.text, say.pieces)]
        closing = [self.chunk({}, _FINISH_REASONS[say.finish])]
        if say.usage and self._wants_usage:
            closing.append(_Event("", _compact({**self._frame(".chunk"), "choices": [], "usage": _chat_usage(say)})))
        opening = self.chunk({"role": "assistant", "content": None if key == "refusal" else "", "refusal": None})
        return _Told([opening], [[event] for event in thoughts + words], [*closing, _Event("", "[DONE]")])

    def whole(self, say: Say) -> dict[str, Any]:
        refused = say.finish == "refusal"
        message: dict[str, Any] = {"role": "assistant", "content": None if refused else say.text or None}
        message["refusal"] = say.text if refused else None
        if say.reasoning:
            message["reasoning_content"] = say.reasoning
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH_REASONS[say.finish]}
        usage = {"usage": _chat_usage(say)} if say.usage else {}
        return {**self._frame(), "choices": [choice], **usage}

    def error(self, kind: str, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    @property
    def _wants_usage(self) -> bool:
        options = self.asked.get("stream_options")
        return isinstance(options, dict) and bool(options.get("include_usage"))

    def _frame(self, suffix: str = "") -> dict[str, Any]:
        named = {"id": "chatcmpl-1", "object": "chat.completion" + suffix, "created": _CREATED}
        return {**named, "model": self.asked.get("model", MODEL)}

    def chunk(self, delta: dict[str, Any], finish: str | None = None) -> _Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        # The real service says `usage: null` in every chunk but the last, once usage was asked for.
        usage = {"usage": None} if self._wants_usage else {}
        return _Event("", _compact({**self._frame(".chunk"), "choices": [choice], **usage}))


@dataclass(frozen=True)
class _Messages:
    """Anthropic messages."""

    request_id: str
    asked: Mapping[str, Any]
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    piece_name, error_name = "content_block_delta", "error"

    def tell(self, say: Say) -> _Told:
        start = {**self._frame(), "content": [], "stop_reason": None, **_messages_usage(say, output_tokens=1)}
        blocks = []
        if say.reasoning:
            deltas = [{"type": "thinking_delta", "thinking": part} for part in _split(say.reasoning, say.pieces)]
            deltas.append({"type": "signature_delta", "signature": "signed"})
            blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
        if say.text:
            deltas = [{"type": "text_delta", "text": part} for part in _split(say.text, say.pieces)]
            blocks.append(({"type": "text", "text": ""}, deltas))
        pieces = [piece for index, block in enumerate(blocks) for piece in self._block(index, *block)]
        delta = {"stop_reason": _STOP_REASONS[say.finish], "stop_sequence": None}
        usage = {"usage": {"output_tokens": say.output_tokens}} if say.usage else {}
        closing = [self.event("message_delta", delta=delta, **usage), self.event("message_stop")]
        return _Told([self.event("message_start", message=start), self.event("ping")], pieces, closing)

    def whole(self, say: Say) -> dict[str, Any]:
        thought = {"type": "thinking", "thinking": say.reasoning, "signature": "signed"}
        content = [thought] if say.reasoning else []
        if say.text:
            content.append({"type": "text", "text": say.text})
        usage = _messages_usage(say, output_tokens=say.output_tokens)
        return {**self._frame(), "content": content, "stop_reason": _STOP_REASONS[say.finish], **usage}

    def error(self, kind: str, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": self.request_id}

    def _frame(self) -> dict[str, Any]:
        named = {"id": "msg_1", "type": "message", "role": "assistant", "stop_sequence": None}
        return {**named, "model": self.asked.get("model", MODEL)}

    def _block(self, index: int, empty: dict[str, str], deltas: Sequence[dict[str, str]]) -> list[list[_Event]]:
        pieces = [[self.event("content_block_delta", index=index, delta=delta)] for delta in deltas]
        pieces[0].insert(0, self.event("content_block_start", index=index, content_block=empty))
        pieces[-1].append(self.event("content_block_stop", index=index))
        return pieces

    def event(self, name: str, **data: Any) -> _Event:
        return _Event(name, _compact({"type": name, **data}))


_Wire = _Chat | _Messages
WIRES: dict[str, type[_Chat] | type[_Messages]] = {"/v1/chat/completions": _Chat, "/v1/messages": _Messages}


def _chat_usage(say: Say) -> dict[str, Any]:
    counts = {"prompt_tokens": say.input_tokens, "completion_tokens": say.output_tokens}
    total = say.input_tokens + say.output_tokens
    return {**counts, "total_tokens": total, "prompt_tokens_details": {"cached_tokens": say.cached_tokens}}


def _messages_usage(say: Say, *, output_tokens: int) -> dict[str, Any]:
    if not say.usage:
        return {}
    kept = {"ephemeral_5m_input_tokens": say.written_tokens - say.hour_tokens}
    kept["ephemeral_1h_input_tokens"] = say.hour_tokens
    cached: dict[str, Any] = {"cache_read_input_tokens": say.cached_tokens, "cache_creation": kept}
    cached["cache_creation_input_tokens"] = say.written_tokens
    plain = say.input_tokens - say.cached_tokens - say.written_tokens
    return {"usage": {"input_tokens": plain, "output_tokens": output_tokens, **cached}}


def _split(text: str, pieces: int) -> list[str]:
    count = min(max(pieces, 1), len(text))
    return [text[len(text) * n // count : len(text) * (n + 1) // count] for n in range(count)]


def _compact(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))  # raw UTF-8, as the real services send it


# -- answers, as steps ------------------------------------------------------------------------------------------------


def answer(behaviour: Behaviour, path: str, asked: Mapping[str, Any], request_id: str) -> Iterator[Step]:
    """The steps of one answer to what was `asked` on a path of `WIRES`."""
    wire = WIRES[path](request_id, asked)
    match behaviour:
        case Fail():
            yield _failed(behaviour, wire)
        case Page():
            yield _whole(request_id, _PAGE, content_type=_HTML)
        case Stall(head=False):
            yield from _silence()
        case Flood():
            yield from _flooded(behaviour, wire)
        case _ if asked.get("stream"):
            headers = {"content-type": _STREAM, "cache-control": "no-cache", "transfer-encoding": "chunked"}
            yield _head(request_id, 200, headers)
            yield from _streamed(behaviour, wire)
        case _:
            yield from _document(behaviour, wire)


def other_answer(method: str, path: str, request_id: str) -> bytes:
    """The answer to a request that asks no model to speak."""
    match method, path:
        case "GET", "/v1/models":
            model = {"id": MODEL, "object": "model", "created": _CREATED, "owned_by": "tests", "lifecycle": "active"}
            model |= {"type": "model", "display_name": "Wire model", "created_at": "2026-01-01T00:00:00Z"}
            page = {"first_id": MODEL, "last_id": MODEL, "has_more": False}
            return _whole(request_id, {"object": "list", "data": [model], **page})
        case "HEAD", _:
            return _whole(request_id, b"", status=200 if path == "/" else 404)
        case _:
            error = {"type": "not_found_error", "message": f"no such path: {path}"}
            return _whole(request_id, {"type": "error", "error": error}, status=404)


def _failed(fail: Fail, wire: _Wire) -> bytes:
    if fail.body is not None:
        return _whole(wire.request_id, fail.body, status=fail.status, content_type=_HTML, headers=fail.headers)
    kind = _ERROR_TYPES.get(fail.status, "api_error" if fail.status >= 500 else "invalid_request_error")
    error = wire.error(kind, fail.message)
    return _whole(wire.request_id, error, status=fail.status, headers=fail.headers)


def _streamed(behaviour: _Content, wire: _Wire) -> Iterator[Step]:
    match behaviour:
        case Say():
            yield from _said(behaviour, wire.tell(behaviour))
        case Cut(after, clean):
            yield from _begun(after, wire)
            yield _END if clean else b"40\r\ndata: {"
        case Stall(after):
            yield from _begun(after, wire)
            yield from _silence(_chunk(wire.ping) if behaviour.keepalive else b"")
        case Garbage():
            told = wire.tell(Say())
            rest = [*told.opening[1:], *chain(*told.pieces), *told.closing]
            yield _together([told.opening[0], _Event(wire.piece_name, '{"type": "broken'), *rest]) + _END
        case ErrorEvent(kind):
            yield from _begun(1, wire)
            yield _together([_Event(wire.error_name, _compact(wire.error(kind, "Overloaded")))]) + _END
        case _:
            assert_never(behaviour)


def _flooded(flood: Flood, wire: _Wire) -> Iterator[Step]:
    head = {"content-type": f"text/event-stream; charset={flood.charset}", "transfer-encoding": "chunked"}
    if flood.what == "headers":
        yield _head(wire.request_id, 200, head)[:-2]
        yield from _repeated(b"x-more: and more\r\n", flood.most)
        return
    if flood.coding:
        head["content-encoding"] = flood.coding
    yield _head(wire.request_id, 429 if flood.what == "error" else 200, head)
    pack = [zlib.compressobj(1, wbits=31) for _ in filter(None, flood.coding.split(", "))]
    for data in _repeated(_wave(flood, wire), flood.most):
        for packer in pack:
            data = packer.compress(data) + (packer.flush(zlib.Z_SYNC_FLUSH) if flood.what != "event" else b"")
        if data:
            yield _chunk(data)


def _wave(flood: Flood, wire: _Wire) -> bytes:
    """What comes again and again."""
    match flood.what:
        case "text" | "thoughts":
            say = Say(flood.piece) if flood.what == "text" else Say("", reasoning=flood.piece)
            told = wire.tell(dataclasses.replace(say, pieces=1))
            return b"".join(event.framed() for event in told.pieces[0])
        case "tools" if isinstance(wire, _Chat):
            call = {"index": 0, "function": {"arguments": flood.piece}}
            return wire.chunk({"tool_calls": [call]}).framed()
        case "tools" if isinstance(wire, _Messages):
            delta = {"type": "input_json_delta", "partial_json": flood.piece}
            return wire.event("content_block_delta", index=0, delta=delta).framed()
        case "event":
            return f"data: {flood.piece}".encode()
        case "events":
            return f"data: {flood.piece}\n".encode()
        case _:
            return f": {flood.piece}\n\n".encode()


def _repeated(piece: bytes, most: int) -> Iterator[bytes]:
    wave = piece * max(1, 65_536 // len(piece))
    for _ in range(max(1, most // len(wave))):
        yield wave


def _said(say: Say, told: _Told) -> Iterator[Step]:
    yield from _written(told.opening, torn=say.torn)
    for number, piece in enumerate(told.pieces):
        if number and say.delay:
            yield say.delay
        yield from _written(piece, torn=say.torn)
    yield from _written(told.closing[:-1], torn=say.torn)
    yield _together(told.closing[-1:]) + _END  # rule 3, torn or not


def _begun(after: int, wire: _Wire) -> Iterator[Step]:
    told = wire.tell(Say(pieces=max(2, after)))
    for events in [told.opening, *told.pieces[:after]]:
        yield _together(events)


def _document(behaviour: _Content, wire: _Wire) -> Iterator[Step]:
    """The same without a stream: one JSON document, or what is left of it."""
    answered = _whole(wire.request_id, wire.whole(behaviour if isinstance(behaviour, Say) else Say()))
    head, _, body = answered.partition(b"\r\n\r\n")
    match behaviour:
        case Say(pieces=pieces, delay=delay):
            yield delay * (pieces - 1)
            yield answered
        case Garbage() | Cut(clean=True):
            yield _whole(wire.request_id, body[:40])
        case Cut():
            yield answered[:-40]
        case Stall():
            yield head + b"\r\n\r\n"
            yield from _silence()
        case ErrorEvent(kind):
            yield _whole(wire.request_id, wire.error(kind, "Overloaded"))
        case _:
            assert_never(behaviour)


def _silence(sign: bytes = b"") -> Iterator[Step]:
    while True:
        yield _BEAT
        yield sign


def _together(events: Sequence[_Event]) -> bytes:
    return b"".join(_chunk(event.framed()) for event in events)


def _written(events: Sequence[_Event], *, torn: bool) -> Iterator[Step]:
    if not torn:
        yield _together(events)
        return
    for event in events:
        data = _chunk(event.framed("\r\n" if len(event.data) % 2 else "\n"))
        for start, end in pairwise([0, *(found.start() + 1 for found in _TEAR.finditer(data)), len(data)]):
            yield data[start:end]
            yield 0.0005  # or the other side would find both writes in one read


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _whole(
    request_id: str,
    body: bytes | dict[str, Any],
    *,
    status: int = 200,
    content_type: str = _JSON,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    data = body if isinstance(body, bytes) else _compact(body).encode()
    usual = {"content-type": content_type, "content-length": str(len(data))}
    return _head(request_id, status, {**usual, **(headers or {})}) + data


def _head(request_id: str, status: int, headers: Mapping[str, str]) -> bytes:
    # Each SDK reads its own name for the request id.
    ours = {"x-request-id": request_id, "request-id": request_id, "connection": "close"}
    lines = [f"{name}: {value}" for name, value in {**headers, **ours}.items()]
    return "\r\n".join([f"HTTP/1.1 {status} {responses.get(status, 'Unnamed')}", *lines, "", ""]).encode()
