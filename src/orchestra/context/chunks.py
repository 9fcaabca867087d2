"""A file's lines -> its definitions, and chunks that begin at definitions. Pure; no language is parsed.

Rules
1. A definition is a line that looks like one in its language: one regular expression a family of languages.
2. A chunk begins at a definition, with the comments and decorators above the line. It has 12 to 70 lines: small
   definitions are joined, long ones are cut at an empty line.
3. Every line is in exactly one chunk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from orchestra.core.shown import Lines

LEAST, MOST = 12, 70  # lines of a chunk
_MODIFIERS = (
    r"(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|override|async|virtual|"
    r"sealed|partial|inline|const|extern|unsafe|open|suspend|synchronized|native|readonly|pub(?:\([\w: ]*\))?|"
    r"data|implicit|lazy|operator|fileprivate|mutating|@\w+)\s+)*"
)
_NAMED = (
    r"(?:def|class|function\*?|fn|func|interface|trait|struct|enum|union|impl|module|mod|namespace|type|record|object|"
    r"protocol|extension|macro_rules!|defmodule|defp?|defmacro|sub|procedure|actor|annotation|typedef)\b"
)
_FAMILIES: tuple[tuple[str, str], ...] = (
    ("py pyi pyx", r"\s*(?:async\s+def|def|class)\s+\w+|[A-Z_][A-Z0-9_]{3,}\s*[:=]"),
    ("go", r"(?:func|type|var|const)\b"),
    (
        "js mjs cjs jsx ts tsx mts cts vue svelte",
        rf"\s*{_MODIFIERS}(?:function\*?|class|interface|enum|namespace|type)\s+[\w$]|"
        r"(?:export\s+)?(?:const|let|var)\s+[\w${[]|(?:module\.)?exports\b|[\w$.]+\.prototype\.|"
        r"\s{2,8}(?:static\s+|async\s+|get\s+|set\s+|public\s+|private\s+|protected\s+|readonly\s+|\*\s*|#)*"
        r"(?!if\b|for\b|while\b|switch\b|catch\b|return\b|else\b)[\w$]+\s*(?:<[^>]*>)?\([^;]*\)?\s*(?::[^;=]+)?\{\s*$|"
        r"(?:describe|it|test)\(",
    ),
    (
        "java kt kts scala groovy cs swift dart php",
        rf"\s*{_MODIFIERS}{_NAMED}|\s{{0,8}}(?:(?:public|private|protected|internal|static|final|abstract|override|async|"
        r"virtual|default|synchronized)\s+)+[\w<>\[\],.? ]+\([^;]*$|\s{0,8}fun\s",
    ),
    ("rs", rf"\s*{_MODIFIERS}(?:{_NAMED}|static\s|const\s+fn)|\s*#\[(?:test|cfg)"),
    (
        "c h cc cpp cxx hpp hh hxx m mm",
        r"(?:static|inline|extern|template|typedef|struct|class|enum|union|namespace|#define)\b|[A-Za-z_][\w\s*&:<>,~]*\([^;]*$",
    ),
    ("rb ex exs", rf"\s*{_NAMED}"),
    ("sh bash zsh", r"(?:function\s+)?[\w-]+\s*\(\)\s*\{?|function\s+[\w-]+"),
    ("md mdx markdown", r"#{1,6}\s"),
    ("css scss less sass", r"[^\s}/].*\{\s*$"),
)
_ANY = rf"\s{{0,8}}{_MODIFIERS}{_NAMED}"
_PATTERNS: dict[str, re.Pattern[str]] = {}
_ABOVE = re.compile(r"\s*(?:#|//|/\*|\*|@|--|;;|\"\"\"|\[|%)")
_LONGEST = 160  # characters of a line of an outline


class Definition(NamedTuple):
    """A line that begins a definition, and its text."""

    line: int
    text: str


def pattern_for(path: str) -> re.Pattern[str]:
    """The pattern of a definition's line, by the ending of the file's name (rule 1)."""
    if not _PATTERNS:
        _PATTERNS.update({end: re.compile(source) for ends, source in _FAMILIES for end in ends.split()})
        _PATTERNS[""] = re.compile(_ANY)
    return _PATTERNS.get(ending_of(path), _PATTERNS[""])


def ending_of(path: str) -> str:
    """The ending of a file's name, which decides what its definitions look like."""
    return path.rpartition(".")[2].lower()


def definitions(path: str, lines: Sequence[str]) -> list[Definition]:
    """The definitions of a file, in order."""
    is_one = pattern_for(path).match
    found = {line for line in set(lines) if is_one(line)}  # a third of a file's lines are written more than once
    return [Definition(at, line.rstrip()[:_LONGEST]) for at, line in enumerate(lines, start=1) if line in found]


def chunks(lines: Sequence[str], defined: Sequence[Definition]) -> list[Lines]:
    """The chunks of a file with these definitions, as ranges of lines (rules 2 and 3)."""
    starts = [1]
    for definition in defined:
        upward = range(definition.line, starts[-1], -1)
        first = next((at for at in upward if not _ABOVE.match(lines[at - 2])), starts[-1])
        if first - starts[-1] >= LEAST:
            starts.append(first)
    out: list[Lines] = []
    for first, end in zip(starts, [*starts[1:], len(lines) + 1], strict=True):
        while end - first > MOST:
            cut = _best_cut(lines, first)
            out.append((first, cut - 1))
            first = cut
        if first < end:
            out.append((first, end - 1))
    return out


def _best_cut(lines: Sequence[str], first: int) -> int:
    """The line to cut a chunk at that is too long: after the last empty line that is followed by little indentation."""
    best, depth = first + MOST, 1_000
    for at in range(first + MOST, first + MOST // 2, -1):
        if not lines[at - 2].strip():
            below = lines[at - 1]
            indent = len(below) - len(below.lstrip())
            if indent < depth:
                best, depth = at, indent
    return best
