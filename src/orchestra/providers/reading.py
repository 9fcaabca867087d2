"""Reading: what the events of a streamed reply add up to. No I/O: a reader is told events and says what they mean.

    adapter (writes the request) ──▶ http.py or a CLI (moves bytes) ──▶ reader (makes sense of them) ──▶ response

Rules
1. A reply is whole only if its wire format's last marker came. A stream that just ends is a failure with what had
   arrived kept, however well it reads (MM-3.2: the official clients take it for a success).
2. Unknown fields and events are passed over; what is known and broken is a failure.
3. `news` grows with everything that a model produced. Keep-alives do not count, so that a line which is only kept open
   can be told from one on which something happens.
4. A reply stays within its bounds (bounds.py), and takes little more memory than its own size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from orchestra.core.errors import ProviderErrorCode
from orchestra.core.model import FinishReason, ProviderFailure, ProviderResponse, Usage
from orchestra.core.records import utf8
from orchestra.providers.bounds import Bounds, cut

UNREADABLE = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)  # what decoding a server's JSON may raise
_MOST = 10**12  # tokens: more is no figure


def figure(value: Any) -> int | None:
    """A number of tokens as a server says it, or None if it is none: a reply is not lost over its statistics."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None


class Reader:
    """One reply, as far as it has arrived. Wire formats say what an event means in `hear`."""

    wire: ClassVar[str] = ""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.too_long = False
        self._text = bytearray()  # UTF-8: as the pieces that came it would take ten times its size (rule 4)
        self._made = 0  # bytes of text and thoughts
        self.news = 0
        self.finish: FinishReason | None = None
        self.done = False  # the last marker came: nothing will follow
        self.usage: Usage | UnsetType = UNSET
        self.model: str | UnsetType = UNSET
        self.cost: float | UnsetType = UNSET
        self.requests = 1
        self.failure: ProviderFailure | None = None
        self.where = ""  # who was asked, for messages
        self.mask: Callable[[str], str] = lambda text: text  # takes the key out of whatever a server says

    def hear(self, event: str, data: str) -> str:
        """Take one event; returns the text it adds to the reply."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The reply, as far as it has arrived."""
        return self._text.decode()

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self._text)

    def say(self, text: str) -> str:
        """Take text of the reply; returns what of it is within the bounds (rule 4)."""
        data = utf8(text)
        if over := self._over(len(data)):
            text = cut(text, len(data) - over)
            data = utf8(text)
        self._text += data
        return text

    def think(self, text: str) -> None:
        """Take a thought: it is no part of the reply, but of its bounds."""
        self._over(len(utf8(text)))

    def _over(self, size: int) -> int:
        """Count what a model produced; by how many bytes it is too much."""
        self.news += bool(size)
        self._made += size
        over = max(0, self._made - self.bounds.text)
        if over:
            self.pass_bounds(self.bounds.text_passed)
        return over

    def pass_bounds(self, what: str) -> None:
        """The reply is too long, in a way that `what` says."""
        self.too_long = True
        failure = self.bounds.failure(f"{self.where}{what}")
        self.fail(failure.code, failure.message, retriable=failure.retriable)

    def fail(self, code: ProviderErrorCode, message: str, *, retriable: bool, wait: float = 0.0) -> None:
        """The reply failed; the first reason is kept."""
        self.failure = self.failure or ProviderFailure(code, self.mask(message), retriable, wait)
        self.done = True

    def garbage(self, data: str) -> None:
        """Rule 2: something known that cannot be read."""
        masked = self.mask(data)  # before it is cut: half a key is nearly a key
        shown = masked if len(masked) <= 80 else f"{masked[:80]}…"
        self.fail("UNKNOWN", f"the stream holds something that is not {self.wire}: {shown!r}", retriable=True)

    def response(self, seconds: float) -> ProviderResponse:
        """What it came to, whole or not."""
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
