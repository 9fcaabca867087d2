"""Removes the folders of old runs: decides which may be removed, and removes them.

Rules
1. A run is removed with its child runs, and only if all of them have ended and none is being driven.
2. The runs that ended last stay, as many as the person chooses. A run also stays if a run that stays was made from it
   (forked or replayed), or if anything about it is in doubt. Each gets a reason.
3. Only run folders of this project are touched. A link, a copy of a run, or a run of another project is not.
4. A run is removed in two steps. First its folder gets a hidden name, the root before its children. Then the folder is
   deleted. So a kill leaves a complete run or none, and the next clean finds the rest by its hidden name.
5. No link is followed.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from orchestra.core.errors import JournalCorrupt, RunLocked, UsageError
from orchestra.core.files import entries_below, mode_and_size
from orchestra.core.reading import RunCreated
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder, digest
from orchestra.policy.policy import within
from orchestra.providers.choose import Models
from orchestra.runs.find import Runs, RunSummary
from orchestra.runs.terms import Terms
from orchestra.worker.removal import discard
from orchestra.workflows.project import Project


class Run(Struct, frozen=True):
    """The facts about a run that decide whether it may be removed. Small, because there may be many runs."""

    folder: RunFolder
    parent: str = ""
    workflow: str = ""
    status: str = ""  # empty if its journal is damaged
    updated: str = ""
    driven: bool = False
    run_id: str = ""  # from its journal; empty if that cannot be read
    workspace: str = ""  # empty: not recorded
    mark: str = ""  # identifies its first event
    sources: tuple[tuple[str, str], ...] = ()  # the runs it was made from, and how

    @property
    def has_ended(self) -> bool:
        return self.status in FINAL.values()


class Tree(Struct, frozen=True):
    """A run that has ended and its child runs; the root first."""

    runs: tuple[Run, ...]

    @property
    def root(self) -> Run:
        return self.runs[0]

    @property
    def id(self) -> str:
        return self.root.folder.id

    @property
    def ended(self) -> str:
        return self.root.updated

    @property
    def size(self) -> int:
        """The size of all files, in bytes."""
        return sum(_size(run.folder.path) for run in self.runs)


class Stays(Struct, frozen=True):
    """An old run that stays, and the reason."""

    run_id: str
    why: str


class Leftover(Struct, frozen=True):
    """A run that a killed clean had begun to remove (rule 4), and the child runs it had not removed yet."""

    run_id: str
    path: Path
    trees: tuple[Tree, ...]
    waits: str = ""  # why it cannot be finished yet: a child run that must stay


class Cleaning(Struct, frozen=True):
    """The project, its runs and their terms."""

    project: Project
    runs: Runs
    terms: Terms


class Sweep(Struct, frozen=True):
    """The runs that would be removed, and those that would stay."""

    going: tuple[Tree, ...]  # in the order in which they ended
    staying: tuple[Stays, ...]
    leftovers: tuple[Leftover, ...]
    newest: int  # how many stay only because they are the newest
    open: int  # how many have not ended


def look(of: Cleaning, keep: int) -> Sweep:
    """Find the runs that may be removed if the `keep` newest ended runs stay. Changes nothing."""
    runs = {found.folder.id: found for found in _found(of)}
    below: dict[str, list[str]] = {}
    for name, found in runs.items():
        below.setdefault(found.parent, []).append(name)
    leftovers = tuple(_leftovers(of, runs, below))
    trees, doubtful = _judged(of, runs, below)
    trees.sort(key=lambda tree: (tree.ended, tree.id))
    going, needed = _unneeded(of, runs, trees[: max(len(trees) - keep, 0)])
    return Sweep(
        going=tuple(going),
        staying=(*doubtful, *needed, *_lone_children(runs, leftovers)),
        leftovers=leftovers,
        newest=min(keep, len(trees)),
        open=sum(bool(found.status) and not found.has_ended for found in runs.values() if not found.parent),
    )


def remove(of: Cleaning, tree: Tree) -> tuple[str, ...]:
    """Remove a tree (rule 4); RunLocked if a run of it is driven. Returns the names that could not be removed."""
    with ExitStack() as locks:
        for run in tree.runs:
            locks.enter_context(of.project.store.claim(run.folder))
        for run in tree.runs:
            _must_be(run, of.runs.summary(run.folder, keep=False))
        hidden = [of.project.store.hide(run.folder) for run in tree.runs]
        # The root's folder is deleted last: while it exists, the next clean finishes the whole tree. The locks are
        # held meanwhile; otherwise another clean would treat the tree as left by a killed one.
        return tuple(name for path in reversed(hidden) for name in discard(path))


def _must_be(judged: Run, now: RunSummary) -> None:
    """Raise unless the claimed run is the one that was judged: an id may have been used again since."""
    if _mark(now.created) != judged.mark or now.fold.state.status not in FINAL.values():
        raise RunLocked(f"run {judged.folder.id} is not the one it was a moment ago: it stays")


def finish(of: Cleaning, leftover: Leftover) -> tuple[str, ...]:
    """Remove what a killed clean left. Returns the names that could not be removed."""
    stuck = tuple(name for tree in leftover.trees for name in remove(of, tree))
    if leftover.waits:
        return (*stuck, f"{leftover.path.name}: {leftover.waits}")
    return stuck or discard(leftover.path)


# -- what may go ------------------------------------------------------------------------------------------------------


def _found(of: Cleaning) -> Iterator[Run]:
    replayed = functools.cache(functools.partial(_replayed, of))  # most runs name the same provider
    for folder, seen in of.runs.overview():
        created = seen.created if isinstance(seen, RunSummary) else _first(of, folder)
        if created is None:
            yield Run(folder)
            continue
        facts = RunCreated.of(created)
        found = Run(
            folder,
            parent=facts.parentRunId or "",
            workflow=facts.workflow,
            run_id=created.runId,
            workspace=facts.workspace,
            mark=_mark(created),
            sources=tuple(_sources(of, folder, created, replayed)),
        )
        if isinstance(seen, RunSummary):
            state = seen.fold.state
            found = msgspec.structs.replace(found, status=state.status, updated=state.updatedAt, driven=seen.driven)
        yield found


def _mark(created: Event) -> str:
    return digest(msgspec.json.encode(created))


def _first(of: Cleaning, folder: RunFolder) -> Event | None:
    """The first event of a damaged journal, if it can be read. It has the id of the run's parent."""
    try:
        return of.project.store.first(folder)
    except JournalCorrupt:
        return None


def _family(name: str, below: dict[str, list[str]]) -> list[str]:
    """A run and the runs below it, parents before children. A run that names itself as its parent comes once."""
    found: dict[str, None] = {}
    left = [name]
    while left:
        one = left.pop()
        if one not in found:
            found[one] = None
            left += reversed(below.get(one, ()))
    return list(found)


def _tree(family: Iterable[Run]) -> Tree:
    return Tree(tuple(found for found in family if found.status))


def _judged(of: Cleaning, runs: dict[str, Run], below: dict[str, list[str]]) -> tuple[list[Tree], list[Stays]]:
    """The trees that may be removed, and the reasons why other runs that are not open must stay."""
    trees: list[Tree] = []
    doubtful: list[Stays] = []
    for root in below.get("", ()):
        family = [runs[one] for one in _family(root, below)]
        why = next((reason for one in family if (reason := _doubt(of, one, root=root))), "")
        if not why:
            trees.append(_tree(family))
        elif runs[root].has_ended or not runs[root].status:
            doubtful.append(Stays(root, why))
    return trees, doubtful


def _lone_children(runs: dict[str, Run], leftovers: tuple[Leftover, ...]) -> Iterator[Stays]:
    """Child runs whose parent is not in this project and is not being removed, or that are their own parent."""
    begun = {run.folder.id for one in leftovers for tree in one.trees for run in tree.runs}
    for name, found in runs.items():
        if found.parent and found.parent not in runs and name not in begun:
            yield Stays(name, f"it is a child of run {found.parent}, which is not here; look at it yourself")
        elif _is_below_itself(name, runs):
            yield Stays(name, "it is recorded as its own child; look at it yourself")


def _is_below_itself(name: str, runs: dict[str, Run]) -> bool:
    above, passed = runs[name].parent, {name}
    while above in runs and above not in passed:
        passed.add(above)
        above = runs[above].parent
    return above == name


def _doubt(of: Cleaning, found: Run, *, root: str) -> str:
    """Why this run, and with it the tree of `root`, must stay; empty if it may be removed (rules 1 to 3)."""
    why = _reason(of, found)
    return why if found.folder.id == root or not why else f"its child run {found.folder.id}: {why}"


def _reason(of: Cleaning, found: Run) -> str:
    folder = found.folder
    if not _is_ours(folder):
        return "it is, or has in it, a link where a run has none; look at it yourself"
    if not found.status:
        return f"its journal is damaged (orchestra verify {folder.id} says where)"
    if found.run_id != folder.id:
        return f"its journal is that of run {found.run_id}: it is a copy; look at it yourself"
    workspace = found.workspace or str(of.project.path)
    # the project folder was moved with its runs
    moved = not os.path.isdir(workspace) and within(str(folder.path), str(of.project.path))
    if workspace != str(of.project.path) and not moved:
        return f"it is of another project: {workspace}"
    if found.driven:
        return "a process drives it"
    return "" if found.has_ended else "it has not ended"


def _is_ours(folder: RunFolder) -> bool:
    """Whether this is a folder with a regular journal and lock, none of them a link (rule 5)."""
    kinds = tuple(map(_kind, (folder.path, folder.events, folder.lock)))
    return kinds[:2] == (stat.S_IFDIR, stat.S_IFREG) and kinds[2] in (stat.S_IFREG, 0)


def _kind(path: Path) -> int:
    """The file type of a path, without following a link; 0 if there is nothing."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return 0


def _unneeded(of: Cleaning, runs: dict[str, Run], going: list[Tree]) -> tuple[list[Tree], list[Stays]]:
    """The trees of `going` that no staying run was made from (rule 2), and why the others stay."""
    needed: list[Stays] = []
    configured = dict(_configured(of))
    while True:
        leaving = {run.folder.id for tree in going for run in tree.runs}
        wanted = {
            source: f"run {name} {how} it"
            for name, found in runs.items()
            if name not in leaving
            for source, how in found.sources
        } | configured
        kept = {tree.id: wanted[one.folder.id] for tree in going for one in tree.runs if one.folder.id in wanted}
        if not kept:
            return going, needed
        needed += [Stays(name, why) for name, why in kept.items()]
        going = [tree for tree in going if tree.id not in kept]


def _sources(
    of: Cleaning, folder: RunFolder, created: Event, replayed: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """The runs this one was made from, and how."""
    facts = RunCreated.of(created)
    if facts.forkedFrom:
        yield facts.forkedFrom.runId, "was forked from"
    try:
        began = msgspec.convert(facts.models, Models)
    except msgspec.ValidationError:
        return  # no source is recorded
    for models in (began, of.terms.models(folder, created)):
        for spec in filter(None, (models.default, *models.roles.values())):
            if source := replayed(spec):
                yield source, "replays"


def _configured(of: Cleaning) -> Iterator[tuple[str, str]]:
    """The runs that the configuration names as providers."""
    for name in of.project.config.providers:
        if source := _replayed(of, name):
            yield source, f"providers.{name} of {of.project.config_path} replays it"


def _replayed(of: Cleaning, spec: str) -> str:
    """The id of the run that a `replay` provider reads; empty for other providers and missing runs."""
    try:
        choice = of.project.providers.choose(spec)
        return of.runs.find(choice.argument).id if choice.kind == "replay" else ""
    except UsageError:
        return ""


# -- what a kill left -------------------------------------------------------------------------------------------------


def _leftovers(of: Cleaning, runs: dict[str, Run], below: dict[str, list[str]]) -> Iterator[Leftover]:
    for name, path in of.project.store.hidden(of.runs.roots):
        if not of.project.store.is_driven(RunFolder(path)):
            yield _leftover(of, name, path, runs, below)


def _leftover(of: Cleaning, name: str, path: Path, runs: dict[str, Run], below: dict[str, list[str]]) -> Leftover:
    families = [[runs[one] for one in _family(child, below)] for child in below.get(name, ())]
    if name in runs:  # a person restored the run: then its child runs belong to it
        families = []
    trees: list[Tree] = []
    waits = ""
    for family in families:
        why = next((f"its child run {one.folder.id}: {why}" for one in family if (why := _reason(of, one))), "")
        if not why:
            trees.append(_tree(family))
        waits = waits or why
    return Leftover(name, path, tuple(trees), waits)


def _size(top: Path) -> int:
    """The size of all files of a folder, in bytes. Files that vanish meanwhile are not counted."""
    return sum(mode_and_size(entry)[1] for entry in entries_below(top))
