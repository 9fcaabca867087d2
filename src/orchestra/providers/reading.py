"""Reading: the events of a streamed reply -> the reply. No I/O: text and usage are collected from events.

    adapter (writes the request) ──▶ http.py or a CLI (moves bytes) ──▶ wire format (interprets them) ──▶ reply

Rules
1. A reply is whole only if its wire format's last marker arrived. A stream without it is a failure; the text that
   arrived is kept (MM-3.2: the official clients take it for a success).
2. Unknown fields and events are ignored; a known one that is broken is a failure.
3. `news` grows with all output of a model. Keep-alives do not count, so that a connection that is only kept open
   can be distinguished from one with output.
4. A reply stays within its bounds (bounds.py), and takes little more memory than its own size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from orchestra.core.errors import ProviderErrorCode
from orchestra.core.model import FinishReason, ProviderFailure, ProviderResponse, Usage
from orchestra.core.records import utf8
from orchestra.providers.bounds import Bounds, cut

UNREADABLE = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)  # exceptions of decoding a server's JSON
_MOST = 10**12  # tokens: a larger figure is ignored


def figure(value: Any) -> int | None:
    """A number of tokens from a server, or None if it is not a number: bad statistics do not fail a reply."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None


class Wire(Protocol):
    """A wire format. One object reads one reply, because some formats add up figures over its events."""

    @property
    def name(self) -> str:
        """What one event is called in messages."""
        ...

    def hear(self, reply: StreamedReply, event: str, data: str) -> str:
        """Read one event into the reply; return the text that it adds."""
        ...

    def whole(self, reply: StreamedReply, data: str) -> str:
        """Read a reply that came as one document, because no stream was asked for; return its text."""
        ...


class StreamedReply:
    """One reply, as far as it has arrived. A wire format reads the events and reports here what they contain."""

    def __init__(self, bounds: Bounds, wire: Wire) -> None:
        self.bounds = bounds
        self.wire = wire
        self.too_long = False
        self._text = bytearray()  # UTF-8: a list of the received pieces would need ten times its size (rule 4)
        self._made = 0  # bytes of text and thoughts
        self.news = 0
        self.finish: FinishReason | None = None
        self.done = False  # the last marker arrived: nothing will follow
        self.usage: Usage | UnsetType = UNSET
        self.model: str | UnsetType = UNSET
        self.cost: float | UnsetType = UNSET
        self.requests = 1
        self.failure: ProviderFailure | None = None
        self.where = ""  # the server's name, for messages
        self.mask: Callable[[str], str] = lambda text: text  # masks the key in a server's messages

    @property
    def text(self) -> str:
        """The reply, as far as it has arrived."""
        return self._text.decode()

    @property
    def size(self) -> int:
        """The size of the reply so far, in bytes."""
        return len(self._text)

    def say(self, text: str) -> str:
        """Add text to the reply; return the part that is within the bounds (rule 4)."""
        data = utf8(text)
        if over := self._over(len(data)):
            text = cut(text, len(data) - over)
            data = utf8(text)
        self._text += data
        return text

    def think(self, text: str) -> None:
        """Count a thought: it is not part of the reply, but counts for its bounds."""
        self._over(len(utf8(text)))

    def _over(self, size: int) -> int:
        """Count output of a model; return by how many bytes it exceeds the bounds."""
        if not size:
            return 0
        self.news += 1
        self._made += size
        if self._made <= self.bounds.text:  # for every token: keep it short
            return 0
        self.pass_bounds(self.bounds.text_passed)
        return self._made - self.bounds.text

    def pass_bounds(self, what: str) -> None:
        """Fail the reply because it is too long; `what` names the bound."""
        self.too_long = True
        failure = self.bounds.failure(f"{self.where}{what}")
        self.fail(failure.code, failure.message, retriable=failure.retriable)

    def fail(self, code: ProviderErrorCode, message: str, *, retriable: bool, wait: float = 0.0) -> None:
        """Mark the reply as failed; the first reason is kept."""
        self.failure = self.failure or ProviderFailure(code, self.mask(message), retriable, wait)
        self.done = True

    def garbage(self, wire: str, data: str) -> None:
        """Fail the reply because a known event cannot be read (rule 2); `wire` is what one is called."""
        masked = self.mask(data)  # before the text is cut: a cut key would not be recognised
        shown = masked if len(masked) <= 80 else f"{masked[:80]}…"
        self.fail("UNKNOWN", f"the stream holds something that is not {wire}: {shown!r}", retriable=True)

    def response(self, seconds: float) -> ProviderResponse:
        """The response, whole or failed."""
        text = self.text
        if self.failure is None and not (self.done and self.finish):
            self.fail(
                "UNKNOWN",
                f"the stream ended after {len(text)} characters, before the reply was complete",
                retriable=True,
            )
        finish: FinishReason = self.finish or "stop"
        if self.failure is not None:
            finish = "timeout" if self.failure.code == "TIMEOUT" else "error"
        return ProviderResponse(
            rawText=text,
            finishReason=finish,
            durationMs=int(seconds * 1000),
            usage=self.usage,
            error=self.failure or UNSET,
            model=self.model,
            costUsd=self.cost,
            requests=self.requests,
        )
