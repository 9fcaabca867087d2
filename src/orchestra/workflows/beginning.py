"""What every root run records at its start of what models are shown: the project's rules, and the configured files.

Rules
1. Everything here is read once. The runs below, and a fork, use what the root recorded (handlers.py).
2. A project without rules and without such lines in its configuration adds nothing to its runs.
3. The configuration may be a clone's: it opens no file that is a secret by its name. Only a person does (`--context`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from orchestra.context.globs import wrong_glob
from orchestra.context.rules import FILE, find_rules, record_of
from orchestra.core.errors import UsageError
from orchestra.core.reading import ContextFacts
from orchestra.core.run import RunFolder
from orchestra.core.secretfiles import secret_by_name
from orchestra.workflows.project import Project


class Recorded(Struct, frozen=True):
    """What a run begins with: facts for RUN_CREATED, files, and notices for a person."""

    facts: Mapping[str, Any]
    files: Mapping[str, bytes]
    notices: tuple[str, ...] = ()


def refuse_context(project: Project) -> None:
    """UsageError if the section `context` of the configuration has a line that cannot be used."""
    section = project.config.context
    for file in section.show:
        if os.path.isabs(file) or os.path.normpath(file).split("/")[0] in ("..", "."):
            raise UsageError(f"context.show: {file} is not a file of the project; write its path from {project.path}")
        if why := secret_by_name(file):  # rule 3
            raise UsageError(
                f"context.show: {file} is a secret by its name ({why}); only a person can open it: --context {file}"
            )
    for glob in section.hide:
        if why := wrong_glob(glob):
            raise UsageError(f"context.hide: {glob!r}: {why}")


def shown_to_models(project: Project) -> Recorded:
    """The rules of the project and the files that its configuration shows or hides, for a new root run."""
    section = project.config.context
    chosen = ContextFacts(tuple(map(os.path.normpath, section.show)), section.hide)
    facts: dict[str, Any] = {} if chosen == ContextFacts() else {"context": msgspec.to_builtins(chosen)}
    rules = find_rules(project.path) if section.rules else None
    if rules is None or not rules.files:
        return Recorded(facts, {}, _unread(rules.unread if rules else ()))
    data = record_of(rules, project.redactor.text)
    folder = RunFolder(project.path)  # only the file's name counts in a reference
    reference = folder.reference(folder.path / FILE, data)
    return Recorded({**facts, "rules": msgspec.to_builtins(reference)}, {FILE: data}, _unread(rules.unread))


def _unread(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"rules of this project that no model is told: {file}" for file in files)
