"""The effects of a contracts run, and their handlers: taking a request id, looking terms up, reading test runs.

Rules
1. A request id is the next free one of the project (S3-09). Its folder is made exclusively, so that two runs that start
   at once get two ids. A run that was killed right after it made its folder takes that folder again, if it is empty.
2. A test run is read from what the runner itself wrote; what it printed is only the second choice (testreport.py).
3. A test run of a child run counts only if the files are still those that it ran on.
4. `Settle` records what the flow computed, for readers: gates, results, decisions. Files are made from it (files.py).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from orchestra.context.reading import text_of
from orchestra.context.treehash import tested_tree
from orchestra.context.walk import walk
from orchestra.core.command import CommandOutcome, RunCommand
from orchestra.core.context import Handlers, Step
from orchestra.core.effects import Effect, digest_of
from orchestra.core.errors import OddFile
from orchestra.core.files import MIB, read_bounded
from orchestra.core.reading import effect_of, key_of, outcome_as
from orchestra.core.records import Event
from orchestra.core.run import MOST_ARTIFACT, RunFolder
from orchestra.core.text import clean_output
from orchestra.workflows.contracts.merging import Terms
from orchestra.workflows.contracts.places import Places, next_request
from orchestra.workflows.contracts.storage import Manifest
from orchestra.workflows.contracts.testcommand import Runner
from orchestra.workflows.contracts.testreport import MOST_BYTES, PRINTING, report_too_long
from orchestra.workflows.contracts.testruns import TestRun, run_of
from orchestra.workflows.project import Project
from orchestra.workflows.workspace import make_folder

_MOST_FILES = 5_000  # that are searched for identifiers
_CHECK = "check-"  # the names of a child run's checks


class Taken(Struct, frozen=True):
    """The id of a request, and what was there when it began."""

    request: str
    manifest: Manifest
    knowledge: str = ""  # knowledge.yaml


class TakeRequest(Effect[Taken], frozen=True):
    """Take the next request id of the project (rule 1)."""

    projectHash: str
    outcome: ClassVar[Any] = Taken


class FoundTerms(Struct, frozen=True):
    """What was found of some terms: paths of the project, and identifiers that its files have."""

    paths: tuple[str, ...]
    identifiers: tuple[str, ...]


class LookUp(Effect[FoundTerms], frozen=True):
    """Look paths and identifiers up in the project's files. Only reads."""

    terms: Terms

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = FoundTerms


class Runs(Struct, frozen=True):
    """The outcome of ReadTests: None if there is no test run, or the files are others by now (rule 3)."""

    found: TestRun | None


class ReadTests(Effect[Runs], frozen=True):
    """Read the results of a test run: of the step with this key, in this run or in a child run's last check."""

    runner: Runner
    of: str = ""  # the key of a step of this run
    child: str = ""  # the id of a child run
    line: str | UnsetType = UNSET  # the command without the options for its report, for readers

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Runs

    def identity(self) -> str:
        return digest_of(["ReadTests", replace(self, line=UNSET)])


class Settled(Struct, frozen=True):
    """The outcome of Settle."""

    value: Any


class Settle(Effect[Settled], frozen=True):
    """Record what the flow computed (rule 4)."""

    value: Any

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Settled

    def identity(self) -> str:
        return digest_of(["Settle"])  # it follows from what is recorded; new words of a later version are no drift

    def public(self) -> dict[str, Any]:
        return {}


class Handling:
    """The handlers of these effects, for one run."""

    def __init__(self, project: Project, child_folder: Path) -> None:
        """`child_folder` is where the child runs are that run tests."""
        self._project = project
        self._children = child_folder

    @property
    def handlers(self) -> Handlers:
        return {TakeRequest: self.take, LookUp: self.look_up, ReadTests: self.read_tests, Settle: self.settle}

    async def take(self, effect: TakeRequest, step: Step) -> Taken:
        places, root = Places(effect.projectHash), self._project.workspace
        folder = root / places.contracts
        make_folder(root, places.contracts)  # refuses a link on the way
        return Taken(_taken(folder, redo=step.redo), self._manifest(), _text(root / places.session / "knowledge.yaml"))

    def _manifest(self) -> Manifest:
        there = {name: name for name in ("CLAUDE.md", "AGENTS.md") if (self._project.workspace / name).is_file()}
        return Manifest(claude_md=there.get("CLAUDE.md"), agents_md=there.get("AGENTS.md"))

    async def look_up(self, effect: LookUp, step: Step) -> FoundTerms:
        return await asyncio.to_thread(_look_up, self._project.workspace, effect.terms)

    async def read_tests(self, effect: ReadTests, step: Step) -> Runs:
        if not effect.child:
            folder, events = step.ledger.folder, step.ledger.events
            return Runs(_read(folder, effect, [event for event in events if key_of(event) == effect.of]))
        folder = RunFolder(self._children / effect.child)
        events = self._project.store.all_events(folder)
        found = _read(folder, effect, [event for event in events if key_of(event).startswith(_CHECK)])
        now = await asyncio.to_thread(tested_tree, self._project.workspace)
        return Runs(found if found and found.tree and found.tree == now else None)

    async def settle(self, effect: Settle, step: Step) -> Settled:
        return Settled(effect.value)


def _taken(folder: Path, *, redo: bool) -> str:
    """The next request id, whose folder is made now (rule 1)."""
    while True:
        names = [name for name in os.listdir(folder) if (folder / name).is_dir()]
        wanted = next_request(names)
        last = f"R{int(wanted[1:]) - 1}"
        if redo and last in names and not any((folder / last).iterdir()):
            return last
        try:
            (folder / wanted).mkdir()
        except FileExistsError:
            continue
        return wanted


def _text(path: Path) -> str:
    try:
        return read_bounded(path, MIB).decode("utf-8")
    except (OSError, OddFile, UnicodeDecodeError):
        return ""


def _look_up(workspace: Path, terms: Terms) -> FoundTerms:
    """Which of the terms are in the project."""
    files = [file.path for file in walk(workspace).files]
    folders = {folder for path in files for folder in _folders(path)}
    paths = tuple(path for path in terms.paths if path.rstrip("/") in folders or path in files)
    missing, found = set(terms.identifiers), []
    for path in files[:_MOST_FILES]:
        if not missing:
            break
        text = _searched(workspace, path)
        here = [word for word in missing if word in text]
        missing.difference_update(here)
        found += here
    return FoundTerms(paths, tuple(word for word in terms.identifiers if word in found))


def _searched(workspace: Path, path: str) -> str:
    found = text_of(workspace, path)
    return f"{path}\n{found.text}" if found else path


def _folders(path: str) -> Iterable[str]:
    parts = path.split("/")[:-1]
    return ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _read(folder: RunFolder, effect: ReadTests, events: Iterable[Event]) -> TestRun | None:
    """The last test run among these events, as its runner reported it (rule 2)."""
    ends = [event for event in events if event.type == "PHASE_COMPLETED" and effect_of(event) == RunCommand.__name__]
    outcome = outcome_as(ends[-1], CommandOutcome) if ends else None
    if outcome is None:
        return None
    printed = _printed(folder, outcome) if effect.runner in PRINTING else ""
    found = run_of(outcome, effect.runner, _reports(folder, outcome), printed, ends[-1].ts)
    return replace(found, command=effect.line or found.command)


def _reports(folder: RunFolder, outcome: CommandOutcome) -> Iterator[bytes]:
    """The reports that a test run left; ContractError at one that is too long to be read."""
    for one in outcome.artifacts:
        if not one.path.endswith((".xml", ".json")):
            continue
        if one.bytes > MOST_BYTES:
            raise report_too_long()
        yield folder.recorded(one, MOST_BYTES)


def _printed(folder: RunFolder, outcome: CommandOutcome) -> str:
    """All that a test run printed: the outcome quotes only its beginning and its end."""
    if outcome.artifact is None:
        return outcome.output
    return clean_output(folder.recorded(outcome.artifact, MOST_ARTIFACT).decode("utf-8", "replace"))
