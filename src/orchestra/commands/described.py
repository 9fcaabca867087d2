"""The environment of a project's commands in words: one line at a run's start, and the lines of `doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from orchestra.commands.package import PackageCopy, package_copy, package_name
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
    elif not used.note and (name := package_name(workspace)):
        python = toolbox.resolve("python")
        found = "there is no python" if isinstance(python, NoTool) else f"python is {python.path}"
        if used.source:  # a person chose `none`
            yield f"environment: none ({used.source.rstrip(':')}); {found}"
            return
        cure = "python3 -m venv .venv && .venv/bin/python -m pip install -e ."
        yield f"environment: none; {found}, which may have another copy of {name} or none. To make one: {cure}"
    if used.note:
        yield f"environment: {used.note}"


_WHY = {
    "--environment": "you typed it",
    "environment:": "the configuration names it",
    "VIRTUAL_ENV": "it is active",
    "UV_PROJECT_ENVIRONMENT": "UV_PROJECT_ENVIRONMENT names it",
    "project": "it is the project's only one",
    "poetry": "poetry made it for this folder",
}


def environment_report(toolbox: Toolbox, workspace: str) -> Iterator[tuple[bool | None, str, str]]:
    """The lines of `doctor`: whether it is well (None: worth a look), what was found, and the cure."""
    used = toolbox.environment
    if isinstance(toolbox.base, NoTool):
        yield False, f"environment: {short(used.folder, workspace)}", toolbox.base.reason
    elif used:
        python = f", Python {used.version}" if used.version else ""
        yield True, f"environment: {short(used.folder, workspace)}{python} ({_WHY.get(used.source, used.source)})", ""
        copy = package_copy(used, workspace)
        said = copy_text(copy, used.python, workspace).removeprefix("; ")
        if copy.kind == "absent":
            yield (
                True,
                f"  package {copy.name} is not installed in it: checks find it in the project, or not at all",
                "",
            )
        elif said:
            yield (
                (True if copy.kind == "files" else None),
                f"  package: {said}" if copy.kind == "files" else f"  package {copy.name}",
                said,
            )
    else:
        python_tool = toolbox.resolve("python")
        found = "none" if isinstance(python_tool, NoTool) else python_tool.path
        yield True, f"environment: none; python is {found}", ""
    if used.note:
        yield None, "environment", used.note
    if toolbox.has_node_modules:
        node = toolbox.resolve("node")
        well = not isinstance(node, NoTool)
        yield well, f"node_modules/.bin, node is {'missing' if isinstance(node, NoTool) else node.path}", "install node"
    for note in toolbox.notes:
        if "orchestra's own" in note:
            yield True, f"  {note}", ""


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
