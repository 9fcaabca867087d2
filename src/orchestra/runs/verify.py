"""Verifies a run folder against its spec, by requirement id: S1 for every run, and what its workflow adds.

Only files are read (S1-126), so runs of any implementation can be verified.

Rules
1. Each finding has the id of the requirement it breaks. A torn last line is not a finding: a kill leaves it, and the
   next open repairs it.
2. The folder may come from anybody: the amount that is read is limited, and no event is kept in memory. At most MOST
   findings of one kind are reported.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from orchestra.core.errors import DurabilityError, IllegalEvent, JournalCorrupt, OddFile
from orchestra.core.events import Events
from orchestra.core.files import MIB, entries_below, mode_and_size
from orchestra.core.ledger import artifacts_of
from orchestra.core.lines import MOST_BYTES
from orchestra.core.newest import NUMBERED
from orchestra.core.reading import Request, RunCreated, StepEvent, effect_of, key_of, outcome_of, recorded
from orchestra.core.records import FINAL, ArtifactRef, Event, Finding, WorkflowState, is_time
from orchestra.core.run import RunFolder
from orchestra.core.shape import misfit
from orchestra.core.store import Store
from orchestra.core.tables import Fold, Table
from orchestra.workflows.description import Check, Findings, Workflow

MOST = 100  # findings of one kind


def verify(
    store: Store,
    path: Path,
    workflows: Callable[[str], Workflow | None],
    read: Events | JournalCorrupt | None = None,
) -> list[Finding]:
    """All findings about a run folder, the most basic first; empty if it conforms.

    `workflows` gives a workflow by its name: its table and its own checks. `read` is the journal, or its damage, if it
    was read already.
    """
    folder = RunFolder(path)
    if not os.path.lexists(folder.events):
        return [Finding("S1-102", str(path), "there is no events.ndjson: not a run folder")]
    try:
        if isinstance(read, JournalCorrupt):
            raise read
        # First: if the journal is damaged, nothing else is reported.
        events = store.events(folder) if read is None else read
    except JournalCorrupt as error:
        where = f"events.ndjson:{error.line}" if error.line else "events.ndjson"
        return [Finding(_line_requirement(folder, error.line), where, str(error))]
    walk = _Walk(folder, workflows)
    for event in events:
        walk.see(event)
    if not walk.count:
        return [Finding("S1-61", "events.ndjson", "there is no RUN_CREATED")]
    return list(walk.findings())


class _Walk:
    """All checks, in one pass over the journal."""

    def __init__(self, folder: RunFolder, workflows: Callable[[str], Workflow | None]) -> None:
        self.count = 0
        self._folder = folder
        self._workflows = workflows
        self._found: list[tuple[Check, list[Finding]]] = []

    def see(self, event: Event) -> None:
        self.count += 1
        if self.count == 1:
            self._found = [(check, []) for check in self._checks(event)]
        for check, found in self._found:
            for finding in check.see(self.count, event):
                _add(found, finding)

    def _checks(self, created: Event) -> Iterator[Check]:
        """The checks of every run and those of the run's workflow, the most basic first."""
        folder, facts = self._folder, RunCreated.of(created)
        name = facts.workflow
        workflow = self._workflows(name)
        table = workflow.transitions if workflow else None
        if table is None and facts.own:
            table = Table.any(name)
        yield from (_Ids(folder), _Order(name, table), _Steps(), _State(folder), _Artifacts(folder), _Logs(folder))
        yield from workflow.checks(folder) if workflow else ()

    def findings(self) -> Findings:
        for check, found in self._found:
            for finding in check.end():
                _add(found, finding)
                if len(found) > MOST:
                    break  # the rest of the file may be long, and each line wrong
            yield from found


def _add(found: list[Finding], finding: Finding) -> None:
    """Add a finding, unless there are enough of its kind (rule 2)."""
    if len(found) < MOST:
        found.append(finding)
    elif len(found) == MOST:
        more = f"{finding.message}; there are more: these are the first {MOST + 1}"
        found.append(Finding(finding.requirement, finding.where, more))


def _line_requirement(folder: RunFolder, number: int) -> str:
    """The requirement that a damaged line breaks."""
    try:
        line = next(itertools.islice(folder.lines(folder.events.name, MOST_BYTES), max(number - 1, 0), None), b"")
        record = msgspec.json.decode(line if len(line) < MIB else b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError, OddFile):
        return "S1-115"
    if not isinstance(record, dict):
        return "S1-115"
    for name, requirement in (
        ("id", "S1-53"),
        ("runId", "S1-54"),
        ("ts", "S1-55"),
        ("type", "S1-56"),
        ("payload", "S1-59"),
    ):
        if name not in record:
            return requirement
    try:
        event = msgspec.convert(record, Event)
    except msgspec.ValidationError as error:
        field = re.search(r"\$\.(\w+)", str(error))
        return {"type": "S1-52", "ts": "S1-01", "phase": "S1-57", "iteration": "S1-58"}.get(
            field.group(1) if field else "", "S1-03"
        )
    if not is_time(event.ts):
        return "S1-01"
    if number == 1 and record["type"] != "RUN_CREATED":
        return "S1-61"
    return "S1-59" if misfit(event, number) else "S1-114"


class _Ids:
    """Ids: unique, in order, and the folder's own."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._before = ""
        self._ids: set[int] = set()  # hashes of ids, because an id may be long
        self._twice: list[Finding] = []

    def see(self, number: int, event: Event) -> Findings:
        where = f"events.ndjson:{number}"
        if event.id <= self._before:
            late = f"event id {event.id} does not come after {self._before}: lastEventId cannot order"
            yield Finding("S1-46", where, late)
        if (known := hash(event.id)) in self._ids and len(self._twice) <= MOST:
            self._twice.append(Finding("S1-02", where, f"event id {event.id} is not unique"))
        self._ids.add(known)
        if event.runId != self._folder.id:
            yield Finding("S1-54", where, f"runId {event.runId} is not the folder's name {self._folder.id}")
        self._before = event.id

    def end(self) -> Findings:
        return iter(self._twice)


class _Order:
    """Checks the order of events against the workflow's table."""

    def __init__(self, name: str, table: Table | None) -> None:
        self._name = name
        self._table = table
        self._state = self._table.start if self._table else ""

    def see(self, number: int, event: Event) -> Findings:
        where = f"events.ndjson:{number}"
        if self._table is None and number == 1:
            yield Finding("S1-73", where, f"unknown workflow {self._name!r}: its transitions cannot be checked")
        if self._table is None:
            return
        try:
            self._state = self._table.next(self._state, event.type, event.phase)
        except IllegalEvent as error:
            yield Finding("S1-73", where, str(error))
            self._table = None  # only the first wrong event is reported

    def end(self) -> Findings:
        return iter(())


class _Steps:
    """Steps: started before they end, granted what was asked, failed with an error."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._asked: dict[str, str] = {}  # digests, by request id
        self._requests: dict[str, str] = {}  # request ids, by step

    def see(self, number: int, event: Event) -> Findings:
        where, key = f"events.ndjson:{number}", key_of(event)
        if event.type == "PHASE_STARTED":
            self._open.add(key)
        elif event.type in ("PHASE_COMPLETED", "PHASE_FAILED"):
            if key not in self._open and effect_of(event) not in NUMBERED:  # an edition has no beginning of its own
                yield Finding("S1-73", where, f"outcome of step {key!r}, which was not started")
            self._open.discard(key)
        elif event.type == "APPROVAL_REQUESTED":
            request = Request.of(event)
            self._asked[request.approvalId] = request.digest
            self._requests[key] = request.approvalId
        elif event.type == "PATCH_PRODUCED" and key in self._requests:  # a person's own version of what was requested
            self._asked[self._requests[key]] = outcome_of(event).digest
        elif event.type == "APPROVAL_GRANTED":
            asked = self._asked.get(StepEvent.of(event).approvalId)
            if asked is not None and asked != outcome_of(event).digest:
                yield Finding("S1-74", where, "the grant is for another patch than the one requested (D-11)")
        if event.type in ("PHASE_FAILED", "RUN_FAILED") and not recorded(event, "error").get("error"):
            yield Finding("S1-119", where, f"{event.type} carries no error")
        if event.type == "PATCH_APPLIED" and not outcome_of(event).has_diffstats:
            yield Finding("S1-117", where, "PATCH_APPLIED carries no diffstat before and after")

    def end(self) -> Findings:
        return iter(())


class _State:
    """state.json: the fold of the journal, or of a beginning of it."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._fold = Fold()
        self._then: WorkflowState | None = None  # the state at the event that state.json names
        self._state, self._wrong = _read_state(folder)

    def see(self, number: int, event: Event) -> Findings:
        self._fold.add(event)
        if self._state is not None and event.id == self._state.lastEventId and self._then is None:
            self._then = self._fold.state
        return iter(())

    def end(self) -> Findings:
        if self._state is None:
            yield self._wrong
            return
        now = self._fold.state
        if self._then is not None and now.status not in FINAL.values():
            now = self._then  # state.json of an open run may be behind; the next open updates it
        for name in WorkflowState.__struct_fields__:
            found, expected = getattr(self._state, name), getattr(now, name)
            if name != "updatedAt" and found != expected:
                yield Finding("S1-113", "state.json", f"{name} is {found!r:.200}, the journal says {expected!r:.200}")


def _read_state(folder: RunFolder) -> tuple[WorkflowState | None, Finding]:
    """state.json, or what is wrong with it."""
    if not os.path.lexists(folder.state):
        return None, Finding("S1-101", "state.json", "is missing (orchestra resume rebuilds it)")
    wrong: Exception
    try:
        return msgspec.json.decode(folder.read(folder.state.name, MIB), type=WorkflowState), Finding("", "", "")
    except (OddFile, OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        wrong = error
    return None, Finding("S1-41…S1-51", "state.json", f"{wrong} (orchestra resume rebuilds it)")


class _Artifacts:
    """The files that events name; and raw replies, for their owner only."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._find = functools.lru_cache(maxsize=1024)(folder.find)  # events may name a file many times
        self._missing = 0  # when too many are missing the search stops, because each takes long

    def see(self, number: int, event: Event) -> Findings:
        where = f"events.ndjson:{number}"
        try:
            for ref in artifacts_of([event]) if self._missing <= MOST else ():
                if self._find(ref) is None and not _said_nothing(self._folder, event, ref):
                    self._missing += 1
                    requirement = "S1-116" if ref.path.endswith(".raw.txt") else "S1-125"
                    yield Finding(requirement, where, f"{ref.path} is missing or not the bytes the event names")
        except DurabilityError as error:
            yield Finding("S1-125", where, str(error))

    def end(self) -> Findings:
        for raw in _raw_replies(self._folder.artifacts):
            name = os.path.relpath(raw, self._folder.path)
            yield Finding("S1-116", name, "a raw reply must be readable by its owner only (C-12)")


def _raw_replies(top: Path) -> Iterator[str]:
    """The raw replies that other users can read."""
    for entry in entries_below(top):
        if entry.name.endswith(".raw.txt") and mode_and_size(entry)[0] & 0o077:
            yield entry.path


def _said_nothing(folder: RunFolder, event: Event, ref: ArtifactRef) -> bool:
    """Whether the file is a command's empty output: a power cut may remove such a file."""
    printed = effect_of(event) == "RunCommand" and ref.path.endswith(("stdout.txt", "stderr.txt"))
    return printed and not ref.bytes and not os.path.lexists(folder.path / ref.path)


class _Logs:
    """Checks that the logs exist that the events require."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._phases: set[str] = set()
        self._gated = False
        self._ended = False

    def see(self, number: int, event: Event) -> Findings:
        if effect_of(event) == "ModelCall":
            self._phases.add(str(event.phase))
        self._gated = self._gated or event.type.startswith("APPROVAL_")
        self._ended = event.type in FINAL
        return iter(())

    def end(self) -> Findings:
        logs = self._folder.logs
        for phase in sorted(self._phases):
            if not (logs / f"provider-{phase}.log").is_file():
                yield Finding("S1-111", "logs", f"provider-{phase}.log is missing")
        if self._gated and not (logs / "gatekeeper.log").is_file():
            yield Finding("S1-112", "logs", "gatekeeper.log is missing")
        if self._ended and not logs.is_dir():
            yield Finding("S1-125", "logs", "a finished run leaves logs")
