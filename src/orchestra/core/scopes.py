"""Scopes: the places of a flow. They make the keys of steps, branches, editions and looks (core/context.py, rule 1).

Labels are what a workflow itself calls its steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from orchestra.core.errors import DurabilityError

_COUNTED = re.compile(r"\.\d+$")


class Labels(Struct, frozen=True):
    """A workflow's own names for its steps, for readers of their events. They are part of no digest."""

    begun: Mapping[str, Any] = MappingProxyType({})  # in the event of the intent
    ended: Mapping[str, Any] = MappingProxyType({})  # in the event of the outcome


NO_LABELS = Labels()


class Scope:
    """A place in the flow: a path of names and how often each name was used in it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.alone = not path  # rule 7: the outermost scope performs only while no branch runs, so no branch appends
        self._used: dict[str, int] = {}
        self._busy = False

    def peek_key(self, name: str) -> str:
        return f"{self.path}{name}.{self._used.get(name, 0) + 1}"

    def next_key(self, name: str) -> str:
        if self._busy:
            raise DurabilityError(
                f"step {name!r}: a scope performs nothing while its branches run; use the branch's context"
            )
        if "/" in name:
            raise DurabilityError(f"step {name!r}: a step's name may not contain '/'")
        count = self._used[name] = self._used.get(name, 0) + 1
        return f"{self.path}{name}.{count}"

    def place(self, name: str) -> str:
        """The name of an edition or a look. The second of the same name gets a number: `draft`, `draft.2`."""
        if self._busy:
            raise DurabilityError(f"{name!r}: a scope does nothing while its branches run; use the branch's context")
        if not name or "/" in name or "@" in name or _COUNTED.search(name):
            raise DurabilityError(
                f"{name!r}: the name of an edition or a look may not contain '/' or '@' or end like a repeat count"
            )
        count = self._used[f"{name}@"] = self._used.get(f"{name}@", 0) + 1
        return name if count == 1 else f"{name}.{count}"

    def branch(self, name: str) -> str:
        """The path of a new scope below this one. The second of the same name gets a number: `draft/`, `draft.2/`."""
        if "/" in name or _COUNTED.search(name):
            raise DurabilityError(f"branch {name!r}: a branch's name may not contain '/' or end like a repeat count")
        count = self._used[f"{name}/"] = self._used.get(f"{name}/", 0) + 1
        return f"{self.path}{name}/" if count == 1 else f"{self.path}{name}.{count}/"

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Refuse steps of this scope while its branches run (rule 7)."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
