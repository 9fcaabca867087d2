"""How a driven run looks on a terminal, in a pipe, and as JSON. Four faces; none of them decides anything.

- JsonFace: NDJSON on stdout and nothing else (U-05).
- LineFace: one plain line per event on stderr: pipes, CI logs.
- QuietFace: nothing, if all goes well.
- TerminalFace: LineFace with colour and live progress; prompts for approvals and answers, and steps aside when they
  come from elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from orchestra.archive import MOST_PATCH
from orchestra.cli.advice import ending, masked_in, masked_lines
from orchestra.cli.graph import plan_lines, whole_plan
from orchestra.cli.live import Live
from orchestra.cli.text import paint_diff, print_json, safe, step_line
from orchestra.core.engine import RunEnd
from orchestra.core.errors import OrchestraError, UsageError
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder
from orchestra.workflows.dag.files import read_plan_file
from orchestra.workflows.dag.shapes import Plan

if TYPE_CHECKING:
    from orchestra.app import App


_ANSWERS = ("APPROVAL_GRANTED", "APPROVAL_REJECTED", "QUESTION_ANSWERED")


class JsonFace:
    """`--json`: launch, every event as written, done."""

    def launched(self, folder: RunFolder, workflow: str) -> None:
        print_json({"type": "launch", "runId": folder.id, "dir": str(folder.path), "workflow": workflow})

    def event(self, event: Event) -> None:
        print_json(event)

    def waiting(self, folder: RunFolder, request: Event) -> None:
        pass

    def notice(self, folder: RunFolder, text: str) -> None:
        click.echo(f"orchestra: {folder.id}: {text}", err=True)

    def token(self, key: str, text: str) -> None:
        pass

    def output(self, key: str, line: str) -> None:
        pass

    def done(self, end: RunEnd) -> None:
        print_json({"type": "done", "runId": end.run_id, "status": end.status, "exitCode": end.exit_code})


class LineFace:
    """Plain progress lines on stderr, and each patch as it is produced."""

    def __init__(self) -> None:
        self.colour = False
        self.app: App | None = None
        self._folders: dict[str, RunFolder] = {}
        self._typed: set[str] = set()  # runs of a command the person typed just now: no plan to show them

    def launched(self, folder: RunFolder, workflow: str) -> None:
        self._folders[folder.id] = folder
        self.line(f"run {folder.id}")

    def event(self, event: Event) -> None:
        if event.type == "RUN_CREATED" and event.payload.get("params", {}).get("asker") == "person":
            self._typed.add(event.runId)
        if event.type == "PATCH_PRODUCED" and event.runId in self._folders:
            self.show_diff(self._folders[event.runId], event.payload["outcome"])
        if text := step_line(event):
            self.line(text)
        if event.type == "PHASE_COMPLETED" and event.payload.get("effect") == "AdoptPlan":
            plan = msgspec.convert(event.payload["outcome"]["plan"], Plan)
            folder = self._folders.get(event.runId)
            path = (folder.path if folder else Path(event.runId)) / "plan.json"
            for text in plan_lines(plan, path) if event.runId not in self._typed or plan.warnings else ():
                self.line(text)

    def show_diff(self, folder: RunFolder, told: dict[str, Any]) -> None:
        """The patch that an event tells of, painted; and what of it is not seen."""
        try:
            diff = folder.recorded(told["patch"], MOST_PATCH).decode("utf-8", "replace")
        except UsageError as error:
            self.line(click.style(f"  {error}", fg="red"))
            return
        for text in ("", *paint_diff(diff), ""):
            self.line(text)
        for text in masked_lines(self.app, folder.id, masked_in(told)) if self.app else ():
            self.line(click.style(text, fg="yellow"))

    def waiting(self, folder: RunFolder, request: Event) -> None:
        pass

    def notice(self, folder: RunFolder, text: str) -> None:
        self.line(f"  {text}")

    def token(self, key: str, text: str) -> None:
        pass

    def output(self, key: str, line: str) -> None:
        pass

    def line(self, text: str) -> None:
        click.echo(text, err=True, color=self.colour)

    def done(self, end: RunEnd, app: App, folder: RunFolder) -> None:
        """The last words: what happened, where it is, what to do next."""
        for text in ending(end, app, folder):
            self.line(text)


class QuietFace(LineFace):
    """`--quiet`: what is odd, and how it ended unless it went well."""

    def launched(self, folder: RunFolder, workflow: str) -> None:
        pass

    def event(self, event: Event) -> None:
        pass

    def done(self, end: RunEnd, app: App, folder: RunFolder) -> None:
        if end.exit_code:
            super().done(end, app, folder)


class TerminalFace(LineFace):
    """A person at a terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.colour = not os.environ.get("NO_COLOR")
        self.left = False  # the person chose to leave the run waiting
        self._stop: Callable[[], object] = lambda: None
        self._open: tuple[RunFolder, Event] | None = None
        self._queue: list[tuple[RunFolder, Event]] = []  # what waits for its turn to be asked
        self._held: list[Event] = []  # what happened below an open prompt, which stays the last thing on the screen
        self._await_line: Callable[[str], None] | None = None
        self._newest = ""
        self._live = Live()

    def bind(self, stop: Callable[[], object]) -> None:
        """Give the face what its prompts need besides the app to answer through: a way to leave."""
        self._stop = stop

    # -- progress -----------------------------------------------------------------------------------------------------

    def event(self, event: Event) -> None:
        self._live.clear()
        if event.type in _ANSWERS or event.type in FINAL:
            self._queue = [one for one in self._queue if not _settles(event, one[1])]
            if self._open is not None and _settles(event, self._open[1]):
                self._close_prompt()
        if self._open is not None:  # another branch works on: a diff of its own would look like what is asked
            self._held.append(event)
        else:
            self._show_event(event)
        self._live.event(event, quiet=self._open is not None)
        if self._open is None and self._queue:
            self._ask_next()

    def _show_event(self, event: Event) -> None:
        self._newest = event.id
        super().event(event)

    def token(self, key: str, text: str) -> None:
        self._live.token(key, text, quiet=self._open is not None)

    def output(self, key: str, line: str) -> None:
        self._live.output(key, line, quiet=self._open is not None)

    def done(self, end: RunEnd, app: App, folder: RunFolder) -> None:
        self._live.stop()
        super().done(end, app, folder)

    # -- prompts ------------------------------------------------------------------------------------------------------

    def waiting(self, folder: RunFolder, request: Event) -> None:
        """Ask, one request at a time and without holding up the run: another may answer first."""
        self._queue.append((folder, request))
        if self._open is None:
            self._ask_next()

    def _ask_next(self) -> None:
        """Show what is asked and read answers line by line."""
        self._live.clear()
        self._open = self._queue.pop(0)
        request = self._open[1]
        termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before the question is no answer to it
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._line_came)
        if request.type == "APPROVAL_REQUESTED":
            if request.id != self._newest:  # asked in an earlier life: its diff is not on this screen
                self._show_patch()
            self._show_reasons()
            self._ask_approval()
        else:
            self.line(click.style("? ", fg="yellow") + safe(request.payload["question"]))
            self.line(f"  why: {safe(request.payload['reason'])}")
            for needed in request.payload["needed_input"]:
                self.line(f"  needed: {safe(needed)}")
            self._prompt("answer (empty line: leave it waiting) > ", self._answered)

    def _show_patch(self, *, whole: bool = False) -> None:
        assert self._open is not None
        folder, request = self._open
        if _is_plan(request):
            show = whole_plan if whole else plan_lines
            for line in show(read_plan_file(folder, request.payload["patch"]), folder.path / "plan.json"):
                self.line(line)
        else:
            self.show_diff(folder, request.payload)

    def _show_reasons(self) -> None:
        assert self._open is not None
        payload = self._open[1].payload
        for number, file in enumerate(payload["files"], start=1):
            self.line(f"  {number}. {safe(file['path'])}  {file['change']} +{file['added']} -{file['removed']}")
        for reason in payload["reasons"][1 if payload["policy"] == "always" else 0 :]:  # the policy's own is known
            self.line(click.style(f"  ! {safe(reason)}", fg="yellow"))

    def _ask_approval(self) -> None:
        assert self._open is not None
        some = "[a 1,2] only these files  " if len(self._open[1].payload["files"]) > 1 else ""
        again = "[d] show all of it" if _is_plan(self._open[1]) else "[d]iff again"
        self._prompt(f"[a]pprove  {some}[r]eject  {again}  [q] leave it waiting > ", self._decided)

    def _decided(self, said: str) -> None:
        assert self._open is not None and self.app is not None
        folder, request = self._open
        digest = request.payload["digest"]  # what is on the screen, and nothing else (D-11)
        word, _, rest = said.partition(" ")
        match word.lower():
            case "a" | "approve" | "y" | "yes" | "예":
                paths = tuple(file["path"] for file in request.payload["files"])
                chosen = _numbers(rest, paths)
                if chosen is None:
                    whole = "  a plan is approved as a whole: a alone, please"
                    self.line(whole if _is_plan(request) else f"  give numbers from 1 to {len(paths)}, e.g. a 1,2")
                    return self._ask_approval()
                self._deliver(lambda app: app.approve(folder, digest=digest, only=chosen))
            case "r" | "reject" | "n" | "no" | "아니오":
                if rest:
                    return self._deliver(lambda app: app.reject(folder, digest=digest, reason=rest))
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
        """What a rejection leads to: the reason is of use only to who is asked again."""
        assert self._open is not None and self.app is not None
        folder, request = self._open
        created = self.app.summary(folder).created.payload
        if created.get("workflow") != "dag":
            return "goes to the fixer"
        if not _is_plan(request):
            return "kept in the run; the task fails"
        return "goes to the planner" if created["params"].get("plan") is None else "kept in the run, which ends"

    def _rejected(self, reason: str) -> None:
        assert self._open is not None
        folder, request = self._open
        if not reason:
            return self._ask_approval()
        return self._deliver(lambda app: app.reject(folder, digest=request.payload["digest"], reason=reason))

    def _answered(self, said: str) -> None:
        assert self._open is not None
        folder, _ = self._open
        if not said:
            return self._leave()
        return self._deliver(lambda app: app.answer(folder, said))

    def _deliver(self, act: Callable[[App], object]) -> None:
        assert self.app is not None
        try:
            act(self.app)
        except UsageError as error:  # someone else was faster: the run goes on with their word
            self.line(f"  {error}")
        except (OrchestraError, OSError) as error:  # it was not recorded: leave, rather than wait without a prompt
            self.line(f"  {error}")
            self._leave()

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
        line = os.read(sys.stdin.fileno(), 65536).decode("utf-8", "replace")  # a terminal hands over whole lines
        then, self._await_line = self._await_line, None
        if not line:  # end of input: nobody is there any more
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
        for event in held:
            self._show_event(event)


def _is_plan(request: Event) -> bool:
    return request.payload.get("subject") == "plan"


def _settles(event: Event, request: Event) -> bool:
    """Whether this event leaves nothing to ask there: it is the answer, or the end of the run."""
    if event.type in FINAL:
        return True
    name = "approvalId" if request.type == "APPROVAL_REQUESTED" else "questionId"
    return bool(event.payload.get(name) == request.payload[name])


def _numbers(text: str, paths: tuple[str, ...]) -> tuple[str, ...] | None:
    """The files chosen by number; none given means all; None if a number is wrong."""
    chosen: list[str] = []
    for word in text.replace(",", " ").split():
        if not word.isdecimal() or not 1 <= int(word) <= len(paths):
            return None
        chosen.append(paths[int(word) - 1])
    return tuple(chosen)
