"""Walk: follows one program through links, `#!` lines and virtual environments, and collects what it needs.

The rules are those of commands/tools.py. Nothing is run.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Protocol

from orchestra.commands.installation import SYSTEM, Lost, head, setting
from orchestra.policy.policy import within

_FORWARDERS = {"mise": "mise", "rtx": "mise", "volta-shim": "volta", "snap": "snap", "rustup": "rustup"}
_MAX_STEPS = 40


class Borders(Protocol):
    """What a walk asks about the paths on its way; Toolbox answers."""

    def holds(self, path: str) -> bool: ...
    def serves(self, path: str) -> bool: ...
    def is_own(self, path: str) -> bool: ...
    def roots(self, path: str, *, trusted: bool) -> tuple[str, ...]: ...
    def user_installed(self, path: str) -> bool: ...
    def interpreter(self, name: str) -> str: ...


class Walk:
    """One walk; what it found is in its fields."""

    def __init__(self, box: Borders, *, trusted: bool, written: bool) -> None:
        self._box = box
        self._written = written
        self.trusted = trusted
        self.python = False  # it is a Python, or a script for one
        self.prefixes: list[str] = []
        self.folders: list[str] = []
        self.notes: list[str] = []
        self._steps = 0

    def through(self, place: str) -> str:
        """Follow a program and return the path to start it by."""
        hops = list(self._hops(place))
        for hop in hops:
            if self.trusted and self._box.holds(hop):
                if not self._box.serves(hop):
                    raise Lost(f"{place} leads into the workspace, where a model writes: map it under `tools:`")
                self.trusted = False  # a script on PATH that asks for `python` gets the environment's
            if self._box.is_own(hop) and not self._written:
                raise Lost(f"{place} leads to orchestra's own environment, which serves no command: write its path")
            self.prefixes += self._box.roots(hop, trusted=self.trusted)
            self._venv(hop)
        # Links of the alternatives system are in /etc. A sandbox has its own /etc without them, so their target is
        # started.
        path = hops[-1] if any(within(hop, "/etc") for hop in hops) else place
        self.folders += [os.path.dirname(path)] if os.path.dirname(path) not in self.folders else []
        if manager := _FORWARDERS.get(os.path.basename(hops[-1])):
            raise Lost(f"{place} is a shim of {manager}, which runs code to find the program: map it under `tools:`")
        self._script(hops[-1])
        return path

    def _hops(self, place: str) -> Iterator[str]:
        """The path, and each path on the way if it is a link."""
        while True:
            self._steps += 1
            if self._steps > _MAX_STEPS:
                raise Lost(f"{place}: too many links or #! lines")
            yield place
            try:
                target = os.readlink(place)
            except OSError:
                break
            place = os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(place)), target))
        if not os.path.isfile(place):
            raise Lost(f"a link leads to {place}, which is no file")
        if os.stat(place).st_mode & stat.S_IWOTH:
            raise Lost(f"anyone may write to {place}")

    def _venv(self, hop: str) -> None:
        """Add the installation that a venv was made from: its python needs that also if it is a copy."""
        root = os.path.dirname(os.path.dirname(hop))
        home = setting(root, "home")
        if home.startswith("/"):
            self.prefixes += self._box.roots(os.path.normpath(f"{home}/python"), trusted=self.trusted)

    def _script(self, file: str) -> None:
        start = head(file, 256)
        if start[:4] == b"\x7fELF":
            self.python = os.path.basename(file).startswith("python")
            return
        words = start[2:].split(b"\n")[0].decode("utf-8", "replace").split() if start[:2] == b"#!" else []
        if not words:
            raise Lost(f"{file} is neither a program nor a script with a #! line")
        interpreter = words[0]
        if os.path.basename(interpreter) == "env":
            names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
            if not names:
                raise Lost(f"{file}: its first line names no interpreter")
            interpreter = names[0] if names[0].startswith("/") else self._box.interpreter(names[0])
        if not interpreter.startswith("/"):
            raise Lost(f"{file}: its first line names {interpreter!r}, which is not absolute")
        if self._box.user_installed(file) and any(within(interpreter, system) for system in SYSTEM):
            self.notes.append("its packages in ~/.local/lib are not given: install it in a venv, or with pipx")
        if not os.path.isfile(interpreter):
            raise Lost(f"{file}: its interpreter {interpreter} is not there")
        self.through(os.path.normpath(interpreter))


def links(place: str) -> Iterator[str]:
    """The paths that a link leads to, one after the other."""
    for _ in range(_MAX_STEPS):
        try:
            target = os.readlink(place)
        except OSError:
            return
        place = os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(place)), target))
        yield place
