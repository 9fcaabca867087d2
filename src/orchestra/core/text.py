"""Makes text safe and short enough to show: to people, in files, in prompts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

# CSI, OSC/DCS/APC strings up to their terminator, and the two-byte escapes.
_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)|\x1b[ -/]{1,4}[0-~]|\x1b[0-Z\\^-~]"
)
# C0 but tab and newline, DEL, C1; soft hyphen, bidi, zero-width, line separators, blank Hangul fillers, BOM, tags.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

_PLACE = re.compile(r" - at `(key` in `)?\$?\.?(.*)`$")  # msgspec's notation of where a wrong value is
_REQUIRED = re.compile(r"Object missing required field `(.+)`")

_UNITS = {"s": 1, "m": 60, "h": 3600}  # seconds
_LONGEST_S = 1e9
_LOOKED_AT = 16  # so many times the shown length is read: white space and colours are removed


def clean(text: str) -> str:
    """The text with every invisible character as a visible escape.

    Nothing else is removed, no escape sequence either: a person decides by this text, and a terminal shows nothing of
    what is inside such a sequence.
    """
    if text.isascii() and text.isprintable():
        return text  # nearly all of them, in a third of the time
    return _UNSEEN.sub(_visible, text.replace("\r\n", "\n"))


def clean_output(text: str) -> str:
    """What a command printed, without its colours, titles and links; the rest as in `clean`."""
    return clean(_ANSI.sub("", text))


def escaped(text: str) -> str:
    """JSON text with every invisible character as a JSON escape."""
    return _UNSEEN.sub(lambda found: "".join(f"\\u{unit:04x}" for unit in _units(found[0])), text)


def brief(text: str, most: int) -> str:
    """The text as one line of at most `most` characters. Only the beginning of a very long text is read."""
    line = clean(" ".join(text[: _LOOKED_AT * most].split()))
    return line if len(line) <= most and len(text) <= _LOOKED_AT * most else line[: most - 1] + "…"


def cell(text: str, most: int = 300) -> str:
    """Text for a Markdown table or list: one line, with markup escaped."""
    line = brief(text, most).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return line if len(line) <= most else line[: most - 1] + "…"


def some(names: Sequence[str], most: int = 10) -> str:
    """The first of many names, as text."""
    return ", ".join(names[:most]) + and_more(names, most)


def and_more(whole: Sequence[object], most: int, before: str = " ") -> str:
    """Returns ` and N more` for a list of which the first `most` are shown, or nothing if there are no more."""
    rest = len(whole) - most
    return f"{before}and {rest} more" if rest > 0 else ""


def checks_changed(names: Sequence[str]) -> str:
    """A warning that the run changed files that affect its checks; empty if there are none."""
    return f"the checks were changed by this run: {some(names)}" if names else ""


def estimated_tokens(text: str) -> int:
    """The estimated number of tokens: three bytes each. A Hangul character is one; English has a few less than that."""
    return -(-len(text.encode("utf-8", "replace")) // 3)


def count(number: int, what: str) -> str:
    """A number and its noun, such as "1 run" or "2 runs"."""
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _units(character: str) -> Iterator[int]:
    """The JSON escape of a character: one or two 16-bit units."""
    data = character.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2))


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def seconds_of(text: str) -> float:
    """The seconds of a duration: `90`, `90s`, `15m`, `2h`; ValueError if it is none, or not above zero."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    seconds = float(number) * _UNITS[unit]
    if not 0 < seconds <= _LONGEST_S:
        raise ValueError(text)
    return seconds


def dollars_of(text: str) -> float:
    """The amount in a text; ValueError if it is none, or not above zero."""
    amount = float(text)
    if not 0 < amount < math.inf:
        raise ValueError(text)
    return amount


def duration_text(seconds: float) -> str:
    """A duration as `--max-time` takes it: `90s`, `15m`, `2h`."""
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"


def words(path: str) -> list[str]:
    """The words of a path: `src/userTokens_v2.py` -> src, user, tokens, v2, py; `HTTPTest` -> http, test."""
    split = re.split(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", path)
    return [word.casefold() for word in split if word]


def misfit_text(error: object) -> str:
    """Why a value does not fit its type, for a person: msgspec's message with the value's name first."""
    where = _PLACE.search(text := str(error))
    what, place = (text[: where.start()], where.group(2)) if where else (text, "")
    if missing := _REQUIRED.fullmatch(what):
        return f"{place}.{missing.group(1)} is missing".lstrip(".")
    part = "a key" if where and where.group(1) else "an entry" if place.endswith("[...]") else ""
    place = place.removesuffix("[...]")
    subject = " of ".join(filter(None, (part, place)))
    return (f"{subject}: {what[:1].lower()}{what[1:]}" if subject else text).replace("`", "")
