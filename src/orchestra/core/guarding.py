"""What a handler may do besides carrying its effect out: refuse it, prepare it, wait for its next try."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeGuard

from orchestra.core.records import Event


class Guarded(Protocol):
    """A handler that may refuse an effect before the intent is written: a refused step was never begun."""

    async def guard(self, effect: Any, key: str, /, *, redo: bool) -> Mapping[str, Any] | None:
        """Raise to refuse. `redo`: an earlier process began this step and may have left its result.

        Returns fields for the intent, if any.
        """
        ...


class Prepares(Protocol):
    """A handler that prepares something before its intent is written (core/context.py, rule 9)."""

    async def prepare(self, effect: Any, key: str, left: Event | None, /) -> Mapping[str, Any]:
        """Prepare, and return fields for the intent. `left` is the intent that an earlier process wrote, if any."""
        ...

    async def drop(self, key: str, /) -> None:
        """Undo `prepare`: the intent could not be written."""
        ...


class Pauses(Protocol):
    """A handler that waits for the next try of its effect itself, because such waits are limited too."""

    async def pause(self, seconds: float, key: str, /) -> None: ...


# A protocol's own check takes fifty times as long, and every run asks for each of its handlers.
def is_guarded(handler: object) -> TypeGuard[Guarded]:
    return hasattr(handler, "guard")


def is_prepared(handler: object) -> TypeGuard[Prepares]:
    return hasattr(handler, "prepare")


def pauses(handler: object) -> TypeGuard[Pauses]:
    return hasattr(handler, "pause")
