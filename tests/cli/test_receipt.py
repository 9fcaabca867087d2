"""A receipt for people: everything that was shown, why, and what was not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestra.cli.receipt import receipt_lines
from orchestra.core.shown import LeftOut, Receipt, Shown
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, Project, role
from tests.support.terminal import Terminal

RECEIPT = Receipt(
    method="words-1",
    files=(
        Shown("src/a.py", "named", "named in the goal", 400, 100, 3.256),
        Shown("src/\x1b[31mb.py", "found", "terms: order_by", 800, 200, 1.0, ((3, 5), (9, 9))),
        Shown("src/c.py", "asked", "outline", 40, 10, lines=()),
    ),
    bytes=1200,
    terms={"order_by": 12, "alias": 1},
    notFound=("정렬",),
    leftOut=(LeftOut("huge.py", "no room", ((3, 5),)), LeftOut("big.py", "no room")),
    refused=("file: /etc/passwd (outside the project)",),
    rules=("AGENTS.md", "src/AGENTS.md"),
    durationMs=42,
)


def test_every_fact_of_a_receipt_has_its_line() -> None:
    assert list(receipt_lines(RECEIPT)) == [
        "context: 2 files, 2 KB (1 named, 1 found, 1 outlined); left out: huge.py, lines 3-5, big.py",
        "how        tokens (about)  score  file              lines   why",
        "named      100             3.26   src/a.py          all     named in the goal",
        "found      200             1.00   src/\\x1b[31mb.py  3-5, 9  terms: order_by",
        "asked for  10              -      src/c.py          none    outline",
        "terms found: order_by (12 files), alias (1 file)",
        "terms found nowhere: 정렬",
        "did not fit: huge.py, lines 3-5 (no room)",
        "did not fit: big.py (no room)",
        "refused: file: /etc/passwd (outside the project)",
        "rules of the project: AGENTS.md, src/AGENTS.md",
        "method: words-1, 42 ms",
    ]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))


def test_show_prompt_has_the_receipt_of_that_call_and_older_prompts_none(project: Project) -> None:
    assert project.loop(goal="make add() in calc.py add").returncode == 3
    shown = project.run("show", "last", "--prompt", "plan.1").stdout
    assert "# context\n\ncontext: 1 file, 1 KB (1 named)\n" in shown and shown.index("# context") < shown.index(
        "# system"
    )
    [prompt] = project.folder.artifacts.glob("plan/*.prompt.json")
    kept = json.loads(prompt.read_text())
    del kept["sent"][0]["receipt"]
    prompt.write_text(json.dumps(kept))
    older = project.run("show", "last", "--prompt", "plan.1")
    assert older.returncode == 0 and "# context" not in older.stdout and "# system" in older.stdout
    prompt.write_text(json.dumps({**kept, "sent": [{"key": "plan.1", "receipt": {"files": 7}}]}))  # anybody's file
    assert project.run("show", "last", "--prompt", "plan.1").returncode == 0


def test_plain_lines_have_one_for_each_call_and_quiet_and_json_none(project: Project) -> None:
    command = ("loop", "make add() in calc.py add", "--check", project.check, "--approval", "never")
    provider = ("--provider", f"scripted:{project.script}", "--no-input")
    counts = {}
    for name, flags in {"plain": (), "quiet": ("--quiet",), "json": ("--json",)}.items():
        (project.path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        done = project.run(*command, *provider, *flags)
        assert done.returncode == 0, done.stderr
        counts[name] = (done.stderr + done.stdout).count("context: 1 file, 1 KB (1 named)")
    assert counts == {"plain": 2, "quiet": 0, "json": 0}


def test_at_a_terminal_the_line_stands_alone_above_the_live_lines(project: Project) -> None:
    project.write_script(role("planner", PLAN, delayMs=600, chunk=5), role("developer", RIGHT_PATCH))
    arguments = [PROGRAM, "loop", "make add() in calc.py add", "--check", project.check]
    terminal = Terminal([*arguments, "--provider", f"scripted:{project.script}"], project.path)
    seen = terminal.wait_for("characters", "[y,n,a,d,e,?,q]? ")  # the planner's text arrives first
    terminal.type("q\n")
    assert terminal.end() == 3
    assert "\r\n  context: 1 file, 1 KB (1 named)\r\n" in seen.replace("\x1b[K", "").replace(
        "\r  context", "\r\n  context"
    )
