"""The domain proxy: what goes through it, and what it bounds. Everything here stays on loopback."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestra.core.domains import parse_entry
from orchestra.worker.proxy import ProxyLimits
from orchestra.worker.request import Denied, read_chunk, read_request
from orchestra.worker.task import Denial
from tests.worker.proxies import ENTRIES, GET, Server, client, connect, started, swallow

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
            assert field.server.connections == 1

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
        async with started(*ENTRIES, server=Server(answer=swallow)) as field:
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
        async with started(*ENTRIES, server=Server(answer=swallow)) as field:
            head = b"POST http://allowed.test:PORT/ HTTP/1.1\r\nContent-Length: 100\r\n\r\n"
            assert await field.say(head + b"12345", end=True) == b""

    asyncio.run(run())


def test_a_redirect_leads_nowhere_new() -> None:
    """The answer itself passes; following it is another request, and that one is refused."""

    async def run() -> None:
        reply = b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n"
        async with started(*ENTRIES, server=Server(reply)) as field:
            got = await client(field, "curl", "-sSL", f"http://allowed.test:{field.server.port}/")
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

    asyncio.run(run())


# -- limits -----------------------------------------------------------------------------------------------------------


def test_a_slow_head_and_an_idle_tunnel_are_ended() -> None:
    async def run() -> None:
        limits = ProxyLimits(head_seconds=0.2, idle_seconds=0.2)
        async with started(*ENTRIES, server=Server(answer=swallow), limits=limits) as field:
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
        async with started(*ENTRIES, server=Server(answer=swallow)) as field:
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
        async with started(*ENTRIES, server=Server(answer=echo), limits=ProxyLimits(idle_seconds=2.0)) as field:
            reader, writer = await asyncio.open_connection("127.0.0.1", field.port)
            writer.write(connect(b"allowed.test:%d" % field.server.port))
            await reader.readuntil(b"\r\n\r\n")
            for _ in range(9):  # in all it takes longer than that
                await asyncio.sleep(0.25)
                writer.write(b"x")
                assert await reader.readexactly(1) == b"x"
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("host", [b"a.test..", b"a..test", b".a.test", b"."])
def test_a_name_has_one_dot_at_its_end_at_most(host: bytes) -> None:
    assert read_request(b"CONNECT A.test.:443 HTTP/1.1\r\n\r\n").host == "a.test"
    with pytest.raises(Denied) as denied:
        read_request(b"CONNECT %s:443 HTTP/1.1\r\n\r\n" % host)
    assert denied.value.status == 403


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
@example([b"GET http://a.test", b"..", b" HTTP/1.1"])
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
