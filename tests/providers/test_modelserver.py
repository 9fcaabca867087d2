"""Our model server speaks both wire formats: the vendors' own SDKs are the judges, with strict validation.

Every test counts the requests. The SDKs retry nothing, use no proxy and are given everything that they would
otherwise take from the environment.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai
import pytest

from tests.support.modelserver import Behaviour, Cut, ErrorEvent, Fail, Garbage, ModelServer, Page, Say, Stall

KOREAN = "안녕하세요, 세계! 값이 없는 웹페이지 🎼 끝."


class Heard(NamedTuple):
    """What an SDK made of an answer."""

    text: str = ""
    thought: str = ""
    finish: str | None = None
    usage: tuple[int, int, int] | None = None  # all input, the cached part of it, output


Ask = Callable[[ModelServer], Heard]


# Given to every client. Without certificates to load for a TLS that is not there, most of a test's time is saved.
HTTP: dict[str, Any] = {"trust_env": False, "verify": False}
SDK: dict[str, Any] = {"api_key": "test-key", "max_retries": 0, "_strict_response_validation": True}
PING: Any = [{"role": "user", "content": "Ping?"}]


@contextmanager
def chat_client(server: ModelServer, timeout: float = 10) -> Iterator[openai.OpenAI]:
    ours = {"organization": "test-organization", "project": "test-project", **SDK}
    with httpx2.Client(**HTTP) as http:
        yield openai.OpenAI(base_url=f"{server.url}/v1", timeout=timeout, http_client=http, **ours)


@contextmanager
def messages_client(server: ModelServer, timeout: float = 10) -> Iterator[anthropic.Anthropic]:
    with httpx2.Client(**HTTP) as http:
        yield anthropic.Anthropic(base_url=server.url, timeout=timeout, http_client=http, **SDK)


def chat_stream(server: ModelServer) -> Heard:
    heard = Heard()
    options: Any = {"include_usage": True}
    with chat_client(server) as client:
        for chunk in client.chat.completions.create(model="m", messages=PING, stream=True, stream_options=options):
            for choice in chunk.choices:
                text = heard.text + (choice.delta.content or choice.delta.refusal or "")
                thought = heard.thought + getattr(choice.delta, "reasoning_content", "")
                heard = Heard(text, thought, choice.finish_reason or heard.finish)
            heard = heard._replace(usage=chat_usage(chunk.usage))
    return heard


def chat_whole(server: ModelServer) -> Heard:
    with chat_client(server) as client:
        answer = client.chat.completions.create(model="m", messages=PING)
    choice = answer.choices[0]
    text = choice.message.content or choice.message.refusal or ""
    thought = getattr(choice.message, "reasoning_content", "")
    return Heard(text, thought, choice.finish_reason, chat_usage(answer.usage))


def chat_usage(usage: openai.types.CompletionUsage | None) -> tuple[int, int, int] | None:
    if usage is None:
        return None
    assert usage.prompt_tokens_details is not None
    return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens or 0, usage.completion_tokens


def messages_stream(server: ModelServer) -> Heard:
    with (
        messages_client(server) as client,
        client.messages.stream(model="m", max_tokens=9, messages=PING) as stream,
    ):
        return messages_heard(stream.get_final_message())


def messages_whole(server: ModelServer) -> Heard:
    with messages_client(server) as client:
        return messages_heard(client.messages.create(model="m", max_tokens=9, messages=PING))


def messages_heard(message: anthropic.types.Message) -> Heard:
    text = "".join(block.text for block in message.content if block.type == "text")
    thought = "".join(block.thinking for block in message.content if block.type == "thinking")
    cached = message.usage.cache_read_input_tokens or 0
    usage = (message.usage.input_tokens + cached, cached, message.usage.output_tokens)
    return Heard(text, thought, message.stop_reason, usage)


CHAT = [chat_stream, chat_whole]
MESSAGES = [messages_stream, messages_whole]
STREAMS = [chat_stream, messages_stream]
ALL = [*CHAT, *MESSAGES]


# -- success ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ALL)
def test_an_answer_is_heard_with_its_usage_for_one_request(ask: Ask) -> None:
    with ModelServer(Say(input_tokens=20, cached_tokens=8, output_tokens=5)) as server:
        heard = ask(server)
    assert heard == Heard("PONG", "", "stop" if ask in CHAT else "end_turn", (20, 8, 5))
    assert len(server.asked) == len(server.seen) == 1
    assert server.hang_ups == 0


@pytest.mark.parametrize("ask", ALL)
def test_reasoning_is_heard_apart_from_the_text(ask: Ask) -> None:
    with ModelServer(Say(reasoning="a ball, so", pieces=3)) as server:
        assert ask(server)[:2] == ("PONG", "a ball, so")
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("behaviour", "chat", "messages"),
    [
        (Say(finish="length"), "length", "max_tokens"),
        (Say(finish="filter"), "content_filter", "refusal"),
        (Say(finish="refusal"), "stop", "refusal"),
    ],
)
@pytest.mark.parametrize("ask", ALL)
def test_each_wire_has_its_own_word_for_an_early_end(ask: Ask, behaviour: Say, chat: str, messages: str) -> None:
    with ModelServer(behaviour) as server:
        assert ask(server) == Heard("PONG", "", chat if ask in CHAT else messages, (12, 0, 3))
    assert len(server.seen) == 1


@pytest.mark.parametrize("ask", ALL)
def test_an_empty_answer_is_legal(ask: Ask) -> None:
    with ModelServer(Say(text="")) as server:
        assert ask(server).text == ""
    assert len(server.seen) == 1


@pytest.mark.parametrize("pieces", [1, 7, 1000])
@pytest.mark.parametrize("ask", STREAMS)
def test_korean_survives_a_stream_torn_inside_its_characters(ask: Ask, pieces: int) -> None:
    with ModelServer(Say(text=KOREAN, reasoning=KOREAN, pieces=pieces, torn=True)) as server:
        assert ask(server)[:2] == (KOREAN, KOREAN)
    assert len(server.seen) == 1
    assert server.hang_ups == 0


@pytest.mark.parametrize("ask", CHAT)
def test_a_chat_service_may_keep_its_usage_to_itself(ask: Ask) -> None:
    with ModelServer(Say(usage=False)) as server:
        assert ask(server) == Heard("PONG", "", "stop", None)
    assert len(server.seen) == 1


def test_a_stream_reports_chat_usage_only_where_it_was_asked_for() -> None:
    with ModelServer() as server, chat_client(server) as client:
        chunks = list(client.chat.completions.create(model="m", messages=PING, stream=True))
    assert [chunk.usage for chunk in chunks] == [None] * len(chunks)
    assert all(chunk.choices for chunk in chunks)
    assert len(server.seen) == 1


def test_behaviours_are_used_in_order_and_then_the_default() -> None:
    with ModelServer(Say("one"), Say("two"), default=Say("rest")) as server:
        assert [chat_whole(server).text, messages_stream(server).text] == ["one", "two"]
        assert [ask(server).text for ask in ALL] == ["rest"] * 4
    assert len(server.seen) == 6


def test_pieces_arrive_with_their_delay() -> None:
    with ModelServer(Say(pieces=4, delay=0.05)) as server:
        began = time.monotonic()
        assert chat_stream(server).text == "PONG"
        assert time.monotonic() - began >= 0.15
    assert len(server.seen) == 1


# -- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "chat", "messages"),
    [
        (400, openai.BadRequestError, anthropic.BadRequestError),
        (401, openai.AuthenticationError, anthropic.AuthenticationError),
        (403, openai.PermissionDeniedError, anthropic.PermissionDeniedError),
        (404, openai.NotFoundError, anthropic.NotFoundError),
        (429, openai.RateLimitError, anthropic.RateLimitError),
        (500, openai.InternalServerError, anthropic.InternalServerError),
        (529, openai.InternalServerError, anthropic.OverloadedError),
    ],
)
@pytest.mark.parametrize("ask", ALL)
def test_a_status_becomes_the_exception_of_its_name(
    ask: Ask, status: int, chat: type[openai.APIStatusError], messages: type[anthropic.APIStatusError]
) -> None:
    expected = chat if ask in CHAT else messages
    with ModelServer(Fail(status, "no: 안 돼요", {"retry-after": "7"})) as server, pytest.raises(expected) as caught:
        ask(server)
    error = caught.value
    assert type(error) is expected
    assert (error.status_code, error.request_id, error.response.headers["retry-after"]) == (status, "req_1", "7")
    assert isinstance(error.body, dict)
    inner = error.body if ask in CHAT else error.body["error"]
    assert inner["message"] == "no: 안 돼요"
    assert len(server.seen) == 1


@pytest.mark.parametrize("ask", ALL)
def test_an_error_may_be_a_page_of_html(ask: Ask) -> None:
    expected: Any = openai.InternalServerError if ask in CHAT else anthropic.InternalServerError
    with ModelServer(Fail(502, body=b"<h1>Bad Gateway</h1>")) as server, pytest.raises(expected) as caught:
        ask(server)
    assert caught.value.response.text == "<h1>Bad Gateway</h1>"
    assert len(server.seen) == 1


def test_an_error_event_reaches_chat_as_an_error_without_a_status() -> None:
    with ModelServer(ErrorEvent()) as server, pytest.raises(openai.APIError) as caught:
        chat_stream(server)
    assert not isinstance(caught.value, openai.APIStatusError)
    assert caught.value.type == "overloaded_error"
    assert len(server.seen) == 1


def test_an_error_event_reaches_messages_as_an_error_with_status_200() -> None:
    with ModelServer(ErrorEvent()) as server, pytest.raises(anthropic.APIStatusError) as caught:
        messages_stream(server)
    assert caught.value.status_code == 200
    assert "overloaded_error" in str(caught.value)
    assert len(server.seen) == 1


@pytest.mark.parametrize(("after", "text"), [(0, ""), (1, "PO"), (2, "PONG")])
@pytest.mark.parametrize("ask", STREAMS)
def test_a_clean_cut_looks_like_success_without_a_finish_reason(ask: Ask, after: int, text: str) -> None:
    with ModelServer(Cut(after)) as server:
        heard = ask(server)
    assert (heard.text, heard.finish) == (text, None)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("behaviour", "ask", "error"),
    [
        (Cut(clean=False), chat_stream, openai.APIConnectionError),
        (Cut(clean=False), chat_whole, openai.APIConnectionError),
        (Cut(clean=False), messages_stream, httpx2.RemoteProtocolError),
        (Cut(clean=False), messages_whole, anthropic.APIConnectionError),
        (Cut(), chat_whole, json.JSONDecodeError),
        (Cut(), messages_whole, json.JSONDecodeError),
        *((Garbage(), ask, json.JSONDecodeError) for ask in ALL),
        (Page(), chat_whole, openai.APIResponseValidationError),
        (Page(), messages_stream, AssertionError),
        (Page(), messages_whole, anthropic.APIResponseValidationError),
    ],
)
def test_a_broken_answer_raises(behaviour: Behaviour, ask: Ask, error: type[Exception]) -> None:
    with ModelServer(behaviour) as server, pytest.raises(error):
        ask(server)
    assert len(server.seen) == 1
    assert server.hang_ups == 0


def test_a_page_instead_of_a_chat_stream_looks_like_an_empty_answer() -> None:
    with ModelServer(Page()) as server:
        assert chat_stream(server) == Heard()
    assert len(server.seen) == 1


# -- leaving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", [Stall(after=1), Stall(after=1, keepalive=True), Say(pieces=4, delay=5)])
@pytest.mark.parametrize("wire", ["chat", "messages"])
def test_a_client_that_stops_reading_is_seen_to_hang_up(wire: str, behaviour: Behaviour) -> None:
    with ModelServer(behaviour) as server:
        if wire == "chat":
            with chat_client(server) as client:
                chunks = client.chat.completions.create(model="m", messages=PING, stream=True)
                assert next(iter(chunks)).choices[0].delta.role == "assistant"
                chunks.close()
        else:
            with messages_client(server) as client:
                events = client.messages.create(model="m", max_tokens=9, messages=PING, stream=True)
                assert next(iter(events)).type == "message_start"
                events.close()
        assert server.wait_for_hang_up() == 1
    assert len(server.seen) == 1


@pytest.mark.parametrize("behaviour", [Stall(head=False), Stall()])
def test_a_client_that_loses_patience_is_seen_to_hang_up(behaviour: Behaviour) -> None:
    with ModelServer(behaviour, behaviour) as server:
        with chat_client(server, timeout=0.1) as chat, pytest.raises(openai.APITimeoutError):
            chat.chat.completions.create(model="m", messages=PING)
        assert server.wait_for_hang_up() == 1
        with messages_client(server, timeout=0.1) as messages, pytest.raises(anthropic.APITimeoutError):
            messages.messages.create(model="m", max_tokens=9, messages=PING)
        assert server.wait_for_hang_up(count=2) == 2
    assert len(server.seen) == 2


def test_a_cancelled_task_is_seen_to_hang_up() -> None:
    async def cancel(server: ModelServer) -> None:
        async with httpx2.AsyncClient(**HTTP) as http:
            asking = asyncio.create_task(http.post(f"{server.url}/v1/messages", json={"stream": True}))
            await asyncio.to_thread(server.wait_for_seen)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    with ModelServer(Stall(after=2, keepalive=True)) as server:
        asyncio.run(cancel(server))
        assert server.wait_for_hang_up() == 1
    assert len(server.seen) == 1


def test_closing_ends_every_answer_and_leaves_no_thread() -> None:
    server = ModelServer(Stall(head=False), Stall(after=1, keepalive=True))
    host, port = server.url.removeprefix("http://").split(":")
    clients = [socket.create_connection((host, int(port))) for _ in range(3)]
    for client in clients[:2]:  # the third never says anything
        client.sendall(b"POST /v1/messages HTTP/1.1\r\nContent-Length: 15\r\n\r\n" + b'{"stream":true}')
    server.wait_for_seen(count=2)
    server.close()  # hangs if one of them is waited for
    server.close()  # again is harmless
    assert [thread for thread in threading.enumerate() if thread.name == "modelserver"] == []
    assert server.hang_ups == 0
    for client in clients:
        client.close()


# -- requests ---------------------------------------------------------------------------------------------------------


def test_both_sdks_read_the_same_list_of_models() -> None:
    with ModelServer() as server:
        with chat_client(server) as chat:
            assert [model.id for model in chat.models.list()] == ["wire-model"]
        with messages_client(server) as messages:
            assert [model.display_name for model in messages.models.list()] == ["Wire model"]
    assert [request.method for request in server.asked] == ["GET", "GET"]
    assert server.seen == []


@pytest.mark.parametrize("ask", ALL)
def test_a_request_is_kept_as_it_was_sent(ask: Ask) -> None:
    with ModelServer() as server:
        ask(server)
    request = server.seen[0]
    assert (request.method, request.path) == ("POST", "/v1/chat/completions" if ask in CHAT else "/v1/messages")
    assert request.headers["authorization"] == "Bearer test-key"
    assert request.body["messages"] == PING
    assert request.body.get("stream", False) == (ask in STREAMS)
    assert server.asked == server.seen


@pytest.mark.parametrize("ask", ALL)
def test_the_environment_does_not_matter(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens on the discard port
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "from-the-environment")
    with ModelServer() as server:
        assert ask(server).text == "PONG"
    assert "from-the-environment" not in str(server.seen)
    assert len(server.seen) == 1


def test_any_key_query_and_body_is_taken_and_other_paths_are_not_found() -> None:
    with ModelServer(Say("only")) as server, httpx2.Client(**HTTP, base_url=server.url) as http:
        assert http.head("/").status_code == 200
        assert http.get("/v1/nothing").json()["error"]["type"] == "not_found_error"
        assert http.post("/v1/messages/count_tokens", json={}).status_code == 404  # takes no behaviour
        answer = http.post("/v1/messages?beta=true", content=b"no json", headers={"x-api-key": "test-key"})
        assert answer.json()["content"] == [{"type": "text", "text": "only"}]
    assert [request.method for request in server.asked] == ["HEAD", "GET", "POST", "POST"]
    assert server.seen[1].path == "/v1/messages?beta=true"
    assert (server.seen[1].headers["x-api-key"], server.seen[1].body) == ("test-key", None)
