"""What commands/failures.py must know of a project: its own modules, what it requires, how packages are installed.

Rules
1. Files are read, nothing is run. A link is not followed, and a tree is walked only to a bound: what was not looked at
   counts as the project's own, because in doubt a failure is the code's.
2. Environments, node_modules and hidden folders hold what others made: they are not looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property

import msgspec

from orchestra.commands.described import short
from orchestra.commands.environment import USUAL, Environment, is_venv, poetry_section, read_toml
from orchestra.commands.installation import text
from orchestra.commands.package import normal_name
from orchestra.policy.policy import within

_MOST = 1 << 20
_MOST_ENTRIES = 200_000  # of a workspace that is walked
_CODE = re.compile(r"\.(?:py|pyi|pyx|pxd|so|c|cpp|rs|js|cjs|mjs|ts|tsx|jsx|json|vue)$|\..*\.so$")
_PROGRAM_FOLDERS = ("", "bin/", "scripts/", "script/", "tools/", "dev/", "ci/")
_NAME = re.compile(r"^\s*[\"']?([A-Za-z0-9][A-Za-z0-9._-]*)")


class ProjectFiles:
    """The files of one project, looked at when a check has failed."""

    def __init__(self, workspace: str, environment: Environment) -> None:
        self._root = os.path.realpath(workspace)
        self._environment = environment

    def has_module(self, name: str) -> bool:
        if name.startswith("@"):
            return name in self._node_names
        top = re.split(r"[./]", name)[0]
        return top in self._modules or self._unseen or name in self._node_names

    def has_program(self, name: str) -> bool:
        return any(os.path.lexists(f"{self._root}/{folder}{name}") for folder in _PROGRAM_FOLDERS)

    def has_path(self, path: str) -> bool:
        whole = os.path.normpath(os.path.join(self._root, path))
        if not within(whole, self._root):
            return False
        first = os.path.relpath(whole, self._root).split("/")[0]
        installed = first in (*USUAL, "node_modules") or (
            self._environment.inside and within(whole, self._environment.real)
        )
        return not installed

    def requires(self, name: str) -> bool:
        return normal_name(name) in self._required or name in self._node_required

    def install(self, package: str) -> str:
        python = self._environment.python
        if not python:
            return f"python3 -m venv .venv && .venv/bin/python -m pip install {package}"
        shown = short(python, self._root)
        if not os.path.exists(f"{self._environment.bin}/pip") and os.path.isfile(f"{self._root}/uv.lock"):
            return f"uv pip install --python {shown} {package}"
        return f"{shown} -m pip install {package}"

    def install_node(self, package: str) -> str:
        files = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lockb": "bun", "bun.lock": "bun"}
        manager = next((name for file, name in files.items() if os.path.isfile(f"{self._root}/{file}")), "npm")
        if not package or package in self._node_required:
            return f"{manager} install"
        return f"npm install --save-dev {package}" if manager == "npm" else f"{manager} add --dev {package}"

    # -- what the workspace holds -------------------------------------------------------------------------------------

    @cached_property
    def _names(self) -> tuple[frozenset[str], bool]:
        """The names of folders and of files of code, without their endings; and whether the walk was cut short."""
        found: set[str] = set()
        seen = 0
        for place, folders, files in os.walk(self._root):
            folders[:] = [
                name
                for name in folders
                if not name.startswith(".")
                and name not in ("node_modules", "__pycache__")
                and not is_venv(f"{place}/{name}")
            ]
            found.update(folders)
            found.update(name.split(".")[0] for name in files if _CODE.search(name))
            seen += len(folders) + len(files)
            if seen > _MOST_ENTRIES:
                return frozenset(found), True
        return frozenset(found), False

    @property
    def _modules(self) -> frozenset[str]:
        return self._names[0]

    @property
    def _unseen(self) -> bool:
        return self._names[1]

    # -- what it requires ---------------------------------------------------------------------------------------------

    @cached_property
    def _required(self) -> frozenset[str]:
        """The packages of Python that the project's files name, normalised."""
        return frozenset(normal_name(name) for name in (*self._from_pyproject(), *self._from_lists()))

    def _from_pyproject(self) -> Iterator[str]:
        whole = read_toml(f"{self._root}/pyproject.toml")
        project, tool = whole.get("project"), whole.get("tool")
        for section in (project, whole.get("build-system"), poetry_section(whole), tool):
            yield from _dependencies(section)
        yield from _texts(whole.get("dependency-groups"))
        pipfile = read_toml(f"{self._root}/Pipfile")
        for section in (pipfile.get("packages"), pipfile.get("dev-packages")):
            yield from section if isinstance(section, dict) else ()

    def _from_lists(self) -> Iterator[str]:
        """Names in requirements*.txt, in setup.cfg and setup.py, and in the lists that tox has."""
        try:
            entries = sorted(os.scandir(self._root), key=lambda entry: entry.name)
        except OSError:
            entries = []
        lists = [
            entry.name for entry in entries if re.fullmatch(r".*(?:requirements|constraints).*\.(?:txt|in)", entry.name)
        ]
        for folder in ("requirements", "requires", "deps"):
            if os.path.isdir(place := f"{self._root}/{folder}"):
                lists += [f"{folder}/{name}" for name in sorted(os.listdir(place)) if name.endswith((".txt", ".in"))]
        for file in lists:
            for line in text(f"{self._root}/{file}", _MOST).splitlines():
                if found := _NAME.match(line):
                    yield found.group(1)
        for line in text(f"{self._root}/setup.cfg", _MOST).splitlines():
            if line.startswith((" ", "\t")) and (found := _NAME.match(line)):
                yield found.group(1)
        yield from re.findall(
            r"[\"']([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(?:[<>=!~;][^\"']*)?[\"']",
            text(f"{self._root}/setup.py", _MOST),
        )

    @cached_property
    def _package(self) -> dict[str, object]:
        return _json(f"{self._root}/package.json")

    @cached_property
    def _node_required(self) -> frozenset[str]:
        sections = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")
        lists = [self._package.get(section) for section in sections]
        return frozenset(str(name) for each in lists if isinstance(each, dict) for name in each)

    @cached_property
    def _node_names(self) -> frozenset[str]:
        """The names of the project's own node packages: its own, and those of its workspaces one or two levels down."""
        found = {str(self._package.get("name") or "")}
        for folder in ("packages", "apps", "libs", "modules", "."):
            try:
                names = os.listdir(f"{self._root}/{folder}")[:1000]
            except OSError:
                continue
            found |= {str(_json(f"{self._root}/{folder}/{name}/package.json").get("name") or "") for name in names}
        return frozenset(found - {""})


def listening_ports() -> frozenset[int]:
    """The TCP ports of this machine on which something listens on loopback or on every address."""
    found: set[int] = set()
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in text(file, _MOST).splitlines()[1:]:
            parts = line.split()
            if len(parts) > 3 and parts[3] == "0A":  # LISTEN
                found.add(int(parts[1].rpartition(":")[2], 16))
    return frozenset(found)


def _dependencies(section: object) -> Iterator[str]:
    """The names in the lists and tables of dependencies of a TOML section, at any depth.

    No other list counts: `packages`, `py-modules` or `known-first-party` name the project's own modules, new ones too.
    """
    if not isinstance(section, dict):
        return
    for key, value in section.items():
        if "depend" in key or key == "requires":
            if isinstance(value, dict):  # of poetry: name -> version; a list is an extra with its packages
                yield from (str(name) for name, what in value.items() if not isinstance(what, list))
            yield from _texts(value)
        elif isinstance(value, dict):
            yield from _dependencies(value)


def _texts(value: object) -> Iterator[str]:
    for entry in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        if isinstance(entry, str) and (found := _NAME.match(entry)):
            yield found.group(1)
        elif isinstance(entry, list):
            yield from _texts(entry)


def _json(path: str) -> dict[str, object]:
    try:
        found = msgspec.json.decode(text(path, _MOST))
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
