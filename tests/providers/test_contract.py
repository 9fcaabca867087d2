"""S1 §3 for every provider adapter, from one parametrised suite (S1-122). A new adapter adds one line to ADAPTERS."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
import yaml

from orchestra.core.errors import ContractError
from orchestra.core.model import (
    ChatMessage,
    Constraints,
    ContextArtifact,
    Prompt,
    Provider,
    ProviderCapabilities,
    ProviderFailure,
    ProviderRequest,
    ProviderResponse,
)
from orchestra.providers.replay import ReplayProvider
from orchestra.providers.scripted import ScriptedProvider, load_script
from tests.support.models import Line, needs_claude
from tests.support.modelserver import ModelServer, Say
from tests.support.project import PLAN, Project, patch, role
from tests.support.runs import read_events

REQUEST = ProviderRequest(
    runId="r",
    iteration=1,
    phase="plan",
    role="planner",
    prompt=Prompt(system="계획을 세워라", user="# Goal\n\nadd"),
    contextArtifacts=(ContextArtifact("calc.py", "calc.py", "def add(a, b): ..."),),
    constraints=Constraints(timeoutMs=20_000, patchFirst=False),
)


def scripted(folder: Path, url: str) -> Provider:
    path = folder / "replies.yaml"
    path.write_text(yaml.safe_dump({"replies": [{"text": "하나\n둘", "chunk": 2, "repeat": True}]}, allow_unicode=True))
    return ScriptedProvider(load_script(path), name="replies.yaml")


def replay(folder: Path, url: str) -> Provider:
    project = Project(folder / "recorded", role("planner", PLAN), role("developer", patch("a - b", "a + b")))
    assert project.loop("--approval", "never").returncode == 0
    return ReplayProvider(project.folder, read_events(project.folder.events))


def live(kind: str) -> Make:
    return lambda folder, url: Line(folder, kind, url)


class Make(Protocol):
    def __call__(self, folder: Path, url: str, /) -> Provider: ...


ADAPTERS: dict[str, Make] = {
    "scripted": scripted,
    "replay": replay,
    "openai_compat": live("openai_compat"),
    "anthropic": live("anthropic"),
    "local": live("local"),
    "claude_code": live("claude_code"),
}


@pytest.fixture(params=[n if n != "claude_code" else pytest.param(n, marks=needs_claude) for n in ADAPTERS])
def provider(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Provider]:
    with ModelServer(default=Say("하나\n둘", pieces=3)) as server:
        yield ADAPTERS[request.param](tmp_path, server.url)


BRIEF = msgspec.structs.replace(  # a small model may go on and on, until the time is over
    REQUEST, constraints=Constraints(timeoutMs=60_000, patchFirst=False, maxOutputTokens=30)
)


def complete(provider: Provider, request: ProviderRequest = BRIEF) -> tuple[ProviderResponse, str]:
    tokens: list[str] = []
    return asyncio.run(provider.complete(request, tokens.append)), "".join(tokens)


@pytest.mark.spec("S1-22", "S1-23", "S1-24", "S1-25", "S1-39", "S1-122")
def test_a_response_has_the_fields_of_the_contract_and_raises_nothing(provider: Provider) -> None:
    response, streamed = complete(provider)
    again = msgspec.json.decode(msgspec.json.encode(response), type=ProviderResponse)
    assert again == response
    assert response.durationMs >= 0
    if isinstance(response.error, ProviderFailure):
        assert response.finishReason in ("error", "timeout")
        assert response.error.message
    else:
        assert response.rawText.startswith(streamed)


HISTORY = (
    ChatMessage("user", "왜?"),
    ChatMessage("assistant", "{}"),
    ChatMessage("system", "요약"),
    ChatMessage("user", "<|im_end|>"),
)


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_with_a_history_is_answered_too(provider: Provider, stream: bool) -> None:
    constraints = Constraints(timeoutMs=60_000, patchFirst=False, stream=stream, topP=0.95, maxOutputTokens=30)
    asked = msgspec.structs.replace(REQUEST, messages=HISTORY, constraints=constraints)
    response, streamed = complete(provider, asked)
    if provider.capabilities.name == "replay":
        assert isinstance(response.error, ProviderFailure) and "no recorded reply" in response.error.message
    else:
        assert response.finishReason in ("stop", "length"), response.error
        assert response.rawText == streamed != ""


@pytest.mark.spec("S1-29", "S1-30", "S1-31", "S1-32", "S1-33", "S1-34", "S1-35")
def test_capabilities_are_told(provider: Provider) -> None:
    told = provider.capabilities
    assert isinstance(told, ProviderCapabilities)
    assert told.name and told.supportsPatchFirst


@pytest.mark.spec("S1-05", "S1-06", "S1-36")
def test_a_call_leaves_the_file_system_as_it_was(provider: Provider, tmp_path: Path) -> None:
    before = _tree(tmp_path)
    complete(provider)
    assert _tree(tmp_path) == before


def _tree(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path).encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


@pytest.mark.spec("S1-09", "S1-10", "S1-11", "S1-12", "S1-13", "S1-14", "S1-15", "S1-16", "S1-17", "S1-20", "S1-03")
@pytest.mark.parametrize("path", ["", "prompt", "contextArtifacts.0", "constraints"])
def test_a_request_without_a_required_field_is_rejected(path: str) -> None:
    whole = msgspec.json.encode(REQUEST)
    assert msgspec.json.decode(whole, type=ProviderRequest) == REQUEST
    for name in _inside(msgspec.json.decode(whole), path):
        record = msgspec.json.decode(whole)
        del _inside(record, path)[name]
        with pytest.raises(msgspec.ValidationError, match=f"missing required field `{name}`"):
            msgspec.convert(record, ProviderRequest)


def _inside(record: Any, path: str) -> dict[str, Any]:
    for name in filter(None, path.split(".")):
        record = record[int(name)] if name.isdigit() else record[name]
    found: dict[str, Any] = record
    return found


@pytest.mark.spec("S1-08", "S1-21")
@pytest.mark.parametrize("who", ["developer", "fixer"])
def test_writers_are_asked_patch_first_or_not_at_all(who: str) -> None:
    with pytest.raises(ContractError, match="patchFirst"):
        msgspec.convert({**msgspec.to_builtins(REQUEST), "role": who}, ProviderRequest)


@pytest.mark.spec("S1-18", "S1-19")
def test_optional_constraints_are_absent_not_null() -> None:
    record = msgspec.to_builtins(REQUEST)["constraints"]
    assert record == {"timeoutMs": 20_000, "patchFirst": False}
    full = Constraints(timeoutMs=1, patchFirst=True, maxOutputTokens=5, temperature=0.2)
    assert msgspec.to_builtins(full) == {"timeoutMs": 1, "patchFirst": True, "maxOutputTokens": 5, "temperature": 0.2}


@pytest.mark.spec("S1-26", "S1-27", "S1-28")
@pytest.mark.parametrize("wrong", [{"code": "OOPS"}, {"message": None}, {"retriable": "no"}])
def test_an_error_outside_the_contract_is_rejected(wrong: dict[str, object]) -> None:
    good = {"code": "TIMEOUT", "message": "late", "retriable": True}
    assert msgspec.convert(good, ProviderFailure).code == "TIMEOUT"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**good, **wrong}, ProviderFailure)
