"""The four faces of the command line: how a driven run looks on a terminal, in a pipe, and as JSON.

- JsonFace: NDJSON on stdout and nothing else (U-05).
- LineFace: one plain line per event on stderr, for pipes and CI logs.
- QuietFace: nothing, if all goes well.
- TerminalFace: LineFace with colour and live progress. It prompts for approvals and answers, and closes the prompt if
  an answer comes from elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, assert_never

import click
from msgspec import Struct

from orchestra.cli.advice import ending, masked_lines, question_lines
from orchestra.cli.live import Live
from orchestra.cli.spoken import Speech
from orchestra.cli.text import paint_diff, painted, print_json, safe, step_line, streamed
from orchestra.core.engine import RunEnd
from orchestra.core.errors import OrchestraError, UsageError
from orchestra.core.faces import Happened, Launched, News, Notice, Output, Token, Waiting
from orchestra.core.livetext import MaskedCalls
from orchestra.core.reading import Reference, Request, RunCreated, StepEvent, job_of, outcome_of
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder
from orchestra.core.work import Masked
from orchestra.runs.patches import MOST_PATCH
from orchestra.workflows.description import Workflow

if TYPE_CHECKING:
    from orchestra.app import App


_ANSWERS = ("APPROVAL_GRANTED", "APPROVAL_REJECTED", "QUESTION_ANSWERED")


class CommandFace(Protocol):
    """A face of the command line: shows what happens, then how the drive ended."""

    patient: bool  # there is a person to ask
    left: bool  # the person chose to leave the run waiting

    def tell(self, news: News, /) -> None: ...

    def use(self, app: App, /) -> None:
        """Set the app, for reading runs and recording answers."""
        ...

    def stops_by(self, stop: Callable[[], object], /) -> None:
        """Set the function that stops the drive."""
        ...

    def done(self, end: RunEnd, folder: RunFolder, /) -> None:
        """Show the last lines: what happened, where the results are, what to do next."""
        ...


class JsonFace:
    """`--json`: launch, every event as written, done. `stream`: also the text of models and the output of commands."""

    patient = left = False

    def __init__(self, *, stream: bool = False) -> None:
        self._stream = stream
        self._calls: MaskedCalls | None = None

    def use(self, app: App) -> None:
        self._calls = MaskedCalls(app.project.redactor) if self._stream else None

    def stops_by(self, stop: Callable[[], object]) -> None:
        pass

    def tell(self, news: News) -> None:
        match news:
            case Launched():
                folder = news.folder
                print_json({"type": "launch", "runId": folder.id, "dir": str(folder.path), "workflow": news.workflow})
            case Happened():
                if self._calls and (rest := self._calls.settled(news.event)):
                    print_json(streamed(rest))
                print_json(news.event)
            case Notice():
                if not news.progress:
                    click.echo(f"orchestra: {news.run_id}: {news.text}", err=True)
            case Token():
                if self._calls and (said := self._calls.token(news)):
                    print_json(streamed(said))
            case Output():
                if self._calls:
                    print_json(streamed(news))
            case Waiting():
                pass
            case unreachable:
                assert_never(unreachable)

    def done(self, end: RunEnd, folder: RunFolder) -> None:
        record = {"type": "done", "runId": end.run_id, "status": end.status, "exitCode": end.exit_code}
        print_json({**record, "result": end.result} if end.result not in (None, {}) else record)
        if end.message:
            sys.stderr.write(f"orchestra: {end.message}\n")


class _Seen(Struct, frozen=True):
    """What a face keeps of a run."""

    folder: RunFolder
    workflow: Workflow
    params: Mapping[str, Any]
    where: str  # the keys of the child runs that lead to it, and a space; empty for a root


class LineFace:
    """Plain progress lines on stderr, and each patch as it is produced; with `stream` also what models say."""

    patient = left = False

    def __init__(self, *, stream: bool = False) -> None:
        self.colour = False
        self._app: App | None = None
        self._seen: dict[str, _Seen] = {}
        self._stream = stream

    def use(self, app: App) -> None:
        self._app = app
        self._speech = Speech(app.project.redactor, self._seen, stream=self._stream)

    def stops_by(self, stop: Callable[[], object]) -> None:
        pass

    @property
    def app(self) -> App:
        assert self._app is not None, "a face is given its app before a run is driven"
        return self._app

    def tell(self, news: News) -> None:
        match news:
            case Launched():
                self.line(f"run {news.run_id}")
            case Happened():
                self.speak(self._speech.settled(news.event))
                self.happened(news.event)
            case Waiting():
                self.waiting(news.folder, news.request)
            case Notice():
                self.notice(news)
            case Token():
                self.token(news)
            case Output():
                self.output(news)
            case unreachable:
                assert_never(unreachable)

    def speak(self, lines: list[str]) -> None:
        """Print lines that a model said; there are some only with `stream`."""
        for line in lines:
            self.line(line)

    def happened(self, event: Event) -> None:
        """Show an event: its line, and the lines below it."""
        run = self._run(event)
        if event.type == "PATCH_PRODUCED":
            proposed = outcome_of(event)
            self.show_diff(run.folder, proposed.patch, proposed.hidden)
        if text := step_line(event, run.workflow.headline):
            self.line(run.where + text)
        for line in run.workflow.details(run.params, run.folder, event):
            self.line(painted(line))

    def _run(self, event: Event) -> _Seen:
        """The data about an event's run, from its first event or looked up."""
        if event.runId not in self._seen:
            app = self.app
            created = event if event.type == "RUN_CREATED" else app.runs.first_of(event.runId)
            workflow = app.workflows.of(RunCreated.of(created).workflow)
            folder = RunFolder(workflow.root(app.project) / event.runId)
            path = app.trees.path(folder)
            self._seen[event.runId] = _Seen(folder, workflow, job_of(created), f"{path} " if path else "")
        return self._seen[event.runId]

    def show_diff(self, folder: RunFolder, patch: Reference | None, hidden: tuple[Masked, ...]) -> None:
        """Show the patch that an event names, in colour, and its masked parts."""
        try:
            diff = folder.recorded(patch, MOST_PATCH).decode("utf-8", "replace")
        except UsageError as error:
            self.line(click.style(f"  {error}", fg="red"))
            return
        for text in ("", *paint_diff(diff), ""):
            self.line(text)
        for text in masked_lines(self.app, folder.id, hidden):
            self.line(click.style(text, fg="yellow"))

    def notice(self, notice: Notice) -> None:
        """Show a notice as one line."""
        self.line(f"  {safe(notice.text)}")

    def waiting(self, folder: RunFolder, request: Event) -> None:
        """Do nothing for a waiting run; only a terminal can prompt."""

    def token(self, token: Token) -> None:
        """Show arriving text of a model, masked."""
        self.speak(self._speech.more(token)[1])

    def output(self, output: Output) -> None:
        """Do nothing for a command's line; only a terminal shows it."""

    def line(self, text: str) -> None:
        click.echo(text, err=True, color=self.colour)

    def done(self, end: RunEnd, folder: RunFolder) -> None:
        for text in ending(end, self.app, folder):
            self.line(text)


class QuietFace(LineFace):
    """`--quiet`: only notices that are no progress, and the end unless the run completed."""

    def tell(self, news: News) -> None:
        if isinstance(news, Notice) and not news.progress:
            super().tell(news)

    def done(self, end: RunEnd, folder: RunFolder) -> None:
        if end.exit_code:
            super().done(end, folder)


class TerminalFace(LineFace):
    """A person at a terminal."""

    patient = True

    def __init__(self, *, stream: bool = False) -> None:
        super().__init__(stream=stream)
        self.colour = not os.environ.get("NO_COLOR")
        self.left = False
        self._stop: Callable[[], object] = lambda: None
        self._open: tuple[RunFolder, Event] | None = None
        self._queue: list[tuple[RunFolder, Event]] = []  # requests that wait until the open prompt is answered
        self._held: list[Event | Notice] = []  # what came while a prompt is open; the prompt stays the last line
        self._await_line: Callable[[str], None] | None = None
        self._newest = ("", "")  # the run and the id of the event that was shown last
        self._live = Live()

    def stops_by(self, stop: Callable[[], object]) -> None:
        self._stop = stop

    # -- progress -----------------------------------------------------------------------------------------------------

    def happened(self, event: Event) -> None:
        self._live.clear()
        if event.type in _ANSWERS or event.type in FINAL:
            self._queue = [one for one in self._queue if not _settles(event, one[1])]
            if self._open is not None and _settles(event, self._open[1]):
                self._close_prompt()
        if self._open is not None:  # another branch's diff would look like the one that is asked about
            self._held.append(event)
        else:
            self._show_event(event)
        self._live.event(event, quiet=self._open is not None)
        if self._open is None and self._queue:
            self._ask_next()

    def _show_event(self, event: Event) -> None:
        self._newest = (event.runId, event.id)
        super().happened(event)

    def notice(self, notice: Notice) -> None:
        self._live.clear()
        if self._open is not None:
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
        if said is not None:
            self._live.token(said, quiet=self._open is not None)

    def speak(self, lines: list[str]) -> None:
        if lines and self._open is None:  # an open prompt stays the last line
            self._live.clear()
            super().speak(lines)

    def output(self, output: Output) -> None:
        self._live.output(output, quiet=self._open is not None)

    def done(self, end: RunEnd, folder: RunFolder) -> None:
        self._live.stop()
        super().done(end, folder)

    # -- prompts ------------------------------------------------------------------------------------------------------

    @property
    def _asked(self) -> Request:
        """The request of the open prompt."""
        assert self._open is not None
        return Request.of(self._open[1])

    def waiting(self, folder: RunFolder, request: Event) -> None:
        """Prompt for one request at a time. The run is not blocked, because an answer may come from elsewhere."""
        self._queue.append((folder, request))
        if self._open is None:
            self._ask_next()

    def _ask_next(self) -> None:
        """Show the next request and read answers line by line."""
        self._live.clear()
        self._open = self._queue.pop(0)
        event, request = self._open[1], self._asked
        termios.tcflush(sys.stdin, termios.TCIFLUSH)  # discard what was typed before the question
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._line_came)
        if event.type == "APPROVAL_REQUESTED":
            # The request of an earlier process: its diff is not on this screen. A command has no event that shows it.
            if (event.runId, event.id) != self._newest or request.subject == "command":
                self._show_patch()
            if where := self._where(""):
                self.line(f"  of child run {where}")
            self._show_reasons()
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
        request = self._asked
        for number, file in enumerate(request.files, start=1):
            self.line(f"  {number}. {safe(file.path)}  {file.change} +{file.added} -{file.removed}")
        # without the reason of the policy itself
        for reason in request.reasons[1 if request.policy == "always" else 0 :]:
            self.line(click.style(f"  ! {safe(reason)}", fg="yellow"))

    def _ask_approval(self) -> None:
        some = "[a 1,2] only these files  " if len(self._asked.files) > 1 else ""
        subject = self._asked.subject
        again = "[d]iff again" if subject == "patch" else f"[d] show the whole {subject}"
        self._prompt(f"[a]pprove  {some}[r]eject  {again}  [q] leave it waiting > ", self._decided)

    def _decided(self, said: str) -> None:
        assert self._open is not None
        folder, request = self._open[0], self._asked
        digest = request.digest  # exactly what is on the screen (D-11)
        word, _, rest = said.partition(" ")
        match word.lower():
            case "a" | "approve" | "y" | "yes" | "예":
                chosen = _numbers(rest, request.paths)
                if chosen is None:
                    whole = "  this is approved as a whole: a alone, please"
                    self.line(f"  give numbers from 1 to {len(request.paths)}, e.g. a 1,2" if request.paths else whole)
                    return self._ask_approval()
                self._deliver(lambda app: app.answers.approve(folder, digest=digest, only=chosen))
            case "r" | "reject" | "n" | "no" | "아니오":
                if rest:
                    return self._deliver(lambda app: app.answers.reject(folder, digest=digest, reason=rest))
                self._prompt(f"reason ({self._after_no()}) > ", self._rejected)
            case "d" | "diff":
                self._show_patch(whole=True)
                self._show_reasons()
                self._ask_approval()
            case "q" | "quit":
                self._leave()
            case _:
                self.line("  a, r, d or q, please")
                self._ask_approval()
        return None

    def _after_no(self) -> str:
        """What happens after a rejection; a reason is useful only if a model is called again."""
        assert self._open is not None
        run = self._run(self._open[1])
        return run.workflow.after_no(run.params, self._asked.subject)

    def _rejected(self, reason: str) -> None:
        assert self._open is not None
        folder, digest = self._open[0], self._asked.digest
        if not reason:
            return self._ask_approval()
        return self._deliver(lambda app: app.answers.reject(folder, digest=digest, reason=reason))

    def _answered(self, said: str) -> None:
        assert self._open is not None
        folder, question = self._open[0], self._asked.questionId
        if not said and self._asked.kind == "yes_no":
            return self._ask_answer()
        if not said:
            return self._leave()
        return self._deliver(lambda app: app.answers.answer(folder, said, question=question))

    def _deliver(self, act: Callable[[App], object]) -> None:
        try:
            act(self.app)
        except UsageError as error:
            self.line(f"  {error}")
            self._ask_again()
        except (OrchestraError, OSError) as error:
            self.line(f"  {error}")
            self._leave()

    def _ask_again(self) -> None:
        """Ask again if the answer was refused; not if another process answered first, and the run goes on."""
        assert self._open is not None
        folder, request = self._open
        if not self.app.project.store.unanswered(folder, {Request.of(request).id: request}):
            return
        if request.type == "APPROVAL_REQUESTED":
            self._ask_approval()
        else:
            self._ask_answer()

    def _ask_answer(self) -> None:
        if self._asked.kind == "yes_no":  # S5-21
            self._prompt("answer(YES/NO)> ", self._answered)
        else:
            self._prompt("answer (empty line: leave it waiting) > ", self._answered)

    def _leave(self) -> None:
        self.left = True
        self._queue.clear()
        self._close_prompt()
        self._stop()

    def _prompt(self, text: str, then: Callable[[str], None]) -> None:
        self._await_line = then
        sys.stderr.write(text)
        sys.stderr.flush()

    def _line_came(self) -> None:
        line = os.read(sys.stdin.fileno(), 65536).decode("utf-8", "replace")  # a terminal returns whole lines
        then, self._await_line = self._await_line, None
        if not line:  # end of input: the person has left
            return self._leave()
        if then is not None:
            then(line.strip())
        return None

    def _close_prompt(self) -> None:
        if self._await_line is not None:
            sys.stderr.write("\n")
        self._open = self._await_line = None
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
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


def _numbers(text: str, paths: tuple[str, ...]) -> tuple[str, ...] | None:
    """The files chosen by number; none given means all; None if a number is wrong."""
    chosen: list[str] = []
    for word in text.replace(",", " ").split():
        if not word.isdecimal() or not 1 <= int(word) <= len(paths):
            return None
        chosen.append(paths[int(word) - 1])
    return tuple(chosen)
