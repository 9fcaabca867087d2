"""`agent:run`, `chat:turn` and `sessions`: taking turns in a session, headless and at a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.evidence import (
    ANSWER,
    GREP,
    USUAL,
    ask,
    ask_agent,
    decision,
    done,
    events_of,
    finalize,
    main,
    planning,
    requests,
    result,
    runs_of,
    said,
    session,
    tool,
    worker,
)
from tests.support.project import PROGRAM, Project, until
from tests.support.terminal import Terminal

CHAT = (planning("final_report"), main("안녕하세요", "execute"))
QUESTION = (planning(), ask("지워도 되나요?"), finalize(), decision(answer="됐다"))


def slow(project: Project) -> subprocess.Popen[str]:
    """A turn that takes a while: its planning comes slowly."""
    arguments = ("chat:turn", "--session", "s1", "--message", "느리게", "--provider", f"scripted:{project.script}")
    process = subprocess.Popen([PROGRAM, *arguments], cwd=project.path, text=True, stderr=subprocess.DEVNULL)
    until(lambda: runs_of(project) and len(events_of(project)) > 1)
    return process


@pytest.mark.spec("S5-15", "S5-16", "S5-17", "S5-19")
def test_a_session_is_remembered_by_the_next_turn(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    assert ask_agent(project).returncode == 0
    recalls = main("뺀다고 했다", "execute", match={"contains": ANSWER})
    project.write_script(planning("final_report"), recalls)
    ran = ask_agent(project, command="chat:turn", goal="뭐라고 했지?")
    assert (ran.returncode, ran.stdout) == (0, "뺀다고 했다\n"), ran.stderr
    assert session(project)["turn"] == 2 and said(project)[-1] == "뺀다고 했다"
    shown = project.run("sessions", "show", "s1").stdout
    assert ANSWER in shown and "뭐라고 했지?" in shown
    assert len(runs_of(project)) == 2  # one run for each message


def test_a_message_may_come_from_standard_input(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", planning("final_report"), main("길다", "execute", match={"contains": "둘째 줄"}))
    arguments = [PROGRAM, "chat:turn", "--session", "s1", "--provider", f"scripted:{project.script}", "--json"]
    ran = subprocess.run(arguments, cwd=project.path, input="첫째 줄\n둘째 줄\n", text=True, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    assert done(ran.stdout)["result"]["answer"] == "길다"
    empty = subprocess.run(arguments, cwd=project.path, input=" \n", text=True, capture_output=True)
    assert empty.returncode == 2 and "empty" in empty.stderr


@pytest.mark.spec("S5-39", "S5-40", "S5-77", "S5-78", "S5-85")
def test_a_question_parks_the_turn_and_the_session_waits(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *QUESTION)
    ran = ask_agent(project)
    assert ran.returncode == 3 and "worker-action: ask\n" in ran.stderr
    [run] = runs_of(project)
    count = len(events_of(project))
    ran = ask_agent(project, command="chat:turn", goal="거기 있나?")
    assert ran.returncode == 3 and "지워도 되나요?" in ran.stderr and f"orchestra answer {run.name}" in ran.stderr
    assert runs_of(project) == [run] and len(events_of(project)) == count  # nothing was recorded
    assert "waits for you" in project.run("sessions").stdout
    assert project.run("answer", run.name, "maybe").returncode == 2
    answered = project.run("answer", run.name, "예")
    assert (answered.returncode, answered.stdout) == (0, "됐다\n"), answered.stderr
    assert said(project)[2:4] == ["[WORKER_ASK_1] 지워도 되나요?", "[WORKER_ASK_ANSWER_1] YES"]


@pytest.mark.spec("S5-21", "S5-85")
def test_at_a_terminal_the_question_is_asked_until_it_is_yes_or_no(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", {**QUESTION[0], "chunk": 4, "delayMs": 1500}, *QUESTION[1:])
    arguments = [PROGRAM, "agent:run", "--session", "s1", "--agent", "default", "--goal", "지우기"]
    terminal = Terminal([*arguments, "--provider", f"scripted:{project.script}"], project.path)
    terminal.wait_for('characters  {"', "answer(YES/NO)> ")  # what a model writes is in the live line as it comes
    terminal.type("글쎄\n")
    terminal.wait_for("answer(YES/NO)> ")
    terminal.type("아니오\n")
    terminal.wait_for("됐다")
    assert terminal.end() == 0
    assert "[WORKER_ASK_ANSWER_1] NO" in said(project)


@pytest.mark.spec("S5-15", "S5-17")
def test_two_processes_on_one_session(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", {**CHAT[0], "delayMs": 60_000}, CHAT[1])
    first = slow(project)
    try:
        ran = ask_agent(project, command="chat:turn", goal="나도")
        assert ran.returncode == 7 and "in use" in ran.stderr
        assert len(runs_of(project)) == 1
        assert "in use" in project.run("sessions").stdout
        assert project.run("sessions", "delete", "s1").returncode == 7
    finally:
        first.send_signal(signal.SIGTERM)
        first.wait()


@pytest.mark.spec("S5-16")
def test_a_killed_turn_is_finished_first_and_told(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", {**CHAT[0], "delayMs": 60_000}, *CHAT)
    first = slow(project)
    first.kill()
    first.wait()
    new = main("새 답", "execute", match={"contains": "Goal:\n그 다음"})
    project.write_script(planning("final_report"), new, main("늦은 답", "execute"))
    ran = ask_agent(project, command="chat:turn", goal="그 다음")
    assert (ran.returncode, ran.stdout) == (0, "새 답\n"), ran.stderr
    assert "it is finished first" in ran.stderr
    assert session(project)["turn"] == 2
    assert [text for text in said(project) if not text.startswith("[")] == ["늦은 답", "새 답"]


def test_a_turn_killed_before_its_run_is_known_is_found(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *QUESTION)
    assert ask_agent(project).returncode == 3
    (project.path / ".orchestra" / "sessions" / "s1.turn").write_text('{"turn": 1}')
    assert ask_agent(project).returncode == 3
    assert len(runs_of(project)) == 1


@pytest.mark.spec("S5-15", "S5-25")
def test_wrong_input_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    for session_id in ("../x", ".hidden", "a/b", "", "x" * 65, "세션"):
        assert ask_agent(project, session=session_id).returncode == 2, session_id
    assert ask_agent(project, "--agent", "nobody").returncode == 2
    assert ask_agent(project, "--max-steps", "0").returncode == 2  # G5-7
    assert ask_agent(project, goal="  ").returncode == 2
    assert not runs_of(project) and not (project.path / ".orchestra" / "sessions").exists()


@pytest.mark.spec("S5-16", "S5-17")
def test_a_damaged_session_is_refused_kept_and_rebuilt(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    assert ask_agent(project).returncode == ask_agent(project, goal="안녕").returncode == 0
    path = project.path / ".orchestra" / "sessions" / "s1.json"
    whole = json.loads(path.read_text())
    path.write_bytes(b"\xff{broken")
    ran = ask_agent(project)
    assert ran.returncode == 1 and "orchestra sessions rebuild s1" in ran.stderr and len(runs_of(project)) == 2
    assert path.read_bytes() == b"\xff{broken"
    assert "damaged" in project.run("sessions").stdout
    assert project.run("sessions", "rebuild", "s1").returncode == 0
    made = json.loads(path.read_text())
    assert (made["messages"], made["turn"]) == (whole["messages"], 2)
    assert any(one.read_bytes() == b"\xff{broken" for one in path.parent.glob("s1.json.damaged-*"))


def test_sessions_are_listed_renamed_exported_and_deleted(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    assert "no sessions here yet" in project.run("sessions").stdout
    assert ask_agent(project).returncode == 0
    [row] = [json.loads(line) for line in project.run("sessions", "list", "--json").stdout.splitlines()]
    assert (row["id"], row["turns"], row["state"]) == ("s1", 1, "")
    assert project.run("sessions", "rename", "s1", "../s2").returncode == 2
    assert project.run("sessions", "rename", "s1", "이름").returncode == 2
    assert project.run("sessions", "rename", "s1", "s2").returncode == 0
    document = project.run("sessions", "export", "s2").stdout
    assert document.startswith("# Session s2\n") and ANSWER in document
    exported = json.loads(project.run("sessions", "export", "s2", "--format", "json").stdout)
    assert exported["turns"][0]["answer"] == ANSWER and exported["messages"][-1]["content"] == ANSWER
    (project.path / ".orchestra" / "sessions" / "s2.json").unlink()
    assert project.run("sessions", "rebuild", "s2").returncode == 0  # its runs have the old name
    assert project.run("sessions", "delete", "s2").returncode == 0
    assert project.run("sessions", "show", "s2").returncode == 2
    assert len(runs_of(project)) == 1


def test_an_old_turn_that_is_forked_leaves_the_session_alone(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    assert ask_agent(project).returncode == ask_agent(project, goal="안녕").returncode == 0
    before = session(project)
    first = runs_of(project)[0]
    last = json.loads((first / "events.ndjson").read_text().splitlines()[-4])["id"]
    project.write_script(decision(answer="다른 답"), *USUAL)
    ran = project.run("fork", first.name, "--at", last, "--no-input")
    assert ran.returncode == 0, ran.stderr
    assert session(project) == before and "was not changed" in ran.stderr


@pytest.mark.spec("S5-13", "S5-14", "S5-24", "S5-86", "S5-87")
def test_agents_of_the_configuration_choose_models_and_limits(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    project.write_script(planning(), main("main only", "execute", repeat=True), decision(answer="by main"))
    hands = project.path.parent / "hands.yaml"
    hands.write_text(json.dumps({"replies": [tool(GREP), finalize()]}))
    project.configure(
        f"evidence: {{agents: {{pair: {{main: 'scripted:{project.script}', worker: 'scripted:{hands}', max_steps: 2}},"
        f" alone: {{mode: single-main, main: 'scripted:{project.script}', worker: 'scripted:{hands}'}}}}}}\n"
    )
    command = ("agent:run", "--goal", "add?", "--no-input", "--session")
    ran = project.run(*command, "a", "--agent", "pair")
    assert (ran.returncode, ran.stdout) == (0, "by main\n"), ran.stderr
    assert len(result(project)["evidence"]) == 1
    project.write_script(planning(), tool("ls"), finalize(), decision(answer="one model"))
    ran = project.run(*command, "b", "--agent", "alone")  # S5-87: main answers as worker too
    assert (ran.returncode, ran.stdout) == (0, "one model\n"), ran.stderr
    project.write_script(planning(), tool("ls"), finalize(), decision(answer="typed"))
    ran = project.run(*command, "c", "--agent", "pair", "--mode", "single-main")
    assert (ran.returncode, ran.stdout) == (0, "typed\n"), ran.stderr


@pytest.mark.spec("S5-72", "S5-74")
def test_requests_are_logged_only_if_that_is_wished(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    assert ask_agent(project).returncode == 0
    assert not (runs_of(project)[-1] / "logs" / "llm-requests.log").exists()
    arguments = ("agent:run", "--session", "s2", "--goal", "add?", "--provider", f"scripted:{project.script}")
    assert project.run(*arguments, env={"DEBUG_LLM_REQUESTS": "true"}).returncode == 0
    lines = (runs_of(project)[-1] / "logs" / "llm-requests.log").read_text().splitlines()
    assert {json.loads(line)["agent"] for line in lines} == {"worker", "main"}


def test_secrets_do_not_get_into_the_session(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", planning(), tool("cat key.txt"), finalize(), decision(answer="a key"))
    (project.path / "key.txt").write_text("token = sk-ant-api03-" + "a1B2" * 24 + "\n")
    assert ask_agent(project).returncode == 0
    assert "a1B2a1B2" not in json.dumps(session(project))


def test_the_memory_of_a_turn_is_its_own(tmp_path: Path) -> None:
    """Edits of the session's file while a turn waits do not change what its models are told."""
    project = Project(tmp_path / "p", *CHAT)
    assert ask_agent(project, goal="안녕").returncode == 0
    project.write_script(*QUESTION)
    assert ask_agent(project).returncode == 3
    path = project.path / ".orchestra" / "sessions" / "s1.json"
    path.write_text(path.read_text().replace("안녕하세요", "다른 말"))
    assert project.run("answer", runs_of(project)[-1].name, "y").returncode == 0
    assert all("다른 말" not in json.dumps(asked, ensure_ascii=False) for asked in requests(project, "*/"))
    assert "안녕하세요" in said(project)


def test_a_loop_explores_before_its_plan(tmp_path: Path) -> None:
    from tests.support.project import RIGHT_PATCH, role

    plan = {"match": {"agent": "planner", "contains": ANSWER}, "text": "1. fix it"}
    found = (planning(), tool("grep -Hn return calc.py"), finalize(), decision(answer=ANSWER))
    project = Project(tmp_path / "p", *found, plan, role("developer", RIGHT_PATCH))
    arguments = ("loop", "make add() add", "--check", project.check, "--provider", f"scripted:{project.script}")
    ran = project.run(*arguments, "--explore", "--approval", "never", "--no-input")
    assert ran.returncode == 0, ran.stderr
    assert f"explored: {ANSWER} (1 command; shown to the planner: calc.py)" in ran.stderr
    assert project.calc().endswith("a + b\n")


def test_a_failed_exploration_does_not_fail_the_loop(tmp_path: Path) -> None:
    from tests.support.project import RIGHT_PATCH, role

    plan = {"match": {"agent": "planner"}, "text": "1. fix it"}
    project = Project(tmp_path / "p", worker("never"), plan, role("developer", RIGHT_PATCH))
    arguments = ("loop", "make add() add", "--check", project.check, "--provider", f"scripted:{project.script}")
    ran = project.run(*arguments, "--explore", "--approval", "never", "--no-input")
    assert ran.returncode == 0, ran.stderr


LLAMA = "providers: {openai_compat: {base_url: 'http://127.0.0.1:9/v1', context_tokens: 8192}}\n"


def test_a_goal_that_leaves_no_room_for_evidence_is_refused_and_a_loop_goes_on_without(tmp_path: Path) -> None:
    from tests.support.project import RIGHT_PATCH, role

    plan = {"match": {"agent": "planner"}, "text": "1. fix it"}
    project = Project(tmp_path / "p", plan, role("developer", RIGHT_PATCH))
    project.configure(LLAMA)
    long = "긴 글 " * 2000  # about 5,300 tokens
    models = ("--role", "main=openai_compat", "--role", "worker=openai_compat")
    ran = ask_agent(project, *models, goal=long)
    assert ran.returncode == 2 and "Put the text into a file of the project" in ran.stderr
    assert not runs_of(project) and not (project.path / ".orchestra" / "sessions").exists()
    arguments = ("loop", long, "--check", project.check, "--provider", f"scripted:{project.script}", *models)
    ran = project.run(*arguments, "--explore", "--approval", "never", "--no-input")
    assert ran.returncode == 0 and "the models take 8192" in ran.stderr, ran.stderr


def test_links_in_place_of_the_sessions_folder_are_refused(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *USUAL)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.symlink(elsewhere, project.path / ".orchestra")
    assert ask_agent(project).returncode == 2
    assert not list(elsewhere.iterdir())
