"""The inbox: how a person's word reaches a run, from any process, whether or not one is driving it (D-10).

Rules
1. A message is one file in `inbox/`, named after the request it answers, made whole and synced before the person is
   told "recorded".
2. The name is taken by a link that fails if it exists: the first answer wins, a second is refused by name.
3. The driver turns the message into an event. The file stays: it is what refuses the second answer.
4. An answer binds to what was asked: an approval carries the digest it grants, and another digest is refused (D-11).
5. Without a person to wait for, the run parks (`Suspended`). Whoever parks looks into the inbox once more after
   letting go of the lock (core/engine.py), so an answer that came in between is not left lying.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchestra.core.context import Step
from orchestra.core.disk import Disk
from orchestra.core.errors import Suspended, UsageError
from orchestra.core.records import Event, now, utf8
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.text import clean
from orchestra.core.work import Answer, Approval, Approve, AskPerson

OnWait = Callable[[Event], None]  # told of a request when a patient run begins to wait: the face may then prompt
POLL_SECONDS = 0.1
CANCEL = "cancel"


class Message(Struct, frozen=True, omit_defaults=True):
    """What a person said: a grant, a rejection, an answer, a cancel."""

    kind: Literal["approve", "reject", "answer", "cancel"]
    by: str
    at: str
    text: str = ""
    digest: str = ""
    accepted: tuple[str, ...] = ()
    end: bool = False


def deliver(folder: RunFolder, request: str, message: Message, *, disk: Disk, redactor: Redactor) -> None:
    """Put a message into the inbox, durably; UsageError if this request was answered before (rule 2)."""
    message = msgspec.structs.replace(message, text=redactor.text(message.text))
    target = folder.inbox / f"{request}.json"
    if not folder.inbox.exists():
        folder.inbox.mkdir(mode=0o700, exist_ok=True)
        disk.sync_folder(folder.path)
    temporary = folder.inbox / f".{request}.{os.getpid()}.tmp"
    try:
        disk.write(str(temporary), msgspec.json.encode(message), durable=True)
        disk.link(str(temporary), str(target))
        disk.sync_folder(folder.inbox)
    except FileExistsError:
        earlier = read(folder, request)
        said = f"{earlier.kind} by {earlier.by} at {earlier.at}" if earlier else "an unreadable answer"
        raise UsageError(f"run {folder.id}: {request} was already answered ({said}); the first answer stands") from None
    finally:
        temporary.unlink(missing_ok=True)


def read(folder: RunFolder, request: str) -> Message | None:
    """The message for this request, if one came."""
    try:
        return msgspec.json.decode((folder.inbox / f"{request}.json").read_bytes(), type=Message)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise UsageError(f"{folder.inbox / request}.json is damaged ({error}); remove it and answer again") from error


def waiting(folder: RunFolder, pending: dict[str, Event]) -> dict[str, Event]:
    """The open requests nobody has answered yet."""
    return {name: event for name, event in pending.items() if not (folder.inbox / f"{name}.json").exists()}


def message(kind: Literal["approve", "reject", "answer", "cancel"], by: str, **more: Any) -> Message:
    """A message of this moment."""
    return Message(kind=kind, by=by, at=now(), **more)


class People:
    """Handlers of AskPerson and Approve. `patient`: wait here for the answer; otherwise park."""

    def __init__(self, *, patient: bool, on_wait: OnWait) -> None:
        self._patient = patient
        self._on_wait = on_wait

    async def ask(self, effect: AskPerson, step: Step) -> Answer:
        """Raise the question, wait for its answer, and keep both readable in ask/iter-NNNN.md (S1-109)."""
        _write_question(effect, step, answer=None)
        said = await self._wait(effect.questionId, step)
        answer = Answer(questionId=effect.questionId, text=said.text, by=said.by)
        _write_question(effect, step, answer=answer)
        return answer

    async def approve(self, effect: Approve, step: Step) -> Approval:
        """Wait for a word on exactly this digest (D-11)."""
        said = await self._wait(effect.approvalId, step)
        while said.digest != effect.digest:  # a word on something else is no word on this: set it aside, wait on
            name = step.ledger.folder.inbox / effect.approvalId
            step.ledger.disk.replace(f"{name}.json", f"{name}.refused.json")
            said = await self._wait(effect.approvalId, step)
        return Approval(
            granted=said.kind == "approve",
            by=said.by,
            digest=effect.digest,
            reason=said.text,
            accepted=said.accepted,
            end=said.end,
            approvalId=effect.approvalId,
        )

    async def _wait(self, request: str, step: Step) -> Message:
        folder = step.ledger.folder
        told = False
        while (said := read(folder, request)) is None:
            if not self._patient:
                raise Suspended(f"{request} waits for a person")
            if not told and step.intent is not None:
                self._on_wait(step.intent)
                told = True
            await asyncio.sleep(POLL_SECONDS)
        return said


def _write_question(effect: AskPerson, step: Step, *, answer: Answer | None) -> None:
    lines = [f"# {effect.question}", "", f"Why: {effect.reason}", ""]
    lines += [f"- needed: {item}" for item in effect.needed_input]
    if answer is not None:
        lines += ["", f"## Answer ({answer.by})", "", answer.text]
    ledger = step.ledger
    path: Path = ledger.folder.artifact(effect.artifact)
    ledger.disk.publish(path, utf8(ledger.redactor.text(clean("\n".join(lines) + "\n"))), durable=False)
