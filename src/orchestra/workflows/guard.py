"""The project's own files that need protection from patches: closed folders, and code that orchestra runs.

Rules
1. Closed is wherever runs and what they leave are kept, each path up to its {run_id}. The project itself cannot be
   closed, so a file named by {run_id} alone beside the project's own closes nothing.
2. Code is what the configuration has orchestra run, or take for a model's word: programs of tools and providers, the
   person's own workflows with the modules beside them that they have imported, files of replies, and the configuration
   itself.
3. Whatever Python can import from the folder of such a workflow's file, or below it, is code as well, also a file that
   is not there yet: it may hide a module that the workflow imports.
4. Closed as well is what was installed: the environment of the project's commands, `.venv` and `node_modules`. What
   commands run must not come from a patch, and a patch there would be lost with the next installation.

Paths are returned as the configuration has them. The gatekeeper follows their links when it checks a patch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from orchestra.commands.environment import Environment, is_venv
from orchestra.config.borders import Place
from orchestra.config.sections import RUN_ID, Config
from orchestra.core.errors import UsageError
from orchestra.patch.safety import CONFIGURATION
from orchestra.policy.policy import within
from orchestra.providers.choose import Models, Providers
from orchestra.workflows.own.definition import DEFINED


def environment_folders(project: str, environment: Environment) -> tuple[str, ...]:
    """Rule 4: the folders and files of environments, as absolute paths, also those that do not exist yet."""
    usual = (f"{project}/.venv", f"{project}/node_modules", f"{project}/venv/pyvenv.cfg")
    venv = (f"{project}/venv",) if is_venv(f"{project}/venv") else ()
    used = (environment.folder, environment.real) if environment.inside else ()
    return tuple(dict.fromkeys((*usual, *venv, *used)))


def closed_folders(config: Config, place: Place) -> tuple[str, ...]:
    """The closed folders (rule 1), as absolute paths, also those that do not exist yet."""
    paths = config.paths
    fixed = (text.partition(RUN_ID)[0].rpartition("/")[0] for text in (paths.logs, paths.artifacts, paths.report))
    folders = dict.fromkeys(place.named(text) for text in (paths.runs, *fixed) if text)
    return tuple(folder for folder in folders if folder != place.base)


def code_files(config: Config, file: Path | None, place: Place, providers: Providers, models: Models) -> dict[str, str]:
    """The code files (rule 2): absolute paths, each with a description. `file` is the configuration file."""
    found = {place.named(target): f"the program of `tools.{name}`" for name, target in config.tools.items()}
    for name, target in config.workflows.items():
        found[place.named(target.rpartition(":")[0])] = f"the code of `workflows.{name}`"
    found |= _loaded_code()
    specs = {f"roles.{name}": spec for name, spec in (*config.roles.items(), *models.roles.items())}
    specs |= {f"providers.{name}": name for name in config.providers}
    for where, spec in ({"--provider": models.default} | specs).items():
        try:
            choice = providers.choose(spec)
        except UsageError:
            continue  # a wrong provider spec names no file
        if choice.argument and choice.kind != "replay":  # the argument of `replay` is a run
            found[place.named(choice.argument)] = f"the file of `{where}`"
        if "/" in choice.entry.program:
            found[place.named(choice.entry.program)] = f"the program of `{where}`"
    if file is not None:
        found[str(file.absolute())] = CONFIGURATION
    return found


def code_folders(config: Config, place: Place) -> dict[str, str]:
    """Rule 3: whole paths of the folders, each with what lies in it."""
    files = {os.path.abspath(own.function.__code__.co_filename): own.name for own in DEFINED.values()}
    files |= {place.named(target.rpartition(":")[0]): name for name, target in config.workflows.items()}
    return {os.path.dirname(file): f"code that workflow {name} may import" for file, name in files.items()}


def _loaded_code() -> dict[str, str]:
    """The files of the workflows that this process has defined, and of the modules it has loaded from beside them."""
    files = {os.path.abspath(own.function.__code__.co_filename): own.name for own in DEFINED.values()}
    folders = {os.path.dirname(file): name for file, name in files.items()}
    below = tuple(f"{folder.rstrip('/')}/" for folder in folders)
    found: dict[str, str] = {}
    for module in tuple(sys.modules.values()) if folders else ():
        file = getattr(module, "__file__", None) or "/"
        # There may be thousands of modules, and this is done for each gate: few have a path that needs normalising.
        if not file.startswith("/") or "/." in file or "//" in file:
            file = os.path.abspath(file)
        if not file.startswith(below):
            continue
        for folder, name in folders.items():
            if within(file, folder):
                found[file] = f"code that workflow {name} imports"
    return found | {file: f"the code of workflow {name}" for file, name in files.items()}
