"""Names in the order of their dependencies: a name is ready when all names before it are done. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping


class Order:
    """The names that are ready, oldest first. Names in a cycle, or after one, never are."""

    def __init__(self, after: Mapping[str, Collection[str]]) -> None:
        """`after` maps every name to the names it depends on. KeyError for a name that is not in it."""
        self.ready: deque[str] = deque()
        self._missing: dict[str, int] = {}
        self._followers: dict[str, list[str]] = {name: [] for name in after}
        for name, named in after.items():
            earlier = set(named)
            if not earlier:
                self.ready.append(name)
                continue
            self._missing[name] = len(earlier)
            for one in earlier:
                self._followers[one].append(name)

    def done(self, name: str) -> None:
        """Mark a name as done; names that waited only for it become ready."""
        for follower in self._followers[name]:
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self.ready.append(follower)
