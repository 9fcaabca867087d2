"""The people a run asks: handlers of AskPerson, Approve and ReviewPatch. They wait for a message in the run's inbox.

A question that only asks to see files (AskWorkspace) is answered here too, without waiting.

Rules
1. Without a person to wait for, the run parks (`Suspended`). After releasing the lock, the process that parked reads
   the inbox once more (core/engine.py), so an answer that came in between is not missed.
2. An approval is for exactly the digest that was requested (D-11). A message about another digest is set aside. A
   person's own version of a patch is granted by its own digest: that of the text and the files which the person saw.
3. With `on_ask` "default", a question that names a default is answered with it, unless a person has answered. The
   answer is marked as provisional: `orchestra fork --answer` can replace it. Approvals have no default.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import UnsetType

from orchestra.core.arrivals import Arrivals
from orchestra.core.context import Handler, Step
from orchestra.core.errors import Suspended
from orchestra.core.inbox import Message
from orchestra.core.records import Event, OnAsk, utf8
from orchestra.core.run import RunFolder
from orchestra.core.store import Store
from orchestra.core.text import clean
from orchestra.core.work import (
    Answer,
    Approval,
    Approve,
    AskPerson,
    AskWorkspace,
    GrantRevision,
    PatchProposal,
    ReviewPatch,
    Revise,
)

OnWait = Callable[[Event], None]  # called when a patient run begins to wait for a request, so that a face can prompt
DEFAULT = "default"  # who answers a question with its default (rule 3)
WORKSPACE = "workspace"  # who answers a question that only asks to see files


class People:
    """Handlers of AskPerson, Approve and ReviewPatch. `patient`: wait here for the answer; otherwise park.

    `revise` is the handler of Revise: it computes what a person's own version of a patch would change.
    """

    def __init__(
        self,
        store: Store,
        *,
        patient: bool,
        arrivals: Arrivals,
        on_wait: OnWait,
        on_ask: OnAsk = "park",
        revise: Handler | None = None,
    ) -> None:
        self._store = store
        self._patient = patient
        self._arrivals = arrivals
        self._on_ask = on_ask
        self._on_wait = on_wait
        self._revise = revise

    async def ask(self, effect: AskPerson, step: Step) -> Answer:
        """Raise the question, wait for its answer, and keep both readable in ask/iter-NNNN.md (S1-109)."""
        _write_question(effect, step, answer=None)
        answer = self._by_default(effect, step)
        if answer is None:
            said = await self._wait(effect.questionId, step)
            answer = Answer(questionId=effect.questionId, text=said.text, by=said.by)
        _write_question(effect, step, answer=answer)
        return answer

    def _by_default(self, effect: AskPerson, step: Step) -> Answer | None:
        """The default as a provisional answer, if nobody is asked (rule 3); else None."""
        if self._on_ask != "default" or isinstance(effect.default, UnsetType):
            return None
        if self._store.mail(step.ledger.folder, effect.questionId) is not None:
            return None
        return Answer(effect.questionId, effect.default, DEFAULT, provisional=True)

    async def look(self, effect: AskWorkspace, step: Step) -> Answer:
        """Answer at once: what was asked for is shown with the next call. A person's answer wins, if there is one."""
        said = self._store.mail(step.ledger.folder, effect.questionId)  # given after a kill right behind the question
        text = f"shown with the next call, as far as it may be: {'; '.join(effect.needed_input)}"
        answer = Answer(effect.questionId, said.text if said else text, said.by if said else WORKSPACE)
        _write_question(effect, step, answer=answer)
        return answer

    async def approve(self, effect: Approve, step: Step) -> Approval:
        """Wait for a decision on exactly this digest (D-11)."""
        return _decided(effect, await self._decision(effect, step))

    async def review(self, effect: ReviewPatch, step: Step) -> Approval | PatchProposal:
        """The same for a patch. If the person sent their own version of it, the outcome is that version."""
        said = await self._decision(effect, step)
        if said.kind != "approve" or not said.patch:
            return _decided(effect, said)
        assert self._revise is not None, "a part of a patch must never become a grant of the whole"
        revised: PatchProposal = await self._revise(
            Revise(effect, said.patch, said.chosen, said.by, said.text, said.declined, said.edited), step
        )
        return revised

    async def grant_revision(self, effect: GrantRevision, step: Step) -> Approval:
        """The grant of a person's own version: the message that brought it is the grant."""
        return Approval(
            granted=True,
            by=effect.by,
            digest=effect.digest,
            reason=effect.reason,
            accepted=effect.accepted,
            approvalId=effect.approvalId,
        )

    async def _decision(self, effect: Approve | ReviewPatch, step: Step) -> Message:
        """Wait for a message about exactly this digest (rule 2)."""
        said = await self._wait(effect.approvalId, step)
        while said.digest != effect.digest:
            self._store.set_aside(step.ledger.folder, effect.approvalId)
            said = await self._wait(effect.approvalId, step)
        return said

    async def _wait(self, request: str, step: Step) -> Message:
        folder = step.ledger.folder
        said = self._store.mail(folder, request)
        if said is not None:
            return said
        if not self._patient:
            raise Suspended(f"{request} waits for a person", partial(self._has_mail, folder, request))
        if step.intent is not None:
            self._on_wait(step.intent)
        return await self._arrivals.first(folder.inbox, lambda: self._store.mail(folder, request))

    def _has_mail(self, folder: RunFolder, request: str) -> bool:
        return self._store.mail(folder, request) is not None


def _decided(effect: Approve | ReviewPatch, said: Message) -> Approval:
    return Approval(
        granted=said.kind == "approve",
        by=said.by,
        digest=effect.digest,
        reason=said.text,
        accepted=said.accepted,
        end=said.end,
        approvalId=effect.approvalId,
    )


def _write_question(effect: AskPerson | AskWorkspace, step: Step, *, answer: Answer | None) -> None:
    lines = [f"# {effect.question}", "", *([f"Why: {effect.reason}", ""] if effect.reason else ())]
    if isinstance(effect, AskPerson):
        lines += [f"- option: {option}" for option in effect.options or ()]
        lines += [f"- default: {effect.default}"] if effect.default else []
        lines += [f"- impact: {effect.impact}"] if effect.impact else []
    lines += [f"- needed: {item}" for item in effect.needed_input]
    if answer is not None:
        by = "the default; provisional" if answer.provisional else answer.by
        lines += ["", f"## Answer ({by})", "", answer.text]
    ledger = step.ledger
    path: Path = ledger.folder.artifact(effect.artifact)
    ledger.disk.publish(path, utf8(ledger.redactor.text(clean("\n".join(lines) + "\n"))), durable=False)
