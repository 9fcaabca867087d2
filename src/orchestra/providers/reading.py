"""Reading: what the events of a streamed reply add up to. No I/O: a reader is told events and says what they mean.

    adapter (writes the request) ──▶ http.py or a CLI (moves bytes) ──▶ reader (makes sense of them) ──▶ response

Rules
1. A reply is whole only if its wire format's last marker came. A stream that just ends is a failure with what had
   arrived kept, however well it reads (models.md 3.2: the official clients take it for a success).
2. Unknown fields and events are passed over; what is known and broken is a failure.
3. `news` grows with everything that a model produced. Keep-alives do not count, so that a line which is only kept open
   can be told from one on which something happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from orchestra.core.errors import ProviderErrorCode
from orchestra.core.model import FinishReason, ProviderFailure, ProviderResponse, Usage

UNREADABLE = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)  # what decoding a server's JSON may raise
_MOST = 10**12  # tokens: more is no figure


def figure(value: Any) -> int | None:
    """A number of tokens as a server says it, or None if it is none: a reply is not lost over its statistics."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None


class Reader:
    """One reply, as far as it has arrived. Wire formats say what an event means in `hear`."""

    wire: ClassVar[str] = ""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.news = 0
        self.finish: FinishReason | None = None
        self.done = False  # the last marker came: nothing will follow
        self.usage: Usage | UnsetType = UNSET
        self.model: str | UnsetType = UNSET
        self.cost: float | UnsetType = UNSET
        self.failure: ProviderFailure | None = None
        self.mask: Callable[[str], str] = lambda text: text  # takes the key out of whatever a server says

    def hear(self, event: str, data: str) -> str:
        """Take one event; returns the text it adds to the reply."""
        raise NotImplementedError

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
        text = "".join(self.pieces)
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
        )
