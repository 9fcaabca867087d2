"""A reply as it arrives: what is said of a part that cannot be read."""

from __future__ import annotations

import pytest

from orchestra.providers.bounds import bounds
from orchestra.providers.openai_compat import ChatWire
from orchestra.providers.reading import StreamedReply


@pytest.mark.parametrize(("length", "shown"), [(80, "x" * 80), (81, "x" * 80 + "…")])
def test_of_what_cannot_be_read_the_beginning_is_shown(length: int, shown: str) -> None:
    reply = StreamedReply(bounds(0), ChatWire())
    reply.garbage("an event", "x" * length)
    assert reply.failure is not None
    assert reply.failure.message == f"the stream holds something that is not an event: '{shown}'"


def test_a_key_is_masked_before_what_cannot_be_read_is_cut() -> None:
    reply = StreamedReply(bounds(0), ChatWire())
    reply.mask = lambda text: text.replace("secret", "***")
    reply.garbage("an event", "x" * 77 + "secret")
    assert reply.failure is not None and reply.failure.message.endswith(f": '{'x' * 77}***'")
