"""The forms that a reply may be asked for, as grammars: for an engine that decodes under one (llguidance). Pure.

Rules
1. A reply that follows a grammar is readable: a plan or a request (workflows/need.py), one result (patch/result.py),
   one decision (workflows/replies.py). Replies are judged by those readers alone, as any other model's; a patch of a
   large model may still be refused for what it does (a new file twice, a forbidden path).
2. A small model does what a grammar leaves it. It is left one change: a line of a file that it was shown is replaced,
   or followed by new lines. Its context lines are the file's, so that the patch fits; the place occurs once.
3. A small model is left neither ASK, NOOP nor NEED where there is a line to change: it would ask for what it has.
4. Every text of a small model has a maximal length: it may never end one.
5. A patch names a file that was shown at most once: the second time would be refused (patch/safety.py).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from orchestra.core.model import PATCH_BEGIN, PATCH_END, RESULT_END, RESULT_START, ContextArtifact, Form
from orchestra.core.redact import MASK
from orchestra.core.testfiles import is_test

_AROUND = 2  # context lines on each side of a change
_MOST_PLACES = 400  # changes that are offered; the grammar has a line for each
_GAP = re.compile(r"… lines? \d")  # context/sheets.py: lines that are not shown
_ODD = re.compile(rf"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]|{re.escape(MASK)}")  # in no line that a patch can repeat
_PATH = re.compile(r"[^\s\"\\\x00-\x1f\x7f\ud800-\udfff]+")  # a path that a diff names without quotes
_BREAKS = r"\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029"  # in no line of a reply: some reader would end the line there
_ANY, _FIRST = rf"[^{_BREAKS}]", rf"[^\s{_BREAKS}]"
_WORDS = {
    "SHORT": f"/{_FIRST}{_ANY}{{0,79}}/",
    "LINE": f"/{_FIRST}{_ANY}{{0,159}}/",
    "QUESTION": f"/{_FIRST}{_ANY}{{8,150}}[?]/",
}


def form_grammar(form: Form, artifacts: Iterable[ContextArtifact], *, small: bool) -> str:
    """The grammar of a reply of this form, for a model that was shown these files."""
    files = [one for one in artifacts if _PATH.fullmatch(one.path) and one.path != "."]
    match form:
        case "plan":
            rules = _small_plan(files) if small else _PLAN
        case "decision":
            rules = _DECISION
        case "result":
            rules = _result(files, small=small)
    return "%llguidance {}\n" + "\n".join((*rules, *(f"{name}: {text}" for name, text in _WORDS.items()))) + "\n"


# -- plans and decisions ----------------------------------------------------------------------------------------------

_PLAN = (  # a plan does not begin like a request: what begins so is one
    "start: need | plan",
    'need: "NEED\\n" item{1,8}',
    'item: ("- file: " | "- search: ") LINE "\\n"',
    'plan: FIRST ("\\n" REST){0,120}',
    rf"FIRST: /([A-MO-Za-z0-9#가-힣-]|N[A-DF-Za-z]){_ANY}{{0,300}}/",
    f"REST: /{_ANY}{{0,300}}/",
)
_DECISION = ('start: "DECISION: " ("PASS" | "FIX") "\\nBecause " LINE | "DECISION: ASK\\nQUESTION: " QUESTION',)


def _small_plan(files: Sequence[ContextArtifact]) -> tuple[str, ...]:
    paths = _either(f"`{one.path}`" for one in files)
    named = f'({paths}) ": " ' if paths else ""
    return (f'start: ("- " {named}LINE "\\n"){{1,3}}',)


# -- results ----------------------------------------------------------------------------------------------------------


def _result(files: Sequence[ContextArtifact], *, small: bool) -> tuple[str, ...]:
    """PATCH; ASK and NOOP too, unless the model is small and has something to change (rules 2 and 3)."""
    patch = tuple(_small_patch(files) if small else _patch(files))
    ways = " | ".join(filter(None, ("patch" if patch else "", "" if small and patch else "ask | noop")))
    head, end = _text(f"{RESULT_START}\ntype: "), _text(f"{RESULT_END}\n")
    return (
        f"start: {head} ({ways})",
        f'ask: "ASK\\nquestion: " QUESTION "\\nreason: " LINE "\\nneeded_input:\\n" ("- " LINE "\\n"){{1,3}} {end}',
        f'noop: "NOOP\\nreason: " LINE "\\n" {end}',
        *(_patch_frame(end) if patch else ()),
        *patch,
    )


def _patch_frame(end: str) -> Iterator[str]:
    begin, close = _text(f"\n{PATCH_BEGIN}\n"), _text(f"{PATCH_END}\n")
    yield f'patch: "PATCH\\nsummary: " SHORT "\\n" {end} {begin} change {close}'


def _patch(files: Sequence[ContextArtifact]) -> Iterator[str]:
    """Any change of files that are shown, each at most once and in their order, then new files (rule 5)."""
    heads = list(dict.fromkeys(_head(one.path) for one in files))
    yield "change: c0"
    for number, head in enumerate(heads):
        yield f"f{number}: {_text(head)} hunk{{1,8}}"
        yield f"c{number}: f{number} r{number + 1} | c{number + 1}"  # at least one file
        yield f"r{number}: f{number}{{0,1}} r{number + 1}"
    yield f"c{len(heads)}: new{{1,8}}"
    yield f"r{len(heads)}: new{{0,8}}"
    yield 'new: "--- /dev/null\\n+++ b/" NEWPATH "\\n@@ @@\\n" ("+" FREE "\\n"){1,400}'
    yield 'hunk: "@@ @@\\n" (" " FREE "\\n"){0,12} changed ((" " FREE "\\n"){0,12} changed){0,4} (" " FREE "\\n"){0,12}'
    yield 'changed: (("-" FREE "\\n"){1,60} ("+" FREE "\\n"){0,200}) | ("+" FREE "\\n"){1,200}'
    yield f"FREE: /{_ANY}{{0,300}}/"
    yield "NEWPATH: /[A-Za-z0-9_][A-Za-z0-9_-]{0,40}([.\\/][A-Za-z0-9_][A-Za-z0-9_-]{0,40}){0,6}/"


def _small_patch(files: Sequence[ContextArtifact]) -> Iterator[str]:
    """One change at one of the shown lines (rule 2); not in a test, if there is another file."""
    code = [one for one in files if not is_test(one.path)] or files
    places = list(islice((place for one in code for place in _places(one)), _MOST_PLACES))
    if places:
        yield f"change: {' | '.join(f'p{number}' for number in range(len(places)))}"
        for number, place in enumerate(places):
            yield from place.rules(number)
        yield f"NEW: /{_FIRST}{_ANY}{{0,99}}/"
        yield 'more: ("+" MORE "\\n"){0,3}'
        yield rf"MORE: /[ \t]{{0,16}}{_FIRST}{_ANY}{{0,99}}/"


class _Place:
    """A line that may be changed, between the lines around it."""

    def __init__(self, path: str, before: Sequence[str], line: str, after: Sequence[str]) -> None:
        self._path, self._before, self._line, self._after = path, before, line, after

    def rules(self, number: int) -> Iterator[str]:
        """The grammar of a change here: the line is replaced, or followed by new ones."""
        before = "".join(f" {line}\n" for line in self._before)
        after = "".join(f" {line}\n" for line in self._after)
        indent = self._line[: len(self._line) - len(self._line.lstrip())]
        deeper = indent + ("\t" if "\t" in indent else "    ") * self._line.rstrip().endswith((":", "{", "("))
        head, tail = _text(f"{_head(self._path)}@@ @@\n{before}"), f" {_text(after)}" if after else ""
        replaced, followed = _text(f"-{self._line}\n+{indent}"), _text(f" {self._line}\n+{deeper}")
        yield f'p{number}: {head} ({replaced} OTHER{number} | {followed} NEW) "\\n" more{tail}'
        same = _text(self._line[len(indent) :])
        yield f"OTHER{number}: /{_FIRST}{_ANY}{{0,99}}/ & ~{same}"  # a change changes something


def _places(artifact: ContextArtifact) -> Iterator[_Place]:
    """The lines of a file that may be changed, each with enough lines around it to occur once in what is shown."""
    lines = artifact.content.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    usable = [not _ODD.search(line) and not _GAP.match(line) for line in lines]
    spans = [(max(0, at - _AROUND), min(len(lines), at + _AROUND + 1)) for at in range(len(lines))]
    counted = {size: _blocks(lines, size) for size in {last - first for first, last in spans}}
    for at, (first, last) in enumerate(spans):
        once = counted[last - first][tuple(lines[first:last])] == 1
        if once and lines[at].strip() and all(usable[first:last]):
            yield _Place(artifact.path, lines[first:at], lines[at], lines[at + 1 : last])


def _blocks(lines: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    """How often each block of so many lines occurs."""
    return Counter(tuple(lines[at : at + size]) for at in range(len(lines) - size + 1))


def _head(path: str) -> str:
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"


def _either(texts: Iterable[str]) -> str:
    return " | ".join(map(_text, texts))


def _text(text: str) -> str:
    """A text as the grammar quotes it."""
    return json.dumps(text, ensure_ascii=False)
