"""Text made fit to be shown: to people, in files they open, in prompts."""

from __future__ import annotations

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

_LOOKED_AT = 16  # times as many characters as are shown: white space and colours do not count


def clean(text: str) -> str:
    """Text that shows what it holds: colour codes gone, other invisible characters as visible escapes."""
    return _UNSEEN.sub(_visible, _ANSI.sub("", text.replace("\r\n", "\n")))


def escaped(text: str) -> str:
    """JSON text in which every character that is not seen is written as JSON writes it."""
    return _UNSEEN.sub(lambda found: "".join(f"\\u{unit:04x}" for unit in _units(found[0])), text)


def brief(text: str, most: int) -> str:
    """Text as one line of so many characters at most. Of a very long text only the beginning is looked at."""
    line = clean(" ".join(text[: _LOOKED_AT * most].split()))
    return line if len(line) <= most and len(text) <= _LOOKED_AT * most else line[: most - 1] + "…"


def cell(text: str, most: int = 300) -> str:
    """Text inside a Markdown table or list: one line, no markup of its own."""
    line = brief(text, most).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return line if len(line) <= most else line[: most - 1] + "…"


def some(names: Sequence[str], most: int = 10) -> str:
    """The first of many names."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def checks_changed(names: Sequence[str]) -> str:
    """What a verdict says of a run that changed what it is judged by; nothing if it did not."""
    return f"the checks were changed by this run: {some(names)}" if names else ""


def count(number: int, what: str) -> str:
    """A number of things, in words."""
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _units(character: str) -> Iterator[int]:
    """A character as JSON escapes it: one or two 16-bit units."""
    data = character.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2))


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
