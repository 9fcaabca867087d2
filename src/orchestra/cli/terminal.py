"""The face of a person at a terminal: LineFace with colour, live progress and prompts.

Rules
1. One request is asked about at a time. What happens meanwhile is shown after it: the prompt stays the last line.
2. The run is not blocked by a prompt. If an answer comes from elsewhere, the prompt is closed.
3. A patch is decided on part by part, as in `git add -p` (cli/hunks.py). What is recorded is bound to what was on the
   screen (D-11).
4. Lines are read by a prompter (cli/prompter.py), with a line editor that knows Hangul.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from orchestra.cli.advice import question_lines
from orchestra.cli.face import LineFace
from orchestra.cli.hunks import Walk, as_edited, helped, read_numbers, to_edit
from orchestra.cli.live import Live
from orchestra.cli.prompter import Prompter
from orchestra.cli.text import paint_diff, painted, safe
from orchestra.commands.personal import edit, page
from orchestra.core.engine import RunEnd
from orchestra.core.errors import OrchestraError, UsageError
from orchestra.core.faces import Launched, News, Notice, Output, Token
from orchestra.core.reading import Request, StepEvent
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder
from orchestra.runs.choosing import Part
from orchestra.runs.tree import OpenRequest

if TYPE_CHECKING:
    from orchestra.app import App

_ANSWERS = ("APPROVAL_GRANTED", "APPROVAL_REJECTED", "QUESTION_ANSWERED")
_WORDS = {
    "yes": "y",
    "예": "y",
    "네": "y",
    "no": "n",
    "아니오": "n",
    "approve": "A",
    "all": "A",
    "reject": "r",
    "quit": "q",
}


class TerminalFace(LineFace):
    """A person at a terminal."""

    patient = True

    def __init__(self, *, stream: bool = False) -> None:
        super().__init__(stream=stream)
        self.colour = not os.environ.get("NO_COLOR")
        self.left = False
        self._stop: Callable[[], object] = lambda: None
        self._open: tuple[RunFolder, Event] | None = None
        self._walk: Walk | None = None  # through the parts of the patch that is asked about
        self._queue: list[tuple[RunFolder, Event]] = []  # requests that wait until the open prompt is answered
        self._held: list[Event | Notice] = []  # what came while a prompt is open (rule 1)
        self._prompter = Prompter(left=self._leave, idle=self._closed, broken=self._broken)
        self._newest = ("", "")  # the run and the id of the event that was shown last
        self._live = Live()

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
        return self._open is not None or self._prompter.busy

    def line(self, text: str) -> None:
        self._live.clear()
        super().line(text)

    def happened(self, event: Event) -> None:
        self._live.clear()
        if event.type in _ANSWERS or event.type in FINAL:
            self._queue = [one for one in self._queue if not _settles(event, one[1])]
            if self._open is not None and _settles(event, self._open[1]):
                self._close_prompt()
        if self._busy:  # another branch's diff would look like the one that is asked about
            self._held.append(event)
        else:
            self._show_event(event)
        self._live.event(event, self._run(event).workflow.headline(event), quiet=self._busy)
        if not self._busy and self._queue:
            self._ask_next()

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

    @property
    def _asked(self) -> Request:
        """The request of the open prompt."""
        assert self._open is not None
        return Request.of(self._open[1])

    def waiting(self, folder: RunFolder, request: Event) -> None:
        """Prompt for one request at a time. The run is not blocked, because an answer may come from elsewhere."""
        self._queue.append((folder, request))
        if not self._busy:
            self._ask_next()

    def _ask_next(self) -> None:
        """Show the next request, and ask."""
        self._live.pause()
        self._open = self._queue.pop(0)
        self._walk = None
        event, request = self._open[1], self._asked
        self._prompter.forget_typed()
        if event.type == "APPROVAL_REQUESTED":
            # The request of an earlier process: its diff is not on this screen. A command has no event that shows it.
            if (event.runId, event.id) != self._newest or request.subject == "command":
                self._show_patch()
            if where := self._where(""):
                self.line(f"  of child run {where}")
            self._show_reasons()
            self._begin_walk()
            self._show_part()
            self._ask_approval()
        else:
            self.line(click.style("? ", fg="yellow") + self._where(": ") + safe(request.question))
            if request.reason and request.reason != request.impact:
                self.line(f"  why: {safe(request.reason)}")
            for line in question_lines(request):
                self.line(f"  {line}")
            self._ask_answer()

    def _where(self, then: str) -> str:
        """The child run that the open prompt is of, and what follows it; empty for the run that was started."""
        assert self._open is not None
        path = self.app.trees.path(self._open[0])
        return f"{path}{then}" if path else ""

    def _show_patch(self, *, whole: bool = False) -> None:
        assert self._open is not None
        (folder, event), request = self._open, self._asked
        if request.subject == "command":
            self.line(f"  $ {safe(request.summary)}")
        elif (lines := self._run(event).workflow.shown(folder, event, whole)) is not None:
            for line in lines:
                self.line(painted(line))
        else:
            self.show_diff(folder, request.patch, request.hidden)

    def _show_reasons(self) -> None:
        """Show what is decided, and what speaks for a look at it."""
        request = self._asked
        if request.subject == "patch" and request.summary:
            self.line(f"  {safe(request.summary)}")
        self._show_about(whole=False)
        for number, file in enumerate(request.files, start=1):
            self.line(f"  {number}. {safe(file.path)}  {file.change} +{file.added} -{file.removed}")
        # without the reason of the policy itself
        for reason in request.reasons[1 if request.policy == "always" else 0 :]:
            self.line(click.style(f"  ! {safe(reason)}", fg="yellow"))

    def _show_about(self, *, whole: bool) -> None:
        """Show what the workflow tells about its run to a person who decides: the plan, what failed, what runs next."""
        assert self._open is not None
        run = self._run(self._open[1])
        events = self.app.runs.summary(self._open[0]).events
        for line in run.workflow.about(run.params, events, whole) if self._asked.subject == "patch" else ():
            self.line(painted(line))

    # -- approvals ----------------------------------------------------------------------------------------------------

    def _begin_walk(self) -> None:
        """Offer the parts of a patch. One that does not fit the files any more can only be decided on as a whole."""
        if self._asked.subject != "patch":
            return
        try:
            parts = self.app.answers.offer(self._request())
        except (OrchestraError, OSError) as error:
            self.line(click.style(f"  {safe(str(error))}", fg="yellow"))
            return
        self._walk = Walk(parts) if parts else None

    def _show_part(self) -> None:
        """Show the part that is asked about, unless it is the whole patch."""
        if self._walk is None or self._walk.alone:
            return
        part = self._walk.here
        self.line("")
        self.line(click.style(safe(part.path), bold=True))
        for line in paint_diff(self.app.answers.choosing.shown(part)):
            self.line(line)

    def _request(self) -> OpenRequest:
        assert self._open is not None
        return self.app.answers.waiting(self._open[0], self._asked.digest)

    def _ask_approval(self) -> None:
        if self._walk is not None:
            return self._prompter.ask(self._walk.prompt, self._decided_part)
        subject = self._asked.subject
        again = "[d]iff again" if subject == "patch" else f"[d] show the whole {subject}"
        return self._prompter.ask(f"[a]pprove  [r]eject  {again}  [q] leave it waiting > ", self._decided)

    def _decided(self, said: str) -> None:
        """An answer about something that is decided on as a whole."""
        word, _, rest = said.partition(" ")
        match _WORDS.get(word.lower(), word.lower()):
            case "a" | "A" | "y":
                if rest:
                    self.line("  this is approved as a whole: a alone, please")
                    return self._ask_approval()
                self._deliver(lambda app: app.answers.approve(self._folder, digest=self._asked.digest))
            case "r" | "n":
                self._reject(rest)
            case "d" | "diff":
                self._show_patch(whole=True)
                self._show_reasons()
                self._ask_approval()
            case "q":
                self._leave()
            case _:
                self.line("  a: approve it. r TEXT: reject it, and say why. d: show it again. q: decide later.")
                self._ask_approval()
        return None

    def _decided_part(self, said: str) -> None:
        """An answer about the part of a patch that is asked about (rule 3)."""
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
                return self._prompter.start(self._edit(walk.here))
            case "p":
                return self._prompter.start(self._page())
            case "i":
                self._show_about(whole=True)
                return self._ask_approval()
            case "r":
                return self._reject(rest)
            case "q":
                return self._leave()
            case _:
                for line in helped(said):
                    self.line(f"  {line}")
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
            return self._prompter.ask("why not the rest? (Enter: say nothing) > ", self._chosen)
        return self._chosen("")

    def _chosen(self, reason: str) -> None:
        assert self._walk is not None
        choice = self._walk.choice(reason)
        self._deliver(lambda app: app.answers.choose(self._request(), choice))

    def _decided_files(self, numbers: str) -> None:
        """`a 1,3`: exactly these files."""
        chosen = read_numbers(numbers, self._asked.paths)
        if chosen is None:
            self.line(f"  give numbers from 1 to {len(self._asked.paths)}, e.g. a 1,2")
            return self._ask_approval()
        return self._deliver(lambda app: app.answers.approve(self._folder, digest=self._asked.digest, only=chosen))

    def _reject(self, reason: str) -> None:
        if not reason:
            return self._prompter.ask(f"reason ({self._after_no()}) > ", self._rejected)
        return self._deliver(lambda app: app.answers.reject(self._folder, digest=self._asked.digest, reason=reason))

    def _after_no(self) -> str:
        """What happens after a rejection; a reason is useful only if a model is called again."""
        assert self._open is not None
        run = self._run(self._open[1])
        return run.workflow.after_no(run.params, self._asked.subject)

    def _rejected(self, reason: str) -> None:
        if not reason:
            self._begin_walk()
            return self._ask_approval()
        return self._reject(reason)

    # -- the person's own programs ------------------------------------------------------------------------------------

    async def _edit(self, part: Part, text: str = "") -> None:
        """Have the person edit a hunk, and take it if it fits; else say why not, and ask."""
        choosing, asked = self.app.answers.choosing, self._open
        if not part.body.startswith("@@") or choosing.shown(part) != part.body:
            why = "it has a masked secret" if part.body.startswith("@@") else "it is no hunk"
            self.line(f"  this cannot be edited here: {why}. Apply it, or reject it with a reason")
            return self._ask_approval()
        try:
            text = await self._prompter.elsewhere(edit(text or to_edit(part), "hunk.diff"))
            if self._open is not asked:  # an answer came from elsewhere
                return None
            edited = as_edited(part, text)
            if edited is None:
                self.line("  nothing was changed")
                return self._ask_approval()
            choosing.preview(self._request(), [edited])
        except (OrchestraError, OSError) as error:
            return self._not_edited(part, text, error) if self._open is asked else None
        assert self._walk is not None
        self._walk.take(edited)
        return self._next_part()

    def _not_edited(self, part: Part, text: str, error: Exception) -> None:
        """Say why an edited hunk is not taken, and ask whether to edit it again."""
        self.line(click.style(f"  {safe(str(error))}", fg="red"))
        if not text:
            return self._ask_approval()
        return self._prompter.ask("edit it again? [y,n] ", lambda said: self._edit_again(part, text, said))

    def _edit_again(self, part: Part, text: str, said: str) -> None:
        if _WORDS.get(said.lower(), said.lower()) == "y":
            return self._prompter.start(self._edit(part, text))
        return self._ask_approval()

    async def _page(self) -> None:
        """Show the whole patch again; one that is longer than the screen in the person's pager."""
        asked, lines = self._open, list[str]()
        try:
            lines = paint_diff(self.app.answers.choosing.text(self._request()))
            if len(lines) > shutil.get_terminal_size().lines:
                text = "\n".join(lines) if self.colour else click.unstyle("\n".join(lines))
                await self._prompter.elsewhere(page(f"{text}\n"))
            else:
                self._show_patch()
        except (OrchestraError, OSError) as error:
            for line in (*lines, click.style(f"  {safe(str(error))}", fg="red")):
                self.line(line)
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
            return self._leave()
        return self._deliver(lambda app: app.answers.answer(self._folder, said, question=question))

    def _deliver(self, act: Callable[[App], object]) -> None:
        try:
            act(self.app)
        except UsageError as error:
            self.line(f"  {safe(str(error))}")
            self._ask_again()
        except (OrchestraError, OSError) as error:
            self.line(f"  {safe(str(error))}")
            self._leave()

    def _ask_again(self) -> None:
        """Ask again if the answer was refused; not if another process answered first, and the run goes on."""
        assert self._open is not None
        folder, request = self._open
        if not self.app.project.store.unanswered(folder, {Request.of(request).id: request}):
            return
        if request.type == "APPROVAL_REQUESTED":
            self._begin_walk()
            self._ask_approval()
        else:
            self._ask_answer()

    def _ask_answer(self) -> None:
        if self._asked.kind == "yes_no":  # S5-21
            self._prompter.ask("answer(YES/NO)> ", self._answered)
        else:
            self._prompter.ask("answer (empty line: leave it waiting) > ", self._answered)

    # -- the end of a prompt ------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        self.left = True
        self._queue.clear()
        self._close_prompt()
        self._stop()

    def _close_prompt(self) -> None:
        """The request is settled: ask no more about it."""
        self._open = self._walk = None
        self._prompter.close()

    def _closed(self) -> None:
        """No line is read any more. If nothing is asked: show what came meanwhile, and ask about the next request."""
        if self._open is not None:
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


def _settles(event: Event, request: Event) -> bool:
    """Whether this event makes the prompt unnecessary: it is the answer, or the end of the run that asks."""
    if event.runId != request.runId:  # the ids of requests are a run's own
        return False
    if event.type in FINAL:
        return True
    answer, asked = StepEvent.of(event), Request.of(request)
    if request.type == "APPROVAL_REQUESTED":
        return answer.approvalId == asked.approvalId
    return answer.questionId == asked.questionId
