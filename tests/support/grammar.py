"""Sentences of a grammar as providers/forms.py writes it: the part of llguidance's language that it uses.

A rule is `name: ways`; a way is a row of "texts", /patterns/, names and (groups), each with an optional {least,most};
`& ~"text"` after a pattern excludes one text. What the engine itself makes of a grammar is tested with the engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from hypothesis import strategies as st

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)+/|\w+|\{\d+,\d+\}|[|()&~]')
_MOST = 4  # repetitions that are drawn, whatever a rule allows


def sentences(grammar: str) -> st.SearchStrategy[str]:
    """Replies that follow the grammar."""
    head, *lines = grammar.splitlines()
    assert head == "%llguidance {}"
    rules = dict(line.split(": ", 1) for line in lines)
    assert len(rules) == len(lines), "a name has two rules"

    @st.composite
    def sentence(draw: Callable[[st.SearchStrategy[str]], str]) -> str:
        return _Drawing(rules, draw).rule("start")

    return sentence()


class _Drawing:
    """One sentence while it is drawn."""

    def __init__(self, rules: dict[str, str], draw: Callable[..., str]) -> None:
        self._rules, self._draw = rules, draw

    def rule(self, name: str) -> str:
        tokens = _TOKEN.findall(self._rules[name])
        assert not _TOKEN.sub("", self._rules[name]).strip(), f"{name} has something that is not read here"
        return self._ways(iter([*tokens, ")"]))

    def _ways(self, tokens: Iterator[str]) -> str:
        """One of the ways up to the closing parenthesis: every way is read, the chosen one is drawn."""
        ways: list[list[Callable[[], str]]] = [[]]
        for token in tokens:
            if token == ")":
                break
            if token == "|":
                ways.append([])
            elif token == "(":
                inner = _group(tokens)
                ways[-1].append(lambda inner=inner: self._ways(iter(inner)))  # type: ignore[misc]  # early binding
            elif token[0] == "{":
                least, most = map(int, token[1:-1].split(","))
                ways[-1].append(self._repeated(ways[-1].pop(), least, min(most, least + _MOST)))
            elif token == "&":
                assert next(tokens) == "~"
                ways[-1].append(self._other_than(ways[-1].pop(), json.loads(next(tokens))))
            else:
                ways[-1].append(self._one(token))
        chosen: list[Callable[[], str]] = self._draw(st.sampled_from(ways))  # type: ignore[assignment]
        return "".join(part() for part in chosen)

    def _one(self, token: str) -> Callable[[], str]:
        if token[0] == '"':
            return lambda: str(json.loads(token))
        if token[0] == "/":
            return lambda: self._draw(st.from_regex(token[1:-1].replace("\\/", "/"), fullmatch=True))
        return lambda: self.rule(token)

    def _repeated(self, part: Callable[[], str], least: int, most: int) -> Callable[[], str]:
        return lambda: "".join(part() for _ in range(int(self._draw(st.integers(least, most)))))

    def _other_than(self, part: Callable[[], str], text: str) -> Callable[[], str]:
        def other() -> str:
            drawn = part()
            return drawn if drawn != text else f"{drawn[:99]}!"

        return other


def _group(tokens: Iterator[str]) -> list[str]:
    """The tokens up to the parenthesis that closes this group, with it."""
    taken, depth = [], 1
    for token in tokens:
        taken.append(token)
        depth += (token == "(") - (token == ")")
        if not depth:
            break
    return taken
