"""The start of the terminal UI: its input line is there before the program is loaded; errors leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prompt_toolkit.history import InMemoryHistory

from orchestra.cli.tui.early import LateHistory
from tests.support.evidence import main, planning, said
from tests.support.project import Project
from tests.support.tui import CTRL_C, CTRL_D, ENTER, LEFT, PROMPT, UP, Tui

HELLO = "안녕하세요!"
# The program on a slow disk: the app is loaded when the file GO is there.
SLOW = """
import sys, time
from pathlib import Path

go = Path(sys.argv.pop(1))

class Slow:
    def find_spec(self, name, path=None, target=None):
        while name == "orchestra.app" and not go.exists():
            time.sleep(0.01)

sys.meta_path.insert(0, Slow())
from orchestra.cli import main
main()
"""


class SlowTui(Tui):
    """The terminal UI whose program is loaded when the test says so."""

    def __init__(self, project: Project, *more: str) -> None:
        self._go = project.path.parent / "go"
        self._go.unlink(missing_ok=True)
        slow = project.path.parent / "slow.py"
        slow.write_text(SLOW, encoding="utf-8")
        super().__init__(project, *more, ready="/help", program=(sys.executable, str(slow), str(self._go)))

    def load(self) -> None:
        self._go.touch()

    def terminate(self) -> None:
        """SIGTERM."""
        os.kill(self._terminal.pid, signal.SIGTERM)

    def gone(self) -> None:
        """Wait until the live rows are gone."""
        self.wait(lambda: not any(self.rows))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p", planning("final_report"), main(HELLO, "execute"))


def goals(project: Project) -> list[str]:
    return [text.partition("] ")[2] for text in said(project, "tui") if text.startswith("[AGENT_GOAL")]


@pytest.mark.spec("S5-79")
def test_what_is_typed_before_the_program_is_loaded_arrives_in_order_in_the_same_input_line(project: Project) -> None:
    with SlowTui(project) as tui:
        top = tui.cursor[1]
        tui.type(f"한글x{LEFT}")
        tui.wait(lambda: (tui.row.rstrip(), tui.cursor) == ("> 한글x", (6, top)))
        tui.type(f"은 {ENTER}")
        tui.wait(lambda: tui.row.strip() == ">" and tui.below[0] == " /help · 1 to send")
        tui.type(f"초안{LEFT}")
        tui.wait(lambda: tui.row.rstrip() == "> 초안")
        tui.load()
        tui.wait_for(HELLO)
        tui.wait(lambda: tui.below[0].startswith(" /help"))
        assert goals(project) == ["한글은 x"]
        assert (tui.row.rstrip(), tui.cursor[0]) == ("> 초안", 4)
        log = [row for row in tui.log if row]
        assert log[0].startswith("orchestra 0.") and sum(" /help" in row[:7] for row in log) == 1
        tui.type(CTRL_C)
        tui.wait(lambda: tui.row.strip() == ">")
        for brought_back in ("초안", "한글은 x"):  # the history has what was sent before
            tui.type(UP)
            tui.wait(lambda wanted=brought_back: tui.row.startswith(f"> {wanted}"))  # type: ignore[misc]
        tui.leave()
        assert tui.cooked


@pytest.mark.spec("S5-79")
def test_keys_that_came_before_the_input_line_are_keys(project: Project) -> None:
    with Tui(project, ready="") as tui:
        tui.type(f"ab{LEFT}c{ENTER}")
        tui.wait_for(HELLO)
        assert goals(project) == ["acb"]
        tui.leave()
    with Tui(project, ready="") as tui:
        tui.type(f"ab{LEFT}")  # a line that was begun
        tui.wait(lambda: (tui.row.rstrip(), tui.cursor[0]) == ("> ab", 3))
        tui.wait_for("session tui: 1 turn")
        assert not any("^[" in row for row in tui.log)
        tui.type(f"{CTRL_C}{CTRL_D}")
        assert tui.end() == 0


@pytest.mark.spec("S5-79")
def test_a_long_line_that_was_begun_before_the_input_line_is_there_leaves_no_copy_of_itself(project: Project) -> None:
    with Tui(project, ready="", columns=40) as tui:
        tui.type("Z" * 100)  # three rows, which the terminal has echoed
        tui.wait_for("session tui: new")
        tui.wait(lambda: sum(row.count("Z") for row in tui.log) == 100)
        tui.type(CTRL_C)
        tui.wait(lambda: not any("Z" in row for row in tui.log))
        tui.leave()


def test_a_blank_line_before_the_program_is_loaded_is_no_message(project: Project) -> None:
    with SlowTui(project) as tui:
        tui.type(f"{ENTER}  {ENTER}처음{ENTER}")
        tui.wait(lambda: tui.below[0] == " /help · 1 to send")
        tui.load()
        tui.wait_for(HELLO)
        tui.wait(lambda: tui.below[0].startswith(" /help"))
        assert goals(project) == ["처음"]
        tui.leave()


def test_the_same_line_again_is_once_in_the_history_and_later_it_is_there_again() -> None:
    late, kept = LateHistory(), InMemoryHistory()
    late.append_string("처음")
    late.become(kept)
    assert (late.get_strings(), kept.get_strings()) == (["처음"], ["처음"])
    for text in ("둘째", "처음"):
        assert late.get_strings()[-1] != text  # prompt_toolkit keeps a line unless it is the last one
        late.append_string(text)
    assert kept.get_strings() == ["처음", "둘째", "처음"]


@pytest.mark.spec("S5-79")
@pytest.mark.parametrize(
    ("key", "code", "told"), [(CTRL_D, 0, ""), (CTRL_C, 130, "interrupted"), ("", 130, "interrupted")]
)
def test_to_leave_while_the_program_is_loaded_leaves_a_clean_terminal(
    project: Project, key: str, code: int, told: str
) -> None:
    with SlowTui(project) as tui:
        for typed, row in (("x", "> x"), (CTRL_C, ">")):  # the text is discarded
            tui.type(typed)
            tui.wait(lambda row=row: tui.row.rstrip() == row)  # type: ignore[misc]
        tui.type(key) if key else tui.terminate()
        tui.gone()
        tui.load()
        assert tui.end() == code
        assert [row for row in tui.log if row] == [told][: len(told)] and tui.cooked


@pytest.mark.spec("S5-79", "U-05")
def test_an_error_of_the_start_is_told_alone_with_its_exit_code(project: Project) -> None:
    for more, config, code, told in (
        (("--agent", "nobody"), "", 2, "orchestra: there is no agent 'nobody'; there are default"),
        ((), "loop: {nonsense: 1}\n", 2, "orchestra.config.yaml:1"),
        (("--session", "../s"), "", 2, "orchestra: '../s' is no session's id"),
    ):
        project.configure(config)
        with SlowTui(project, *more) as tui:
            tui.type(f"먼저{ENTER}그리고")
            tui.wait(lambda tui=tui: tui.row.rstrip() == "> 그리고")  # type: ignore[misc]
            tui.load()
            assert tui.end() == code
            assert tui.log[0].startswith("orchestra: ") and told in "".join(tui.log) and tui.cooked
            assert not any(part in row for row in tui.log for part in ("/help", PROMPT, "그리고", "orchestra 0."))


@pytest.mark.spec("S5-79")
def test_consent_is_asked_for_without_the_input_line_and_what_was_typed_comes_back(project: Project) -> None:
    (project.path / "orchestra.config.yaml").write_text("loop: {approval: never}\n", encoding="utf-8")
    with SlowTui(project) as tui:
        tui.type("y")  # no answer to what is asked later
        tui.wait(lambda: tui.row.rstrip() == "> y")
        tui.load()
        tui.wait_for("Do you agree")
        assert not any("/help" in row for row in tui.rows)
        tui.type(f"n{ENTER}")
        assert tui.end() == 5
        assert tui.cooked and any("you did not agree" in row for row in tui.log)
    with SlowTui(project) as tui:
        tui.load()
        tui.wait_for("Do you agree")
        tui.type(CTRL_C)
        assert tui.end() == 130
        assert tui.cooked and "interrupted" in tui.log
    with SlowTui(project) as tui:
        tui.type("y")
        tui.load()
        tui.wait_for("Do you agree")
        tui.type(f"y{ENTER}")
        tui.wait_for("session tui: new")
        tui.wait(lambda: tui.row.rstrip() == "> y")
        tui.type(CTRL_C)
        tui.leave()


def test_the_input_line_needs_none_of_what_it_waits_for() -> None:
    code = "import sys, orchestra.cli.program, orchestra.cli.tui.command, orchestra.cli.tui.begin; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    heavy = ("orchestra.app", "orchestra.cli.advice", "orchestra.config.sections", "orchestra.core.context", "pathspec")
    assert "orchestra.cli.tui.screen" in loaded
    assert loaded & {*heavy, "yaml", "rich.console", "orchestra.providers.choose"} == set()
    assert [name for name in loaded if name.startswith(("orchestra.workflows", "orchestra.runs"))] == []


def test_without_a_model_the_ui_opens_and_refuses_only_what_calls_one(project: Project) -> None:
    assert project.loop().returncode != 2
    with Tui(project, "--provider", "", env={"PATH": "/usr/bin:/bin"}) as tui:
        tui.wait_for("no model is configured: log in with the claude CLI")
        tui.say("/steps 3")
        tui.wait_for("steps 3, stream on")
        tui.say("/runs")
        tui.wait_for("make add() add")
        for line in ("안녕?", "/loop 고쳐라 --check true"):
            tui.say("/clear")
            tui.wait(lambda: not any("no model" in row for row in tui.rows))
            tui.say(line)
            tui.wait_for("orchestra: no model is configured: log in with the claude CLI")
            tui.wait(lambda: "/help" in tui.below[0])
        tui.leave()
    assert len(project.runs) == 1 and not any(project.path.glob("runs/*/events.ndjson"))
