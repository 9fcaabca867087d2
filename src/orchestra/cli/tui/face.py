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
from collections.abc import Iterable

import click

from orchestra.cli.chatface import AnswerText, is_told
from orchestra.cli.terminal import TerminalFace
from orchestra.cli.tui.prompts import Prompts
from orchestra.cli.tui.prose import Prose
from orchestra.cli.tui.surface import Surface
from orchestra.core.faces import Launched, News, Notice, Output, Token
from orchestra.core.livetext import MaskedCalls
from orchestra.core.reading import StepEvent, key_of
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder
from orchestra.core.thinking import Thinking
from orchestra.runs.find import Member

_PROGRESS = "·"


class _Below:
    """The live rows, as a face fills them."""

    def __init__(self, screen: Surface) -> None:
        self._screen = screen
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
        self._screen.status.spent.update({one.folder.id: one.summary.spent for one in members if not one.kept})

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
        self._answers: dict[tuple[str, str], tuple[AnswerText, Prose]] = {}  # by run and key
        self._begun = ""  # the line of an answer that is not complete
        self._printed = ""  # the newest answer that was streamed
        self._noticed: set[str] = set()

    def prompter(self) -> Prompts:
        return Prompts(self.screen, idle=self._closed, broken=self._broken)

    def live(self) -> _Below:
        return _Below(self.screen)

    def line(self, text: str) -> None:
        self.screen.line(click.style(text, dim=True) if text.startswith(_PROGRESS) else text)

    def tell(self, news: News) -> None:
        if threading.get_ident() != self._thread:  # rule 4
            self._loop.call_soon_threadsafe(self.tell, news)
            return
        if isinstance(news, Launched) and not self.app.runs.began(news.folder).parentRunId:
            self._printed = ""
            self.screen.status.begin(news.run_id, news.workflow, self._cap(news.folder))
        super().tell(news)

    def _cap(self, folder: RunFolder) -> float | None:
        """The dollars that a run may cost; None if nothing limits them."""
        first = self.app.runs.first_of(folder.id)
        return self.app.terms.models(folder, first).maxBudgetUsd if first is not None else None

    def notice(self, notice: Notice) -> None:
        if notice.text not in self._noticed:
            self._noticed.add(notice.text)
            super().notice(notice)

    @functools.cached_property
    def _masked(self) -> MaskedCalls:
        return MaskedCalls(self.app.project.redactor)

    def token(self, token: Token) -> None:
        said = self._masked.token(token)
        text = said.text if said else ""
        run = self._seen.get(token.run_id)
        if run is not None and run.workflow.spoken(token.key):
            answer, prose = self._answers.setdefault((token.run_id, token.key), (AnswerText(), Prose()))
            self._say(answer.feed(text), prose)
            if answer.shown:
                now = time.monotonic()
                self.screen.tail.more(token.run_id, token.key, now, agent=token.agent, arrived=len(token.text))
                self.screen.tail.set(token.run_id, token.key, now, self._begun)
                self.screen.changed()
                return
        self._live.token(token, text, quiet=False)

    def _say(self, text: str, prose: Prose) -> None:
        """Print the lines of an answer that are complete now (rule 1)."""
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            self.screen.line(prose.line(line))

    def happened(self, event: Event) -> None:
        rest = self._masked.settled(event)
        answer, prose = self._answers.pop((event.runId, key_of(event)), (None, Prose()))
        if answer is not None:
            self._say(answer.feed(rest.text if rest else "") + answer.close(), prose)
            self._say("\n" if self._begun else "", prose)
            self._printed = answer.shown
        run = self.run_of(event)
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
        if self._printed and text.startswith(self._printed):
            text = text.removeprefix(self._printed).strip()
        for line in text.split("\n") if text else ():
            self.screen.line(prose.line(line))
        self.screen.line("")

    def over(self) -> None:
        """What was driven is over, or was stopped: close what is open of it."""
        self._queue.clear()
        if self._deciding.open is not None:
            self._close_prompt()
        self._say("\n" if self._begun else "", Prose())
        self._live.stop()
