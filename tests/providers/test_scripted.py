"""The scripted provider file (U-07)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from orchestra.core.calls import PastCall
from orchestra.core.errors import UsageError
from orchestra.core.model import ProviderFailure, ProviderResponse
from orchestra.core.records import ArtifactRef, utf8
from orchestra.core.run import digest
from orchestra.providers.scripted import ScriptedProvider, load_script
from tests.providers.test_contract import REQUEST
from tests.support.tasks import Tasks, step


def provider(tmp_path: Path, *replies: dict[str, Any]) -> ScriptedProvider:
    path = tmp_path / "replies.yaml"
    path.write_text(yaml.safe_dump({"replies": list(replies)}, allow_unicode=True))
    return ScriptedProvider(load_script(path), name="replies.yaml")


def answers(given: ScriptedProvider, **fields: Any) -> ProviderResponse:
    request = msgspec.structs.replace(REQUEST, **fields)
    return asyncio.run(given.complete(request, lambda text: None))


def past(text: str, *, source: str = "", error: ProviderFailure | None = None) -> PastCall:
    raw = ArtifactRef("artifacts/plan/iter-0001.raw.txt", len(utf8(text)), digest(utf8(text)))
    return PastCall(key="plan.1", role="planner", raw=raw, error=error, source=source)


def test_the_first_unused_reply_whose_match_fits_is_used_once(tmp_path: Path) -> None:
    given = provider(
        tmp_path,
        {"match": {"phase": "evaluate"}, "text": "judge"},
        {"match": {"role": "planner", "iteration": 2}, "text": "second"},
        {"match": {"contains": "calc.py: no"}, "text": "never"},
        {"match": {"contains": "def add"}, "text": "by content"},
        {"text": "anything"},
    )
    assert answers(given).rawText == "by content"
    assert answers(given).rawText == "anything"
    assert answers(given, iteration=2).rawText == "second"
    gone = answers(given)
    assert gone.error and gone.error.code == "BAD_REQUEST" and not gone.error.retriable
    assert "role=planner phase=plan iteration=1" in gone.error.message
    assert (gone.rawText, gone.finishReason, gone.durationMs) == ("", "error", 0)


def test_a_repeated_reply_is_never_used_up(tmp_path: Path) -> None:
    given = provider(tmp_path, {"text": "again", "repeat": True})
    assert [answers(given).rawText for _ in range(3)] == ["again"] * 3


def test_what_an_earlier_process_used_is_remembered_by_its_bytes(tmp_path: Path) -> None:
    given = provider(tmp_path, {"text": "하나"}, {"text": "둘"}, {"text": "하나"})
    given.remember(past("하나"))
    assert [answers(given).rawText for _ in range(2)] == ["둘", "하나"]


def test_two_replies_of_the_same_words_are_told_apart_by_their_place(tmp_path: Path) -> None:
    given = provider(
        tmp_path, {"match": {"role": "fixer"}, "text": "which?"}, {"text": "which?"}, {"text": "then this"}
    )
    given.remember(past("which?", source="2"))
    assert answers(given).rawText == "then this"


def test_an_error_is_given_and_remembered_as_it_is_written(tmp_path: Path) -> None:
    error = {"code": "RATE_LIMIT", "message": "slow down", "retriable": True}
    given = provider(tmp_path, {"error": error}, {"error": {**error, "code": "AUTH"}, "text": "partial"})
    first = answers(given)
    assert (first.finishReason, first.error and first.error.code) == ("error", "RATE_LIMIT")
    again = provider(tmp_path, {"error": error}, {"text": "after"})
    again.remember(past("", error=msgspec.convert(error, ProviderFailure)))
    assert answers(again).rawText == "after"


def test_usage_finish_reason_and_chunks_are_as_scripted(tmp_path: Path) -> None:
    tokens: list[str] = []
    reply = {"text": "가나다라", "chunk": 3, "finishReason": "length", "usage": {"inputTokens": 7, "outputTokens": 2}}
    given = provider(tmp_path, reply)
    response = asyncio.run(given.complete(REQUEST, tokens.append))
    assert tokens == ["가나다", "라"]
    assert response.finishReason == "length"
    assert msgspec.to_builtins(response.usage) == {"inputTokens": 7, "outputTokens": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("replies: 5", r"expected `array`"),
        ("replies:\n- txt: hi", r"bad.yaml:2: unknown key `replies.0.txt`; did you mean `text`\?"),
        (
            "replies:\n- match: {role: cook}\n  text: hi",
            r"bad.yaml:2: `replies.0.match.role`: .*'cook'; it can be planner,",
        ),
        ("reply: []", r"`replies` is missing"),
        ("replies: [", r"not valid"),
        ("", r"not valid"),
    ],
)
def test_a_wrong_script_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_script(path)


def test_a_json_script_works_too(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text('{"replies": [{"text": "제이슨"}]}')
    assert answers(ScriptedProvider(load_script(path), name="x")).rawText == "제이슨"


PLANNED = '[{"task_id": "a"}]'


@pytest.mark.parametrize(
    ("reply", "served"),
    [
        ({"text": "모두 끝났습니다."}, True),
        ({"match": {"role": "evaluator", "phase": "evaluate"}, "text": "all done"}, True),
        ({"match": {"agent": "summarizer"}, "text": PLANNED}, True),  # it was said so
        ({"match": {"agent": "other"}, "text": "all done"}, False),
        ({"match": {"role": "planner"}, "text": "all done"}, False),
        ({"match": {"phase": "plan"}, "text": "all done"}, False),
        ({"text": PLANNED}, False),
        ({"text": f"\n {PLANNED}"}, False),
        ({"text": '{"tasks": []}'}, False),
        ({"text": f"```json\n{PLANNED}\n```"}, False),
        ({"text": " \n"}, False),
    ],
)
def test_an_agent_is_served_by_its_name_or_by_prose_but_not_by_a_plan(
    tmp_path: Path, reply: dict[str, Any], served: bool
) -> None:
    given = provider(tmp_path, {"match": {"phase": "plan"}, "text": PLANNED}, reply)
    assert given.serves("evaluator", "evaluate", "summarizer") is served


@pytest.mark.parametrize(
    ("text", "summary"), [("모두 끝났습니다.", "모두 끝났습니다."), ("[1]", "none: no summarizer was asked")]
)
def test_prose_without_a_name_is_a_summary_and_a_plan_is_none(tmp_path: Path, text: str, summary: str) -> None:
    project = Tasks(tmp_path / "p")
    plan = json.dumps([step("one", tool="echo", inputs={"args": ["1"]})])
    project.write_script({"match": {"phase": "plan"}, "text": plan}, {"text": text})
    assert project.dag("--approval", "never").returncode == 0
    assert f"## Summary\n\n{summary}\n" in project.read("report.md")


def test_only_the_very_reply_that_an_earlier_process_got_is_used_up(tmp_path: Path) -> None:
    """Of two failures without a text, and of two texts without a failure, the bytes or the failure decide."""
    busy, gone = ({"error": {"code": code, "message": "m", "retriable": True}} for code in ("RATE_LIMIT", "TIMEOUT"))
    given = provider(tmp_path, busy, gone, {"text": "하나"}, {"text": "둘"})
    given.remember(past("", error=msgspec.convert(gone["error"], ProviderFailure)))
    given.remember(past("둘"))
    first, second = answers(given), answers(given)
    assert first.error == msgspec.convert(busy["error"], ProviderFailure)
    assert second.rawText == "하나"
