"""Files and lines that a text names: a goal, a plan, a note, the output of a failing check. Pure.

Rules
1. A path counts if it is written out, or if it is the end of a path (`db/query.py` means `src/db/query.py`). The name
   of a file alone counts only if at most three files have it: `__init__.py` in a plan names none.
2. A name without a dot counts only if it is no ordinary word: `Makefile`, not `build`.
3. Lines are read from the forms of Python, node, Go, Rust, Java and compilers: `File "x", line 3`, `x:3`, `x:3:7`,
   `x(3)`. Absolute paths count below the project's folder, or by their ends.
4. A text that is very long is read in its first and last part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from orchestra.core.shown import Lines

_MOST = 400_000  # characters of a text
_MOST_NAMED = 60  # files that all texts together name
_MOST_LINES = 40  # places in one file
_SAME_NAME = 3
_WORD = re.compile(r"[\w./~+@\\-]{0,300}[A-Za-z0-9_]", re.ASCII)
_ANY_WORD = re.compile(r"[\w./~+@-]{0,300}[A-Za-z0-9_]")  # with letters of other scripts; particles stay behind
_AT = re.compile(
    r":([1-9][0-9]{0,6})(?:-([1-9][0-9]{0,6}))?(?![0-9])|\(([1-9][0-9]{0,6})[,)]|\", line ([1-9][0-9]{0,6})"
)
_JAVA = re.compile(r"\bat ([\w.$]{1,200})\.[\w$<>]{1,100}\((\w{1,100}\.(?:java|kt|scala|groovy)):([1-9][0-9]{0,6})\)")


class Named(NamedTuple):
    """A file that a text names, and the lines that the text names with it."""

    path: str
    lines: tuple[Lines, ...]


class Names:
    """The files of a workspace by the ways a text may write them."""

    def __init__(self, paths: Iterable[str], root: str = "") -> None:
        self._root = root.rstrip("/") + "/"
        self._paths = set(paths)
        self._by_name: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def meant(self, word: str) -> list[str]:
        """The files that a word means (rules 1 and 2); none if it means too many."""
        word = word.replace("\\", "/").removeprefix(self._root).removeprefix("./")
        if word in self._paths:
            return [word] if "/" in word or _no_ordinary_word(word) else []
        parts = [part for part in word.split("/") if part not in ("", ".", "..")]
        if not parts:
            return []
        same = self._by_name.get(parts[-1], ())
        if len(parts) == 1:
            return list(same) if len(same) <= _SAME_NAME and _no_ordinary_word(word) else []
        for first in range(len(parts) - 1):  # the longest end that is one of the paths
            end = "/".join(parts[first:])
            found = [path for path in same if path == end or path.endswith("/" + end)]
            if found:
                return found if len(found) <= _SAME_NAME else []
        only = same if len(same) == 1 and word.startswith("/") else ()  # another machine's path of the project
        return list(only)

    def named_in(self, texts: Iterable[str]) -> list[Named]:
        """The files that the texts name, in the order of their first mention, with the lines."""
        lines: dict[str, list[Lines]] = {}
        for text in texts:
            for word, at in _places(text):
                for path in self.meant(word):
                    if path in lines or len(lines) < _MOST_NAMED:
                        found = lines.setdefault(path, [])
                        if at and at not in found and len(found) < _MOST_LINES:
                            found.append(at)
        return [Named(path, tuple(found)) for path, found in lines.items()]


def _no_ordinary_word(word: str) -> bool:
    name = word.rpartition("/")[2]
    return "." in name.lstrip(".") or name.startswith(".") or (not name.islower() and len(name) > 3)


def _places(text: str) -> Iterable[tuple[str, Lines | None]]:
    """Every word of a text that may be a path, and the lines named behind it (rule 3)."""
    if len(text) > 2 * _MOST:
        text = text[:_MOST] + "\n" + text[-_MOST:]
    for found in _JAVA.finditer(text):
        folder = found[1].rpartition(".")[0].replace(".", "/")
        yield f"{folder}/{found[2]}" if folder else found[2], (int(found[3]), int(found[3]))
    for words in (_WORD, _ANY_WORD) if not text.isascii() else (_WORD,):
        for found in words.finditer(text):
            word = found[0]
            if len(word) < 3 or (word.islower() and word.isalpha() and word.isascii()):
                continue  # an ordinary word
            at = _AT.match(text, found.end())
            if at is None:
                yield word, None
                continue
            first = int(at[1] or at[3] or at[4])
            yield word, (first, max(first, int(at[2] or first)))
