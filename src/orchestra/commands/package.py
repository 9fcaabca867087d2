"""Which copy of the project's own package a command gets: the project's files, or an installed one. Nothing is run.

Rules
1. The name comes from pyproject.toml, setup.cfg or setup.py, as text; a name that is computed is not known.
2. An installation is found by its metadata in the environment (`*.dist-info`, `*.egg-link`). It is the project's files
   if it is editable: `direct_url.json` names a folder, or a `.pth` file puts a folder of the project on the path.
3. An installed copy hides patches: a check would test it, green or red, whatever a patch does. In doubt (the package
   lies in the project's root, where `python -m` finds it first) the text says "may".
"""

from __future__ import annotations

import configparser
import os
import re
from glob import glob
from typing import Literal
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from orchestra.commands.environment import Environment, poetry_section, read_toml
from orchestra.commands.installation import plain, text
from orchestra.policy.policy import within

_MOST = 1 << 20
_PATH_FILES = 200  # `.pth` files that are read
Kind = Literal["unnamed", "absent", "files", "elsewhere", "copy"]


class PackageCopy(Struct, frozen=True):
    """Which copy of the project's package an environment holds."""

    kind: Kind
    name: str = ""
    place: str = ""  # of an installed copy, or of the folder that an editable installation leads to
    sure: bool = True  # False: the project's files may be found before the copy


def package_copy(environment: Environment, workspace: str) -> PackageCopy:
    """Which copy of the project's package commands get in this environment."""
    root = os.path.realpath(workspace)
    name = package_name(root)
    if not name or not environment:
        return PackageCopy("unnamed", name)
    for site in sorted(glob(f"{plain(environment.real)}/lib/python3*/site-packages")):
        if found := _installed(site, name, root):
            return found
    return PackageCopy("absent", name)


def package_name(root: str) -> str:
    """The name of the project's package (rule 1); empty if it has none."""
    project = read_toml(f"{root}/pyproject.toml")
    poetry = poetry_section(project)
    for section in (project.get("project"), poetry):
        if isinstance(section, dict) and isinstance(section.get("name"), str):
            return str(section["name"])
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text(f"{root}/setup.cfg", _MOST))
        if name := parser.get("metadata", "name", fallback=""):
            return name
    except configparser.Error:
        pass  # not a file that its own tool could read either
    found = re.search(r"""\bname\s*=\s*["']([A-Za-z0-9._-]+)["']""", text(f"{root}/setup.py", _MOST))
    return found.group(1) if found else ""


def normal_name(name: str) -> str:
    """The name of a package as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed(site: str, name: str, root: str) -> PackageCopy | None:
    try:
        entries = sorted(os.listdir(site))
    except OSError:
        return None
    wanted = normal_name(name)
    for entry in entries:
        base, dot, kind = entry.rpartition(".")
        if kind == "egg-link" and normal_name(base) == wanted:
            return _editable(text(f"{site}/{entry}").split("\n")[0].strip(), name, root)
        if kind in ("dist-info", "egg-info") and dot and normal_name(base.split("-")[0]) == wanted:
            return _by_metadata(site, entry, entries, name, root)
    return None


def _by_metadata(site: str, entry: str, entries: list[str], name: str, root: str) -> PackageCopy:
    """The copy that `*.dist-info` is about (rule 2)."""
    try:
        origin = msgspec.json.decode(text(f"{site}/{entry}/direct_url.json", _MOST), type=_Origin)
    except msgspec.DecodeError:
        origin = _Origin()
    if origin.dir_info.editable:
        return _editable(unquote(urlsplit(origin.url).path), name, root)
    for file in [one for one in entries if one.endswith(".pth")][:_PATH_FILES]:
        for line in text(f"{site}/{file}", 1 << 16).splitlines():
            folder = line.strip()
            if folder.startswith("/") and within(os.path.realpath(folder), root):
                return PackageCopy("files", name)
    if _put_first(root):
        return PackageCopy("files", name)
    return PackageCopy("copy", name, site, sure=not _in_root(root, name))


class _Folder(Struct, frozen=True):
    editable: bool = False


class _Origin(Struct, frozen=True):
    """`direct_url.json` of an installed package (PEP 610)."""

    url: str = ""
    dir_info: _Folder = _Folder()


def _editable(folder: str, name: str, root: str) -> PackageCopy:
    real = os.path.realpath(folder) if folder.startswith("/") else ""
    return PackageCopy("files", name) if real and within(real, root) else PackageCopy("elsewhere", name, real)


def _in_root(root: str, name: str) -> bool:
    """Whether the package's folder or module lies in the project's root."""
    module = normal_name(name).replace("-", "_")
    return os.path.isdir(f"{root}/{module}") or os.path.isfile(f"{root}/{module}.py")


def _put_first(root: str) -> bool:
    """Whether pytest is configured to put folders of the project first on the path."""
    tool = read_toml(f"{root}/pyproject.toml").get("tool")
    pytest = tool.get("pytest") if isinstance(tool, dict) else None
    options = pytest.get("ini_options") if isinstance(pytest, dict) else None
    if isinstance(options, dict) and options.get("pythonpath"):
        return True
    return any(
        re.search(r"^pythonpath\s*=\s*\S", text(f"{root}/{file}", _MOST), re.MULTILINE)
        for file in ("pytest.ini", "tox.ini", "setup.cfg")
    )
