"""The live rows at the bottom of the terminal, and the printer of finished lines above them (prompt_toolkit).

Rules
1. Finished lines are printed in batches, as ordinary lines at the bottom: the terminal's scrollback has each once.
2. While something runs the live rows above the input are of a fixed number, so the cursor stays in its cell. With what
   is typed and the menu below it, they are never more than 12.
3. A prompt takes the input line. One that comes while a line is typed sleeps: the status row names it, and the keys go
   on to that line until it is sent or emptied, or put aside with Ctrl-C; then it comes back after the prompt. However
   long the person thinks, a sentence that was begun before the prompt answers nothing. A letter just after a prompt
   took the keys counts only if nothing follows, and an Enter just after the answer does not send the line that came
   back. What was typed at a prompt that is answered elsewhere is refused; so is the next line, which may be the rest
   of it; Up brings back what was refused, and a line that was put aside before. If nothing was typed, that comes back.
4. The input line is drawn before the program is loaded; what was typed before and is sent meanwhile: early.py.
5. Ctrl-C at text discards it; at an empty line it is told to `interrupted`. While a prompt sleeps it takes the keys
   instead (rule 3). Ctrl-D at an empty line leaves.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import click
from prompt_toolkit import Application
from prompt_toolkit.application import in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.layout import (
    BufferControl,
    CompletionsMenu,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from rich.cells import cell_len

from orchestra.cli.emoji import PlainEmoji
from orchestra.cli.keys import Letters, editing_keys
from orchestra.cli.text import safe, safe_painted
from orchestra.cli.tui.early import LateHistory, take_early_keys
from orchestra.cli.tui.status import Status
from orchestra.cli.tui.surface import answer_of
from orchestra.cli.tui.tail import Tail
from orchestra.core.cells import cut

_ROWS = 12  # all live rows together
_TAIL = 4
_INPUT = 6
_MENU = 5
_BATCH_S = 0.1
_TYPING_S = 1.0  # a person who pressed a key so lately is typing
# In the status row, before a prompt that sleeps: a line is begun (also on few columns), or the rest of one may come.
_FINISH = "Enter sends your line, Ctrl-C puts it aside; then answer: "
_FINISH_NARROW, _REST = "your line first (Enter or Ctrl-C); then: ", "a moment; then answer: "
_NARROW = 80
_DEAD_S = 0.3  # no letter alone answers a prompt that is so young


class _Output(Vt100_Output):
    """The terminal; while it is `held`, what is drawn is gathered, to be written at once."""

    held = False

    def erase_down(self) -> None:
        """Erase from the first cell of a row to the end; its blank comes first.

        At the first row tmux would keep a copy of all that is erased: its history would have live rows in it.
        """
        self.write_raw("\x1b[0m \x1b[J\r")

    def flush(self) -> None:
        if not self.held:
            super().flush()


class Screen:
    """The surface of the terminal UI."""

    echoes = False
    aloud = False

    def __init__(self, *, colour: bool) -> None:
        self.status = Status()
        self.tail = Tail()
        self.heard: Callable[[str], None] = lambda text: None
        self.aside: Callable[[str], bool] = lambda text: False
        self.interrupted: Callable[[], None] = lambda: None
        self.left: Callable[[int], None] = lambda code: None
        self.busy = False  # something runs
        self.colour = colour
        self._out = sys.stdout
        self._lines: list[str] = []
        self._printing: asyncio.Task[None] | None = None
        self._drawing: asyncio.TimerHandle | None = None
        self._away = False  # a program of the person's has the terminal
        self._drawn = asyncio.Event()  # the live rows are there
        self._ask: tuple[str, Callable[[str], None]] | None = None
        self._keys_of = ""  # the letters that answer the open prompt
        self._asleep = False  # the open prompt takes no keys yet: a line is being typed (rule 3)
        self._lost = ""  # why the next line that comes is refused, if it is no command (rule 3)
        self._rest = False  # something was typed at that prompt: the rest of it may come at any time
        self._still = False  # nothing ran when the open prompt appeared: no rows are kept for it
        self._answering = False  # an answer was just given: a prompt now is the next one of the same decision
        self._draft = ""  # a line that was put aside
        self._returned, self._returned_at = "", 0.0  # the one that came back, and when
        self._typed_at = 0.0
        self._letters = Letters()
        self._history = LateHistory()
        self._buffer = Buffer(
            name=DEFAULT_BUFFER,
            history=self._history,
            complete_while_typing=Condition(lambda: not self._asked_now),
            multiline=True,
            accept_handler=self._accept,
            on_text_changed=lambda _: self._typed(),
        )
        self._app: Application[None] = self._made()

    def remember(self, history: History, words: Completer) -> None:
        """Use this history of what was typed, and complete with these words, also what is begun."""
        self._history.become(history)
        self._buffer.completer = words
        if self._buffer.text and not self._asked_now:
            self._buffer.start_completion()

    # -- what is shown ------------------------------------------------------------------------------------------------

    def _made(self) -> Application[None]:
        output = _Output.from_pty(self._out, term=os.environ.get("TERM"))
        assert isinstance(output, _Output)
        output.enable_cpr = False  # some terminals never answer
        self._terminal = output
        working = Condition(lambda: self._working)
        tail = Window(FormattedTextControl(self._tail), height=lambda: Dimension.exact(self._height), wrap_lines=False)
        entry = Window(
            BufferControl(self._buffer, input_processors=[PlainEmoji(), BeforeInput(lambda: self._prompt)]),
            wrap_lines=True,
            dont_extend_height=True,
            height=lambda: Dimension(min=1, max=self._room),
        )
        rows = HSplit(
            [
                ConditionalContainer(tail, working),
                Window(FormattedTextControl(self._status), height=1),
                entry,
                ConditionalContainer(CompletionsMenu(max_height=_MENU), has_completions),
            ]
        )
        return Application(
            Layout(rows, focused_element=entry),
            key_bindings=merge_key_bindings([self._keys()]),
            full_screen=False,
            erase_when_done=True,
            mouse_support=False,
            enable_page_navigation_bindings=False,
            output=output,
            after_render=lambda _: self._drawn.set(),
            color_depth=None if self.colour else ColorDepth.DEPTH_1_BIT,
        )

    @property
    def _asked_now(self) -> bool:
        """Whether the keys go to a prompt."""
        return self._ask is not None and not self._asleep

    @property
    def _prompt(self) -> str:
        return self._ask[0] if self._ask and not self._asleep else "> "

    @property
    def width(self) -> int:
        """Cells of a row; one less than the terminal has, so that no row wraps."""
        return max(10, self._app.output.get_size().columns - 1)

    @property
    def _height(self) -> int:
        return max(1, min(_TAIL, self._app.output.get_size().rows - _INPUT - 1))

    @property
    def _working(self) -> bool:
        """Whether the tail has its rows: while a run goes on, also when nothing is alive in it (rule 2)."""
        return self.busy and bool(self.status.run) and not self._still

    @property
    def _room(self) -> int:
        """The rows of the input at most (rule 2)."""
        completing = self._buffer.complete_state
        menu = min(_MENU, len(completing.completions)) if completing else 0
        return min(_INPUT, _ROWS - 1 - menu - (self._height if self._working else 0))

    def _tail(self) -> StyleAndTextTuples:
        return [*self.tail.rows(self._height, self.width, time.monotonic())]

    def _status(self) -> StyleAndTextTuples:
        if self._ask and self._asleep:
            first = _REST if not self._buffer.text else _FINISH if self.width >= _NARROW - 1 else _FINISH_NARROW
            return [("ansiyellow", cut(f" {first}{safe(self._ask[0])}".replace("\n", " "), self.width))]
        return [("ansibrightblack", self.status.row(self.width, time.monotonic()))]

    def changed(self) -> None:
        """Draw the live rows again, soon; not for each piece of a stream. What is typed is drawn sooner."""
        if self._drawing is None:
            self._drawing = asyncio.get_running_loop().call_later(_BATCH_S, self._draw)

    def _draw(self) -> None:
        self._drawing = None
        self._app.invalidate()

    def expect(self) -> None:
        """Nothing runs: a line is expected."""
        if not self._rest:
            self._lost = ""
        self.changed()

    # -- finished lines -----------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Print a finished line, once (rule 1)."""
        text = safe_painted(text)
        self._lines += (text if self.colour else click.unstyle(text)).split("\n")
        if self._printing is None:
            self._printing = asyncio.ensure_future(self._print_soon())

    def clear(self) -> None:
        """Begin with an empty screen; what is above stays in the scrollback."""
        self._lines += [""] * self._app.output.get_size().rows
        self.line("")

    async def _print_soon(self) -> None:
        await asyncio.sleep(_BATCH_S)
        try:
            self.flush()
        finally:
            self._printing = None
        if self._lines:
            self._printing = asyncio.ensure_future(self._print_soon())

    def flush(self) -> None:
        """Print what is finished now; not while a program has the terminal.

        The lines and the live rows below them are one write, so that no terminal shows a cursor between them. The
        terminal stays in raw mode: in cooked mode (`run_in_terminal`) an Enter that is pressed meanwhile would come as
        a line feed, which begins a new line.
        """
        if self._lines and not self._away and self._app.is_running:
            app, lines, self._terminal.held = self._app, self._take(), True
            try:
                app.renderer.erase()
                app.output.write_raw(lines)
                with set_app(app):
                    app.renderer.render(app, app.layout)
            finally:
                self._terminal.held = False
                self._terminal.flush()

    def _take(self) -> str:
        lines, self._lines = self._lines, []
        return "".join(f"{line}\n" for line in lines)

    def _write(self) -> None:
        """Print what is finished without live rows."""
        self._out.write(self._take())
        self._out.flush()

    async def ready(self) -> None:
        """Wait until the live rows are there: lines are printed above them."""
        await self._drawn.wait()

    # -- what is typed ------------------------------------------------------------------------------------------------

    def _typed(self) -> None:
        if self._buffer.text:
            self._typed_at = time.monotonic()
        elif self._asleep:
            self._rouse()
        elif self._ask is not None and not self._letters.of:
            self._wake_in(_DEAD_S)  # several letters were typed, and taken back

    def _accept(self, buffer: Buffer) -> bool:
        text = buffer.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if text != buffer.text:
            buffer.text = text  # the history gets it, too
        self._typed_at = 0.0  # Enter, or a letter that is an answer: the person waits
        if self._ask is None or self._asleep:
            if text == self._returned and time.monotonic() - self._returned_at < _TYPING_S:
                return True  # an Enter behind a letter that was an answer already: the line stays
            if not self._refused(text):
                self.heard(text)
            asyncio.get_running_loop().call_soon(self._rouse)  # when the buffer is empty
            return False  # the buffer is emptied, and the text is in the history
        asked, then = self._ask
        buffer.reset()
        if self.aside(text.strip()):
            return True  # the prompt stays
        self.line(click.style(f"{asked}{text}", bold=True))
        self._asked()
        self._answering = True
        try:
            then(answer_of(text))
        finally:
            self._answering = False
        return True

    def ask(self, text: str, then: Callable[[str], None], keys: str) -> None:
        """Ask at the input line, and call `then` with the answer (rule 3)."""
        if self._asked_now:
            self._buffer.reset()  # what was typed at the prompt before
        self._ask, self._keys_of = (text, then), keys
        self._letters.of = ""
        rest_comes = bool(self._lost) and time.monotonic() - self._typed_at < _TYPING_S
        self._asleep = not self._answering and (rest_comes or bool(self._buffer.text))
        self._still = not self.tail.names
        if self._asleep:
            self._rouse_later()
        else:
            self._take_keys()
        self.changed()

    def _rouse_later(self) -> None:
        """Let a prompt take the keys if no line is begun, and no rest of a refused one comes within a second."""
        if not self._asleep or self._buffer.text:
            return
        left = self._typed_at + _TYPING_S - time.monotonic()
        if left > 0:
            asyncio.get_running_loop().call_later(left, self._rouse_later)
        else:
            self._rouse()

    def _rouse(self) -> None:
        """Let the prompt that sleeps take the keys; what was being typed is put aside."""
        if self._asleep:
            self._asleep = False
            self._take_keys()
            self._app.invalidate()

    def _take_keys(self) -> None:
        """From now on keys answer the open prompt; a letter alone as soon as no sentence can be meant (rule 3)."""
        begun = self._buffer.text
        if self._refused(begun):
            self._buffer.append_to_history()
            begun = ""
        self._lost = ""
        self._draft = begun or self._draft
        typing = time.monotonic() - self._typed_at < _TYPING_S
        if self._answering:
            self._letters.of = self._keys_of
        else:
            self._wake_in(_TYPING_S if typing else _DEAD_S)
        self._buffer.reset()

    def _wake_in(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._wake, self._ask, self._keys_of)

    def _wake(self, asked: object, keys: str) -> None:
        """From now on a letter alone answers this prompt; also one that was typed meanwhile, if nothing follows it."""
        typed = self._buffer.text
        if self._ask is asked and len(typed) <= 1:
            self._letters.of = keys
            if typed and typed in keys:
                self._letters.take_soon(self._app, self._buffer, typed)

    def again(self) -> None:
        """Nothing: the prompt is below all lines."""

    def lose(self, why: str) -> None:
        """Refuse what was typed at the open prompt, and the next line (rule 3)."""
        if self._asked_now:
            self._lost = why
            self._rest = self._refused(self._buffer.text)
            if self._rest:
                self._lost = why
                if self._draft:  # the rest would be typed behind it: Up brings both back
                    self._history.append_string(self._draft)
                    self._draft = ""
                self._buffer.append_to_history()
                self._buffer.reset()

    def _refused(self, text: str) -> bool:
        """Refuse a line that may belong to a prompt that was answered elsewhere, if there was one."""
        why, self._lost = self._lost, self._lost if not text.strip() else ""
        if not why or not text.strip() or (text.lstrip().startswith("/") and not text.lstrip().startswith("//")):
            return False
        self.line(f"not taken: {text.strip()!r}; {why}")
        return True

    def close(self) -> None:
        """Ask no more."""
        if self._ask is not None:
            if not self._asleep:
                self._buffer.reset()
            self._asked()
            self.idle()

    def _asked(self) -> None:
        self._ask, self._letters.of, self._still, self._asleep = None, "", False, False
        self.changed()

    def idle(self) -> None:
        """No more is asked now: what was being typed comes back, after the answer was taken from the buffer."""
        asyncio.get_running_loop().call_soon(self._bring_back)

    def _bring_back(self) -> None:
        """Bring back the line that was put aside. It is older than what a prompt lost, so it is not refused."""
        if self._draft and self._ask is None and not self._buffer.text:
            self._lost = ""
            self._buffer.insert_text(self._draft)
            self._returned, self._returned_at, self._draft = self._draft, time.monotonic(), ""

    async def elsewhere(self, program: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a program that has the terminal."""
        async with in_terminal():
            self._write()
            self._away = True
            try:
                return await program
            finally:
                self._away = False

    def _keys(self) -> KeyBindings:
        keys = editing_keys()
        self._letters.bind(keys)
        here = has_focus(DEFAULT_BUFFER)

        @keys.add("c-j", filter=here)
        def new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c", filter=here)
        @keys.add("<sigint>")
        def interrupt(event: KeyPressEvent) -> None:
            if self._asleep:
                self._rouse()
            elif event.current_buffer.text:
                event.current_buffer.append_to_history()
                event.current_buffer.reset()
                self._lost = ""
            else:
                self.interrupted()

        @keys.add("c-d", filter=here & Condition(lambda: not self._buffer.text))
        def leave(event: KeyPressEvent) -> None:
            self.left(0)

        @keys.add("c-z", filter=here)
        def suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        @keys.add("tab", filter=here)
        def complete(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            buffer.complete_next() if buffer.complete_state else buffer.start_completion(insert_common_part=True)

        return keys

    # -- the life of it -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show the live rows until `end`, first with what was typed before (rule 4)."""
        ticking = asyncio.ensure_future(self._tick())
        try:
            with self._app.input.raw_mode():
                if echoed := take_early_keys(self._app.input):  # the input line is drawn over it
                    rows = (cell_len(echoed) - 1) // self._app.output.get_size().columns
                    self._out.write(f"\x1b[{rows}A\r" if rows else "\r")
                    self._out.flush()
                await self._app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            ticking.cancel()
            if self._printing is not None:
                self._printing.cancel()
            self._write()

    def end(self) -> None:
        """Remove the live rows; `run` returns."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1)
            if self.busy:
                self.changed()
