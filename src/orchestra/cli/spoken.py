"""What models say while they say it, as whole lines: each with the step it belongs to, so that two calls never mix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import click

from orchestra.cli.text import safe
from orchestra.core.faces import Token
from orchestra.core.livetext import MaskedCalls
from orchestra.core.reading import key_of
from orchestra.core.records import Event
from orchestra.core.redact import Redactor

_LINE = 10_000  # characters of a line that nothing ends


class Spoken:
    """The text of running calls, cut into lines. Masked text comes in."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, str], str] = {}  # by run and key: a line that is not complete

    def more(self, token: Token) -> list[str]:
        """The lines that are complete now."""
        begun = self._begun.pop((token.run_id, token.key), "")
        lines = ["(asked again)"] if token.restart else []
        *whole, begun = ((begun if not token.restart else "") + token.text).split("\n")
        if len(begun) > _LINE:
            whole, begun = [*whole, begun], ""
        if begun:
            self._begun[token.run_id, token.key] = begun
        return [*lines, *whole]

    def rest(self, run_id: str, key: str) -> list[str]:
        """The last line of a call that has ended, if it is not complete."""
        left = self._begun.pop((run_id, key), "")
        return [left] if left else []


class Placed(Protocol):
    """A run that was shown."""

    @property
    def where(self) -> str:
        """The keys of the child runs that lead to it, and a space; empty for a root."""


class Speech:
    """What models say in the process that drives a run: masked, and with `stream` as lines to print."""

    def __init__(self, redactor: Redactor, seen: Mapping[str, Placed], *, stream: bool) -> None:
        """`seen` are the runs that a face has shown."""
        self._calls = MaskedCalls(redactor)
        self._seen = seen
        self._spoken = Spoken() if stream else None

    def more(self, token: Token) -> tuple[Token | None, list[str]]:
        """The text that may be shown now, and the lines to print."""
        said = self._calls.token(token)
        return said, self._lines(said) if said else []

    def settled(self, event: Event) -> list[str]:
        """The lines to print before the event that settles a call."""
        rest, key = self._calls.settled(event), key_of(event)
        lines = self._lines(rest) if rest else []
        last = self._spoken.rest(event.runId, key) if self._spoken else []
        return [*lines, *(self._labelled(event.runId, key, line) for line in last)]

    def _lines(self, token: Token) -> list[str]:
        lines = self._spoken.more(token) if self._spoken else []
        return [self._labelled(token.run_id, token.key, line) for line in lines]

    def _labelled(self, run_id: str, key: str, text: str) -> str:
        return labelled((self._seen[run_id].where if run_id in self._seen else "") + key, text)


def labelled(place: str, text: str) -> str:
    """A line of a step, with the step before it."""
    return click.style(f"{safe(place)} │ ", dim=True) + safe(text)
