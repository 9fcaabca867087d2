"""A connection through the proxy or the relay: made, its two sides, and copying from one to the other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable

_PIECE = 1 << 16
_BUFFER = 1 << 18
_FAREWELL = 1.0  # seconds for a client to read the answer's end before its unread bytes reset the connection


class Idle:
    """The idle timeout of a connection: every byte, in either direction, restarts it."""

    def __init__(self, timer: asyncio.Timeout, seconds: float) -> None:
        self._timer = timer
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()

    def moved(self) -> None:
        self._timer.reschedule(self._loop.time() + self._seconds)


async def connected(family: int, address: str, port: int, *, within: float) -> socket.socket | None:
    """A connection to an address, made in so many seconds; None if there is none, so that another can be tried."""
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return None  # this machine has no such addresses
    done = False
    try:
        sock.setblocking(False)
        async with asyncio.timeout(within):
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
        done = True
    except (OSError, TimeoutError):
        pass  # another address may answer
    finally:
        if not done:
            sock.close()
    return sock if done else None


class Side:
    """One side of a connection: a socket with its streams; closed at the end of its block."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.said = False  # whether any byte was written to it
        self.timer: Idle | None = None

    async def __aenter__(self) -> Side:
        self.reader, self._writer = await asyncio.open_connection(sock=self._sock, limit=_BUFFER)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()
        try:
            await self._writer.wait_closed()
        except OSError:
            pass  # the reason of the end is known already

    async def read(self, most: int = _PIECE) -> bytes:
        return self._alive(await self.reader.read(most))

    async def until(self, end: bytes) -> bytes:
        return self._alive(await self.reader.readuntil(end))

    async def exactly(self, size: int) -> bytes:
        return self._alive(await self.reader.readexactly(size))

    def write(self, data: bytes) -> None:
        self.said = True
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until there is room for more."""
        await self._writer.drain()

    async def flush(self) -> None:
        """Wait until the system has taken all bytes: those left in our buffer at the end of the block are lost."""
        self._writer.transport.set_write_buffer_limits(high=0)
        await self._writer.drain()

    async def end(self) -> None:
        """Send end-of-file."""
        await self.flush()
        self._writer.write_eof()

    async def farewell(self) -> None:
        """Send end-of-file and read what is left: unread bytes would reset the connection and lose the answer's end."""
        try:
            async with asyncio.timeout(_FAREWELL):
                await self.end()
                while await self.reader.read(_PIECE):
                    pass
        except (OSError, TimeoutError):
            pass  # the time is up

    def _alive(self, data: bytes) -> bytes:
        if self.timer is not None:
            self.timer.moved()
        return data


async def copy(source: Side, target: Side, *, length: int | None = None) -> None:
    """Copy bytes until the source's end-of-file (which is passed on), or exactly `length` of them."""
    while length is None or length > 0:
        data = await source.read(_PIECE if length is None else min(_PIECE, length))
        if not data and length is not None:
            raise EOFError
        if not data:
            await target.end()
            return
        target.write(data)
        await target.drain()
        length = None if length is None else length - len(data)


async def both(one: Awaitable[None], other: Awaitable[None]) -> None:
    """Run both directions of a connection; an error in one cancels the other."""
    tasks = [asyncio.ensure_future(one), asyncio.ensure_future(other)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
