"""The embedded model, for real: llama.cpp in this process, a small model from a wheel, no network."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from orchestra.core.errors import UsageError
from orchestra.core.model import ContextArtifact, Form, ProviderResponse, Usage
from orchestra.patch.result import Patch
from orchestra.providers.contract import Serves, Weak
from orchestra.providers.local import EXPECT, Local, find_weights
from orchestra.providers.patience import Limits
from orchestra.workflows.replies import read_result
from tests.support.models import Line, failure, request
from tests.support.project import Project, role

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


ODD = (
    ContextArtifact("calc.py", "calc.py", 'def add(a, b):\n    return a - b\n\n# 인사 \\ "/" \n'),
    ContextArtifact("src/한글.js", "src/한글.js", "function f() {\r\n\treturn '안녕';\r\n}\r\n"),
)


@pytest.mark.spec("S1-79", "S1-97")
def test_a_reply_in_the_form_of_a_result_is_a_patch_of_a_file_that_was_shown(line: Line) -> None:
    asked = request("add() must add.", timeout=60, form="result", temperature=1.2, maxOutputTokens=600)
    response, _ = line.ask(msgspec.structs.replace(asked, contextArtifacts=ODD))
    assert response.finishReason == "stop"
    result = read_result(response.rawText)
    assert isinstance(result, Patch) and result.diff.startswith(("diff --git a/calc.py ", "diff --git a/src/한글.js "))


def test_a_reply_in_the_form_of_a_plan_names_the_files_that_were_shown(line: Line) -> None:
    asked = request("add() must add.", timeout=60, form="plan", temperature=1.2, maxOutputTokens=600)
    response, _ = line.ask(msgspec.structs.replace(asked, contextArtifacts=ODD))
    assert response.finishReason == "stop"
    for step in response.rawText.splitlines():
        assert step.startswith(("- `calc.py`: ", "- `src/한글.js`: "))


def test_the_engine_takes_the_grammars_of_a_large_model_too() -> None:
    """No large model is at hand: the small one is taken for one, and is cut off early."""
    model = Local(find_weights(""), limits=Limits(), small_below=0)

    async def replies() -> list[ProviderResponse]:
        asked = [request("add", timeout=60, form=form, maxOutputTokens=12) for form in get_args(Form)]
        return [
            await model.complete(msgspec.structs.replace(one, contextArtifacts=ODD), lambda _: None) for one in asked
        ]

    plan, result, decision = asyncio.run(replies())
    assert plan.rawText and plan.finishReason == "length"
    assert result.rawText.startswith("<<<AIO_RESULT_START>>>\n")
    assert decision.rawText.startswith("DECISION: ")


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


def _model(folder: Path, size: int) -> Local:
    path = folder / f"{size}.gguf"
    with path.open("wb") as file:
        file.truncate(size)  # sparse
    return Local(path, limits=Limits())


@pytest.mark.parametrize(("size", "small"), [(144_000_000, True), (999_999_999, True), (1_000_000_000, False)])
def test_a_small_model_says_so_and_judges_nothing(tmp_path: Path, size: int, small: bool) -> None:
    model = _model(tmp_path, size)
    assert isinstance(model, Weak) and model.warning == (f"{size}: {EXPECT}" if small else "")
    assert isinstance(model, Serves) and model.serves("evaluator", "evaluate") is not small
    assert model.serves("planner", "plan") and model.serves("developer", "execute") and model.serves("fixer", "fix")


def test_what_to_expect_of_a_small_model_is_told_before_the_run_and_when_it_has_failed(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "torn.gguf").write_bytes(b"no model\n")
    done = project.run("loop", "x is 2", "--check", "false", "--provider", "local:torn.gguf", "--no-input")
    said = (done.stdout + done.stderr).splitlines()
    told = [number for number, text in enumerate(said) if text.strip() == f"torn: {EXPECT}"]
    first, last = told
    assert done.returncode == 1
    assert first < next(number for number, text in enumerate(said) if "before any change" in text)
    assert last > next(number for number, text in enumerate(said) if text.startswith("failed: "))


def test_a_small_model_alone_cannot_decide_whether_a_goal_is_reached(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "torn.gguf").write_bytes(b"no model\n")
    done = project.run("loop", "x is 2", "--provider", "local:torn.gguf", "--no-input")
    assert done.returncode == 2
    assert "nothing can decide whether the goal is reached: give --check" in done.stderr


def test_a_provider_of_which_much_can_be_expected_is_not_warned_of(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", "계획"), role("developer", "<no result>"))
    done = project.loop("--no-input")
    assert EXPECT not in done.stdout + done.stderr
