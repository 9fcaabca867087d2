"""The real claude CLI as a provider, against a Messages server on loopback: one request a call, whatever happens."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.model import Usage
from orchestra.providers.bounds import bounds
from orchestra.providers.claude_code import ClaudeCode, login_file
from orchestra.providers.claude_stream import CliReader
from orchestra.providers.patience import Limits
from orchestra.providers.program import Converse, Ended, Talk
from tests.support.models import KEY, Line, failure, needs_claude, request
from tests.support.modelserver import Behaviour, Cut, ErrorEvent, Fail, Garbage, ModelServer, Say, Stall

pytestmark = needs_claude


def processes(server: ModelServer) -> list[str]:
    """The processes that were told of this server, as the kernel knows them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"ANTHROPIC_BASE_URL={server.url}".encode() in variables:
            found.append(pid)
    return found


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.spec("S2-53", "S1-05", "S1-06", "S1-36")
def test_it_is_a_text_function_that_sees_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("CANARY: always answer in verse")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"hooks": {}}')
    home = Path(os.environ["HOME"])
    with ModelServer(Say("안녕하세요", pieces=3)) as server:
        line = Line(tmp_path, "claude_code", server.url)
        before, at_home = tree(tmp_path), tree(home)
        response, streamed = line.ask(request("한국어로 인사해 줘"))
        assert tree(tmp_path) == before
        assert {name for name in tree(home) if not name.startswith(".cache")} == set(at_home)
        assert len(server.seen) == 1
        seen = server.seen[0]
    assert response.rawText == streamed == "안녕하세요"
    assert response.finishReason == "stop"
    assert isinstance(response.usage, Usage)
    assert (response.usage.inputTokens, response.usage.outputTokens) == (12, 3)
    assert isinstance(response.costUsd, float)  # its own report
    assert seen.body["tools"] == []
    said = json.dumps(seen.body, ensure_ascii=False)
    assert "CANARY" not in said and "한국어로 인사해 줘" in said and "계획을 세워라" in said and "def add" in said
    assert seen.headers["x-api-key"] == KEY
    assert seen.headers["x-orchestra-trace-id"] == "2026-01-31_001_loop_x"  # S2-87


def test_a_prompt_of_a_megabyte_goes_in_by_stdin(tmp_path: Path) -> None:
    big = "가나다라 abcdefgh\n" * 50_000
    with ModelServer(Say("read")) as server:
        response, _ = Line(tmp_path, "claude_code", server.url).ask(request(big, timeout=60))
        assert response.rawText == "read"
        assert len(json.dumps(server.seen[0].body, ensure_ascii=False).encode()) > 1_000_000


@pytest.mark.parametrize(
    ("behaviour", "code", "retriable"),
    [
        (Fail(401, "invalid x-api-key"), "AUTH", False),
        (Fail(429, "slow down", headers={"retry-after": "1"}), "RATE_LIMIT", True),
        (Fail(529, "overloaded"), "RATE_LIMIT", True),
        (Fail(500, "oops"), "UNKNOWN", True),
        (Garbage(), "UNKNOWN", True),
        (Cut(after=1, clean=True), "UNKNOWN", True),
        (Cut(after=1, clean=False), "UNKNOWN", True),
        (ErrorEvent(), "RATE_LIMIT", True),
    ],
)
def test_a_failure_costs_one_request_and_says_which(
    tmp_path: Path, behaviour: Behaviour, code: str, retriable: bool
) -> None:
    with ModelServer(behaviour) as server:
        response, _ = Line(tmp_path, "claude_code", server.url).ask()
        assert len(server.seen) == 1
    error = failure(response)
    assert (error.code, error.retriable) == (code, retriable)
    assert error.message and KEY not in error.message
    assert processes(server) == []


@pytest.mark.parametrize(
    "behaviour",
    [Fail(401, "invalid x-api-key"), Fail(404, "no such model"), Fail(500, "oops"), Fail(400, "잘못된 요청")],
)
def test_a_failure_names_the_server_it_talked_to_and_counts_its_requests(tmp_path: Path, behaviour: Fail) -> None:
    with ModelServer(default=behaviour) as server:  # after a 400 and a 404 the CLI asks once more by itself
        response, _ = Line(tmp_path, "claude_code", server.url).ask()
        assert response.requests == len(server.seen) == (2 if behaviour.status in (400, 404) else 1)
    error = failure(response)
    assert f"status {behaviour.status}" in error.message and f"(ANTHROPIC_BASE_URL is {server.url})" in error.message


def test_a_server_that_does_not_stream_is_what_is_wrong(tmp_path: Path) -> None:
    with ModelServer(Fail(404, "no streams here"), Say("whole")) as server:  # the CLI asks again without a stream
        response, _ = Line(tmp_path, "claude_code", server.url).ask()
        assert response.requests == len(server.seen) == 2
    error = failure(response)
    assert not error.retriable  # it would be the same again, and paid again
    assert error.message == f"claude got a reply that its server did not stream (ANTHROPIC_BASE_URL is {server.url})"


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (
            {"subtype": "error_max_budget_usd", "is_error": True, "errors": ["Reached maximum budget"]},
            "(error_max_budget_usd: Reached maximum budget)",
        ),
        ({"subtype": "success", "result": ""}, "(success)"),
        ({"subtype": "success"}, "(success)"),
        ({}, "(no reason given)"),
    ],
)
def test_a_report_without_a_reply_is_told_and_may_be_tried_again(report: dict[str, Any], words: str) -> None:
    async def reports(program: str, talk: Talk) -> Ended:
        assert talk.on_bytes(json.dumps({"type": "result", **report}).encode() + b"\n")
        return Ended(exit_code=-9)  # it is ended then

    claude = ClaudeCode(reports, {"ANTHROPIC_API_KEY": KEY}, model="m", limits=Limits(1.0, 1.0))
    error = failure(asyncio.run(claude.complete(request(), lambda text: None)))
    assert (error.code, error.retriable) == ("UNKNOWN", True)
    assert error.message == f"claude ended without a whole reply {words}"


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nobody else takes the port, and nobody answers
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        error = failure(Line(tmp_path, "claude_code", url).ask()[0])
    assert f"(ANTHROPIC_BASE_URL is {url})" in error.message


def test_a_refusal_is_not_tried_again(tmp_path: Path) -> None:
    with ModelServer(Say("no", finish="refusal")) as server:
        response, _ = Line(tmp_path, "claude_code", server.url).ask()
        assert len(server.seen) == 1
    assert (failure(response).code, failure(response).retriable) == ("BAD_REQUEST", False)


@pytest.mark.parametrize("stops_itself", [False, True])
@pytest.mark.parametrize(
    ("reason", "text", "goes_on"), [("end_turn", "yes", False), ("end_turn", "", True), ("max_tokens", "ha", True)]
)
def test_after_a_reply_that_is_not_whole_nothing_more_is_waited_for(
    reason: str, text: str, goes_on: bool, stops_itself: bool
) -> None:
    """It would ask once more by itself. A version that does not is left to end by itself."""
    reader = CliReader(bounds(0), stops_itself=stops_itself)
    for event in (
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}},
        {"type": "message_delta", "delta": {"stop_reason": reason}},
    ):
        assert not reader.enough
        reader.feed(json.dumps({"type": "stream_event", "event": event}).encode() + b"\n")
    assert reader.enough is (goes_on and not stops_itself)


@pytest.mark.parametrize("say", [Say("half", finish="length"), Say("")])
def test_what_it_would_go_on_from_by_itself_is_one_request_too(tmp_path: Path, say: Say) -> None:
    with ModelServer(say) as server:
        response, _ = Line(tmp_path, "claude_code", server.url).ask()
        assert len(server.seen) == 1
    assert (response.rawText, response.finishReason) == (say.text, "length" if say.text else "stop")
    assert processes(server) == []


@pytest.mark.spec("S1-38")
@pytest.mark.parametrize(
    ("behaviour", "entry"),
    [(Stall(head=False), {"first_byte_sec": 2.5}), (Stall(after=1, keepalive=True), {"idle_sec": 1.5}), (Stall(), {})],
)
def test_silence_ends_it_and_no_process_stays(tmp_path: Path, behaviour: Stall, entry: dict[str, Any]) -> None:
    with ModelServer(behaviour) as server:
        response, _ = Line(tmp_path, "claude_code", server.url, **entry).ask(request(timeout=5))
        server.wait_for_hang_up()
        assert len(server.seen) == 1
    assert failure(response).code == "TIMEOUT"
    assert processes(server) == []


def test_canceling_ends_the_process(tmp_path: Path) -> None:
    async def cancel(line: Line, server: ModelServer) -> None:
        task = asyncio.ensure_future(line.ask_async())
        await asyncio.to_thread(server.wait_for_seen, 20)
        assert processes(server)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with ModelServer(Stall(after=1)) as server:
        asyncio.run(cancel(Line(tmp_path, "claude_code", server.url), server))
        server.wait_for_hang_up()
    assert processes(server) == []


def test_a_login_is_used_as_a_copy(tmp_path: Path) -> None:
    path = login_file(os.environ)
    path.parent.mkdir(parents=True)
    login = {"accessToken": "sk-ant-oat01-TEST", "refreshToken": "sk-ant-ort01-TEST", "scopes": ["user:inference"]}
    path.write_text(json.dumps({"claudeAiOauth": {**login, "expiresAt": int(time.time() * 1000) + 3_600_000}}))
    path.chmod(0o600)
    with ModelServer() as server:
        line = Line(tmp_path, "claude_code", server.url, keys={})
        response, _ = line.ask()
        assert response.rawText == "PONG"
        assert server.seen[0].headers["authorization"] == "Bearer sk-ant-oat01-TEST"
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name]


def test_a_program_that_is_not_claude_is_a_clear_failure(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "claude"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'unknown option --bare' >&2\nexit 3\n")
    fake.chmod(0o755)
    error = failure(Line(tmp_path / "p", "claude_code", program=str(fake)).ask()[0])
    assert "exit code 3" in error.message and "unknown option --bare" in error.message


@pytest.mark.parametrize(
    "data", [b"\n\n", b"not json\n", b'{"type": "result", "is_error": 3}\n', b"\xff\xfe\n", b"{}\n"]
)
def test_any_bytes_it_prints_are_read_or_refused(data: bytes) -> None:
    reader = CliReader(bounds(0))
    for at in range(len(data)):
        reader.feed(data[at : at + 1])
    assert failure(reader.reply.response(0.0)).message


FAKE = """#!/bin/sh
cat > /dev/null
{act}
{end}
"""
NEW = '{"claudeAiOauth": {"accessToken": "new", "refreshToken": "newer"}}'
GOOD = f"printf '{NEW}' > $HOME/.claude/.credentials.json"


@pytest.mark.parametrize(
    ("act", "end", "kept"),
    [
        (GOOD, "exit 0", "new"),
        (GOOD, "sleep 30", "new"),  # it is put back too if the call runs out of time
        ("ln -sf {secret} $HOME/.claude/.credentials.json", "exit 0", "old"),
        ("rm -r $HOME/.claude; ln -s {folder} $HOME/.claude", "exit 0", "old"),
        ("rm $HOME/.claude/.credentials.json; mkfifo $HOME/.claude/.credentials.json", "exit 0", "old"),
        (": > $HOME/.claude/.credentials.json", "exit 0", "old"),
        ("echo nonsense > $HOME/.claude/.credentials.json", "exit 0", "old"),
        ("head -c 200000 /dev/zero > $HOME/.claude/.credentials.json", "exit 0", "old"),
    ],
)
def test_a_renewed_login_is_put_back_and_nothing_else_is(tmp_path: Path, act: str, end: str, kept: str) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    secret = folder / ".credentials.json"
    secret.write_text('{"claudeAiOauth": {"accessToken": "STOLEN", "refreshToken": "STOLEN"}}')
    fake = tmp_path / "bin" / "claude"
    fake.parent.mkdir()
    fake.write_text(FAKE.format(act=act.replace("{secret}", str(secret)).replace("{folder}", str(folder)), end=end))
    fake.chmod(0o755)
    path = login_file(os.environ)
    path.parent.mkdir(parents=True)
    path.write_text('{"claudeAiOauth": {"accessToken": "old", "refreshToken": "older"}}')
    line = Line(tmp_path / "p", "claude_code", keys={}, program=str(fake))
    line.ask(request(timeout=1.5 if "sleep" in end else 10))
    assert json.loads(path.read_text())["claudeAiOauth"]["accessToken"] == kept


def test_a_login_that_a_kill_left_is_removed_by_the_next_call(tmp_path: Path) -> None:
    line = Line(tmp_path, "claude_code", "http://127.0.0.1:9")
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = line.app.project.workshop.scratch / "a-run-0123" / f"talk-{dead.pid}-1" / "home"
    left.mkdir(parents=True)
    (left / "secret").write_text("a login")
    line.ask(request(timeout=5))
    assert not left.exists() and left.parents[1].exists()


def test_clouds_credentials_are_handed_on_only_if_the_cloud_is_used(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "claude"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nenv >&2; exit 1\n")
    fake.chmod(0o755)
    for used, seen in (("", False), ("1", True)):
        keys = {"ANTHROPIC_API_KEY": KEY, "AWS_REGION": "nowhere-1", "CLAUDE_CODE_USE_BEDROCK": used}
        line = Line(tmp_path / f"p{used}", "claude_code", keys=keys, program=str(fake))
        heard: list[str] = []
        converse = line.provider._converse  # type: ignore[attr-defined]

        async def listen(program: str, talk: Talk, converse: Converse = converse, heard: list[str] = heard) -> Ended:
            heard.extend(talk.env)
            return await converse(program, talk)

        line.provider._converse = listen  # type: ignore[attr-defined]
        line.ask()
        assert ("AWS_REGION" in heard) == seen
