"""The face of the terminal UI: TerminalFace on a screen with a live region, with models' text as it is written.

Rules
1. A finished line of an answer is printed once, when it is complete; its unfinished line is in the live rows.
2. The text of other calls is in the live rows only: the event that settles a call tells what came of it.
3. A thought is folded: the live rows tell how long it is. JSON is shown as what it says (readable.py).
4. A command inside the UI runs in a thread. What it tells is taken in the thread of the screen, in the same order.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Iterable

import click
from msgspec import UnsetType, ValidationError
from msgspec.structs import replace

from orchestra.cli.chatface import is_told
from orchestra.cli.face import LineFace, Seen
from orchestra.cli.terminal import TerminalFace
from orchestra.cli.text import safe
from orchestra.cli.tui.answer import Answer
from orchestra.cli.tui.prompts import Prompts
from orchestra.cli.tui.prose import Prose
from orchestra.cli.tui.readable import Readable
from orchestra.cli.tui.surface import Surface
from orchestra.core.errors import OrchestraError
from orchestra.core.faces import Launched, News, Notice, Output, Token
from orchestra.core.livetext import LiveText, MaskedCalls
from orchestra.core.reading import Request, RunCreated, StepEvent, key_of
from orchestra.core.records import FINAL, Event, utf8
from orchestra.core.run import RunFolder
from orchestra.core.thinking import Thinking
from orchestra.runs.find import Member
from orchestra.runs.tree import given_name
from orchestra.workflows.description import Pace

_PROGRESS = "·"
_GATHER_S = 0.05
_WAITS = "waits for you"


class _Reply:
    """A reply that arrives: its thought is folded, its JSON is read, and what was decoded for that is masked."""

    def __init__(self, masked: LiveText) -> None:
        self._thinking, self._readable, self._masked = Thinking(), Readable(), masked
        self.folded = 0  # characters of thoughts

    def more(self, shown: str) -> str:
        """More of the reply, masked as it was written; returns what is to be shown of it."""
        pieces = self._thinking.feed(shown)
        self.folded += sum(len(piece.text) for piece in pieces if piece.kind == "thought")
        text = self._readable.feed("".join(piece.text for piece in pieces if piece.kind == "text"))
        return self._masked.feed(utf8(text))


class _Below:
    """The live rows, as a face fills them."""

    def __init__(self, screen: Surface, before: Callable[[Event], None], mask: Callable[[], LiveText]) -> None:
        """`before` is called with the events of a run that goes on; `mask` makes what masks the text of a call."""
        self._screen, self._before, self._mask = screen, before, mask
        self._replies: dict[tuple[str, str], _Reply] = {}  # by run and key: those that arrive

    def event(self, event: Event, headline: str, *, quiet: bool) -> None:
        step, tail = StepEvent.of(event), self._screen.tail
        if event.type == "PHASE_STARTED":
            self._screen.status.state = _state_of(event)
            name = step.task or headline or f"{event.phase}: {step.key}"
            tail.begin(event.runId, step.key, name, time.monotonic())
        else:
            tail.end(event.runId, step.key)
            self._replies.pop((event.runId, step.key), None)
        if event.type in FINAL:
            tail.end_run(event.runId)
        self._screen.changed()

    def begin(self, members: Iterable[Member]) -> None:
        members = list(members)
        begun: Event | None = None
        for event in members[0].summary.events if members else ():
            self._before(event)
            begun = event if event.type == "PHASE_STARTED" else begun
        if begun is not None:
            self._screen.status.state = _state_of(begun)
        self._screen.status.before({one.folder.id: one.summary.spent for one in members if not one.kept})

    def token(self, token: Token, shown: str = "", *, quiet: bool) -> None:
        of = (token.run_id, token.key)
        if token.restart:  # what its row has of the text is void
            self._replies.pop(of, None)
            self._screen.tail.restart(*of)
        reply = self._replies.get(of) or self._replies.setdefault(of, _Reply(self._mask()))
        text, now, come = reply.more(shown), time.monotonic(), len(token.text)
        self._screen.tail.more(*of, now, agent=token.agent, text=text, arrived=come, thinking=reply.folded)
        self._screen.changed()

    def output(self, output: Output, *, quiet: bool) -> None:
        self._screen.tail.more(output.run_id, output.key, time.monotonic(), text=f"{output.line}\n")
        self._screen.changed()

    def clear(self) -> None:
        """Nothing: lines are printed above the live rows."""

    def pause(self) -> None:
        """Nothing: a prompt is below the live rows."""

    def stop(self) -> None:
        self._replies.clear()
        self._screen.tail.clear()
        self._screen.changed()


def _state_of(event: Event) -> str:
    """What the status row tells of a run whose step began with this event."""
    return StepEvent.of(event).task or str(event.phase)


class TuiFace(TerminalFace):
    """A person at the terminal UI."""

    def __init__(self, screen: Surface) -> None:
        self.screen = screen
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        super().__init__()
        self.colour = screen.colour
        self._answers: dict[tuple[str, str], Answer] = {}  # by run and key
        self._arrived: dict[tuple[str, str], list[Token]] = {}  # by run and key: what is to be shown next
        self._printed = ""  # the newest answer that was streamed
        self._noticed: set[str] = set()
        self._started = ""  # the run that the status row is about; not a child run of it
        self._pace: Pace | None = None  # how far that run is
        self._counted = ""  # the newest event of it that was counted
        self._windows: dict[tuple[str, str, str], int] = {}  # by run, role and agent
        self._calls: dict[tuple[str, str], int] = {}  # by run and key: the windows of calls that run

    def prompter(self) -> Prompts:
        return Prompts(self.screen, idle=self._closed, broken=self._broken)

    def live(self) -> _Below:
        return _Below(self.screen, self._went, lambda: LiveText(self.app.project.redactor))

    def _went(self, event: Event) -> None:
        """Tell how far the run is that was started: its child runs have steps of their own."""
        if event.runId == self._started and event.id > self._counted:
            self._counted = event.id
            if self._pace is None:
                run = self.run_of(event)
                self._pace = run.workflow.pace(run.params)
            self.screen.status.paced(self._pace(event))

    def _called(self, event: Event) -> None:
        """Tell how much context a model takes with the outcome of its call, which tells how much was used."""
        call = StepEvent.of(event)
        of = (event.runId, call.role, call.agent)
        if event.type == "PHASE_STARTED" and call.role:
            if of not in self._windows:
                self._windows[of] = self._window(self.run_of(event), call)
            self._calls[event.runId, call.key] = self._windows[of]
        elif (window := self._calls.pop((event.runId, call.key), None)) is not None:
            self.screen.status.window = window

    def _window(self, run: Seen, call: StepEvent) -> int:
        created = self.app.runs.first_of(run.folder.id)
        if created is None:
            return 0
        try:
            models = self.app.terms.models(self.app.runs.root_of(run.folder), created)
            models = run.workflow.routed(run.params, models)
            most = self.app.project.provider(models, call.role, call.agent).capabilities.maxContextTokens
        except (OrchestraError, ValidationError):
            return 0  # a foreign run, say, whose models are not configured here
        return 0 if isinstance(most, UnsetType) else most

    def line(self, text: str) -> None:
        self.screen.line(click.style(text, dim=True) if text.startswith(_PROGRESS) else text)

    def tell(self, news: News) -> None:
        if threading.get_ident() != self._thread:  # rule 4
            self._loop.call_soon_threadsafe(self.tell, news)
            return
        if isinstance(news, Launched):
            self._launched(news)
        super().tell(news)

    def found(self, news: Launched) -> None:
        """Tell of a run that goes on elsewhere. Its events come from the first on, so it is not read for this."""
        self._launched(news)
        LineFace.tell(self, news)

    def goes_on(self, members: Iterable[Member]) -> None:
        """Tell what a tree of runs had done and spent before it is shown here."""
        self._live.begin(members)

    def _launched(self, news: Launched) -> None:
        if not news.parent:
            self._printed, self._started, self._pace, self._counted = "", news.run_id, None, ""
            self.screen.status.begin(news.run_id, news.workflow)
            self._name(news.folder)

    def _name(self, folder: RunFolder) -> None:
        """Tell the number of a run, and the dollars that it may cost; its first event has both."""
        first = self.app.runs.first_of(folder.id)
        if first is not None:
            status, number = self.screen.status, RunCreated.of(first).number
            status.run = f"@{number}" if number else folder.id
            status.cap = self.app.terms.models(folder, first).maxBudgetUsd

    def notice(self, notice: Notice) -> None:
        if notice.text not in self._noticed:
            self._noticed.add(notice.text)
            super().notice(notice)

    @functools.cached_property
    def _masked(self) -> MaskedCalls:
        return MaskedCalls(self.app.project.redactor)

    def token(self, token: Token) -> None:
        """Show more text of a model: gathered, because it may come in many small pieces."""
        if not self._arrived:
            self._loop.call_later(_GATHER_S, self._show_arrived)
        arrived = self._arrived.setdefault((token.run_id, token.key), [])
        if token.restart:
            arrived.clear()
        arrived.append(token)

    def _show_arrived(self) -> None:
        arrived, self._arrived = self._arrived, {}
        for tokens in arrived.values():
            self._show(replace(tokens[0], text="".join(token.text for token in tokens)))

    def _show(self, token: Token) -> None:
        said = self._masked.token(token)
        text = said.text if said else ""
        of = (token.run_id, token.key)
        if token.restart:
            self._live.token(replace(token, text=""), quiet=False)
            token = replace(token, restart=False)
            if of in self._answers:
                self._answers[of] = self._answers[of].again()
        run = self._seen.get(token.run_id)
        if run is not None and run.workflow.spoken(token.key):
            answer = self._answers.get(of) or self._answers.setdefault(of, Answer(aloud=self.screen.aloud))
            self._print(answer.more(text))
            if answer.shown:
                now = time.monotonic()
                self.screen.tail.more(token.run_id, token.key, now, agent=token.agent, arrived=len(token.text))
                self.screen.tail.set(token.run_id, token.key, now, answer.begun)
                self.screen.changed()
                return
        self._live.token(token, text, quiet=False)

    def _print(self, lines: Iterable[str]) -> None:
        """Print lines of an answer that are complete now (rule 1)."""
        for line in lines:
            self.screen.line(line)

    def happened(self, event: Event) -> None:
        self._show_arrived()
        rest = self._masked.settled(event)
        answer = self._answers.pop((event.runId, key_of(event)), None)
        if answer is not None:
            self._print(answer.close(rest.text if rest else ""))
            self._printed = answer.shown
        run = self.run_of(event)
        if event.type == "RUN_CREATED" and not run.where:
            self._name(run.folder)
        self.screen.status.event(event)
        self._went(event)
        self._called(event)
        super().happened(event)

    def lost(self, event: Event, request: Event) -> None:
        """Tell that what the person decided, or was typing, comes second."""
        asked = Request.of(request)
        name = f"question {given_name(asked.id, key_of(request))!r}" if asked.questionId else f"the {asked.subject}"
        why = "the run is over" if event.type in FINAL else f"{name} was answered elsewhere first"
        if decided := self._deciding.decided:
            self.screen.line(f"not taken: what you decided on {decided}; {why}")
        self.screen.lose(why)

    def _show_event(self, event: Event) -> None:
        if not is_told(event):
            super()._show_event(event)

    def waiting(self, folder: RunFolder, request: Event) -> None:
        self.screen.status.state = _WAITS
        super().waiting(folder, request)

    def resumed(self, event: Event) -> None:
        """Show a step that began before this run was shown here."""
        self._called(event)
        self._live.event(event, self.run_of(event).workflow.headline(event), quiet=False)

    def answer(self, text: str) -> None:
        """Print what is not printed yet of a turn's answer."""
        prose = Prose(aloud=self.screen.aloud)
        printed = safe(self._printed)  # as the text is
        if printed and text.startswith(printed):
            text = text.removeprefix(printed).strip()
        for line in text.split("\n") if text else ():
            self._print(prose.line(line))
        self._print([*prose.rest(), ""])

    def undriven(self, go_on: str) -> None:
        """No process drives the run that is shown: nothing of it is alive. `go_on`: the command; empty: answers do."""
        self._live.stop()
        self.screen.status.state, self.screen.status.since = "no process" if go_on else _WAITS, 0.0
        how = f"; to go on with it here: {go_on}" if go_on else ". It goes on here when all that it asks is answered"
        self.line(f"no process drives this run now{how}")

    def over(self) -> None:
        """What was driven is over, or was stopped: close what is open of it."""
        self._queue.clear()
        if self._deciding.open is not None:
            self._close_prompt()
        self._show_arrived()
        for answer in self._answers.values():
            self._print(answer.end())
        self._answers.clear()
        self._masked.clear()
        self._live.stop()
