"""The engine: start, drive, cancel and fork runs. The only code that catches every exception.

Rules
1. `start` makes the folder and records RUN_CREATED, synced. From then on the run exists.
2. `drive` takes the run's lock, replays the journal through the flow, and then continues live until the run ends or
   parks. A second driver gets RunLocked.
3. The flow's verdict becomes the last event; the report is written before it (C-26). An unexpected exception becomes
   RUN_FAILED with its stack (S1-119). A problem that a person can solve (a full disk, drift, a missing script, a
   budget) does not end the run: it is raised to the caller, and the run can be resumed.
4. A cancel is a message like any other. The process that drives the run sees it within a moment and ends the run. If no
   process drives the run, the process that cancels ends it.
5. An answer is not missed while a run parks: after releasing the lock, the process that parked reads the inbox once
   more.
6. A child run is driven by its parent's process, inside the parent's step. It parks and is canceled with its parent.
7. A run is driven only if this user's key made it or a person adopted it (core/chain.py), and only in the folder it
   belongs to. Inbox files that this user's key did not seal are set aside.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from orchestra.core.cancel import Driving, may_be_applying, watch_for_cancel
from orchestra.core.context import Context, Handlers, Step, Verdict
from orchestra.core.disk import Disk
from orchestra.core.effects import ChildResult, ChildRun, Effect
from orchestra.core.ending import RunEnd, ended, final_status, how_ended, last_event
from orchestra.core.errors import (
    CURABLE,
    Canceled,
    DurabilityError,
    OrchestraError,
    PolicyError,
    RunLocked,
    StepFailed,
    Suspended,
    UsageError,
)
from orchestra.core.faces import Face, Happened, Launched, Notice, Waiting
from orchestra.core.fork import history, make_fork, refuse_fork
from orchestra.core.inbox import CANCEL
from orchestra.core.kind import Beginning, Kind, KindOf
from orchestra.core.ledger import Ledger, OnEvent
from orchestra.core.people import People
from orchestra.core.records import FINAL, ErrorInfo, Event
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder, is_id, slug
from orchestra.core.store import Claim, Store
from orchestra.core.tree import Tree, child_id
from orchestra.core.vouching import Standing
from orchestra.core.work import ApplyPatch, Approve, AskPerson, AskWorkspace

__all__ = ["Beginning", "Engine", "Kind", "RunEnd"]  # what a caller of the engine needs
HandlersFor = Callable[[Ledger, Event], Handlers]
BeforeEnd = Callable[[Ledger, Verdict], None]


class Engine:
    """Starts, drives, cancels and forks runs of every workflow."""

    def __init__(
        self,
        kind_of: KindOf,
        *,
        store: Store,
        disk: Disk,
        redactor: Redactor,
        face: Face,
        handlers_for: HandlersFor,
        before_end: BeforeEnd,
    ) -> None:
        self._kind_of = kind_of
        self._store = store
        self._disk = disk
        self._redactor = redactor
        self._face = face
        self._handlers_for = handlers_for
        self._before_end = before_end
        self._tree = Tree(store, kind_of, open_ledger=self._open, finish=self._finish)

    # -- start --------------------------------------------------------------------------------------------------------

    def start(self, workflow: str, name: str, beginning: Beginning) -> RunFolder:
        """Create a run: its folder and its first event, durable (rule 1). `name` is free text for the id's slug."""
        kind = self._kind_of(workflow)
        named = slug(self._redactor.text(name))
        folder = self._store.create(kind.root, workflow=workflow, name=named, files=beginning.files)
        self._begin(kind, folder, beginning)
        return folder

    def _begin(self, kind: Kind, folder: RunFolder, beginning: Beginning) -> None:
        self._face.tell(Launched(folder, kind.name))
        with self._store.claim(folder) as claim:
            ledger = self._open(claim, kind)
            try:
                if not ledger.events:
                    created = {"workflow": kind.name, "params": beginning.params, **beginning.facts}
                    ledger.record("RUN_CREATED", created)
                self._store.sync(folder)
            finally:
                ledger.close()

    # -- drive --------------------------------------------------------------------------------------------------------

    async def drive(
        self, folder: RunFolder, *, patient: bool = False, accept_drift: frozenset[str] = frozenset()
    ) -> RunEnd:
        """Drive a run until it ends or waits for a person. `patient`: keep waiting here instead of parking."""
        driving = Driving(patient, accept_drift)
        end = await self._drive_once(folder, driving)
        while end.status not in FINAL.values() and self._tree.mail_came(folder):
            # Rule 5: an answer came between the last reading of the inbox and the release of the lock.
            try:
                end = await self._drive_once(folder, driving)
            except RunLocked:
                return end  # the process that brought the answer drives the run already
        return end

    async def _drive_once(self, folder: RunFolder, driving: Driving) -> RunEnd:
        with self._store.claim(folder) as claim:
            kind = self._tree.kind(self._tree.created(folder))
            ledger = self._open(claim, kind)
            try:
                status = ledger.fold.state.status
                if status in FINAL.values():
                    return how_ended(ledger)
                if ledger.journal.torn_bytes:
                    cut = f"a torn last line ({ledger.journal.torn_bytes} bytes) was cut off: it had not happened yet"
                    self._face.tell(Notice(folder.id, cut))
                self._refuse_strangers(ledger)
                # Before any replay, so that a run with drift can be canceled too.
                if said := self._store.mail(folder, CANCEL):
                    driving.cancel(said)
                    await self._settle_apply(ledger, kind, driving)
                    self._tree.cancel(ledger, driving)
                else:
                    await self._run(ledger, kind, driving)
                return how_ended(ledger)
            finally:
                ledger.close()

    async def _run(self, ledger: Ledger, kind: Kind, driving: Driving) -> None:
        flow = asyncio.ensure_future(self._flow(ledger, kind, driving))
        watch = asyncio.ensure_future(watch_for_cancel(self._store, ledger.folder, flow, driving))
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
        driving: Driving,
        only: frozenset[type[Effect[Any]]] = frozenset(),
    ) -> Verdict:
        await asyncio.sleep(0)  # the watcher runs first: a flow that never waits would miss a cancel
        created = ledger.events[0]

        def waits(request: Event) -> None:
            self._face.tell(Waiting(ledger.folder, request))

        people = People(self._store, patient=driving.patient, on_wait=waits)

        async def child(effect: ChildRun, step: Step) -> ChildResult:
            return await self._child(effect, step, driving)

        handlers: Handlers = {
            AskPerson: people.ask,
            AskWorkspace: people.look,
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
            verdict = await kind.flow(context, params)
            context.raise_stopped()
            return verdict
        except CURABLE:
            raise  # the run is not over: a cure lets it go on (rule 3)
        except OrchestraError as error:
            return Verdict(status="failed", error=ErrorInfo(error.code, str(error)), exit_code=error.exit_code)
        except (Exception, SystemExit) as error:
            context.raise_stopped()
            stack = traceback.format_exc()
            return Verdict(
                status="failed",
                error=ErrorInfo("INTERNAL", f"{type(error).__name__}: {error}"),
                result={"stack": stack},
                exit_code=1,
            )

    async def _settle_apply(self, ledger: Ledger, kind: Kind, driving: Driving) -> None:
        """Complete, or report, patches whose writing a kill cut short: a canceled run leaves no half a patch (D-12).

        Each branch may have one. They are found by a replay that may perform no other effect.
        """
        if may_be_applying(ledger.events):
            flow = self._flow(ledger, kind, driving, only=frozenset({ApplyPatch}))
            await asyncio.gather(flow, return_exceptions=True)

    def _finish(self, ledger: Ledger, verdict: Verdict) -> None:
        type, payload = last_event(verdict)
        self._before_end(ledger, verdict)
        ledger.record(type, payload)
        ledger.journal.sync()

    # -- cancel, children ---------------------------------------------------------------------------------------------

    async def cancel(self, folder: RunFolder) -> RunEnd | None:
        """End a run whose inbox has a cancel message. None: another process drives the run and will end it."""
        try:
            return await self.drive(folder)
        except RunLocked:
            return None

    async def _child(self, effect: ChildRun, step: Step, driving: Driving) -> ChildResult:
        kind = self._kind_of(effect.workflow)
        parent = {"parentRunId": step.ledger.folder.id, "parentKey": step.key}
        folder = self._child_folder(kind, effect, step)
        created = self._store.first(folder)
        if created is None:
            beginning = self._admitted(kind, effect, step)
            self._store.create_child(kind.root, folder.id, beginning.files)
            self._begin(kind, folder, msgspec.structs.replace(beginning, facts={**beginning.facts, **parent}))
        elif {name: created.payload.get(name) for name in parent} != parent:
            raise DurabilityError(f"{folder.path} is not the child of step {step.key}: move it away, then resume")
        await self._drive_once(folder, driving)
        if driving.canceled:
            raise Canceled  # a cancel of the child is a cancel of the whole tree
        last = self._store.all_events(folder)[-1]
        if last.type not in FINAL:
            raise Suspended(f"child run {folder.id} waits for a person")
        end = ended(folder.id, last)
        return ChildResult(folder.id, final_status(last), end.result, error=end.message, exitCode=end.exit_code)

    def _child_folder(self, kind: Kind, effect: ChildRun, step: Step) -> RunFolder:
        """The child that the recorded intent names: older versions named children in another way.

        A fork of theirs names the child of the run it was forked from, and has one of its own.
        """
        said = step.intent.payload if step.intent else {}
        name = str(said.get("childRunId", ""))
        if said.get("workflow") == effect.workflow and is_id(name):
            created = self._store.first(folder := RunFolder(kind.root / name))
            if created is None or created.payload.get("parentRunId") == step.ledger.folder.id:
                return folder
        return RunFolder(kind.root / effect.childRunId)

    def _admitted(self, kind: Kind, effect: ChildRun, step: Step) -> Beginning:
        """How the child begins. A job that would be refused as a root run raises StepFailed before the child exists."""
        try:
            return kind.admit_child(effect.params, step.ledger.events[0])
        except (UsageError, PolicyError) as refused:
            raise StepFailed(step.key, refused.code, f"{effect.workflow}: {refused}") from refused

    # -- fork ---------------------------------------------------------------------------------------------------------

    def history(self, folder: RunFolder, at: str) -> tuple[Standing, list[Event]]:
        """Whether the run is this user's, and its events up to `at`. Damage after `at` is ignored."""
        return history(self._store, folder, at)

    def fork(self, folder: RunFolder, kept: list[Event], at: str, facts: Mapping[str, Any]) -> RunFolder:
        """Make a new run that begins with this run's `history` up to and including event `at`.

        `facts` replace what the old run recorded of itself when it began.
        """
        refuse_fork(folder, kept, at)
        kind = self._tree.kind(kept[0])
        new = make_fork(self._store, kind, folder, kept, facts, disk=self._disk, open_ledger=self._open)
        self._face.tell(Launched(new, kind.name))
        return new

    # -- small parts --------------------------------------------------------------------------------------------------

    def _open(self, claim: Claim, kind: Kind, on_event: OnEvent | None = None) -> Ledger:
        folder = claim.folder
        ledger = Ledger(
            folder,
            claim.journal(),
            kind.table,
            disk=self._disk,
            redactor=self._redactor,
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
        """Set aside the inbox files that this user's key did not seal (rule 7), and report each."""
        for name in self._store.refuse_strangers(ledger.folder, (CANCEL, *ledger.fold.pending)):
            what = f"inbox/{name} was not written with your key: it is set aside and counts for nothing"
            self._face.tell(Notice(ledger.folder.id, what))
