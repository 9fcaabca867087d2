"""The face protocol: a face shows what happens in runs. One method, one closed union of records, each with its run.

A face (terminal, plain lines, JSON, a web page) never decides anything. A face that fails, for example at a closed pipe
or terminal, is replaced by a silent one and does not stop the run (`GuardedFace`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from orchestra.core.records import Event
from orchestra.core.run import RunFolder


class Launched(Struct, frozen=True):
    """A run was created, or one that exists is about to be driven."""

    folder: RunFolder
    workflow: str
    parent: str = ""  # the id of the run whose child it is; its first event may not be written yet

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
    """Something a person should know that is not an event."""

    run_id: str
    text: str
    progress: bool = False  # it only reports progress: nothing is wrong, and no program needs it


class Token(Struct, frozen=True):
    """More text of a running model call, as it arrives.

    From the process that makes the call, secrets in it are not masked yet (core/livetext.py does that); from `follow`
    they are.
    """

    run_id: str
    key: str
    role: str
    agent: str
    text: str
    restart: bool = False  # the call is made again: the text before this record is void


class Output(Struct, frozen=True):
    """A line that a command printed just now."""

    run_id: str
    key: str
    line: str


News = Launched | Happened | Waiting | Notice | Token | Output


class Face(Protocol):
    """Shows what happens in runs."""

    def tell(self, news: News, /) -> None: ...


class Silent:
    """A face that shows nothing."""

    def tell(self, news: News) -> None:
        pass


class GuardedFace:
    """Wraps a face: after an error in the face, nothing more is shown, and the run goes on."""

    def __init__(self, face: Face) -> None:
        self._face: Face = face

    def tell(self, news: News) -> None:
        try:
            self._face.tell(news)
        except (OSError, ValueError):  # ValueError: writing to a closed file
            self._face = Silent()


class Bell:
    """Wraps a face: calls `waits` with the run when it begins to wait for the person at this terminal."""

    def __init__(self, face: Face, waits: Callable[[RunFolder], None]) -> None:
        self._face = face
        self._waits = waits

    def tell(self, news: News) -> None:
        self._face.tell(news)
        if isinstance(news, Waiting):
            self._waits(news.folder)
