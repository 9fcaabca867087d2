"""Which files, and which parts of a file, the words of a question are about: BM25 on terms. Pure over counts and texts.

Rules
1. Every term of the hints weighs the same; an identifier that a model asked for weighs three, its words one each.
2. A file's score is BM25, and more for terms in its path, times the weight of its kind (kinds.py). Ties are broken by
   the path.
3. A chunk's score is the same sum over its own terms; a term in the line of a definition counts as more. Chunks beside
   a good chunk, and the head of a file with its imports, get a part of the good chunk's score.
4. The order of the terms is the order of the question, so that the same question gives the same sums to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from orchestra.context.counts import FOLDER, NAME, Counts
from orchestra.context.kinds import Kind, kind_of, weights
from orchestra.context.structure import Structure
from orchestra.context.words import asked_for, compounds, terms_of, words_in
from orchestra.core.shown import Search

_K, _B = 4.0, 0.8  # of files: in long texts the tenth occurrence of a term still says something
_K_CHUNK, _B_CHUNK = 1.2, 0.75
_IN_PATH = ((NAME, 3.0), (FOLDER, 1.0))  # times its worth counts a term in a file's name, or in that of a folder
_ASKED = 3.0  # the weight of an identifier that a model asked for
_MOST_TERMS = 400
_NEIGHBOUR = 0.5  # of the better neighbour's score is added to a chunk's own: a change seldom stays in one chunk
_HEAD = 0.5  # of the best chunk's score is the least of the first one's: imports are there, and are often changed


class Question(NamedTuple):
    """The terms of a question: their weights, and the words that they stand for."""

    terms: dict[str, float]
    words: dict[str, str]


class Hit(NamedTuple):
    """One file that has words of the question: its score, and the words by their part in it."""

    path: str
    score: float
    words: tuple[str, ...]


class Ranked(NamedTuple):
    """The files in the order of their scores, the worth of each term, and in how many files each word occurs."""

    hits: tuple[Hit, ...]
    worth: dict[str, float]
    found: dict[str, int]  # word -> files
    missing: tuple[str, ...]  # words
    weights: dict[Kind, float]  # of the kinds of files
    files: dict[str, int]  # term -> files


def question(search: Search) -> Question:
    """The terms that a search asks for (rule 1)."""
    terms: dict[str, float] = {}
    words: dict[str, str] = {}
    asked = [(one.search, _ASKED) for one in search.wanted if one.search]
    for text, weight in (*asked, *((hint, 1.0) for hint in search.hints)):
        whole = {found[0] for word in (*words_in(text), *compounds(text)) if (found := terms_of(word))}
        for term, word in asked_for(text):
            if term in terms or len(terms) < _MOST_TERMS:
                words.setdefault(term, word)
                terms[term] = max(weight if term in whole else 1.0, terms.get(term, 0.0))  # rule 1
    return Question(terms, words)


def rank(counts: Counts, paths: Sequence[str], asked: Question, said: Iterable[str]) -> Ranked:
    """The files that have terms of a question, best first (rule 2); `said` are all words, those of `STOP` too."""
    files = counts.numbers(paths)
    many = max(1, len(files))
    usual = max(1.0, sum(counts.length(path) for path in files.values()) / many)
    scores: dict[str, float] = {}
    parts: dict[str, list[tuple[float, str]]] = {}
    worth: dict[str, float] = {}
    found: dict[str, int] = {}
    files_with: dict[str, int] = {}
    for term, weight in asked.terms.items():
        places = counts.occurrences(term, files)
        word, files_with[term] = asked.words[term], len(places)
        found[word] = max(found.get(word, 0), len(places))
        worth[term] = weight * math.log(1 + (many - len(places) + 0.5) / (len(places) + 0.5))
        for path, times in places:
            norm = _K * (1 - _B + _B * counts.length(path) / usual)
            gain = worth[term] * times * (_K + 1) / (times + norm)
            scores[path] = scores.get(path, 0.0) + gain
            parts.setdefault(path, []).append((-gain, word))
        for mark, more in _IN_PATH:
            for path, _ in counts.occurrences(mark + term, files):
                scores[path] += more * worth[term]
    counted_as = weights(said)
    weighed = {path: score * counted_as[kind_of(path)] for path, score in scores.items()}
    order = sorted(weighed, key=lambda path: (-weighed[path], path))
    hits = tuple(Hit(path, weighed[path], _best(parts[path])) for path in order)
    return Ranked(
        hits,
        {term: value for term, value in worth.items() if found[asked.words[term]]},
        {word: files for word, files in found.items() if files},
        tuple(word for word, files in found.items() if not files),
        counted_as,
        files_with,
    )


class Sought(dict[str, tuple[str, ...]]):
    """The terms of a question that a word has, by the word. A word is looked at once, in however many files it is."""

    def __init__(self, worth: dict[str, float]) -> None:
        self.worth = worth

    def __missing__(self, word: str) -> tuple[str, ...]:
        found = self[word] = tuple([term for term in terms_of(word) if term in self.worth])
        return found


def chunk_scores(text: Structure, sought: Sought) -> list[float]:
    """The score of each chunk of a text (rule 3)."""
    worth = sought.worth
    counted: list[dict[str, int]] = [{} for _ in text.chunks]
    words = [word for word in text.words if sought[word]]
    text.count(words)
    for word in words:
        terms = sought[word]
        for chunk, many in text.counted(word):
            times = counted[chunk]
            for term in terms:
                times[term] = times.get(term, 0) + many
    usual = max(1.0, sum(text.sizes) / max(1, len(text.sizes)))
    norms = (_K_CHUNK * (1 - _B_CHUNK + _B_CHUNK * size / usual) for size in text.sizes)
    own = [
        sum(worth[term] * times[term] * (_K_CHUNK + 1) / (times[term] + norm) for term in worth if term in times)
        for times, norm in zip(counted, norms, strict=True)
    ]
    beside = [max(around) for around in zip([0.0, *own[:-1]], [*own[1:], 0.0], strict=True)]
    scores = [score + _NEIGHBOUR * near for score, near in zip(own, beside, strict=True)]
    if scores:
        scores[0] = max(scores[0], _HEAD * max(scores))
    return scores


def _best(parts: list[tuple[float, str]]) -> tuple[str, ...]:
    """The words of a file that count most, without those that are a part of another one."""
    words = dict.fromkeys(word for _, word in sorted(parts))
    lower = [word.lower() for word in words]
    return tuple(word for word in words if sum(word.lower() in other for other in lower) == 1)[:4]
