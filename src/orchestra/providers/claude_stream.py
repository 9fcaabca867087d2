"""The output of the `claude` CLI -> the reply: its Messages events, then its own report. No I/O.

Rules are numbered as in claude_code.py: one call is one paid request (2), and the report decides (3).
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from orchestra.providers.bounds import Bounds
from orchestra.providers.failures import meaning
from orchestra.providers.messages import Event, MessagesWire
from orchestra.providers.program import Ended
from orchestra.providers.reading import UNREADABLE, StreamedReply

_BUDGET = "error_max_budget_usd"  # the subtype of its report when the budget stopped it; no error (rule 2)
_ASKS_AGAIN = (400, 404)  # statuses after which the CLI makes a second request
_WIRE = "a line of claude's stream-json"
_NOT_LOGGED_IN = ("invalid api key", "/login", "not logged in", "authentication", "oauth token")
_LOG_IN = "Log in with `claude` (then /login), or set ANTHROPIC_API_KEY"


class _Line(Struct):
    """One line of the CLI's output: all fields of `result`, and the event of `stream_event`."""

    type: str = ""
    subtype: str = ""
    event: msgspec.Raw = msgspec.Raw()  # other lines have other values under this name
    is_error: bool = False
    result: str | None = None
    api_error_status: int | None = None
    total_cost_usd: float | None = None
    errors: list[str] | None = None


_decode = msgspec.json.Decoder(_Line).decode
_decode_event = msgspec.json.Decoder(Event).decode


class CliReader:
    """Reads the CLI's output into a reply: its Messages events, then its own report."""

    def __init__(self, bounds: Bounds, *, stops_itself: bool = True, server: str = "") -> None:
        self._messages = MessagesWire()
        self.reply = StreamedReply(bounds, self._messages)
        self.reply.where = "claude: "
        self._stops_itself = stops_itself
        self.server = server  # the server's address, for error messages
        self._rest = bytearray()  # the start of an incomplete line
        self._heard = 0
        self.enough = False  # the CLI may be ended
        self.report: _Line | None = None  # its `result` line

    def feed(self, data: bytes) -> list[str]:
        """Read the CLI's output; return the texts that it adds to the reply."""
        if self.enough:
            return []
        first, *lines = data.split(b"\n")
        self._heard += len(data)
        self._rest += first
        if lines:
            lines.insert(0, bytes(self._rest))
            self._rest = bytearray(lines.pop())
        texts = [text for line in lines if line.strip() and not self.enough and (text := self._line(line))]
        if self._heard > self.reply.bounds.wire:
            self.reply.pass_bounds(self.reply.bounds.wire_passed)
        elif len(self._rest) > self.reply.bounds.event:
            self.reply.pass_bounds(self.reply.bounds.event_passed)
        self.enough |= self.reply.too_long
        return texts

    def _line(self, line: bytes) -> str:
        try:
            said = _decode(line)
            event = _decode_event(said.event) if said.type == "stream_event" else None
        except UNREADABLE:
            self.reply.garbage(_WIRE, line.decode("utf-8", "replace"))
            self.enough = True
            return ""
        if said.type == "result":
            self.report = said
            self._judge_report(said)
            self.enough = True
        elif said.type == "system" and said.subtype.startswith("model_refusal"):
            self.reply.fail("BAD_REQUEST", "the model refused to answer", retriable=False)
        elif event is not None and self.reply.done:
            self.enough = event.type == "message_start"  # rule 2
        elif event is not None:
            text = self._messages.take(self.reply, event)
            # Rule 2: after a whole reply the report follows; after any other, perhaps another request.
            whole = self.reply.finish == "stop" and self.reply.size
            self.enough = not self._stops_itself and self.reply.finish is not None and not whole
            self.reply.done |= self.enough
            return text
        return ""

    def _judge_report(self, said: _Line) -> None:
        if said.total_cost_usd is not None:
            self.reply.cost = said.total_cost_usd
        if not said.is_error or said.subtype == _BUDGET:
            return
        self.reply.requests = 2 if said.api_error_status in _ASKS_AGAIN else 1  # rule 2
        message = said.result or "; ".join(said.errors or []) or "no reason given"
        if said.api_error_status:
            code, retriable = meaning(said.api_error_status)
            cure = f". {_LOG_IN}" if code == "AUTH" else ""
            what = f"claude: status {said.api_error_status}: {message}{cure}{self.server}"
            self.reply.fail(code, what, retriable=retriable)
        elif any(words in message.lower() for words in _NOT_LOGGED_IN):
            self.reply.fail("AUTH", f"claude: {message}. {_LOG_IN}", retriable=False)
        elif "timed out" in message.lower():
            self.reply.fail("TIMEOUT", f"claude: {message}", retriable=True)
        else:
            self.reply.fail("UNKNOWN", f"claude: {message}{self.server}", retriable=True)


def judge(reader: CliReader, ended: Ended) -> None:
    """Set the failure of a CLI that ended without a report."""
    reply, report = reader.reply, reader.report
    if reply.done:
        return
    if report is not None and report.result and not reply.size:
        reply.requests = 2  # rule 2: the first was for a stream
        reply.fail("UNKNOWN", f"claude got a reply that its server did not stream{reader.server}", retriable=False)
    elif report is not None:  # it was ended after its report: its exit code means nothing
        said = ": ".join(filter(None, (report.subtype, "; ".join(report.errors or []))))
        reply.fail("UNKNOWN", f"claude ended without a whole reply ({said or 'no reason given'})", retriable=True)
    elif ended.problem:
        reply.fail("UNKNOWN", f"claude could not be run: {ended.problem}", retriable=False)
    else:
        last = ended.stderr.strip().splitlines()[-1:] or ["no reason given"]
        what = f"claude ended with exit code {ended.exit_code} before the reply was complete"
        reply.fail("UNKNOWN", f"{what}: {last[0]}", retriable=True)
