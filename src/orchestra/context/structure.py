"""A file's text, looked at once: its lines, its definitions, its chunks, and where each word is. Pure.

Rules
1. All of it follows from the text and the ending of the file's name, and is kept by these two for later calls of this
   process. A changed file has another text, so what is kept is never out of date.
2. What is kept is bounded: a text weighs its characters, and `_LINE` for each line. The texts that were not asked for
   longest are dropped first. A text that weighs more than an eighth of the bound is not kept.
3. What a structure returns never changes, so several calls at once share one.
"""

from __future__ import annotations

import re
import string
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from orchestra.context.chunks import Definition, chunks, definitions, ending_of
from orchestra.context.reading import lines_of
from orchestra.context.words import words_in
from orchestra.core.shown import Lines

_MOST_KEPT = 5_000_000  # the weight of all texts that are kept: some 60,000 lines, what four calls look at
_ASCII = frozenset(string.ascii_letters + string.digits + "_")  # the characters of identifiers
_RUN = re.compile(r"[A-Za-z0-9_]+|[^\W0-9A-Za-z_]+")  # a word by itself, as `_places` finds it
_MANY = 32  # words: one pass over a text takes about as long as so many searches in it
_LINE = 50  # the weight of a line: its place, its definition, its share of the chunks
_DEFINED = 2  # a word in a definition's line counts as so many more


class Structure:
    """The lines, definitions, chunks and words of one text. Each is computed when it is first used."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._text = path, text
        self.lines: Sequence[str] = lines_of(text)
        self.weight = len(text) + _LINE * len(self.lines)
        self._counted: dict[str, tuple[tuple[int, int], ...]] = {}

    @cached_property
    def ends(self) -> Sequence[int]:
        """How many bytes there are up to each line's end; the first number is 0."""
        sizes = map(len, self.lines if self._text.isascii() else map(str.encode, self.lines))
        return list(accumulate(sizes, initial=0))

    @cached_property
    def definitions(self) -> Sequence[Definition]:
        """Its definitions, in order."""
        return definitions(self._path, self.lines)

    @cached_property
    def chunks(self) -> Sequence[Lines]:
        """Its chunks, as ranges of lines."""
        return chunks(self.lines, self.definitions)

    @cached_property
    def sizes(self) -> Sequence[int]:
        """The characters of each chunk."""
        return [self._starts[last] - self._starts[first - 1] for first, last in self.chunks]

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words and identifiers."""
        return frozenset(words_in(self._text))

    def counted(self, word: str) -> tuple[tuple[int, int], ...]:
        """How often a word occurs in which chunk; in the line of a definition it counts as more."""
        if word not in self._counted:
            self._counted[word] = tuple(self._count(_places(word, self._text)))
        return self._counted[word]

    def count(self, words: Iterable[str]) -> None:
        """Count many words of the text in one pass, for `counted`: a search for each would take time by the square."""
        places: dict[str, list[int]] = {word: [] for word in words if word not in self._counted}
        if len(places) < _MANY:
            return
        for run in _RUN.finditer(self._text):
            if (found := places.get(run[0])) is not None:
                found.append(run.start())
        self._counted |= {word: tuple(self._count(found)) for word, found in places.items()}

    def _count(self, places: Iterable[int]) -> Iterator[tuple[int, int]]:
        for at in places:
            line = bisect_right(self._starts, at)
            yield bisect_right(self._firsts, line) - 1, 1 + _DEFINED if line in self._defined else 1

    @cached_property
    def _starts(self) -> Sequence[int]:
        """Where each line begins, in characters, and the end of the last."""
        return self.ends if self._text.isascii() else list(accumulate(map(len, self.lines), initial=0))

    @cached_property
    def _firsts(self) -> Sequence[int]:
        return [first for first, _ in self.chunks]

    @cached_property
    def _defined(self) -> frozenset[int]:
        return frozenset(one.line for one in self.definitions)


class Structures:
    """The structures that were asked for last (rule 2)."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str], Structure] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def of(self, path: str, text: str) -> Structure:
        """The structure of a file's text, the kept one if there is one."""
        key = (ending_of(path), text)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
            found = Structure(path, text)
            if found.weight <= self._most // 8:
                self._kept[key] = found
                self._weight += found.weight
            while self._weight > self._most:
                self._weight -= self._kept.popitem(last=False)[1].weight
            return found


structure_of = Structures().of


def _places(word: str, text: str) -> Iterator[int]:
    """Where a word stands in a text by itself, not as a part of another one."""
    belongs = _ASCII.__contains__ if word.isascii() else _is_other_letter
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not belongs(text[at - 1 : at]) and not belongs(text[end : end + 1]):
            yield at
        at = text.find(word, end)


def _is_other_letter(char: str) -> bool:
    return char.isalnum() and not char.isascii()
