"""Adopting a run: show what a foreign run is and would be allowed to do, and record that a person vouches for it.

Rules
1. Nothing in a foreign run is trusted before its adoption. It is described from its journal, with the policy it would
   get here (policy/binding.py), so that a person sees both what it asks for and what it would get.
2. The whole tree is adopted: a foreign child run would stop its parent. A kill between two runs leaves the first
   adopted and the others foreign; adopting again continues.
3. From then on the run belongs to this project: its workspace is set to this folder.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from orchestra.core.adoption import Adoption
from orchestra.core.errors import UsageError
from orchestra.core.reading import Request, outcome_of
from orchestra.core.records import now
from orchestra.core.run import RunFolder
from orchestra.core.store import Store
from orchestra.core.text import brief, count
from orchestra.core.vouching import Standing, wrong_place
from orchestra.policy.binding import said
from orchestra.runs.answers import who
from orchestra.runs.find import Runs, RunSummary
from orchestra.runs.terms import Terms
from orchestra.workflows.project import Project


class Candidate(Struct, frozen=True):
    """A run of the tree that would be adopted."""

    summary: RunSummary
    standing: Standing


def candidates(store: Store, runs: Runs, folder: RunFolder) -> list[Candidate]:
    """The foreign runs of this run's tree, the root first."""
    tree = runs.tree(_root(runs, folder))
    # The key is made if there is none, so that exactly what is described is sealed afterwards.
    found = [Candidate(runs.summary(one, keep=False), store.standing(one, keep=False, to_write=True)) for one in tree]
    for one in found:
        if why := wrong_place(one.summary.folder, one.summary.created):
            raise UsageError(
                f"run {one.summary.folder.id} cannot be adopted: {why}. Give its folder back its own name and place"
            )
    return [one for one in found if one.summary.foreign]


def adopt(project: Project, runs: list[Candidate]) -> None:
    """Record the adoption of these runs, as they are now, by this project."""
    for one in runs:
        folder = one.summary.folder
        with project.store.claim(folder):
            standing = project.store.standing(folder, keep=False, to_write=True)
            if (standing.lines, standing.sha256) != (one.standing.lines, one.standing.sha256):
                raise UsageError(f"run {folder.id} has changed since you looked at it; look again")
            adoption = Adoption(
                lines=standing.lines, sha256=standing.sha256, workspace=str(project.path), by=who(), at=now()
            )
            project.store.adopt(folder, adoption)


def described(terms: Terms, one: Candidate, project: Path) -> Iterator[tuple[str, str]]:
    """What a run is and would be allowed to do: names and values, in the order in which they are shown."""
    created, events = one.summary.created, one.standing.events
    facts, state = one.summary.facts, one.summary.fold.state
    yield "run", one.summary.folder.id
    yield "goal", brief(facts.goal, _SHOWN)
    yield "foreign", one.summary.foreign
    yield "made", f"{created.ts}, workflow {one.summary.workflow}, {count(len(events), 'event')}, {state.status}"
    yield "belongs to", f"{one.standing.workspace or 'no folder'}; adopted, to {project}"
    granted = terms.policy(created)
    asked = terms.recorded_policy(created)
    for name, field in _POWERS.items():
        wish, gets = said(getattr(asked, field)), said(getattr(granted, field))
        yield name, gets if wish == gets else f"{gets} (it asks for {wish}; this project does not allow more)"
    for argv in facts.params.commands:
        yield "runs as a check", shlex.join(argv)
    if facts.params.asker == "person":
        yield "its commands", "count as typed by a person: they need no whitelist"
    yield "asks a person", f"{facts.approval or 'as the project says'}"
    models = terms.models(one.summary.folder, created)
    yield "models", ", ".join(filter(None, (models.default, *models.roles.values()))) or "none"
    if facts.params.opened:
        yield "shows models", f"{said(facts.params.opened)}, also where that is a secret by its name"
    yield "budget", "none" if models.maxBudgetUsd is None else f"{models.maxBudgetUsd:g} USD"
    if models.maxTimeSec is not None:
        yield "time", f"{models.maxTimeSec:g} seconds of work"
    grants = Counter(outcome_of(event).by or "?" for event in events if event.type == "APPROVAL_GRANTED")
    if grants:
        givers = ", ".join(list(grants)[:5])
        yield "approvals in it", f"{grants.total()}, which would count as given: {givers}"
    for name, event in one.summary.fold.pending.items():
        request = Request.of(event)
        yield "waits with", f"{name}: {brief(request.summary or request.question, _SHOWN)}"


_SHOWN = 2_000  # characters of a goal or a request
_POWERS = {
    "containment": "tier",
    "tools": "whitelist",
    "files": "fs",
    "reads": "reads",
    "writes": "writes",
    "network": "domains",
    "seconds a task": "max_task_sec",
    "seconds in all": "max_total_sec",
    "tries again": "max_retries",
    "at once": "max_workers",
    "may use": "bounds",
}


def _root(runs: Runs, folder: RunFolder) -> RunFolder:
    """The highest run of the tree that is in this project: a run may have been copied without its parent."""
    try:
        return runs.root_of(folder)
    except UsageError:
        return folder
