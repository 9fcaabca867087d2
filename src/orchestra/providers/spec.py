"""A provider spec as a person types it: `KIND[:ARG]` or `NAME[:MODEL]`. Pure, and light: the command line needs it."""

from __future__ import annotations

import os

FILES = ("scripted", "local")  # kinds whose argument is a file


def from_here(spec: str) -> str:
    """A provider spec as a person gives it, with its file's path made absolute from the current folder."""
    name, _, argument = spec.partition(":")
    return f"{name}:{os.path.abspath(argument)}" if name in FILES and argument else spec
