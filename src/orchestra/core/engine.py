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
from orchestra.core.work import ApplyPatch, Approve, AskPerson

__all__ = ["Beginning", "Engine", "Kind", "RunEnd"]  # what a caller of the engine needs
HandlersFor = Callable[[Ledger, Event], Handlers]
BeforeEnd = Callable[[Ledger, Verdict], None]


class Engine:
    """Everything that can be done with runs, for every workflow alike."""

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
            # Rule 5: an answer came between the last look and the release of the lock.
            try:
                end = await self._drive_once(folder, driving)
            except RunLocked:
                return end  # whoever brought it drives already
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
                # A cancel is looked for before any replay: also a run that drifted can be canceled.
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
        await asyncio.sleep(0)  # the watcher looks first: a flow that never waits would miss a cancel that lies there
        created = ledger.events[0]

        def waits(request: Event) -> None:
            self._face.tell(Waiting(ledger.folder, request))

        people = People(self._store, patient=driving.patient, on_wait=waits)

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
        """Complete, or report, applies that a kill cut short: a canceled run leaves no half a patch behind (D-12).

        Branches may each have one; a replay in which nothing else may be done finds them all.
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
        """End a run whose cancel message lies in its inbox. None: another process drives it and will see it."""
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
            raise Canceled  # the child took the cancel for its own; it was for the whole tree
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
        """A child begins as a root does; one that would be refused as a root fails its step before it exists."""
        try:
            return kind.admit_child(effect.params, step.ledger.events[0])
        except (UsageError, PolicyError) as refused:
            raise StepFailed(step.key, refused.code, f"{effect.workflow}: {refused}") from refused

    # -- fork ---------------------------------------------------------------------------------------------------------

    def history(self, folder: RunFolder, at: str) -> tuple[Standing, list[Event]]:
        """A run that somebody vouches for, and its events up to `at`. Damage after `at` does not matter."""
        return history(self._store, folder, at)

    def fork(self, folder: RunFolder, kept: list[Event], at: str, facts: Mapping[str, Any]) -> RunFolder:
        """A new run that shares this one's `history` up to and including event `at`, and then goes its own way.

        `facts` are what the new run records of itself in place of what the old one did.
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
        """Rule 7, of the inbox."""
        for name in self._store.refuse_strangers(ledger.folder, (CANCEL, *ledger.fold.pending)):
            what = f"inbox/{name} was not written with your key: it is set aside and counts for nothing"
            self._face.tell(Notice(ledger.folder.id, what))
