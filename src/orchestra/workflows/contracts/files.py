"""The files of a request that are made from its run's events: test results, state.json, session.json, knowledge.yaml.

Rules
1. They are projections (core/projections.py, rule 5): they lie outside the run's folder and belong to the newest run of
   its lineage. A file that is missing, or not what the events give, is written anew. So a test result cannot be edited
   into another one: it is what the executed tests say.
2. session.json and knowledge.yaml are the project's, not a request's: only the newest request writes them.
3. A result is written at once with its event: it must be there when a person is asked about it.
4. They lie beside the contracts that the run looks at: in the folder that it works in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from orchestra.core.disk import Disk
from orchestra.core.errors import OddFile
from orchestra.core.files import MIB, read_bounded
from orchestra.core.projections import Mine
from orchestra.core.reading import RunCreated
from orchestra.core.records import Event, utf8
from orchestra.workflows.contracts import documents
from orchestra.workflows.contracts.places import KNOWLEDGE, RESULT, SESSION, STATE, Places, next_request
from orchestra.workflows.contracts.progress import Progress, results_of
from orchestra.workflows.workspace import make_folder

_encode = msgspec.json.Encoder().encode


def _always() -> AbstractContextManager[bool]:
    return nullcontext(True)


class ContractFiles:
    """The derived files of one run's request."""

    def __init__(self, project: Path, hash: str, disk: Disk) -> None:
        self.path = project / Places(hash).session
        self.mine: Mine = _always
        self._project, self._workspace, self._hash = project, project, hash
        self._disk = disk
        self._progress = Progress()
        self._written: dict[str, bytes] = {}  # by path: what was written last

    def restore(self, events: Sequence[Event]) -> None:
        """Bring the files up to date with the journal."""
        if events:
            self._find_workspace(events[0])
        self._progress = Progress.of(events)
        self._write(compare=True)

    def write(self, event: Event) -> None:
        """Take over an event."""
        if event.type == "RUN_CREATED":
            self._find_workspace(event)
        if self._progress.add(event):
            self._write()

    def ending(self, event: Event) -> None:
        """Nothing: no file here is about the end alone."""

    def close(self) -> None:
        """Nothing: every file is written with its event."""

    def _find_workspace(self, created: Event) -> None:
        """The folder that the run works in: the project, a copy of it, or a folder inside (rule 4)."""
        where = RunCreated.of(created)
        self._workspace = Path(os.path.normpath(self._project / where.copy)) / where.folder

    def _write(self, *, compare: bool = False) -> None:
        """Write the files that have changed; with `compare`, those that are not on the disk."""
        if not self._progress.request:
            return
        texts = {path: utf8(text) for path, text in self._texts()}
        stale = [path for path, data in texts.items() if self._written.get(path) != data]
        if compare:
            stale = [path for path in stale if self._on_disk(path) != texts[path]]
            self._written.update(texts)
        if not stale:
            return
        with self.mine() as mine:
            for path in stale if mine else ():
                make_folder(self._workspace, path.rpartition("/")[0])  # refuses a link on the way
                self._disk.publish(self._workspace / path, texts[path], durable=False)
                self._written[path] = texts[path]

    def _texts(self) -> Iterator[tuple[str, str]]:
        """Every file and its text."""
        progress, places = self._progress, Places(self._hash)
        request = progress.request
        for subtask, results in results_of(progress):
            for number, earlier in enumerate(results[:-1], 1):
                yield places.earlier_result(request, subtask, number), documents.write(earlier.result)
            yield places.subtask(request, subtask, RESULT), documents.write(results[-1].result)
        yield places.request(request, STATE), _json(progress.state)
        if self._is_newest(request):
            session = progress.session(str(self._project), self._project.name, self._hash)
            yield f"{places.session}/{SESSION}", _json(session)
            if progress.known:
                yield f"{places.session}/{KNOWLEDGE}", documents.write(progress.known.as_record(progress.updated))

    def _is_newest(self, request: str) -> bool:
        """Whether no later request of the project has begun (rule 2)."""
        try:
            names = [entry.name for entry in (self._workspace / Places(self._hash).contracts).iterdir()]
        except OSError:
            return True
        return int(next_request(names)[1:]) - 1 <= int(request[1:])

    def _on_disk(self, path: str) -> bytes | None:
        try:
            return read_bounded(self._workspace / path, MIB)
        except (OSError, OddFile):
            return None


def _json(record: msgspec.Struct) -> str:
    return msgspec.json.format(_encode(record), indent=2).decode() + "\n"
