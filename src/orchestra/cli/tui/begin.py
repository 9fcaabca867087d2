"""Begins the terminal UI: draws its input line, and loads the program behind it.

Rules
1. Nothing heavy is imported here: no app, no workflow, no provider. What is typed meanwhile is kept (early.py).
2. An error of the start removes the live rows. It is told as every other command's, with the same exit code.
3. The live rows of a person who leaves meanwhile go at once. The process ends when the import has ended, because Python
   must not end in the middle of one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from types import ModuleType

import click

from orchestra.cli.hosting import commands_begin_with
from orchestra.cli.tui.early import INTERRUPTED, Early, Flags
from orchestra.cli.tui.plain import Plain
from orchestra.cli.tui.screen import Screen
from orchestra.cli.tui.surface import Surface
from orchestra.cli.tui.threads import in_thread


def begin(flags: Flags, plain: str) -> int:
    """Show the UI until the person leaves; returns the exit code.

    `plain`: what asks for plain lines; empty: live rows.
    """
    with commands_begin_with("/"):
        return asyncio.run(_begin(flags, plain))


async def _begin(flags: Flags, plain: str) -> int:
    screen: Surface = Plain(plain) if plain else Screen(colour=not os.environ.get("NO_COLOR"))
    early = Early(screen)
    _take_signals(screen)
    shown = asyncio.ensure_future(screen.run())
    drawn = asyncio.ensure_future(screen.ready())
    try:
        await asyncio.wait([drawn, shown], return_when=asyncio.FIRST_COMPLETED)
        session = await in_thread(_load)
        if early.left == INTERRUPTED:
            raise click.Abort
        if early.left is not None or shown.done():
            await shown
            return early.left or 0
        return int(await session.talk(flags, screen, shown, early))
    finally:
        drawn.cancel()
        screen.end()
        await asyncio.wait([shown])
        if not shown.cancelled():
            shown.exception()  # the error of the start is the one to tell


def _take_signals(screen: Surface) -> None:
    """Have signals end the UI in order: the terminal is in raw mode."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, lambda: screen.left(INTERRUPTED))
    # A lambda: `interrupted` is that of Early first, and later that of Talk.
    loop.add_signal_handler(signal.SIGINT, lambda: screen.interrupted())


def _load() -> ModuleType:
    from orchestra.cli.tui import session

    return session
