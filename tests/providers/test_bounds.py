"""A server, a script or a program cannot make orchestra hold or write more than a reply may be."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from orchestra.core.context import Context
from orchestra.core.errors import StepFailed
from orchestra.core.faces import News, Token
from orchestra.core.files import MIB
from orchestra.core.model import (
    Constraints,
    Gathered,
    OnToken,
    Prompt,
    ProviderCapabilities,
    ProviderRequest,
    ProviderResponse,
)
from orchestra.core.work import ModelCall
from orchestra.providers.bounds import MOST_TEXT, Bounds, TooLong, bounds, cut
from orchestra.providers.budget import Budget
from orchestra.providers.calling import Caller
from orchestra.providers.claude_stream import CliReader
from orchestra.providers.contract import Route
from orchestra.providers.http import SseLines
from orchestra.providers.openai_compat import ChatWire
from orchestra.providers.reading import StreamedReply
from orchestra.providers.showing import Showing
from tests.support.core import open_ledger
from tests.support.memory import measured
from tests.support.models import KEY, Line, failure, request
from tests.support.modelserver import Fail, Flood, ModelServer
from tests.support.project import PLAN, PROGRAM, Project, role

MOST_RSS = 300 * MIB  # of which Python and its libraries are some 40
BIG = "가나다라마바사아 abcdefgh " * 200


class Ran(NamedTuple):
    """How a program ended, what it said, and what it took."""

    code: int
    said: str
    peak: int  # bytes resident
    written: int  # bytes in the project


def loop(folder: Path, *more: str, env: dict[str, str] | None = None) -> Ran:
    """A real loop in a folder."""
    done = measured([PROGRAM, "loop", "목표", "--check", "true", "--no-input", *more], folder, env)
    files = {path.stat().st_ino: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return Ran(*done, written=sum(files.values()))


def asked(folder: Path, url: str, kind: str, tokens: int) -> Ran:
    """A loop whose planner is a server."""
    folder.mkdir()
    limit = f", max_output_tokens: {tokens}" if tokens else ""
    (folder / "orchestra.config.yaml").write_text(f"providers: {{default: {{kind: {kind}, model: m{limit}}}}}\n")
    return loop(folder, env={"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY})


@pytest.mark.parametrize(
    ("flood", "tokens", "words", "most"),
    [
        (Flood("text", piece=BIG), 0, "the reply grew past 4 MiB, which is more than orchestra takes", 5),
        (Flood("text"), 4096, "the reply grew past 512 KiB, which a reply of at most 4096 tokens cannot be", 1),
        (Flood("thoughts"), 4096, "the reply grew past 512 KiB", 1),
        (Flood("tools", piece=BIG), 4096, "the server sent more than 16 MiB", 1),
        (Flood("comments", piece=BIG), 4096, "the server sent more than 16 MiB", 1),
        (Flood("event"), 0, "one event of the reply grew past 16 MiB", 1),
        (Flood("events"), 0, "one event of the reply grew past 16 MiB", 1),
        (Flood("text", 1024 * MIB, piece="a" * 4000, coding="gzip"), 0, "the reply grew past 4 MiB", 5),
        (Flood("event", 1024 * MIB, piece="a" * 4000, coding="gzip"), 0, "one event of the reply grew past 16 MiB", 1),
        (Flood("comments", 1024 * MIB, coding="gzip, gzip"), 0, "a reply packed as gzip, gzip", 1),
        (Flood("text", piece=BIG, charset="zlib_codec"), 4096, "the reply grew past 512 KiB", 1),
    ],
)
def test_a_reply_without_end_is_ended(tmp_path: Path, flood: Flood, tokens: int, words: str, most: int) -> None:
    kind = "anthropic" if flood.what in ("thoughts", "tools") else "openai_compat"
    with ModelServer(default=flood) as server:
        ran = asked(tmp_path / "p", server.url, kind, tokens)
        assert len(server.seen) == 1  # not asked again: it would be paid again
    assert (ran.code, words in ran.said, server.url in ran.said) == (6, True, True), ran.said
    assert ran.peak < MOST_RSS and ran.written < most * MIB


@pytest.mark.parametrize("what", ["headers", "error"])
def test_what_comes_before_a_reply_is_bounded_too(tmp_path: Path, what: Any) -> None:
    for coding in ("", "gzip"):
        with ModelServer(default=Flood(what, coding=coding)) as server:
            response, _ = Line(tmp_path / coding, "openai_compat", server.url).ask()
        assert len(failure(response).message) < 1000 and failure(response).code in ("UNKNOWN", "RATE_LIMIT")


def test_what_arrived_of_a_reply_that_is_too_long_is_kept_to_the_last_character(tmp_path: Path) -> None:
    with ModelServer(default=Flood(piece="가나다")) as server:
        response, streamed = Line(tmp_path, "openai_compat", server.url, max_output_tokens=100).ask()
        assert server.seen[0].headers["accept-encoding"] == "identity"
    assert response.rawText == streamed and set(streamed) == set("가나다")
    assert 65_536 - 3 < len(streamed.encode()) <= 65_536
    assert (failure(response).code, failure(response).retriable) == ("UNKNOWN", False)


def test_the_limit_of_tokens_decides_and_the_request_wins(tmp_path: Path) -> None:
    with ModelServer(default=Flood()) as server:
        line = Line(tmp_path, "anthropic", server.url, max_output_tokens=100)
        response, _ = line.ask(request(maxOutputTokens=8192))
    assert "grew past 1 MiB, which a reply of at most 8192 tokens cannot be" in failure(response).message
    assert [bounds(tokens).text for tokens in (1, 16_384, 200_000, 0)] == [65_536, 2 * MIB, MOST_TEXT, MOST_TEXT]


def delta(text: str) -> bytes:
    event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return json.dumps({"type": "stream_event", "event": event}).encode() + b"\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (delta("가" * 1000), "the reply grew past 64 KiB"),
        (b'{"type": "stream_event", ' + b" " * 65_536, "one event of the reply grew past 1.375 MiB"),
        (b"\n" * 65_536, "the server sent more than 8 MiB"),
    ],
)
def test_a_program_that_talks_without_end_is_ended(data: bytes, words: str) -> None:
    reader, heard = CliReader(bounds(10)), ""
    for _ in range(1000):
        heard += "".join(reader.feed(data))
        if reader.enough:
            break
    assert reader.enough and f"claude: {words}" in failure(reader.reply.response(0.0)).message
    assert heard == reader.reply.response(0.0).rawText and len(heard.encode()) <= 65_536


def test_a_line_in_many_parts_is_put_together(tmp_path: Path) -> None:
    reader, whole = CliReader(bounds(0)), delta("한 글자씩") + delta("온다")
    said = [text for at in range(len(whole)) for text in reader.feed(whole[at : at + 1])]
    assert said == ["한 글자씩", "온다"] and reader.reply.text == "한 글자씩온다"


def test_a_good_reply_of_many_megabytes_takes_a_few_times_its_size(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.write_script(role("planner", "한" * MIB, chunk=64))
    ran = loop(project.path, "--provider", f"scripted:{project.script}")
    assert project.types()[:3] == ["RUN_CREATED", "PHASE_STARTED", "PHASE_COMPLETED"], ran.said
    assert ran.peak < MOST_RSS


class Endless:
    """A provider of somebody else's, which keeps no bounds: it says too much, or returns it."""

    capabilities = ProviderCapabilities(name="endless", supportsPatchFirst=True)

    def __init__(self, *, streams: bool) -> None:
        self._streams = streams

    async def complete(self, request: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        while self._streams:
            on_token("한" * 1000)
        return ProviderResponse(rawText="한" * 100_000, finishReason="stop", durationMs=0)


class Ear:
    """A face that keeps the tokens."""

    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def tell(self, news: News) -> None:
        if isinstance(news, Token):
            self._heard.append(news.text)


@pytest.mark.parametrize("streams", [True, False])
def test_the_bounds_hold_for_a_provider_that_does_not_keep_them_itself(tmp_path: Path, streams: bool) -> None:
    ledger = open_ledger(tmp_path / "run")
    heard: list[str] = []
    ear = Ear(heard)
    caller = Caller(
        ledger,
        lambda call: Route(Endless(streams=streams), "endless"),
        showing=Showing(lambda search, most: Gathered(), ledger, ear),
        face=ear,
        budget=Budget(None, run_id=ledger.folder.id),
    )
    limits = Constraints(timeoutMs=20_000, patchFirst=False, maxOutputTokens=100)
    call = ModelCall("planner", "", Prompt("", "계획"), (), limits, "plan/iter-0001", files=False)
    with pytest.raises(StepFailed, match="grew past 64 KiB, which a reply of at most 100 tokens cannot be") as failed:
        asyncio.run(Context(ledger, {ModelCall: caller}).perform("plan", call))
    most = "한" * (65_536 // 3)
    assert not failed.value.retriable and "".join(heard) == (most if streams else "")
    assert (ledger.folder.artifacts / "plan/iter-0001.attempt-1.raw.txt").read_text() == most
    assert ledger.events[-1].payload["outcome"]["text"] == ""  # it is in its file
    ledger.close()


@pytest.mark.parametrize("odd", ["fifo", "device", "folder", "sparse"])
def test_a_script_is_a_plain_file_of_a_sensible_size(tmp_path: Path, odd: str) -> None:
    project = Project(tmp_path / "p")
    project.script.unlink()
    match odd:
        case "fifo":
            os.mkfifo(project.script)
        case "device":
            project.script.symlink_to("/dev/zero")
        case "folder":
            project.script.mkdir()
        case _:
            project.script.touch()
            os.truncate(project.script, 20 << 30)
    words = {"fifo": "is a named pipe", "device": "is a device", "folder": "is a folder", "sparse": "has 20 GiB"}
    for script in (project.script, project.script.with_suffix(".yaml")):
        if script != project.script:
            project.script.rename(script)
        done = project.run("loop", "g", "--check", "true", "--provider", f"scripted:{script}", "--no-input", timeout=20)
        assert done.returncode == 2 and f"the script {script} {words[odd]}" in done.stderr
    assert project.runs == []


def test_a_recording_that_is_no_file_or_has_no_end_is_refused(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", "nothing"))
    project.loop()
    recorded = project.folder
    raw = recorded.path / "artifacts/plan/iter-0001.raw.txt"
    raw.unlink()
    os.mkfifo(raw)
    done = project.run("loop", "make add() add", "--check", project.check, "--provider", f"replay:{recorded.id}")
    assert "is gone or was changed" in done.stderr


@pytest.mark.parametrize(
    ("text", "room", "kept"),
    [
        ("abc", 3, "abc"),
        ("abc", 2, "ab"),
        ("abc", 0, ""),
        ("abc", -1, ""),
        ("가나", 6, "가나"),
        ("가나", 5, "가"),
        ("가나", 2, ""),
        ("\ud83d", 1, "\ud83d"),  # half an emoji: what fits stays as it is, or it would count as cut
        ("\ud83dab", 2, "?a"),
    ],
)
def test_a_text_is_cut_to_the_byte_and_never_within_a_character(text: str, room: int, kept: str) -> None:
    assert cut(text, room) == kept


def read(parts: Sequence[bytes], limits: Bounds) -> list[str]:
    """The text of a stream that arrives in these parts."""

    async def arrive() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    async def texts() -> list[str]:
        response = httpx2.Response(200, content=arrive(), request=httpx2.Request("GET", "http://localhost"))
        return [text async for text in SseLines(response, limits).aiter_text()]

    return asyncio.run(texts())


def test_a_line_of_a_stream_is_told_in_one_piece() -> None:
    parts = [b"\xef\xbb\xbfa", b"\xea\xb0", b"\x80\n", b"b\r", b"c", b"d", b"e\n", b"f\n", b"g", b"\xea"]
    assert read(parts, bounds(0)) == ["a가\n", "b\r", "cde\n", "f\n", "g\ufffd"]


@pytest.mark.parametrize(
    ("parts", "passed"),
    [
        ([b"1234\n", b"56789"], ""),
        ([b"1234\n", b"567890"], "wire_passed"),
        ([b"1234", b"\n1234"], ""),
        ([b"1\n", b"234567\n"], ""),  # a part with an end of line is bounded by the wire alone
        ([b"12", b"34", b"5"], "event_passed"),
    ],
)
def test_a_stream_and_a_line_of_it_have_at_most_so_many_bytes(parts: list[bytes], passed: str) -> None:
    limits = Bounds(tokens=0, text=100, event=5 if passed != "event_passed" else 4, wire=10)
    if not passed:
        assert "".join(read(parts, limits)).encode() == b"".join(parts)
        return
    with pytest.raises(TooLong, match=re.escape(getattr(limits, passed))):
        read(parts, limits)


@pytest.mark.parametrize(
    ("data", "passed"),
    [
        (b"\n" * 10, ""),
        (b"\n" * 11, "wire_passed"),
        (b"\n" + b" " * 5, ""),
        (b"\n" + b" " * 6, "event_passed"),
        (b" " * 5 + b"\n" + b" " * 4, ""),
    ],
)
def test_what_a_program_prints_and_a_line_of_it_have_at_most_so_many_bytes(data: bytes, passed: str) -> None:
    limits = Bounds(tokens=0, text=100, event=5, wire=10)
    for parts in ([data], [data[at : at + 1] for at in range(len(data))]):
        reader = CliReader(limits)
        for part in parts:
            reader.feed(part)
        found = reader.reply.failure
        assert (reader.enough, found is not None) == (bool(passed), bool(passed))
        assert found is None or getattr(limits, passed) in found.message


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_a_reply_in_one_document_has_at_most_so_many_bytes(tmp_path: Path, more: int, fits: bool) -> None:
    whole = b'{"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}'
    body = whole.ljust(bounds(100).event + more)
    answer = Fail(200, headers={"content-type": "application/json"}, body=body)
    with ModelServer(answer) as server:
        response, _ = Line(tmp_path, "openai_compat", server.url, max_output_tokens=100).ask(request(stream=False))
    assert response.rawText == ("yes" if fits else "")
    assert fits or "one event of the reply grew past 1.375 MiB" in failure(response).message


def test_a_reply_of_exactly_its_bound_is_whole_and_one_byte_more_is_too_long() -> None:
    reply = StreamedReply(Bounds(tokens=1, text=6, event=100, wire=100), ChatWire())
    assert (reply.say("가나"), reply.too_long) == ("가나", False)
    assert (reply.say("x"), reply.too_long, reply.text) == ("", True, "가나")
