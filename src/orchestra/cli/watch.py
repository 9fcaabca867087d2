"""`orchestra watch`: reads along with a run that any process drives. `logs -f` uses it too.

Rules
1. Events go to stdout. At a terminal there is one live line below them for each step that runs, as in the driving
   terminal (cli/live.py).
2. `--stream` prints what models write and commands print. For people these are whole lines, each with the step it
   belongs to, so that the text of two calls is never mixed.
3. It ends with the run. When the run waits for a person, or no process drives it, one hint says what to do.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from msgspec import UNSET

from orchestra.app import App
from orchestra.cli import options, which
from orchestra.cli.advice import command, how_to_answer
from orchestra.cli.live import Live
from orchestra.cli.spoken import Spoken, labelled
from orchestra.cli.text import painted, print_json, safe, step_line, streamed
from orchestra.core.faces import Happened, Launched, News, Notice, Output, Token
from orchestra.core.localtime import local_time
from orchestra.core.reading import Failure, RunCreated, StepEvent, key_of, outcome_of
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.runs.find import Member
from orchestra.runs.follow import follow
from orchestra.workflows.headline import placed

_OF_AN_ERROR = 1_000_000  # characters of a full error


@click.command()
@options.run_or_default
@options.json_of("One JSON object per line.")
@options.stream_of("Also what models write and commands print, as it comes.")
@click.option("--own", is_flag=True, help="Only RUN itself, without the runs that it began.")
@options.project
def watch(run: str | None, as_json: bool, stream: bool, own: bool, project: Path) -> int:
    """Follow RUN and the runs that it began, from the beginning until it ends (Ctrl-C leaves it alone).

    \b
    orchestra watch last
    orchestra watch last --stream              # read along
    orchestra watch last --json --stream       # every event, and the text as it comes
    """
    app = App(project)
    return follow_run(app, which.to_look_at(app, run), as_json=as_json, stream=stream, own=own)


def follow_run(
    app: App, folder: RunFolder, *, as_json: bool, stream: bool = False, full: bool = False, own: bool = False
) -> int:
    """Print what happens in a run until it ends. `full`: every event, with its whole error."""
    shown: _Json | _People = _Json(stream=stream) if as_json else _People(app, folder, stream=stream, full=full)

    async def read_along() -> None:
        project, root_of = app.project, app.workflows.root
        all_news = follow(
            project.store, folder, redactor=project.redactor, root_of=root_of, own=own, on_idle=shown.idle
        )
        async for news in all_news:
            shown.show(news)

    try:
        asyncio.run(read_along())
    finally:
        shown.done()
    return 0


class _Json:
    """Every event as it was recorded, and with `stream` the text as it comes."""

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream

    def show(self, news: News) -> None:
        match news:
            case Happened():
                print_json(news.event)
            case Token() | Output() if self._stream:
                print_json(streamed(news))
            case Notice():
                click.echo(f"orchestra: {safe(news.run_id)}: {safe(news.text)}", err=True)

    def idle(self) -> None:
        pass

    def done(self) -> None:
        pass


class _People:
    """Lines for a person."""

    def __init__(self, app: App, folder: RunFolder, *, stream: bool, full: bool) -> None:
        self._app = app
        self._folder = folder
        self._stream = stream
        self._full = full
        self._live = Live() if sys.stdout.isatty() and sys.stderr.isatty() else None
        self._headlines: dict[str, Callable[[Event], str]] = {}  # by run
        self._places: dict[str, str] = {}  # by child run: the keys of the steps it belongs to
        self._spoken = Spoken()
        self._seen = 0
        self._told = -1  # how much was seen when the hint was printed

    def show(self, news: News) -> None:
        self._seen += 1
        match news:
            case Launched():
                self._headlines[news.run_id] = self._app.workflows.of(news.workflow).headline
            case Happened():
                self._happened(news.event)
            case Notice():
                self._line(f"{self._place(news.run_id)}{safe(news.text)}", err=True)
            case Token():
                if self._stream:
                    self._token(news)
                if self._live:
                    self._live.token(news, quiet=False)
            case Output():
                if self._stream:
                    self._line(self._labelled(news.run_id, news.key, news.line))
                if self._live:
                    self._live.output(news, quiet=False)

    def idle(self) -> None:
        """Print once how to answer, or that no process drives the run (rule 3)."""
        if self._told == self._seen or self._app.project.store.is_driven(self._folder):
            return
        self._told = self._seen
        if self._live:
            self._live.stop()
        resume = f"no process drives it: {command(self._app, 'resume', self._folder.id)}"
        for line in how_to_answer(self._app, self._folder) or [resume]:
            click.echo(line, err=True)

    def done(self) -> None:
        if self._live:
            self._live.stop()
        for line in outline_of(self._app, self._app.trees.members(self._folder, own=True)[0]):
            click.echo(line)

    def _happened(self, event: Event) -> None:
        step = StepEvent.of(event)
        if event.type == "RUN_CREATED":
            self._headlines[event.runId] = placed(self._headlines[event.runId], RunCreated.of(event).folder)
        for left in self._spoken.rest(event.runId, step.key):
            self._line(self._labelled(event.runId, step.key, left))
        if step.childRunId:
            self._places[step.childRunId] = f"{self._places.get(event.runId, '')}{step.key}/"
        for line in event_lines(event, self._headlines[event.runId], full=self._full, place=self._place(event.runId)):
            self._line(line)
        if self._live:
            self._live.event(event, self._headlines[event.runId](event), quiet=False)

    def _token(self, token: Token) -> None:
        for line in self._spoken.more(token):
            self._line(self._labelled(token.run_id, token.key, line))

    def _place(self, run_id: str) -> str:
        """Where a child run belongs, for the beginning of its lines."""
        place = self._places.get(run_id, "")
        return f"[{safe(place[:-1])}] " if place else ""

    def _labelled(self, run_id: str, key: str, text: str) -> str:
        return labelled(self._places.get(run_id, "") + key, text)

    def _line(self, text: str, *, err: bool = False) -> None:
        if self._live:
            self._live.clear()
        click.echo(text, err=err)


def outline_of(app: App, member: Member) -> Iterator[str]:
    """The parts of a run and how far each is, as lines with an empty one behind them; none for most workflows."""
    lines = [*app.workflows.of(member.summary.workflow).outline(member.summary.events)]
    yield from (painted(line) for line in lines)
    yield from ("",) if lines else ()


def event_lines(event: Event, headline: Callable[[Event], str], *, full: bool, place: str = "") -> Iterator[str]:
    """An event as lines for a person; `full`: every event, with its whole error. `place`: the child run's."""
    if full:
        phase = f"{event.phase}/{event.iteration}" if event.phase is not UNSET else "-"
        text = step_line(event, headline) or safe(key_of(event))
        yield f"{safe(event.id)} {event.ts} {event.type:<26}{phase:<12}{place}{text}"
        error = StepEvent.of(event).error or outcome_of(event).refusal or Failure()
        whole = error.message if len(error.message) > 200 else ""  # the headline is cut
        for part in (whole[:_OF_AN_ERROR], error.stack[:_OF_AN_ERROR]):
            yield from (f"    {line}" for line in safe(part).splitlines())
    elif text := step_line(event, headline):
        yield f"{local_time(event.ts)} {place}{text}"
