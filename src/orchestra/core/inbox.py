"""The inbox: how a person's word reaches a run, from any process, whether or not one is driving it (D-10).

Rules
1. A message is one file in `inbox/`, named after the request it answers, made whole and synced before the person is
   told "recorded".
2. The name is taken by a link that fails if it exists: the first answer wins, a second is refused by name.
3. The driver turns the message into an event. The file stays: it is what refuses the second answer.
4. An answer binds to what was asked: an approval carries the digest it grants, and another digest is refused (D-11).
5. A message is sealed with its sender's key, for this run and this request (core/seal.py). A file that is not is no
   message: it answers nothing and refuses nobody, and is set aside when somebody answers or drives.
6. Without a person to wait for, the run parks (`Suspended`). Whoever parks looks into the inbox once more after
   letting go of the lock (core/engine.py), so an answer that came in between is not left lying.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchestra.core.context import Step
from orchestra.core.disk import Disk
from orchestra.core.errors import OddFile, Suspended, UsageError
from orchestra.core.files import MIB, read_bounded
from orchestra.core.records import Event, now, utf8
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.seal import Seal
from orchestra.core.text import clean
from orchestra.core.vouching import identity
from orchestra.core.work import Answer, Approval, Approve, AskPerson

OnWait = Callable[[Event], None]  # told of a request when a patient run begins to wait: the face may then prompt
POLL_SECONDS = 0.1
CANCEL = "cancel"
_MOST = 4 * MIB


class Message(Struct, frozen=True, omit_defaults=True):
    """What a person said: a grant, a rejection, an answer, a cancel."""

    kind: Literal["approve", "reject", "answer", "cancel"]
    by: str
    at: str
    text: str = ""
    digest: str = ""
    accepted: tuple[str, ...] = ()
    end: bool = False
    seal: str = ""


def deliver(folder: RunFolder, request: str, message: Message, *, disk: Disk, redactor: Redactor, seal: Seal) -> None:
    """Put a message into the inbox, durably; UsageError if this request was answered before (rule 2)."""
    message = msgspec.structs.replace(message, text=redactor.text(message.text))
    message = seal.closes(message, *identity(folder), request)
    target = folder.inbox / f"{request}.json"
    if not folder.inbox.exists():
        folder.inbox.mkdir(mode=0o700, exist_ok=True)
        disk.sync_folder(folder.path)
    temporary = folder.inbox / f".{request}.{os.getpid()}.tmp"
    try:
        disk.write(str(temporary), msgspec.json.encode(message), durable=True)
        with _alone(folder.inbox):
            if os.path.lexists(target) and read(folder, request, seal) is None:
                _set_aside(target, disk)  # rule 5
            disk.link(str(temporary), str(target))
        disk.sync_folder(folder.inbox)
    except FileExistsError:
        earlier = read(folder, request, seal)
        said = f"{earlier.kind} by {earlier.by} at {earlier.at}" if earlier else "an answer nobody sealed"
        raise UsageError(f"run {folder.id}: {request} was already answered ({said}); the first answer stands") from None
    finally:
        temporary.unlink(missing_ok=True)


def read(folder: RunFolder, request: str, seal: Seal | None) -> Message | None:
    """The message for this request, if this user sent one (rule 5)."""
    try:
        found = msgspec.json.decode(read_bounded(folder.inbox / f"{request}.json", _MOST), type=Message)
    except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if seal is not None and seal.holds(found, *identity(folder), request) else None


def waiting(folder: RunFolder, pending: dict[str, Event], seal: Seal | None) -> dict[str, Event]:
    """The open requests nobody has answered yet."""
    return {name: event for name, event in pending.items() if read(folder, name, seal) is None}


def refuse_strangers(folder: RunFolder, requests: Iterable[str], *, disk: Disk, seal: Seal) -> list[str]:
    """Set aside what lies in the place of an answer to one of these and is none (rule 5); their names."""
    refused: list[str] = []
    for request in requests:
        path = folder.inbox / f"{request}.json"
        if not os.path.lexists(path) or read(folder, request, seal) is not None:
            continue
        with _alone(folder.inbox):
            if os.path.lexists(path) and read(folder, request, seal) is None:  # nobody answered meanwhile
                _set_aside(path, disk)
                refused.append(path.name)
    return refused


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Be the one who looks into an inbox and then changes it: an answer that came in between would be set aside."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _set_aside(path: Path, disk: Disk) -> None:
    """Give the name free. A folder in the file's place gives it free as well."""
    aside = path.with_suffix(".refused.json")
    disk.replace(str(path), str(aside if not aside.is_dir() else path.with_suffix(f".{os.getpid()}.refused.json")))


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
            _set_aside(step.ledger.folder.inbox / f"{effect.approvalId}.json", step.ledger.disk)
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
        while (said := read(folder, request, step.ledger.seal)) is None:
            if not self._patient:
                raise Suspended(f"{request} waits for a person")
            if not told and step.intent is not None:
                self._on_wait(step.intent)
                told = True
            await asyncio.sleep(POLL_SECONDS)
        return said


def _write_question(effect: AskPerson, step: Step, *, answer: Answer | None) -> None:
    lines = [f"# {effect.question}", "", *([f"Why: {effect.reason}", ""] if effect.reason else ())]
    lines += [f"- option: {option}" for option in effect.options or ()]
    lines += [f"- needed: {item}" for item in effect.needed_input]
    if answer is not None:
        lines += ["", f"## Answer ({answer.by})", "", answer.text]
    ledger = step.ledger
    path: Path = ledger.folder.artifact(effect.artifact)
    ledger.disk.publish(path, utf8(ledger.redactor.text(clean("\n".join(lines) + "\n"))), durable=False)
