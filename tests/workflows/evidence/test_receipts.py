"""Receipts of the evidence loop: which messages and evidence went into a call, how much of each, what was left out."""

from __future__ import annotations

from typing import Any

import pytest

from orchestra.core.shown import Omitted
from orchestra.workflows.evidence.memory import Message, compacted, tagged, tokens_of
from orchestra.workflows.evidence.receipts import dropped
from tests.support.evidence import ask_agent, decision, events_of, finalize, planning, requests, tool
from tests.support.project import Project

LONG = "".join(f"{number} 아주 긴 줄입니다 정말로 긴 줄\n" for number in range(100))


def receipts(project: Project) -> dict[str, dict[str, Any]]:
    """The receipt of each call of the newest run, by its key."""
    started = [event.payload for event in events_of(project) if event.type == "PHASE_STARTED"]
    return {payload["key"]: payload["conversation"] for payload in started if "conversation" in payload}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A run whose conversation is compacted, with more evidence than is shown, and the same result twice."""
    lines = [*(tool(f"head -n {number} 긴.txt") for number in range(60, 74)), tool("head -n 60 긴.txt")]
    project = Project(
        tmp_path_factory.mktemp("receipts") / "p", planning(), *lines, finalize(), decision(answer="길다")
    )
    (project.path / "긴.txt").write_text(LONG)
    ran = ask_agent(project, "--max-steps", "20")
    assert ran.returncode == 0, ran.stderr
    return project


@pytest.mark.spec("S5-03", "S5-48")
def test_a_receipt_has_what_the_request_has(project: Project) -> None:
    """Every piece of a receipt is found in the request that was sent, with the recorded size, and nothing else is."""
    decided = receipts(project)["decision.1"]
    [sent] = requests(project, "evaluate/decision")
    assert [len(message["content"]) for message in sent["messages"]] == [one["total"] for one in decided["messages"]]
    for message, one in zip(sent["messages"], decided["messages"], strict=True):
        tag = message["content"].partition("]")[0].removeprefix("[")
        assert one["name"] == (tag if message["content"].startswith("[") else message["role"])
    blocks = sent["prompt"]["user"].split("<evidence ")[1:]
    assert [block.partition('"')[2].partition('"')[0] for block in blocks] == [
        str(one["step"]) for one in decided["evidence"]
    ]
    for block, one in zip(blocks, decided["evidence"], strict=True):
        body = block.partition("exit=0\n")[2].rpartition("\n</evidence>")[0]
        assert (
            one["shown"] < one["total"]
            and body.partition("\n[… ")[2] == f"{one['total'] - one['shown']} more characters]"
        )
        assert len(body.partition("\n[… ")[0]) == one["shown"]


def test_a_receipt_names_what_was_left_out_and_why(project: Project) -> None:
    found = receipts(project)
    assert [one["step"] for one in found["decision.1"]["evidence"]] == list(range(1, 13))  # the first distinct ones
    assert "leftOut" not in found["planning.1"] and "evidence" not in found["planning.1"]
    decided = {(one["name"], one.get("step", 0)): one for one in found["decision.1"]["leftOut"]}
    assert decided["head -n 60 긴.txt", 15]["why"] == "the same command with the same output is shown"
    assert decided["head -n 73 긴.txt", 14]["why"] == "only 12 pieces are shown"
    guarded = decided["WORKER_TOOL_RESULT", 0]
    assert guarded["why"] == "summed up by ContextGuard" and guarded["tokens"] > 1000
    worker = [one["step"] for one in found["worker.16"]["leftOut"] if "step" in one]
    assert worker == [1, 2, 3]  # the newest twelve are shown


def test_show_prompt_prints_the_receipt(project: Project) -> None:
    shown = project.run("show", "last", "--prompt", "decision.1").stdout
    receipt = shown[shown.index("# conversation") : shown.index("# system")]
    assert "12 pieces of evidence" in receipt and "SESSION_COMPACTION" in receipt
    one = receipts(project)["decision.1"]["evidence"][0]
    assert f"{one['shown']} of {one['total']}" in receipt and "head -n 60 긴.txt" in receipt
    assert "left out: evidence of step 15, head -n 60 긴.txt" in receipt
    assert "by ContextGuard)" in receipt


def test_what_compactions_took_is_summed_up_and_nothing_is_lost() -> None:
    said = tuple(tagged("user", "WORKER_TOOL_RESULT", "가" * 900, number=at) for at in range(30))
    once = compacted((*said, Message("assistant", "답")), 4000, goal="g", step=1).messages
    taken = dropped((*said, Message("assistant", "답")), once)
    spoken = [one for one in once if one.role != "system"]
    assert sum(one.tokens for one in taken) == tokens_of((*said, Message("assistant", "답"))) - tokens_of(spoken)
    assert sum(one.count for one in taken) == 31 - len(spoken)
    twice = compacted((*once, *said), 4000, goal="g", step=2).messages
    both = dropped((*once, *said), twice, taken)
    assert sum(one.count for one in both) == 61 - len([one for one in twice if one.role != "system"])
    shortened = dropped((Message("user", "가" * 100),), (Message("user", "가"),))
    assert shortened == (Omitted("user", "shortened by ContextGuard", 99, 0),)


def test_what_no_compaction_took_is_not_named() -> None:
    said = (tagged("user", "AGENT_GOAL", "g"), Message("assistant", "a"))
    assert dropped(said, said) == ()
    assert [(one.name, one.count) for one in dropped(said, said[:1])] == [("assistant", 1)]
