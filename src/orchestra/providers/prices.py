"""What tokens cost and how much a model can read, by its name. A table of list prices; the configuration's win.

US dollars per million tokens, as the vendors listed them when this was written; they change, so every figure can be
overridden in `budget.prices`. A name may be followed by its date and nothing else: `gpt-5-pro` is not `gpt-5`.
"""

from __future__ import annotations

import re

from msgspec import Struct, UnsetType

from orchestra.core.model import Usage


class Price(Struct, frozen=True):
    """US dollars per million tokens. Tokens read from or written to a cache have prices of their own."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float | None = None
    cache_write: float | None = None

    def of(self, usage: Usage | UnsetType) -> float:
        """The cost of these tokens; 0 if unknown (G4-10)."""
        if isinstance(usage, UnsetType):
            return 0.0
        read, write = usage.cacheReadTokens or 0, usage.cacheWriteTokens or 0
        plain = max(0, (usage.inputTokens or 0) - read - write)
        hour = min(write, usage.cacheWriteHourTokens or 0)
        return (
            plain * self.input
            + read * (self.input if self.cache_read is None else self.cache_read)
            + (write - hour) * (self.input if self.cache_write is None else self.cache_write)
            + hour * self._dearest_input
            + (usage.outputTokens or 0) * self.output
        ) / 1_000_000

    def at_most(self, input_tokens: int, output_tokens: int) -> float:
        """The most such a call can cost."""
        return (input_tokens * self._dearest_input + output_tokens * self.output) / 1_000_000

    @property
    def _dearest_input(self) -> float:
        """The highest price of an input token: written into a cache for an hour it costs twice the input's price."""
        return self.input if self.cache_write is None else max(2 * self.input, self.cache_write)


class Known(Struct, frozen=True):
    """Price and context size of a family of models."""

    price: Price
    context_tokens: int


def _claude(input_: float, output: float) -> Known:
    return Known(Price(input_, output, input_ * 0.1, input_ * 1.25), 200_000)


_DATE = re.compile(r"[-@](20\d{6}|20\d\d-\d\d-\d\d|latest)$")
_FAMILIES = {
    "claude-opus-4": _claude(15.0, 75.0),
    "claude-opus-4-1": _claude(15.0, 75.0),
    "claude-opus-4-5": _claude(5.0, 25.0),
    "claude-3-7-sonnet": _claude(3.0, 15.0),
    "claude-sonnet-4": _claude(3.0, 15.0),
    "claude-sonnet-4-5": _claude(3.0, 15.0),
    "claude-haiku-4-5": _claude(1.0, 5.0),
    "claude-3-5-haiku": _claude(0.8, 4.0),
    "claude-3-haiku": _claude(0.25, 1.25),
    "gpt-4.1": Known(Price(2.0, 8.0, 0.5), 1_047_576),
    "gpt-4.1-mini": Known(Price(0.4, 1.6, 0.1), 1_047_576),
    "gpt-4.1-nano": Known(Price(0.1, 0.4, 0.025), 1_047_576),
    "gpt-4o": Known(Price(2.5, 10.0, 1.25), 128_000),
    "gpt-4o-mini": Known(Price(0.15, 0.6, 0.075), 128_000),
    "gpt-5": Known(Price(1.25, 10.0, 0.125), 400_000),
    "gpt-5-mini": Known(Price(0.25, 2.0, 0.025), 400_000),
    "gpt-5-nano": Known(Price(0.05, 0.4, 0.005), 400_000),
}


def known(model: str) -> Known | None:
    """The table's entry for a model; None if there is none."""
    return _FAMILIES.get(_DATE.sub("", model))
