"""Runs at the terminal UI: decided hunk by hunk, answered, stopped, of other processes, gone on with after kills."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.core import KEY
from tests.support.evidence import ANSWER, decision, finalize, main, planning, runs_of
from tests.support.evidence import ask as ask_of_worker
from tests.support.graph import write_long_run
from tests.support.hunks import HUNKS, LINES
from tests.support.models import KEY as KEY_OF_MODELS
from tests.support.modelserver import ModelServer, Say
from tests.support.project import PLAN, PROGRAM, RIGHT, RIGHT_PATCH, Project, conforms, patch, reply, role
from tests.support.terminal import Terminal
from tests.support.tui import CTRL_C, ENTER, PROMPT, Tui

ASKING = """
import orchestra

@orchestra.workflow
async def asking(ctx: orchestra.Context) -> str:
    colour = await ctx.ask("colour", "어느 색?", options=("빨강", "파랑"), default="빨강")
    return colour + await ctx.ask("name", "이름은?")
"""
PATCH_PROMPT = "apply this patch [y,n,a,d,e,?,q]? "


def loop_of(project: Project) -> str:
    return f'/loop add()를 고쳐라 --check "{project.check}"'


def driver_of(project: Project) -> Terminal:
    """Another process that drives a loop and waits at its prompt."""
    words = ["loop", "고쳐라", "--check", project.check, "--provider", f"scripted:{project.script}"]
    driver = Terminal([PROGRAM, *words], project.path)
    driver.wait_for(PATCH_PROMPT)
    return driver


def at_rest(tui: Tui) -> None:
    """Wait until nothing runs."""
    tui.wait(lambda: "/help" in tui.below[0] and not tui.below[0].startswith(" run "))


def grant(tui: Tui, project: Project) -> None:
    """Approve the patch that is asked about, and leave when the run has completed with it."""
    tui.press("y")
    tui.wait_for("completed")
    at_rest(tui)
    tui.leave()
    assert project.calc().endswith(RIGHT)
    conforms(project)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))


# -- decisions --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S5-79", "S5-85", "D-11")
def test_a_patch_is_decided_on_hunk_by_hunk_with_single_keys_and_a_reason_for_the_fixer(tmp_path: Path) -> None:
    told = {"match": {"role": "fixer", "contains": "스물은 빼라"}, "text": RIGHT_PATCH}
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", reply(HUNKS, summary="요약")), told)
    text = project.path / "글.txt"
    text.write_text("".join(f"{line}\n" for line in LINES))
    with Tui(project, rows=40) as tui:
        tui.say(loop_of(project))
        tui.wait_for("(1/4) apply this hunk [y,n,a,d,e,?,q]?")
        tui.wait_for("요약")
        tui.press("?")
        tui.wait_for("? - this help")
        tui.wait(lambda: "(1/4)" in tui.row)
        tui.say("/inbox")  # a command that only looks is taken meanwhile
        tui.wait_for("/approve 1")
        tui.wait(lambda: "(1/4)" in tui.row)
        tui.type("y")
        tui.wait(lambda: "(2/4)" in tui.row)
        tui.type(f"n 스물은 빼라{ENTER}")
        tui.wait(lambda: "(3/4)" in tui.row)
        tui.type("a")
        tui.wait(lambda: "(4/4)" in tui.row)
        tui.type("v")
        tui.wait(lambda: "".join(tui.rows).count("-    return a - b") == 2)  # the hunk, and the whole file
        tui.wait(lambda: "(4/4)" in tui.row)
        assert tui.below[0].startswith(" run @1 · loop · waits for you · step 1/4 · ")
        assert "(3/4) apply this hunk [y,n,a,d,e,?,q]? a" in tui.log
        tui.type("d")
        tui.wait(lambda: PATCH_PROMPT.strip() in tui.row)  # the fixer was told why, and its patch waits
        shown = text.read_text().splitlines()
        assert (shown[1], shown[19], shown[38]) == ("둘", "줄 20", "서른아홉")
        grant(tui, project)


@pytest.mark.spec("S5-85")
def test_a_question_is_answered_by_digit_or_by_text_and_its_default_is_marked(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", planning(), ask_of_worker("더할까요?"), finalize(), decision(answer=ANSWER))
    (project.path / "asking.py").write_text(ASKING, encoding="utf-8")
    project.configure('workflows: {asking: "asking.py:asking"}\n')
    with Tui(project) as tui:
        tui.say("/start asking")
        tui.wait_for("어느 색?")
        tui.wait_for("빨강 (default)")
        tui.wait(lambda: not tui.row.startswith("> "))
        tui.type(f"2{ENTER}")
        tui.wait_for("이름은?")
        tui.type(f"하늘{ENTER}")
        tui.wait_for("파랑하늘")
        at_rest(tui)
        tui.say("더하기?")
        tui.wait_for("더할까요?")
        tui.wait(lambda: not tui.row.startswith("> "))
        tui.type(f"예{ENTER}")
        tui.wait_for(ANSWER)
        tui.leave()


def test_the_status_row_stays_with_the_run_that_was_started_when_a_child_run_begins(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    parent = """
@orchestra.workflow
async def parent(ctx: orchestra.Context) -> str:
    return await ctx.call("child", asking)
"""
    (project.path / "asking.py").write_text(ASKING + parent, encoding="utf-8")
    project.configure('workflows: {asking: "asking.py:asking", parent: "asking.py:parent"}\n')
    with Tui(project) as tui:
        tui.say("/start parent")
        tui.wait_for("어느 색?")
        tui.wait(lambda: "waits for you" in tui.below[0] or "waits for you" in tui.rows[tui.cursor[1] - 1])
        assert any(" run @1 · parent · " in row for row in tui.rows)
        child = next(run.id for run in project.runs if "parent" not in run.id.split("_")[2])
        tui.kill()
    with Tui(project) as tui:
        tui.say(f"/watch {child}")
        tui.wait_for("어느 색?")
        tui.wait(lambda: any(f" run {child} · waits for you" in row for row in tui.rows))
        tui.kill()


# -- stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S5-79")
def test_ctrl_c_once_stops_the_turn_and_twice_leaves(tmp_path: Path) -> None:
    slow = main("한 글자씩 " * 400, "execute", chunk=5, delayMs=60_000, match={"contains": "Goal:\n천천히"})
    project = Project(tmp_path / "p", slow, planning("final_report"), main("안녕!", "execute"))
    with Tui(project) as tui:
        tui.say("천천히")
        tui.wait_for("한 글자씩 한 글자씩")
        tui.say("그다음")
        tui.wait(lambda: any(" · 1 to send" in row for row in tui.rows))
        tui.type(CTRL_C)
        tui.wait_for("stopped.")
        at_rest(tui)
        assert "not sent: 그다음" in tui.log and not any("to send" in row for row in tui.rows)
        tui.say("다시")
        tui.wait_for("안녕!")
        at_rest(tui)
        tui.type(CTRL_C + CTRL_C)
        assert tui.end() == 0
    statuses = [(run / "state.json").read_text() for run in runs_of(project)]
    assert ["canceled" in statuses[0], "completed" in statuses[1]] == [True, True]


# -- runs of other processes ------------------------------------------------------------------------------------------


def test_what_waits_elsewhere_is_counted_while_something_waits_here_and_what_a_run_took_stays_in_the_row(
    project: Project,
) -> None:
    with Tui(project, columns=120) as tui:
        tui.say(loop_of(project))
        tui.wait(lambda: PATCH_PROMPT.strip() in tui.row)
        assert project.loop().returncode == 3
        tui.wait(lambda: any(" run @1 · loop · " in row and " · 2 waiting" in row for row in tui.rows))
        tui.press("y")
        tui.wait_for("completed")
        tui.wait(lambda: tui.below[0].startswith(" 1 waiting: /inbox · /help · @1 · "))
        tui.leave()


def test_the_status_row_tells_how_much_of_its_context_a_model_used(project: Project) -> None:
    with ModelServer(Say(PLAN, input_tokens=1000), Say(RIGHT_PATCH, input_tokens=12_000)) as server:
        project.configure(
            f"providers: {{mine: {{kind: openai_compat, base_url: {server.url}/v1, model: m, context_tokens: 40000}}}}"
        )
        with Tui(project, columns=120, env={"OPENAI_API_KEY": KEY_OF_MODELS}) as tui:
            tui.say(f"{loop_of(project)} --provider mine")
            tui.wait(lambda: PATCH_PROMPT.strip() in tui.row)
            tui.wait(lambda: any(" · context 12,000 of 40,000 · " in row for row in tui.rows))
            tui.kill()


@pytest.mark.spec("S5-79", "S5-85")
def test_a_run_of_another_process_is_shown_and_answered_and_a_second_answer_is_refused_by_name(
    project: Project,
) -> None:
    driver = driver_of(project)
    with Tui(project) as tui:
        tui.wait(lambda: "1 waiting" in tui.below[0])
        tui.say("/inbox")
        tui.wait_for("waits for your approval: 더하기")
        tui.say("/runs 1")
        tui.wait_for("+    return a + b")
        tui.wait(lambda: PATCH_PROMPT.strip() in tui.row)
        os.kill(driver.pid, signal.SIGSTOP)  # the answer lies in the inbox until it goes on
        tui.press("y")
        tui.wait(lambda: tui.row.startswith(PROMPT))
        tui.say("/reject 1 --reason 싫다")
        tui.wait_for("was already answered (approve by ")
        tui.say("/watch 1")
        os.kill(driver.pid, signal.SIGCONT)
        tui.wait_for("completed")
        at_rest(tui)
        assert driver.end() == 0  # its prompt was taken away, and it went on
        tui.leave()
    assert project.types().count("APPROVAL_GRANTED") == project.types().count("RUN_COMPLETED") == 1


@pytest.mark.spec("S5-79")
def test_an_answer_from_elsewhere_takes_the_prompt_away_and_gives_back_what_was_being_typed(project: Project) -> None:
    with Tui(project) as tui:
        tui.say(loop_of(project))
        tui.wait(lambda: PATCH_PROMPT.strip() in tui.row)
        assert project.run("approve", "last").returncode == 0
        tui.wait_for("completed")
        at_rest(tui)
        tui.type("y")  # is a letter again
        tui.wait(lambda: tui.row.startswith("> y"))
        tui.leave()
    assert len(project.runs) == 1


def test_a_foreign_run_that_is_adopted_while_it_is_shown_is_asked_about(project: Project) -> None:
    assert project.loop(env={"ORCHESTRA_KEY": "somebody else's key, which is long enough"}).returncode == 3
    with Tui(project) as tui:
        tui.say(f"/watch {project.folder.id}")
        tui.wait_for(f"orchestra adopt {project.folder.id}")
        assert PATCH_PROMPT.strip() not in tui.row
        assert project.run("adopt", project.folder.id, "--yes").returncode == 0
        tui.wait(lambda: PATCH_PROMPT.strip() in tui.row)
        tui.kill()


def test_a_driver_that_is_killed_is_followed_by_the_ui(project: Project) -> None:
    driver = driver_of(project)
    with Tui(project) as tui:
        tui.say("/watch last")
        tui.wait(lambda: PATCH_PROMPT.strip() in tui.row)
        os.kill(driver.pid, signal.SIGKILL)
        assert driver.end() == -signal.SIGKILL
        tui.wait_for("no process drives this run now. It goes on here when all that it asks is answered")
        assert any("waits for you" in row for row in tui.rows)
        grant(tui, project)


def test_a_call_that_is_made_again_by_another_driver_is_shown_once(tmp_path: Path) -> None:
    slow = main("하나\n둘\n끊긴 글 " + "느린 글자 " * 400, "execute", chunk=5, delayMs=60_000)
    project = Project(tmp_path / "p", planning("final_report"), slow)
    words = ["chat:turn", "--session", "s", "--message", "천천히", "--provider", f"scripted:{project.script}"]
    driver = Terminal([PROGRAM, *words], project.path)
    driver.wait_for("planning-result")
    with Tui(project) as tui:
        tui.say("/watch last")
        tui.wait_for("끊긴 글")
        os.kill(driver.pid, signal.SIGKILL)
        assert driver.end() == -signal.SIGKILL
        tui.wait(lambda: any(" · no process" in row for row in tui.rows))
        assert not any("끊긴 글" in row for row in tui.rows)  # nothing of it is alive
        project.write_script(planning("final_report"), main("하나\n둘\n셋\n끝", "execute"))
        assert project.run("resume", "last").returncode == 0
        tui.wait(lambda: "끝" in tui.log)
        at_rest(tui)
        assert [tui.log.count(line) for line in ("하나", "둘", "셋", "끝")] == [1, 1, 1, 1]
        assert not any("끊긴 글" in row or "느린" in row for row in tui.log)
        tui.leave()


def test_a_long_run_is_read_twice_until_it_is_shown_and_what_it_waits_for_is_known(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = "2026-01-01_001_dag_long"
    size = write_long_run(project.path, run, 2000, lines=100).stat().st_size
    with Tui(project, env={"ORCHESTRA_KEY": KEY}) as tui:
        before = tui.has_read
        tui.say(f"/watch {run}")
        tui.wait_for("no process drives this run now")
        # A third time at most, because what waits in the project is counted; and a part of it each time for the seal.
        assert 1 < (tui.has_read - before) / size < 5
        tui.leave()


def test_a_run_that_was_stopped_is_told_at_the_start_and_gone_on_with(project: Project) -> None:
    assert project.loop(env={"ORCHESTRA_CHAOS": "20:after"}).returncode == -signal.SIGKILL
    with Tui(project) as tui:
        tui.wait(lambda: tui.below[0] == " 1 stopped: /resume · /help")
        for line, told in (
            ("/runs", "stopped: no process drives it; /resume RUN continues it"),
            ("/status", "every command: /help"),
            ("/team --nonsense", "All of it: /team --help"),
        ):
            tui.say(line)
            tui.wait_for(told)
        tui.say("/watch nowhere")
        tui.wait_for("(/runs lists them; -C DIR")
        tui.say("/resume")
        tui.wait(lambda: PATCH_PROMPT.strip() in tui.row)
        tui.kill()


# -- kills ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S5-79")
def test_a_killed_ui_goes_on_with_its_turn_and_with_what_waits(tmp_path: Path) -> None:
    slow = main("한 글자씩 " * 400, "execute", chunk=5, delayMs=60_000)
    project = Project(tmp_path / "p", planning("final_report"), slow)
    with Tui(project) as tui:
        tui.say("천천히")
        tui.wait_for("한 글자씩 한 글자씩")
        tui.kill()
    developer = role("developer", patch("a - b", "a + b", summary="더하기로"))
    last = main("끝난 답", "execute", chunk=1, delayMs=2_000)
    project.write_script(planning("final_report"), last, role("planner", PLAN), developer)
    with Tui(project) as tui:
        tui.wait_for("had stopped; it is finished first")
        tui.wait(lambda: any(row.startswith(" run @1 · ") for row in tui.rows))
        tui.wait_for("끝난 답")
        at_rest(tui)
        tui.say(loop_of(project))
        tui.wait(lambda: PATCH_PROMPT.strip() in tui.row)
        tui.kill()
    with Tui(project) as tui:
        tui.wait(lambda: "1 waiting" in tui.below[0])
        tui.say("/resume")
        tui.wait_for("더하기로")
        tui.wait(lambda: PATCH_PROMPT.strip() in tui.row)
        assert "step 1/4" in tui.below[0]  # as far as it was before the kill
        tui.say("/exit")
        assert tui.end() == 0
    with Tui(project) as tui:
        tui.say("/resume")
        tui.wait(lambda: PATCH_PROMPT.strip() in tui.row)
        grant(tui, project)
