"""Ways past the domain proxy: each is refused, most of them before any name is looked up."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from tests.worker.proxies import ENTRIES, GET, connect, started

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
