"""The evidence loop with models that are small: what they are offered, and what becomes of replies that are cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.evidence import (
    ANSWER,
    GREP,
    USUAL,
    ask_agent,
    decision,
    events_of,
    finalize,
    main,
    natives,
    planning,
    requests,
    result,
    tool,
    worker,
)
from tests.support.project import Project

OVERFLOW = {
    "code": "BAD_REQUEST",
    "message": "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "retriable": False,
}


@pytest.mark.spec("S5-42", "S5-52")
def test_the_schema_of_a_call_follows_the_state(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    assert ask_agent(project, "--max-steps", "2").stdout == f"{ANSWER}\n"
    first, last = (one["constraints"]["schema"] for one in requests(project, "execute/worker"))
    look = first["properties"]["args"]["properties"]["cmd"]["pattern"]
    assert re.fullmatch(look, "head -n 20 calc.py") and not re.fullmatch(look, GREP)  # a grammar would offer only looks
    assert last["properties"] == {"action": {"const": "finalize"}}  # the last step
    [judged] = requests(project, "evaluate/decision")
    assert judged["constraints"]["schema"]["properties"]["decision"] == {"const": "finalize"}
    shown = requests(project, "execute/worker")[0]["prompt"]["user"]
    assert "Some files of the project: calc.py" in shown and shown.endswith("Goal:\nadd()는 무엇을 하나?")


def test_files_that_the_configuration_hides_are_not_named(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    project.configure("context: {hide: [자료/]}\n")
    (project.path / "자료").mkdir()
    (project.path / "자료" / "add.csv").write_text("1")
    assert ask_agent(project).returncode == 0
    for request in requests(project, "execute/worker"):
        assert "자료" not in str(request) and "calc.py" in str(request)


def test_lines_that_main_chose_for_its_answer_come_with_it(tmp_path: Path) -> None:
    chosen = ["2:    return a - b", "made up by the model"]
    project = Project(
        tmp_path / "p", planning(), tool(GREP), finalize(), decision(answer="뺀다", summary_evidence=chosen)
    )
    assert ask_agent(project).stdout == "뺀다\n\nEvidence:\n- step 1: 2:    return a - b\n"


def test_a_repeated_command_is_shown_to_main_once_and_in_order(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", planning(), tool("ls"), tool(GREP), tool("ls"), finalize(), decision(answer="x"))
    assert ask_agent(project).returncode == 0
    [judged] = requests(project, "evaluate/decision")
    assert re.findall(r'<evidence step="(\d)">', judged["prompt"]["user"]) == ["1", "2"]
    assert "You ran your last command before" in requests(project, "execute/worker")[3]["prompt"]["user"]


@pytest.mark.spec("S5-43", "S5-53", "S5-56")
def test_a_reply_that_was_cut_is_asked_for_in_a_shorter_form(tmp_path: Path) -> None:
    cut = worker('{"action": "call_tool", "args": {"cmd": "grep', finishReason="length")
    shorter = worker({"action": "finalize"}, match={"contains": "cut at its length limit; write a much shorter one"})
    thinks = main("<think>끝나지 않는 생각", "execute", finishReason="length")
    half = main("답은 아마도", "execute", finishReason="length", match={"contains": "cut at its length limit"})
    project = Project(tmp_path / "p", planning(), cut, shorter, decision(answer=""), thinks, half)
    ran = ask_agent(project)
    assert (ran.returncode, ran.stdout) == (0, "답은 아마도 […]\n"), ran.stderr


@pytest.mark.spec("S5-03", "S5-55")
def test_a_call_that_is_too_long_for_the_server_is_made_again_with_half_the_context(tmp_path: Path) -> None:
    line = "아주 긴 줄입니다 정말로 긴 줄\n"
    too_long = {**decision(), "error": OVERFLOW}
    project = Project(tmp_path / "p", planning(), tool("cat 긴.txt"), finalize(), too_long, decision(answer="길다"))
    (project.path / "긴.txt").write_text(line * 400)
    assert ask_agent(project).stdout == "길다\n"
    before, after = (one["prompt"]["user"].count("긴 줄입니다") for one in requests(project, "evaluate/decision"))
    assert after < 0.7 * before
    assert "ForcedSynthesis" not in {event.payload.get("state") for event in events_of(project)}


def test_a_server_that_finds_every_call_too_long_fails_the_run_in_order(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", {"error": OVERFLOW, "repeat": True})
    ran = ask_agent(project)
    assert ran.returncode == 1 and "exceeds the available context size" in ran.stderr
    assert natives(project).count("planning-start") == 3  # whole, half and a quarter
    project.write_script(planning(), tool("ls"), {"error": OVERFLOW, "repeat": True})
    again = ask_agent(project, session="s2")
    assert again.returncode == 0 and again.stdout.startswith("No model could write an answer to:")
    assert result(project)["evidence"][0]["command"] == "ls"
