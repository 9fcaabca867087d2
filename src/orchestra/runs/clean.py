"""Removing the folders of old runs: which may go, and how one goes.

Rules
1. A run goes with its child runs, and only if all of them have ended and nobody drives one.
2. Those that ended last stay, as many as a person wants. So does what a run that stays was made from (forked or
   replayed), and whatever is in doubt; each with the reason.
3. What is no run folder of this project's own is not touched: a link, the copy of a run, a run of another project.
4. A run goes in two steps. First its folder gets a name that is no run's, the root before its children; then that is
   removed. So a kill leaves a whole run or none, and a name by which the next time finds what is left to do.
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
    """What is kept of a run folder while all are judged: there may be many, with long journals."""

    folder: RunFolder
    parent: str = ""
    workflow: str = ""
    status: str = ""  # empty if its journal is damaged
    updated: str = ""
    driven: bool = False
    run_id: str = ""  # as its journal says it; empty if that much cannot be read
    workspace: str = ""  # empty: it does not say
    mark: str = ""  # of its first event: by this it is known again
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
        """How many bytes its files have."""
        return sum(_size(run.folder.path) for run in self.runs)


class Stays(Struct, frozen=True):
    """A run that is not new and stays all the same."""

    run_id: str
    why: str


class Leftover(Struct, frozen=True):
    """What a clean that was killed had begun to remove (rule 4), and the child runs it had not come to."""

    run_id: str
    path: Path
    trees: tuple[Tree, ...]
    waits: str = ""  # why it cannot be finished yet: a child run that must stay


class Cleaning(Struct, frozen=True):
    """Whose runs they are."""

    project: Project
    runs: Runs
    terms: Terms


class Sweep(Struct, frozen=True):
    """What would go, and what would not."""

    going: tuple[Tree, ...]  # those that ended first come first
    staying: tuple[Stays, ...]
    leftovers: tuple[Leftover, ...]
    newest: int  # of those that have ended and may go, how many stay because they are the newest
    open: int  # how many have not ended


def look(of: Cleaning, keep: int) -> Sweep:
    """What may go if the `keep` that ended last stay. Changes nothing."""
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
    """Remove a tree (rule 4); RunLocked if somebody drives a run of it. The names that could not be removed."""
    with ExitStack() as locks:
        for run in tree.runs:
            locks.enter_context(of.project.store.claim(run.folder))
        for run in tree.runs:
            _must_be(run, of.runs.summary(run.folder, keep=False))
        hidden = [of.project.store.hide(run.folder) for run in tree.runs]
        # The root's is the last to go: as long as it is there, the next clean finishes the whole tree. The locks are
        # held meanwhile, or another clean would take it for cut off.
        return tuple(name for path in reversed(hidden) for name in discard(path))


def _must_be(judged: Run, now: RunSummary) -> None:
    """Ids are used again: what has this one now, and nobody else can change, is it what was judged?"""
    if _mark(now.created) != judged.mark or now.fold.state.status not in FINAL.values():
        raise RunLocked(f"run {judged.folder.id} is not the one it was a moment ago: it stays")


def finish(of: Cleaning, leftover: Leftover) -> tuple[str, ...]:
    """Remove what a clean that was killed left. The names that could not be removed."""
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
    """The first event of a damaged journal, if that much can be read: it says whose child the run is."""
    try:
        return of.project.store.first(folder)
    except JournalCorrupt:
        return None


def _family(name: str, below: dict[str, list[str]]) -> list[str]:
    """A run and those below it, each before its own; a run that says it is below itself comes once."""
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
    """The trees that may go, and why others that have ended, or nobody can tell, may not."""
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
    """Child runs of a run that is not here, unless they are of one that was being removed; and of themselves."""
    begun = {run.folder.id for one in leftovers for tree in one.trees for run in tree.runs}
    for name, found in runs.items():
        if found.parent and found.parent not in runs and name not in begun:
            yield Stays(name, f"it is a child of run {found.parent}, which is not here; look at it yourself")
        elif _is_below_itself(name, runs):
            yield Stays(name, "it says that it is its own child; look at it yourself")


def _is_below_itself(name: str, runs: dict[str, Run]) -> bool:
    above, passed = runs[name].parent, {name}
    while above in runs and above not in passed:
        passed.add(above)
        above = runs[above].parent
    return above == name


def _doubt(of: Cleaning, found: Run, *, root: str) -> str:
    """Why this run, and with it the tree of `root`, must stay; empty if it may go (rules 1 to 3)."""
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
    moved = not os.path.isdir(workspace) and within(str(folder.path), str(of.project.path))  # with its runs in it
    if workspace != str(of.project.path) and not moved:
        return f"it is of another project: {workspace}"
    if found.driven:
        return "a process drives it"
    return "" if found.has_ended else "it has not ended"


def _is_ours(folder: RunFolder) -> bool:
    """Whether it is a real folder with a real journal and lock (rule 5)."""
    kinds = tuple(map(_kind, (folder.path, folder.events, folder.lock)))
    return kinds[:2] == (stat.S_IFDIR, stat.S_IFREG) and kinds[2] in (stat.S_IFREG, 0)


def _kind(path: Path) -> int:
    """What a name is, itself and not where it leads; 0 if there is nothing."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return 0


def _unneeded(of: Cleaning, runs: dict[str, Run], going: list[Tree]) -> tuple[list[Tree], list[Stays]]:
    """Those of `going` that no run that stays was made from (rule 2), and why the others stay."""
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
        return  # nothing of it says which
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
    """The run that a provider answers from; empty if it does not, or leads nowhere."""
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
    if name in runs:  # a person put it back: then they are its own
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
    """How many bytes the files of a folder have; what vanishes meanwhile counts for nothing."""
    return sum(mode_and_size(entry)[1] for entry in entries_below(top))
