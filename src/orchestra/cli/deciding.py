"""Decides one request with a person: shows it, asks, and records what was decided. For every face that has prompts.

Rules
1. A patch is decided on part by part, as in `git add -p` (cli/hunks.py). What is recorded is bound to what was on the
   screen (D-11).
2. A prompt never blocks: `Prompts` calls back with what was said. An answer may come from elsewhere meanwhile; then
   `close` is called, and nothing of this decision is recorded.
3. `keys` of a prompt are answers of one letter: a face that reads single keys takes them without Enter.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

import click

from orchestra.cli.advice import question_lines
from orchestra.cli.face import Seen
from orchestra.cli.hunks import KEYS, Walk, as_edited, helped, read_numbers, to_edit
from orchestra.cli.text import paint_diff, painted, safe
from orchestra.commands.personal import edit, page
from orchestra.core.errors import OrchestraError, UsageError
from orchestra.core.reading import Reference, Request, StepEvent
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder
from orchestra.core.work import Masked
from orchestra.runs.choosing import Part
from orchestra.runs.tree import OpenRequest

if TYPE_CHECKING:
    from orchestra.app import App

_WORDS = {
    "yes": "y",
    "예": "y",
    "네": "y",
    "ㅛ": "y",  # the same keys while the input method is Korean
    "ㅜ": "n",
    "ㅁ": "a",
    "ㅇ": "d",
    "ㄷ": "e",
    "ㅍ": "v",
    "ㅂ": "q",
    "no": "n",
    "아니오": "n",
    "approve": "A",
    "all": "A",
    "reject": "r",
    "quit": "q",
}


class Shows(Protocol):
    """A face that shows lines and runs."""

    colour: bool

    @property
    def app(self) -> App: ...

    def line(self, text: str, /) -> None: ...

    def run_of(self, event: Event, /) -> Seen: ...

    def show_diff(self, folder: RunFolder, patch: Reference | None, hidden: tuple[Masked, ...], /) -> None: ...


class Prompts(Protocol):
    """Reads what a person says, one thing at a time."""

    def ask(self, text: str, then: Callable[[str], None], /, *, keys: str = "") -> None:
        """Ask, and call `then` with what was said (rules 2, 3)."""

    def start(self, work: Coroutine[Any, Any, None], /) -> None:
        """Begin a task that waits for a program of the person's."""

    async def elsewhere(self, program: Coroutine[Any, Any, Any], /) -> Any:
        """Wait for a program that has the terminal."""


class Deciding:
    """The request that is asked about now, if there is one."""

    def __init__(self, face: Shows, prompts: Prompts, *, left: Callable[[], None]) -> None:
        """`left` is called when the person wants to decide later."""
        self._face = face
        self._prompts = prompts
        self._left = left
        self._open: tuple[RunFolder, Event] | None = None
        self._walk: Walk | None = None  # through the parts of the patch that is asked about
        self.given = False  # the person's answer was recorded

    @property
    def open(self) -> Event | None:
        """The request; None if there is none."""
        return self._open[1] if self._open else None

    @property
    def decided(self) -> str:
        """How many hunks of the patch are decided on, as text; empty if none is."""
        return self._walk.decided if self._walk else ""

    def close(self) -> None:
        """The request is settled, or put aside: ask no more about it."""
        self._open = self._walk = None

    def begin(self, folder: RunFolder, request: Event, *, shown: bool) -> None:
        """Show a request, and ask. `shown`: its patch is on the screen already."""
        self._open, self._walk, self.given = (folder, request), None, False
        asked = self._asked
        if request.type == "APPROVAL_REQUESTED":
            # The request of an earlier process: its diff is not on this screen. A command has no event that shows it.
            if not shown or asked.subject == "command":
                self._show_patch()
            if where := self._where(""):
                self._face.line(f"  of child run {where}")
            self._show_reasons()
            self._begin_walk()
            self._show_part()
            self._ask_approval()
        else:
            self._face.line(click.style("? ", fg="yellow") + self._where(": ") + safe(asked.question))
            if asked.reason and asked.reason != asked.impact:
                self._face.line(f"  why: {safe(asked.reason)}")
            for line in question_lines(asked, digits=True):
                self._face.line(f"  {line}")
            self._ask_answer()

    @property
    def _app(self) -> App:
        return self._face.app

    @property
    def _asked(self) -> Request:
        """The request, as types."""
        assert self._open is not None
        return Request.of(self._open[1])

    def _where(self, then: str) -> str:
        """The child run that the open prompt is of, and what follows it; empty for the run that was started."""
        assert self._open is not None
        path = self._app.trees.path(self._open[0])
        return f"{path}{then}" if path else ""

    def _show_patch(self, *, whole: bool = False) -> None:
        assert self._open is not None
        (folder, event), request = self._open, self._asked
        if request.subject == "command":
            self._face.line(f"  $ {safe(request.summary)}")
        elif (lines := self._face.run_of(event).workflow.shown(folder, event, whole)) is not None:
            for line in lines:
                self._face.line(painted(line))
        else:
            self._face.show_diff(folder, request.patch, request.hidden)

    def _show_reasons(self) -> None:
        """Show what is decided, and what speaks for a look at it."""
        request = self._asked
        if request.subject == "patch" and request.summary:
            self._face.line(f"  {safe(request.summary)}")
        self._show_about(whole=False)
        for number, file in enumerate(request.files, start=1):
            self._face.line(f"  {number}. {safe(file.path)}  {file.change} +{file.added} -{file.removed}")
        # without the reason of the policy itself
        for reason in request.reasons[1 if request.policy == "always" else 0 :]:
            self._face.line(click.style(f"  ! {safe(reason)}", fg="yellow"))

    def _show_about(self, *, whole: bool) -> None:
        """Show what the workflow tells about its run to a person who decides: the plan, what failed, what runs next."""
        assert self._open is not None
        run = self._face.run_of(self._open[1])
        events = self._app.runs.summary(self._open[0]).events
        for line in run.workflow.about(run.params, events, whole) if self._asked.subject == "patch" else ():
            self._face.line(painted(line))

    # -- approvals ----------------------------------------------------------------------------------------------------

    def _begin_walk(self) -> None:
        """Offer the parts of a patch. One that does not fit the files any more can only be decided on as a whole."""
        if self._asked.subject != "patch":
            return
        try:
            parts = self._app.answers.offer(self._request())
        except (OrchestraError, OSError) as error:
            self._face.line(click.style(f"  {safe(str(error))}", fg="yellow"))
            return
        self._walk = Walk(parts) if parts else None

    def _show_part(self) -> None:
        """Show the part that is asked about, unless it is the whole patch."""
        if self._walk is None or self._walk.alone:
            return
        part = self._walk.here
        self._face.line("")
        self._face.line(click.style(safe(part.path), bold=True))
        for line in paint_diff(self._app.answers.choosing.shown(part)):
            self._face.line(line)

    def _request(self) -> OpenRequest:
        assert self._open is not None
        return self._app.answers.waiting(self._open[0], self._asked.digest)

    def _ask_approval(self) -> None:
        if self._walk is not None:
            return self._prompts.ask(self._walk.prompt, self._decided_part, keys=KEYS)
        subject = self._asked.subject
        again = "[d]iff again" if subject == "patch" else f"[d] show the whole {subject}"
        return self._prompts.ask(
            f"[a]pprove  [r]eject  {again}  [q] leave it waiting > ", self._decided, keys="ardynq?"
        )

    def _decided(self, said: str) -> None:
        """An answer about something that is decided on as a whole."""
        word, _, rest = said.partition(" ")
        match _WORDS.get(word.lower(), word.lower()):
            case "a" | "A" | "y":
                if rest:
                    self._face.line("  this is approved as a whole: a alone, please")
                    return self._ask_approval()
                self._deliver(lambda app: app.answers.approve(self._folder, digest=self._asked.digest))
            case "r" | "n":
                self._reject(rest)
            case "d" | "diff":
                self._show_patch(whole=True)
                self._show_reasons()
                self._ask_approval()
            case "q":
                self._left()
            case _:
                self._face.line("  a: approve it. r TEXT: reject it, and say why. d: show it again. q: decide later.")
                self._ask_approval()
        return None

    def _decided_part(self, said: str) -> None:
        """An answer about the part of a patch that is asked about (rule 1)."""
        walk = self._walk
        assert walk is not None
        word, _, rest = said.partition(" ")
        rest = rest.strip()
        letter = _WORDS.get(word.lower(), word if word == "A" else word.lower())
        if rest and letter not in ("a", "n", "d", "r"):
            letter = "?"
        match letter:
            case "y":
                walk.take()
            case "n" if walk.alone:
                return self._reject(rest)
            case "n":
                walk.skip(rest)
            case "a" if rest:
                return self._decided_files(rest)
            case "a":
                walk.take_file()
            case "A":
                walk.take_all()
            case "d" if walk.alone:
                return self._reject(rest)
            case "d":
                walk.skip_file(rest)
            case "e":
                return self._prompts.start(self._edit(walk.here))
            case "p":
                return self._prompts.start(self._page(self._app.answers.choosing.text, short=self._show_patch))
            case "v":
                return self._prompts.start(self._page(lambda request: self._in_full(request, walk.here.path)))
            case "i":
                self._show_about(whole=True)
                return self._ask_approval()
            case "r":
                return self._reject(rest)
            case "q":
                return self._left()
            case _:
                for line in helped(said):
                    self._face.line(f"  {line}")
                return self._ask_approval()
        return self._next_part()

    def _next_part(self) -> None:
        """Ask about the next part; after the last one, record what was decided."""
        walk = self._walk
        assert walk is not None
        if not walk.over:
            self._show_part()
            return self._ask_approval()
        choice = walk.choice()
        if not choice.taken:
            return self._reject(choice.reason)
        if choice.declined and not choice.reason:
            return self._prompts.ask("why not the rest? (Enter: say nothing) > ", self._chosen)
        return self._chosen("")

    def _chosen(self, reason: str) -> None:
        assert self._walk is not None
        choice = self._walk.choice(reason)
        self._deliver(lambda app: app.answers.choose(self._request(), choice))

    def _decided_files(self, numbers: str) -> None:
        """`a 1,3`: exactly these files."""
        chosen = read_numbers(numbers, self._asked.paths)
        if chosen is None:
            self._face.line(f"  give numbers from 1 to {len(self._asked.paths)}, e.g. a 1,2")
            return self._ask_approval()
        return self._deliver(lambda app: app.answers.approve(self._folder, digest=self._asked.digest, only=chosen))

    def _reject(self, reason: str) -> None:
        if not reason:
            return self._prompts.ask(f"reason ({self._after_no()}) > ", self._rejected)
        return self._deliver(lambda app: app.answers.reject(self._folder, digest=self._asked.digest, reason=reason))

    def _after_no(self) -> str:
        """What happens after a rejection; a reason is useful only if a model is called again."""
        assert self._open is not None
        run = self._face.run_of(self._open[1])
        return run.workflow.after_no(run.params, self._asked.subject)

    def _rejected(self, reason: str) -> None:
        if not reason:
            self._begin_walk()
            return self._ask_approval()
        return self._reject(reason)

    # -- the person's own programs ------------------------------------------------------------------------------------

    async def _edit(self, part: Part, text: str = "") -> None:
        """Have the person edit a hunk, and take it if it fits; else say why not, and ask."""
        choosing, asked = self._app.answers.choosing, self._open
        if not part.body.startswith("@@") or choosing.shown(part) != part.body:
            why = "it has a masked secret" if part.body.startswith("@@") else "it is no hunk"
            self._face.line(f"  this cannot be edited here: {why}. Apply it, or reject it with a reason")
            return self._ask_approval()
        try:
            text = await self._prompts.elsewhere(edit(text or to_edit(part), "hunk.diff"))
            if self._open is not asked:
                return self._face.line("  not taken: what you edited; an answer came from elsewhere first")
            edited = as_edited(part, text)
            if edited is None:
                self._face.line("  nothing was changed")
                return self._ask_approval()
            choosing.preview(self._request(), [edited])
        except (OrchestraError, OSError) as error:
            return self._not_edited(part, text, error) if self._open is asked else None
        assert self._walk is not None
        self._walk.take(edited)
        return self._next_part()

    def _not_edited(self, part: Part, text: str, error: Exception) -> None:
        """Say why an edited hunk is not taken, and ask whether to edit it again."""
        self._face.line(click.style(f"  {safe(str(error))}", fg="red"))
        if not text:
            return self._ask_approval()
        return self._prompts.ask("edit it again? [y,n] ", lambda said: self._edit_again(part, text, said), keys="yn")

    def _edit_again(self, part: Part, text: str, said: str) -> None:
        if _WORDS.get(said.lower(), said.lower()) == "y":
            return self._prompts.start(self._edit(part, text))
        return self._ask_approval()

    def _in_full(self, request: OpenRequest, path: str) -> str:
        return self._app.answers.choosing.in_full(request, path)

    async def _page(self, text_of: Callable[[OpenRequest], str], short: Callable[[], None] | None = None) -> None:
        """Show the whole patch or a whole file; what is longer than the screen in the person's pager."""
        asked, lines = self._open, list[str]()
        try:
            lines = paint_diff(text_of(self._request()))
            if len(lines) > shutil.get_terminal_size().lines:
                text = "\n".join(lines) if self._face.colour else click.unstyle("\n".join(lines))
                await self._prompts.elsewhere(page(f"{text}\n"))
            elif short is not None:
                short()
            else:
                for line in lines:
                    self._face.line(line)
        except (OrchestraError, OSError) as error:
            for line in (*lines, click.style(f"  {safe(str(error))}", fg="red")):
                self._face.line(line)
        if self._open is asked:  # else an answer came from elsewhere
            self._ask_approval()

    # -- answers ------------------------------------------------------------------------------------------------------

    @property
    def _folder(self) -> RunFolder:
        assert self._open is not None
        return self._open[0]

    def _answered(self, said: str) -> None:
        question = self._asked.questionId
        if not said and self._asked.kind == "yes_no":
            return self._ask_answer()
        if not said:
            return self._left()
        said = numbered(said, self._asked.options)
        return self._deliver(lambda app: app.answers.answer(self._folder, said, question=question))

    def _deliver(self, act: Callable[[App], object]) -> None:
        try:
            act(self._app)
            self.given = True
        except UsageError as error:
            self._face.line(f"  {safe(str(error))}")
            self._ask_again()
        except (OrchestraError, OSError) as error:
            self._face.line(f"  {safe(str(error))}")
            self._left()

    def _ask_again(self) -> None:
        """Ask again if the answer was refused; not if another process answered first, and the run goes on."""
        assert self._open is not None
        folder, request = self._open
        if not self._app.project.store.unanswered(folder, {Request.of(request).id: request}):
            return
        if request.type == "APPROVAL_REQUESTED":
            self._begin_walk()
            self._ask_approval()
        else:
            self._ask_answer()

    def _ask_answer(self) -> None:
        if self._asked.kind == "yes_no":  # S5-21
            self._prompts.ask("answer(YES/NO)> ", self._answered)
        else:
            self._prompts.ask("answer (empty line: leave it waiting) > ", self._answered)


def settles(event: Event, request: Event) -> bool:
    """Whether this event makes the prompt unnecessary: it is the answer, or the end of the run that asks."""
    if event.runId != request.runId:  # the ids of requests are a run's own
        return False
    if event.type in FINAL:
        return True
    answer, asked = StepEvent.of(event), Request.of(request)
    if request.type == "APPROVAL_REQUESTED":
        return answer.approvalId == asked.approvalId
    return answer.questionId == asked.questionId


def numbered(said: str, options: tuple[str, ...]) -> str:
    """The option that a number means, counted from 1; `said` itself if it is none, or an option of its own."""
    if said in options or not (said.isascii() and said.isdigit()) or not 1 <= int(said[:9]) <= len(options):
        return said
    return options[int(said) - 1]
