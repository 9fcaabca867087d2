"""The relay to services of this machine: a command reaches them on its own loopback, by port (`sandbox.loopback`).

    command ── 127.0.0.1:5432 in the sandbox ──▶ relay, in orchestra ── 127.0.0.1:5432 of this machine ──▶ service

Rules
1. A listener exists for each port that was agreed to, and for no other. A connection goes to the same port of this
   machine's loopback (127.0.0.1, else ::1), and nowhere else.
2. Bytes are copied, not read. The end of each direction is passed on by itself, so protocols that half-close work; an
   abort of one side aborts the other.
3. Connections are bounded; more wait in the queue of the socket. There is no idle limit: the command has its own.
4. A service that does not answer is recorded; its client's connection is reset.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Sequence

from orchestra.worker.connection import Side, both, connected, copy
from orchestra.worker.task import Denial

CONNECTIONS = 64  # at once, of one command
_CONNECT_S = 10.0
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close at once, with a reset


class Relay:
    """Serves listening sockets until `close`. The relay owns the sockets."""

    def __init__(self, listeners: Sequence[socket.socket]) -> None:
        self._listeners = listeners
        self._slots = asyncio.Semaphore(CONNECTIONS + len(listeners))  # each listener holds one while it waits
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: list[asyncio.Task[None]] = []
        self._silent: dict[int, int] = {}  # ports without a service, and how often they were tried

    @property
    def denials(self) -> tuple[Denial, ...]:
        """The ports on which no service of this machine answered."""
        why = "no service of this machine answers there"
        return tuple(Denial("127.0.0.1", port, why, times) for port, times in self._silent.items())

    async def start(self) -> None:
        """Begin to accept."""
        for listener in self._listeners:
            listener.setblocking(False)
            self._accepting.append(asyncio.create_task(self._accept(listener, listener.getsockname()[1])))

    async def close(self) -> None:
        """End every connection at once; after this nothing goes in or out."""
        tasks = [*self._tasks, *self._accepting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()

    async def _accept(self, listener: socket.socket, port: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:
                self._slots.release()
                if error.errno in (errno.EBADF, errno.EINVAL):
                    return  # the socket was closed
                await asyncio.sleep(0.1)  # out of descriptors, or the client has already disconnected
                continue
            except asyncio.CancelledError:
                self._slots.release()
                raise
            task = asyncio.create_task(self._serve(client, port))
            self._tasks.add(task)
            task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()

    async def _serve(self, client: socket.socket, port: int) -> None:
        service = await self._dial(client, port)
        if service is None:
            return
        async with Side(client) as inner, Side(service) as outer:
            try:
                await both(copy(inner, outer), copy(outer, inner))
            except OSError:
                return  # one side is gone: closing the other is all that can be done

    async def _dial(self, client: socket.socket, port: int) -> socket.socket | None:
        """A connection to the service on this port; without one the client's is reset."""
        found: socket.socket | None = None
        try:
            for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
                found = found or await connected(family, address, port, within=_CONNECT_S)
        finally:
            if found is None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                client.close()
        if found is None:
            self._silent[port] = self._silent.get(port, 0) + 1
        return found
