"""The face of `orchestra chat`: what a turn does, as lines, and main's answer as it is written.

Rules
1. What is finished is printed once. Main's answer goes to standard output while it streams, and not again; everything
   else goes to standard error, as for `agent:run`.
2. A reply that may not be the answer as it stands is not streamed, but printed when the turn is over: one that begins
   like JSON or like a tag (S5-60). A think block is never streamed.
3. Of other calls, the end of what was written so far is in their live line, as everywhere. All of it is masked (C-12).
4. Keys that are pressed during a turn are not echoed into its lines; they are there at the next prompt. A question has
   its echo.
"""

from __future__ import annotations

import functools
import sys
import termios

import click

from orchestra.cli.terminal import TerminalFace
from orchestra.cli.text import safe
from orchestra.core.faces import Launched, News, Notice, Token
from orchestra.core.livetext import MaskedCalls
from orchestra.core.reading import StepEvent, effect_of, key_of, outcome_as
from orchestra.core.records import FINAL, Event
from orchestra.core.thinking import Piece, Thinking
from orchestra.workflows.evidence.asking import ANSWER
from orchestra.workflows.evidence.effects import Saved, SaveSession

_PROGRESS = "·"  # the mark of a line that only tells progress (text.py)
_NOT_PLAIN = ("{", "[", "`")  # how JSON, a fence and a tag begin


class AnswerText:
    """What may be printed of an answer while it is written (rule 2). Pure."""

    def __init__(self) -> None:
        self._thinking = Thinking()
        self._held = ""  # white space that may be the end, or all of it if the text is not plain
        self.shown = ""

    def feed(self, text: str) -> str:
        """More text; returns what may be printed now."""
        return self._take(self._thinking.feed(text))

    def close(self) -> str:
        """The reply is over; returns the rest."""
        return self._take(self._thinking.close())

    def _take(self, pieces: list[Piece]) -> str:
        text = self._held + "".join(piece.text for piece in pieces if piece.kind == "text")
        text = text if self.shown else text.lstrip()
        if not self.shown and text.startswith(_NOT_PLAIN):
            self._held = text
            return ""
        printed = text.rstrip()
        self._held = text[len(printed) :]
        self.shown += printed
        return printed


class ChatFace(TerminalFace):
    """A person in a conversation."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[tuple[str, str], AnswerText] = {}  # by run and key
        self._printed = ""  # the newest answer that was streamed
        self._inside = False  # a line of an answer is not ended
        self._noticed: set[str] = set()

    def tell(self, news: News) -> None:
        if isinstance(news, Launched):
            self._printed = ""
            self.line(click.style(f"  run {news.run_id}", dim=True))
        else:
            super().tell(news)

    def notice(self, notice: Notice) -> None:
        """Show a notice, unless an earlier turn had the same one."""
        if notice.text not in self._noticed:
            self._noticed.add(notice.text)
            super().notice(notice)

    # -- what models write --------------------------------------------------------------------------------------------

    def token(self, token: Token) -> None:
        if token.key.rpartition(".")[0] != ANSWER.name:
            super().token(token)
        elif (said := self._masked.token(token)) is not None:
            answer = self._answers.setdefault((token.run_id, token.key), AnswerText())
            self._print(answer, answer.feed(said.text))
            self._live.token(token, quiet=self._busy or bool(answer.shown))

    @functools.cached_property
    def _masked(self) -> MaskedCalls:
        return MaskedCalls(self.app.project.redactor)

    def happened(self, event: Event) -> None:
        rest = self._masked.settled(event)
        if (answer := self._answers.pop((event.runId, key_of(event)), None)) is not None:
            self._print(answer, answer.feed(rest.text if rest else "") + answer.close())
            self._printed = answer.shown
            self._end_line()
        super().happened(event)

    def _show_event(self, event: Event) -> None:
        """Show an event, unless the conversation tells the same."""
        if not is_told(event):
            super()._show_event(event)

    def line(self, text: str) -> None:
        self._end_line()
        super().line(click.style(text, dim=True) if text.startswith(_PROGRESS) else text)

    def _print(self, answer: AnswerText, text: str) -> None:
        """Print a piece of an answer; before its first piece, an empty line."""
        if text:
            self._live.clear()
            click.echo("", err=True, nl=answer.shown == text)
            sys.stdout.write(safe(text))
            sys.stdout.flush()
            self._inside = True

    def _end_line(self) -> None:
        """End the line of an answer that is being printed."""
        if self._inside:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._inside = False

    def answer(self, text: str) -> None:
        """Print what is not yet on the screen of a turn's answer (rule 1): all of it, or a mark that it was cut."""
        if rest := text.removeprefix(safe(self._printed)).lstrip():
            click.echo("", err=True, nl=rest == text)
            sys.stdout.write(f"{rest}\n")
            sys.stdout.flush()
        click.echo("", err=True)

    def over(self) -> None:
        """The turn is over, or was stopped: close what is open of it on the screen."""
        self._queue.clear()
        if self._deciding.open is not None:
            self._close_prompt()
        self._live.stop()
        self._end_line()

    # -- questions ----------------------------------------------------------------------------------------------------

    def _ask_next(self) -> None:
        echo(True)  # rule 4
        super()._ask_next()

    def _closed(self) -> None:
        echo(False)
        super()._closed()


def is_told(event: Event) -> bool:
    """Whether the conversation tells what an event does: there is an answer, the session has it, the turn is over."""
    saved = outcome_as(event, Saved) if effect_of(event) == SaveSession.__name__ else None
    if saved is not None:
        return saved.saved
    answered = event.type == "PHASE_COMPLETED" and StepEvent.of(event).native in (ANSWER.ended, "final-answer")
    return answered or event.type in FINAL


def echo(on: bool) -> None:
    """Switch the terminal's echo of keys on or off."""
    attributes = termios.tcgetattr(sys.stdin)
    attributes[3] = attributes[3] | termios.ECHO if on else attributes[3] & ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, attributes)
