"""The files that a task of a graph is given: those of its plan, and what the tasks before it handed over.

Rules
1. In `$ORCHESTRA_INPUTS/<task>/…` a task sees, for reading, the files that the tasks it depends on directly left in
   `$ORCHESTRA_ARTIFACTS`. A task that left none has no folder there.
2. The files are copies of the run's artifacts: masked, bounded, each as its digest was recorded. One that is missing or
   changed since is an error: the task would work on something else than was handed over.
3. The folder is in the run's scratch folder, and is deleted when the task has ended.
"""

from __future__ import annotations

import os
from pathlib import Path

from orchestra.commands.scratch import Scratch
from orchestra.core.command import InputFile, RunCommand
from orchestra.core.ledger import Ledger
from orchestra.core.reading import StepEvent, key_of, outcome_of
from orchestra.core.records import ArtifactRef, utf8
from orchestra.core.run import MOST_ARTIFACT

INPUTS = "ORCHESTRA_INPUTS"  # the variable with the folder of what earlier tasks left
KEPT = "files"  # the folder, in a task's artifacts, with the files that it left
_FOLDER, _FILE = 0o700, 0o600  # of the user that commands run as


class Handed:
    """The files that the tasks of one run handed over."""

    def __init__(self, ledger: Ledger, scratch: Scratch, run_as: int | None) -> None:
        """`run_as` is the user that commands run as, if orchestra is root and they are not."""
        self._ledger = ledger
        self._scratch = scratch
        self._run_as = run_as
        self._left: dict[str, tuple[ArtifactRef, ...]] | None = None  # by task; None: the journal is not read yet

    def took(self, task: str, files: tuple[ArtifactRef, ...]) -> None:
        """Remember what a task left."""
        self._known()[task] = files

    def folder(self, effect: RunCommand) -> Path | None:
        """The folder of a task's inputs, filled; None if it depends on no task that left something.

        UsageError if a file is missing or changed (rule 2).
        """
        known = self._known()
        given = {name: files for name in effect.after if (files := known.get(name))}
        if not given:
            return None
        folder = self._scratch.fresh(f"{effect.task}~inputs", mode=_FOLDER)
        for name, files in given.items():
            for ref in files:
                path = folder / name / ref.path.removeprefix(_prefix(name))
                path.parent.mkdir(parents=True, exist_ok=True, mode=_FOLDER)
                data = self._ledger.folder.recorded(ref, MOST_ARTIFACT)
                with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE), "wb") as file:
                    file.write(data)
        if self._run_as is not None and os.geteuid() == 0:
            for place, _, names in os.walk(folder):
                for one in (place, *(os.path.join(place, name) for name in names)):
                    os.chown(one, self._run_as, self._run_as)
        return folder

    def _known(self) -> dict[str, tuple[ArtifactRef, ...]]:
        """What each task left, by the journal: an earlier process may have run it."""
        if self._left is None:
            self._left, tasks = {}, dict[str, str]()
            for event in self._ledger.events:
                if event.type == "PHASE_STARTED" and (task := StepEvent.of(event).task):
                    tasks[key_of(event)] = task
                elif event.type == "PHASE_COMPLETED" and (task := tasks.get(key_of(event), "")):
                    self._left[task] = tuple(
                        ArtifactRef(ref.path, ref.bytes, ref.sha256)
                        for ref in outcome_of(event).artifacts
                        if ref.path.startswith(_prefix(task))
                    )
        return self._left


def _prefix(task: str) -> str:
    return f"artifacts/{task}/{KEPT}/"


def materialised(folder: Path, files: tuple[InputFile, ...]) -> Path:
    """Write `inputs.files` as a layer over the workspace (S2-135). Their names were checked with the plan."""
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(utf8(file.content))
    for place, _, names in os.walk(folder):
        os.chmod(place, 0o755)
        for name in names:
            os.chmod(os.path.join(place, name), 0o644)
    return folder
