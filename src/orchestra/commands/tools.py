"""Toolbox: finds the program for a tool's name, and the files of the host that the program needs. Nothing is run.

Rules
1. A name is looked up once: in the project's environment (commands/environment.py), in its `node_modules/.bin`, then on
   the PATH of the person who started orchestra, in absolute folders only. Folders of PATH that every user may write to
   are ignored. So is everything else inside the workspace, because a model writes there, and the environment that
   orchestra itself runs in: its packages are not the project's.
2. Another program inside the workspace is used only if the configuration maps the name to it (`tools:`), or a person
   typed its path. So is a program of orchestra's own environment.
3. `/usr` and the like are in every sandbox. For other programs the smallest complete installation is mounted for
   reading: a venv and its base, a version of pyenv, nvm or asdf, a conda environment, a JDK, a node_modules, a package
   below /opt. Otherwise only the file is mounted: the siblings of a `bin` folder may be private. A home folder, or a
   folder above the workspace, is never mounted. What the environment's Python needs is mounted for every command.
4. Links and `#!` lines are followed to the end, and each step is checked. From inside the workspace they may lead only
   to the system, to installed interpreters and to folders on PATH. So a link that a model made opens nothing else.
5. Shims of pyenv and asdf are replaced by their targets (commands/shims.py). Shims of other managers (mise, volta,
   snap, rustup) are refused, with the line for `tools:` that replaces them.
6. A name that the environment has, but that cannot be used there, is not looked up elsewhere: another Python would run
   the checks on other packages.
"""

from __future__ import annotations

import copy
import os
import stat
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from msgspec import Struct, structs

from orchestra.commands.environment import Environment, own_environment
from orchestra.commands.installation import SYSTEM, Lost, is_environment, is_interpreter
from orchestra.commands.shims import Shims
from orchestra.commands.walk import Walk, links
from orchestra.config.borders import homes
from orchestra.policy.decide import wrong_tool_name
from orchestra.policy.policy import within

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STAND_INS = {
    "python": ("python3",),
    "pip": ("pip3",),
    "node": ("nodejs",),
}  # used if only the other spelling is installed
_MANAGERS = (
    "conda",
    "hatch",
    "nox",
    "pdm",
    "pipenv",
    "pipx",
    "poetry",
    "pre-commit",
    "tox",
    "uv",
)  # bring their own Python
_PACKAGED = ("/opt", "/home/linuxbrew/.linuxbrew")  # package managers put whole programs here


class Tool(Struct, frozen=True, kw_only=True):
    """A program to run."""

    name: str
    path: str  # absolute; no link but the last part, which is kept: Python finds its venv by this path
    prefixes: tuple[str, ...] = ()  # what it reads outside the system folders and the workspace
    folders: tuple[str, ...] = ()  # come first on its PATH
    note: str = ""
    by_path: bool = False  # a person wrote its path


def together(tools: tuple[Tool, ...]) -> Tool:
    """The programs of a pipe as one: what all of them read, and what all of them need on PATH."""
    if len(tools) == 1:
        return tools[0]
    return structs.replace(
        tools[0],
        prefixes=_outermost([prefix for tool in tools for prefix in tool.prefixes]),
        folders=tuple(dict.fromkeys(folder for tool in tools for folder in tool.folders)),
        note="; ".join(dict.fromkeys(tool.note for tool in tools if tool.note)),
    )


class NoTool(Struct, frozen=True, kw_only=True):
    """Why no program was found for a name, and what a person can do."""

    name: str
    reason: str


class Toolbox:
    """The tools of one person, for one workspace."""

    def __init__(
        self,
        path: str,
        workspace: Path,
        mapped: Mapping[str, str] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        environment: Environment | None = None,
        own: str | None = None,
    ) -> None:
        """`environment` is the project's; without one, names are looked up on PATH alone.

        `own` is the environment that orchestra runs in, if it must not serve; empty: it may.
        """
        self.environment = Environment() if environment is None else environment
        self._workspace = self._folder = os.path.realpath(workspace)
        self._mapped = mapped or {}
        self._environ = environ or {}
        home = self._environ.get("HOME", "")
        self._home = os.path.realpath(home) if home.startswith("/") else ""
        self._homes = homes(self._environ)
        self._shims = Shims(self._workspace, self._home, self._environ)
        self._own = own_environment() if own is None else own
        self._known: dict[str, Tool] = {}
        self._folders: list[str] = []
        self._node = f"{self._workspace}/node_modules/.bin" if environment is not None else ""
        self._inside: list[str] = []  # folders on PATH that lie in the workspace
        notes: list[str] = []
        for folder in dict.fromkeys(path.split(":")):
            if why := self._unfit(folder):
                notes.append(f"{folder or '(empty)'} on PATH is passed over: {why}")
            else:
                self._folders.append(os.path.realpath(folder))
        self.notes = tuple(notes)

    def inside(self, folder: Path) -> Toolbox:
        """The same tools, for commands that run in this folder of the workspace: a person's paths start there."""
        inner = copy.copy(self)
        inner._folder = os.path.realpath(folder)
        return inner

    def _unfit(self, folder: str) -> str:
        if not folder.startswith("/"):
            return "it is not absolute"
        real = os.path.realpath(folder)
        if within(real, self._workspace):
            self._inside.append(real)
            return "it lies in the workspace, where a model writes"
        if self.is_own(real):
            return "it belongs to orchestra's own environment, whose packages are not the project's"
        try:
            mode = os.stat(real).st_mode
        except OSError:
            return "it does not exist, or is closed to you"
        if not stat.S_ISDIR(mode):
            return "it is not a folder"
        return "anyone may write to it" if mode & stat.S_IWOTH else ""

    def resolve(self, name: str) -> Tool | NoTool:
        """The program for a name. A program that was found is kept and never changes (rule 1)."""
        if name not in self._known:
            found = self._resolve(name)
            if isinstance(found, NoTool):
                return found  # a person may install it while a run waits
            self._known[name] = found
        return self._known[name]

    def resolve_path(self, path: str) -> Tool | NoTool:
        """The program at a path that a person gave, inside the workspace or not. Relative to where it runs."""
        return self._at(os.path.join(self._folder, path))

    def _at(self, spelled: str) -> Tool | NoTool:
        name = os.path.basename(spelled)
        try:
            return structs.replace(self._tool(name, self._placed(spelled), written=True), by_path=True)
        except Lost as lost:
            return NoTool(name=name, reason=str(lost))

    def _resolve(self, name: str) -> Tool | NoTool:
        if wrong := wrong_tool_name(name):
            return NoTool(name=name, reason=wrong)
        if name in self._mapped:
            target = self._mapped[name]
            at_home = self._home and target.startswith("~/")
            found = self._at(self._home + target[1:] if at_home else os.path.join(self._workspace, target))
            if isinstance(found, NoTool):
                return NoTool(name=name, reason=f"`tools:` maps {name} to {target}: {found.reason}")
            return structs.replace(found, name=name)
        spellings = (name, *STAND_INS.get(name, ()))
        try:
            for place in (place for spelling in spellings for place in self._served(spelling)):
                return self._tool(name, self._placed(place), written=True)
            for spelling in spellings:
                for place in self._places(spelling):
                    note = "" if spelling == name else f"there is no {name} on PATH: {spelling} is used"
                    return self._tool(name, place, note=note)
        except Lost as lost:
            return NoTool(name=name, reason=str(lost))
        return NoTool(name=name, reason=self._missing(name))

    def _missing(self, name: str) -> str:
        """Why there is no program of this name, and the cure."""
        used = self.environment
        cure = (
            f"install it: {used.python} -m pip install {name}"
            if used.python
            else "install it, or map it under `tools:`"
        )
        if self._own and os.access(f"{self._own}/bin/{name}", os.X_OK):
            return f"{name} is only in orchestra's own environment ({self._own}), which serves no command; {cure}"
        if hint := self._inside_hint(name):
            return f"{name} is not on PATH; {hint}"
        return f"{name} is neither in {used.folder} nor on PATH; {cure}" if used else f"{name} is not on PATH: {cure}"

    # -- finding ------------------------------------------------------------------------------------------------------

    def _served(self, name: str) -> Iterator[str]:
        """The programs of this name in the environment and in node_modules, usable or not (rule 6)."""
        if self.environment.moved:
            used = self.environment
            raise Lost(f"{used.folder} leads to {os.path.realpath(used.folder)} since it was found: start a new run")
        for folder in filter(None, (self.environment.bin, self._node)):
            if os.path.lexists(place := f"{folder}/{name}"):
                yield place

    def serves(self, path: str) -> bool:
        """Whether a path lies in the project's environment or in its node_modules."""
        folders = (self.environment.real, os.path.dirname(self._node))
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        return any(folder and within(real, folder) for folder in folders)

    def is_own(self, path: str) -> bool:
        """Whether a path lies in the environment that orchestra runs in, and that is not the project's (rule 1)."""
        return bool(self._own) and within(path, self._own) and not within(self._own, self._workspace)

    def _places(self, name: str) -> Iterator[str]:
        """The programs of this name on PATH, in PATH's order. Shims are replaced by their targets (rule 5)."""
        for folder in self._folders:
            place = os.path.join(folder, name)
            if not os.path.isfile(place) or not os.access(place, os.X_OK):
                continue
            if within(os.path.realpath(place), self._workspace):
                continue  # a link into the workspace counts as inside
            if any(self.is_own(hop) for hop in links(place)):
                continue
            if os.path.basename(folder) != "shims":
                yield place
            elif behind := self._shims.behind(place):
                yield behind

    def _placed(self, spelled: str) -> str:
        """The path with links in its folders resolved; Lost if there is no executable."""
        place = os.path.join(os.path.realpath(os.path.dirname(spelled)), os.path.basename(spelled))
        if not os.path.isfile(place):
            raise Lost(f"there is no program {spelled}")
        if not os.access(place, os.X_OK):
            raise Lost(f"{spelled} is not executable")
        return place

    def _inside_hint(self, name: str) -> str:
        """A hint if a folder on PATH that lies in the workspace has this program: the line that would use it."""
        for folder in self._inside:
            if os.access(place := os.path.join(folder, name), os.X_OK):
                short = os.path.relpath(place, self._workspace)
                return f"to use {short} of the workspace, write to the configuration: tools: {{{name}: {short}}}"
        return ""

    def _tool(self, name: str, place: str, *, note: str = "", written: bool = False) -> Tool:
        """The program at a place. `written`: a person chose the place, by a path or as the environment (rule 2)."""
        walk = Walk(self, trusted=not within(place, self._workspace), written=written)
        path = walk.through(place)
        if self.environment.python and not written and walk.python and name not in _MANAGERS:
            note = note or f"{name} is not in {self.environment.folder}: {path} is used, with another Python's packages"
        folders = tuple(folder for folder in walk.folders if not any(within(folder, system) for system in SYSTEM))
        return Tool(
            name=name,
            path=path,
            prefixes=_outermost(walk.prefixes),
            folders=folders,
            note="; ".join(filter(None, (note, *walk.notes))),
        )

    @cached_property
    def base(self) -> Tool | NoTool | None:
        """What every command is given so that it can start the environment's Python (rule 3); None: there is none."""
        if not self.environment.python:
            return None
        try:
            return self._tool("python", self._placed(self.environment.python), written=True)
        except Lost as lost:
            return NoTool(name="python", reason=str(lost))

    @property
    def has_node_modules(self) -> bool:
        """Whether the project has programs of node packages."""
        return bool(self._node) and os.path.isdir(self._node)

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """What is mounted for every command: the base of the environment, and node, if the project has packages."""
        found = [self.base, self.resolve("node") if self.has_node_modules else None]
        return _outermost([prefix for tool in found if isinstance(tool, Tool) for prefix in tool.prefixes])

    def variables(self, tool: Tool) -> dict[str, str]:
        """PATH and VIRTUAL_ENV of a command that runs this tool. A tool that a person named by path comes first."""
        used = self.environment
        node = self.resolve("node") if self.has_node_modules else None
        ours = [folder for folder in (used.bin, self._node) if folder and os.path.isdir(folder)]
        elsewhere = is_environment(os.path.dirname(os.path.dirname(tool.path))) and not self.serves(tool.path)
        foreign = elsewhere and tool.by_path  # not a tool of pipx: that serves this environment
        folders = [*tool.folders, *ours] if foreign else [*ours, *tool.folders]
        folders += node.folders if isinstance(node, Tool) else ()
        found = {"PATH": ":".join(dict.fromkeys((*folders, SYSTEM_PATH)))}
        if used and not foreign:
            found["VIRTUAL_ENV" if os.path.isfile(f"{used.real}/pyvenv.cfg") else "CONDA_PREFIX"] = used.real
        return found

    # -- what may be given (rules 3 and 4) ----------------------------------------------------------------------------

    def holds(self, path: str) -> bool:
        """Whether the path itself, not the target of a last link, is inside the workspace."""
        return within(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)), self._workspace)

    def roots(self, path: str, *, trusted: bool) -> tuple[str, ...]:
        """What must be mounted for this path to exist in a sandbox: nothing, an installation, or only the file."""
        if any(within(path, given) for given in (*SYSTEM, "/etc")) or self.holds(path):
            return ()
        root = self._root(path)
        folder = os.path.dirname(path)
        known = os.path.realpath(folder) in self._folders or (root != path and is_interpreter(root))
        if not trusted and not known:
            raise Lost(f"it leads out of the workspace to {path}, which is neither on PATH nor an interpreter's place")
        real = os.path.realpath(root)
        return (root,) if real == root or within(real, self._workspace) else (root, real)

    def _root(self, path: str) -> str:
        if within(path, "/nix/store"):
            return "/nix/store"  # a program there consists of many folders
        parts = path.split("/")
        if "node_modules" in parts:
            return "/".join(parts[: parts.index("node_modules") + 1])
        folder = os.path.dirname(path)
        root = os.path.dirname(folder)
        if os.path.basename(folder) not in ("bin", "sbin", "libexec") or not self._fit_to_give(root):
            return path
        return root

    def _fit_to_give(self, root: str) -> bool:
        real = os.path.realpath(root)
        if real == "/" or within(self._workspace, real) or any(within(home, real) for home in self._homes):
            return False
        if os.path.dirname(real) == "/home":
            return False  # another user's home
        packaged = any(within(real, place) and real != "/opt" for place in _PACKAGED)
        version = os.path.basename(os.path.dirname(os.path.dirname(real))) == "installs"  # asdf, mise: of one tool
        return packaged or version or is_interpreter(root) or is_environment(root)

    def user_installed(self, path: str) -> bool:
        """Whether `pip install --user` installed this program."""
        return bool(self._home) and os.path.dirname(path) == f"{self._home}/.local/bin"

    def interpreter(self, name: str) -> str:
        """The interpreter that `#!/usr/bin/env NAME` would start."""
        place = next(self._served(name), "") or next(self._places(name), "")
        if not place:
            hint = self._inside_hint(name)
            raise Lost(f"its first line asks for {name}, which is not on PATH" + (f"; {hint}" if hint else ""))
        return place


def _outermost(paths: list[str]) -> tuple[str, ...]:
    every = list(dict.fromkeys(paths))
    return tuple(path for path in every if not any(path != other and within(path, other) for other in every))
