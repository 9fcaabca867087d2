"""The engine: start, drive, cancel and fork runs. The only code that catches everything.

Rules
1. `start` makes the folder and RUN_CREATED, synced: from then on the run exists, whatever happens.
2. `drive` takes the run's lock, replays the journal through the flow and goes on live until the run ends or parks.
   A second driver gets RunLocked.
3. The flow's verdict becomes the last event; the report is written before it (C-26). An error nobody foresaw becomes
   RUN_FAILED with its stack (S1-119). What a person can cure (a full disk, drift, a missing script, a budget) is not
   the run's end: it reaches the caller, and the run goes on later.
4. A cancel is a message like any other: whoever drives sees it within a moment and ends the run; if nobody drives, the
   canceller does.
5. Parking and answering cannot miss each other: after letting go of the lock the parker looks into the inbox once more.
6. A child run is driven by its parent's process, inside the parent's step; it parks and is canceled with it.
7. A run is driven only if this user's key made it, or a person adopted it (core/chain.py), and in the folder it belongs
   to. What lies in its inbox and is not of this user's is set aside.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchestra.core import inbox
from orchestra.core.context import Context, Handlers, Step, Verdict
from orchestra.core.disk import Disk
from orchestra.core.effects import ChildResult, ChildRun, Effect
from orchestra.core.errors import (
    BudgetReached,
    Canceled,
    DurabilityError,
    ForeignRun,
    JournalCorrupt,
    NoConsent,
    NotYet,
    OrchestraError,
    PolicyError,
    RunLocked,
    SandboxError,
    StepFailed,
    Suspended,
    UsageError,
)
from orchestra.core.faces import Face, Happened, Launched, Notice, Waiting
from orchestra.core.files import read_bounded
from orchestra.core.journal import read_events, read_first
from orchestra.core.keyring import Keyring
from orchestra.core.ledger import Ledger, OnEvent, Projection, artifacts_of
from orchestra.core.records import FINAL, ErrorInfo, Event, RunStatus
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder, create_folder, digest, slug
from orchestra.core.tables import Fold, Table
from orchestra.core.vouching import Standing, read_run
from orchestra.core.work import ApplyPatch, Approve, AskPerson

CANCEL_POLL_SECONDS = 0.1


class Beginning(Struct, frozen=True):
    """What a run begins with: everything of its RUN_CREATED but the workflow's name."""

    params: dict[str, Any]
    facts: dict[str, Any]  # goal, models, workspace, policy and the like
    files: Mapping[str, bytes] = MappingProxyType({})  # there before RUN_CREATED, so that no run is without them


class Kind(Struct, frozen=True):
    """What the engine needs to know of a workflow (workflows/description.py has the rest)."""

    name: str
    root: Path  # the folder its runs lie in
    table: Table
    params: Any
    flow: Callable[[Context, Any], Awaitable[Verdict]]
    admit_child: Callable[[dict[str, Any], Event], Beginning]  # a job and its parent's RUN_CREATED; raises to refuse
    projections: Callable[[RunFolder], tuple[Projection, ...]] = lambda folder: ()


class RunEnd(Struct, frozen=True):
    """How a drive ended: final, or waiting for a person."""

    run_id: str
    status: RunStatus
    exit_code: int
    message: str = ""
    code: str = ""  # of the error it failed with
    result: Any = None  # what its flow returned, as JSON


HandlersFor = Callable[[Ledger, Event], Handlers]
BeforeEnd = Callable[[Ledger, Verdict], None]


class Engine:
    """Everything that can be done with runs, for every workflow alike."""

    def __init__(
        self,
        kind_of: Callable[[str], Kind],
        *,
        disk: Disk,
        redactor: Redactor,
        keyring: Keyring,
        face: Face,
        handlers_for: HandlersFor,
        before_end: BeforeEnd,
    ) -> None:
        self._kind_of = kind_of
        self._disk = disk
        self._redactor = redactor
        self._keyring = keyring
        self._face = face
        self._handlers_for = handlers_for
        self._before_end = before_end

    # -- start --------------------------------------------------------------------------------------------------------

    def start(self, workflow: str, name: str, beginning: Beginning) -> RunFolder:
        """Create a run: its folder and its first event, durable (rule 1). `name` is free text for the id's slug."""
        kind = self._kind_of(workflow)
        date = datetime.now(UTC).date().isoformat()  # G4-1
        folder = create_folder(kind.root, date=date, workflow=workflow, name=slug(self._redactor.text(name)))
        self._create(kind, folder, beginning)
        return folder

    def _create(self, kind: Kind, folder: RunFolder, beginning: Beginning) -> None:
        for path, data in beginning.files.items():
            self._disk.publish(folder.path / path, data, durable=True)
        self._face.tell(Launched(folder, kind.name))
        with folder.locked():
            ledger = self._open(folder, kind)
            try:
                if not ledger.events:
                    created = {"workflow": kind.name, "params": beginning.params, **beginning.facts}
                    ledger.record("RUN_CREATED", created)
                self._disk.sync_folder(folder.path)
                self._disk.sync_folder(folder.path.parent)
            finally:
                ledger.close()

    # -- drive --------------------------------------------------------------------------------------------------------

    async def drive(
        self, folder: RunFolder, *, patient: bool = False, accept_drift: frozenset[str] = frozenset()
    ) -> RunEnd:
        """Drive a run until it ends or waits for a person. `patient`: keep waiting here instead of parking."""
        driving = _Driving(patient, accept_drift)
        end = await self._drive_once(folder, driving)
        while end.status not in FINAL.values() and self._mail_came(folder):
            # Rule 5: an answer came between the last look and the release of the lock.
            try:
                end = await self._drive_once(folder, driving)
            except RunLocked:
                return end  # whoever brought it drives already
        return end

    async def _drive_once(self, folder: RunFolder, driving: _Driving) -> RunEnd:
        with folder.locked():
            created = _created(folder)
            kind = self._kind(created)
            ledger = self._open(folder, kind)
            try:
                status = ledger.fold.state.status
                if status in FINAL.values():
                    return _end(ledger)
                if ledger.journal.torn_bytes:
                    cut = f"a torn last line ({ledger.journal.torn_bytes} bytes) was cut off: it had not happened yet"
                    self._face.tell(Notice(folder.id, cut))
                self._refuse_strangers(ledger)
                # A cancel is looked for before any replay: also a run that drifted can be canceled.
                if said := inbox.read(folder, inbox.CANCEL, ledger.seal):
                    driving.cancel(said)
                    await self._settle_apply(ledger, kind, driving)
                    self._cancel_tree(ledger, driving)
                else:
                    await self._run(ledger, kind, driving)
                return _end(ledger)
            finally:
                ledger.close()

    async def _run(self, ledger: Ledger, kind: Kind, driving: _Driving) -> None:
        flow = asyncio.ensure_future(self._flow(ledger, kind, driving))
        watch = asyncio.ensure_future(self._watch_for_cancel(ledger, flow, driving))
        try:
            verdict = await flow
        except Suspended:
            return
        except Canceled:
            verdict = driving.verdict()
        except asyncio.CancelledError:
            if not flow.done():  # we were cancelled from outside (Ctrl-C): stop the flow first
                flow.cancel()
                await asyncio.gather(flow, return_exceptions=True)
            if not driving.canceled:
                raise
            verdict = driving.verdict()
        finally:
            watch.cancel()
        self._finish(ledger, verdict)

    async def _flow(
        self,
        ledger: Ledger,
        kind: Kind,
        driving: _Driving,
        only: frozenset[type[Effect[Any]]] = frozenset(),
    ) -> Verdict:
        await asyncio.sleep(0)  # the watcher looks first: a flow that never waits would miss a cancel that lies there
        created = ledger.events[0]

        def waits(request: Event) -> None:
            self._face.tell(Waiting(ledger.folder, request))

        people = inbox.People(patient=driving.patient, on_wait=waits)

        async def child(effect: ChildRun, step: Step) -> ChildResult:
            return await self._child(effect, step, driving)

        handlers: Handlers = {
            AskPerson: people.ask,
            Approve: people.approve,
            ChildRun: child,
            **self._handlers_for(ledger, created),
        }
        context = Context(
            ledger,
            handlers,
            accepted_drift=driving.accept_drift,
            only=only,
            name_child=lambda workflow, key: child_id(ledger.folder.id, workflow, key),
        )
        try:
            params = msgspec.convert(created.payload["params"], kind.params)
            return await kind.flow(context, params)
        except (DurabilityError, BudgetReached, NotYet, UsageError, SandboxError, ForeignRun, NoConsent):
            raise  # the run is not over: a cure lets it go on (rule 3)
        except OSError as error:
            raise DurabilityError(
                f"run {ledger.folder.id}: {error.strerror or error} ({error.filename or 'a file'}). "
                f"When that is cured: orchestra resume {ledger.folder.id}"
            ) from error
        except OrchestraError as error:
            return Verdict(status="failed", error=ErrorInfo(error.code, str(error)), exit_code=error.exit_code)
        except Exception as error:
            stack = traceback.format_exc()
            return Verdict(
                status="failed",
                error=ErrorInfo("INTERNAL", f"{type(error).__name__}: {error}"),
                result={"stack": stack},
                exit_code=1,
            )

    async def _settle_apply(self, ledger: Ledger, kind: Kind, driving: _Driving) -> None:
        """Complete, or report, applies that a kill cut short: a canceled run leaves no half a patch behind (D-12).

        Branches may each have one; a replay in which nothing else may be done finds them all.
        """
        newest: dict[str, str] = {}  # by scope: the last thing that happened to a patch there
        for event in ledger.events:
            if event.type in ("APPROVAL_GRANTED", "PATCH_PRODUCED", "PATCH_APPLIED", "PATCH_APPLY_FAILED"):
                newest[str(event.payload.get("key", "")).rpartition("/")[0]] = event.type
        if "APPROVAL_GRANTED" not in newest.values():
            return
        flow = self._flow(ledger, kind, driving, only=frozenset({ApplyPatch}))
        await asyncio.gather(flow, return_exceptions=True)

    def _cancel_tree(self, ledger: Ledger, driving: _Driving) -> None:
        """End a run nobody drives, and the child runs it waits for, without a replay."""
        for child in self._children(ledger.fold):
            with child.locked():
                below = self._open(child, self._kind(_created(child)))
                try:
                    if below.fold.state.status not in FINAL.values():
                        self._cancel_tree(below, driving)
                finally:
                    below.close()
        self._finish(ledger, driving.verdict())

    def _finish(self, ledger: Ledger, verdict: Verdict) -> None:
        code = verdict.exit_code if verdict.status == "completed" else verdict.exit_code or 1
        payload: dict[str, Any] = {"result": verdict.result, "exitCode": code}
        if verdict.error is not None:
            payload["error"] = msgspec.to_builtins(verdict.error)
            if isinstance(verdict.result, dict) and "stack" in verdict.result:
                payload["error"]["stack"] = payload["result"].pop("stack")
        self._before_end(ledger, verdict)
        match verdict.status:
            case "completed":
                ledger.record("RUN_COMPLETED", payload)
            case "failed":
                ledger.record("RUN_FAILED", payload)
            case "canceled":
                ledger.record("RUN_CANCELED", payload)
        ledger.journal.sync()

    # -- cancel, children ---------------------------------------------------------------------------------------------

    async def cancel(self, folder: RunFolder) -> RunEnd | None:
        """End a run whose cancel message lies in its inbox. None: another process drives it and will see it."""
        try:
            return await self.drive(folder)
        except RunLocked:
            return None

    async def _watch_for_cancel(self, ledger: Ledger, flow: asyncio.Future[Verdict], driving: _Driving) -> None:
        while True:
            if said := inbox.read(ledger.folder, inbox.CANCEL, ledger.seal):
                driving.cancel(said)
                flow.cancel()
                return
            await asyncio.sleep(CANCEL_POLL_SECONDS)

    async def _child(self, effect: ChildRun, step: Step, driving: _Driving) -> ChildResult:
        kind = self._kind_of(effect.workflow)
        folder = RunFolder(kind.root / effect.childRunId)  # follows from this run's id and key: a fork has its own
        parent = {"parentRunId": step.ledger.folder.id, "parentKey": step.key}
        created = read_first(folder.events)
        if created is None:
            beginning = self._admitted(kind, effect, step)
            folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._create(kind, folder, msgspec.structs.replace(beginning, facts={**beginning.facts, **parent}))
        elif {name: created.payload.get(name) for name in parent} != parent:
            raise DurabilityError(f"{folder.path} is not the child of step {step.key}: move it away, then resume")
        await self._drive_once(folder, driving)
        if driving.canceled:
            raise Canceled  # the child took the cancel for its own; it was for the whole tree
        last = read_events(folder.events)[-1]
        if last.type not in FINAL:
            raise Suspended(f"child run {folder.id} waits for a person")
        end = _ended(folder.id, last)
        return ChildResult(folder.id, _final(last), end.result, error=end.message, exitCode=end.exit_code)

    def _admitted(self, kind: Kind, effect: ChildRun, step: Step) -> Beginning:
        """A child begins as a root does; one that would be refused as a root fails its step before it exists."""
        try:
            return kind.admit_child(effect.params, step.ledger.events[0])
        except (UsageError, PolicyError) as refused:
            raise StepFailed(step.key, refused.code, f"{effect.workflow}: {refused}") from refused

    # -- fork ---------------------------------------------------------------------------------------------------------

    def fork(self, folder: RunFolder, kept: list[Event], at: str, facts: Mapping[str, Any]) -> RunFolder:
        """A new run that shares this one's `history` up to and including event `at`, and then goes its own way.

        `facts` are what the new run records of itself in place of what the old one did.
        """
        if kept[-1].id != at:
            raise UsageError(
                f"run {folder.id} has no event {at}; it has 00000001 to {kept[-1].id} (orchestra logs {folder.id})"
            )
        if kept[-1].type in FINAL:
            raise UsageError(
                f"event {at} is the end of run {folder.id}: nothing can follow it; fork at an earlier event"
            )
        kind = self._kind(kept[0])
        _, _, workflow, name = folder.id.split("_", 3)
        new = create_folder(kind.root, date=datetime.now(UTC).date().isoformat(), workflow=workflow, name=name)
        making = RunFolder(kind.root / f".{new.id}.fork", new.id)  # hidden until it is whole: a kill leaves no half run
        making.path.mkdir(mode=0o700)
        for ref in artifacts_of(kept):  # and no others: a reply that came later is not this run's
            if (path := folder.find(ref)) is not None:  # below the run's folder, and so is its copy (core/files.py)
                self._disk.publish(making.path / ref.path, read_bounded(path, ref.bytes), durable=True)
        ledger = self._open(making, kind, on_event=_unseen)  # history, not news
        try:
            for event in kept:
                payload = {k: v for k, v in event.payload.items() if k not in _OF_ITS_LINE}
                if event.type == "RUN_CREATED":
                    origin = payload.get("forkedFrom", {}).get("origin", folder.id)
                    payload |= {**facts, "forkedFrom": {"runId": folder.id, "at": at, "origin": origin}}
                ledger.record(event.type, payload, phase=event.phase, iteration=event.iteration, ts=event.ts)
        finally:
            ledger.close()
        self._disk.sync_folder(making.path)
        self._disk.replace(str(making.path), str(new.path))
        self._disk.sync_folder(kind.root)
        self._face.tell(Launched(new, kind.name))
        return new

    def history(self, folder: RunFolder, at: str) -> tuple[Standing, list[Event]]:
        """A run that somebody vouches for, and its events up to `at`. Damage after `at` does not matter."""
        seal = self._keyring.seal
        try:
            standing = read_run(folder, seal)
        except JournalCorrupt:
            standing = read_run(folder, seal, until=at)
        if standing.foreign:
            raise ForeignRun(folder.id, standing.foreign)
        index = next((i for i, event in enumerate(standing.events) if event.id == at), len(standing.events) - 1)
        return standing, standing.events.whole()[: index + 1]

    # -- small parts --------------------------------------------------------------------------------------------------

    def _open(self, folder: RunFolder, kind: Kind, on_event: OnEvent | None = None) -> Ledger:
        ledger = Ledger(
            folder,
            kind.table,
            disk=self._disk,
            redactor=self._redactor,
            seal=self._keyring.seal,
            on_event=on_event or self._happened,
            projections=kind.projections(folder),
        )
        try:
            ledger.open()
        except BaseException:
            ledger.journal.close()
            raise
        return ledger

    def _happened(self, event: Event) -> None:
        self._face.tell(Happened(event))

    def _refuse_strangers(self, ledger: Ledger) -> None:
        """Rule 7, of the inbox."""
        requests = (inbox.CANCEL, *ledger.fold.pending)
        for name in inbox.refuse_strangers(ledger.folder, requests, disk=self._disk, seal=ledger.seal):
            what = f"inbox/{name} was not written with your key: it is set aside and counts for nothing"
            self._face.tell(Notice(ledger.folder.id, what))

    def _kind(self, created: Event) -> Kind:
        return self._kind_of(created.payload.get("workflow", ""))

    def _mail_came(self, folder: RunFolder) -> bool:
        """Whether the inbox of this run, or of a child it waits for, holds something the flow has not seen yet."""
        seal = self._keyring.seal
        if inbox.read(folder, inbox.CANCEL, seal):
            return True
        fold = Fold.of(read_events(folder.events))
        if len(inbox.waiting(folder, fold.pending, seal)) < len(fold.pending):
            return True
        return any(self._mail_came(child) for child in self._children(fold))

    def _children(self, fold: Fold) -> list[RunFolder]:
        """The child runs a run waits for, as far as they were begun."""
        folders = [RunFolder(self._kind_of(workflow).root / name) for workflow, name in fold.children.values()]
        return [folder for folder in folders if read_first(folder.events) is not None]


_OF_ITS_LINE = ("seal", "prev", "vouches")  # what a payload says of its place in the journal


class _Driving:
    """What one drive shares with the child runs it drives."""

    def __init__(self, patient: bool, accept_drift: frozenset[str]) -> None:
        self.patient = patient
        self.accept_drift = accept_drift
        self.canceled = False
        self._why = ""

    def cancel(self, said: inbox.Message) -> None:
        """Somebody canceled a run of this tree: all of it ends."""
        self.canceled = True
        self._why = said.text or f"canceled by {said.by}"

    def verdict(self) -> Verdict:
        return Verdict(status="canceled", result={"reason": self._why})


def child_id(parent: str, workflow: str, key: str) -> str:
    """A child's id follows from its parent's id and its key alone, so that a kill cannot make two (D-07, D-08)."""
    date, number, parent_workflow, name = parent.split("_", 3)
    mark = digest(key.encode())[7:15]  # the slug alone is cut, and `a-b/c` and `a/b-c` have the same
    return f"{date}_{number}_{workflow}_{parent_workflow}-{name}-{slug(key)}-{mark}"


def _unseen(event: Event) -> None:
    pass


def _created(folder: RunFolder) -> Event:
    created = read_first(folder.events)
    if created is None:
        raise UsageError(f"run {folder.id} was never started (no RUN_CREATED in {folder.events}); start a new one")
    return created


def _final(event: Event) -> Literal["completed", "failed", "canceled"]:
    status = FINAL[event.type]
    assert status in ("completed", "failed", "canceled")
    return status


def _end(ledger: Ledger) -> RunEnd:
    last = ledger.events[-1]
    if last.type in FINAL:
        return _ended(ledger.folder.id, last)
    return RunEnd(ledger.folder.id, ledger.fold.state.status, 3)


def _ended(run_id: str, last: Event) -> RunEnd:
    """How a run ended, from its last event."""
    code = int(last.payload.get("exitCode", 0 if last.type == "RUN_COMPLETED" else 1))
    error, result = last.payload.get("error") or {}, last.payload.get("result")
    reason = result.get("reason", "") if last.type == "RUN_CANCELED" and isinstance(result, dict) else ""
    why = error.get("message", "") or reason
    return RunEnd(run_id, FINAL[last.type], code, str(why), str(error.get("code", "")), result)
