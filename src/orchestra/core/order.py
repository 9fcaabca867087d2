"""What may come next: names, each of which is ready the moment the last of those it comes after is done. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping


class Order:
    """The names that are ready, oldest first. Those in a circle, or behind one, never are."""

    def __init__(self, after: Mapping[str, Collection[str]]) -> None:
        """`after` has every name, with the names it comes after. KeyError for one that it has not."""
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
        """Those that only waited for this one are ready."""
        for follower in self._followers[name]:
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self.ready.append(follower)
