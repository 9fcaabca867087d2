"""Think blocks of a reply, told apart from its text: for display, and where only the text counts. Pure.

Rules
1. The raw reply keeps everything. Only copies are split.
2. `<think>` begins a thought, `</think>` ends it. A thought that is not ended lasts to the end of the reply.
3. A `</think>` without its beginning: some servers begin the thought in the prompt, so all before it is a thought.
   While a reply streams this is known only when the tag comes.
4. While a reply streams, what may be the beginning of a tag is held back until it is known.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

BEGIN, END = "<think>", "</think>"


class Piece(Struct, frozen=True):
    """A part of a reply."""

    kind: Literal["thought", "text"]
    text: str


class Thinking:
    """Splits one reply as it arrives."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are known now."""
        return self._take(self._held + text, last=False)

    def close(self) -> list[Piece]:
        """The rest; the reply is over."""
        return self._take(self._held, last=True)

    def _take(self, text: str, *, last: bool) -> list[Piece]:
        pieces: list[Piece] = []
        self._held = ""
        while text:
            tag = END if self._inside else BEGIN
            before, found, after = text.partition(tag)
            if not found and not last:
                before, self._held = _without_beginning(text, tag)
            if before:
                pieces.append(Piece("thought" if self._inside else "text", before))
            if not found:
                break
            self._inside, text = not self._inside, after
        return pieces


def _without_beginning(text: str, tag: str) -> tuple[str, str]:
    """The text without what may be the beginning of the tag at its end, and that beginning (rule 4)."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:size]):
            return text[:-size], text[-size:]
    return text, ""


def split_thinking(reply: str) -> tuple[str, str]:
    """(thoughts, text) of a whole reply."""
    first, ended, rest = reply.partition(END)
    if ended and BEGIN not in first:  # rule 3
        reply = rest
    else:
        first = ""
    split = Thinking()
    pieces = [Piece("thought", first), *split.feed(reply), *split.close()]
    thoughts = "\n".join(piece.text.strip() for piece in pieces if piece.kind == "thought" and piece.text.strip())
    return thoughts, "".join(piece.text for piece in pieces if piece.kind == "text").strip()
