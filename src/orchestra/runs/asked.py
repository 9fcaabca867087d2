"""The questions of a tree of runs by their names, answered or open, for an answer that replaces another. Only reads.

Rules
1. The whole name of a question is where it is: the keys of the child runs that lead to it, and the name that the
   workflow gave it (`implement.1/colour`). A person may leave out the beginning if one question fits.
2. A question that the workspace answered (a model asked to see files) is not a person's: it has no name here. Neither
   has one of an edition that was replaced: nothing goes on from its answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from orchestra.core.errors import UsageError
from orchestra.core.reading import Request
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.settled import steps_of
from orchestra.core.text import clean, some
from orchestra.runs.find import Runs
from orchestra.runs.tree import given_name


class Asked(Struct, frozen=True):
    """A question of a tree, and where it is."""

    run: RunFolder
    keys: tuple[str, ...]  # of the child runs that lead to it
    id: str
    step: str  # its key in its run
    request: Event

    @property
    def path(self) -> tuple[str, ...]:
        return (*self.keys, self.id)

    @property
    def name(self) -> str:
        """The whole name (rule 1)."""
        return self._names[0]

    def is_called(self, name: str) -> bool:
        """Whether this is its name, or the end of it."""
        return any(f"/{one}".endswith(f"/{name}") for one in self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        given = given_name(self.id, self.step)
        return tuple("/".join((*self.keys, last)) for last in dict.fromkeys((given, self.id, self.step)))


def find_asked(runs: Runs, folder: RunFolder, name: str) -> Asked:
    """The question of this name in the run or below it; UsageError if there is none, or more than one."""
    known = list(_asked(runs, folder))
    found = [one for one in known if one.name == name] or [one for one in known if one.is_called(name)]
    if len(found) == 1:
        return found[0]
    listed = clean(some([one.name for one in found or known])) if found or known else "none"
    if found:
        raise UsageError(f"run {folder.id} has {len(found)} questions {name!r}; give the whole name: {listed}")
    raise UsageError(f"run {folder.id} has no question {name!r}; its questions: {listed}")


def _asked(runs: Runs, folder: RunFolder) -> Iterator[Asked]:
    for member in runs.members(folder):
        newest = member.summary.fold.newest
        for step in steps_of(member.summary.events).values():
            if step.intent is None or step.effect != "AskPerson" or newest.is_replaced(step.key):
                continue
            if name := Request.of(step.intent).questionId:
                yield Asked(member.folder, member.path, name, step.key, step.intent)
