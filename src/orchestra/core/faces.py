"""Telling a face what happens: the protocol of all faces, and the guard between a face's troubles and a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from orchestra.core.engine import Observer
from orchestra.core.records import Event
from orchestra.core.run import RunFolder


class Face(Observer, Protocol):
    """What the app tells a face."""

    def token(self, key: str, text: str) -> None: ...

    def output(self, key: str, line: str) -> None: ...


class Told:
    """A face, told safely. Its troubles are its own: a closed pipe or terminal silences it and stops no run."""

    def __init__(self, face: Face) -> None:
        self._face: Face = face

    def launched(self, folder: RunFolder, workflow: str) -> None:
        self._tell(lambda face: face.launched(folder, workflow))

    def event(self, event: Event) -> None:
        self._tell(lambda face: face.event(event))

    def waiting(self, folder: RunFolder, request: Event) -> None:
        self._tell(lambda face: face.waiting(folder, request))

    def notice(self, folder: RunFolder, text: str) -> None:
        self._tell(lambda face: face.notice(folder, text))

    def token(self, key: str, text: str) -> None:
        self._tell(lambda face: face.token(key, text))

    def output(self, key: str, line: str) -> None:
        self._tell(lambda face: face.output(key, line))

    def _tell(self, what: Callable[[Face], None]) -> None:
        try:
            what(self._face)
        except (OSError, ValueError):  # ValueError: writing to a closed file
            self._face = Silent()


class Silent:
    """A face that wants to hear nothing."""

    def launched(self, folder: RunFolder, workflow: str) -> None:
        pass

    def event(self, event: Event) -> None:
        pass

    def waiting(self, folder: RunFolder, request: Event) -> None:
        pass

    def notice(self, folder: RunFolder, text: str) -> None:
        pass

    def token(self, key: str, text: str) -> None:
        pass

    def output(self, key: str, line: str) -> None:
        pass
