"""A tree of runs through the real program: a person needs no id but that of the run they started."""

from __future__ import annotations

import json
import os
import subprocess
import unicodedata
from pathlib import Path

import pytest

import orchestra
from tests.library.support import conforms
from tests.support import trees
from tests.support.project import PROGRAM, Project, records, until
from tests.support.terminal import Terminal
from tests.support.trees import DIFF, LEFT, REPLIES, RIGHT

MODULE = trees.__file__


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "p", *REPLIES)
    named = ", ".join(f'{name}: "{MODULE}:{name}"' for name in ("crew", "middle", "leaf"))
    made.configure(f"workflows: {{{named}}}\n")
    return made


def started(project: Project, *words: str) -> str:
    """Start the team; the id of its run."""
    done = project.run("start", "crew", *words, "--provider", f"scripted:{project.script}", "--no-input", "--json")
    assert done.returncode == 3, done.stderr
    end = records(done.stdout)[-1]
    assert end["status"] == "awaiting_input"  # of the tree
    return str(end["runId"])


def own_status(project: Project, run: str) -> str:
    state = json.loads((project.path / ".runs" / "workflows" / run / "state.json").read_text())
    return str(state["status"])


def answered(project: Project) -> list[str]:
    return [path.name for path in project.path.rglob("inbox/*.json")]


def test_a_root_whose_children_wait_has_their_status_and_says_how_to_answer(project: Project) -> None:
    run = started(project, "goal=로고 둘")
    assert own_status(project, run) == "running"
    listed = records(project.run("runs", "--json").stdout)
    assert [one["runId"] for one in listed if one["parentRunId"] is None] == [run]
    assert {one["status"] for one in listed} == {"awaiting_input"} and len(listed) == 5
    shown = json.loads(project.run("show", "last", "--json").stdout)
    assert (shown["runId"], shown["status"]) == (run, "awaiting_input")
    assert [one["name"] for one in shown["pending"]] == [LEFT, RIGHT]
    assert all(one["question"] for one in shown["pending"])
    assert [one["options"] for one in shown["pending"]] == [["빨강", "blue"], ["빨강", "blue"]]
    assert json.loads(project.run("show", run, "--json", "--own").stdout)["status"] == "running"
    commands = [f"orchestra answer {run} TEXT --question {name}" for name in (LEFT, RIGHT)]
    for words in (("runs",), ("show", run), ("inbox",), ("resume", run, "--no-input")):
        done = project.run(*words)
        for command in commands:
            assert command in done.stdout + done.stderr, words
        assert "왼쪽: 어떤 색?" in done.stdout + done.stderr and "stopped" not in done.stdout
        assert "no process drives it" not in done.stdout
    rows = project.run("runs").stdout.splitlines()[1:6]
    assert [len(row) - len(row.lstrip()) for row in rows] == [0, 6, 8, 6, 8]  # below the numbers, then by depth
    assert [" awaiting_input " in row for row in rows] == [True] * 5
    assert "left/build.1: 왼쪽" in rows[1] and "right/build.1: 오른" in rows[3]
    assert "options: 빨강, blue (default)" in project.run("show", run).stdout
    assert "what depends on it: 왼쪽의 로고" in project.run("inbox").stdout


def test_a_parked_parent_is_not_shown_as_stopped(project: Project) -> None:
    run = started(project)
    shown = project.run("show", run, "--own").stdout
    assert "awaiting_input" in shown and "stopped" not in shown and "resume" not in shown and "answer" not in shown
    assert f"{run} (crew, awaiting_input)" in project.run("lineage", run).stdout


def test_a_damaged_child_is_named_by_verify_and_show_of_the_root(project: Project) -> None:
    run = started(project)
    good = project.run("verify", run)
    assert (good.returncode, "4 child runs checked" in good.stdout) == (0, True)
    child = next(one for one in project.runs if one.id != run and "leaf" in one.id)
    events = child.events.read_bytes()
    first, second, rest = events.split(b"\n", 2)
    child.events.write_bytes(b"\n".join((first, second.replace(b'"ts":"2', b'"ts":"3'), rest)))
    found = project.run("verify", run)
    assert found.returncode == 1 and f"\n{child.id}: S1-" in found.stdout
    assert project.run("verify", run, "--own").returncode == 0
    shown = project.run("show", run)
    assert (shown.returncode, shown.stdout.count(" asks: ")) == (0, 1), shown.stderr
    for told in (shown.stdout, project.run("show", run, "--json").stderr):
        assert f"child run {child.id} is damaged: orchestra verify {child.id} names the place" in told


def test_what_a_failed_root_left_asking_is_not_to_be_answered_or_resumed(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "torn.py").write_text(TORN, encoding="utf-8")
    project.configure('workflows: {torn: "torn.py:torn", leaf: "torn.py:leaf"}\n')
    assert project.run("start", "torn", "--no-input").returncode == 1
    [root] = [one.id for one in project.runs if "_torn_" in one.id]
    [child] = [one.id for one in project.runs if "_leaf_" in one.id]
    assert project.run("inbox").stdout == "nothing waits for you\n"
    refused = project.run("answer", child, "x")
    assert refused.returncode == 2 and f"run {root} above it has ended (failed)" in refused.stderr
    shown = project.run("show", child).stdout
    assert f"run {root} above it has ended: nothing goes on with this run" in shown and "resume" not in shown
    assert answered(project) == []


def test_several_questions_are_answered_by_their_names_only(project: Project) -> None:
    run = started(project)
    for words in ((), ("--question", "colour"), ("--question", "deep.1/colour")):
        refused = project.run("answer", run, "빨강", *words)
        assert refused.returncode == 2, refused.stderr
        for name, who in ((LEFT, "왼쪽"), (RIGHT, "오른쪽")):
            assert f"--question {name}  {who}: 어떤 색? (options: 빨강, blue)" in refused.stderr
    wrong = project.run("answer", run, "초록", "--question", LEFT)
    assert wrong.returncode == 2 and "the options are: 빨강, blue" in wrong.stderr
    unknown = project.run("answer", run, "빨강", "--question", "모양")
    assert unknown.returncode == 2 and "asks no question '모양'" in unknown.stderr and LEFT in unknown.stderr
    assert answered(project) == []
    first = project.run("answer", run, unicodedata.normalize("NFD", "빨강"), "--question", LEFT, "--json", "--no-input")
    assert first.returncode == 3 and records(first.stdout)[-1]["status"] == "awaiting_input", first.stderr
    again = project.run("answer", run, "blue", "--question", LEFT)
    assert again.returncode == 2 and "was already answered by" in again.stderr
    last = project.run("answer", run, "BLUE")
    assert (last.returncode, last.stdout) == (0, '{"left":"왼쪽=빨강","right":"오른쪽=blue"}\n'), last.stderr
    conforms(project)


def test_the_ids_of_child_runs_still_work(project: Project) -> None:
    run = started(project)
    folders = {folder.id: folder for folder in project.runs}
    [right] = [name for name in folders if "_leaf_" in name and "right" in name]
    [left] = [name for name in folders if "_middle_" in name and "left" in name]
    assert project.run("answer", right, "blue", "--no-input").returncode == 3
    assert f"orchestra answer {left} TEXT" in project.run("show", left).stdout
    done = project.run("answer", left, "blue", "--json")
    assert done.returncode == 0 and records(done.stdout)[-1]["runId"] == run
    assert records(done.stdout)[0]["runId"] == run


def test_approvals_of_a_tree_are_granted_one_by_one(project: Project) -> None:
    run = started(project, "patch=true")
    project.run("answer", run, "blue", "--question", RIGHT, "--no-drive")
    project.run("answer", run, "blue", "--no-drive")
    waiting = project.run("resume", run, "--no-input", "--json")
    assert records(waiting.stdout)[-1]["status"] == "awaiting_approval"
    assert project.run("diff", run).stdout == DIFF.format("왼쪽") + DIFF.format("오른쪽")
    assert project.run("diff", run, "--own").stdout == ""
    refused = project.run("approve", run)
    assert refused.returncode == 2 and refused.stderr.count("--digest sha256:") == 2
    right = next(line.split()[1] for line in refused.stderr.splitlines() if "오른쪽.txt" in line)
    assert project.run("approve", run, "--digest", right, "--no-input").returncode == 3
    assert project.run("diff", run).stdout == DIFF.format("왼쪽")
    assert project.run("reject", run, "--reason", "다음에", "--no-input").returncode == 0
    assert project.run("diff", run).stdout == DIFF.format("오른쪽")
    assert (project.path / "오른쪽.txt").exists() and not (project.path / "왼쪽.txt").exists()
    conforms(project)


def test_patches_of_a_tree_are_shown_in_the_order_in_which_they_were_applied(project: Project) -> None:
    run = started(project, "patch=true")
    for name in (RIGHT, LEFT):
        project.run("answer", run, "blue", "--question", name, "--no-input")
        project.run("approve", run, "--no-input")
    assert project.run("diff", run).stdout == DIFF.format("오른쪽") + DIFF.format("왼쪽")


def test_audit_report_and_logs_cover_the_tree(project: Project) -> None:
    run = started(project)
    calls = records(project.run("audit", run, "--json").stdout)
    made = [one for one in calls if one["type"] == "call"]
    wanted = {"type", "runId", "key", "agent", "role", "phase", "status", "paid", "costUsd"}
    assert len(made) == 2 and all(wanted <= set(one) for one in made)
    assert {(one["key"], one["agent"], one["status"], one["kept"]) for one in made} == {
        ("writer.1", "writer", "ok", False)
    }
    assert len({one["runId"] for one in made}) == 2
    assert calls[-1]["type"] == "total" and calls[-1]["calls"] == 2
    assert records(project.run("audit", run, "--json", "--own").stdout)[-1]["calls"] == 0
    text = project.run("audit", run).stdout
    assert "left/build.1/deep.1/writer.1" in text and "2 calls" in text
    assert "Draft 왼쪽." in project.run("show", run, "--prompt", "left/build.1/deep.1/writer.1").stdout
    reports = project.run("report", run).stdout
    order = [reports.index(f"Child run `{key}`") for key in ("left/build.1", "left/build.1/deep.1", "right/build.1")]
    assert order == sorted(order) and reports.startswith("# 둘 다\n")
    assert "Child run `" not in project.run("report", run, "--own").stdout
    events = records(project.run("logs", run, "--json").stdout)
    assert len(events) == sum(len(project.events_of(folder.id)) for folder in project.runs)
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    assert {event["runId"] for event in records(project.run("logs", run, "--json", "--own").stdout)} == {run}
    assert "\nleft/build.1/deep.1 00000004 " in project.run("logs", run).stdout


def test_a_cancel_ends_the_whole_tree_and_says_so(project: Project) -> None:
    run = started(project)
    canceled = project.run("cancel", run, "--reason", "그만")
    assert canceled.returncode == 0 and f"{run}: canceled, with 4 child runs" in canceled.stderr
    assert {one["status"] for one in records(project.run("runs", "--json").stdout)} == {"canceled"}
    assert "nothing waits" in project.run("inbox").stdout


def test_last_and_a_prefix_mean_the_run_that_a_person_started(project: Project) -> None:
    run = started(project)
    assert json.loads(project.run("show", "last", "--json").stdout)["runId"] == run
    begins = run[: run.index("_crew_")]  # the ids of its children begin like this too
    assert json.loads(project.run("show", begins, "--json").stdout)["runId"] == run
    fork = project.run("fork", run, "--at", "1", "--no-drive").stdout.strip()
    assert json.loads(project.run("show", "last", "--json").stdout)["runId"] == fork


def test_a_fork_neither_waits_for_nor_cancels_nor_pays_for_the_children_of_the_original(project: Project) -> None:
    run = started(project)
    project.run("answer", run, "빨강", "--question", LEFT, "--no-input")  # the left child settles
    events = project.events_of(run)
    fork = project.run("fork", run, "--at", events[-1].id, "--no-drive").stdout.strip()
    assert json.loads(project.run("show", fork, "--json").stdout)["pending"] == []
    calls = records(project.run("audit", fork, "--json").stdout)
    kept = [one for one in calls if one["type"] == "call" and one["kept"]]
    assert [one["paid"] for one in kept] == ["kept"] and calls[-1]["calls"] == 0
    assert "1 call kept of an earlier run" in project.run("audit", fork).stdout
    assert project.run("cancel", fork).returncode == 0
    assert json.loads(project.run("show", run, "--json").stdout)["status"] == "awaiting_input"
    done = project.run("answer", run, "blue")
    assert done.returncode == 0, done.stderr


def test_of_two_processes_that_answer_one_question_one_wins_and_the_other_is_told(project: Project) -> None:
    run = started(project)
    words = [PROGRAM, "answer", run, "--question", LEFT, "--no-drive"]
    ends = [
        subprocess.Popen([*words, text], cwd=project.path, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
        for text in ("빨강", "blue", "빨강", "blue")
    ]
    said = [(process.communicate()[1], process.returncode) for process in ends]
    assert sorted(code for _, code in said) == [0, 2, 2, 2]
    assert all("already answered" in text for text, code in said if code == 2)
    assert answered(project) == ["colour.json"]


def test_a_prompt_at_the_terminal_says_whose_it_is_and_stays_open_until_its_own_question_is_answered(
    project: Project,
) -> None:
    """Both children call their question `colour`: the answer to one closed the prompt of the other."""
    terminal = Terminal([PROGRAM, "start", "crew", "--provider", f"scripted:{project.script}"], project.path)
    shown = terminal.wait_for("leave it waiting) >")
    assert "? left/build.1/deep.1: 왼쪽: 어떤 색?" in shown
    assert (
        "what depends on it: 왼쪽의 로고" in shown
        and "options: 1 빨강, 2 blue (default)" in shown
        and "why:" not in shown
    )
    run = json.loads(project.run("show", "last", "--json").stdout)["runId"]
    until(lambda: "오른쪽: 어떤 색?" in project.run("inbox").stdout)
    other = project.run("answer", run, "blue", "--question", RIGHT)
    assert other.returncode == 0 and "the process driving the run goes on with it" in other.stderr
    right = next(folder for folder in project.runs if "_leaf_" in folder.id and "right" in folder.id)
    until(lambda: "RUN_COMPLETED" in [event.type for event in project.events_of(right.id)])
    terminal.type("초록\n")
    terminal.wait_for("the options are: 빨강, blue")
    terminal.type("빨강\n")
    terminal.wait_for('{"left":"왼쪽=빨강","right":"오른쪽=blue"}')
    assert terminal.end() == 0


TORN = """
import asyncio
from pathlib import Path

import orchestra

@orchestra.workflow
async def leaf(ctx: orchestra.Context) -> str:
    return await ctx.ask("colour", "colour?")

@orchestra.workflow
async def torn(ctx: orchestra.Context) -> list[str]:
    async def asks(branch: orchestra.Context) -> str:
        return await branch.call("leaf", leaf)

    async def fails(branch: orchestra.Context) -> str:
        await branch.step("wait", wait)
        raise RuntimeError("torn")

    return list((await ctx.fan_out({"a": asks, "b": fails})).values())

async def wait() -> None:
    runs = Path(".runs/workflows")
    while not any("QUESTION_RAISED" in one.read_text() for one in runs.glob("*_leaf_*/events.ndjson")):
        await asyncio.sleep(0.01)
"""

ASKS = """\
import orchestra

@orchestra.workflow
async def asks(ctx: orchestra.Context, hostile: str = "") -> list[str]:
    async def first(branch: orchestra.Context) -> str:
        return await branch.ask("colour", "첫째 색?")

    async def second(branch: orchestra.Context) -> str:
        return await branch.ask("colour", "둘째 색?")

    async def go(branch: orchestra.Context) -> str:
        return await branch.ask(hostile or "go on", "Go on?", options=("예", "아니오"))

    return list((await ctx.fan_out({"a": first, "b": second, "c": go})).values())
"""


def asking(path: Path, *words: str) -> tuple[Project, str]:
    project = Project(path / "p")
    (project.path / "asks.py").write_text(ASKS, encoding="utf-8")
    project.configure('workflows: {asks: "asks.py:asks"}\n')
    assert project.run("start", "asks", *words, "--no-input").returncode == 3
    return project, project.folder.id


def test_questions_of_branches_are_named_by_what_they_were_called(tmp_path: Path) -> None:
    """B5: the oldest question was answered, whichever was meant."""
    project, run = asking(tmp_path)
    refused = project.run("answer", run, "for b")
    assert refused.returncode == 2 and answered(project) == []
    for line in ("--question a/colour  첫째 색?", "--question b/colour  둘째 색?", "--question 'go on'  Go on?"):
        assert line.replace("'", "") in refused.stderr.replace("'", "")
    assert project.run("answer", run, "파랑", "--question", "b/colour", "--no-drive").returncode == 0
    assert project.run("answer", run, "네", "--question", "go on", "--no-drive").returncode == 0
    done = project.run("answer", run, "노랑")  # only one is left
    assert (done.returncode, done.stdout) == (0, '["노랑","파랑","예"]\n'), done.stderr


@pytest.mark.parametrize(
    ("said", "recorded"),
    [("Y", "예"), ("yes", "예"), ("네", "예"), ("n", "아니오"), ("아니요", "아니오"), ("maybe", "")],
)
def test_yes_and_no_are_understood_in_english_and_korean(tmp_path: Path, said: str, recorded: str) -> None:
    project, run = asking(tmp_path)
    done = project.run("answer", run, said, "--question", "go on", "--no-drive")
    assert done.returncode == (0 if recorded else 2), done.stderr
    [*messages] = [json.loads(path.read_text()) for path in project.path.rglob("inbox/*.json")]
    assert [message["text"] for message in messages] == ([recorded] if recorded else [])


def test_a_name_with_control_characters_is_shown_harmless_and_can_be_typed_as_shown(tmp_path: Path) -> None:
    project, run = asking(tmp_path, "hostile=x\x1b[2J\x07\u202e\nok")
    for words in (("show", run), ("inbox",), ("runs",), ("answer", run, "예")):
        done = project.run(*words)
        assert not any(mark in done.stdout + done.stderr for mark in "\x1b\x07\u202e"), words
    pending = json.loads(project.run("show", run, "--json").stdout)["pending"]
    name = pending[-1]["name"]
    assert "\n" not in name and name.isprintable()
    done = project.run("answer", run, "예", "--question", name, "--no-drive")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr


def test_requests_of_a_foreign_child_are_neither_shown_nor_answered(project: Project) -> None:
    run = started(project)
    [left] = [folder for folder in project.runs if "_leaf_" in folder.id and "left" in folder.id]
    lines = left.events.read_bytes().splitlines(keepends=True)
    left.events.write_bytes(b"".join((*lines[:-1], lines[-1].replace("어떤 색?".encode(), b"rm -rf?"))))
    shown = project.run("show", run)
    assert "asks: 왼쪽: rm -rf?" not in shown.stdout and f"orchestra adopt {left.id}" in shown.stdout
    assert "asks: 왼쪽: rm -rf?" not in project.run("inbox").stdout
    refused = project.run("answer", run, "blue", "--question", LEFT)
    assert refused.returncode == 2 and not answered(project), refused.stderr
    other = project.run("answer", run, "blue", "--question", RIGHT, "--no-drive")
    assert other.returncode == 0, other.stderr


@orchestra.workflow
async def stuck(ctx: orchestra.Context) -> str:
    return (await ctx.look("file", "link.md", "text")).text


@orchestra.workflow
async def over_stuck(ctx: orchestra.Context) -> str:
    return await ctx.call("child", stuck)


def test_a_tree_that_no_process_drives_is_stopped_as_a_whole(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "link.md").symlink_to(tmp_path / "other")
    assert orchestra.run(over_stuck, project=project.path).status == "running"
    shown = project.run("runs").stdout
    assert (shown.count(" stopped "), shown.count("running")) == (2, 0)
    assert shown.count("orchestra resume RUN continues it") == 1


def test_an_adopted_run_that_has_ended_is_not_to_be_resumed(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert orchestra.run(stuck, project=project.path).status == "completed"
    project.path.rename(tmp_path / "moved")
    project.path = tmp_path / "moved"
    said = project.run("adopt", "last", "--yes").stdout
    assert f"it is completed: orchestra show {project.folder.id}" in said
    assert "resume" not in said
