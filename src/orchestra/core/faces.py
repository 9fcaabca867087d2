"""What a face is told: one method, one closed union of records, each with the run it is about.

A face (terminal, plain lines, JSON, a web page) is told what happens and never decides. Its troubles are its own: a
closed pipe or terminal silences it and stops no run (`Guarded`).
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from orchestra.core.records import Event, Role
from orchestra.core.run import RunFolder


class Launched(Struct, frozen=True):
    """A run was created, or one that exists is about to be driven."""

    folder: RunFolder
    workflow: str

    @property
    def run_id(self) -> str:
        return self.folder.id


class Happened(Struct, frozen=True):
    """An event was written."""

    event: Event

    @property
    def run_id(self) -> str:
        return self.event.runId


class Waiting(Struct, frozen=True):
    """A run waits here for a person's answer to this request."""

    folder: RunFolder
    request: Event

    @property
    def run_id(self) -> str:
        return self.folder.id


class Notice(Struct, frozen=True):
    """Something a person should know that is no event."""

    run_id: str
    text: str


class Token(Struct, frozen=True):
    """More text of a model call that is under way, as it arrives: it is not masked yet."""

    run_id: str
    key: str
    role: Role
    agent: str
    text: str


class Output(Struct, frozen=True):
    """A line that a command printed just now."""

    run_id: str
    key: str
    line: str


News = Launched | Happened | Waiting | Notice | Token | Output


class Face(Protocol):
    """Whoever is told."""

    def tell(self, news: News, /) -> None: ...


class Silent:
    """A face that shows nothing."""

    def tell(self, news: News) -> None:
        pass


class GuardedFace:
    """A face whose troubles stop no run."""

    def __init__(self, face: Face) -> None:
        self._face: Face = face

    def tell(self, news: News) -> None:
        try:
            self._face.tell(news)
        except (OSError, ValueError):  # ValueError: writing to a closed file
            self._face = Silent()
