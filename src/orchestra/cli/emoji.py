"""Draws emoji of several characters at an input line in cells that every terminal counts alike. Pure.

Terminals disagree on how wide a family, a flag or a waving hand of some colour is: two cells, or two for each of its
characters. The cursor would be elsewhere than where text is inserted, and what is drawn next would overwrite the
prompt. So a family is shown as its first person, a flag as its two letters. What is sent is what was typed.
"""

from __future__ import annotations

from bisect import bisect_right

from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from wcwidth import iter_graphemes, wcwidth

_JOINER, _EMOJI_STYLE, _KEYCAP = "\u200d", "\ufe0f", "\u20e3"
_LETTERS = range(0x1F1E6, 0x1F200)  # of flags
_TONES = range(0x1F3FB, 0x1F400)


def plain_emoji(character: str) -> str:
    """What is shown of what a person sees as one character."""
    if len(character) == 1:
        return character
    if all(ord(one) in _LETTERS for one in character):
        return "".join(chr(ord("A") + ord(one) - _LETTERS.start) for one in character)
    if _EMOJI_STYLE in character or _KEYCAP in character or any(ord(one) in _TONES for one in character[1:]):
        return character[0]
    return character[0] if _JOINER in character and wcwidth(character[0]) > 1 else character


class PlainEmoji(Processor):
    """Draws the text of an input line with plain emoji; the text itself stays as it is."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """The line as it is drawn, and where the cursor is in it."""
        text = fragment_list_to_text(transformation_input.fragments)
        if text.isascii():
            return Transformation(transformation_input.fragments)
        typed, drawn, shown = [0], [0], ""  # where each character begins: in the text, and as it is drawn
        for character in iter_graphemes(text):
            shown += plain_emoji(character)
            typed.append(typed[-1] + len(character))
            drawn.append(len(shown))
        if shown == text:
            return Transformation(transformation_input.fragments)
        style = transformation_input.fragments[0][0]
        return Transformation(
            [(style, shown)], lambda at: _moved(at, typed, drawn), lambda at: _moved(at, drawn, typed)
        )


def _moved(at: int, here: list[int], there: list[int]) -> int:
    """A place in one text as a place in the other; both have the same characters."""
    number = bisect_right(here, at) - 1
    within = at - here[number]
    room = there[number + 1] - there[number] if number + 1 < len(there) else within
    return there[number] + min(within, room)
