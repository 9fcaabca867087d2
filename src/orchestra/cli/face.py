"""The faces of the command line: how a driven run looks in a pipe, and as JSON; terminal.py has the one for a person.

- JsonFace: NDJSON on stdout and nothing else (U-05).
- LineFace: one plain line per event on stderr, for pipes and CI logs.
- QuietFace: nothing, if all goes well.
- TerminalFace (terminal.py): LineFace with colour, live progress and prompts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, assert_never

import click
from msgspec import Struct
from msgspec.structs import replace

from orchestra.cli.advice import ending, masked_lines
from orchestra.cli.spoken import Speech
from orchestra.cli.text import paint_diff, painted, print_json, safe, step_line, streamed
from orchestra.core.engine import RunEnd
from orchestra.core.errors import UsageError
from orchestra.core.faces import Happened, Launched, News, Notice, Output, Token, Waiting
from orchestra.core.livetext import MaskedCalls
from orchestra.core.reading import Reference, RunCreated, job_of, outcome_of
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.work import Masked
from orchestra.runs.patches import MOST_PATCH
from orchestra.workflows.description import Workflow
from orchestra.workflows.headline import placed

if TYPE_CHECKING:
    from orchestra.app import App


class CommandFace(Protocol):
    """A face of the command line: shows what happens, then how the drive ended."""

    patient: bool  # there is a person to ask
    left: bool  # the person chose to leave the run waiting

    @property
    def away(self) -> bool:
        """Whether an editor or a pager has the terminal: Ctrl-C is meant for it."""
        ...

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

    patient = left = away = False

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


class Seen(Struct, frozen=True):
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
        self._seen: dict[str, Seen] = {}
        self._stream = stream

    @property
    def away(self) -> bool:
        return False

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
        run = self.run_of(event)
        if event.type == "PATCH_PRODUCED":
            proposed = outcome_of(event)
            self.show_diff(run.folder, proposed.patch, proposed.hidden)
        told = event.type == "RUN_FAILED" and not run.where  # the last lines say it, in full
        if not told and (text := step_line(event, run.workflow.headline)):
            self.line(run.where + text)
        for line in run.workflow.details(run.params, run.folder, event):
            self.line(painted(line))

    def run_of(self, event: Event) -> Seen:
        """The data about an event's run, from its first event or looked up."""
        if event.runId not in self._seen:
            app = self.app
            created = event if event.type == "RUN_CREATED" else app.runs.first_of(event.runId)
            workflow = app.workflows.of(RunCreated.of(created).workflow)
            workflow = replace(workflow, headline=placed(workflow.headline, RunCreated.of(created).folder))
            folder = RunFolder(workflow.root(app.project) / event.runId)
            path = app.trees.path(folder)
            self._seen[event.runId] = Seen(folder, workflow, job_of(created), f"{path} " if path else "")
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
