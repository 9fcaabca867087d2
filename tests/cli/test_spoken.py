"""What models say while they say it: whole lines, masked, each with its step."""

from __future__ import annotations

import click
import pytest
from msgspec import UNSET

from orchestra.cli.spoken import Speech, Spoken
from orchestra.cli.text import paint_diff, painted, step_line, streamed
from orchestra.core.faces import Output, Token
from orchestra.core.records import Event, EventType
from orchestra.core.redact import Redactor
from orchestra.workflows.description import ShownLine

SECRET = "s3cr3t-value-1234"


def token(text: str, key: str = "plan.1", *, restart: bool = False) -> Token:
    return Token("r", key, "planner", "main", text, restart)


def test_text_is_told_by_whole_lines_and_the_last_one_at_the_end() -> None:
    spoken = Spoken()
    assert [spoken.more(token(text)) for text in ("첫 ", "줄\n둘째\n셋", "")] == [[], ["첫 줄", "둘째"], []]
    assert spoken.more(token("other\n", "plan.2")) == ["other"]
    assert spoken.more(token("새로", restart=True)) == ["(asked again)"]  # what was said before is void
    assert spoken.rest("r", "plan.1") == ["새로"] and spoken.rest("r", "plan.1") == []


def test_a_line_without_end_is_told_in_pieces() -> None:
    spoken = Spoken()
    assert spoken.more(token("x" * 10_000)) == []
    assert spoken.more(token("y")) == ["x" * 10_000 + "y"] and spoken.rest("r", "plan.1") == []


class Below:
    where = "child.1/ "


@pytest.mark.parametrize("stream", [True, False])
def test_secrets_are_masked_and_a_line_has_its_step(stream: bool) -> None:
    speech = Speech(Redactor([SECRET]), {"r": Below()}, stream=stream)
    shown, lines = [], []
    for text in ("key ", SECRET[:5], f"{SECRET[5:]}\n", "끝"):
        said, more = speech.more(token(text))
        shown.append(said.text if said else "")
        lines += more
    lines += speech.settled(Event("00000002", "r", "2026-01-01T00:00:00Z", "PHASE_COMPLETED", {"key": "plan.1"}))
    assert SECRET not in "".join(shown) + "".join(lines)
    plain = [click.unstyle(line) for line in lines]
    assert [line.startswith("child.1/ plan.1 │ ") for line in plain] == ([True, True] if stream else [])
    assert not stream or plain[1].endswith("│ 끝")


def test_the_records_of_a_stream() -> None:
    assert streamed(Output("r", "k", "줄")) == {"type": "output", "runId": "r", "key": "k", "line": "줄"}
    said = {"type": "token", "runId": "r", "key": "plan.1", "agent": "main", "role": "planner", "text": "가"}
    assert streamed(token("가")) == said
    assert streamed(token("가", restart=True)) == {**said, "restart": True}


@pytest.mark.parametrize(
    ("type", "iteration", "line"),
    [
        ("RUN_COMPLETED", None, "✓   끝"),
        ("EVALUATION_FAILED_FIXABLE", 2, "• 2 끝"),
        ("RUN_FAILED", None, "✗   끝"),
        ("PHASE_STARTED", 1, "· 1 끝"),
        ("RUN_CREATED", None, ""),
    ],
)
def test_a_step_is_told_in_one_line_with_its_mark(type: EventType, iteration: int | None, line: str) -> None:
    event = Event("00000002", "r", "2026-01-01T00:00:00Z", type, {}, iteration=iteration or UNSET)
    assert click.unstyle(step_line(event, lambda event: "끝")) == line
    assert step_line(event, lambda event: "") == ""


def test_lines_and_diffs_are_coloured_and_their_text_stays() -> None:
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+나\x1b\n c"
    shown = paint_diff(diff)
    assert [click.unstyle(line) for line in shown] == diff.replace("\x1b", "\\x1b").splitlines()
    bold = [line.startswith("\x1b[1m") for line in shown]
    assert bold == [True, True, True, False, False, False, False]
    assert [line[:5] for line in shown[3:6]] == ["\x1b[36m", "\x1b[31m", "\x1b[32m"]
    marks = [painted(ShownLine("x", mark)) for mark in ("", "dim", "bold", "warning")]
    assert marks == ["x", "\x1b[2mx\x1b[0m", "\x1b[1mx\x1b[0m", "\x1b[33mx\x1b[0m"]
