"""What a model with a grammar is offered in each state of the evidence loop."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestra.core.text import estimated_tokens
from orchestra.policy.words import parse_line
from orchestra.workflows.evidence import offered, protocol
from orchestra.workflows.evidence.memory import Message, tagged
from orchestra.workflows.evidence.offered import action_schema, actions, decision_schema, line_pattern, planning_schema
from orchestra.workflows.evidence.shapes import Evidence, Job, Loop, begin, refused_evidence

TOOLS = ("grep", "head", "wc", "ls", "cat", "echo", "g++", "rg")
NAMES = ("src/저장.py", "build.sh", "README.md")
JOB = Job(goal="빌드가 왜 느린가?", maxSteps=4, tools=TOOLS, absent=("rg",), names=NAMES, words=("빌드", "slow"))
BEGUN = begin(JOB)


def found(step: int, command: str = "", text: str = "2:sleep 60", code: int = 0) -> Evidence:
    return Evidence(step, command or f"grep -n sleep {step}", code, text, (1, 1) if text else (0, 0), "", (code,))


def after(*evidence: Evidence, **more: Any) -> Loop:
    loop = BEGUN
    for one in evidence:
        loop = loop.with_evidence(one)
    return Loop(**{**{name: getattr(loop, name) for name in loop.__struct_fields__}, "step": len(evidence), **more})


GUIDED = (*BEGUN.messages, tagged("assistant", "MAIN_GUIDANCE", "더 보라", number=2))
ASKED = (*BEGUN.messages, tagged("user", "WORKER_ASK_ANSWER", "YES", number=2))


@pytest.mark.spec("S5-33", "S5-39", "S5-62")
@pytest.mark.parametrize(
    ("loop", "fits"),
    [
        (BEGUN, "call_tool"),  # no question and no end without evidence
        (after(refused_evidence(1, "rm x", "no")), "call_tool"),  # nothing was run yet
        (after(found(1)), "call_tool ask finalize"),
        (
            after(found(1), messages=ASKED, answers=(("q?", "YES"),), step=2),
            "call_tool finalize",
        ),  # it leads to a check
        (after(found(1), answers=(("q?", "YES"), ("r?", "NO"))), "call_tool finalize"),  # enough questions
        (after(found(1, "ls"), found(2, "ls")), "finalize"),  # it repeats itself
        (after(found(1, "ls"), found(2, "ls"), messages=GUIDED), "call_tool ask"),  # main wants more
        (after(found(1), messages=GUIDED, answers=(("q?", "YES"), ("r?", "NO"))), "call_tool"),
        (after(found(1), found(2), found(3), messages=GUIDED), "finalize"),
        (after(found(1), found(2), found(3)), "finalize"),  # the last step
        (after(refused_evidence(1, "rm x", "no"), step=3), "finalize"),
    ],
)
def test_the_worker_is_offered_what_makes_sense_now(loop: Loop, fits: str) -> None:
    assert " ".join(actions(JOB, loop)) == fits
    shapes = action_schema(JOB, loop).get("oneOf", [action_schema(JOB, loop)])
    assert [shape["properties"]["action"]["const"] for shape in shapes] == fits.split()


def test_a_worker_without_programs_hands_over() -> None:
    nothing = Job(goal="g", tools=("rg", "echo"), absent=("rg",))
    assert actions(nothing, begin(nothing)) == ("finalize",)


@settings(suppress_health_check=[HealthCheck.too_slow])  # another test may have the machine
@given(st.data())
def test_every_offered_line_is_read_as_a_command_of_programs_that_are_here(data: st.DataObject) -> None:
    for loop in (BEGUN, after(found(1))):
        line = data.draw(st.from_regex(re.compile(line_pattern(JOB, loop)), fullmatch=True))
        for stage in parse_line(line):
            assert stage.argv[0] in ("grep", "head", "wc", "ls", "cat", "g++")


@pytest.mark.parametrize(
    ("line", "first", "later"),
    [
        ("head -n 20 build.sh", True, True),
        ("wc -l src/저장.py", True, True),
        ("grep -rnI '빌드' src | head -n 10", True, True),
        ("head -n 20 nothing.py", False, True),  # there is no such file
        ("grep -rnI 'cache' .", False, True),
        ("cat a b 2>/dev/null | head -n 3 | wc -l", False, True),
        ("echo 1", False, False),  # no evidence
        ("rg slow", False, False),  # not on this machine
        ("ls; rm x", False, False),
        ("cat $HOME", False, False),
    ],
)
def test_the_first_command_is_a_look_at_what_is_there(line: str, first: bool, later: bool) -> None:
    assert bool(re.fullmatch(line_pattern(JOB, BEGUN), line)) is first
    assert bool(re.fullmatch(line_pattern(JOB, after(found(1))), line)) is later


def test_a_look_that_found_nothing_is_not_offered_again() -> None:
    loop = after(found(1, "grep -rnI 'slow' . | head -n 10", "", 1))
    assert not re.fullmatch(line_pattern(JOB, loop), "grep -rnI 'slow' . | head -n 10")
    assert re.fullmatch(line_pattern(JOB, loop), "grep -rnI '빌드' . | head -n 10")


@pytest.mark.spec("S5-44")
def test_the_longest_offered_action_is_no_longer_than_a_worker_may_write() -> None:
    longest = {"args": {"cmd": "힣" * offered.LINE}, "reason": "힣" * offered.REASON}
    reply = json.dumps({"action": "call_tool", "tool": "shell", **longest}, ensure_ascii=False)
    assert estimated_tokens(reply) <= protocol.WORKER_TOKENS
    assert isinstance(protocol.read_action(reply), protocol.CallTool)


@pytest.mark.spec("S5-49", "S5-62")
def test_main_may_continue_only_while_steps_are_left() -> None:
    assert [one["properties"]["decision"]["const"] for one in decision_schema(JOB, after(found(1)))["oneOf"]] == [
        "finalize",
        "continue",
    ]
    last = decision_schema(JOB, after(found(1), step=4))
    assert last["properties"]["decision"] == {"const": "finalize"}
    quoted = last["properties"]["summary_evidence"]
    assert quoted["items"] == {"enum": ["2:sleep 60"]}
    assert (quoted["minItems"], quoted["maxItems"]) == (1, 2)  # of one line alone an answer can be made
    assert last["required"] == ["summary_evidence", "decision", "answer"]  # judged after what it stands on is chosen


def test_only_output_of_commands_that_succeeded_can_be_quoted() -> None:
    failed, empty = found(1, text="ls: x: No such file", code=2), found(2, text="[no output]")
    assert offered.quotable(after(failed, empty)) == {}
    assert decision_schema(JOB, after(failed, empty, step=4))["properties"]["summary_evidence"]["maxItems"] == 0
    many = found(3, text="\n".join(f"줄 {number}: {'긴' * number}" for number in range(1, 200)))
    lines = offered.quotable(after(many))
    assert len(lines) == 24 and max(map(len, lines)) <= 120


@pytest.mark.spec("S5-09")
def test_a_first_turn_gathers_evidence_and_later_ones_may_answer_at_once() -> None:
    assert planning_schema(JOB, BEGUN)["properties"]["next"]["enum"] == ["collect_evidence"]
    later = Job(goal="g", memory=(Message("assistant", "답"),))
    ways = planning_schema(later, begin(later))["properties"]["next"]["enum"]
    assert ways == ["collect_evidence", "main_decision", "final_report"]


def test_every_text_of_a_schema_is_bounded() -> None:
    def unbounded(part: Any) -> list[Any]:
        if isinstance(part, list):
            return [one for item in part for one in unbounded(item)]
        if not isinstance(part, dict):
            return []
        kind = part.get("type")
        open_end = (kind == "string" and "maxLength" not in part) or (kind == "array" and "maxItems" not in part)
        return [part] * open_end + [one for value in part.values() for one in unbounded(value)]

    for schema in (planning_schema(JOB, BEGUN), action_schema(JOB, after(found(1))), decision_schema(JOB, BEGUN)):
        assert unbounded(schema) == []


def test_the_likeliest_files_share_words_with_the_goal() -> None:
    paths = ("a/b/c.py", "README.md", "src/note store.py", ".env", "src/build_index.py", "-rf")
    assert offered.likeliest(paths, "Why is the build slow?", most=400) == (
        "src/build_index.py",
        "README.md",
        "a/b/c.py",
    )
    assert offered.likeliest(paths, "build", most=30) == ("src/build_index.py",)
    assert offered.search_words("빌드가 왜 느린가? see `getOrCreate`") == ("빌드", "느린", "getOrCreate", "create")


def test_names_fit_into_exactly_so_many_characters() -> None:
    assert [offered.likeliest(["ab", "cd"], "x", most=most) for most in (3, 4, 7, 8)] == [
        (),
        ("ab",),
        ("ab",),
        ("ab", "cd"),
    ]


def test_a_line_of_exactly_120_characters_can_be_quoted() -> None:
    assert offered.quotable(after(found(1, text=f"{'가' * 120}\n{'나' * 121}"))) == {"가" * 120: 1}


@pytest.mark.parametrize(("tools", "ls"), [(("ls", "cat"), True), (("cat",), False)])
def test_a_first_look_without_any_name_or_word_lists_the_folder(tools: tuple[str, ...], ls: bool) -> None:
    job = Job(goal="?", tools=tools)
    assert (line_pattern(job, begin(job)) == "^(ls)$") is ls
    seen = begin(job).with_evidence(Evidence(1, "ls", 0, "", (0, 0), "", (0,)))
    assert line_pattern(job, seen) != "^(ls)$"  # once
