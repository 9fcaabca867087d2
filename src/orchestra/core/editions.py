"""Editions and looks: files that a run made and a person may edit, and steps that are done again when they change.

    brief = await ctx.look("brief", "contracts/brief.yaml", made)   # as the run wrote it, or as a person edited it
    here = await ctx.edition("design", {"brief": brief})            # the steps of `here` hold for this brief only

Rules
1. An edition is a scope that holds for its inputs only (`design@1/`). With the same inputs as the newest edition it is
   that edition, and its steps are replayed. With others the next one begins (`design@2/`): no key is used again, so
   nothing old is taken for new. An older edition is never gone on with, also if its inputs come back.
2. A look is made in every drive of the run, before what follows it is replayed. It is recorded only if it differs from
   the last one at this file. So an edit is noticed by the next `resume`, and a file that nothing changed is not
   touched. A file that is gone is written again, as it was last seen. core/looks.py tells edits from texts of our own.
3. What a look gave may be used only inside an edition that has it among its inputs. Elsewhere another text is drift.
4. When an edition is replaced, the requests open below it are withdrawn and its child runs are ended (core/engine.py).
   A patch that was granted in it is applied first: no patch stays half written.
5. Ids of requests and names of artifacts belong to a run, not to an edition. Steps of an edition must not use those of
   an older one again: make them from the key (`peek_key`).
6. A kept value (`kept`, `keep`) is the state of work that is done in rounds: a flow that comes here again goes on with
   the newest one, and does not go through the rounds before it. So a file that a later round wrote is not looked at
   with the text of an earlier round. After `keep` a flow begins this part again, by `again`, as a replay would.
7. In a drive that only ends the run (`only`), the newest recorded edition and look hold, and no file is looked at. In a
   drive that only asks what is stale, nothing is done: the first difference of each branch is noted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core.effects import Effect, Outcome, digest_of
from orchestra.core.errors import DurabilityError, Suspended, UsageError
from orchestra.core.files import size
from orchestra.core.inbox import free_name
from orchestra.core.ledger import Ledger
from orchestra.core.looks import (
    MOST_TEXT,
    Act,
    Files,
    Hashed,
    Inside,
    Look,
    Looked,
    Seen,
    TreeHash,
    Usable,
    WriteFile,
    any_text,
    decoded,
    file_name,
    hashed,
    judge,
    saw,
    seen_in,
    text_of,
)
from orchestra.core.newest import file_key
from orchestra.core.reading import key_of
from orchestra.core.records import EventType, utf8
from orchestra.core.run import digest
from orchestra.core.work import AskPerson

if TYPE_CHECKING:
    from orchestra.core.context import Context, Step

KEEP, TAKE = "keep mine", "take the new text"  # the options of a conflict
_ANSWERED = "QUESTION_ANSWERED"
_PERSONS = ("same", "saw", "conflict")  # what a look does about a text that may be a person's
_MOST_SAID = 80  # characters of an input that are recorded for people


# -- records ----------------------------------------------------------------------------------------------------------


class Input(Struct, frozen=True, omit_defaults=True):
    """What an edition was made from, as it is recorded."""

    digest: str
    path: str = ""  # of the file it came from
    said: str = ""  # the beginning of a short value, for people


class Began(Struct, frozen=True, omit_defaults=True):
    """The outcome of Edition."""

    inputs: dict[str, Input]
    withdrawn: tuple[str, ...] = ()  # questions of the edition it replaces whose answers count no more


class Edition(Effect[Began], frozen=True):
    """Begin an edition. Its digests are its identity: other inputs are another edition."""

    inputs: dict[str, Input]

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Began

    def identity(self) -> str:
        return digest_of(["Edition", {name: given.digest for name, given in self.inputs.items()}])


class Kept(Struct, frozen=True):
    """The outcome of Keep."""

    value: Any


class Keep(Effect[Kept], frozen=True):
    """Keep a value, which replaces the one before it (rule 6)."""

    value: Any

    intent: ClassVar[EventType | None] = None
    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Kept


class Drive:
    """What all scopes of one drive share."""

    def __init__(
        self,
        *,
        stale: list[str] | None,
        only_ends: bool,
        files: Files | None,
        end_replaced: Callable[[], Awaitable[None]],
    ) -> None:
        """`stale` is a list in a drive that only asks what is stale; `end_replaced` ends the runs of older editions."""
        self.stale = stale
        self.only_ends = only_ends
        self.end_replaced = end_replaced
        self._files = files
        self._looked: dict[str, str] = {}  # by file: the place that looks at it

    @property
    def files(self) -> Files:
        if self._files is None:
            raise DurabilityError("this run has no files to look at: its handlers lack one of WriteFile")
        return self._files

    def look_once(self, inside: Inside, path: str, place: str) -> None:
        """UsageError if another place looks at this file: each would take the other's text for an edit."""
        if self._looked.setdefault(file_key(inside, path), place) != place:
            other = self._looked[file_key(inside, path)]
            raise UsageError(f"{place} looks at {path}, and so does {other}: a run looks at a file in one place only")

    def note_stale(self, what: str) -> None:
        """In a drive that only asks what is stale: note it, and stop here (rule 7)."""
        if self.stale is not None:
            self.stale.append(what)
            raise Suspended(f"stale: {what}")


class Here(Struct, frozen=True):
    """The scope that an edition or a look belongs to."""

    ledger: Ledger
    drive: Drive
    path: str
    perform: Callable[[str, Effect[Any]], Awaitable[Any]]
    below: Callable[[str], Context]  # the context of a scope with this path

    def key(self, name: str, number: int) -> str:
        return f"{self.path}{name}@{number}.1"

    def number(self, name: str) -> int:
        """The newest number of this name here; 0: there is none."""
        return self.ledger.fold.newest.numbers.get(f"{self.path}{name}", 0)

    def last(self, name: str) -> Mapping[str, Any] | None:
        """The payload that settled the newest number; None if there is none."""
        event = self.ledger.recorded(self.key(name, self.number(name))).outcome
        return None if event is None else event.payload

    def scope(self, name: str) -> Context:
        """The context of the newest edition of this name."""
        return self.below(f"{self.path}{name}@{self.number(name)}/")

    async def next(self, name: str, effect: Effect[Outcome]) -> Outcome:
        """Perform an effect under the next number, or under the one where a kill cut the same effect short."""
        number = self.number(name)
        begun = self.ledger.recorded(self.key(name, number))
        cut = begun.outcome is None and begun.intent is not None and begun.intent.payload["intent"] == effect.identity()
        outcome: Outcome = await self.perform(f"{name}@{number if cut else number + 1}", effect)
        return outcome


# -- editions ---------------------------------------------------------------------------------------------------------


async def begin_edition(here: Here, name: str, inputs: Mapping[str, object]) -> Context:
    """The newest edition of this name if it was made of these inputs; else the next one (rule 1)."""
    want = Edition({one: _input(one, value) for one, value in inputs.items()})
    last = here.last(name)
    if last is None or (last["intent"] != want.identity() and not here.drive.only_ends):
        here.drive.note_stale(f"{here.path}{name}: {_differs(last, want)}")
        await here.next(name, want)
        await here.drive.end_replaced()
    return here.scope(name)


def _input(name: str, value: object) -> Input:
    """An input as it is recorded. A text has the digest of a file that holds it."""
    if isinstance(value, Looked):
        return Input(value.digest, value.path)
    if isinstance(value, Hashed):
        return Input(value.digest, said=f"{value.files} files")
    if isinstance(value, str):
        return Input(digest(utf8(value)), said=value if len(value) <= _MOST_SAID else f"{value[:_MOST_SAID]}…")
    try:
        said = msgspec.json.encode(value, order="deterministic").decode()
    except (TypeError, ValueError) as wrong:
        raise UsageError(f"input {name!r} of an edition is no JSON ({wrong}): give text, numbers or lists") from wrong
    return Input(digest_of(value), said=said if len(said) <= _MOST_SAID else "")


def _differs(last: Mapping[str, Any] | None, want: Edition) -> str:
    """Which inputs are other than those of the last edition, for a person."""
    if last is None:
        return "was not made yet"
    had = msgspec.convert(last["outcome"], Began).inputs
    digests = [{name: given.digest for name, given in inputs.items()} for inputs in (had, want.inputs)]
    names = [name for name in {**had, **want.inputs} if digests[0].get(name) != digests[1].get(name)]
    return f"another {', '.join(names)}"


def newest_kept(here: Here, name: str, first: Any) -> Any:
    """The newest kept value of this name here, as JSON; `first` if there is none (rule 6)."""
    last = here.last(name) if here.number(name) else None
    return first if last is None else last["outcome"]["value"]


async def keep_value(here: Here, name: str, value: Any) -> None:
    """Keep a value; nothing is recorded if it is the newest one already."""
    if here.number(name) == 0 or newest_kept(here, name, None) != msgspec.to_builtins(value):
        await here.next(name, Keep(msgspec.to_builtins(value)))


async def keeps(effect: Keep, step: Step) -> Kept:
    """Handler of Keep."""
    return Kept(effect.value)


# -- looks ----------------------------------------------------------------------------------------------------------


async def look_at(here: Here, name: str, path: str, made: str, inside: Inside, usable: Usable) -> Looked:
    """The text of a file that the run made: as written, or as a person edited it (rule 2)."""
    here.drive.look_once(inside, path, f"{here.path}{name}")
    look = _Look(here, name, path, inside, made, usable)
    if here.drive.only_ends:
        return look.replayed()
    found = here.drive.files.read(inside, path)
    if why := look.differs(found):
        here.drive.note_stale(why)
    return await look.settled(found)


class _Look:
    """One look at one file."""

    def __init__(self, here: Here, name: str, path: str, inside: Inside, made: str, usable: Usable) -> None:
        if len(utf8(made)) > MOST_TEXT:
            raise UsageError(f"{path}: the text has more than {size(MOST_TEXT)}, too much for a file that is looked at")
        if here.ledger.redactor.text(path) != path:
            raise UsageError("the name of a file that is looked at holds a secret; choose another name")
        self._here, self._name = here, name
        self._path, self._inside, self._text = path, inside, made
        self._usable = usable
        self._made = digest(utf8(made))
        newest, file = here.ledger.fold.newest, file_key(inside, path)
        self._newest = newest.files.get(file)
        self._last = seen_in(self._newest)
        self._asked = newest.conflicts.get(file)
        self._begun = frozenset(newest.begun.get(file, ()))

    def recorded(self) -> Looked:
        """What was last recorded."""
        if self._last is None:
            raise Suspended(f"{self._name}: the run is being ended")
        return self._looked(self._last)

    def replayed(self) -> Looked:
        """What was last recorded, in a drive that only replays: its step is come to (core/rehearsal.py)."""
        if self._newest is not None:
            self._here.ledger.recorded(key_of(self._newest))
        return self.recorded()

    def _judged(self, found: bytes | None) -> Act:
        act = judge(self._last, self._begun, None if found is None else digest(found), self._made)
        return "replace" if found is not None and act in _PERSONS and not self._can_use(found) else act

    def _can_use(self, found: bytes) -> bool:
        """Whether this text of the file is the run's own or one that the flow can use (core/looks.py, rule 5)."""
        if digest(found) == self._made:
            return True
        try:
            return self._usable(decoded(found, self._path))
        except UsageError:
            return self._usable is any_text  # then the person is told that it is no text

    def _was_edited(self) -> bool:
        """Whether what was last seen is a person's text, and still holds: the run has no newer one."""
        return self._last is not None and self._last.edited and self._last.made == self._made

    def differs(self, found: bytes | None) -> str:
        """How the file differs from what was last seen, for a person; empty if it does not."""
        act = self._judged(found)
        if act == "same":
            return ""
        if found is None:
            return f"{self._path} is gone"
        return f"{self._path} gets another text" if act in ("write", "replace") else f"{self._path} was edited"

    async def settled(self, found: bytes | None) -> Looked:
        """Look, write or ask, and record it if it is not the same as before."""
        act = self._judged(found)
        if act == "conflict" and found is not None:
            if await self._decided(found) == TAKE:
                return await self._write(self._text, keeps=True)
            found = self._here.drive.files.read(self._inside, self._path)  # a person may edit on before answering
            act = "write" if found is None else "saw"
        if act in ("restore", "replace") and self._last is not None and self._was_edited():
            return await self._write(text_of(self._last, self._here.ledger.folder), edited=True, keeps=act == "replace")
        if act in ("write", "replace"):
            return await self._write(self._text, keeps=act == "replace" or self._asked is not None)
        if act == "saw" and found is not None:
            return await self._saw(found)
        return self.recorded()

    async def _saw(self, found: bytes) -> Looked:
        now = digest(found)
        text: str | UnsetType = UNSET if now == self._made else decoded(found, self._path)
        return self._looked(await self._here.next(self._name, Look(self._path, self._inside, self._made, now, text)))

    async def _write(self, text: str, *, edited: bool = False, keeps: bool = False) -> Looked:
        effect = WriteFile(self._path, self._inside, self._made, text, edited, keeps)
        return self._looked(await self._here.next(self._name, effect))

    async def _decided(self, found: bytes) -> str:
        """A person's decision between the edited file and the run's new text. Further edits ask no new question."""
        decoded(found, self._path)
        here = self._here
        if not self._is_asked():
            effect = Look(self._path, self._inside, self._made, digest(found), conflict=True)
            await here.next(self._name, effect)
            self._asked = here.ledger.fold.newest.conflicts[file_key(self._inside, self._path)]
        assert self._asked is not None
        below = here.below(key_of(self._asked).removesuffix(".1") + "/")
        name = file_name(below.peek_key("conflict"))
        copy = here.ledger.folder.artifact(f"looks/{name}.new.txt")
        here.ledger.disk.publish(copy, utf8(here.ledger.redactor.text(self._text)), durable=False)
        was = "was edited, and there is a new text for it" if self._last else "is there already, and is not this run's"
        ask = AskPerson(
            questionId=free_name(name),
            question=f"{self._path} {was}: keep the file, or take the new text?",
            reason=f"The new text: artifacts/looks/{copy.name} in the run's folder."
            f" To take parts of it, edit {self._path}, then answer: {KEEP}",
            needed_input=(),
            artifact=f"ask/{name}.md",
            kind="decision",
            options=(KEEP, TAKE),
            default=KEEP,
            impact="What was made from the file is made again if its text is another one.",
        )
        return (await below.perform("conflict", ask)).text

    def _is_asked(self) -> bool:
        """Whether the person was asked about this text already, here, and the question was not withdrawn."""
        if self._asked is None or (asked := seen_in(self._asked)) is None or asked.made != self._made:
            return False
        here, edition = self._here, key_of(self._asked).removesuffix(".1")
        open_now = edition == f"{here.path}{self._name}@{here.number(self._name)}"
        return open_now or here.ledger.recorded(f"{edition}/conflict.1").outcome is not None

    def _looked(self, seen: Seen) -> Looked:
        text = text_of(seen, self._here.ledger.folder) if seen.edited else self._text
        return Looked(text, self._path, digest(utf8(text)), seen.edited)


# -- tree hashes ------------------------------------------------------------------------------------------------------


async def hash_tree(here: Here, name: str, globs: tuple[str, ...]) -> Hashed:
    """The digest of files of the project as they are in this drive; recorded if it is not the same as before."""
    last = here.last(name)
    recorded = None if last is None else msgspec.convert(last["outcome"], Hashed)
    if here.drive.only_ends and recorded is not None:
        return recorded
    found = await here.drive.files.hashed(globs)
    if found == recorded:
        return found
    here.drive.note_stale(f"{here.path}{name}: {', '.join(globs) or 'the project'} has changed")
    return await here.next(name, TreeHash(found))


async def began(effect: Edition, step: Step) -> Began:
    """Handler of Edition."""
    place = step.key.removesuffix(".1").rpartition("@")[0]
    older = f"{place}@{step.ledger.fold.newest.numbers.get(place, 0)}/"
    opened = step.ledger.fold.newest.opened_below(older)
    keys = [one.key for one in opened if (said := step.ledger.recorded(one.key).outcome) and said.type == _ANSWERED]
    return Began(effect.inputs, tuple(key.removeprefix(older).removesuffix(".1") for key in dict.fromkeys(keys)))


HANDLERS: dict[type[Effect[Any]], Any] = {Edition: began, Keep: keeps, Look: saw, TreeHash: hashed}
