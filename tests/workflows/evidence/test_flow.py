"""The evidence loop from its first call to its answer, on scripts, with real commands in the sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.evidence import (
    ANSWER,
    GREP,
    USUAL,
    ask_agent,
    decision,
    done,
    events_of,
    finalize,
    main,
    natives,
    planning,
    requests,
    result,
    runs_of,
    said,
    session,
    states,
    tool,
    worker,
)
from tests.support.project import KNOWN, Project, records
from tests.support.runs import verify


def conforms(project: Project) -> None:
    for run in runs_of(project):
        assert [str(finding) for finding in verify(run, KNOWN)] == []


@pytest.mark.spec("S5-01", "S5-02", "S5-04", "S5-05", "S5-07", "S5-08", "S5-09", "S5-11", "S5-12", "S5-17", "S5-20")
@pytest.mark.spec("S5-29", "S5-30", "S5-31", "S5-33", "S5-34", "S5-35", "S5-37", "S5-41", "S5-48", "S5-49", "S5-51")
@pytest.mark.spec("S5-66", "S5-75", "S5-86")
def test_a_goal_is_answered_from_evidence(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    ran = ask_agent(project, "--json")
    assert ran.returncode == 0, ran.stderr
    assert done(ran.stdout)["result"]["answer"] == ANSWER
    found = result(project)
    [piece] = found["evidence"]
    assert piece["command"] == GREP and piece["exitCode"] == 0 and piece["exitCodes"] == [0, 0]
    assert piece["text"] == "2:    return a - b" and piece["lines"] == [1, 1]
    assert (runs_of(project)[-1] / piece["artifact"]).read_text() == "2:    return a - b\n"
    assert found["files"] == [{"path": "calc.py", "lines": [2, 2]}]
    assert states(project) == ["PlanIntent", "AcquireEvidence", "AssessSufficiency", "Done"]
    steps = [(e.payload.get("native"), e.payload["step"]) for e in events_of(project) if e.payload.get("step")]
    assert [native for native, step in steps if step == 1] == [
        "worker-start",
        "worker-action",
        "tool-start",
        "tool-result",
    ]
    assert natives(project) == [
        *("start", "planning-start", "planning-result", "worker-start", "worker-action", "tool-start", "tool-result"),
        *("worker-start", "worker-action", "main-start", "main-decision", "final-answer", "complete"),
    ]
    assert said(project) == [
        "[AGENT_GOAL:default] add()는 무엇을 하나?",
        "[PLANNING_RESULT] collect_evidence: look first",
        f"[WORKER_TOOL_1] {GREP}",
        "[WORKER_TOOL_RESULT_1] exit=0,0\n2:    return a - b",
        ANSWER,
    ]
    last_two = [event.payload.get("native", event.type) for event in events_of(project)[-2:]]
    assert last_two == ["complete", "RUN_COMPLETED"]  # S5-11: saved first
    conforms(project)


def test_without_json_stdout_is_the_answer_only(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    ran = ask_agent(project)
    assert (ran.returncode, ran.stdout) == (0, f"{ANSWER}\n")
    for line in ("planning-result: collect_evidence", "tool-start: step 1: $ grep -n", "tool-result: step 1: exit 0,0"):
        assert line in ran.stderr  # S5-80 … S5-82 are shown live, on stderr
    [found] = [line for line in ran.stderr.splitlines() if line.startswith("  evidence, step 1: $ ")]
    assert f"{GREP} (exit 0,0, lines 1-1): " in found and Path(found.rpartition(": ")[2]).exists()


@pytest.mark.spec("S5-36", "S5-37", "S5-38")
def test_stderr_and_a_failing_command_are_evidence(tmp_path: Path) -> None:
    seen = {"contains": "[WORKER_TOOL_RESULT_1] exit=2\n[stderr]\n"}
    project = Project(
        tmp_path / "p",
        planning(),
        tool("ls 없는파일"),
        worker({"action": "finalize"}, match=seen),
        decision(answer="없다"),
    )
    ran = ask_agent(project)
    assert ran.returncode == 0
    [piece] = result(project)["evidence"]
    assert piece["exitCode"] == 2 and "[stderr]" in piece["text"] and piece["lines"] == [0, 0]
    assert (
        "없는파일" in (runs_of(project)[0] / piece["artifact"]).read_text()
    )  # what a reader checks is not an empty file
    assert "tool-result: step 1: exit 2, stderr: " in ran.stderr


def test_refused_command_lines_are_evidence_and_nothing_runs(tmp_path: Path) -> None:
    lines = ("ls; touch gone", "perl -e 1", "cat $HOME/x", "grep x calc.py > out")
    project = Project(tmp_path / "p", planning(), *map(tool, lines), finalize(), decision(answer="nothing ran"))
    assert ask_agent(project).returncode == 0
    found = result(project)["evidence"]
    assert [piece["exitCode"] for piece in found] == [126] * 4
    assert all(piece["text"].startswith("[not run: ") for piece in found)
    assert "whitelist" in found[1]["text"]
    assert sorted(path.name for path in project.path.iterdir()) == [".orchestra", "calc.py", "runs"]
    conforms(project)


def test_a_rule_that_forbids_holds_for_the_worker_too(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", planning(), tool("grep -r x ."), finalize(), decision(answer="no"))
    project.configure('rules: [{prefix: [grep, "-r"], decision: forbid, reason: "too slow here"}]\n')
    assert ask_agent(project).returncode == 0
    [piece] = result(project)["evidence"]
    assert piece["exitCode"] == 126 and "too slow here" in piece["text"]


def test_evidence_tools_are_for_evidence_only(tmp_path: Path) -> None:
    """The worker may start `grep`; a task graph of the same project may not."""
    project = Project(tmp_path / "p", *USUAL)
    assert ask_agent(project).returncode == 0
    assert project.run("policy", "explain", "--", "grep", "x").returncode == 5


def test_a_tool_taken_out_of_the_configuration_is_refused(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", planning(), tool("grep return calc.py"), finalize(), decision(answer="x"))
    project.configure("evidence: {tools: [ls]}\n")
    assert ask_agent(project).returncode == 0
    [piece] = result(project)["evidence"]
    assert piece["exitCode"] == 126 and "whitelist" in piece["text"]


@pytest.mark.spec("S5-06", "S5-42", "S5-43", "S5-46", "S5-61")
def test_a_worker_that_never_keeps_the_protocol_leads_to_an_answer(tmp_path: Path) -> None:
    garbage = [worker(text) for text in ("hm", "{}", '{"action": "rm"}', "[]", '{"action": ', "예", "{{{")]
    forced = main("아마도 뺄셈이다.", "execute", match={"contains": "No more evidence can be gathered"})
    project = Project(tmp_path / "p", planning(), *garbage, forced)
    ran = ask_agent(project)
    assert (ran.returncode, ran.stdout) == (0, "아마도 뺄셈이다.\n"), ran.stderr
    assert states(project) == ["PlanIntent", "AcquireEvidence", "ForcedSynthesis", "Done"]
    assert "[WORKER_VALIDATION_FAIL_1]" in said(project)
    worker_calls = [event for event in events_of(project) if event.payload.get("native") == "worker-start"]
    assert len(worker_calls) == 7  # one, and six repairs


@pytest.mark.spec("S5-43", "S5-53")
def test_a_repair_names_what_was_wrong(tmp_path: Path) -> None:
    wrong = worker({"action": "call_tool", "args": {"cmd": "ls"}, "reason": "x" * 200})
    right = worker({"action": "finalize"}, match={"contains": "`reason` has 200 characters"})
    judged = main({"decision": "finalize", "answer": "ok"}, "evaluate", match={"contains": "Invalid enum value"})
    project = Project(tmp_path / "p", planning(), wrong, right, decision("maybe"), judged)
    assert ask_agent(project).stdout == "ok\n"
    assert not result(project)["evidence"]


@pytest.mark.spec("S5-44", "S5-45")
def test_a_long_reply_of_the_worker_is_written_again(tmp_path: Path) -> None:
    long = worker('{"action": "finalize"}' + " 그리고" * 300)
    again = worker({"action": "finalize"}, match={"contains": "at most 256 are allowed"})
    project = Project(tmp_path / "p", planning(), long, again, decision(answer="ok"))
    assert ask_agent(project).stdout == "ok\n"


@pytest.mark.spec("S5-32", "S5-55", "S5-56")
def test_every_failure_of_main_still_ends_in_an_answer(tmp_path: Path) -> None:
    bad = [main("no json", "plan"), main("still none", "plan"), main("{}", "plan")]
    undecided = [main("hm", "evaluate") for _ in range(3)]
    answers = [main('{"answer": 1}', "execute") for _ in range(3)]
    project = Project(tmp_path / "p", *bad, tool(GREP), finalize(), *undecided, finalize(), *undecided, *answers)
    ran = ask_agent(project, "--max-steps", "3")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("No model could write an answer to: add()는") and GREP in ran.stdout
    assert "{" not in ran.stdout  # S5-60
    tags = [text.split("]")[0] for text in said(project)]
    assert [tag for tag in tags if "FAIL" in tag] == [
        *("[PLANNING_FAIL", "[MAIN_DECISION_FAIL_2", "[MAIN_DECISION_FAIL_3", "[MAIN_FORCE_FINALIZE_FAIL"),
    ]


@pytest.mark.spec("S5-59", "S5-60")
@pytest.mark.parametrize("draft", ['{"answer": "뺀다"}', '```json\n["a", "b"]\n```', '{"answer": "broken off'])
def test_an_answer_that_is_json_is_written_again_as_text(tmp_path: Path, draft: str) -> None:
    rewritten = main("뺀다.", "execute", match={"contains": "to be written as plain text"})
    project = Project(tmp_path / "p", planning("main_decision"), decision(answer=draft), rewritten)
    assert ask_agent(project).stdout == "뺀다.\n"


@pytest.mark.spec("S5-25", "S5-62")
def test_the_step_limit_leads_to_forced_synthesis(tmp_path: Path) -> None:
    steps = [tool("ls"), finalize(), tool("wc -l calc.py")]
    project = Project(tmp_path / "p", planning(), *steps, decision("continue", guidance="more"), main("끝", "execute"))
    assert ask_agent(project, "--max-steps", "3").stdout == "끝\n"
    assert states(project)[-2:] == ["ForcedSynthesis", "Done"]
    assert [piece["step"] for piece in result(project)["evidence"]] == [1, 3]  # finalize is a step too


@pytest.mark.spec("S5-50", "S5-76")
def test_guidance_of_main_reaches_the_worker(tmp_path: Path) -> None:
    told = worker({"action": "finalize"}, match={"contains": "look at line 2"})
    project = Project(
        *(tmp_path / "p", planning(), finalize()),
        *(decision("continue", guidance="look at line 2", needed_evidence=["줄 2"]), told, decision(answer="ok")),
    )
    assert ask_agent(project).stdout == "ok\n"
    assert "[MAIN_GUIDANCE_1] look at line 2" in said(project)


@pytest.mark.spec("S5-57", "S5-58")
@pytest.mark.parametrize("think", [True, False])
def test_main_says_whether_forced_synthesis_may_think(tmp_path: Path, think: bool) -> None:
    more = decision("continue", forced_synthesis_enable_think=think)
    project = Project(tmp_path / "p", planning(), finalize(), more, main("<think>음</think>답", "execute"))
    assert ask_agent(project, "--max-steps", "1").stdout == "답\n"
    [asked] = requests(project, "execute/answer")
    assert asked["constraints"]["thinkBypass"] is (not think)


@pytest.mark.spec("S5-09")
def test_a_goal_that_needs_no_evidence_is_answered_at_once(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", planning("final_report"), main("안녕하세요!", "execute"))
    ran = ask_agent(project, goal="안녕", command="chat:turn")
    assert (ran.returncode, ran.stdout) == (0, "안녕하세요!\n")
    assert session(project)["turn"] == 1  # G5-6


@pytest.mark.spec("S5-03", "S5-10", "S5-63", "S5-64", "S5-65", "S5-67")
def test_a_long_conversation_is_compacted_before_the_next_call(tmp_path: Path) -> None:
    lines = [tool(f"head -n {number} 긴.txt") for number in range(60, 74)]
    more = decision("continue", guidance="더 보라", needed_evidence=["몇 줄인가"])
    project = Project(tmp_path / "p", planning(), finalize(), more, *lines, finalize(), decision(answer="길다"))
    (project.path / "긴.txt").write_text("".join(f"{number} 아주 긴 줄입니다 정말로 긴 줄\n" for number in range(100)))
    ran = ask_agent(project, "--max-steps", "20")
    assert ran.stdout == "길다\n", ran.stderr
    assert "compaction-complete: about" in ran.stderr
    found = natives(project)
    assert "compaction-start" in found and "compaction-complete" in found
    at = states(project)
    assert at[at.index("ContextGuard") + 1] == at[at.index("ContextGuard") - 1] == "AcquireEvidence"  # S5-10
    for event in events_of(project):
        if event.payload.get("native") == "compaction-complete":
            assert event.payload["phase"] == "context-guard"
            assert event.payload["outcome"]["after"] < 0.85 * 8192 <= event.payload["outcome"]["before"] + 2000
    texts = said(project)
    assert any(text.startswith("[SESSION_COMPACTION]\nGoal: add()는") for text in texts)
    for key in ("worker.16", "decision.2"):  # the calls after the last compaction have the goal and the open points
        user = project.run("show", "last", "--prompt", key).stdout.rpartition("\n# user\n")[2]
        assert "Goal:\nadd()는 무엇을 하나?" in user and "- 몇 줄인가" in user, key
    for event in events_of(project):
        if told := event.payload.get("conversation"):
            assert told["tokens"] < 8192, told
    conforms(project)


@pytest.mark.spec("S5-69", "S5-70", "S5-71", "S5-26")
def test_tokens_are_told_and_make_up_the_stored_reply(tmp_path: Path) -> None:
    replies = [{**reply, "chunk": 3} for reply in USUAL]
    project = Project(tmp_path / "p", *replies)
    ran = ask_agent(project, "--json", "--stream")
    told: dict[str, str] = {}
    agents: set[str] = set()
    for record in records(ran.stdout):
        if record["type"] == "token":
            told[record["key"]] = told.get(record["key"], "") + record["text"]
            agents.add(record["agent"])
    stored = {
        event.payload["key"]: event.payload["outcome"]["text"]
        for event in events_of(project)
        if event.type == "PHASE_COMPLETED" and "text" in event.payload["outcome"]
    }
    assert told == stored and agents == {"worker", "main"}
    silent = Project(tmp_path / "q", *replies)
    quiet = ask_agent(silent, "--json", "--stream", "--no-stream")
    assert all(record["type"] != "token" for record in records(quiet.stdout))


def test_a_child_run_returns_answer_evidence_and_files(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    (project.path / "flows.py").write_text(
        "import orchestra\n\n\n@orchestra.workflow\nasync def asks(ctx: orchestra.Context) -> dict:\n"
        '    return await ctx.call("look", "evidence", goal="add?")\n'
    )
    project.configure('workflows: {asks: "flows.py:asks"}\n')
    ran = project.run("start", "asks", "--provider", f"scripted:{project.script}", "--no-input", "--json")
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = done(ran.stdout)["result"]
    assert found["answer"] == ANSWER and found["evidence"][0]["command"] == GREP
    assert found["files"] == [{"path": "calc.py", "lines": [2, 2]}]
    assert not (project.path / ".orchestra").exists()


def test_unreachable_models_fail_the_run_and_leave_the_session(tmp_path: Path) -> None:
    down = {"error": {"code": "UNKNOWN", "message": "down", "retriable": False}, "repeat": True}
    project = Project(tmp_path / "p", down)
    ran = ask_agent(project)
    assert ran.returncode == 6 and ran.stdout == "", ran.stderr
    assert not (project.path / ".orchestra" / "sessions" / "s1.json").exists()
    project.write_script(*USUAL)
    assert ask_agent(project).returncode == 0
    assert session(project)["turn"] == 1


def test_a_foreign_job_cannot_set_what_only_the_verbs_may(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    for field, value in (("tools", ["perl"]), ("session", "s1"), ("memory", [{"role": "user", "content": "x"}])):
        ran = project.run("start", "evidence", "goal=x", f"{field}={json.dumps(value)}", "--provider", "local")
        assert ran.returncode == 2, ran.stderr
