"""The inbox: how a person's answer reaches a run from any process, whether or not a process drives the run (D-10).

Its files are read and written through the store only (core/store.py). core/people.py waits for answers.

Rules
1. A message is one file in `inbox/`, named after the request it answers. It is complete and synced before the person
   sees "recorded".
2. The name is taken by a link that fails if the name exists. So the first answer wins, and a second one is refused.
3. The driver turns the message into an event. The file stays, to refuse a second answer.
4. An answer is bound to its request: an approval contains the digest it grants, and another digest is refused (D-11).
5. A message is sealed with its sender's key, for this run and this request (core/seal.py). A file without a valid seal
   is not a message: it answers nothing and blocks no answer. It is set aside when a person answers or the run is
   driven.
6. Other records of this user for a run are kept here too, sealed in the same way. A newer one replaces an older one.
7. What orchestra itself puts here has names that no request of a person's own workflow can have (`free_name`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from orchestra.core.changing import CHANGES
from orchestra.core.disk import Disk
from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import MIB, read_bounded
from orchestra.core.journal import read_first
from orchestra.core.lock import alone
from orchestra.core.records import now
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.seal import Seal

R = TypeVar("R", bound=Struct)
CANCEL = "cancel"
MODELS = "models"  # rule 6: who answers from now on
_MOST = 4 * MIB
_MOST_KEPT = MIB


class Message(Struct, frozen=True, omit_defaults=True):
    """A person's message: a grant, a rejection, an answer, a cancel."""

    kind: Literal["approve", "reject", "answer", "cancel"]
    by: str
    at: str
    text: str = ""
    digest: str = ""
    accepted: tuple[str, ...] = ()
    end: bool = False
    patch: str = ""  # the person's own version of the patch, exact: parts of it, or an edited one
    chosen: str = ""  # the digest of that version, as the person saw it
    declined: str = ""  # the parts that they left out, as a diff
    edited: bool = False
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
        with alone(folder.inbox):  # else an answer between the reading and the link would be set aside
            if os.path.lexists(target) and read(folder, request, seal) is None:
                _set_aside(target, disk)  # rule 5
            disk.link(str(temporary), str(target))
        disk.sync_folder(folder.inbox)
    except FileExistsError:
        earlier = read(folder, request, seal)
        said = f"{earlier.kind} by {earlier.by} at {earlier.at}" if earlier else "an answer without a valid seal"
        raise UsageError(f"run {folder.id}: {request} was already answered ({said}); the first answer stands") from None
    finally:
        temporary.unlink(missing_ok=True)


def read(folder: RunFolder, request: str, seal: Seal | None) -> Message | None:
    """The message for this request, if this user sent one (rule 5)."""
    try:
        found = msgspec.json.decode(read_bounded(_file(folder, request), _MOST), type=Message)
    except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError):
        return None
    if request == CANCEL and found.kind != "cancel":
        return None  # rule 7 is younger than some runs: an answer cancels nothing
    return found if seal is not None and seal.holds(found, *identity(folder), request) else None


def keep(folder: RunFolder, name: str, record: Struct, *, disk: Disk, seal: Seal) -> None:
    """Write a sealed record of this name, durably (rule 6)."""
    folder.inbox.mkdir(exist_ok=True)
    closed = seal.closes(record, *identity(folder), name)
    disk.publish(folder.inbox / f"{name}.json", msgspec.json.encode(closed), durable=True)


def kept(folder: RunFolder, name: str, kind: type[R], seal: Seal | None) -> R | None:
    """The record of this name, if this user wrote one (rule 6)."""
    try:
        found = msgspec.json.decode(read_bounded(_file(folder, name), _MOST_KEPT), type=kind)
    except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if seal is not None and seal.holds(found, *identity(folder), name) else None


def _file(folder: RunFolder, name: str) -> str:
    """The path of a message or a record. Text, because each run that is driven looks for several that are not there."""
    return f"{folder.path}/inbox/{name}.json"


def free_name(request: str) -> str:
    """A name for a request that its author chose: another where it would take the place of orchestra's own (rule 7)."""
    plain = request.casefold()  # some file systems do not tell them apart
    taken = plain in (CANCEL, MODELS, CHANGES) or plain.startswith("approval-") or plain.endswith(".refused")
    return f"%{request}" if taken else request


def identity(folder: RunFolder) -> tuple[str, str]:
    """What a record beside the journal is sealed for: the run's id, and the seal of its first line.

    An id may be used again after its run was removed. A message to the old run must not count for the new one.
    """
    created = read_first(folder.events)
    return folder.id, str(created.payload.get("seal", "")) if created is not None else ""


def set_aside(folder: RunFolder, request: str, disk: Disk) -> None:
    """Rename a message, so that the request can be answered again."""
    _set_aside(folder.inbox / f"{request}.json", disk)


def refuse_strangers(folder: RunFolder, requests: Iterable[str], *, disk: Disk, seal: Seal) -> list[str]:
    """Set aside the files in the place of these answers that are not messages (rule 5); returns their names."""
    refused: list[str] = []
    for request in requests:
        if not os.path.lexists(_file(folder, request)):
            continue
        path = Path(_file(folder, request))
        with alone(folder.inbox):
            if os.path.lexists(path) and read(folder, request, seal) is None:
                _set_aside(path, disk)
                refused.append(path.name)
    return refused


def _set_aside(path: Path, disk: Disk) -> None:
    """Rename the file, or a folder in its place."""
    aside = path.with_suffix(".refused.json")
    disk.replace(str(path), str(aside if not aside.is_dir() else path.with_suffix(f".{os.getpid()}.refused.json")))


def message(kind: Literal["approve", "reject", "answer", "cancel"], by: str, **more: Any) -> Message:
    """A new message with the current time."""
    return Message(kind=kind, by=by, at=now(), **more)
