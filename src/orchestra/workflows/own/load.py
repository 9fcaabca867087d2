"""Finds a person's own workflows: in this process, in the configuration, in installed packages.

Rules
1. A workflow is code on the host. A file named in the configuration is loaded only when it is needed, and only after
   the person agreed to the line (config/consent.py). A package that the person installed needs no consent.
2. A name is looked up in this order: the workflows that the program defines, the configuration, other workflows of
   loaded files, entry points.
3. A file is loaded like a script: while it is loaded, its folder comes first in the import path. Afterwards the folder
   comes last, so that a file added later cannot replace a module of orchestra. Optional packages are not looked for
   there (core/installed.py).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from orchestra.core.errors import OrchestraError, UsageError
from orchestra.core.installed import PROJECT_FOLDERS
from orchestra.workflows.description import Workflow
from orchestra.workflows.own.definition import DEFINED, Definition
from orchestra.workflows.own.effects import place_of
from orchestra.workflows.own.workflow import described, refuse_unfit
from orchestra.workflows.project import Project

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "orchestra.workflows"  # of entry points
_loaded: dict[str, ModuleType] = {}  # by path: a file is loaded once
_besides: dict[str, Definition[..., Any]] = {}  # defined by files that the configuration names, and their imports


def own_workflow(project: Project, name: str) -> Workflow | None:
    """The person's own workflow of this name; None if there is none."""
    defined = DEFINED.get(name)
    if defined is not None and defined is not _besides.get(name):
        return described(defined)
    if target := project.config.workflows.get(name):
        project.consent.require()  # rule 1
        return described(_from_file(project.base, name, target), name)
    if defined is not None:
        return described(defined)
    for entry in _entry_points().select(name=name):
        return described(_from_package(entry), name)
    return None


def own_names(project: Project) -> Iterator[str]:
    """The names of the workflows that are defined, configured or installed, without loading one."""
    yield from DEFINED
    yield from project.config.workflows
    yield from (entry.name for entry in _entry_points())


def installed_names() -> Iterator[tuple[str, str]]:
    """The workflows of installed packages: the name of each, and its module and function."""
    yield from ((entry.name, entry.value) for entry in _entry_points())


def _entry_points() -> EntryPoints:
    import importlib.metadata  # most commands need none of it

    return importlib.metadata.entry_points(group=GROUP)


def _from_file(base: Path, name: str, target: str) -> Definition[..., Any]:
    file, _, function = target.rpartition(":")
    path = Path(os.path.normpath(base / file))
    if str(path) not in _loaded:
        before = dict(DEFINED)
        _loaded[str(path)] = _imported(path) or _load(path, name)
        _besides.update({name: one for name, one in DEFINED.items() if before.get(name) is not one})
    found = getattr(_loaded[str(path)], function, None)
    if found is None:
        raise UsageError(f"workflows.{name}: {path} has no {function}")
    return refuse_unfit(found, name)


def _imported(path: Path) -> ModuleType | None:
    """The module of this file, if another file has imported it already: its workflows are defined once."""
    module = sys.modules.get(path.stem)
    return module if module is not None and getattr(module, "__file__", None) == str(path) else None


def _load(path: Path, name: str) -> ModuleType:
    # the stem is another module's name
    title = path.stem if path.stem not in sys.modules else f"{path.stem} of {path.parent}"
    spec = importlib.util.spec_from_file_location(title, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"workflows.{name}: there is no Python file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[title] = module  # msgspec looks up the types of its structs there
    sys.path.insert(0, str(path.parent))  # rule 3
    try:
        spec.loader.exec_module(module)
    except OrchestraError as error:
        del sys.modules[title]
        raise UsageError(f"workflows.{name}: {path} cannot be loaded: {error}") from error
    except (Exception, SystemExit) as error:
        del sys.modules[title]
        raise UsageError(f"workflows.{name}: {path} cannot be loaded: {_why(error)}") from error
    finally:
        sys.path.remove(str(path.parent))
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
            PROJECT_FOLDERS.add(str(path.parent))
    return module


def _why(error: BaseException) -> str:
    """The error that a module raised when it was loaded, with the line."""
    if isinstance(error, SystemExit):
        cure = 'put that below `if __name__ == "__main__":`'
        return f"it ends the program (SystemExit: {error}){place_of(error)}; {cure}"
    return f"{type(error).__name__}: {error}{place_of(error)}"


def _from_package(entry: EntryPoint) -> Definition[..., Any]:
    try:
        found: object = entry.load()
    except (Exception, SystemExit) as error:
        what = f"workflow {entry.name} of an installed package ({entry.value}) cannot be loaded"
        raise UsageError(f"{what}: {_why(error)}") from error
    return refuse_unfit(found, entry.name)
