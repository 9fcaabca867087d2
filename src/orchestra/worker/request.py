"""HTTP/1 for the proxy: one strict grammar for reading; heads are written anew, not copied (MS-5.2).

Rules
1. A head that two programs could read differently is refused, never repaired: bare CR or LF, folded lines, blanks
   before a colon, two lengths, a length and chunks, chunk extensions, anything but ASCII in the request line.
2. A head that is sent on is built from the parsed values: request line, Host, framing. Headers that belong to
   one hop, and those that `Connection` names, are dropped.
3. One request and one response for each connection: both sides get `Connection: close`.

Pure.
"""

from __future__ import annotations

import re

import msgspec

from orchestra.core.domains import host_name, is_port, wrong_name

MAX_HEADERS = 128
_TARGET = re.compile(rb"[\x21-\x7e]+")
_METHOD = re.compile(rb"[A-Z][A-Z-]{0,19}")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?)[ \t]*")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_CHUNK = re.compile(rb"[0-9A-Fa-f]{1,8}")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\x00-\x08\x0a-\x1f\x7f]*)?")
_HOP = {b"connection", b"proxy-connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"}
_HOP |= {
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"http2-settings",
    b"close",
}  # our own `Connection` names it


class Denied(Exception):
    """A request that is refused or failed: the answer to the client, and the reason that is recorded."""

    def __init__(self, status: int, reason: str, *, host: str = "", port: int = 0) -> None:
        super().__init__(reason)
        self.status, self.reason, self.host, self.port = status, reason, host, port

    @property
    def by_rule(self) -> bool:
        """Whether the request was refused by a rule, rather than failed (timeout, error, no answer)."""
        return self.status in (400, 403, 431)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request. `head` is sent to the server; a tunnel (CONNECT) sends none."""

    method: str
    host: str
    port: int
    head: bytes = b""
    length: int | None = 0  # of the body; None: in chunks

    @property
    def tunnel(self) -> bool:
        return self.method == "CONNECT"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a response. `length` is the body's; None: until the connection ends."""

    status: int
    head: bytes
    length: int | None

    @property
    def interim(self) -> bool:
        return self.status < 200


def read_request(data: bytes) -> Request:
    """Parse a request's head, blank line included. `Denied` if it breaks the grammar or has no plain host name."""
    lines = data[:-4].split(b"\r\n")  # a bare CR or LF, or a NUL, fits into no part of the grammar below
    words = lines[0].split(b" ")
    if len(words) != 3 or not _METHOD.fullmatch(words[0]) or words[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise Denied(400, "malformed request line")
    if not _TARGET.fullmatch(words[1]):
        raise Denied(400, "malformed request line: only ASCII is taken")
    method, target, version = (word.decode("ascii") for word in words)
    fields = _fields(lines[1:])
    length = _length(fields, version)
    if method == "CONNECT":
        if length != 0:
            raise Denied(400, "CONNECT has no body")
        host, port = _authority(target, None)
        return Request(method=method, host=host, port=port)
    if target[:7].lower() != "http://":
        raise Denied(400, "only CONNECT and http:// requests are taken")
    split = re.match(r"([^/?#]*)([^#]*)", target[7:])
    assert split is not None  # both parts may be empty
    if "#" in target:
        raise Denied(400, "malformed request line: it has a fragment")
    host, port = _authority(split[1], 80)
    path = split[2] if split[2].startswith("/") else f"/{split[2]}"
    shown = host if port == 80 else f"{host}:{port}"
    out = [f"{method} {path} {version}".encode(), f"Host: {shown}".encode(), *_kept(fields, b"host", b"content-length")]
    return Request(method=method, host=host, port=port, head=_joined([*out, *_framing(method, length)]), length=length)


def read_response(data: bytes, *, method: str) -> Response:
    """Parse the head of the response to a request of this method; ValueError if it breaks the grammar."""
    lines = data[:-4].split(b"\r\n")
    status = _STATUS.fullmatch(lines[0])
    try:
        fields = _fields(lines[1:])
    except Denied as denied:
        raise ValueError(denied.reason) from None
    if status is None or int(status[1]) == 101:  # no upgrade was asked for
        raise ValueError("malformed status line")
    code = int(status[1])
    lengths = {value for name, value in fields if name.lower() == b"content-length"}
    coded = [b"transfer-encoding: " + value for name, value in fields if name.lower() == b"transfer-encoding"]
    if len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
        raise ValueError("malformed length")
    body = int(lengths.pop()) if lengths and not coded else None
    if method == "HEAD" or code in (204, 304) or code < 200:
        body = 0
    kept = _kept(fields, *([b"content-length"] if coded else []))
    if code < 200:
        return Response(status=code, head=b"\r\n".join([lines[0], *kept, b"", b""]), length=0)
    return Response(status=code, head=_joined([lines[0], *kept, *coded]), length=body)


def read_chunk(line: bytes) -> int:
    """The size of a chunk, from its line."""
    if not _CHUNK.fullmatch(line.removesuffix(b"\r\n")) or not line.endswith(b"\r\n"):
        raise Denied(400, "malformed chunk")
    return int(line[:-2], 16)


def _fields(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    if len(lines) > MAX_HEADERS:
        raise Denied(431, "too many headers")
    fields = []
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise Denied(400, "malformed header")
        fields.append((field[1], field[2]))
    return fields


def _length(fields: list[tuple[bytes, bytes]], version: str) -> int | None:
    named = [(name.lower(), value) for name, value in fields]
    lengths = [value for name, value in named if name == b"content-length"]
    codings = [value.lower() for name, value in named if name == b"transfer-encoding"]
    if sum(name == b"host" for name, _ in named) > 1:
        raise Denied(400, "malformed request: two Host headers")
    if len(lengths) + len(codings) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
        raise Denied(400, "malformed request: its length is not clear")
    if codings:
        if codings != [b"chunked"] or version != "HTTP/1.1":
            raise Denied(400, "malformed request: unknown transfer coding")
        return None
    return int(lengths[0]) if lengths else 0


def _framing(method: str, length: int | None) -> list[bytes]:
    if length is None:
        return [b"Transfer-Encoding: chunked"]
    return [b"Content-Length: %d" % length] if length or method in ("POST", "PUT", "PATCH") else []


def _authority(text: str, default: int | None) -> tuple[str, int]:
    """Host and port. A name that is not a plain host name is refused here, before it is compared or resolved."""
    name, colon, port = text.rpartition(":") if re.search(r":[0-9]*$", text) else (text, "", "")
    number = int(port) if is_port(port) else 0
    host = host_name(name)
    if "@" in text:
        raise Denied(400, "malformed host: it has a user name", host=text.rsplit("@", 1)[1], port=number)
    if why := wrong_name(name):
        raise Denied(403, why, host=name, port=number)
    if colon and not number:
        raise Denied(400, "malformed port", host=host)
    if not colon and default is None:
        raise Denied(400, "CONNECT needs a port", host=host)
    return host, number or default or 0


def _kept(fields: list[tuple[bytes, bytes]], *also: bytes) -> list[bytes]:
    named = [
        token.strip().lower() for name, value in fields if name.lower() == b"connection" for token in value.split(b",")
    ]
    gone = {*_HOP, *also, *named}
    return [name + b": " + value for name, value in fields if name.lower() not in gone]


def _joined(lines: list[bytes]) -> bytes:
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])
