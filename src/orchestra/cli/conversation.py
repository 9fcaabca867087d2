"""A conversation in a session: what a person typed becomes a message or a command, and each message becomes a turn.

The conversation knows no terminal: a face reads what is typed, gives it to `hear`, and shows what comes back. Runs are
driven in the running event loop, and what happens in them is told to the face of the drive.

Rules
1. The session is held from the first to the last line of a conversation; another process gets exit code 7 (S5-18).
2. A turn that waits for a person, or whose process was killed, is gone on with before anything else, and that is told.
3. A turn that the person stops is canceled, and the next message is taken at once. Left unfinished, it would have to be
   finished before the next message: the person who stopped it does not want its answer. Nothing is lost: its run stays,
   its message is remembered (turns.py, rule 5), and `orchestra retry` goes on with it.
4. A turn that is stopped at a question stays open: a question is answered whenever the person likes, or `/cancel`.
5. SIGTERM is not the person's wish to stop a turn: the turn stays as it is and is finished by the next process.
6. No error of a turn ends the conversation.
7. A face that does more than turns may begin without a model: then only messages are refused.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from orchestra.cli.advice import answer_lines, command
from orchestra.cli.driving import Drive
from orchestra.cli.hosting import SHELL, commands_begin_with
from orchestra.cli.sessions import finished_turns, told_lines
from orchestra.cli.text import safe
from orchestra.cli.turns import begin_turn, unfinished
from orchestra.core.engine import RunEnd
from orchestra.core.errors import OrchestraError, UsageError
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.core.text import count
from orchestra.providers.choose import Models, NoModel
from orchestra.workflows.evidence.sessions import Sessions
from orchestra.workflows.evidence.shapes import Job
from orchestra.workflows.evidence.workflow import EVIDENCE, agent_of, configured, sessions_of

AUTO = "auto"  # what the agent's configuration says
MODES = ("single-main", "main-worker")
INTERRUPTED = 130  # the exit code


class Wishes(Struct, frozen=True):
    """How turns are taken. None: as the agent is configured."""

    agent: str
    mode: str | None = None
    max_steps: int | None = None
    stream: bool | None = None

    @property
    def typed(self) -> dict[str, Any]:
        """The fields of a job that the person set."""
        wishes = {"mode": self.mode, "maxSteps": self.max_steps, "stream": self.stream}
        return {name: value for name, value in wishes.items() if value is not None}


class Heard(Struct, frozen=True):
    """What came of a line: an answer, lines for the person, the wish to leave."""

    answer: str = ""
    lines: tuple[str, ...] = ()
    stopped: bool = False  # the person stopped the turn
    leave: int | None = None  # the exit code, if the conversation ends
    failed: int = 0  # the exit code of an error that the lines tell


class _Command(Struct, frozen=True):
    """A command of a conversation."""

    usage: str
    help: str
    act: Callable[[Conversation, str], AsyncIterator[Heard]]


class Conversation:
    """One conversation. Used with `with`: it holds its session."""

    def __init__(self, drive: Drive, session: str, models: Models, wishes: Wishes, *, needs_model: bool = True) -> None:
        self.session = session
        self.lacks = ""  # why messages are refused: no model is configured (rule 7)
        self._needs_model = needs_model
        self.wishes = wishes
        self._drive, self._app, self._models = drive, drive.app, models
        self._sessions: Sessions = sessions_of(drive.app.project)
        self._held = ExitStack()

    @property
    def history(self) -> Path:
        """The file with what was typed in this project."""
        return self._sessions.history

    def __enter__(self) -> Conversation:
        """Check the settings and hold the session; UsageError or RunLocked if that cannot be."""
        self._sessions.path(self.session)  # a wrong id is refused before anything is made
        self._drive.ask_consent()
        self._check()
        self._held.enter_context(self._sessions.hold(self.session))
        return self

    def _check(self) -> None:
        """Raise what a turn would raise, but begin none; a model may be missing (rule 7)."""
        try:
            self._app.check(EVIDENCE.name, self._job("-"), self._models)
        except NoModel as error:
            if self._needs_model:
                raise
            self.lacks = error.in_one_line

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def choices(self, name: str) -> tuple[str, ...]:
        """What may follow a command of the conversation, if it can be listed."""
        match name:
            case "/agent":
                return tuple(dict.fromkeys(("default", *self._app.project.config.evidence.agents)))
            case "/mode":
                return (*MODES, AUTO)
            case "/steps":
                return (AUTO,)
            case "/stream":
                return ("on", "off", AUTO)
            case "/session":
                return tuple(self._sessions.ids())
            case _:
                return ()

    # -- what is said -------------------------------------------------------------------------------------------------

    async def begin(self) -> AsyncIterator[Heard]:
        """Tell where the session stands, and go on with a turn that is not over (rule 2)."""
        found = self._sessions.open(self.session)
        turns = count(found.turn, "turn") if found else "new"
        yield Heard(lines=(f"session {self.session}: {turns}. /help lists the commands, Ctrl-D leaves.",))
        async for heard in self._guarded(self._finish_before()):
            yield heard

    async def hear(self, text: str) -> AsyncIterator[Heard]:
        """Take a line as a person typed it: a command begins with `/`, a message with `//` is sent with one slash."""
        text = text.strip()
        if text.startswith("/") and not text.startswith("//"):
            taken = self._command(text)
        elif text:
            taken = self._message(text.removeprefix("/"))
        else:
            return
        async for heard in self._guarded(taken):
            yield heard

    async def _guarded(self, taken: AsyncIterator[Heard]) -> AsyncIterator[Heard]:
        """What comes of a line; an error becomes a line for the person (rule 6)."""
        try:
            async for heard in taken:
                yield heard
        except OrchestraError as error:
            yield Heard(lines=(f"orchestra: {safe(str(error))}",), failed=error.exit_code)

    async def _message(self, text: str) -> AsyncIterator[Heard]:
        if self.lacks:
            raise UsageError(self.lacks)
        last = Heard()
        async for last in self._finish_before():
            yield last
        if last.leave is not None:
            return
        if last.stopped or unfinished(self._app, self._sessions, self.session):
            yield Heard(lines=("your message was not sent; the Up key brings it back",), stopped=last.stopped)
            return
        folder = begin_turn(self._app, self._sessions, self.session, self._job(text), self._models)
        yield await self._driven(folder)

    def _job(self, goal: str) -> Job:
        made = configured(self._app.project, goal, self.wishes.agent, **self.wishes.typed)
        return replace(made, session=self.session)

    # -- turns --------------------------------------------------------------------------------------------------------

    async def _finish_before(self) -> AsyncIterator[Heard]:
        """Go on with the turn before, if it is not over (rule 2)."""
        run = unfinished(self._app, self._sessions, self.session)
        if run is None:
            return
        waits = any(not one.answered for one in self._app.trees.requests(run))
        what = "waits for your answer" if waits else "had stopped; it is finished first"
        yield Heard(lines=(f"the turn before ({run.id}) {what}",))
        yield await self._driven(run, known=True)

    async def _driven(self, run: RunFolder, *, known: bool = False) -> Heard:
        """Drive the run of a turn, and what came of it. `known`: an earlier process began it."""
        self._drive.face.left = False
        end = await self._drive.go(run, known=known)
        if end.status == "completed":
            return Heard(answer=safe(EVIDENCE.printed(end.result)))
        if end.status in FINAL.values():
            why = command(self._app, "logs", run.id)
            return Heard(lines=(f"{end.status}: {safe(end.message)}", f"  why: {why}"))
        if signal.SIGTERM in self._drive.signals:  # rule 5
            return Heard(lines=("the turn is finished when you come back",), leave=INTERRUPTED)
        leave = 0 if self._drive.signals.count(signal.SIGINT) > 1 else None
        waiting = [one for one in self._app.trees.requests(run) if not one.answered]
        if waiting:  # rule 4
            with commands_begin_with(SHELL):
                elsewhere = answer_lines(self._app, run.id, waiting)
            lines = ("left open; your next message asks it again, /cancel ends the turn. From elsewhere:", *elsewhere)
            return Heard(lines=lines, stopped=True, leave=leave)
        if end.exit_code == INTERRUPTED:
            return await self._cancel(run, leave)
        return self._halted(run, end)

    def _halted(self, run: RunFolder, end: RunEnd) -> Heard:
        """A turn that something outside its run stopped, such as a budget or a full disk."""
        lines = (f"stopped: {safe(end.message)}", f"  nothing is lost; when that is cured, go on: {self._resume(run)}",
                 "  /cancel ends the turn instead")  # fmt: skip
        return Heard(lines=lines, stopped=True)

    def _resume(self, run: RunFolder) -> str:
        return command(self._app, "resume", run.id)

    async def _cancel(self, run: RunFolder, leave: int | None = None) -> Heard:
        """End a turn for good (rule 3)."""
        await self._app.cancel(run, "stopped by the person")
        again = command(self._app, "retry", run.id)
        lines = ("stopped. Say what you want next; Ctrl-C again leaves.", f"  to go on with this turn instead: {again}")
        return Heard(lines=lines, stopped=True, leave=leave)

    # -- commands -----------------------------------------------------------------------------------------------------

    async def _command(self, text: str) -> AsyncIterator[Heard]:
        name, _, rest = text.partition(" ")
        found = COMMANDS.get(name)
        if found is None:
            known = ", ".join(COMMANDS)
            raise UsageError(f"there is no command {name}; there are {known}. A message that begins with /: write //")
        async for heard in found.act(self, rest.strip()):
            yield heard

    async def show(self, rest: str) -> AsyncIterator[Heard]:
        """Show every turn of the session."""
        found = self._sessions.open(self.session)
        lines = told_lines(finished_turns(self._sessions, found)) if found else ("nothing was said yet",)
        yield Heard(lines=tuple(lines))

    async def reset(self, rest: str) -> AsyncIterator[Heard]:
        """Forget what was said."""
        self._refuse_unfinished()
        self._sessions.delete(self.session)
        yield Heard(lines=(f"session {self.session} begins anew; its runs stay ({command(self._app, 'runs')})",))

    async def cancel(self, rest: str) -> AsyncIterator[Heard]:
        """End the turn that is not over."""
        run = unfinished(self._app, self._sessions, self.session)
        if run is None:
            raise UsageError("no turn is open: there is nothing to cancel")
        yield replace(await self._cancel(run), stopped=False)

    async def switch(self, rest: str) -> AsyncIterator[Heard]:
        """Go to another session, or show how turns are taken in this one."""
        if rest in ("", self.session):
            yield Heard(lines=tuple(self._settings()))
            return
        held = ExitStack()
        held.enter_context(self._sessions.hold(rest))  # refused before this session is left
        self._held.close()
        self._held, self.session = held, rest
        async for heard in self.begin():
            yield heard

    async def agent(self, rest: str) -> AsyncIterator[Heard]:
        if rest:
            agent_of(self._app.project, rest)
        yield self._set(replace(self.wishes, agent=rest or self.wishes.agent))

    async def mode(self, rest: str) -> AsyncIterator[Heard]:
        """Use another mode, or show how turns are taken."""
        if not rest:
            yield self._set(self.wishes)
            return
        chosen = _one_of("/mode", rest, {one: one for one in MODES})
        yield self._set(replace(self.wishes, mode=chosen))

    async def steps(self, rest: str) -> AsyncIterator[Heard]:
        if not rest:
            yield self._set(self.wishes)
            return
        if rest != AUTO and not (rest.isascii() and rest.isdigit() and int(rest) > 0):
            raise UsageError(f"/steps {rest}: give a number from 1 on, or {AUTO}")
        yield self._set(replace(self.wishes, max_steps=None if rest == AUTO else int(rest)))

    async def stream(self, rest: str) -> AsyncIterator[Heard]:
        if not rest:
            yield self._set(self.wishes)
            return
        yield self._set(replace(self.wishes, stream=_one_of("/stream", rest, {"on": True, "off": False})))

    async def help(self, rest: str) -> AsyncIterator[Heard]:
        width = max(len(one.usage) for one in COMMANDS.values())
        yield Heard(lines=(*(f"  {one.usage:<{width}}  {one.help}" for one in COMMANDS.values()), *_KEYS))

    async def exit(self, rest: str) -> AsyncIterator[Heard]:
        yield Heard(leave=0)

    def _set(self, wishes: Wishes) -> Heard:
        """Use other settings from the next turn on."""
        before, self.wishes = self.wishes, wishes
        try:
            self._check()
        except OrchestraError:
            self.wishes = before
            raise
        return Heard(lines=tuple(self._settings()))

    def _settings(self) -> Iterator[str]:
        job = self._job("-")
        stream = "on" if job.stream else "off"
        yield f"session {self.session}, agent {job.agent}, mode {job.mode}, steps {job.maxSteps}, stream {stream}"

    def _refuse_unfinished(self) -> None:
        if run := unfinished(self._app, self._sessions, self.session):
            raise UsageError(f"the turn {run.id} is not over; answer it, or end it with /cancel")


def _one_of(name: str, said: str, choices: dict[str, Any]) -> Any:
    """The value of a choice; None for `auto`; UsageError for anything else."""
    if said == AUTO:
        return None
    if said not in choices:
        raise UsageError(f"{name} {said}: give {', '.join(choices)} or {AUTO}")
    return choices[said]


COMMANDS: dict[str, _Command] = {
    "/help": _Command("/help", "these commands", Conversation.help),
    "/show": _Command("/show", "what was said in this session", Conversation.show),
    "/session": _Command("/session [ID]", "how turns are taken; with an ID: go to that session", Conversation.switch),
    "/agent": _Command("/agent NAME", "another agent of `evidence.agents`", Conversation.agent),
    "/mode": _Command("/mode single-main|main-worker|auto", "one model, or a worker and a main", Conversation.mode),
    "/steps": _Command("/steps N|auto", "how many actions the worker has", Conversation.steps),
    "/stream": _Command("/stream on|off|auto", "replies as they are written, or as a whole", Conversation.stream),
    "/cancel": _Command("/cancel", "end the turn that waits or had stopped", Conversation.cancel),
    "/reset": _Command("/reset", "forget what was said; the runs stay", Conversation.reset),
    "/exit": _Command("/exit", "leave; so do /quit and Ctrl-D", Conversation.exit),
    "/quit": _Command("/quit", "the same as /exit", Conversation.exit),
}
_KEYS = (
    "  Enter sends, Alt-Enter begins a new line, Ctrl-R searches what you sent before.",
    "  Ctrl-C stops a turn; at an empty line, twice, it leaves. // sends a message that begins with /.",
)
