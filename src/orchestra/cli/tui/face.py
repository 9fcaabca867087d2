"""The face of the terminal UI: TerminalFace on a screen with a live region, with models' text as it is written.

Rules
1. A finished line of an answer is printed once, when it is complete; its unfinished line is in the live rows.
2. The text of other calls is in the live rows only: the event that settles a call tells what came of it.
3. A thought is folded: the live rows tell how long it is.
4. A command inside the UI runs in a thread. What it tells is taken in the thread of the screen, in the same order.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Iterable

import click
from msgspec.structs import replace

from orchestra.cli.chatface import AnswerText, is_told
from orchestra.cli.terminal import TerminalFace
from orchestra.cli.text import safe
from orchestra.cli.tui.prompts import Prompts
from orchestra.cli.tui.prose import Prose
from orchestra.cli.tui.surface import Surface
from orchestra.core.faces import Launched, News, Notice, Output, Token
from orchestra.core.livetext import MaskedCalls
from orchestra.core.reading import RunCreated, StepEvent, key_of
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder
from orchestra.core.thinking import Thinking
from orchestra.runs.find import Member

_PROGRESS = "·"
_GATHER_S = 0.05
_LOOKED = 50  # events of a run that goes on, for how far it is


class _Answer:
    """An answer that is written now."""

    def __init__(self) -> None:
        self.text, self.prose = AnswerText(), Prose()
        self.begun = ""  # the line that is not complete


class _Below:
    """The live rows, as a face fills them."""

    def __init__(self, screen: Surface, before: Callable[[Event], None]) -> None:
        """`before` is called with the last events of a run that goes on."""
        self._screen, self._before = screen, before
        self._thoughts: dict[tuple[str, str], tuple[Thinking, int]] = {}

    def event(self, event: Event, headline: str, *, quiet: bool) -> None:
        step, tail = StepEvent.of(event), self._screen.tail
        if event.type == "PHASE_STARTED":
            self._screen.status.state = step.task or str(event.phase)
            name = step.task or headline or f"{event.phase}: {step.key}"
            tail.begin(event.runId, step.key, name, time.monotonic())
        else:
            tail.end(event.runId, step.key)
            self._thoughts.pop((event.runId, step.key), None)
        if event.type in FINAL:
            tail.end_run(event.runId)
        self._screen.changed()

    def begin(self, members: Iterable[Member]) -> None:
        members = list(members)
        for event in members[0].summary.events[-_LOOKED:] if members else ():
            self._before(event)
        self._screen.status.before({one.folder.id: one.summary.spent for one in members if not one.kept})

    def token(self, token: Token, shown: str = "", *, quiet: bool) -> None:
        thinking, folded = self._thoughts.get((token.run_id, token.key)) or (Thinking(), 0)
        pieces = thinking.feed(shown)
        folded += sum(len(piece.text) for piece in pieces if piece.kind == "thought")
        self._thoughts[token.run_id, token.key] = (thinking, folded)
        text = "".join(piece.text for piece in pieces if piece.kind == "text")
        tail, now = self._screen.tail, time.monotonic()
        tail.more(token.run_id, token.key, now, agent=token.agent, text=text, arrived=len(token.text), thinking=folded)
        self._screen.changed()

    def output(self, output: Output, *, quiet: bool) -> None:
        self._screen.tail.more(output.run_id, output.key, time.monotonic(), text=f"{output.line}\n")
        self._screen.changed()

    def clear(self) -> None:
        """Nothing: lines are printed above the live rows."""

    def pause(self) -> None:
        """Nothing: a prompt is below the live rows."""

    def stop(self) -> None:
        self._screen.tail.clear()
        self._screen.changed()


class TuiFace(TerminalFace):
    """A person at the terminal UI."""

    def __init__(self, screen: Surface) -> None:
        self.screen = screen
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        super().__init__()
        self.colour = screen.colour
        self._answers: dict[tuple[str, str], _Answer] = {}  # by run and key
        self._arrived: dict[tuple[str, str], list[Token]] = {}  # by run and key: what is to be shown next
        self._printed = ""  # the newest answer that was streamed
        self._noticed: set[str] = set()

    def prompter(self) -> Prompts:
        return Prompts(self.screen, idle=self._closed, broken=self._broken)

    def live(self) -> _Below:
        return _Below(self.screen, self._went)

    def _went(self, event: Event) -> None:
        """Tell how far a run was before it is shown here."""
        run = self.run_of(event)
        self.screen.status.paced(run.workflow.pace(run.params, event))

    def line(self, text: str) -> None:
        self.screen.line(click.style(text, dim=True) if text.startswith(_PROGRESS) else text)

    def tell(self, news: News) -> None:
        if threading.get_ident() != self._thread:  # rule 4
            self._loop.call_soon_threadsafe(self.tell, news)
            return
        if isinstance(news, Launched) and not self.app.runs.began(news.folder).parentRunId:
            self._printed = ""
            self.screen.status.begin(news.run_id, news.workflow)
            self._name(news.folder)
        super().tell(news)

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
        self._arrived.setdefault((token.run_id, token.key), []).append(token)

    def _show_arrived(self) -> None:
        arrived, self._arrived = self._arrived, {}
        for tokens in arrived.values():
            self._show(replace(tokens[-1], text="".join(token.text for token in tokens)))

    def _show(self, token: Token) -> None:
        said = self._masked.token(token)
        text = said.text if said else ""
        run = self._seen.get(token.run_id)
        if run is not None and run.workflow.spoken(token.key):
            answer = self._answers.setdefault((token.run_id, token.key), _Answer())
            self._say(answer, answer.text.feed(text))
            if answer.text.shown:
                now = time.monotonic()
                self.screen.tail.more(token.run_id, token.key, now, agent=token.agent, arrived=len(token.text))
                self.screen.tail.set(token.run_id, token.key, now, answer.begun)
                self.screen.changed()
                return
        self._live.token(token, text, quiet=False)

    def _say(self, answer: _Answer, text: str) -> None:
        """Print the lines of an answer that are complete now (rule 1)."""
        *whole, answer.begun = (answer.begun + text).split("\n")
        for line in whole:
            self.screen.line(answer.prose.line(line))

    def happened(self, event: Event) -> None:
        self._show_arrived()
        rest = self._masked.settled(event)
        answer = self._answers.pop((event.runId, key_of(event)), None)
        if answer is not None:
            self._say(answer, answer.text.feed(rest.text if rest else "") + answer.text.close())
            self._say(answer, "\n" if answer.begun else "")
            self._printed = answer.text.shown
        run = self.run_of(event)
        if event.type == "RUN_CREATED" and not run.where:
            self._name(run.folder)
        self.screen.status.event(event, run.workflow.pace(run.params, event))
        super().happened(event)

    def _show_event(self, event: Event) -> None:
        if not is_told(event):
            super()._show_event(event)

    def waiting(self, folder: RunFolder, request: Event) -> None:
        self.screen.status.state = "waits for you"
        super().waiting(folder, request)

    def resumed(self, event: Event) -> None:
        """Show a step that began before this run was shown here."""
        self._live.event(event, self.run_of(event).workflow.headline(event), quiet=False)

    def answer(self, text: str) -> None:
        """Print what is not printed yet of a turn's answer."""
        prose = Prose()
        printed = safe(self._printed)  # as the text is
        if printed and text.startswith(printed):
            text = text.removeprefix(printed).strip()
        for line in text.split("\n") if text else ():
            self.screen.line(prose.line(line))
        self.screen.line("")

    def over(self) -> None:
        """What was driven is over, or was stopped: close what is open of it."""
        self._queue.clear()
        if self._deciding.open is not None:
            self._close_prompt()
        self._show_arrived()
        for answer in self._answers.values():
            self._say(answer, "\n" if answer.begun else "")
        self._answers.clear()
        self._live.stop()
