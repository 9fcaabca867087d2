"""The environment of a project: the virtual environment whose programs and packages its commands use. Nothing is run.

Rules
1. The first of these counts: what a person chose (`--environment`, then `environment:` of the configuration);
   VIRTUAL_ENV, if it lies in the project; uv's UV_PROJECT_ENVIRONMENT, if it lies in the project; a lone `.venv` or
   `venv` of the project; the one that poetry made for this folder; VIRTUAL_ENV elsewhere.
2. `.venv` and `venv`, if both are there and differ: neither is used, and the reason is told.
3. A link of the project that leads out of it is not followed: others may have made it. A person may choose its target.
4. The environment that orchestra itself runs in serves no command, unless a person chose it by its path, or it is the
   project's own: it lies in the project.
5. An environment is found once, when a process begins. A folder that leads elsewhere later is refused
   (commands/sandbox.py).
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from glob import glob
from typing import Literal

from msgspec import Struct, structs

from orchestra.commands.installation import plain, setting, text
from orchestra.core.errors import UsageError
from orchestra.policy.policy import within

NONE = "none"  # what a person writes to have no environment
USUAL = (".venv", "venv")
Source = Literal["", "--environment", "environment:", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "project", "poetry"]
_MOST = 1 << 20  # bytes of a project file that are read


class Environment(Struct, frozen=True, kw_only=True):
    """The environment of a project's commands. Without a folder there is none; `note` may have the reason."""

    folder: str = ""  # absolute, as it was named
    real: str = ""  # the same without links
    source: Source = ""
    inside: bool = False  # it lies in the project
    version: str = ""  # of its Python; empty if it has none
    note: str = ""  # what a person should know about the choice

    def __bool__(self) -> bool:
        return bool(self.folder)

    @property
    def bin(self) -> str:
        """The folder of its programs."""
        return f"{self.real}/bin" if self.real else ""

    @property
    def python(self) -> str:
        """Its Python; empty if it has none."""
        return f"{self.bin}/python" if self.bin and os.path.lexists(f"{self.bin}/python") else ""

    @property
    def moved(self) -> bool:
        """Whether its name leads elsewhere than when it was found (rule 5)."""
        return bool(self.folder) and os.path.realpath(self.folder) != self.real


class Choice(Struct, frozen=True):
    """What a person chose: a folder, `none`, or nothing; and where they wrote it."""

    text: str = ""
    source: Source = ""


NO_CHOICE = Choice()


def own_environment() -> str:
    """The virtual environment that orchestra runs in; empty if it runs in an interpreter's own installation."""
    return os.path.realpath(sys.prefix) if sys.prefix != sys.base_prefix else ""


def find_environment(
    workspace: str, environ: Mapping[str, str], choice: Choice = NO_CHOICE, *, own: str | None = None
) -> Environment:
    """The environment of a project (rule 1). UsageError if a person chose a folder that is none."""
    root = os.path.realpath(workspace)
    own = own_environment() if own is None else own
    if choice.text:
        return _chosen(root, choice)
    active = _active(root, environ, own)
    if active.inside:
        return active
    note = ""
    for found in (_of_uv(root, environ), _lone(root), _of_poetry(root, environ)):
        if found and (found.real != own or found.inside):
            instead = f"not {active.folder}, which is active" if active and active.real != found.real else ""
            return _with_note(found, instead)
        note = note or found.note
    return _with_note(active, note)


def is_venv(folder: str) -> bool:
    """Whether a folder is a virtual environment or a conda environment, working or not."""
    known = os.path.isfile(f"{folder}/pyvenv.cfg") or os.path.isdir(f"{folder}/conda-meta")
    return known and os.path.isdir(f"{folder}/bin")


def recorded_form(environment: Environment, workspace: str) -> str:
    """What a run records of its environment, relative if it lies in the project; empty: it is to be found again."""
    if environment.inside:
        return os.path.relpath(environment.folder, os.path.realpath(workspace))
    return environment.folder


def _made(folder: str, root: str, source: Source, note: str = "") -> Environment:
    real = os.path.realpath(folder)
    version = setting(real, "version_info", "version") or _version_by_folder(real)
    return Environment(
        folder=folder,
        real=real,
        source=source,
        inside=within(real, root),
        version=".".join(version.split(".")[:3]),
        note=note,
    )


def _version_by_folder(real: str) -> str:
    """The version of the Python that a conda environment holds, by the name of its library folder."""
    found = sorted(glob(f"{plain(real)}/lib/python3.*"))
    return os.path.basename(found[0]).removeprefix("python") if found else ""


def _with_note(environment: Environment, note: str) -> Environment:
    return structs.replace(environment, note=note) if note else environment


def _chosen(root: str, choice: Choice) -> Environment:
    if choice.text == NONE:
        return Environment(source=choice.source)
    folder = os.path.normpath(os.path.join(root, choice.text))
    if not is_venv(folder):
        what = f"{choice.source.rstrip(':')}: {choice.text!r}" if choice.source else repr(choice.text)
        why = "there is no such folder" if not os.path.isdir(folder) else "it has no pyvenv.cfg and bin folder"
        raise UsageError(
            f"{what} is no virtual environment: {why}. Make one (python3 -m venv {choice.text}), or write none"
        )
    return _made(folder, root, choice.source)


def _active(root: str, environ: Mapping[str, str], own: str) -> Environment:
    """VIRTUAL_ENV, unless it is orchestra's own and lies elsewhere (rule 4)."""
    folder = environ.get("VIRTUAL_ENV", "")
    if not folder.startswith("/") or not is_venv(folder):
        return Environment()
    found = _made(os.path.normpath(folder), root, "VIRTUAL_ENV")
    return Environment() if found.real == own and not found.inside else found


def _of_uv(root: str, environ: Mapping[str, str]) -> Environment:
    said = environ.get("UV_PROJECT_ENVIRONMENT", "")
    folder = os.path.normpath(os.path.join(root, said)) if said else ""
    if not folder or not is_venv(folder):
        return Environment()
    found = _made(folder, root, "UV_PROJECT_ENVIRONMENT")
    return found if found.inside else _outside(said, found)


def _lone(root: str) -> Environment:
    found = [_made(f"{root}/{name}", root, "project") for name in USUAL if is_venv(f"{root}/{name}")]
    if len({one.real for one in found}) > 1:
        return Environment(note="both .venv and venv are environments, so neither is used: choose, --environment .venv")
    if found and not found[0].inside:
        return _outside(os.path.basename(found[0].folder), found[0])
    return found[0] if found else Environment()


def _outside(name: str, found: Environment) -> Environment:
    """Rule 3: no environment, and the line that chooses it."""
    return Environment(note=f"{name} leads out of the project and is not used. To use it: --environment {found.real}")


# -- poetry -----------------------------------------------------------------------------------------------------------


def _of_poetry(root: str, environ: Mapping[str, str]) -> Environment:
    """The environment in poetry's own folder. Its name has a hash of the project's path, so no other project's fits."""
    project = read_toml(f"{root}/pyproject.toml")
    poetry = poetry_section(project)
    if not isinstance(poetry, dict) and not os.path.isfile(f"{root}/poetry.lock"):
        return Environment()
    sections = (project.get("project"), poetry)
    names = [
        section["name"] for section in sections if isinstance(section, dict) and isinstance(section.get("name"), str)
    ]
    for folder in _poetry_folders(environ):
        for name in dict.fromkeys(names):
            begin = f"{folder}/{poetry_name(name, root)}-py"
            found = [place for place in sorted(glob(f"{plain(begin)}*")) if is_venv(place)]
            preferred = [
                place for place in found if place == begin + _poetry_minor(folder, os.path.basename(begin[:-3]))
            ]
            if len(found) == 1 or preferred:
                return _made((preferred or found)[0], root, "poetry")
            if found:
                each = ", ".join(map(os.path.basename, found))
                return Environment(note=f"poetry made several environments ({each}): choose, --environment {found[0]}")
    return Environment()


def poetry_name(name: str, root: str) -> str:
    """How poetry calls the environment of a project, without the version of Python (EnvManager.generate_env_name)."""
    safe = re.sub(r'[ $`!*@"\\\r\n\t]', "_", name.lower())[:42]
    digest = hashlib.sha256(os.path.normcase(root).encode("utf-8", "surrogateescape")).digest()
    return f"{safe}-{base64.urlsafe_b64encode(digest).decode()[:8]}"


def _poetry_folders(environ: Mapping[str, str]) -> Iterator[str]:
    home = environ.get("HOME", "")
    cache = environ.get("XDG_CACHE_HOME") or f"{home}/.cache"
    places = (
        environ.get("POETRY_VIRTUALENVS_PATH", ""),
        f"{environ.get('POETRY_CACHE_DIR') or f'{cache}/pypoetry'}/virtualenvs",
    )
    return (place for place in places if place.startswith("/"))


def _poetry_minor(folder: str, name: str) -> str:
    """The version of Python that `poetry env use` chose for this environment; empty if none was chosen."""
    entry = read_toml(f"{folder}/envs.toml").get(name)
    minor = entry.get("minor") if isinstance(entry, dict) else ""
    return minor if isinstance(minor, str) else ""


def poetry_section(project: Mapping[str, object]) -> object:
    """`tool.poetry` of a pyproject.toml; None if there is none."""
    tool = project.get("tool")
    return tool.get("poetry") if isinstance(tool, dict) else None


def read_toml(path: str) -> dict[str, object]:
    """A TOML file as plain values; nothing if there is none, or if it is not valid."""
    try:
        return tomllib.loads(text(path, _MOST))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
