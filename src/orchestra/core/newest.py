"""Which edition of a place is the newest, what is open below the older ones, and what was last seen of a file. Pure.

Rules
1. A place is a scope's path and a name (`plan/design`). Its editions have the keys `plan/design@1.1`,
   `plan/design@2.1` …, and their steps lie below `plan/design@1/`, `plan/design@2/` … (core/editions.py).
2. When an edition begins, everything that is open below an older edition of its place is withdrawn.
3. When a file that is looked at changes, or is in conflict, the requests below editions that were made from it with
   another text are withdrawn at once: the run may have to wait for something else before it gets there again. A request
   that it does get to again is raised again (core/context.py).
4. An event costs the same whatever came before it: what is open is noted under each edition that it lies below.
5. A journal may come from anybody: a key or an outcome that does not fit is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from orchestra.core.records import Event

NUMBERED = frozenset({"Edition", "Keep", "Look", "WriteFile", "TreeHash"})  # effects whose keys are numbered by rule 1
LOOKS = frozenset({"Look", "WriteFile"})  # those of a file
_KEY = re.compile(r"(.*)@([0-9]{1,9})\.1", re.DOTALL)
_EDITION = re.compile(r".@[0-9]{1,9}$", re.DOTALL)


class Opened(NamedTuple):
    """A request or a child run that was opened below an edition, perhaps settled meanwhile."""

    name: str  # the request's id, or the child's key
    key: str  # of its step


class Newest:
    """The newest edition of each place, and the newest look at each file."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}  # by place
        self.files: dict[str, Event] = {}  # by file (`file_key`): the newest look that is settled
        self.conflicts: dict[str, Event] = {}  # by file: a look that waits for a person's decision
        self.begun: dict[str, set[str]] = {}  # by file: the run's own texts that it began to write since that look
        self._made_from: dict[str, dict[str, str]] = {}  # by a file's path: editions made from it, with its digest
        self._below: dict[str, list[Opened]] = {}  # by edition: what was opened below it

    def opened(self, key: str, name: str) -> None:
        """Note that the step with this key opened something: a request or a child run."""
        if "@" in key:
            for edition in editions_above(key):
                self._below.setdefault(edition, []).append(Opened(name, key))

    def opened_below(self, edition: str) -> list[Opened]:
        """What was opened below this edition, settled or not."""
        return list(self._below.get(edition, ()))

    def note(self, event: Event) -> list[Opened]:
        """Note the event of a numbered step. Returns what lies below an edition that it replaces (rule 2)."""
        self._note_file(event)
        found = _KEY.fullmatch(str(event.payload.get("key", "")))
        if found is None:
            return []
        place, number = found[1], int(found[2])
        before = self.numbers.get(place, 0)
        if number <= before:
            return []
        self.numbers[place] = number
        self._note_inputs(event, f"{place}@{number}/")
        return self._below.pop(f"{place}@{before}/", [])

    def doubted(self, event: Event) -> list[Opened]:
        """What lies below editions that were made from the file of this look, with another text (rule 3)."""
        said = event.payload.get("outcome")
        if event.type != "PHASE_COMPLETED" or not isinstance(said, dict):
            return []
        made = self._made_from.get(str(said.get("path", "")))
        if not made:
            return []
        same = "" if said.get("conflict") else said.get("file")
        stale = [edition for edition, digest in made.items() if digest != same]
        for edition in stale:
            del made[edition]
        return [opened for edition in stale for opened in self._below.get(edition, ())]

    def is_replaced(self, key: str) -> bool:
        """Whether a step lies below an edition that was replaced, or is the beginning of one."""
        scopes = [*editions_above(key), *([f"{key[:-2]}/"] if _KEY.fullmatch(key) else ())]
        for edition in scopes:
            place, _, number = edition[:-1].rpartition("@")
            if int(number) < self.numbers.get(place, 0):
                return True
        return False

    def _note_inputs(self, event: Event, edition: str) -> None:
        said = event.payload.get("outcome")
        inputs = said.get("inputs") if isinstance(said, dict) else None
        for given in inputs.values() if isinstance(inputs, dict) else ():
            if isinstance(given, dict) and isinstance(path := given.get("path"), str):
                self._made_from.setdefault(path, {})[edition] = str(given.get("digest", ""))

    def _note_file(self, event: Event) -> None:
        payload = event.payload
        said = payload.get("outcome") if event.type == "PHASE_COMPLETED" else payload
        if payload.get("effect") not in LOOKS or not isinstance(said, dict):
            return
        file = file_key(str(said.get("inside", "")), str(said.get("path", "")))
        if event.type == "PHASE_STARTED" and not said.get("edited"):
            self.begun.setdefault(file, set()).add(str(said.get("file", "")))
        elif event.type == "PHASE_COMPLETED" and said.get("conflict"):
            self.conflicts[file] = event
        elif event.type == "PHASE_COMPLETED":
            self.files[file] = event
            self.conflicts.pop(file, None)
            self.begun.pop(file, None)


def file_key(inside: str, path: str) -> str:
    """What a file is found by: its path, in the project or in the run's folder."""
    return f"{inside}:{path}"


def editions_above(key: str) -> Iterator[str]:
    """The editions that a key lies below, as their paths: `a@1/`, `a@1/b/c@3/` for `a@1/b/c@3/d.1`."""
    path = ""
    for part in key.split("/")[:-1]:
        path += f"{part}/"
        if _EDITION.search(part):
            yield path


def edition_of(key: str) -> str:
    """The innermost edition that a key lies below, for a person: `design@1`; empty if there is none."""
    found = list(editions_above(key))
    return found[-1].rstrip("/") if found else ""
