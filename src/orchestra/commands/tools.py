"""Toolbox: finds the program for a tool's name, and the files of the host that the program needs. Nothing is run.

Rules
1. A name is looked up once, on the PATH of the person who started orchestra, in absolute folders only. Folders that
   every user may write to are ignored. So is everything inside the workspace, because a model writes there.
2. A program inside the workspace is used only if the configuration maps the name to it (`tools:`), or a person typed
   its path.
3. `/usr` and the like are in every sandbox. For other programs the smallest complete installation is mounted for
   reading: a venv and its base, a version of pyenv, nvm or asdf, a conda environment, a JDK, a node_modules, a package
   below /opt. Otherwise only the file is mounted: the siblings of a `bin` folder may be private. A home folder, or a
   folder above the workspace, is never mounted.
4. Links and `#!` lines are followed to the end, and each step is checked. From inside the workspace they may lead only
   to the system, to installed interpreters and to folders on PATH. So a link that a model made opens nothing else.
5. A shim is resolved by reading the files that its manager would read. Shims are never run. This is done for pyenv and
   asdf only: both put shims of default tools (python, pip, node) on PATH, and both keep the version in a plain text
   file. Shims of other managers (mise, volta, snap, rustup) are refused, with the line for `tools:` that replaces them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path

from msgspec import Struct, structs

from orchestra.config.borders import homes
from orchestra.policy.decide import wrong_tool_name
from orchestra.policy.policy import within

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")  # the host's folders in every sandbox
STAND_INS = {
    "python": ("python3",),
    "pip": ("pip3",),
    "node": ("nodejs",),
}  # used if only the other spelling is installed
_FORWARDERS = {"mise": "mise", "rtx": "mise", "volta-shim": "volta", "snap": "snap", "rustup": "rustup"}
_PACKAGED = ("/opt", "/home/linuxbrew/.linuxbrew")  # package managers put whole programs here
_MAX_STEPS = 40
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}(?:/envs/[A-Za-z0-9][A-Za-z0-9._+-]{0,63})?")


class Tool(Struct, frozen=True, kw_only=True):
    """A program to run."""

    name: str
    path: str  # absolute; no link but the last part, which is kept: Python finds its venv by this path
    prefixes: tuple[str, ...] = ()  # what it reads outside the system folders and the workspace
    folders: tuple[str, ...] = ()  # come first on its PATH
    note: str = ""


class NoTool(Struct, frozen=True, kw_only=True):
    """Why no program was found for a name, and what a person can do."""

    name: str
    reason: str


class _Lost(Exception):
    """A program cannot be used; the message has the reason."""


class Toolbox:
    """The tools of one person, for one workspace."""

    def __init__(
        self,
        path: str,
        workspace: Path,
        mapped: Mapping[str, str] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._workspace = os.path.realpath(workspace)
        self._mapped = mapped or {}
        self._environ = environ or {}
        home = self._environ.get("HOME", "")
        self._home = os.path.realpath(home) if home.startswith("/") else ""
        self._homes = homes(self._environ)
        self._known: dict[str, Tool | NoTool] = {}
        self._folders: list[str] = []
        self._inside: list[str] = []  # folders on PATH that lie in the workspace
        notes: list[str] = []
        for folder in dict.fromkeys(path.split(":")):
            if why := self._unfit(folder):
                notes.append(f"{folder or '(empty)'} on PATH is passed over: {why}")
            else:
                self._folders.append(os.path.realpath(folder))
        self.notes = tuple(notes)

    def _unfit(self, folder: str) -> str:
        if not folder.startswith("/"):
            return "it is not absolute"
        real = os.path.realpath(folder)
        if within(real, self._workspace):
            self._inside.append(real)
            return "it lies in the workspace, where a model writes"
        try:
            mode = os.stat(real).st_mode
        except OSError:
            return "it does not exist, or is closed to you"
        if not stat.S_ISDIR(mode):
            return "it is not a folder"
        return "anyone may write to it" if mode & stat.S_IWOTH else ""

    def resolve(self, name: str) -> Tool | NoTool:
        """The program for a name. The result is kept and never changes (rule 1)."""
        if name not in self._known:
            self._known[name] = self._resolve(name)
        return self._known[name]

    def resolve_path(self, path: str) -> Tool | NoTool:
        """The program at a path that a person gave, inside the workspace or not. Relative to the workspace."""
        name = os.path.basename(path)
        spelled = os.path.join(self._workspace, path)
        try:
            return self._tool(name, self._placed(spelled), note="")
        except _Lost as lost:
            return NoTool(name=name, reason=str(lost))

    def _resolve(self, name: str) -> Tool | NoTool:
        if wrong := wrong_tool_name(name):
            return NoTool(name=name, reason=wrong)
        if name in self._mapped:
            target = self._mapped[name]
            found = self.resolve_path(self._home + target[1:] if self._home and target.startswith("~/") else target)
            if isinstance(found, NoTool):
                return NoTool(name=name, reason=f"`tools:` maps {name} to {target}: {found.reason}")
            return structs.replace(found, name=name)
        try:
            for spelling in (name, *STAND_INS.get(name, ())):
                for place in self._places(spelling):
                    note = "" if spelling == name else f"there is no {name} on PATH: {spelling} is used"
                    return self._tool(name, place, note=note)
        except _Lost as lost:
            return NoTool(name=name, reason=str(lost))
        hint = self._inside_hint(name)
        reason = f"{name} is not on PATH" + (f"; {hint}" if hint else ": install it, or map it under `tools:`")
        return NoTool(name=name, reason=reason)

    # -- finding ------------------------------------------------------------------------------------------------------

    def _places(self, name: str) -> Iterator[str]:
        """The programs of this name on PATH, in PATH's order. Shims are replaced by their targets (rule 5)."""
        for folder in self._folders:
            place = os.path.join(folder, name)
            if not os.path.isfile(place) or not os.access(place, os.X_OK):
                continue
            if within(os.path.realpath(place), self._workspace):
                continue  # a link into the workspace counts as inside
            if os.path.basename(folder) != "shims":
                yield place
            elif behind := self._behind_shim(place):
                yield behind

    def _placed(self, spelled: str) -> str:
        """The path with links in its folders resolved; _Lost if there is no executable."""
        place = os.path.join(os.path.realpath(os.path.dirname(spelled)), os.path.basename(spelled))
        if not os.path.isfile(place):
            raise _Lost(f"there is no program {spelled}")
        if not os.access(place, os.X_OK):
            raise _Lost(f"{spelled} is not executable")
        return place

    def _inside_hint(self, name: str) -> str:
        """A hint if a venv in the workspace has this program: the configuration line that would use it."""
        venv = self._environ.get("VIRTUAL_ENV", "")
        inside = [*self._inside, os.path.realpath(os.path.join(venv, "bin"))] if venv.startswith("/") else self._inside
        for folder in inside:
            place = os.path.join(folder, name)
            if within(folder, self._workspace) and os.access(place, os.X_OK):
                short = os.path.relpath(place, self._workspace)
                return f"to use {short} of the workspace, write to the configuration: tools: {{{name}: {short}}}"
        return ""

    def _tool(self, name: str, place: str, *, note: str) -> Tool:
        walk = _Walk(self, trusted=not within(place, self._workspace))
        path = walk.through(place)
        hint = self._inside_hint(name) if walk.trusted else ""
        notes = [note, f"{path} is used; {hint}" if hint else "", *walk.notes]
        folders = tuple(folder for folder in walk.folders if not any(within(folder, system) for system in SYSTEM))
        return Tool(
            name=name,
            path=path,
            prefixes=_outermost(walk.prefixes),
            folders=folders,
            note="; ".join(filter(None, notes)),
        )

    # -- shims (rule 5) -----------------------------------------------------------------------------------------------

    def _behind_shim(self, shim: str) -> str:
        """The program that a shim would start; empty if its manager's files choose the system's program."""
        root, name = os.path.dirname(os.path.dirname(shim)), os.path.basename(shim)
        text = _head(shim, 8192).decode("utf-8", "replace")
        plugins = re.findall(r"^# asdf-plugin: (\S+) ", text, re.MULTILINE)
        if plugins and os.path.isdir(f"{root}/installs"):
            return self._asdf(root, name, plugins[0])
        if os.path.isdir(f"{root}/versions") and "pyenv" in text:
            return self._pyenv(root, name)
        return shim

    def _pyenv(self, root: str, name: str) -> str:
        """PYENV_VERSION, then .python-version of the workspace or above it, then the global one, as pyenv does."""
        wish, source = self._environ.get("PYENV_VERSION", ""), "PYENV_VERSION"
        if not wish:
            wish, source = self._above(".python-version") or (_text(f"{root}/version"), f"{root}/version")
        versions = [part for line in wish.splitlines() for part in re.split(r"[:\s]+", line.partition("#")[0]) if part]
        for version in versions:
            if version == "system":
                return ""
            if not _VERSION.fullmatch(version) or ".." in version:
                raise _Lost(f"{source} names the version {version[:40]!r}, which is no name of one")
            if place := _installed(f"{root}/versions", version, name):
                return place
        if not versions:
            return ""  # pyenv's default is the system's program
        raise _Lost(f"pyenv has no {name} of version {versions[0]} ({source}): pyenv install {versions[0]}")

    def _asdf(self, root: str, name: str, plugin: str) -> str:
        """ASDF_<PLUGIN>_VERSION, then .tool-versions of the workspace or above it, then the one at home."""
        variable = f"ASDF_{re.sub(r'[^A-Z0-9]', '_', plugin.upper())}_VERSION"
        wish, source = self._environ.get(variable, ""), variable
        if not wish:
            text, source = self._above(".tool-versions") or (_text(f"{self._home}/.tool-versions"), "~/.tool-versions")
            lines = [line.partition("#")[0].split() for line in text.splitlines()]
            wish = next((" ".join(words[1:]) for words in lines if words[:1] == [plugin]), "")
        for version in wish.split():
            if version == "system":
                return ""
            if not _VERSION.fullmatch(version) or ".." in version:
                raise _Lost(f"{source} names the version {version[:40]!r}, which is no name of one")
            if place := _installed(f"{root}/installs/{plugin}", version, name):
                return place
        raise _Lost(f"asdf has no {name} for {plugin} {wish or '(no version set)'} ({source}): asdf install {plugin}")

    def _above(self, file: str) -> tuple[str, str] | None:
        """A file of the workspace, or of the nearest folder above it: its text and its path."""
        for folder in (self._workspace, *map(str, Path(self._workspace).parents)):
            if text := _text(os.path.join(folder, file)):
                return text, os.path.join(folder, file)
        return None

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
        known = os.path.realpath(folder) in self._folders or (root != path and _interpreter(root))
        if not trusted and not known:
            raise _Lost(f"it leads out of the workspace to {path}, which is neither on PATH nor an interpreter's place")
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
        return packaged or version or _interpreter(root) or _environment(root)

    def user_installed(self, path: str) -> bool:
        """Whether `pip install --user` installed this program."""
        return bool(self._home) and os.path.dirname(path) == f"{self._home}/.local/bin"

    def interpreter(self, name: str) -> str:
        """The interpreter that `#!/usr/bin/env NAME` would start."""
        place = next(self._places(name), "")
        if not place:
            hint = self._inside_hint(name)
            raise _Lost(f"its first line asks for {name}, which is not on PATH" + (f"; {hint}" if hint else ""))
        return place


class _Walk:
    """Follows one program through links, `#!` lines and venvs, and collects what it needs."""

    def __init__(self, box: Toolbox, *, trusted: bool) -> None:
        self._box = box
        self.trusted = trusted
        self.prefixes: list[str] = []
        self.folders: list[str] = []
        self.notes: list[str] = []
        self._steps = 0

    def through(self, place: str) -> str:
        """Follow a program and return the path to start it by."""
        hops = list(self._hops(place))
        for hop in hops:
            if self.trusted and self._box.holds(hop):
                raise _Lost(f"{place} leads into the workspace, where a model writes: map it under `tools:`")
            self.prefixes += self._box.roots(hop, trusted=self.trusted)
            self._venv(hop)
        # Links of the alternatives system are in /etc. A sandbox has its own /etc without them, so their target is
        # started.
        path = hops[-1] if any(within(hop, "/etc") for hop in hops) else place
        self.folders += [os.path.dirname(path)] if os.path.dirname(path) not in self.folders else []
        if manager := _FORWARDERS.get(os.path.basename(hops[-1])):
            raise _Lost(f"{place} is a shim of {manager}, which runs code to find the program: map it under `tools:`")
        self._script(hops[-1])
        return path

    def _hops(self, place: str) -> Iterator[str]:
        """The path, and each path on the way if it is a link."""
        while True:
            self._steps += 1
            if self._steps > _MAX_STEPS:
                raise _Lost(f"{place}: too many links or #! lines")
            yield place
            try:
                target = os.readlink(place)
            except OSError:
                break
            place = os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(place)), target))
        if not os.path.isfile(place):
            raise _Lost(f"a link leads to {place}, which is no file")
        if os.stat(place).st_mode & stat.S_IWOTH:
            raise _Lost(f"anyone may write to {place}")

    def _venv(self, hop: str) -> None:
        """Add the installation that a venv was made from: its python needs that also if it is a copy."""
        root = os.path.dirname(os.path.dirname(hop))
        home = re.search(r"^home *= *(/.*?) *$", _text(f"{root}/pyvenv.cfg"), re.MULTILINE)
        if home:
            self.prefixes += self._box.roots(os.path.normpath(f"{home.group(1)}/python"), trusted=self.trusted)

    def _script(self, file: str) -> None:
        head = _head(file, 256)
        if head[:4] == b"\x7fELF":
            return
        words = head[2:].split(b"\n")[0].decode("utf-8", "replace").split() if head[:2] == b"#!" else []
        if not words:
            raise _Lost(f"{file} is neither a program nor a script with a #! line")
        interpreter = words[0]
        if os.path.basename(interpreter) == "env":
            names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
            if not names:
                raise _Lost(f"{file}: its first line names no interpreter")
            interpreter = names[0] if names[0].startswith("/") else self._box.interpreter(names[0])
        if not interpreter.startswith("/"):
            raise _Lost(f"{file}: its first line names {interpreter!r}, which is not absolute")
        if self._box.user_installed(file) and any(within(interpreter, system) for system in SYSTEM):
            self.notes.append("its packages in ~/.local/lib are not given: install it in a venv, or with pipx")
        if not os.path.isfile(interpreter):
            raise _Lost(f"{file}: its interpreter {interpreter} is not there")
        self.through(os.path.normpath(interpreter))


def _environment(root: str) -> bool:
    return os.path.isfile(f"{root}/pyvenv.cfg") or os.path.isdir(f"{root}/lib/node_modules")


def _interpreter(root: str) -> bool:
    """Whether a folder is an installation of Python, node, Rust, Go or Java, or a conda environment."""
    return (
        os.path.isdir(f"{root}/lib/rustlib")
        or bool(glob(f"{_plain(root)}/lib*/python3*/os.py"))
        or os.path.isdir(f"{root}/conda-meta")
        or os.path.isfile(f"{root}/lib/jvm.cfg")
        or os.path.isdir(f"{root}/pkg/tool")
        or (os.path.isfile(f"{root}/bin/node") and os.path.isdir(f"{root}/lib/node_modules"))
    )


def _plain(path: str) -> str:
    """The path with glob's special characters escaped."""
    return re.sub(r"([*?[])", r"[\1]", path)


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


def _head(path: str, size: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError:
        return b""


def _text(path: str) -> str:
    return _head(path, 4096).decode("utf-8", "replace") if os.path.isfile(path) else ""


def _outermost(paths: list[str]) -> tuple[str, ...]:
    every = list(dict.fromkeys(paths))
    return tuple(path for path in every if not any(path != other and within(path, other) for other in every))
