"""The face of a person at a terminal: LineFace with colour, live progress and prompts.

Rules
1. One request is asked about at a time (cli/deciding.py). What happens meanwhile is shown after it: the prompt stays
   the last line.
2. The run is not blocked by a prompt. If an answer comes from elsewhere, the prompt is closed.
3. Lines are read by a prompter (cli/prompter.py), with a line editor that knows Hangul.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from orchestra.cli.deciding import Deciding, settles
from orchestra.cli.face import LineFace
from orchestra.cli.live import Below, Live
from orchestra.cli.prompter import Prompter, Reads
from orchestra.cli.text import safe
from orchestra.core.engine import RunEnd
from orchestra.core.faces import Launched, News, Notice, Output, Token
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder

_ANSWERS = ("APPROVAL_GRANTED", "APPROVAL_REJECTED", "QUESTION_ANSWERED")


class TerminalFace(LineFace):
    """A person at a terminal."""

    patient = True

    def __init__(self, *, stream: bool = False) -> None:
        super().__init__(stream=stream)
        self.colour = not os.environ.get("NO_COLOR")
        self.left = False
        self._stop: Callable[[], object] = lambda: None
        self._queue: list[tuple[RunFolder, Event]] = []  # requests that wait until the open prompt is answered
        self._held: list[Event | Notice] = []  # what came while a prompt is open (rule 1)
        self._prompter = self.prompter()
        self._deciding = Deciding(self, self._prompter, left=self._leave)
        self._newest = ("", "")  # the run and the id of the event that was shown last
        self._live = self.live()

    def prompter(self) -> Reads:
        """What reads the person's answers."""
        return Prompter(left=self._leave, idle=self._closed, broken=self._broken)

    def live(self) -> Below:
        """What is below the log."""
        return Live()

    @property
    def away(self) -> bool:
        """Whether an editor or a pager has the terminal."""
        return self._prompter.away

    def stops_by(self, stop: Callable[[], object]) -> None:
        self._stop = stop

    # -- progress -----------------------------------------------------------------------------------------------------

    @property
    def _busy(self) -> bool:
        """Whether a prompt is open, or still being closed."""
        return self._deciding.open is not None or self._prompter.busy

    def line(self, text: str) -> None:
        self._live.clear()
        super().line(text)

    def happened(self, event: Event) -> None:
        self._live.clear()
        if event.type in _ANSWERS or event.type in FINAL:
            self._queue = [one for one in self._queue if not settles(event, one[1])]
            if (request := self._deciding.open) is not None and settles(event, request):
                if not self._deciding.given:
                    self.lost(event, request)
                self._close_prompt()
        if self._busy:  # another branch's diff would look like the one that is asked about
            self._held.append(event)
        else:
            self._show_event(event)
        self._live.event(event, self.run_of(event).workflow.headline(event), quiet=self._busy)
        if not self._busy and self._queue:
            self._ask_next()

    def lost(self, event: Event, request: Event) -> None:
        """Do nothing more for a prompt that this event closes, before the person has answered."""

    def _show_event(self, event: Event) -> None:
        self._newest = (event.runId, event.id)
        super().happened(event)

    def notice(self, notice: Notice) -> None:
        self._live.clear()
        if self._busy:
            self._held.append(notice)
        else:
            super().notice(notice)

    def tell(self, news: News) -> None:
        if isinstance(news, Launched):  # a run that goes on has been paid for in part
            self._live.begin(self.app.runs.members(news.folder))
        super().tell(news)

    def token(self, token: Token) -> None:
        said, lines = self._speech.more(token)
        self.speak(lines)
        self._live.token(token, said.text if said else "", quiet=self._busy)

    def speak(self, lines: list[str]) -> None:
        if lines and not self._busy:  # an open prompt stays the last line
            self._live.clear()
            super().speak(lines)

    def output(self, output: Output) -> None:
        self._live.output(output, quiet=self._busy)

    def done(self, end: RunEnd, folder: RunFolder) -> None:
        self._show_held()
        self._live.stop()
        super().done(end, folder)

    # -- requests -----------------------------------------------------------------------------------------------------

    def waiting(self, folder: RunFolder, request: Event) -> None:
        """Prompt for one request at a time. The run is not blocked, because an answer may come from elsewhere."""
        self._queue.append((folder, request))
        if not self._busy:
            self._ask_next()

    def _ask_next(self) -> None:
        """Show the next request, and ask."""
        self._live.pause()
        folder, request = self._queue.pop(0)
        self._prompter.forget_typed()
        self._deciding.begin(folder, request, shown=(request.runId, request.id) == self._newest)

    # -- the end of a prompt ------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        self.left = True
        self._queue.clear()
        self._close_prompt()
        self._stop()

    def _close_prompt(self) -> None:
        """The request is settled: ask no more about it."""
        self._deciding.close()
        self._prompter.close()

    def _closed(self) -> None:
        """No line is read any more. If nothing is asked: show what came meanwhile, and ask about the next request."""
        if self._deciding.open is not None:
            return
        self._show_held()
        if self._queue:
            self._ask_next()

    def _broken(self, error: BaseException) -> None:
        self.line(click.style(f"  the prompt failed: {safe(repr(error))}", fg="red"))
        self._leave()

    def _show_held(self) -> None:
        held, self._held = self._held, []
        for news in held:
            if isinstance(news, Notice):
                super().notice(news)
            else:
                self._show_event(news)
