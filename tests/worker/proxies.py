"""A domain proxy on loopback, something behind it, and the words to say to it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from orchestra.worker.proxy import Proxy, ProxyLimits

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi\n"
ENTRIES = ("allowed.test:PORT", "*.below.test:PORT", "example.com", "*.wild.example.com")
GET = b"GET %s HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """An upstream on loopback that remembers what reached it."""

    def __init__(self, reply: bytes = OK, answer: Answer | None = None) -> None:
        self.connections = 0
        self.heard = b""
        self._reply, self._answer = reply, answer
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if self._answer is not None:
                await self._answer(reader, writer)
            else:
                self.heard += await reader.readuntil(b"\r\n\r\n")
                writer.write(self._reply)
                await writer.drain()
                self.heard += await reader.read(-1)
        except (OSError, EOFError):
            pass  # the proxy hung up: that is what some tests are about
        finally:
            writer.close()


class Range:
    """A proxy on loopback, an upstream, and a resolver that remembers what it was asked."""

    def __init__(self, server: Server, addresses: Sequence[Sequence[str]]) -> None:
        self.server = server
        self.looked_up: list[str] = []
        self._addresses = addresses
        self.proxy: Proxy
        self.listener: socket.socket
        self.port = 0

    async def resolve(self, name: str) -> Sequence[str]:
        self.looked_up.append(name)
        return self._addresses[min(len(self.looked_up), len(self._addresses)) - 1]

    async def say(self, data: bytes, *, end: bool = False) -> bytes:
        """Send bytes to the proxy, and read until it closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data.replace(b"PORT", str(self.server.port).encode()))
            if end:
                writer.write_eof()
            return await asyncio.wait_for(reader.read(-1), 20)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def started(
    *domains: str,
    server: Server | None = None,
    addresses: Sequence[Sequence[str]] = (("127.0.0.1",),),
    strict: bool = False,
    limits: ProxyLimits = ProxyLimits(),  # noqa: B008  # frozen
) -> AsyncIterator[Range]:
    upstream = server or Server()
    listening = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    upstream.port = listening.sockets[0].getsockname()[1]
    field = Range(upstream, addresses)
    listener = field.listener = socket.create_server(("127.0.0.1", 0))
    field.port = listener.getsockname()[1]
    names = tuple(domain.replace("PORT", str(upstream.port)) for domain in domains)
    field.proxy = Proxy(
        listener,
        names,
        resolve=field.resolve,
        is_global=None if strict else lambda address: address == "127.0.0.1",
        limits=limits,
    )
    await field.proxy.start()
    try:
        yield field
    finally:
        await field.proxy.close()
        listening.close()
        await listening.wait_closed()


def connect(target: bytes) -> bytes:
    return b"CONNECT %s HTTP/1.1\r\nHost: allowed.test\r\n\r\n" % target


async def client(field: Range, *argv: str, cwd: Path | None = None) -> str:
    """Run a client that knows the proxy by its environment, as in a sandbox."""
    proxy = f"http://127.0.0.1:{field.port}"
    env = {"PATH": os.environ["PATH"], "http_proxy": proxy, "https_proxy": proxy, "HOME": str(cwd or "/nonexistent")}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "PIP_CONFIG_FILE": os.devnull}
    process = await asyncio.create_subprocess_exec(
        *argv, env=env, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    return f"{out.decode()}\nexit {process.returncode}"


async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An upstream that takes everything and says nothing."""
    await reader.read(-1)
