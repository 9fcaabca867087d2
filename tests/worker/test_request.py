"""The heads of requests and responses that pass the proxy: what is taken, what is passed on, where a body ends."""

from __future__ import annotations

import pytest

from orchestra.worker.request import MAX_HEADERS, Denied, read_chunk, read_request, read_response

ENDS = b"Connection: close\r\n\r\n"


def response(*lines: bytes, method: str = "GET") -> tuple[int, int | None, bytes]:
    read = read_response(b"\r\n".join([*lines, b"", b""]), method=method)
    return read.status, read.length, read.head


@pytest.mark.parametrize(
    ("status", "method", "fields", "length"),
    [
        (b"200 OK", "GET", (b"Content-Length: 7",), 7),
        (b"200 OK", "GET", (b"Content-Length: 7", b"content-length: 7"), 7),
        (b"200", "GET", (), None),  # until the connection ends
        (b"200 OK", "GET", (b"Transfer-Encoding: chunked",), None),
        (b"200 OK", "GET", (b"Content-Length: 7", b"Transfer-Encoding: chunked"), None),
        (b"200 OK", "HEAD", (b"Content-Length: 7",), 0),
        (b"204 No Content", "GET", (), 0),
        (b"304 Not Modified", "GET", (b"Content-Length: 7",), 0),
        (b"500 Oh", "POST", (b"Content-Length: 0",), 0),
    ],
)
def test_where_the_body_of_a_response_ends(
    status: bytes, method: str, fields: tuple[bytes, ...], length: int | None
) -> None:
    line = b"HTTP/1.1 " + status
    code, found, head = response(line, *fields, method=method)
    assert (code, found) == (int(status[:3]), length)
    assert head.startswith(line + b"\r\n") and head.endswith(ENDS)
    coded = any(b"Transfer" in field for field in fields)
    assert (b"transfer-encoding: chunked" in head) is coded
    assert (b"ontent-" in head) is (not coded and bool(fields))


@pytest.mark.parametrize("status", [100, 103, 199])
def test_an_interim_response_has_no_body_and_another_one_follows(status: int) -> None:
    line = f"HTTP/1.1 {status} Wait".encode()
    read = read_response(line + b"\r\nLink: x\r\nContent-Length: 7\r\n\r\n", method="GET")
    assert (read.interim, read.length) == (True, 0)
    assert read.head == line + b"\r\nLink: x\r\nContent-Length: 7\r\n\r\n"
    assert not read_response(b"HTTP/1.1 200 OK\r\n\r\n", method="GET").interim


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((b"HTTP/1.1 101 Upgrade",), "malformed status line"),  # nobody asked for one
        ((b"HTTP/2 200 OK",), "malformed status line"),
        ((b"HTTP/1.1 600 OK",), "malformed status line"),
        ((b"HTTP/1.1 200 OK", b"Content-Length: 7", b"Content-Length: 8"), "malformed length"),
        ((b"HTTP/1.1 200 OK", b"Content-Length: seven"), "malformed length"),
        ((b"HTTP/1.1 200 OK", b"Content-Length: -7"), "malformed length"),
        ((b"HTTP/1.1 200 OK", b" folded: x"), "malformed header"),
        ((b"HTTP/1.1 200 OK", *[b"a: b"] * (MAX_HEADERS + 1)), "too many headers"),
    ],
)
def test_a_response_that_could_be_read_in_two_ways_is_not_passed_on(lines: tuple[bytes, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        response(*lines)


def test_what_is_about_one_connection_is_not_passed_on() -> None:
    fields = (b"Keep-Alive: 5", b"X-One: 1", b"Connection: x-one, close", b"Upgrade: h2c", b"X-Two: 2")
    assert response(b"HTTP/1.1 200 OK", *fields)[2] == b"HTTP/1.1 200 OK\r\nX-Two: 2\r\n" + ENDS


def request(*lines: bytes) -> bytes:
    return read_request(b"\r\n".join([*lines, b"", b""])).head


def test_a_request_has_so_many_headers() -> None:
    line, field = b"GET http://example.org/ HTTP/1.1", b"a: b"
    assert request(line, *[field] * MAX_HEADERS).count(field) == MAX_HEADERS
    with pytest.raises(Denied) as denied:
        request(line, *[field] * (MAX_HEADERS + 1))
    assert (denied.value.status, denied.value.by_rule) == (431, True)


@pytest.mark.parametrize(
    ("method", "field", "framed"),
    [
        ("GET", b"", b""),
        ("GET", b"Content-Length: 0", b""),
        ("GET", b"Content-Length: 3", b"Content-Length: 3\r\n"),
        ("POST", b"", b"Content-Length: 0\r\n"),
        ("PATCH", b"Content-Length: 3", b"Content-Length: 3\r\n"),
        ("PUT", b"Transfer-Encoding: Chunked", b"Transfer-Encoding: chunked\r\n"),
    ],
)
def test_the_length_of_a_body_is_passed_on_in_one_form(method: str, field: bytes, framed: bytes) -> None:
    head = request(f"{method} http://example.org:8080?a=1 HTTP/1.1".encode(), *filter(None, [field]))
    assert head == f"{method} /?a=1 HTTP/1.1\r\nHost: example.org:8080\r\n".encode() + framed + ENDS


PLAIN = b"POST http://example.org/ HTTP/1.1"


@pytest.mark.parametrize(
    ("line", "fields", "status", "why"),
    [
        (PLAIN, (b"Content-Length: 3", b"Content-Length: 3"), 400, "its length is not clear"),
        (PLAIN, (b"Content-Length: 3", b"Transfer-Encoding: chunked"), 400, "its length is not clear"),
        (PLAIN, (b"Content-Length: 3x",), 400, "its length is not clear"),
        (PLAIN, (b"Transfer-Encoding: gzip",), 400, "unknown transfer coding"),
        (PLAIN[:-1] + b"0", (b"Transfer-Encoding: chunked",), 400, "unknown transfer coding"),
        (PLAIN, (b"Host: a.example", b"Host: b.example"), 400, "two Host headers"),
        (PLAIN, (b"no colon",), 400, "malformed header"),
        (b"get http://example.org/ HTTP/1.1", (), 400, "malformed request line"),
        (b"GET http://example.org/ HTTP/2", (), 400, "malformed request line"),
        (b"GET http://example.org/ a HTTP/1.1", (), 400, "malformed request line"),
        ("GET http://example.org/가 HTTP/1.1".encode(), (), 400, "only ASCII is taken"),
        (b"GET http://example.org/#part HTTP/1.1", (), 400, "it has a fragment"),
        (b"GET / HTTP/1.1", (), 400, "only CONNECT and http:// requests are taken"),
        (b"GET http://me@example.org/ HTTP/1.1", (), 400, "it has a user name"),
        (b"GET http://example.org:0/ HTTP/1.1", (), 400, "malformed port"),
        (b"GET http://127.0.0.1/ HTTP/1.1", (), 403, ""),
        (b"CONNECT example.org:443 HTTP/1.1", (b"Content-Length: 1",), 400, "CONNECT has no body"),
        (b"CONNECT example.org HTTP/1.1", (), 400, "CONNECT needs a port"),
    ],
)
def test_a_request_that_is_not_clear_or_names_no_host_is_refused(
    line: bytes, fields: tuple[bytes, ...], status: int, why: str
) -> None:
    with pytest.raises(Denied) as denied:
        request(line, *fields)
    assert (denied.value.status, why in denied.value.reason) == (status, True)


def test_a_tunnel_has_a_host_and_a_port_and_passes_nothing_on() -> None:
    read = read_request(b"CONNECT Example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n")
    assert (read.tunnel, read.host, read.port, read.head) == (True, "example.org", 443, b"")
    plain = read_request(PLAIN + b"\r\nHost: example.org\r\n\r\n")
    assert (plain.tunnel, plain.port) == (False, 80)
    assert plain.head == b"POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 0\r\n" + ENDS


@pytest.mark.parametrize(("line", "size"), [(b"0\r\n", 0), (b"1f\r\n", 31), (b"FFFFFFFF\r\n", (1 << 32) - 1)])
def test_the_size_of_a_chunk(line: bytes, size: int) -> None:
    assert read_chunk(line) == size


@pytest.mark.parametrize("line", [b"1f", b"1f\n", b"\r\n", b"1g\r\n", b"100000000\r\n", b"1;x=y\r\n", b"-1\r\n"])
def test_a_chunk_with_anything_but_its_size_is_refused(line: bytes) -> None:
    with pytest.raises(Denied, match="malformed chunk") as denied:
        read_chunk(line)
    assert denied.value.status == 400
