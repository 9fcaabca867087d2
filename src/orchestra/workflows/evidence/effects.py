"""The effects of the evidence loop: shorten the conversation, find the files it is about, save the session.

Rules
1. A compaction is computed by the flow and recorded as it is: a later version of orchestra that would shorten in
   another way still replays this one (C-29).
2. A session is saved before the run's last event (S5-11), whole or not at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from orchestra.core.context import Step
from orchestra.core.effects import Effect, digest_of
from orchestra.workflows.evidence.foundfiles import files_of
from orchestra.workflows.evidence.memory import Message
from orchestra.workflows.evidence.sessions import Sessions, Told
from orchestra.workflows.evidence.shapes import Evidence, FoundFile


class Kept(Struct, frozen=True):
    """A conversation as it goes on after a compaction."""

    messages: tuple[Message, ...]
    before: int  # estimated tokens
    after: int


class Compact(Effect[Kept], frozen=True):
    """Record a compaction (rule 1)."""

    messages: tuple[Message, ...]
    before: int
    after: int

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Kept

    def public(self) -> dict[str, Any]:
        return {"before": self.before, "after": self.after}  # the messages are in the outcome


class Declined(Struct, frozen=True):
    """A command line that was not run, and why."""

    line: str
    why: str


class Decline(Effect[Declined], frozen=True):
    """Record a command line that cannot be read as one (policy/words.py). Nothing is run."""

    line: str
    why: str

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Declined


class Concluded(Struct, frozen=True):
    """The final answer, and the files of the workspace that its evidence is about."""

    answer: str
    files: tuple[FoundFile, ...]


class Conclude(Effect[Concluded], frozen=True):
    """Record the final answer, and find the files that commands and their output name."""

    answer: str
    evidence: tuple[Evidence, ...]

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Concluded

    def public(self) -> dict[str, Any]:
        return {}


class Saved(Struct, frozen=True):
    """A session as a run saved it. `saved` is False if another turn had been saved already: its memory stays."""

    session: str
    turn: int
    messages: tuple[Message, ...]
    saved: bool = True


class SaveSession(Effect[Saved], frozen=True):
    """Save a session at the end of a turn (rule 2)."""

    session: str
    turn: int
    goal: str
    answer: str
    messages: tuple[Message, ...]
    previous: str | UnsetType = UNSET  # the run that saved the turn before; runs of older versions do not name it

    outcome: ClassVar[Any] = Saved

    def identity(self) -> str:
        return digest_of([type(self).__name__, replace(self, previous=UNSET)])

    def public(self) -> dict[str, Any]:
        return {"session": self.session, "turn": self.turn}


class Handling:
    """The handlers of these effects, for one run."""

    def __init__(self, workspace: Path, sessions: Sessions, run_id: str) -> None:
        self._workspace = workspace
        self._sessions = sessions
        self._run_id = run_id

    async def compact(self, effect: Compact, step: Step) -> Kept:
        return Kept(effect.messages, effect.before, effect.after)

    async def decline(self, effect: Decline, step: Step) -> Declined:
        return Declined(effect.line, effect.why)

    async def conclude(self, effect: Conclude, step: Step) -> Concluded:
        return Concluded(effect.answer, files_of(self._workspace, effect.evidence))

    async def save(self, effect: SaveSession, step: Step) -> Saved:
        turn = Told(effect.turn, self._run_id, effect.goal, effect.answer)
        saved = self._sessions.save(effect.session, effect.messages, turn, previous=effect.previous or "")
        return Saved(effect.session, effect.turn, effect.messages, saved)
