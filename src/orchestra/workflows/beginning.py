"""What every root run records at its start: the commit it begins from, the project's rules, the configured files.

Rules
1. Everything here is read once. The runs below, and a fork, use what the root recorded (handlers.py).
2. A project without rules and without such lines in its configuration adds nothing to its runs.
3. The commit is read as files, without git. If that cannot be, the run begins all the same, and a notice says why.
4. The configuration may be a clone's: it opens no file that is a secret by its name. Only a person does (`--context`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from orchestra.config.sections import ContextSection
from orchestra.context.rules import FILE, find_rules, record_of
from orchestra.core.errors import OrchestraError, UsageError
from orchestra.core.globs import wrong_glob
from orchestra.core.reading import ContextFacts
from orchestra.core.records import GitFacts, utf8
from orchestra.core.run import RunFolder
from orchestra.core.secretfiles import secret_by_name
from orchestra.core.text import and_more, clean
from orchestra.patch.git.repository import find_repository
from orchestra.patch.git.status import uncommitted
from orchestra.policy.policy import Policy

_NAMED = 5  # files in a notice


def about_another(run_id: str, policy: Policy) -> dict[str, Any]:
    """The facts of an undo or an apply: the run that it is about, and the policy of now."""
    return {"inputRunId": run_id, "aside": True, "policy": msgspec.to_builtins(policy)}


class Recorded(Struct, frozen=True):
    """What a run begins with: facts for RUN_CREATED, files, and notices for a person."""

    facts: Mapping[str, Any]
    files: Mapping[str, bytes]
    notices: tuple[str, ...] = ()


def refuse_context(section: ContextSection) -> None:
    """UsageError if the section `context` of the configuration has a line that cannot be used."""
    for file in section.show:
        if os.path.isabs(file) or os.path.normpath(file).split("/")[0] in ("..", "."):
            raise UsageError(f"context.show: {file} is not a file of the project; write its path in the project")
        if why := secret_by_name(file):  # rule 4
            raise UsageError(
                f"context.show: {file} is a secret by its name ({why}); only a person can open it: --context {file}"
            )
    for glob in section.hide:
        if why := wrong_glob(glob):
            raise UsageError(f"context.hide: {glob!r}: {why}")


def shown_to_models(path: Path, section: ContextSection, mask: Callable[[str], str]) -> Recorded:
    """The rules of the project in this folder, and the files that its configuration shows or hides, for a new run."""
    chosen = ContextFacts(tuple(map(os.path.normpath, section.show)), section.hide)
    facts: dict[str, Any] = {} if chosen == ContextFacts() else {"context": msgspec.to_builtins(chosen)}
    rules = find_rules(path) if section.rules else None
    if rules is None or not rules.files:
        return Recorded(facts, {}, _unread(rules.unread if rules else ()))
    data = record_of(rules, mask)
    folder = RunFolder(path)  # only the file's name counts in a reference
    reference = folder.reference(folder.path / FILE, data)
    return Recorded({**facts, "rules": msgspec.to_builtins(reference)}, {FILE: data}, _unread(rules.unread))


def begun_from(path: Path, homes: tuple[str, ...], warning: str) -> Recorded:
    """The commit that a new run begins from, and the warning with the names of uncommitted changes, if there are any.

    Nothing outside a repository (rule 3). Without a warning, nothing is said.
    """
    try:
        repository = find_repository(path, homes)
        if repository is None:
            return Recorded({}, {})
        head = repository.head()
        changed = uncommitted(repository, head) or ()
    except (OrchestraError, OSError) as error:
        return Recorded({}, {}, (f"the commit that this run begins from is not recorded: {error}",))
    facts = GitFacts(head.commit, head.branch, len(changed))
    told = f"{warning}: {_named(changed)}" if warning and changed else ""
    return Recorded({"git": msgspec.to_builtins(facts)}, {}, (told,) if told else ())


def _named(files: tuple[str, ...]) -> str:
    return clean(utf8(", ".join(files[:_NAMED])).decode()) + and_more(files, _NAMED)


def _unread(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"rules of this project that no model is told: {file}" for file in files)
