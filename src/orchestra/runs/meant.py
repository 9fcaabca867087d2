"""Which run a person means who names none.

Rules
1. To look at: the only run that waits for the person, else the newest that a person started.
2. To decide about, to answer, to go on with or to end: the only run where that can be done. If there are several, the
   person is asked to name one, and nothing is done.
3. Only this user's own root runs are meant. A run that has ended is passed over without reading its journal, by its
   state.json: if that file is wrong, at worst no run is found, or the journal is read.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from orchestra.core.errors import JournalCorrupt, OddFile, UsageError
from orchestra.core.files import MIB
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.runs.find import Runs, RunSummary
from orchestra.runs.tree import OpenRequest, Trees


class _Status(Struct, frozen=True):
    """What is read of a state.json."""

    status: str = ""


class Meant:
    """Finds the run that a person means. `reference` is what they typed; None: they named no run."""

    def __init__(self, runs: Runs, trees: Trees) -> None:
        self._runs = runs
        self._trees = trees

    def to_look_at(self, reference: str | None) -> RunFolder:
        """The run to show (rule 1)."""
        if reference is not None:
            return self._runs.find(reference)
        waiting = [one.folder for one in self.unended() if self._open(one.folder)]
        return waiting[0] if len(waiting) == 1 else self._runs.find("last")

    def to_decide(self, reference: str | None) -> RunFolder:
        """The run whose plan, patch or command is granted or rejected (rule 2)."""
        if reference is not None:
            return self._runs.find(reference)
        fitting = [one.folder for one in self.unended() if any(r.is_approval for r in self._open(one.folder))]
        return self._only(fitting, "no run here waits for your approval")

    def to_answer(self, reference: str | None) -> RunFolder:
        """The run whose question is answered (rule 2)."""
        if reference is not None:
            return self._runs.find(reference)
        fitting = [one.folder for one in self.unended() if any(not r.is_approval for r in self._open(one.folder))]
        return self._only(fitting, "no run here asks a question")

    def to_go_on_with(self, reference: str | None) -> RunFolder:
        """The run to drive on: it has not ended, and no process drives it (rule 2)."""
        if reference is not None:
            return self._runs.find(reference)
        fitting = [one.folder for one in self.unended() if not one.driven]
        return self._only(fitting, "no run here can be gone on with: each has ended, or a process drives it")

    def to_end(self, reference: str | None) -> RunFolder:
        """The run to cancel: it has not ended (rule 2)."""
        if reference is not None:
            return self._runs.find(reference)
        return self._only([one.folder for one in self.unended()], "every run here has ended")

    def unended(self) -> Iterator[RunSummary]:
        """This user's own root runs that have not ended, oldest first (rule 3)."""
        for folder in self._runs.folders():
            if self._runs.began(folder).parentRunId or _seems_ended(folder):
                continue
            try:
                summary = self._runs.summary(folder, keep=False)
            except (JournalCorrupt, FileNotFoundError):
                continue
            if not summary.foreign and summary.fold.state.status not in FINAL.values():
                yield summary

    def _open(self, folder: RunFolder) -> list[OpenRequest]:
        return [one for one in self._trees.requests(folder) if not one.answered and not one.run.foreign]

    def _only(self, fitting: list[RunFolder], otherwise: str) -> RunFolder:
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            raise UsageError(f"{otherwise} (orchestra runs lists all)")
        raise UsageError(f"{len(fitting)} runs fit; name one of them:{self._runs.told(fitting)}")


def _seems_ended(folder: RunFolder) -> bool:
    try:
        state = msgspec.json.decode(folder.read(folder.state.name, MIB), type=_Status)
    except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return state.status in FINAL.values()
