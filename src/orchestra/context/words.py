"""Texts -> search terms. Pure.

Rules
1. An identifier gives itself, in lower case and without its marks (`getOrCreate`, `get_or_create`: getorcreate), and
   its words (get, or, create). In a question and in a path, `get-or-create` is such an identifier too.
2. A word gives its stem: common English endings are cut, so that `parsing`, `parser` and `parse` are one term.
3. Latin letters are split from all others: `get_or_create를` gives get_or_create. A run of other letters (Hangul) gives
   its pairs of letters, because endings and particles are written together with the word.
4. Words that occur in every text (`STOP`) are no terms of a question, unless they are written like code there: `add()`,
   or in backticks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

_ASCII = re.compile(r"[A-Za-z_][A-Za-z0-9_]+")
_ANY = re.compile(r"[A-Za-z_][A-Za-z0-9_]+|[^\W0-9A-Za-z_]+")
_PIECES = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_ENDINGS = re.compile(r"(?:ations?|ions?|ings?|ers?|ed|es|s|e)$")
_DOUBLE = re.compile(r"([bdfgmnprt])\1$")
# A match begins where a word begins: else a long word without a hyphen is searched again from each of its letters.
_COMPOUND = re.compile(r"(?<![A-Za-z0-9])[0-9]*+([A-Za-z][A-Za-z0-9]*+(?:-[A-Za-z0-9]++)+)")
_NUMBERED = re.compile(r"\b(?:close|fix|resolve|ref|see)\w{0,3}:? {0,2}#\d+", re.IGNORECASE)  # of an issue: no words
_LIKE_CODE = re.compile(r"`[^`\s]{2,80}`|\b\w+\(\)")
_LONGEST = 80  # of an identifier: longer ones are data
_MOST_TERMS = 6_000  # of one file

_STOP_WORDS = (
    "a about above after again all also always am an and any are aren as at away back be became because become been "
    "before behind being below best better between both but by call called came can cannot case cases cause causes "
    "change changed changes code come could current currently did didn do does doesn doing don done down during "
    "each either else end ensure etc even ever every example few first fix fixed fixes fixing following for from "
    "full further get gets getting give given go goes good got had handle has hasn have having he help hence her "
    "here him his how however if implement implemented improve in instead into is isn issue issues it its itself "
    "just keep kind know last later least less let like ll long look lot made make makes making many may me might "
    "more most much must my need needed needs never new no non nor not nothing now of off often old on once one "
    "only onto or other others otherwise our out over own part per please possible pr previous previously problem "
    "properly provide put quite rather re really remove removed removes same see seem seems several shall she "
    "should show similar simply since so some something sometimes still such support sure take taken than that the "
    "their them then there therefore these they thing things this those though through thus to together too two "
    "under until up update updated upon us use used user uses using usually value values various ve very via want "
    "wanted wants was wasn way we well were what when where whether which while who whole whose why will with "
    "within without won word words work working works would write wrong yes yet you your bug bugs add added adding "
    "adds feature features fine signed thanks goal task tests test avoid correctly somewhat py js ts rs md json "
    "그리고 그런데 그러나 하지만 또는 모든 있다 있는 있도록 없다 없는 않는 않도록 않게 하다 하는 한다 하도록 "
    "하게 해라 해줘 해야 된다 되는 되도록 되게 때문에 경우 경우에 것을 것이 수정 수정해 수정해라 수정하라 "
    "고쳐라 고쳐 고쳐야 고친다 고치기 추가 추가해 추가해라 추가하라 바꿔라 바꿔 만들어 만들어라 읽고 읽어라 "
    "봐라 사용 사용해 사용하는 사용하도록 위해 위한 대한 대해 함께 파일 파일을 파일의 코드 코드를 코드의 "
    "코드에서 버그 버그를 문제 문제를 잘못된 동작 동작을"
)
STOP = frozenset(_STOP_WORDS.split())


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A lower-case English word without its ending (rule 2)."""
    if len(word) <= 3:
        return word
    if word.endswith("ies"):
        return word[:-3]
    if word.endswith("ss"):
        return word
    found = _ENDINGS.search(word)
    if found is None or found.start() < 3:
        return word.removesuffix("y") if len(word) > 4 else word
    cut = word[: found.start()]
    return cut[:-1] if len(cut) > 3 and _DOUBLE.search(cut) else cut.removesuffix("y") if len(cut) > 4 else cut


@lru_cache(maxsize=100_000)
def terms_of(word: str) -> tuple[str, ...]:
    """The terms of one identifier, or of one run of other letters."""
    if not word.isascii():
        run = word.casefold()
        return (run,) if len(run) < 3 else tuple(run[at : at + 2] for at in range(len(run) - 1))
    if len(word) > _LONGEST:
        return ()
    pieces = [stem(piece.lower()) for piece in _PIECES.findall(word) if len(piece) > 1]
    whole = word.replace("_", "").lower()
    if len(pieces) == 1 and pieces[0] == stem(whole):
        return (pieces[0],)
    return (whole, *dict.fromkeys(pieces)) if len(whole) > 1 else ()


def words_in(text: str) -> list[str]:
    """The identifiers and words of a text, in order."""
    return _ASCII.findall(text) if text.isascii() else _ANY.findall(text)


def counted(text: str) -> dict[str, int]:
    """How often each term occurs in a text."""
    out: dict[str, int] = {}
    get = out.get
    for word, times in Counter(words_in(text)).items():
        for term in terms_of(word):
            out[term] = get(term, 0) + times
        if len(out) > _MOST_TERMS:
            break
    return out


def compounds(text: str) -> list[str]:
    """The words of a text that are written with hyphens, as identifiers (rule 1)."""
    return [word.replace("-", "_") for word in _COMPOUND.findall(text)]


def asked_for(text: str) -> Iterator[tuple[str, str]]:
    """The terms of a question, each with the word that it stands for; without stop words (rule 4).

    The first term of an identifier stands for the identifier, the others for its words.
    """
    text = _NUMBERED.sub(" ", text)
    code = {word for found in _LIKE_CODE.findall(text) for word in words_in(found)}
    for word in (*words_in(text), *compounds(text)):
        if len(word) < 2:
            continue
        if word.lower() in STOP:
            if word in code:
                yield from ((term, word) for term in terms_of(word))
            continue
        pieces = {stem(piece.lower()): piece.lower() for piece in _PIECES.findall(word)} if word.isascii() else {}
        for at, term in enumerate(terms_of(word)):
            if term not in _STOPPED:
                yield term, pieces.get(term, word) if at else word


_STOPPED = frozenset(stem(word) for word in STOP) | STOP
