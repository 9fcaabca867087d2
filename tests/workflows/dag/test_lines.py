"""What a person sees of a plan before approving it: every command, variable and file that would run."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.workflows.dag.lines import plan_lines, whole_plan
from orchestra.workflows.dag.shapes import Constraints, Dag, Inputs, Plan, PlannedTask
from tests.support.project import PROGRAM
from tests.support.tasks import Tasks, step
from tests.support.terminal import Terminal

LONG = "print('" + "x" * 300 + "')\nprint('the end')"
INPUTS = {"args": ["-c", LONG], "env": {"TZ": "Asia/Seoul"}, "files": [{"path": "w.json", "content": "{}\n[1]\n"}]}
PROMPT = "[q] leave it waiting > "


def at_terminal(project: Tasks, *more: str) -> Terminal:
    words = [PROGRAM, "dag", "g", "--provider", f"scripted:{project.script}", "--approval", "always", *more]
    return Terminal(words, project.path)


@pytest.mark.spec("D-11")
def test_the_command_of_a_plan_with_one_task_is_shown_before_it_is_asked_about(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("only", code="print('seen')"))
    terminal = at_terminal(project)
    shown = terminal.wait_for(PROMPT)
    assert '''python -c "print('seen')"''' in shown
    terminal.type("q\n")
    assert terminal.end() == 3
    parked = project.run("resume", "last", "--no-input")
    assert parked.returncode == 3


@pytest.mark.spec("D-11")
def test_all_of_a_plan_can_be_seen_at_the_prompt_and_from_elsewhere(tmp_path: Path) -> None:
    plan = [step(f"t{number:03d}", tool="echo", inputs={"args": [f"word{number}"]}) for number in range(70)]
    project = Tasks(tmp_path / "p", *plan, step("big", inputs=INPUTS))
    terminal = at_terminal(project)
    first = terminal.wait_for(PROMPT)
    assert "shortened; the full plan: " in first and "/plan.json" in first.replace("\r\n", "")
    terminal.type("d\n")
    whole = terminal.wait_for("| [1]", PROMPT)  # the plan's last line; the prompt before it is the one just answered
    terminal.type("q\n")
    assert terminal.end() == 3
    elsewhere = project.run("diff", "last").stdout
    for shown in (whole.replace("\r\n", "\n"), elsewhere):
        assert "x" * 300 in shown and "print('\"'\"'the end" in shown
        assert "with   TZ=Asia/Seoul" in shown
        assert "file   w.json\n         | {}\n         | [1]\n" in shown
        assert all(f"echo word{number}\n" in shown for number in range(70))
        assert str(project.folder.path / "plan.json") in shown


def test_a_line_break_in_an_argument_cannot_look_like_another_task(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo", inputs={"args": ["x\n  harmless  y\n    runs   echo"]}))
    assert project.dag("--approval", "always").returncode == 3
    lines = project.run("diff", "last").stdout.splitlines()
    assert [line for line in lines if line.startswith("    runs")] == ["    runs   echo 'x"]
    assert "         |   harmless  y" in lines


@pytest.mark.parametrize(("typed", "said"), [("a ²", "as a whole"), ("a 1", "as a whole")])
def test_a_number_after_approve_is_explained_at_a_plan(tmp_path: Path, typed: str, said: str) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    terminal = at_terminal(project)
    terminal.wait_for(PROMPT)
    terminal.type(f"{typed}\n")
    assert "Traceback" not in terminal.wait_for(said)
    terminal.type("a\n")
    assert terminal.end() == 0


def test_only_a_part_of_a_plan_cannot_be_approved(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    assert project.dag("--approval", "always").returncode == 3
    done = project.run("approve", "last", "--only", "x")
    assert done.returncode == 2 and "approved as a whole" in done.stderr


@pytest.mark.parametrize(("most", "shown"), [(4, "t1, t2, t3, t4"), (5, "t1, t2, t3, t4 +1"), (6, "t1, t2, t3, t4 +2")])
def test_of_what_a_task_waits_for_four_are_named_and_the_others_counted(most: int, shown: str) -> None:
    names = tuple(f"t{number}" for number in range(1, most + 1))
    after: dict[str, tuple[str, ...]] = {**dict.fromkeys(names, ()), "끝": names}
    limits = Constraints(max_duration_sec=1.0, max_retries=0)
    tasks = tuple(PlannedTask(one, one, "", ("echo",), after[one], Inputs(), limits) for one in after)
    rows = [line.text for line in plan_lines(Plan("p", tasks, Dag(names, ())), Path("plan.json"))]
    [last] = [row for row in rows if "끝" in row]
    assert f" {shown}  read" in last


def plan_of(*after: tuple[str, ...]) -> Plan:
    """A plan whose tasks t0, t1, … wait for these ids."""
    limits = Constraints(max_duration_sec=1.0, max_retries=0)
    tasks = tuple(
        PlannedTask(f"t{at}", f"t{at}", "", ("echo",), before, Inputs(), limits) for at, before in enumerate(after)
    )
    return Plan("p", tasks, Dag(tuple(task.task_id for task in tasks), ()))


@pytest.mark.parametrize("more", [0, 1])
def test_sixty_tasks_are_shown_and_the_others_counted(more: int) -> None:
    said = [line.text for line in plan_lines(plan_of(*((),) * (60 + more)), Path("/p/plan.json"))]
    assert any(line.lstrip().startswith("t59 ") for line in said)
    assert said[61:] == ["  … and 1 more", "  shortened; the full plan: /p/plan.json"] * more


def test_the_tasks_of_a_cycle_are_all_listed() -> None:
    said = [line.text for line in whole_plan(plan_of(("t1",), ("t0",)), Path("/p/plan.json"))]
    assert [line.split()[0] for line in said if line[:4].split()][:-1] == ["t0", "t1"]
