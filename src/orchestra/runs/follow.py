"""Follows a run that any process drives: its events, and what its models write and its commands print, as it comes.

`follow` is one asynchronous iterator over the records of core/faces.py, for every face that does not drive the run
itself. It reads the run's files and writes nothing, so it cannot slow the run, however slowly its records are taken.

Rules
1. It begins with everything so far and ends with the run's last event. A run that waits or stands still stays followed.
2. Every event of the tree comes once. Events of one run come in order, those of a child run after the event that began
   it and before the event that settles it. `Launched` precedes the first event of each run.
3. The text of a call that is open, or begins later, comes whole, from its first character to its last, before the event
   that settles it. A call that was settled before is known by its event only. The same holds for a command's lines.
4. A call that is made again after a kill begins a new file; its first `Token` then says `restart`.
5. Text and lines are masked here, because raw files are not (C-12).
6. The files may be anybody's. One that is no plain file, or too large, is not read, and a `Notice` says so.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

import msgspec

from orchestra.core.command import Keeps, output_files
from orchestra.core.errors import JournalCorrupt, OddFile, UsageError
from orchestra.core.faces import Happened, Launched, News, Notice, Output, Token
from orchestra.core.files import MIB
from orchestra.core.livetext import LiveText
from orchestra.core.reading import RunCreated, StepEvent, outcome_of
from orchestra.core.records import FINAL, ArtifactRef, Event, now
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder, is_id
from orchestra.core.store import Store
from orchestra.core.text import clean_output
from orchestra.core.watching import Watcher
from orchestra.providers.bounds import MOST_TEXT
from orchestra.runs.growing import Growing

_SAFETY_S = 1.0  # look again after this long, also if no change was reported: not every file system reports all
_FIRST_S = 0.2
_APART_S = 0.008  # between two looks: many tokens are taken together
_IN_A_TURN = 64  # records before other tasks of the event loop have their turn
_MOST_OPEN = 200  # files that are open at once; the text of more calls comes when they are settled
_MOST_OUTPUT = 64 * MIB  # of a command's output file; orchestra's own are smaller
_LINE = 65_536  # bytes of a line of output; a longer one comes in pieces


async def follow(
    store: Store,
    run: RunFolder,
    *,
    redactor: Redactor,
    root_of: Callable[[str], Path],
    own: bool = False,
    on_idle: Callable[[], None] = lambda: None,
    polling: bool = False,
) -> AsyncIterator[News]:
    """Everything that happens in a run and the child runs below it, until the run ends (rules 1 to 4).

    `root_of`, given a workflow, is the folder with its runs. `own`: without child runs. `on_idle` is called when
    nothing has happened for a while. `polling`: as on a machine without inotify. UsageError if the run is removed
    meanwhile.
    """
    if store.first(run) is None:
        raise JournalCorrupt(str(run.events), "holds no event")
    following = _Following(store, run, redactor=redactor, root_of=root_of, own=own)
    patience, looked = _FIRST_S, 0.0
    with Watcher(polling=polling) as watcher:
        try:
            while True:
                watched = following.files()
                watcher.watch(watched)  # before the look, so that no change falls in between
                await asyncio.sleep(max(0.0, looked + _APART_S - time.monotonic()))
                looked, count = time.monotonic(), 0
                for news in following.look():
                    yield news
                    count += 1
                    if count % _IN_A_TURN == 0:
                        await asyncio.sleep(0)
                if following.ended:
                    return
                if count:
                    patience = _FIRST_S
                    watcher.soon()
                if following.again or following.files() != watched:
                    continue
                if not await watcher.wait(patience):
                    on_idle()
                    patience = _SAFETY_S
        finally:
            following.close()


class _Open(Protocol):
    """A step that runs now, and whose files grow."""

    paths: tuple[Path, ...]  # where they are
    replaced: bool  # to be looked at again at once: another file has the name of one that was read

    def more(self) -> Iterator[News]:
        """What was added to them."""

    def rest(self, event: Event) -> Iterator[News]:
        """What is left of them, because this event settles the step or ends the run."""

    def close(self) -> None: ...


class _Run:
    """A run that is followed."""

    def __init__(self, store: Store, folder: RunFolder) -> None:
        self.folder = folder
        self.journal = store.follow(folder)
        self.open: dict[str, _Open] = {}  # by key
        self.children: dict[str, _Run] = {}  # by key: those that are not settled
        self.ended = False

    @property
    def grew(self) -> bool:
        """Whether its journal has something new; FileNotFoundError if there is none."""
        return os.stat(self.folder.events).st_size != self.journal.offset

    def close(self) -> None:
        for step in self.open.values():
            step.close()
        self.open.clear()


class _Following:
    """A tree of runs, and how far each was read."""

    def __init__(
        self, store: Store, run: RunFolder, *, redactor: Redactor, root_of: Callable[[str], Path], own: bool
    ) -> None:
        self._store = store
        self._redactor = redactor
        self._root_of = root_of
        self._own = own
        self._joined = now()
        self._root = _Run(store, run)
        self._runs = [self._root]
        self._known = {run.path}

    @property
    def ended(self) -> bool:
        return self._root.ended

    @property
    def again(self) -> bool:
        """Whether to look again at once, before anything changes."""
        return any(step.replaced for step in self._growing())

    def files(self) -> set[Path]:
        """The files whose change may bring something new."""
        paths = {run.folder.events for run in self._runs}
        return paths | {path for step in self._growing() for path in step.paths}

    def look(self) -> Iterator[News]:
        """Everything new: first the events, so that what belongs to a settled step is not taken for the next one's."""
        for run in self._runs:  # grows while child runs are found
            yield from self._read(run)
            if self.ended:
                return
        self._runs = [run for run in self._runs if not run.ended]
        for step in self._growing():
            yield from step.more()

    def close(self) -> None:
        for run in self._runs:
            run.close()

    def _growing(self) -> list[_Open]:
        return list(islice((step for run in self._runs for step in run.open.values()), _MOST_OPEN))

    def _read(self, run: _Run) -> Iterator[News]:
        """The new events of a run, and what comes before and after each of them."""
        try:
            if run.ended or not run.grew:
                return
            for event in run.journal.new():
                yield from self._take(run, event)
        except (FileNotFoundError, NotADirectoryError) as error:
            if not run.journal.offset and run is not self._root:
                return  # a child run that is not made yet
            if run is self._root:
                raise UsageError(f"run {run.folder.id} was removed while it was followed") from error
            yield from self._lost(run, "it was removed while it was followed")
        except JournalCorrupt as error:
            if run is self._root:
                raise
            yield from self._lost(run, str(error))

    def _lost(self, run: _Run, why: str) -> Iterator[News]:
        run.ended = True
        run.close()
        yield Notice(run.folder.id, why)

    def _take(self, run: _Run, event: Event) -> Iterator[News]:
        step = StepEvent.of(event)
        if event.type == "RUN_CREATED":
            created = RunCreated.of(event)
            yield Launched(run.folder, created.workflow, created.parentRunId or "")
        elif event.type == "PHASE_STARTED":
            if again := run.open.pop(step.key, None):
                again.close()
            yield Happened(event)
            self._begin(run, step)
            return
        elif event.type in FINAL:
            for child in list(run.children.values()):
                yield from self._drain(child)
            for left in list(run.open.values()) if event.ts >= self._joined else ():
                yield from left.rest(event)
            run.close()
            run.ended = True
        elif settled := run.open.pop(step.key, None):
            if event.ts >= self._joined:  # rule 3
                yield from settled.rest(event)
            settled.close()
        elif ended := run.children.pop(step.key, None):
            yield from self._drain(ended)
        yield Happened(event)

    def _drain(self, child: _Run) -> Iterator[News]:
        """The rest of a child run that its parent has settled."""
        yield from self._read(child)
        child.ended = True
        child.close()

    def _begin(self, run: _Run, step: StepEvent) -> None:
        if step.childRunId:
            if self._own or not is_id(step.childRunId):
                return
            folder = RunFolder(self._root_of(step.workflow) / step.childRunId)
            if folder.path not in self._known:  # a forged run may be its own child
                self._known.add(folder.path)
                run.children[step.key] = child = _Run(self._store, folder)
                self._runs.append(child)
        elif step.artifact and _is_plain(step.artifact):
            if step.effect == "ModelCall":
                run.open[step.key] = _Call(run.folder, step, self._redactor)
            elif step.effect == "RunCommand":
                run.open[step.key] = _Command(run.folder, step, self._redactor)


class _Call:
    """A model call that runs: its reply grows in a file, and has another name when it is whole (rawfiles.py)."""

    def __init__(self, folder: RunFolder, step: StepEvent, redactor: Redactor) -> None:
        self.replaced = False  # then this call was made again, or is settled, and its event is not read yet
        self._folder = folder
        self._step = step
        self._redactor = redactor
        self._name = f"artifacts/{step.artifact}.raw.txt.part"
        self.paths: tuple[Path, ...] = (folder.path / self._name,)
        self._file: Growing | None = None
        self._text = LiveText(redactor)
        self._restart = False  # the next text begins anew
        self._odd = False

    def more(self) -> Iterator[News]:
        if self._file is None and not self._odd:
            yield from self._open(self._name)
        yield from self._said(self._new())
        if self._file is None or not self._file.replaced:
            self.replaced = False
        elif not self.replaced:
            self.replaced = True  # first the events are read again: perhaps this call is settled (rule 4)
        else:
            self.replaced = False
            yield from self._anew(self._name)

    def rest(self, event: Event) -> Iterator[News]:
        yield from self._said(self._new())
        reference = outcome_of(event).raw
        if reference is not None and not (self._file and self._file.is_at(self._folder.path / reference.path)):
            found = self._folder.find(msgspec.convert(reference, ArtifactRef, from_attributes=True))
            if found is not None and not (self._file and self._file.is_at(found)):
                yield from self._anew(str(found.relative_to(self._folder.path)))
        yield from self._said([self._text.close()])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _anew(self, name: str) -> Iterator[News]:
        """Read another file from its beginning. Text of the old file that was reported is replaced (rule 4)."""
        self._restart = self._restart or self._file is not None
        self.close()
        self._text = LiveText(self._redactor)
        yield from self._open(name)
        yield from self._said(self._new())

    def _open(self, name: str) -> Iterator[News]:
        try:
            self._file = Growing(self._folder.path, name, MOST_TEXT)
        except OddFile as odd:
            self._odd = True
            yield Notice(self._folder.id, f"{self._step.key}: its text is not shown: {odd}")
        except OSError:
            pass  # not there yet

    def _new(self) -> Iterator[str]:
        while self._file is not None and (data := _bytes(self._file)):
            yield self._text.feed(data)

    def _said(self, texts: Iterable[str]) -> Iterator[News]:
        step = self._step
        for text in texts:
            if text:
                yield Token(self._folder.id, step.key, step.role, step.agent, text, self._restart)
                self._restart = False


class _Command:
    """A command that runs: its output is stored as it comes, masked (worker/capture.py)."""

    replaced = False  # a command that is run again has a new intent

    def __init__(self, folder: RunFolder, step: StepEvent, redactor: Redactor) -> None:
        self._folder = folder
        self._key = step.key
        self._redactor = redactor
        artifact = f"artifacts/{step.artifact}"
        kinds: tuple[Keeps, ...] = ("files",) if step.task else ("layer", "nothing")
        self._names = [output_files(artifact, step.key, kind) for kind in kinds]
        self.paths = tuple(folder.path / name for names in self._names for name in names)
        self._outputs: list[_Lines] = []

    def more(self) -> Iterator[News]:
        if not self._outputs:
            yield from self._open()
        for output in self._outputs:
            yield from self._said(output.new())

    def rest(self, event: Event) -> Iterator[News]:
        yield from self.more()
        for output in self._outputs:
            yield from self._said(output.rest())

    def close(self) -> None:
        for output in self._outputs:
            output.close()
        self._outputs = []
        self._names = []

    def _open(self) -> Iterator[News]:
        """Open the files, which exist before the step is recorded; a command that was refused has none."""
        for names in self._names:
            for name in names:
                try:
                    self._outputs.append(_Lines(Growing(self._folder.path, name, _MOST_OUTPUT), self._redactor))
                except OddFile as odd:
                    self._names = []
                    yield Notice(self._folder.id, f"{self._key}: its output is not shown: {odd}")
                except OSError:
                    break
            if self._outputs:
                return

    def _said(self, lines: Iterable[str]) -> Iterator[News]:
        for line in lines:
            yield Output(self._folder.id, self._key, line)


class _Lines:
    """The lines of one output file."""

    def __init__(self, file: Growing, redactor: Redactor) -> None:
        self._file = file
        self._redactor = redactor
        self._stream = redactor.stream()  # masked again: the file may not be orchestra's
        self._begun = b""

    def new(self) -> Iterator[str]:
        """The lines that were completed."""
        while data := _bytes(self._file):
            yield from self._split(self._stream.feed(data))

    def rest(self) -> Iterator[str]:
        """The last line, if nothing ends it."""
        yield from self._split(self._stream.close())
        if self._begun:
            yield self._readable(self._begun)
            self._begun = b""

    def close(self) -> None:
        self._file.close()

    def _split(self, data: bytes) -> Iterator[str]:
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            yield self._readable(line)
        if len(self._begun) > _LINE:
            yield self._readable(self._begun)
            self._begun = b""

    def _readable(self, line: bytes) -> str:
        # masked last: as in capture.py
        return self._redactor.text(clean_output(line.decode("utf-8", "backslashreplace")))


def _bytes(file: Growing) -> bytes:
    """The next bytes of a file; none if it cannot be read any more."""
    try:
        return file.read()
    except OSError:
        return b""


def _is_plain(name: str) -> bool:
    """Whether a path from a journal stays in its folder."""
    return "\0" not in name and not any(part in ("", ".", "..") for part in name.split("/"))
