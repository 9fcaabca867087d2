"""The engine: start, drive, cancel and fork runs. The only code that catches every exception.

Rules
1. `start` makes the folder and records RUN_CREATED, synced. From then on the run exists.
2. `drive` takes the run's lock, replays the journal through the flow, and then continues live until the run ends or
   parks. A second driver gets RunLocked.
3. The flow's verdict becomes the last event; the report is written before it (C-26). An unexpected exception becomes
   RUN_FAILED with its stack (S1-119); so does a flow that returns although one of its steps waits. A problem that a
   person can solve (a full disk, drift, a missing script, a budget) does not end the run: it is raised to the caller,
   and the run can be resumed.
4. A cancel is a message like any other. The process that drives the run sees it within a moment and ends the run. If no
   process drives the run, the process that cancels ends it.
5. An answer is not missed while a run parks: after releasing the lock, the process that parked reads the inbox once
   more.
6. A child run is driven by its parent's process, inside the parent's step. It parks and is canceled with its parent.
7. When an edition is replaced (core/editions.py), the child runs that wait below it are canceled, now or, after a kill,
   by the next drive. A patch that was granted is applied before any file is looked at.
8. A run is driven only if this user's key made it or a person adopted it (core/chain.py), and only in the folder it
   belongs to. Inbox files that this user's key did not seal are set aside.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from orchestra.core.accounts import summed
from orchestra.core.cancel import Driving, may_be_applying, watched_for_cancel
from orchestra.core.changing import CHANGES, Changing, JobChange
from orchestra.core.context import Context, Handlers, Step, Verdict
from orchestra.core.copies import NO_COPIES, Copies
from orchestra.core.disk import Disk
from orchestra.core.effects import ChildResult, ChildRun, Effect
from orchestra.core.ending import RunEnd, caught_wait, ended, final_status, how_ended, last_event
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
from orchestra.core.fork import INHERITED, Forks, NewAnswer, Taken, refuse_fork
from orchestra.core.inbox import CANCEL, message
from orchestra.core.kind import Beginning, Kind, KindOf
from orchestra.core.ledger import Ledger, OnEvent
from orchestra.core.newest import edition_of
from orchestra.core.people import People
from orchestra.core.reading import RunCreated, key_of
from orchestra.core.records import FINAL, ErrorInfo, Event, OnAsk
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder, is_id, slug
from orchestra.core.settled import settled
from orchestra.core.staleness import Stale, finished_children
from orchestra.core.store import Claim, Store
from orchestra.core.tables import Fold
from orchestra.core.text import brief
from orchestra.core.tree import Tree, child_id
from orchestra.core.vouching import Standing
from orchestra.core.work import (
    ApplyPatch,
    Approve,
    AskPerson,
    AskWorkspace,
    GrantRevision,
    ReviewPatch,
    Revise,
    TakeBack,
)

# What a caller of the engine needs.
__all__ = ["INHERITED", "Beginning", "ChildRun", "Engine", "Kind", "RunEnd", "RunFolder"]
HandlersFor = Callable[[Ledger, Event], Handlers]
BeforeEnd = Callable[[Ledger, Verdict], None]
AfterDrive = Callable[[RunFolder], None]
Worked = Callable[[RunFolder], int]  # a run -> the milliseconds that its tree has worked
T = TypeVar("T")


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
        after_drive: AfterDrive = lambda run: None,
        worked: Worked = lambda run: 0,
        copies: Copies = NO_COPIES,
    ) -> None:
        self._kind_of = kind_of
        self._store = store
        self._disk = disk
        self._redactor = redactor
        self._face = face
        self._handlers_for = handlers_for
        self._before_end = before_end
        self._after_drive = after_drive
        self._worked = worked
        self._tree = Tree(store, kind_of, open_ledger=self._open, settle_apply=self._settle_apply, finish=self._finish)
        self._forks = Forks(store, kind_of, disk=disk, redactor=redactor, copies=copies, open_ledger=self._open)

    # -- start --------------------------------------------------------------------------------------------------------

    def start(self, workflow: str, name: str, beginning: Beginning) -> RunFolder:
        """Create a run: its folder and its first event, durable (rule 1). `name` is free text for the id's slug."""
        kind = self._kind_of(workflow)
        group, named = beginning.id_parts or (workflow, slug(self._redactor.text(name)))
        folder = self._store.create(kind.root, workflow=group, name=named, files=beginning.files)
        self._begin(kind, folder, beginning)
        return folder

    def _begin(self, kind: Kind, folder: RunFolder, beginning: Beginning) -> None:
        self._face.tell(Launched(folder, kind.name))
        with self._store.claim(folder) as claim:
            ledger = self._open(claim, kind)
            try:
                self._record_beginning(ledger, kind, beginning)
            finally:
                ledger.close()

    def _record_beginning(self, ledger: Ledger, kind: Kind, beginning: Beginning) -> None:
        if not ledger.events:
            ledger.record("RUN_CREATED", {"workflow": kind.name, "params": beginning.params, **beginning.facts})
        self._store.sync(ledger.folder)

    # -- drive --------------------------------------------------------------------------------------------------------

    async def drive(
        self,
        folder: RunFolder,
        *,
        patient: bool = False,
        accept_drift: frozenset[str] = frozenset(),
        on_ask: OnAsk = "park",
    ) -> RunEnd:
        """Drive a run until it ends or waits for a person. `patient`: keep waiting here instead of parking."""
        driving = Driving(patient, accept_drift, on_ask)
        end, fold = await self._drive_once(folder, driving, _left)
        while end.status not in FINAL.values() and self._mail_came(folder, fold, driving):
            # Rule 5: an answer came between the last reading of the inbox and the release of the lock.
            try:
                end, fold = await self._drive_once(folder, driving, _left)
            except RunLocked:
                return end  # the process that brought the answer drives the run already
        return end

    def _mail_came(self, folder: RunFolder, fold: Fold, driving: Driving) -> bool:
        """Whether a run that parked can go on: the answer it waits for is there, or it is to be canceled.

        An answer to another request does not count: an edited file may keep the flow from coming to it.
        """
        parked = driving.parked.pop(folder.id, None)
        return (parked is not None and parked.came()) or self._tree.is_canceled(folder, fold)

    async def _drive_once(
        self,
        folder: RunFolder,
        driving: Driving,
        look: Callable[[Ledger], T],
        beginning: tuple[Kind, Beginning] | None = None,
    ) -> T:
        """Drive a run once. Returns what `look` makes of its ledger then. A new run has a `beginning`."""
        with self._store.claim(folder) as claim:
            kind = beginning[0] if beginning else self._tree.kind(self._tree.created(folder))
            ledger = self._open(claim, kind)
            try:
                if beginning:
                    self._record_beginning(ledger, *beginning)
                status = ledger.fold.state.status
                if status in FINAL.values():
                    return look(ledger)
                if ledger.journal.torn_bytes:
                    cut = f"a torn last line ({ledger.journal.torn_bytes} bytes) was cut off: it had not happened yet"
                    self._face.tell(Notice(folder.id, cut))
                self._refuse_strangers(ledger)
                await self._end_replaced(ledger)
                # Before any replay, so that a run with drift can be canceled too; nobody can have canceled a new run.
                if not beginning and (said := self._store.mail(folder, CANCEL)):
                    driving.cancel(said)
                    await self._tree.cancel(ledger, kind, driving)
                else:
                    if ledger.fold.newest.numbers:  # rule 7
                        await self._settle_apply(ledger, kind, driving)
                    await self._run(ledger, kind, driving)
                return look(ledger)
            finally:
                try:
                    self._after_drive(folder)  # while the run is still claimed
                finally:
                    ledger.close()

    async def _run(self, ledger: Ledger, kind: Kind, driving: Driving) -> None:
        withdrawn = set(ledger.fold.withdrawn)
        flow = asyncio.ensure_future(self._flow(ledger, kind, driving))
        try:
            with watched_for_cancel(self._store, ledger.folder, flow, driving):
                verdict = await flow
        except Suspended as parked:
            driving.parked[ledger.folder.id] = parked
            return
        except Canceled:
            verdict = driving.verdict()
        except asyncio.CancelledError:  # from outside (Ctrl-C), too: then the flow was cancelled, and is over
            if not driving.canceled:
                raise
            verdict = driving.verdict()
        finally:
            self._tell_withdrawn(ledger, ledger.fold.withdrawn.keys() - withdrawn)
        self._finish(ledger, verdict)

    async def _flow(
        self,
        ledger: Ledger,
        kind: Kind,
        driving: Driving,
        only: frozenset[type[Effect[Any]]] = frozenset(),
        stale: list[str] | None = None,
    ) -> Verdict:
        context = Context(
            ledger,
            self._handlers(ledger, driving),
            accepted_drift=driving.accept_drift,
            only=only,
            name_child=lambda workflow, key: child_id(ledger.folder.id, workflow, key),
            stale=stale,
            end_replaced=lambda: self._end_replaced(ledger),
            changing=Changing(self._store.kept(ledger.folder, CHANGES, JobChange), ledger.events),
        )
        try:
            params = msgspec.convert(ledger.events[0].payload["params"], kind.params)
            verdict = await kind.flow(context, params)
            context.raise_stopped()
            return caught_wait(context) or verdict
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

    def _handlers(self, ledger: Ledger, driving: Driving) -> Handlers:
        """The handlers of a run: people and child runs are the engine's own, the others those of the program."""

        def waits(request: Event) -> None:
            self._face.tell(Waiting(ledger.folder, request))

        given = self._handlers_for(ledger, ledger.events[0])
        people = People(
            self._store,
            patient=driving.patient,
            arrivals=driving.arrivals,
            on_wait=waits,
            on_ask=driving.on_ask,
            revise=given.get(Revise),
        )

        async def child(effect: ChildRun, step: Step) -> ChildResult:
            return await self._child(effect, step, driving)

        return {
            AskPerson: people.ask,
            AskWorkspace: people.look,
            Approve: people.approve,
            ReviewPatch: people.review,
            GrantRevision: people.grant_revision,
            ChildRun: child,
            **given,
        }

    async def _settle_apply(self, ledger: Ledger, kind: Kind, driving: Driving) -> None:
        """Complete, or report, patches whose writing a kill cut short: a canceled run leaves no half a patch (D-12).

        Each branch may have one. A replay that performs no other effect finds them. An error that stops it is raised.
        """
        if may_be_applying(ledger.events):
            flow = self._flow(ledger, kind, driving, only=frozenset({ApplyPatch, TakeBack}))
            [found] = await asyncio.gather(flow, return_exceptions=True)
            if isinstance(found, OrchestraError) and may_be_applying(ledger.events):
                raise found

    async def stale(self, folder: RunFolder) -> Stale:
        """What a run that has ended, and its finished child runs, would do anew. Nothing is done or recorded."""
        own, children = await self._own_stale(folder)
        below = {key: await self.stale(child) for key, child in children.items()}
        return Stale(tuple(own), {key: stale for key, stale in below.items() if stale})

    async def _own_stale(self, folder: RunFolder) -> tuple[list[str], dict[str, RunFolder]]:
        """What is stale of one run: edited files and other inputs; and its finished child runs, by step."""
        found: list[str] = []
        with self._store.claim(folder) as claim:
            kind = self._tree.kind(self._tree.created(folder))
            ledger = self._open(claim, kind)
            try:
                await self._flow(ledger, kind, Driving(False, frozenset()), stale=found)
            except Suspended:
                pass  # at the first difference of a branch
            finally:
                ledger.close()
        named = finished_children(ledger.events, ledger.fold.newest)
        children = {one.key: RunFolder(self._kind_of(one.workflow).root / one.run_id) for one in named}
        return found, {key: child for key, child in children.items() if self._store.first(child) is not None}

    def _finish(self, ledger: Ledger, verdict: Verdict) -> None:
        type, payload = last_event(verdict)
        self._before_end(ledger, verdict)
        ledger.end(type, payload)
        ledger.journal.sync()

    def rebuild(self, folder: RunFolder) -> None:
        """Write the derived files of a run anew, where they are missing or not what its journal gives."""
        with self._store.claim(folder) as claim:
            self._open(claim, self._tree.kind(self._tree.created(folder))).close()

    # -- cancel, children ---------------------------------------------------------------------------------------------

    async def cancel(self, folder: RunFolder) -> RunEnd | None:
        """End a run whose inbox has a cancel message. None: another process drives the run and will end it."""
        try:
            return await self.drive(folder)
        except RunLocked:
            return None

    async def _end_replaced(self, ledger: Ledger) -> None:
        """Cancel the child runs that wait in editions that were replaced (rule 7). The run itself goes on."""
        replaced, ledger.fold.replaced = ledger.fold.replaced, {}
        for key, (workflow, name) in replaced.items():
            child = RunFolder(self._kind_of(workflow).root / name)
            created = self._store.first(child) if is_id(name) else None
            if created is None or created.payload.get("parentRunId") != ledger.folder.id:
                continue  # it was not begun, or is the child of the run that this one was forked from
            if self._store.mail(child, CANCEL) is None and self._store.all_events(child)[-1].type not in FINAL:
                why = f"{edition_of(key)} was replaced: its inputs changed"
                self._store.deliver(child, CANCEL, message("cancel", "orchestra", text=why))
            try:
                await self._drive_once(child, Driving(False, frozenset()), how_ended)
            except RunLocked:
                pass  # the process that drives it ends it

    async def _child(self, effect: ChildRun, step: Step, driving: Driving) -> ChildResult:
        kind = self._kind_of(effect.workflow)
        parent = {"parentRunId": step.ledger.folder.id, "parentKey": step.key}
        folder, created = self._begun_child(kind, effect, step)
        beginning = None
        if created is None and await self._forks.make_child(
            kind, folder, effect, step.ledger.events[0], parent, driving.accept_drift
        ):
            self._face.tell(Launched(folder, kind.name, step.ledger.folder.id))
        elif created is None:
            admitted = self._admitted(kind, effect, step)
            self._store.create_child(kind.root, folder.id, admitted.files)
            beginning = (kind, msgspec.structs.replace(admitted, facts={**admitted.facts, **parent}))
            self._face.tell(Launched(folder, kind.name, step.ledger.folder.id))
        elif {name: created.payload.get(name) for name in parent} != parent:
            raise DurabilityError(f"{folder.path} is not the child of step {step.key}: move it away, then resume")
        result = await self._drive_once(folder, driving, partial(self._result, step.ledger.folder), beginning)
        if driving.canceled:
            raise Canceled  # a cancel of the child is a cancel of the whole tree
        if result is None:
            parked = driving.parked.get(folder.id)
            raise Suspended(f"child run {folder.id} waits for a person", parked.came if parked else lambda: False)
        return result

    def _result(self, parent: RunFolder, ledger: Ledger) -> ChildResult | None:
        """What the parent keeps of a child run that has ended; None if it waits."""
        last, folder = ledger.events[-1], ledger.folder
        if last.type not in FINAL:
            return None
        end = ended(folder.id, last)
        result = ChildResult(
            folder.id, final_status(last), end.result, error=end.message, exitCode=end.exit_code, code=end.code
        )
        # By its parent, which is driven now: a child that had ended before a kill is not.
        return summed(result, folder, ledger.events, tree_ms=self._worked(parent))

    def _begun_child(self, kind: Kind, effect: ChildRun, step: Step) -> tuple[RunFolder, Event | None]:
        """The child that the recorded intent names (older versions named children in another way), and its first event.

        A fork of theirs names the child of the run it was forked from, and has one of its own.
        """
        said = step.intent.payload if step.intent else {}
        name = str(said.get("childRunId", ""))
        if said.get("workflow") == effect.workflow and is_id(name):
            created = self._store.first(folder := RunFolder(kind.root / name))
            if created is None or created.payload.get("parentRunId") == step.ledger.folder.id:
                return folder, created
        folder = RunFolder(kind.root / effect.childRunId)
        return folder, self._store.first(folder)

    def _admitted(self, kind: Kind, effect: ChildRun, step: Step) -> Beginning:
        """How the child begins. A job that would be refused as a root run raises StepFailed before the child exists."""
        try:
            return kind.admit_child(effect, step.ledger.events[0])
        except (UsageError, PolicyError) as refused:
            raise StepFailed(step.key, refused.code, f"{effect.workflow}: {refused}") from refused

    # -- fork ---------------------------------------------------------------------------------------------------------

    def history(self, folder: RunFolder, at: str = "") -> tuple[Standing, list[Event]]:
        """Whether the run is this user's, and its events up to `at`. Damage after `at` is ignored."""
        return self._forks.history(folder, at)

    def fork(self, folder: RunFolder, kept: list[Event], at: str, facts: Mapping[str, Any]) -> RunFolder:
        """Make a new run with the settled steps of this run's `history` up to and including event `at`.

        `facts` replace what the old run recorded of itself when it began.
        """
        refuse_fork(folder, kept, at)
        return self._made(self._forks.make(folder, Taken(settled(kept)), facts))

    async def rerun(self, folder: RunFolder, events: list[Event], stale: Stale, facts: Mapping[str, Any]) -> RunFolder:
        """Make a new run that does again what is stale of this one, of which `events` are the whole history."""
        taken = await self._forks.take_stale(folder, events, list(stale.paths()))
        return self._made(self._forks.make(folder, taken, facts))

    async def again(
        self,
        folder: RunFolder,
        events: list[Event],
        facts: Mapping[str, Any],
        *,
        answer: NewAnswer | None = None,
        accept_drift: frozenset[str] = frozenset(),
    ) -> RunFolder:
        """Make a new run with everything that succeeded in this one, of which `events` are the whole history.

        With `answer`: with everything that does not depend on that question's earlier answer.
        """
        taken = await self._forks.take(folder, events, answer, accept_drift)
        return self._made(self._forks.make(folder, taken, facts, answer))

    def _made(self, new: RunFolder) -> RunFolder:
        self._face.tell(Launched(new, self._tree.kind(self._tree.created(new)).name))
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

    def _tell_withdrawn(self, ledger: Ledger, requests: Iterable[str]) -> None:
        """Report answers that came too late: what they were about has changed since (core/newest.py)."""
        parent = RunCreated.of(ledger.events[0]).parentKey
        for name in sorted(requests):
            if (said := self._store.mail(ledger.folder, name)) is not None:
                why = "counts for nothing: what it was about has changed"
                place = key_of(ledger.fold.withdrawn[name]).removesuffix(".1") or name
                asked = f"{parent}/{place}" if parent else place
                self._face.tell(Notice(ledger.folder.id, f"the answer {brief(said.text, 80)!r} to {asked} {why}"))

    def _refuse_strangers(self, ledger: Ledger) -> None:
        """Set aside the inbox files that this user's key did not seal (rule 8), and report each."""
        for name in self._store.refuse_strangers(ledger.folder, (CANCEL, *ledger.fold.pending)):
            what = f"inbox/{name} was not written with your key: it is set aside and counts for nothing"
            self._face.tell(Notice(ledger.folder.id, what))


def _left(ledger: Ledger) -> tuple[RunEnd, Fold]:
    """How a drive ended, and what the run waits for."""
    return how_ended(ledger), ledger.fold
