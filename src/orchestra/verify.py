"""Verify a run folder against S1, and a task graph against S2, by requirement id.

Works on files alone (S1-126): any implementation's.

Each finding names the requirement it breaks. A torn last line is no finding: it is what a kill leaves, and the next
open repairs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET

from orchestra.core.errors import IllegalEvent, JournalCorrupt
from orchestra.core.journal import read_events
from orchestra.core.ledger import artifacts_of
from orchestra.core.machine import Fold, Table
from orchestra.core.records import FINAL, ArtifactRef, Event, Finding, WorkflowState
from orchestra.core.run import RunFolder
from orchestra.verify_tasks import is_printed, verify_tasks


def verify(path: Path, tables: dict[str, Table]) -> list[Finding]:
    """Everything that is wrong with a run folder, most basic first; empty means it conforms."""
    folder = RunFolder(path)
    if not folder.events.is_file():
        return [Finding("S1-102", str(path), "there is no events.ndjson: not a run folder")]
    try:
        events = read_events(folder.events)
    except JournalCorrupt as error:
        return [Finding(_line_requirement(folder, error.line), f"events.ndjson:{error.line}", str(error))]
    if not events:
        return [Finding("S1-61", "events.ndjson", "there is no RUN_CREATED")]
    return [
        *_events(folder, events),
        *_transitions(events, tables),
        *_steps(events),
        *_state(folder, events),
        *_artifacts(folder, events),
        *_logs(folder, events),
        *(verify_tasks(folder, events) if events[0].payload.get("workflow") == "dag" else ()),
    ]


def _line_requirement(folder: RunFolder, number: int) -> str:
    lines = folder.events.read_bytes().splitlines()
    try:
        record = msgspec.json.decode(lines[number - 1])
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError):
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
        msgspec.convert(record, Event)
    except msgspec.ValidationError as error:
        field = re.search(r"\$\.(\w+)", str(error))
        return {"type": "S1-52", "ts": "S1-01", "phase": "S1-57", "iteration": "S1-58"}.get(
            field.group(1) if field else "", "S1-03"
        )
    return "S1-114"


def _events(folder: RunFolder, events: list[Event]) -> Iterator[Finding]:
    seen: set[str] = set()
    before = ""
    for number, event in enumerate(events, start=1):
        where = f"events.ndjson:{number}"
        if event.id in seen:
            yield Finding("S1-02", where, f"event id {event.id} is not unique")
        if event.id <= before:
            yield Finding("S1-46", where, f"event id {event.id} does not come after {before}: lastEventId cannot order")
        if event.runId != folder.id:
            yield Finding("S1-54", where, f"runId {event.runId} is not the folder's name {folder.id}")
        seen.add(event.id)
        before = event.id
    if events[0].type != "RUN_CREATED":
        yield Finding("S1-61", "events.ndjson:1", f"the first event is {events[0].type}, not RUN_CREATED")


def _transitions(events: list[Event], tables: dict[str, Table]) -> Iterator[Finding]:
    workflow = str(events[0].payload.get("workflow", "loop"))
    table = tables.get(workflow)
    if table is None:
        yield Finding("S1-73", "events.ndjson:1", f"unknown workflow {workflow!r}: its transitions cannot be checked")
        return
    state = table.start
    for number, event in enumerate(events, start=1):
        try:
            state = table.next(state, event.type, event.phase)
        except IllegalEvent as error:
            yield Finding("S1-73", f"events.ndjson:{number}", str(error))
            return
    limit = int(events[0].payload.get("maxFixIterations", 3))
    for number, event in enumerate(events, start=1):
        if event.phase == "fix" and event.iteration is not UNSET and event.iteration - 1 > limit:
            yield Finding(
                "S1-71", f"events.ndjson:{number}", f"fix {event.iteration - 1} is more than maxFixIterations {limit}"
            )
            return


def _steps(events: list[Event]) -> Iterator[Finding]:
    open_steps: dict[str, Event] = {}
    requests: dict[str, Event] = {}
    for number, event in enumerate(events, start=1):
        where, payload = f"events.ndjson:{number}", event.payload
        key = str(payload.get("key", ""))
        if event.type == "PHASE_STARTED":
            open_steps[key] = event
        elif event.type in ("PHASE_COMPLETED", "PHASE_FAILED") and open_steps.pop(key, None) is None:
            yield Finding("S1-73", where, f"outcome of step {key!r}, which was not started")
        elif event.type == "APPROVAL_REQUESTED":
            requests[str(payload.get("approvalId"))] = event
        elif event.type == "APPROVAL_GRANTED":
            request = requests.get(str(payload.get("approvalId")))
            granted = (payload.get("outcome") or {}).get("digest")
            if request is not None and request.payload.get("digest") != granted:
                yield Finding("S1-74", where, "the grant is for another patch than the one requested (D-11)")
        if event.type in ("PHASE_FAILED", "RUN_FAILED") and not payload.get("error"):
            yield Finding("S1-119", where, f"{event.type} carries no error")
        if event.type == "PATCH_APPLIED" and not {"before", "after"} <= set(payload.get("outcome") or {}):
            yield Finding("S1-117", where, "PATCH_APPLIED carries no diffstat before and after")


def _state(folder: RunFolder, events: list[Event]) -> Iterator[Finding]:
    if not folder.state.is_file():
        yield Finding("S1-101", "state.json", "is missing (orchestra resume rebuilds it)")
        return
    try:
        state = msgspec.json.decode(folder.state.read_bytes(), type=WorkflowState)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        yield Finding("S1-41…S1-51", "state.json", f"{error} (orchestra resume rebuilds it)")
        return
    fold = Fold()
    for event in events:
        fold.add(event)
        if event.id == state.lastEventId and events[-1].type not in FINAL:
            break  # of a run that goes on, state.json may be the fold of a beginning: whoever opens it rolls it forward
    for name in WorkflowState.__struct_fields__:
        found, expected = getattr(state, name), getattr(fold.state, name)
        if name != "updatedAt" and found != expected:
            yield Finding("S1-113", "state.json", f"{name} is {found!r}, the journal says {expected!r}")


def _artifacts(folder: RunFolder, events: list[Event]) -> Iterator[Finding]:
    for number, event in enumerate(events, start=1):
        for ref in artifacts_of([event]):
            if folder.find(ref) is None and not _said_nothing(folder, event, ref):
                requirement = "S1-116" if ref.path.endswith(".raw.txt") else "S1-125"
                yield Finding(
                    requirement, f"events.ndjson:{number}", f"{ref.path} is missing or not the bytes the event names"
                )
    for raw in folder.artifacts.rglob("*.raw.txt"):
        if os.stat(raw).st_mode & 0o077:
            yield Finding(
                "S1-116", str(raw.relative_to(folder.path)), "a raw reply must be readable by its owner only (C-12)"
            )


def _said_nothing(folder: RunFolder, event: Event, ref: ArtifactRef) -> bool:
    """Whether it is what a command printed, and it printed nothing: a power cut may take the name of such a file."""
    printed = event.payload.get("effect") == "RunCommand" and is_printed(ref.path)
    return printed and not ref.bytes and not os.path.lexists(folder.path / ref.path)


def _logs(folder: RunFolder, events: list[Event]) -> Iterator[Finding]:
    phases = {str(e.phase) for e in events if e.payload.get("effect") == "ModelCall"}
    for phase in sorted(phases):
        if not (folder.logs / f"provider-{phase}.log").is_file():
            yield Finding("S1-111", "logs", f"provider-{phase}.log is missing")
    if any(e.type.startswith("APPROVAL_") for e in events) and not (folder.logs / "gatekeeper.log").is_file():
        yield Finding("S1-112", "logs", "gatekeeper.log is missing")
    ended = events[-1].type in FINAL
    if ended and not folder.logs.is_dir():
        yield Finding("S1-125", "logs", "a finished run leaves logs")
