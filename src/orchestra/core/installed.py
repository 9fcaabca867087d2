"""Optional packages, as they are installed: never a file of the same name in a project.

A person's own workflow is loaded from a folder that is then on `sys.path` (workflows/own/load.py), and a program's own
folder is there from the start. Both may lie in a project, where a model's patch may put a file of any name.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from contextlib import ExitStack
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

PROJECT_FOLDERS: set[str] = set()  # on `sys.path` for the sake of a person's own workflows


def find_installed(name: str) -> ModuleSpec | None:
    """Where an installed package is; None if it is not installed."""
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    refused = {*PROJECT_FOLDERS, "", os.getcwd(), *([os.path.dirname(os.path.abspath(program))] if program else ())}
    paths = [path for path in sys.path if path not in refused]
    for finder in sys.meta_path:
        found = PathFinder.find_spec(name, paths) if finder is PathFinder else finder.find_spec(name, None)
        if found is not None:
            return found
    return None


def import_installed(name: str) -> ModuleType:
    """An installed package, imported; ImportError if it is not installed."""
    if name in sys.modules:
        return sys.modules[name]
    spec = find_installed(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is not installed", name=name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    with ExitStack() as failed:
        failed.callback(sys.modules.pop, name, None)
        spec.loader.exec_module(module)
        failed.pop_all()
    return module
