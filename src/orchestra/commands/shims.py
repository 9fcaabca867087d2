"""Shims: the program that a shim of pyenv or asdf would start, found by reading the files that its manager reads.

Shims are never run. This is done for pyenv and asdf only: both put shims of default tools (python, pip, node) on PATH,
and both keep the version in a plain text file. Shims of other managers are refused (commands/tools.py, rule 5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from orchestra.commands.installation import Lost, head, text

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}(?:/envs/[A-Za-z0-9][A-Za-z0-9._+-]{0,63})?")


class Shims:
    """The shims of one person, for one workspace: files of the workspace and variables choose the version."""

    def __init__(self, workspace: str, home: str, environ: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._home = home
        self._environ = environ

    def behind(self, shim: str) -> str:
        """The program that a shim would start; empty if its manager's files choose the system's program."""
        root, name = os.path.dirname(os.path.dirname(shim)), os.path.basename(shim)
        said = head(shim, 8192).decode("utf-8", "replace")
        plugins = re.findall(r"^# asdf-plugin: (\S+) ", said, re.MULTILINE)
        if plugins and os.path.isdir(f"{root}/installs"):
            return self._asdf(root, name, plugins[0])
        if os.path.isdir(f"{root}/versions") and "pyenv" in said:
            return self._pyenv(root, name)
        return shim

    def _pyenv(self, root: str, name: str) -> str:
        """PYENV_VERSION, then .python-version of the workspace or above it, then the global one, as pyenv does."""
        wish, source = self._environ.get("PYENV_VERSION", ""), "PYENV_VERSION"
        if not wish:
            wish, source = self._above(".python-version") or (text(f"{root}/version"), f"{root}/version")
        versions = [part for line in wish.splitlines() for part in re.split(r"[:\s]+", line.partition("#")[0]) if part]
        for version in versions:
            if version == "system":
                return ""
            if not _VERSION.fullmatch(version) or ".." in version:
                raise Lost(f"{source} names the version {version[:40]!r}, which is no name of one")
            if place := _installed(f"{root}/versions", version, name):
                return place
        if not versions:
            return ""  # pyenv's default is the system's program
        raise Lost(f"pyenv has no {name} of version {versions[0]} ({source}): pyenv install {versions[0]}")

    def _asdf(self, root: str, name: str, plugin: str) -> str:
        """ASDF_<PLUGIN>_VERSION, then .tool-versions of the workspace or above it, then the one at home."""
        variable = f"ASDF_{re.sub(r'[^A-Z0-9]', '_', plugin.upper())}_VERSION"
        wish, source = self._environ.get(variable, ""), variable
        if not wish:
            said, source = self._above(".tool-versions") or (text(f"{self._home}/.tool-versions"), "~/.tool-versions")
            lines = [line.partition("#")[0].split() for line in said.splitlines()]
            wish = next((" ".join(words[1:]) for words in lines if words[:1] == [plugin]), "")
        for version in wish.split():
            if version == "system":
                return ""
            if not _VERSION.fullmatch(version) or ".." in version:
                raise Lost(f"{source} names the version {version[:40]!r}, which is no name of one")
            if place := _installed(f"{root}/installs/{plugin}", version, name):
                return place
        raise Lost(f"asdf has no {name} for {plugin} {wish or '(no version set)'} ({source}): asdf install {plugin}")

    def _above(self, file: str) -> tuple[str, str] | None:
        """A file of the workspace, or of the nearest folder above it: its text and its path."""
        for folder in (self._workspace, *map(str, Path(self._workspace).parents)):
            if said := text(os.path.join(folder, file)):
                return said, os.path.join(folder, file)
        return None


def _installed(folder: str, version: str, name: str) -> str:
    """The program of this version, or of the newest one that begins with it (`3.11` finds 3.11.7)."""
    exact = f"{folder}/{version}/bin/{name}"
    if os.access(exact, os.X_OK):
        return exact
    try:
        every = [found for found in os.listdir(folder) if found.startswith(f"{version}.")]
    except OSError:
        return ""
    every.sort(key=lambda found: [int(part) if part.isdecimal() else -1 for part in re.split(r"[.+-]", found)])
    places = [f"{folder}/{found}/bin/{name}" for found in reversed(every)]
    return next((place for place in places if os.access(place, os.X_OK)), "")
