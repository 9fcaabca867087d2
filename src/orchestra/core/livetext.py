"""The text of a running model call, masked while it grows: what a face may show of it (C-12).

Rules
1. However the bytes are cut, the joined texts are the whole text, masked, and no character is torn.
2. Text in which a secret may have begun is held back until that is decided: at the next newline, or a few kilobytes on
   (core/redact.py, rule 2). The rest is returned at once.
"""

from __future__ import annotations

import codecs

from orchestra.core.faces import Token
from orchestra.core.reading import key_of
from orchestra.core.records import Event, utf8
from orchestra.core.redact import Redactor


class LiveText:
    """The text of one call."""

    def __init__(self, redactor: Redactor) -> None:
        self._stream = redactor.stream(eager=True)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def feed(self, data: bytes) -> str:
        """Add bytes and return the text that may be shown now."""
        return self._decode(self._stream.feed(data))

    def close(self) -> str:
        """The text is complete: return its rest."""
        return self._decode(self._stream.close(), True)


class MaskedCalls:
    """Masks the tokens of all calls of a drive, each call by itself, for a face in the driving process."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._calls: dict[tuple[str, str], tuple[Token, LiveText]] = {}  # by run and key

    def token(self, token: Token) -> Token | None:
        """The record with what may be shown now; None if that is nothing, and no text before it is void."""
        if token.restart:
            self._calls.pop((token.run_id, token.key), None)
        of = (token.run_id, token.key)
        _, text = self._calls.get(of) or self._calls.setdefault(of, (token, LiveText(self._redactor)))
        return _said(token, text.feed(utf8(token.text)), restart=token.restart)

    def clear(self) -> None:
        """Forget what is open: it was broken off."""
        self._calls.clear()

    def settled(self, event: Event) -> Token | None:
        """The rest of the call that this event settles; None if there is none. Shown before the event."""
        call = self._calls.pop((event.runId, key_of(event)), None)
        return _said(call[0], call[1].close()) if call else None


def _said(token: Token, text: str, *, restart: bool = False) -> Token | None:
    return Token(token.run_id, token.key, token.role, token.agent, text, restart) if text or restart else None
