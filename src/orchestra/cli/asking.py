"""Asks a person at the terminal for consent, before anything runs. Inside the terminal UI, its input line asks."""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Coroutine
from typing import Any

import click

from orchestra.cli.hosting import host
from orchestra.cli.text import safe
from orchestra.config.consent import Consent, Line

YES = ("y", "Y", "yes", "예", "네", "ㅛ")
NO = ("", "n", "no", "아니오", "아니요", "ㅜ")


def can_ask(*, no_input: bool) -> bool:
    """Whether a person at a terminal can be asked."""
    return not no_input and (host() is not None or (os.isatty(0) and os.isatty(2)))


def said(question: str) -> str:
    """What the person says to a question, in one line; empty if nothing."""
    if (inside := host()) is not None:
        return inside.ask(f"{question} ").strip()
    return str(click.prompt(question, default="", show_default=False, err=True)).strip()


def confirmed(question: str) -> bool:
    """Whether the person says yes; Enter is no. What was typed before the question is no answer to it.

    Anything that is neither yes nor no is asked again.
    """
    if host() is not None:
        while (answer := said(f"{question} [y/N]:").lower()) not in (*YES, *NO):
            click.echo(f"{safe(answer)!r} is neither y nor n")
        return answer in YES
    if os.isatty(0):
        termios.tcflush(0, termios.TCIFLUSH)
    return click.confirm(question, default=False, err=True)


def on_terminal(program: Coroutine[Any, Any, Any]) -> Any:
    """Wait for a program of the person's that needs the terminal, such as an editor; returns what it returns."""
    inside = host()
    return inside.elsewhere(program) if inside is not None else asyncio.run(program)


def tell(lines: tuple[Line, ...], missing: tuple[Line, ...]) -> list[str]:
    """Show each configuration line that allows more than the defaults, and why it needs consent."""
    out: list[str] = []
    for line in lines:
        mark = "!" if line in missing else "·"
        out += [f"  {mark} {safe(line.text)}", f"      {safe(line.why)} ({safe(line.where)})"]
    return out


def agrees(consent: Consent, *, told: bool = False) -> bool:
    """Ask a person at the terminal for consent; False if there is no person to ask."""
    if not can_ask(no_input=False):
        return False
    if not told:
        click.echo("This project's configuration asks for more than the defaults:", err=True)
        for line in tell(consent.missing, consent.missing):
            click.echo(line, err=True)
    return confirmed("Do you agree, for this folder and exactly these lines?")
