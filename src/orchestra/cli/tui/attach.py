"""Shows a run that any process drives, and answers what it waits for (runs/follow.py).

Rules
1. Of what happened before, the last lines are printed, without their patches. Then everything, as it happens.
2. What the run waits for is asked here, as if it were driven here. The answer goes to the run's inbox; the process that
   drives the run takes it. The first answer stands, and a prompt that another process answered is closed.
3. A run that no process drives is driven on here once all that it waits for is answered. One that was stopped is left
   alone, and a line tells how to go on.
4. To leave changes nothing: the run goes on, or waits.
5. A run may have very many events. Its last lines are shown after they were read once (runs/follow.py). They are read
   once more for what the run waits for and has spent, and again only if something happened since, or to see whether a
   foreign run was adopted.
"""

from __future__ import annotations

import asyncio
from collections import deque

from msgspec.structs import replace

from orchestra.app import App
from orchestra.cli.advice import command
from orchestra.cli.text import step_line
from orchestra.cli.tui.face import TuiFace
from orchestra.core.ending import RunEnd
from orchestra.core.errors import ForeignRun
from orchestra.core.faces import Happened, Launched, News
from orchestra.core.reading import RunEnded, key_of
from orchestra.core.records import FINAL, Event, now
from orchestra.core.run import RunFolder
from orchestra.runs.find import Member
from orchestra.runs.follow import follow
from orchestra.runs.tree import OpenRequest

_BEFORE = 50  # events of the past that are shown
_QUIET_S = 0.03
_REQUESTS = ("APPROVAL_REQUESTED", "QUESTION_RAISED")


class Attached:
    """One run that is shown."""

    def __init__(self, app: App, face: TuiFace, folder: RunFolder) -> None:
        self._app, self._face, self._folder = app, face, folder
        self._root = app.runs.root_of(folder)
        self._joined = now()
        self._past: deque[Event] | None = deque(maxlen=_BEFORE)  # None: it is shown
        self._open: dict[tuple[str, str], Event] = {}  # steps of the past that go on
        self._asked: set[tuple[str, str]] = set()  # requests that were asked about, by run and id
        self._refused = False  # the person was told that the run is foreign
        self._told = -1  # how much was seen when the person was told last that nothing drives the run
        self._members: list[Member] = []  # the runs that may wait for something (rule 5)
        self._read = -1  # how much was seen when they were read
        self._seen = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.left = False  # the person left it
        self.answered = False  # all is answered, and no process drives it (rule 3)
        self.end: RunEnd | None = None  # how the run ended, if it has

    async def show(self) -> None:
        """Show the run until it ends, the person leaves it, or it is to be driven here."""
        self._tasks = [asyncio.ensure_future(self._follow()), asyncio.ensure_future(self._catch_up_soon())]
        self._face.stops_by(self.leave)
        try:
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._stop()
        for task in done:
            if not task.cancelled():
                task.result()

    def leave(self) -> None:
        """Show it no more (rule 4)."""
        self.left = True
        self._stop()

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _follow(self) -> None:
        project = self._app.project
        all_news = follow(
            project.store,
            self._folder,
            redactor=project.redactor,
            root_of=self._app.workflows.root,
            on_idle=self._idle,
        )
        async for news in all_news:
            self._seen += 1
            self._take(news)
        self._catch_up()

    def _take(self, news: News) -> None:
        if isinstance(news, Launched):
            shown = news.run_id == self._folder.id  # it may be a child run; here it is the top
            self._face.found(replace(news, parent="") if shown else news)
            return None
        event = news.event if isinstance(news, Happened) else None
        if event is not None and event.type in FINAL and event.runId == self._folder.id:
            ended = RunEnded.of(event)
            message = ended.message or ended.reason
            self.end = RunEnd(event.runId, FINAL[event.type], ended.exitCode, message, result=ended.result)
        if self._past is not None and event is not None and event.ts < self._joined:
            return self._keep(self._past, event)
        self._catch_up()
        self._face.tell(news)
        if event is not None and event.type in _REQUESTS:
            self._ask()
        return None

    def _keep(self, past: deque[Event], event: Event) -> None:
        """Keep an event of the past; nothing is made of it yet, because there may be very many (rule 1)."""
        past.append(event)
        if event.type == "PHASE_STARTED":
            self._open[event.runId, key_of(event)] = event
        elif event.type in FINAL:
            self._open = {of: one for of, one in self._open.items() if of[0] != event.runId}
        else:
            self._open.pop((event.runId, key_of(event)), None)

    async def _catch_up_soon(self) -> None:
        """Show the past as soon as no more of it comes."""
        seen = 0
        while self._past is not None:
            await asyncio.sleep(_QUIET_S)
            if seen and seen == self._seen:
                self._catch_up()
            seen = self._seen

    def _catch_up(self) -> None:
        """Show the end of what happened before, and the steps that go on (rule 1)."""
        if self._past is None:
            return
        past, self._past = self._past, None
        for event in past:
            run = self._face.run_of(event)
            if text := step_line(event, run.workflow.headline):
                self._face.line(run.where + text)
        for event in self._open.values():
            self._face.resumed(event)
        self._face.screen.flush()  # seen at once, before the run is read once more (rule 5)
        if self.end is None:
            self._read, self._members = self._seen, list(self._app.runs.members(self._folder))
            self._face.goes_on(self._members)
            if len(self._members) > 1:
                self._read = -1  # those that ended wait for nothing
            self._ask()

    def _requests(self) -> list[OpenRequest]:
        """What the run and its child runs wait for (rule 5). A run may be adopted meanwhile, which is no event."""
        if self._read != self._seen or any(one.summary.foreign for one in self._members):
            self._read = self._seen
            self._members = list(self._app.runs.members(self._folder, only_open=True))
        return self._app.trees.waiting(self._members)

    def _ask(self) -> None:
        """Ask what was not asked yet (rule 2), or tell why a foreign run cannot be answered."""
        for one in self._requests():
            of, foreign = (one.run.folder.id, one.id), one.run.foreign
            if foreign:
                self._refuse(foreign)
            if not one.answered and not foreign and of not in self._asked:
                self._asked.add(of)
                self._face.waiting(one.run.folder, one.event)

    def _refuses(self) -> bool:
        """Whether the run is foreign, and so never driven here; tells why."""
        foreign = next((one.summary.foreign for one in self._members), "")
        if foreign:
            self._refuse(foreign)
        return bool(foreign)

    def _refuse(self, foreign: str) -> None:
        """Tell once why a foreign run cannot be gone on with."""
        if not self._refused:
            self._refused = True
            self._face.line(str(ForeignRun(self._root.id, foreign)))

    def _idle(self) -> None:
        """Nothing happened for a while: is the run driven at all? (rule 3)"""
        self._catch_up()
        if self._app.project.store.is_driven(self._root):
            return
        requests = self._requests()
        if requests and all(one.answered for one in requests):
            self.answered = True
            self._stop()
            return
        if self._told != self._seen and not self._refuses():
            self._told = self._seen
            self._face.undriven("" if requests else command(self._app, "resume", self._root.id))
        self._ask()
