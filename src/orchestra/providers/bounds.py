"""Bounds: how long a reply may be. One rule for every provider; pure.

Rules
1. A reply has a limit of tokens, and a token has at most `_TOKEN_BYTES`: the longest of today's vocabularies are runs
   of 128 blanks. A longer reply breaks the limit of tokens, so the call is ended.
2. A reply never has more than MOST_TEXT, whatever its limit, also if the request had no limit.
3. Thoughts count like text: both use the same limit of tokens. So no model can think without end.
4. The bytes around the text on the wire are bounded too: of one event, and of all events together.
5. A reply that is too long is not requested again: it would be too long and paid again. The text so far is kept.
"""

from __future__ import annotations

from msgspec import Struct, UnsetType

from orchestra.core.files import MIB, size
from orchestra.core.model import ProviderFailure
from orchestra.core.records import utf8

MOST_TEXT = 4 * MIB  # a million tokens of ordinary text; escaped at its longest it still fits a line of the journal
_TOKEN_BYTES = 128  # rule 1
_LEAST_TEXT = MIB // 16  # for a limit of few tokens: some servers count differently
_ESCAPED = 6  # a byte of text as JSON at its longest: \u0000
_AROUND_TEXT = MIB  # field names and figures of an event; some servers repeat the prompt
_MOST_EVENT = 16 * MIB
_WRAPPED = 32  # wire bytes per byte of text, if each character has an event of its own
_LEAST_WIRE, _MOST_WIRE = 8 * MIB, 256 * MIB


class TooLong(Exception):
    """A reply exceeded its bounds; the message names the bound."""


class Bounds(Struct, frozen=True):
    """Upper limits of a reply, in bytes."""

    tokens: int  # the limit of tokens that the others follow from; 0: unknown
    text: int  # of text and thoughts, as UTF-8
    event: int  # of one event, as received
    wire: int  # of all received bytes, unpacked

    def failure(self, what: str) -> ProviderFailure:
        """The error of a reply that is too long (rule 5)."""
        if self.tokens:
            why = f"which a reply of at most {self.tokens} tokens cannot be"
            cure = "Ask another server, or raise max_output_tokens"
        else:
            why, cure = "which is more than orchestra takes", "Set max_output_tokens for this provider"
        return ProviderFailure(code="UNKNOWN", message=f"{what}, {why}: the call was ended. {cure}", retriable=False)

    @property
    def text_passed(self) -> str:
        return f"the reply grew past {size(self.text)}"

    @property
    def event_passed(self) -> str:
        return f"one event of the reply grew past {size(self.event)}"

    @property
    def wire_passed(self) -> str:
        return f"the server sent more than {size(self.wire)}"


def cut(text: str, room: int) -> str:
    """The start of a text, in at most `room` bytes of UTF-8."""
    data = utf8(text)
    return text if len(data) <= room else data[: max(0, room)].decode("utf-8", "ignore")


def bounds(tokens: int | UnsetType) -> Bounds:
    """The bounds of a reply of at most `tokens` tokens; 0: no limit is known."""
    limit = 0 if isinstance(tokens, UnsetType) else tokens
    text = min(max(limit * _TOKEN_BYTES, _LEAST_TEXT), MOST_TEXT) if limit else MOST_TEXT
    return Bounds(
        tokens=limit,
        text=text,
        event=min(text * _ESCAPED + _AROUND_TEXT, _MOST_EVENT),
        wire=min(max(text * _WRAPPED, _LEAST_WIRE), _MOST_WIRE),
    )
