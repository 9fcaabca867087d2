"""Looks: what a run sees of files that it made and that a person may edit. Records, decisions and handlers.

Rules
1. `judge` decides what a look does, from digests alone: those of the file, of the run's text, and of what the run
   wrote. core/editions.py carries it out.
2. An edit is told from a text of the run's own by the digest of what the run wrote last. A write is announced before it
   is done (the intent of WriteFile), so a text that a killed process wrote is known as the run's own, too.
3. If the file was edited and the run has a new text for it, that is a conflict, and a person decides. A file that was
   there before the run is one as well: it is nobody's to replace.
4. Nothing of a person's is lost: an edited text is recorded, and one that is given up is kept as a file of the run.
5. A flow may say which texts it can use. One that it cannot is given up without a question: the file is written again
   as it was last seen, and so nothing else is done again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeGuard

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core.effects import Effect, digest_of
from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import MIB
from orchestra.core.names import shortened
from orchestra.core.records import ArtifactRef, Event, EventType, utf8
from orchestra.core.run import RunFolder, digest

if TYPE_CHECKING:
    from orchestra.core.context import Step

Inside = Literal["project", "run"]  # where a file lies: in the project, or in the run's folder
Usable = Callable[[str], bool]  # whether a person's text of a file can be used
Act = Literal["same", "saw", "write", "restore", "replace", "conflict"]
MOST_TEXT = MIB  # bytes of a file that is looked at
_MOST_INLINE = 16 * 1024  # bytes of an edited text in an event; a longer one is a file of the run


class Looked(Struct, frozen=True):
    """A file of the run's as it is now: its text, and whether a person edited it."""

    text: str
    path: str
    digest: str  # of the text
    edited: bool = False

    def __str__(self) -> str:
        return self.text


class Seen(Struct, frozen=True, omit_defaults=True):
    """What was seen of a file, or written to it. The digests are of its exact bytes."""

    path: str
    inside: Inside
    made: str  # the run's own text
    file: str  # the file
    edited: bool = False
    text: str | UnsetType = UNSET  # of an edited file, if it is short
    artifact: ArtifactRef | None = None  # of an edited file, if it is long
    conflict: bool = False  # the file was edited and the run has a new text: a person decides
    replaced: ArtifactRef | None = None  # a text that a person gave up, or that could not be used


class Look(Effect[Seen], frozen=True):
    """Record what a file holds, if that is not the same as before."""

    path: str
    inside: Inside
    made: str
    file: str
    text: str | UnsetType = UNSET  # of an edited file
    conflict: bool = False

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Seen

    def identity(self) -> str:
        return digest_of(["Look", self.inside, self.path, self.made, self.file, self.conflict])


class WriteFile(Effect[Seen], frozen=True):
    """Write a file that is looked at."""

    path: str
    inside: Inside
    made: str
    text: str
    edited: bool = False  # the text is a person's
    keeps: bool = False  # the file holds a person's text, which is kept

    outcome: ClassVar[Any] = Seen

    def identity(self) -> str:
        return digest_of(["WriteFile", self.inside, self.path, self.made, digest(utf8(self.text)), self.edited])

    def public(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"path": self.path, "inside": self.inside, "made": self.made}
        return {**shown, "file": digest(utf8(self.text)), "edited": self.edited}


class Hashed(Struct, frozen=True):
    """The contents of some files of the project, as one digest."""

    digest: str
    files: int
    globs: tuple[str, ...] = ()


class TreeHash(Effect[Hashed], frozen=True):
    """Record the digest of files of the project, if it is not the same as before."""

    found: Hashed

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Hashed


class Files(Protocol):
    """The files that looks are made at: the handler of WriteFile. UsageError or OddFile for a path that will not do."""

    def read(self, inside: Inside, path: str) -> bytes | None:
        """The bytes of the file; None if there is none."""
        ...

    async def hashed(self, globs: tuple[str, ...]) -> Hashed:
        """The digest of the project's files that these globs name; without any, of all."""
        ...

    async def __call__(self, effect: WriteFile, step: Step, /) -> Seen: ...


def has_files(handler: object) -> TypeGuard[Files]:
    """Whether this handler of WriteFile has the files that looks are made at."""
    return hasattr(handler, "hashed")


def any_text(text: str) -> bool:
    """For a flow that can use any text."""
    return True


# -- what a look does ------------------------------------------------------------------------------------------------


def judge(last: Seen | None, begun: frozenset[str], now: str | None, made: str) -> Act:
    """What a look does (rules 2 and 3). `now` is the file's digest, `made` that of the run's text. Pure.

    `begun` are the texts that the run announced to write after its last look: a kill may have left one of them.
    """
    if now is None:
        return "restore" if last is not None and last.edited and last.made == made else "write"
    if now == made and made in begun:
        return "write"  # a killed process wrote it; its record is still to be made
    if now == made:
        return "same" if last is not None and last.made == made and not last.edited else "saw"
    if now in begun or (last is not None and now == last.made):
        return "write"  # the run's own older text
    if last is None or made != last.made:
        return "conflict"
    return "same" if now == last.file else "saw"


def seen_in(event: Event | None) -> Seen | None:
    return None if event is None else msgspec.convert(event.payload["outcome"], Seen)


def text_of(seen: Seen, folder: RunFolder) -> str:
    """The recorded text of an edited file."""
    if not isinstance(seen.text, UnsetType):
        return seen.text
    return folder.recorded(seen.artifact, 2 * MOST_TEXT).decode("utf-8", "replace")


def decoded(data: bytes, path: str) -> str:
    """The bytes of a file as text; UsageError if they are none."""
    try:
        if b"\0" not in data:
            return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    raise UsageError(f"{path} is no text in UTF-8, so it cannot be read: put its text back, then resume")


def file_name(key: str) -> str:
    return shortened(key.replace("%", "%25").replace("~", "%7E").replace("\0", "%00").replace("/", "~"))


# -- handlers ---------------------------------------------------------------------------------------------------------


async def saw(effect: Look, step: Step) -> Seen:
    """Handler of Look. A long text becomes a file of the run (D-04)."""
    seen = Seen(effect.path, effect.inside, effect.made, effect.file, conflict=effect.conflict)
    if isinstance(effect.text, UnsetType):
        return seen
    kept = _kept(effect.text, f"looks/{file_name(step.key)}.txt", step)
    return msgspec.structs.replace(seen, edited=True, **kept)


def written(effect: WriteFile, before: bytes | None, step: Step) -> Seen:
    """The outcome of WriteFile. `before` is what the file held; a person's text in it is kept (rule 4)."""
    seen = Seen(effect.path, effect.inside, effect.made, digest(utf8(effect.text)), effect.edited)
    if effect.edited:
        seen = msgspec.structs.replace(seen, **_kept(effect.text, f"looks/{file_name(step.key)}.txt", step))
    if not effect.keeps:
        return seen
    folder, name = step.ledger.folder, f"looks/{file_name(step.key)}.before.txt"
    if before is not None and digest(before) != seen.file:
        data = utf8(step.ledger.redactor.text(before.decode("utf-8", "replace")))
        step.ledger.disk.publish(folder.artifact(name), data, durable=True)
        return msgspec.structs.replace(seen, replaced=folder.reference(folder.artifact(name), data))
    try:  # an earlier process kept it, and was killed after it wrote the file
        data = folder.read(f"artifacts/{name}", 2 * MOST_TEXT)
    except (OSError, OddFile):
        return seen
    return msgspec.structs.replace(seen, replaced=folder.reference(folder.artifact(name), data))


def _kept(text: str, name: str, step: Step) -> dict[str, Any]:
    """The fields of Seen for an edited text: itself, or a file."""
    ledger = step.ledger
    data = utf8(ledger.redactor.text(text))
    if len(data) <= _MOST_INLINE:
        return {"text": text}
    path = ledger.folder.artifact(name)
    ledger.disk.publish(path, data, durable=True)
    return {"artifact": ledger.folder.reference(path, data)}


async def hashed(effect: TreeHash, step: Step) -> Hashed:
    """Handler of TreeHash."""
    return effect.found
