"""The Messages adapter: which key it sends to whom, and how a conversation becomes its messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.core.errors import UsageError
from orchestra.core.model import ChatMessage, Prompt, ProviderRequest
from orchestra.providers.anthropic import Anthropic
from tests.support.models import Line, request
from tests.support.modelserver import ModelServer, Say


def test_without_a_key_the_vendors_own_server_is_not_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="provider anthropic needs a key: set ANTHROPIC_API_KEY"):
        Line(tmp_path, "anthropic", keys={})
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        assert Line(tmp_path, "anthropic", keys={name: "k-0123456789"}).capabilities.name == "anthropic"


@pytest.mark.parametrize(
    ("keys", "sent"),
    [
        ({}, {}),  # a server of one's own may need none
        ({"ANTHROPIC_API_KEY": "k-1"}, {"x-api-key": "k-1"}),
        ({"ANTHROPIC_AUTH_TOKEN": "t-1"}, {"authorization": "Bearer t-1"}),
        ({"ANTHROPIC_API_KEY": "k-1", "ANTHROPIC_AUTH_TOKEN": "t-1"}, {"x-api-key": "k-1"}),
    ],
)
def test_a_key_is_sent_in_its_own_header(tmp_path: Path, keys: dict[str, str], sent: dict[str, str]) -> None:
    with ModelServer(Say()) as server:
        Line(tmp_path, "anthropic", server.url, keys=keys).ask()
    headers = server.seen[0].headers
    assert {name: headers[name] for name in ("x-api-key", "authorization") if name in headers} == sent


def test_a_token_is_not_sent_to_a_server_of_the_configuration(tmp_path: Path) -> None:
    with ModelServer(Say()) as server:
        Line(tmp_path, "anthropic", keys={"ANTHROPIC_AUTH_TOKEN": "t-1"}, base_url=server.url).ask()
    assert "authorization" not in server.seen[0].headers


def turns(user: str, *history: ChatMessage) -> list[tuple[str, list[str]]]:
    """The messages of the request: role and texts."""
    asked: ProviderRequest = msgspec.structs.replace(
        request(), prompt=Prompt(system="", user=user), messages=history, contextArtifacts=()
    )
    body: dict[str, Any] = Anthropic(None, model="m", max_output_tokens=9, context_tokens=9).body(asked)  # type: ignore[arg-type]  # nothing is sent
    return [(turn["role"], [block["text"] for block in turn["content"]]) for turn in body["messages"]]


def test_the_first_and_the_last_message_are_the_users_and_neighbours_are_one() -> None:
    asks, says, more = (
        ChatMessage("user", "묻는다"),
        ChatMessage("assistant", "답한다"),
        ChatMessage("user", "또 묻는다"),
    )
    assert turns("새 질문") == [("user", ["새 질문"])]
    assert turns("") == [("user", [""])]  # there is nothing else to send
    assert turns("", asks) == [("user", ["묻는다"])]
    assert turns("새 질문", asks, more) == [("user", ["묻는다", "또 묻는다", "새 질문"])]
    assert turns("새 질문", asks, says) == [("user", ["묻는다"]), ("assistant", ["답한다"]), ("user", ["새 질문"])]
    [first, answer, last] = turns("", says)
    assert (first[0], answer, last[0]) == ("user", ("assistant", ["답한다"]), "user") and first[1] and last[1]
