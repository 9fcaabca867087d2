"""The project's own files that need protection from patches: closed folders, and code that orchestra runs.

Rules
1. Closed folders are those in which runs and their files are kept: each configured path up to its {run_id}. The project
   folder itself cannot be closed, so a path such as `{run_id}.log` in it closes nothing.
2. Code files are what the configuration makes orchestra run or use as a model's reply: programs of tools and providers,
   the person's own workflows, files of replies, and the configuration itself.

Paths are returned as the configuration has them. The gatekeeper follows their links when it checks a patch.
"""

from __future__ import annotations

import os
from pathlib import Path

from orchestra.config.borders import Place
from orchestra.config.sections import RUN_ID, Config
from orchestra.core.errors import UsageError
from orchestra.patch.safety import CONFIGURATION
from orchestra.providers.choose import Models, Providers
from orchestra.workflows.own.definition import DEFINED


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
    for own in DEFINED.values():
        found[os.path.abspath(own.function.__code__.co_filename)] = f"the code of workflow {own.name}"
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
