"""A model service on loopback that speaks both wire formats and every fault we must survive.

1. It is ours and small: sockets and threads of the standard library, so that each byte on the wire is chosen here
   (in `modelwires`).
2. Each POST to one of the two wires takes the next behaviour, then the default. Every request is kept: tests count
   them, because a request is money.
3. It takes any key, model and body, and ignores the query: what was sent is for the test to judge, in `seen`. Asked
   for a whole address, as a proxy is, it answers for that address.
4. One answer per connection.
5. `close` leaves no thread and no socket, whatever the clients do.

It does not speak TLS or read chunked requests.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from tests.support.modelwires import (
    WIRES,
    Behaviour,
    Cut,
    ErrorEvent,
    Fail,
    Flood,
    Garbage,
    Page,
    Say,
    Stall,
    Step,
    answer,
    other_answer,
)

__all__ = ["Behaviour", "Cut", "ErrorEvent", "Fail", "Flood", "Garbage", "ModelServer", "Page", "Say", "Seen", "Stall"]


class Seen(NamedTuple):
    """One request, as it arrived."""

    method: str
    path: str  # with its query
    headers: dict[str, str]  # names in lower case
    body: Any  # decoded JSON, or None


class _Left(Exception):
    """The other side is gone."""


class ModelServer:
    """Serves from its making until `close`. `seen` holds the POSTs, `asked` every request."""

    def __init__(
        self,
        *behaviours: Behaviour,
        default: Behaviour = Say(),  # noqa: B008  # frozen
        host: str = "127.0.0.1",
    ) -> None:
        self.seen: list[Seen] = []
        self.asked: list[Seen] = []
        self.hang_ups = 0
        self._next = iter(behaviours)
        self._default = default
        self._changed = threading.Condition()
        self._closing = False
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server((host, 0))
        self.url = f"http://{host}:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, name="modelserver", daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_for_seen(self, timeout: float = 5, *, count: int = 1) -> int:
        """Wait until so many POSTs have arrived; how many did so far."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, timeout), (
                f"too few in {timeout} s: {self.seen}"
            )
            return len(self.seen)

    def wait_for_hang_up(self, timeout: float = 5, *, count: int = 1) -> int:
        """Wait until so many clients have left before their answer was complete; how many did so far."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.hang_ups >= count, timeout), f"{self.hang_ups} in {timeout} s"
            return self.hang_ups

    def close(self, timeout: float = 5) -> None:
        """End all answers and join all threads."""
        with self._changed:
            self._closing = True
            for connection in [self._listener, *self._open]:
                with suppress(OSError):  # its client may be gone already
                    connection.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))
        self._listener.close()
        assert not any(thread.is_alive() for thread in self._threads), f"threads left: {self._threads}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # `close` shut the listener
                return
            with self._changed:
                if self._closing:
                    connection.close()
                    return
                thread = threading.Thread(target=self._serve, args=[connection], name="modelserver", daemon=True)
                self._open.add(connection)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = _read_request(connection)
            for step in self._steps(request) if request else ():
                _do(step, connection)
        except (_Left, OSError):
            with self._changed:
                self.hang_ups += not self._closing
                self._changed.notify_all()
        finally:
            with self._changed:  # `close` may not shut a socket whose number is already someone else's
                self._open.remove(connection)
                connection.close()

    def _steps(self, request: Seen) -> Iterator[Step]:
        path = urlsplit(request.path).path
        with self._changed:
            self.asked.append(request)
            request_id = f"req_{len(self.asked)}"
            if request.method == "POST":
                self.seen.append(request)
                self._changed.notify_all()
                if path in WIRES:
                    asked = request.body if isinstance(request.body, dict) else {}
                    return answer(next(self._next, self._default), path, asked, request_id)
        return iter([other_answer(request.method, path, request_id)])


def _read_request(connection: socket.socket) -> Seen | None:
    """The request, or None where the client left before it had made one: some connect in advance."""
    with connection.makefile("rb") as stream:
        try:
            line, *fields = iter(lambda: stream.readline().strip().decode("latin-1"), "")
            method, path, _ = line.split(" ")
            headers = {name.strip().lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
            length = int(headers.get("content-length", 0))
            body = stream.read(length)
        except (ValueError, OSError):
            return None
    if len(body) < length:
        return None
    try:
        return Seen(method, path, headers, json.loads(body))
    except ValueError:
        return Seen(method, path, headers, None)


def _do(step: Step, connection: socket.socket) -> None:
    """Wait or write; raises as soon as it is known that the other side is gone."""
    deadline = time.monotonic() + (0 if isinstance(step, bytes) else step)
    while select.select([connection], [], [], max(0, deadline - time.monotonic()))[0]:
        if not connection.recv(65536):
            raise _Left
    if isinstance(step, bytes):
        connection.sendall(step)
