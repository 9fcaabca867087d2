"""The domain proxy: the only way out of a sandbox, for the names in `allow_domains` (S2-78, S2-79, MS-5).

It accepts on a socket that listens inside the sandbox's empty network; the connections out are made here, outside.

Rules
1. A request is checked before its name is looked up: the look-up of a denied name would already carry data out.
2. A name is looked up once. If any of its addresses is not public, it is refused; else one of them is dialled, so
   a second answer (rebinding) changes nothing. Addresses of this machine never count as public.
3. One request for each connection. What a client sends after it is discarded.
4. Everything is bounded: connections, the head's size and time, idle time, the list of refusals.
5. A refused request is answered with the reason and recorded, each kind once with a count.

TLS is not inspected: an allowed host that serves other names at the same address (domain fronting) is a way to
these names. There is no SOCKS, no UDP, no way to give an address instead of a name.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from orchestra.core.domains import parse_entry
from orchestra.worker.addresses import is_global as is_public
from orchestra.worker.connection import Idle, Side, both, connected, copy
from orchestra.worker.request import Denied, Request, read_chunk, read_request, read_response
from orchestra.worker.task import Denial

Resolve = Callable[[str], Awaitable[Sequence[str]]]

_ADDRESSES = 4  # of a name, tried one after the other
_PHRASES = {400: "Bad Request", 403: "Forbidden", 408: "Request Timeout", 431: "Request Header Fields Too Large"}
_PHRASES |= {502: "Bad Gateway", 504: "Gateway Timeout"}


class ProxyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one sandbox's proxy."""

    connections: int = 64  # at once; more wait in the socket's queue
    head_bytes: int = 32 * 1024
    head_seconds: float = 10.0
    connect_seconds: float = 10.0  # also for a look-up
    idle_seconds: float = 120.0
    denials: int = 100  # kinds of refusal that are recorded by name


LIMITS = ProxyLimits()


class Proxy:
    """Serves one listening socket until `close`. The proxy owns the socket."""

    def __init__(
        self,
        listener: socket.socket,
        domains: tuple[str, ...],
        *,
        resolve: Resolve | None = None,
        is_global: Callable[[str], bool] | None = None,
        limits: ProxyLimits = LIMITS,
    ) -> None:
        """`is_global` is for tests with servers on loopback."""
        self._listener = listener
        self._entries = tuple(map(parse_entry, domains))
        # Its own threads: slow look-ups of a hostile command must not delay those of other commands.
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="proxy-resolve") if resolve is None else None
        self._resolve = resolve or self._look_up
        self._is_global = is_global or _is_elsewhere
        self._limits = limits
        self._denials: dict[tuple[str, int, str], int] = {}
        self._slots = asyncio.Semaphore(limits.connections)
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None

    @property
    def denials(self) -> tuple[Denial, ...]:
        """The refusals so far, each kind once."""
        return tuple(Denial(host, port, reason, times) for (host, port, reason), times in self._denials.items())

    async def start(self) -> None:
        """Begin to accept."""
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())

    async def close(self) -> None:
        """End every connection at once; after this nothing goes in or out."""
        tasks = [*self._tasks, *([self._accepting] if self._accepting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                conn, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                self._slots.release()
                if error.errno in (errno.EBADF, errno.EINVAL):
                    return  # the socket was closed
                await asyncio.sleep(0.1)  # out of descriptors, or the client has already disconnected
                continue
            task = asyncio.create_task(self._serve(conn))
            self._tasks.add(task)
            task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()

    async def _serve(self, conn: socket.socket) -> None:
        async with Side(conn) as client:
            try:
                await self._one_request(client)
            except Denied as denied:
                if denied.by_rule:
                    self._record(denied)
                if client.said:
                    return  # an answer was begun: closing it early is the only way to report the error
                client.write(_answer(denied))
            except (OSError, EOFError, TimeoutError):
                return  # one side disconnected or was idle for too long: no answer is possible
            await client.farewell()

    async def _one_request(self, client: Side) -> None:
        request = read_request(await self._head(client))
        if not any(entry.covers(request.host, request.port) for entry in self._entries):
            raise Denied(403, "not in allow_domains", host=request.host, port=request.port)
        async with Side(await self._dial(request)) as server:
            async with asyncio.timeout(self._limits.idle_seconds) as timer:
                client.timer = server.timer = Idle(timer, self._limits.idle_seconds)
                await (self._tunnel if request.tunnel else self._forward)(request, client, server)

    async def _head(self, client: Side) -> bytes:
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                head = await client.reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise Denied(408, "the request took too long") from None
        except asyncio.LimitOverrunError:
            head = b""
        if not head or len(head) > self._limits.head_bytes:
            raise Denied(431, "the request's head is too large")
        return head

    async def _dial(self, request: Request) -> socket.socket:
        """Connect to an address that was checked (rule 2)."""
        host, port = request.host, request.port
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                addresses = await self._resolve(host)
        except (OSError, TimeoutError, UnicodeError):
            addresses = ()
        if not addresses:
            raise Denied(502, "the name cannot be resolved", host=host, port=port)
        for address in addresses:
            if not self._is_global(address):
                raise Denied(403, f"it resolves to {address[:64]}, which is not public", host=host, port=port)
        for address in addresses[:_ADDRESSES]:
            if sock := await connected(_family(address), address, port, within=self._limits.connect_seconds):
                return sock
        raise Denied(502, "the host does not answer", host=host, port=port)

    async def _look_up(self, host: str) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _addresses, host)
        return tuple(dict.fromkeys(found))

    async def _tunnel(self, request: Request, client: Side, server: Side) -> None:
        client.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await both(copy(client, server), copy(server, client))

    async def _forward(self, request: Request, client: Side, server: Side) -> None:
        server.write(request.head)
        sending = asyncio.create_task(_send_body(request, client, server))
        answering = asyncio.create_task(self._respond(request, client, server))
        try:
            # A server may answer before it has the whole body; then the rest of the body is discarded.
            await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
            # A server may also stop reading; only a fault of the client ends the request.
            if sending.done() and isinstance(error := sending.exception(), Denied | EOFError):
                raise error
            await answering
        finally:
            for task in (sending, answering):
                task.cancel()
            await asyncio.gather(sending, answering, return_exceptions=True)

    async def _respond(self, request: Request, client: Side, server: Side) -> None:
        broken = Denied(502, "the host's answer is no HTTP", host=request.host, port=request.port)
        while True:
            try:
                response = read_response(await server.until(b"\r\n\r\n"), method=request.method)
            except (ValueError, EOFError, asyncio.LimitOverrunError):
                raise broken from None
            client.write(response.head)
            if not response.interim:
                await copy(server, client, length=response.length)
                await client.flush()
                return

    def _record(self, denied: Denied) -> None:
        host = "".join(char if "!" <= char <= "~" else "?" for char in denied.host)[:253]
        key = (host, denied.port, denied.reason)
        if key not in self._denials and len(self._denials) >= self._limits.denials:
            key = ("", 0, "other refused connections")
        self._denials[key] = self._denials.get(key, 0) + 1


async def _send_body(request: Request, client: Side, server: Side) -> None:
    if request.length is not None:
        await copy(client, server, length=request.length)
        return
    while size := await _chunk_size(client):
        server.write(b"%x\r\n" % size)
        await copy(client, server, length=size)
        if await client.exactly(2) != b"\r\n":
            raise Denied(400, "malformed chunk")
        server.write(b"\r\n")
    if await client.exactly(2) != b"\r\n":
        raise Denied(400, "malformed chunk: trailers are not taken")
    server.write(b"0\r\n\r\n")
    await server.drain()


async def _chunk_size(client: Side) -> int:
    try:
        return read_chunk(await client.until(b"\r\n"))
    except asyncio.LimitOverrunError:
        raise Denied(400, "malformed chunk") from None


def _answer(denied: Denied) -> bytes:
    where = f"{denied.host}:{denied.port}: " if denied.host and denied.port else ""
    body = f"orchestra: {where}{denied.reason}\n".encode("ascii", "backslashreplace")
    head = f"HTTP/1.1 {denied.status} {_PHRASES[denied.status]}\r\nContent-Type: text/plain\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def _addresses(host: str) -> list[str]:
    """Resolve with the system's resolver. The final dot prevents a search below this machine's search domains."""
    found = socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM)
    return [str(where[0]) for *_, where in found]


def _is_elsewhere(address: str) -> bool:
    """Whether an address is public and not of this machine; only this machine's addresses can be bound."""
    if not is_public(address):
        return False
    with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return True
    return False


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
