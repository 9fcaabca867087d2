"""The environment of a project's commands in words: one line at a run's start, and the lines of `doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from orchestra.commands.package import PackageCopy, package_copy
from orchestra.commands.tools import NoTool, Toolbox


def environment_lines(toolbox: Toolbox, workspace: str) -> Iterator[str]:
    """What a person is told when a run begins; nothing if the project has no environment and needs no choice."""
    used = toolbox.environment
    if isinstance(toolbox.base, NoTool):
        what = short(used.folder, workspace)
        cure = f"Make it anew (python3 -m venv --clear {what}), or choose another: --environment DIR"
        yield f"environment: WARNING: {what} cannot be used: {toolbox.base.reason}. {cure}"
    elif used:
        parts = [short(used.folder, workspace) + (f" ({used.source})" if used.source != "project" else "")]
        parts += [f"Python {used.version}"] if used.version else []
        parts += ["node_modules/.bin"] if toolbox.has_node_modules else []
        yield f"environment: {', '.join(parts)}" + copy_text(package_copy(used, workspace), used.python, workspace)
    elif toolbox.has_node_modules:
        yield "environment: node_modules/.bin"
    if used.note:
        yield f"environment: {used.note}"


def copy_text(copy: PackageCopy, python: str, workspace: str) -> str:
    """Which copy of the project's package commands get, to be added to the environment's line."""
    cure = f"Make it yours: {short(python, workspace)} -m pip install -e ."
    if copy.kind == "files":
        return f"; {copy.name} is your files"
    if copy.kind == "elsewhere":
        place = copy.place or "another folder"
        return f"; WARNING: {copy.name} is the files in {place}, not yours: patches will not be tested. {cure}"
    if copy.kind == "copy":
        get = "checks get" if copy.sure else "checks may get"
        place = short(copy.place, workspace)
        what = f"the copy of {copy.name} installed in {place}, not your files"
        return f"; WARNING: {get} {what}: patches will not be tested. {cure}"
    return ""


def short(path: str, workspace: str) -> str:
    """A path as a person would type it in the project."""
    inside = os.path.relpath(path, os.path.realpath(workspace))
    return path if inside.startswith("..") else inside
