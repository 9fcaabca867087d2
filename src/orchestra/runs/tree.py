"""A tree of runs as one thing: a run, its child runs, what they wait for, what they did, and what it cost. Only reads.

Rules
1. Every function takes a run and is about it and the runs below it. The root's id stands for the whole tree.
2. A child belongs to the run that its first event names (`Runs.members`). What a fork kept of another run's children is
   shown, but nothing of it is open, can be canceled or was paid here. Nothing is open below a run that has ended:
   no process goes on with it.
3. The name of a request is the keys of the child runs that lead to it, and the name that the workflow gave it
   (`implement.1/colour`). A person needs only as much of its end as tells it from the other open ones.
4. The status of a tree is its root's own, unless a request below keeps it waiting. state.json has the run's own.
5. Events of a tree come in order of time. Whatever the clocks said, a child's events come after the step that began it
   and before the step's end.
6. `listing` reads one tree after another: only one is in memory, and every journal is read once.
7. With `sessions`, the runs of a session are one: the newest, and how many there are. The journals of the others are
   not read. A fork is a run of its own, and a foreign run hides no other.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from orchestra.core.calls import PastCall, calls_in
from orchestra.core.errors import JournalCorrupt
from orchestra.core.reading import Request, StepEvent, key_of
from orchestra.core.records import FINAL, Event, RunStatus
from orchestra.core.run import RunFolder
from orchestra.core.store import Store
from orchestra.core.text import clean
from orchestra.runs.changes import Changes
from orchestra.runs.find import Member, Runs, RunSummary

_APPROVAL = "APPROVAL_REQUESTED"


class OpenRequest(Struct, frozen=True):
    """A question or an approval that a run of a tree waits for."""

    run: RunSummary
    path: tuple[str, ...]  # from the run that was asked for
    id: str
    event: Event
    answered: bool  # by a message that no process has taken yet

    @property
    def asked(self) -> Request:
        return Request.of(self.event)

    @property
    def is_approval(self) -> bool:
        return self.event.type == _APPROVAL

    @property
    def child(self) -> str:
        """The keys that lead to its run, as text; empty for the run that was asked for."""
        return _one_line("/".join(self.path))

    @property
    def name(self) -> str:
        """The place of the question in the tree, as text (rule 3)."""
        return _one_line("/".join((*self.path, given_name(self.id, key_of(self.event)))))

    @property
    def short_names(self) -> list[str]:
        """Its names, the shortest first: each is the end of the whole one."""
        parts = self.name.split("/")
        return ["/".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]


class TreeEvent(Struct, frozen=True):
    """An event of a tree, and the run it is of."""

    member: Member
    event: Event


class Listed(Struct, frozen=True):
    """A run in the list of all runs: below its parent, in the order in which they began."""

    folder: RunFolder
    found: RunSummary | JournalCorrupt
    depth: int = 0
    status: RunStatus | None = None  # of the tree below it; None for a damaged run
    requests: tuple[OpenRequest, ...] = ()  # of the tree below it
    turns: int = 0  # of the session that the run is the newest of; 0: it stands for itself (rule 7)


class Trees:
    """The trees of the runs of a project."""

    def __init__(self, runs: Runs, store: Store) -> None:
        self._runs = runs
        self._store = store
        self.changes = Changes(runs)

    # -- what waits ---------------------------------------------------------------------------------------------------

    def requests(
        self, folder: RunFolder, known: Sequence[Member] = (), *, damaged: dict[str, JournalCorrupt] | None = None
    ) -> list[OpenRequest]:
        """Everything that a run and its open child runs wait for, in the order of the tree.

        `known` are its members, if they were read already: a run that waits for no child is not read once more.
        `damaged` is as for `members`.
        """
        if self.ended_above(folder) is not None:
            return []
        alone = len(known) == 1 and not known[0].summary.fold.children
        return self.waiting(known if alone else self._runs.members(folder, only_open=True, damaged=damaged))

    def ended_above(self, folder: RunFolder) -> RunFolder | None:
        """The nearest run above this one that has ended; None if there is none (rule 2)."""
        passed = {folder.id}
        while (parent := self._runs.began(folder).parentRunId) and parent not in passed:
            passed.add(parent)
            above = self._runs.exactly(parent)
            if above is None:
                return None
            if self._has_ended(above):
                return above
            folder = above
        return None

    def waiting(self, members: Iterable[Member]) -> list[OpenRequest]:
        """Everything that these runs wait for; whether each is answered is looked up now."""
        return [one for member in members for one in self._requests(member)]

    def _requests(self, member: Member) -> Iterator[OpenRequest]:
        pending = member.summary.fold.pending
        unanswered = self._store.unanswered(member.folder, pending)
        for name, event in pending.items():
            yield OpenRequest(member.summary, member.path, name, event, name not in unanswered)

    def status(self, folder: RunFolder) -> RunStatus:
        """The status of a tree (rule 4)."""
        own, *below = (member.summary for member in self._runs.members(folder, only_open=True))
        return status_of(own, below)

    def path(self, folder: RunFolder) -> str:
        """The keys that lead from the root to a run, as text; empty for a root, or if a run above it is not here."""
        keys: list[str] = []
        passed = {folder.id}
        while True:
            facts = self._runs.began(folder)
            if not facts.parentRunId or facts.parentRunId in passed:
                return _one_line("/".join(reversed(keys)))
            keys.append(facts.parentKey)
            passed.add(facts.parentRunId)
            above = self._runs.exactly(facts.parentRunId)
            if above is None:
                return _one_line("/".join(reversed(keys)))
            folder = above

    # -- what was done ------------------------------------------------------------------------------------------------

    def members(
        self, folder: RunFolder, *, own: bool = False, damaged: dict[str, JournalCorrupt] | None = None
    ) -> list[Member]:
        """A run and the runs below it; with `own` only the run itself.

        JournalCorrupt if one is damaged; with `damaged` the damaged child runs are put there instead, by their ids.
        """
        return [Member(self._runs.summary(folder))] if own else list(self._runs.members(folder, damaged=damaged))

    def calls(self, member: Member) -> list[PastCall]:
        """The model calls of one run. Those of a kept run are all kept: they are in no total (rule 2)."""
        calls = calls_in(member.folder, member.summary.events)
        return [msgspec.structs.replace(call, kept=True) for call in calls] if member.kept else calls

    def events(self, members: Sequence[Member]) -> Iterator[TreeEvent]:
        """The events of these runs of one tree, in order of time (rule 5). The first run is their root."""
        begun_later = {(member.path, member.folder.id): member for member in members[1:]}
        reading = _Reading()
        reading.begin(members[0])
        while (one := reading.next()) is not None:
            yield one
            step = StepEvent.of(one.event) if one.event.type == "PHASE_STARTED" else StepEvent()
            child = begun_later.pop(((*one.member.path, step.key), step.childRunId), None)
            if child is not None:
                reading.begin(child)

    # -- all trees ----------------------------------------------------------------------------------------------------

    def listing(self, *, sessions: bool = False, asides: bool = True) -> Iterator[list[Listed]]:
        """Every tree of the project, the oldest root first; each as its runs, parents before children (rules 6, 7).

        Without `asides`, an undo or an apply that has ended is left out.
        """
        folders = self._runs.folders()
        here = {folder.id for folder in folders}
        below: dict[str, list[RunFolder]] = {}
        roots: list[RunFolder] = []
        turns: dict[str, list[RunFolder]] = {}  # by session, the oldest first
        for folder in folders:
            began = self._runs.began(folder)
            if began.parentRunId in here and began.parentRunId != folder.id:
                below.setdefault(began.parentRunId, []).append(folder)
                continue
            if began.aside and not asides and self._has_ended(folder):
                continue
            roots.append(folder)
            if sessions and began.params.session and not began.forkedFrom:
                turns.setdefault(began.params.session, []).append(folder)
        newest = dict(filter(None, map(self._newest_turn, turns.values())))
        hidden = {one.id for some in newest.values() for one in some}
        seen = {folder.id for folder in _with_below((root for root in roots if root.id in hidden), below)}
        circles = (folder for folder in folders if self._runs.began(folder).parentRunId)
        for root in (*roots, *circles):  # a forged circle of parents has no root: its runs come last
            if root.id not in seen:
                first, *rest = self._tree_of(root, below, seen)
                earlier = newest.get(root.id)
                yield [first if earlier is None else msgspec.structs.replace(first, turns=len(earlier) + 1), *rest]

    def _has_ended(self, folder: RunFolder) -> bool:
        try:
            return self._runs.summary(folder, keep=False).fold.state.status in FINAL.values()
        except (JournalCorrupt, FileNotFoundError):
            return False

    def _newest_turn(self, turns: Sequence[RunFolder]) -> tuple[str, Sequence[RunFolder]] | None:
        """The newest run of a session that is not foreign, and the runs before it; None if there is none (rule 7)."""
        for number in range(len(turns) - 1, -1, -1):
            try:
                if not self._runs.summary(turns[number], keep=False).foreign:
                    return turns[number].id, turns[:number]
            except (JournalCorrupt, FileNotFoundError):
                continue
        return None

    def _tree_of(self, root: RunFolder, below: Mapping[str, list[RunFolder]], seen: set[str]) -> Iterator[Listed]:
        found: list[tuple[RunFolder, RunSummary | JournalCorrupt, int]] = []
        left = [(root, 0)]
        while left:
            folder, depth = left.pop()
            if folder.id in seen:
                continue
            seen.add(folder.id)
            try:
                found.append((folder, self._runs.summary(folder, keep=False), depth))
            except JournalCorrupt as damage:
                found.append((folder, damage, depth))
            except FileNotFoundError:
                continue  # the run was removed meanwhile
            left += ((child, depth + 1) for child in reversed(below.get(folder.id, ())))
        summaries = {folder.id: summary for folder, summary, _ in found if isinstance(summary, RunSummary)}
        over: set[str] = set()  # the runs that have ended, and those below them (rule 2)
        for folder, summary, depth in found:
            if not isinstance(summary, RunSummary):
                yield Listed(folder, summary, depth)
                continue
            if summary.fold.state.status in FINAL.values() or summary.parent in over:
                over.add(folder.id)
                yield Listed(folder, summary, depth, summary.fold.state.status)
                continue
            open_runs = list(_open_below(Member(summary), summaries)) if summary.fold.children else [Member(summary)]
            requests = [one for member in open_runs for one in self._requests(member)]
            status = status_of(summary, (member.summary for member in open_runs[1:]))
            yield Listed(folder, summary, depth, status, tuple(requests))


def _with_below(roots: Iterable[RunFolder], below: Mapping[str, list[RunFolder]]) -> Iterator[RunFolder]:
    """These runs and all runs below them."""
    left, passed = list(roots), set[str]()
    while left:
        folder = left.pop()
        if folder.id not in passed:
            passed.add(folder.id)
            yield folder
            left += below.get(folder.id, ())


def status_of(own: RunSummary, below: Iterable[RunSummary]) -> RunStatus:
    """The status of a run whose open child runs are `below` (rule 4)."""
    status = own.fold.state.status
    if status in FINAL.values():
        return status
    waits = {event.type for run in (own, *below) for event in run.fold.pending.values()}
    return status if not waits else "awaiting_approval" if _APPROVAL in waits else "awaiting_input"


def status_in(member: Member, requests: Iterable[OpenRequest]) -> RunStatus:
    """The status of a run of a tree whose open requests these are (rule 4)."""
    here = len(member.path)
    below = (one.run for one in requests if not member.kept and one.path[:here] == member.path)
    return status_of(member.summary, below)


def given_name(id: str, key: str) -> str:
    """The name that a workflow gave a request. An id with escaped characters was made from the step's key."""
    return key.removesuffix(".1") if key and any(mark in id for mark in "~%") else id


def names_of(requests: Sequence[OpenRequest]) -> list[str]:
    """A name for each of these requests: the shortest that no other of them has, else the whole one (rule 3)."""
    often = Counter(name for one in requests for name in one.short_names)
    return [next((name for name in one.short_names if often[name] == 1), one.name) for one in requests]


def named(requests: Iterable[OpenRequest], name: str) -> list[OpenRequest]:
    """The requests that this name fits: the one with this id in the run itself, or this whole name; else all others."""
    said, requests = _one_line(name), list(requests)
    for exactly in (
        [one for one in requests if one.id == name and not one.path],
        [one for one in requests if one.name == said],
    ):
        if len(exactly) == 1:
            return exactly
    return [one for one in requests if one.id == name or said in one.short_names]


def _one_line(text: str) -> str:
    """A name fit to be shown, in one line: another user may have chosen it."""
    return clean(text).replace("\n", "\\n")


def _open_below(member: Member, summaries: Mapping[str, RunSummary]) -> Iterator[Member]:
    """A run and the child runs that it waits for, of these runs."""
    left, passed = [member], {member.folder.id}
    while left:
        one = left.pop()
        yield one
        for key, (_, run_id) in reversed(one.summary.fold.children.items()):
            child = summaries.get(run_id)
            if child is not None and run_id not in passed and child.parent == one.folder.id:
                passed.add(run_id)
                left.append(Member(child, (*one.path, key)))


class _Reading:
    """Journals of one tree, read beside each other: the oldest event comes next, unless it must wait (rule 5)."""

    def __init__(self) -> None:
        self._ready: list[tuple[str, int, Member, Event, Iterator[Event]]] = []  # a heap: by time, then as they came
        self._held: dict[tuple[str, ...], list[tuple[str, int, Member, Event, Iterator[Event]]]] = {}
        self._open: Counter[tuple[str, ...]] = Counter()  # how many journals are read at or below a path
        self._count = 0

    def begin(self, member: Member) -> None:
        """Read this run too."""
        self._open.update(_prefixes(member.path))
        self._go_on(member, iter(member.summary.events))

    def next(self) -> TreeEvent | None:
        """The next event of all; None if there is no more."""
        while self._ready:
            entry = heapq.heappop(self._ready)
            _, _, member, event, events = entry
            path, allowed = _ended_by(member.path, event)
            if path is not None and self._open[path] > allowed:
                self._held.setdefault(path, []).append(entry)
                continue
            self._go_on(member, events)
            return TreeEvent(member, event)
        return None

    def _go_on(self, member: Member, events: Iterator[Event]) -> None:
        event = next(events, None)
        if event is not None:
            self._count += 1
            heapq.heappush(self._ready, (event.ts, self._count, member, event, events))
            return
        for path in _prefixes(member.path):
            self._open[path] -= 1
            for entry in self._held.pop(path, ()):
                heapq.heappush(self._ready, entry)


def _prefixes(path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The path of a run and those of the runs above it."""
    return [path[:length] for length in range(len(path) + 1)]


def _ended_by(path: tuple[str, ...], event: Event) -> tuple[tuple[str, ...] | None, int]:
    """What an event of the run at `path` ends, and how many journals at or below that may still have events.

    The last event of a run ends the run, whose own journal is one. The outcome of a step ends its child run. None: it
    ends nothing.
    """
    if event.type in FINAL:
        return path, 1
    key = key_of(event)
    return ((*path, key), 0) if key and event.type != "PHASE_STARTED" else (None, 0)
