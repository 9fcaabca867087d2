"""HTTP: one request to a model's server; its events are read into a reply as they arrive. All HTTP providers use it.

Rules
1. One POST per call and no retry: retries are durable steps (core/context.py). No connection is used twice: on a stale
   one it cannot be known whether a request was received and paid for (MM-1.1).
2. Four timeouts: connecting, the first byte, silence, and the call's own limit. Silence is the time without output of
   the model; keep-alives do not end it (reading.py, rule 3).
3. An error message names the request, the server and the remedy. The key is masked wherever it might be echoed, before
   any text is cut, because a cut key would not be recognised.
4. `HTTP(S)_PROXY` and `NO_PROXY` are honoured, but never for an address of this machine.
5. An error status counts even if its body does not arrive.
6. A server cannot make us hold more than a reply's bounds (bounds.py): the request asks for no compression; a
   compressed body is unpacked in pieces and counted unpacked; a body that is compressed twice is not unpacked.
"""

from __future__ import annotations

import asyncio
import codecs
import email.utils
import functools
import io
import ipaddress
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import msgspec
from msgspec import Struct, UnsetType

from orchestra.core.model import OnToken, ProviderRequest, ProviderResponse
from orchestra.core.redact import MASK
from orchestra.providers.bounds import Bounds, TooLong
from orchestra.providers.failures import Meaning, meaning
from orchestra.providers.patience import Limits, Patience
from orchestra.providers.reading import UNREADABLE, StreamedReply

_BODY = 16_384  # bytes of an error's body that are read
_BODY_S = 3.0  # time limit for reading them
_LIST_BYTES = 4 << 20
_YEAR = 366 * 86_400.0
_LIST_S = 10.0
_PROXY = "Check the proxy (HTTP_PROXY, HTTPS_PROXY)"


class Endpoint(Struct, frozen=True, kw_only=True):
    """A server: its address, its key, its timeouts."""

    base_url: str
    headers: Mapping[str, str]
    secret: str = ""  # the key in the headers, to be masked in the server's messages
    key_from: str = ""  # where the key was configured, for error messages
    url_from: str = ""  # where the address was configured
    trace_header: str = ""
    idempotent: bool = False  # the server accepts an idempotency key
    connect_sec: float = 10.0
    limits: Limits = Limits()


class _Listed(Struct):
    id: str


class _Listing(Struct):
    data: list[_Listed] = []


class Http:
    """Makes requests to one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    @functools.cached_property
    def _client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=self.endpoint.connect_sec),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=not is_here(self.endpoint.base_url),
        )

    def url(self, path: str) -> str:
        return self.endpoint.base_url.rstrip("/") + path

    async def converse(
        self, path: str, body: Any, reply: StreamedReply, request: ProviderRequest, on_token: OnToken
    ) -> ProviderResponse:
        """Make one request and read the reply to its end; every failure is in the response."""
        began = time.monotonic()
        reply.mask = self._masked
        seconds, streams = request.constraints.timeoutMs / 1000, request.constraints.stream is not False
        # A reply that comes as a whole has no first byte and no silence: only the call's own limit counts.
        url, patience = self.url(path), Patience(seconds, self.endpoint.limits if streams else Limits(seconds, seconds))
        reply.where = f"POST {url}: "
        accepted = "text/event-stream" if streams else "application/json"
        headers = {"accept": accepted, "content-type": "application/json", **self._headers(request.runId)}
        if self.endpoint.idempotent and not isinstance(request.callId, UnsetType):
            headers["idempotency-key"] = request.callId
        try:
            content = msgspec.json.encode(body)
            async with (
                patience,
                self._client.stream("POST", url, content=content, headers=headers) as response,
            ):
                if not streams and _is_document(response):
                    await _read_whole(response, reply, on_token)
                else:
                    await self._read(response, reply, patience, on_token)
        except TimeoutError:
            reply.fail("TIMEOUT", f"POST {url}: {patience.why}", retriable=True)
        except TooLong as passed:
            reply.pass_bounds(str(passed))
        except httpx2.SSEError:
            reply.pass_bounds(reply.bounds.event_passed)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            self._broken(url, reply, error)
        except UnicodeEncodeError as error:
            reply.fail("BAD_REQUEST", f"the prompt is not valid Unicode: {error}", retriable=False)
        except (ImportError, ValueError) as error:  # httpx2 raises these for proxies it does not support
            reply.fail("UNKNOWN", f"{error}. Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY", retriable=False)
        return reply.response(time.monotonic() - began)

    async def models(self, path: str, run: str = "") -> list[str]:
        """The names of the server's models; raises OSError with the reason if the server does not list them."""
        url = self.url(path)
        try:
            async with (
                asyncio.timeout(_LIST_S),
                self._client.stream("GET", url, headers=self._headers(run)) as answer,
            ):
                body = await _some(answer, _LIST_BYTES)
            if answer.status_code == 200:
                return [model.id for model in msgspec.json.decode(body, type=_Listing).data]
            why = f"GET {url} answered {answer.status_code}: {_said(self._masked_body(body))}. "
            why += self._cure(answer.status_code)
        except TimeoutError:
            why = f"GET {url}: no answer within {_LIST_S:g} s. {self._cure()}"
        except UNREADABLE:
            why = f"GET {url} answered with something else than a list of models. {self._cure()}"
        except (httpx2.HTTPError, httpx2.InvalidURL, ImportError, ValueError) as error:
            cure = _PROXY if isinstance(error, httpx2.ProxyError) else self._cure()
            why = f"cannot reach {url}: {_reason(error)}. {cure}"
        raise OSError(self._masked(why))

    def _headers(self, run: str) -> dict[str, str]:
        """The headers of every request: user agent and, for a run, its trace id (S2-87); a POST adds its own."""
        # a header is ASCII, and the id of a run may have Hangul
        trace = {self.endpoint.trace_header: quote(run)} if self.endpoint.trace_header and run else {}
        return {"accept-encoding": "identity", **self.endpoint.headers, **trace}

    async def _read(
        self, response: httpx2.Response, reply: StreamedReply, patience: Patience, on_token: OnToken
    ) -> None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code != 200 or kind != "text/event-stream":
            body = b""
            try:
                async with asyncio.timeout(_BODY_S):
                    body = await _some(response, _BODY)
            except (TimeoutError, httpx2.HTTPError):
                pass  # rule 5
            self._refused(response, kind, body, reply)
            return
        if packed := _packed_twice(response):
            what = f"POST {response.url} answered with a reply packed as {packed}, though it was asked not to pack it"
            reply.fail("UNKNOWN", f"{what}. {self._cure()}", retriable=False)
            return
        hear = reply.wire.hear
        lines = SseLines(response, reply.bounds)
        async for event in httpx2.EventSource(lines, max_event_size=reply.bounds.event):  # type: ignore[arg-type]  # it has all that is used
            if not event.data:
                continue  # an event with only an id or a reconnect time: no data
            text = hear(reply, event.event, event.data)
            if text:
                on_token(text)
            if reply.done:
                return
            patience.heard(reply.news)

    def _refused(self, response: httpx2.Response, kind: str, body: bytes, reply: StreamedReply) -> None:
        status, headers, said = response.status_code, response.headers, _said(self._masked_body(body))
        if status == 200:
            what = f"POST {response.url} answered with {kind or 'no type'} instead of a stream of events: {said}"
            reply.fail("UNKNOWN", f"{what}. {self._cure()}", retriable=False)
            return
        code, retriable = meaning(status)
        if b"insufficient_quota" in body or headers.get("x-should-retry") == "false":
            retriable = False
        message = f"POST {response.url} answered {status}: {said}"
        if code == "AUTH" or status in (404, 405) or 300 <= status < 400:
            message += f". {self._cure(status)}"
        reply.fail(code, message, retriable=retriable, wait=_retry_after(headers))

    def _broken(self, url: str, reply: StreamedReply, error: Exception) -> None:
        reason = self._masked(_reason(error))
        if isinstance(error, httpx2.ConnectTimeout):
            what = f"no connection to {url} within {self.endpoint.connect_sec:g} s"
            reply.fail("TIMEOUT", f"{what}. {self._cure()}", retriable=True)
        elif isinstance(error, httpx2.ProxyError):
            code, retriable = _refused_tunnel(reason)
            reply.fail(code, f"cannot reach {url}: {reason}. {_PROXY}", retriable=retriable)
        elif isinstance(error, httpx2.ConnectError):
            reply.fail("UNKNOWN", f"cannot reach {url}: {reason}. {self._cure()}", retriable=True)
        elif isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
            reply.fail("UNKNOWN", f"{url} is no address: {reason}. {self._cure()}", retriable=False)
        else:
            what = f"the line broke after {len(reply.text)} characters: {reason}"
            reply.fail("UNKNOWN", f"POST {url}: {what}", retriable=True)

    def _cure(self, status: int = 0) -> str:
        if status == 407:
            return _PROXY
        if status in (401, 402, 403):
            return f"Check the key ({self.endpoint.key_from or 'none was sent'})"
        where = f" ({self.endpoint.url_from})" if self.endpoint.url_from else ""
        if status in (404, 405):
            return f"Check the address{where} and the model's name"
        return f"Is the server running, and is the address right{where}?"

    def _masked(self, text: str) -> str:
        return text.replace(self.endpoint.secret, MASK) if self.endpoint.secret else text

    def _masked_body(self, body: bytes) -> bytes:
        """The body with the key masked (rule 3), also if the body ends in the middle of the key."""
        secret = self.endpoint.secret.encode()
        if not secret:
            return body
        whole = body.replace(secret, MASK.encode())
        return whole if len(body) < _BODY else whole[: -len(secret)]


def _is_document(response: httpx2.Response) -> bool:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return response.status_code == 200 and kind == "application/json" and not _packed_twice(response)


async def _read_whole(response: httpx2.Response, reply: StreamedReply, on_token: OnToken) -> None:
    """Read a reply that comes as one document, within its bounds (rule 6)."""
    body = bytearray()
    async for data in response.aiter_bytes():
        body += data
        if len(body) > reply.bounds.event:
            raise TooLong(reply.bounds.event_passed)
    text = reply.wire.whole(reply, body.decode("utf-8", "replace"))
    if text:
        on_token(text)


class SseLines:
    """A response in the form that httpx2's SSE reader needs: text, in lines, within its bounds (rule 6).

    It is read as UTF-8 (SSE always is), whatever its header names: some of Python's charsets decompress. An
    incomplete line is kept here in one piece: the SSE reader would keep all its parts separately.
    """

    def __init__(self, response: httpx2.Response, bounds: Bounds) -> None:
        self._response = response
        self._bounds = bounds
        self.headers, self.request = response.headers, response.request

    async def aiter_text(self) -> AsyncIterator[str]:
        decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode  # drops a byte order mark
        heard = size = 0
        held = io.StringIO()
        async for data in self._response.aiter_bytes():
            heard += len(data)
            if heard > self._bounds.wire:
                raise TooLong(self._bounds.wire_passed)
            text = decode(data)
            if "\n" in text or "\r" in text:
                yield held.getvalue() + text if size else text
                if size:
                    held, size = io.StringIO(), 0
            else:
                held.write(text)
                size += len(data)
                if size > self._bounds.event:
                    raise TooLong(self._bounds.event_passed)
        yield held.getvalue() + decode(b"", True)


async def _some(response: httpx2.Response, most: int) -> bytes:
    """The first bytes of the body, at most `most`; none of a body that is compressed twice."""
    body = bytearray()
    if _packed_twice(response):
        return b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) >= most:
            break
    return bytes(body[:most])


def _packed_twice(response: httpx2.Response) -> str:
    """The content encodings of a body, if there is more than one: each multiplies its size (rule 6)."""
    packed = [name.strip() for name in response.headers.get("content-encoding", "").lower().split(",")]
    return ", ".join(packed) if len([name for name in packed if name not in ("", "identity")]) > 1 else ""


def is_here(url: str) -> bool:
    """Whether the URL's host is this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refused_tunnel(reason: str) -> Meaning:
    """The error code for a proxy that refuses the tunnel: httpx2's message begins with the proxy's status."""
    status = reason.partition(" ")[0]
    return meaning(int(status)) if status.isdecimal() else ("UNKNOWN", True)


def _retry_after(headers: Mapping[str, str]) -> float:
    """The seconds to wait before a retry, from the response's headers; 0 if there are none."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            return min(max(0.0, float(value) * unit), _YEAR)
        except ValueError:
            try:
                moment = email.utils.parsedate_tz(value)
                if moment:
                    return min(max(0.0, email.utils.mktime_tz(moment) - time.time()), _YEAR)
            except (ValueError, OverflowError, TypeError):
                continue  # not a valid date
    return 0.0


def _said(body: bytes) -> str:
    """The error message in a body, in any of the known shapes."""
    text = body.decode("utf-8", "replace").strip()
    try:
        found = msgspec.json.decode(body)
    except UNREADABLE:
        return _short(text) or "nothing more"
    for name in ("error", "detail", "message"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    if isinstance(found, dict):
        found = {name: value for name, value in found.items() if value is not None}
    return _short(found if isinstance(found, str) else msgspec.json.encode(found).decode())


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 500 else f"{line[:500]}…"


def _reason(error: BaseException) -> str:
    """The message of an exception, or of its cause."""
    seen: BaseException | None = error
    while seen is not None:
        if str(seen):
            return f"{seen}"
        seen = seen.__cause__ or seen.__context__
    return type(error).__name__
