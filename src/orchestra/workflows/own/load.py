"""Finding a person's own workflows: in this process, in the configuration, in installed packages.

Rules
1. A workflow is code on the host. What the configuration names is loaded only when it is needed, and only after the
   person agreed to the line (config/consent.py). A package that the person installed needs no consent.
2. The first that has the name is taken: this process, the configuration, the entry points.
3. A file is loaded as a script is: the folder it lies in is where its imports are looked for first.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from orchestra.core.errors import OrchestraError, UsageError
from orchestra.workflows.description import Workflow
from orchestra.workflows.own.definition import DEFINED, Definition
from orchestra.workflows.own.workflow import described, refuse_unfit
from orchestra.workflows.project import Project

GROUP = "orchestra.workflows"  # of entry points
_loaded: dict[str, ModuleType] = {}  # by path: a file is loaded once


def own_workflow(project: Project, name: str) -> Workflow | None:
    """The person's own workflow of this name; None if there is none."""
    if name in DEFINED:
        return described(DEFINED[name])
    if target := project.config.workflows.get(name):
        project.consent.require()  # rule 1
        return described(_from_file(project.base, name, target), name)
    for entry in importlib.metadata.entry_points(group=GROUP, name=name):
        return described(_from_package(entry), name)
    return None


def own_names(project: Project) -> Iterator[str]:
    """The names of the workflows that are configured or installed, without loading one."""
    yield from project.config.workflows
    yield from (entry.name for entry in importlib.metadata.entry_points(group=GROUP))


def _from_file(base: Path, name: str, target: str) -> Definition[..., Any]:
    file, _, function = target.rpartition(":")
    path = Path(os.path.normpath(base / file))
    module = _loaded.get(str(path)) or _load(path, name)
    found = getattr(module, function, None)
    if found is None:
        raise UsageError(f"workflows.{name}: {path} has no {function}")
    return refuse_unfit(found, name)


def _load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"workflows.{name}: there is no Python file {path}")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # rule 3
    sys.modules.setdefault(path.stem, module)  # types of the module are looked up by its name
    try:
        spec.loader.exec_module(module)
    except OrchestraError:
        raise
    except Exception as error:
        raise UsageError(f"workflows.{name}: {path} cannot be loaded: {type(error).__name__}: {error}") from error
    _loaded[str(path)] = module
    return module


def _from_package(entry: importlib.metadata.EntryPoint) -> Definition[..., Any]:
    try:
        found: object = entry.load()
    except OrchestraError:
        raise
    except Exception as error:
        what = f"workflow {entry.name} of an installed package ({entry.value}) cannot be loaded"
        raise UsageError(f"{what}: {type(error).__name__}: {error}") from error
    return refuse_unfit(found, entry.name)
