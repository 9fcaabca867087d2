"""The files of a team's run that are made from its events: run-meta.json, logs, reviews, drafts (S4-33 … S4-36).

They are projections (core/projections.py): a file that is missing, or not what the events give, is written anew. Drafts
are projections while their phase lasts; then the run looks at them, and they are a person's (progress.py, rule 3). So a
draft is written at once with the event that has its text: the look must find it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from orchestra.core.accounts import Account, children, of_calls
from orchestra.core.calls import calls_in
from orchestra.core.disk import Disk
from orchestra.core.errors import OddFile
from orchestra.core.projections import Document, Lines
from orchestra.core.records import Event, utf8
from orchestra.core.run import RunFolder
from orchestra.workflows.team.progress import Progress, log_line

_FOLDERS = ("logs", "artifacts", "reviews")  # S4-33
_UNFINISHED = re.compile(r"\.\d+\.tmp$")  # core/disk.py
_MOST = 1 << 24  # bytes of one text
_encode = msgspec.json.Encoder().encode


def account_of(folder: RunFolder, events: Sequence[Event]) -> Account:
    """What a run and its child runs have cost so far."""
    return sum((told.account for told in children(events)), of_calls(calls_in(folder, events)))


class TeamFiles:
    """The derived files of one run."""

    def __init__(self, folder: RunFolder, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk
        self._progress = Progress()
        self._meta = Document(folder.path / "run-meta.json", disk, self._render)
        self._logs: dict[str, Lines] = {}  # by agent

    def restore(self, events: Sequence[Event]) -> None:
        """Bring the files up to date with the journal."""
        self._progress = Progress.of(events)
        self._meta.restore(events)
        if not events:
            return
        self._make_folders()
        self._remove_unfinished()
        for agent in self._progress.definition.agents if self._progress.definition else ():
            self._log_of(agent.name).restore(events)
        for path in (*self._progress.reviews, *self._progress.own_files):
            if self._on_disk(path) != utf8(self._progress.text(path)):
                self._write_text(path)

    def write(self, event: Event) -> None:
        """Take over an event."""
        self._progress.add(event)
        if event.type == "RUN_CREATED":
            self._make_folders()
        self._meta.write(event)
        if (line := log_line(event)) is not None:
            self._log_of(line.agent).write(event)
        for path in self._progress.touched:
            self._write_text(path)

    def ending(self, event: Event) -> None:
        """Nothing: no file here is about the end alone."""

    def close(self) -> None:
        """Write the files to their ends."""
        self._meta.close()
        for log in self._logs.values():
            log.close()

    def _make_folders(self) -> None:
        for name in _FOLDERS:
            (self._folder.path / name).mkdir(exist_ok=True)

    def _remove_unfinished(self) -> None:
        """Remove what a killed process left of a file it was writing: only deliverables may be there (S4-65)."""
        for name in ("artifacts", "reviews"):
            for path in (self._folder.path / name).glob("*.tmp"):
                if _UNFINISHED.search(path.name):
                    path.unlink(missing_ok=True)

    def _log_of(self, agent: str) -> Lines:
        def line(event: Event) -> bytes | None:
            found = log_line(event)
            return _encode(found) + b"\n" if found is not None and found.agent == agent else None

        if agent not in self._logs:
            self._logs[agent] = Lines.of(self._folder.logs / f"{agent}.jsonl", self._disk, line)
        return self._logs[agent]

    def _render(self, events: Sequence[Event]) -> bytes | None:
        account = account_of(self._folder, events)
        meta = self._progress.meta(account.costUsd, (account.tokens.input, account.tokens.output))
        return None if meta is None else msgspec.json.format(_encode(meta), indent=2) + b"\n"

    def _write_text(self, path: str) -> None:
        """Write a review or a draft, unless a person has edited the file."""
        if text := self._progress.text(path):
            self._disk.publish(self._folder.path / path, utf8(text), durable=False)

    def _on_disk(self, path: str) -> bytes | None:
        try:
            return self._folder.read(path, _MOST)
        except (OSError, OddFile):
            return None
