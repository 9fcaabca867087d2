"""How git spells file names in a diff, read and written.

Rules
1. A name with unusual bytes is in double quotes with C escapes and octal bytes; any other name is raw (Korean too).
2. `a/` and `b/` are removed only where the header proves them to be prefixes: a project may have a folder named `a`.
3. `/dev/null` stands for "no file on this side" and is None here.

It does not judge whether a name is allowed: that is safety.py.
"""

from __future__ import annotations

import re

_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_TOKEN = re.compile(r"\\([0-3][0-7]{2}|.)|([^\\]+)", re.DOTALL)
# What git puts before names: plain, and with diff.mnemonicPrefix (index, work tree, commit, object).
_PREFIXES = (("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/"))

Pair = tuple[str | None, str | None]


def unquote(text: str) -> str | None:
    """The name inside git's double quotes; None if the escapes are broken or the bytes are no UTF-8."""
    data = bytearray()
    for escape, plain in _TOKEN.findall(text):
        if plain:
            data += plain.encode("utf-8", "surrogatepass")
        elif len(escape) == 3:
            data.append(int(escape, 8))
        elif escape in _ESCAPES:
            data.append(_ESCAPES[escape])
        else:
            return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def quote(name: str) -> str:
    """The name as git writes it when core.quotePath is off: Korean stays readable."""
    if not re.search(r'["\\\x00-\x1f\x7f]', name):
        return name
    named = {code: letter for letter, code in _ESCAPES.items()}
    body = "".join(
        f"\\{named[ord(char)]}"
        if ord(char) in named
        else f"\\{ord(char):03o}"
        if ord(char) < 32 or char == "\x7f"
        else char
        for char in name
    )
    return f'"{body}"'


def read_name(text: str) -> str | None:
    """The name on a `---`, `+++` or `rename` line, with its prefix; None if it cannot be read."""
    if text.startswith('"'):
        quoted = _QUOTED.match(text)
        return unquote(quoted[1]) if quoted else None
    return text.split("\t", 1)[0]  # a time stamp, or git's end mark after names with blanks


def read_git_line(text: str) -> tuple[str, str] | None:
    """The two names after `diff --git `; None if blanks in them leave the border unknown."""
    first = _QUOTED.match(text)
    if first:
        rest = text[first.end() :].lstrip(" ")
        left, right = unquote(first[1]), read_name(rest)
        return (left, right) if left and right else None
    if text.endswith('"'):
        start = text.find(' "')
        right = read_name(text[start + 1 :]) if start > 0 else None
        return (text[:start], right) if right else None
    if text.count(" ") == 1:
        left, right = text.split(" ")
        return (left, right) if left and right else None
    middle = len(text) // 2  # two equal names under prefixes of equal length: the border is the middle blank
    left, right = text[:middle], text[middle + 1 :]
    if text[middle : middle + 1] == " " and (left == right or strip_prefixes((left, right)) != (left, right)):
        return left, right
    return None


def strip_prefixes(pair: Pair) -> Pair:
    """Remove `a/` and `b/` from a pair of names if they are prefixes (rule 2)."""
    old, new = pair
    if old is None and new is None:
        return pair
    if old is None or new is None:
        name, mark = (new, "b/") if old is None else (old, "a/")
        bare = name.removeprefix(mark) if name else name
        return (None, bare) if old is None else (bare, None)
    for left, right in _PREFIXES:
        if old.startswith(left) and new.startswith(right):
            return old.removeprefix(left), new.removeprefix(right)
    # One side only: models do that. It is a prefix if taking it off makes the names equal.
    if old.removeprefix("a/") == new:
        return new, new
    if new.removeprefix("b/") == old:
        return old, old
    return pair
