"""Reads a person's answers at the input line of the terminal UI; it keeps the rules of cli/prompter.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from orchestra.cli.tui.surface import Surface


class Prompts:
    """The prompts of the terminal UI. `idle` is called when nothing is asked any more, `broken` with an error."""

    def __init__(self, screen: Surface, *, idle: Callable[[], None], broken: Callable[[BaseException], None]) -> None:
        self._screen, self._idle, self._broken = screen, idle, broken
        self._asking = False
        self._task: asyncio.Task[None] | None = None
        self.away = False

    @property
    def busy(self) -> bool:
        return self._asking or self._task is not None

    def forget_typed(self) -> None:
        """Nothing: what was typed before is a draft, and comes back."""

    def ask(self, text: str, then: Callable[[str], None], *, keys: str = "") -> None:
        self._asking = True
        self._screen.ask(text, lambda said: self._said(then, said), keys)

    def _said(self, then: Callable[[str], None], said: str) -> None:
        self._asking = False
        then(said)
        self._settle()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._ended)
        self._task = task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._task is not task:
            return
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken(error)
        else:
            self._settle()

    def _settle(self) -> None:
        if not self.busy:
            self._screen.idle()
            self._idle()

    def close(self) -> None:
        self._screen.close()
        self._asking = False
        self._settle()

    async def elsewhere(self, program: Coroutine[Any, Any, Any]) -> Any:
        self.away = True
        try:
            return await self._screen.elsewhere(program)
        finally:
            self.away = False
