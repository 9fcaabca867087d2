"""Asks a person at the terminal for consent, before anything runs."""

from __future__ import annotations

import sys

import click

from orchestra.cli.text import safe
from orchestra.config.consent import Consent, Line


def can_ask(*, no_input: bool) -> bool:
    """Whether a person at a terminal can be asked."""
    return not no_input and sys.stdin.isatty() and sys.stderr.isatty()


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
    return click.confirm("Do you agree, for this folder and exactly these lines?", default=False, err=True)
