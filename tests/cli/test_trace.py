"""`trace` tells what the levels of a task graph did and told each other, in order, one line each."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len

from orchestra.workflows.dag.history import Moment
from tests.support.project import PROGRAM, records
from tests.support.tasks import Tasks, step
from tests.support.terminal import Terminal

LONG = "아주-긴-이름을-가진-작업이라서-화면보다-넓다-" + "가" * 20


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Tasks:
    project = Tasks(
        tmp_path_factory.mktemp("trace") / "p",
        step("인사", tool="echo", inputs={"args": ["안녕 " * 60]}),
        step("실패", "인사", code="raise SystemExit('안 된다')"),
        step(LONG, "실패", tool="echo"),
    )
    assert project.dag(intent="두 줄로\n된 목표").returncode == 1
    return project


def test_every_message_change_retry_and_failure_in_order(traced: Tasks) -> None:
    past = records(traced.run("trace", "last", "--json").stdout)
    told = [(m["component"], m["to"], m["label"], m["kind"], m["state"]) for m in past if m["label"] != LONG]
    assert told == [
        ("L1", None, "run", "state", "running"),
        ("L1", "L2", "coordinate", "message", None),
        ("L2", None, "coordinate", "state", "running"),
        ("L2", None, "coordinate", "log", "running"),
        ("L2", "L1", "coordinate", "message", None),
        ("L3", None, "인사", "state", "planned"),
        ("L3", None, "실패", "state", "planned"),
        ("L3", None, "실패", "state", "blocked"),
        ("L2", "L3", "인사", "message", None),
        ("L3", None, "인사", "state", "running"),
        ("L3", None, "인사", "state", "done"),
        ("L3", "L2", "인사", "message", None),
        ("L2", "L3", "실패", "message", None),
        ("L3", None, "실패", "state", "running"),
        ("L3", None, "실패", "retry", "running"),
        ("L3", None, "실패", "log", "running"),
        ("L3", None, "실패", "state", "failed"),
        ("L3", "L2", "실패", "message", None),
        ("L2", None, "coordinate", "state", "done"),
        ("L1", None, "run", "state", "failed"),
    ]
    times = [moment["since_ms"] for moment in past]
    assert times == sorted(times) and times[0] == 0
    for moment in past:
        msgspec.convert(moment, Moment, strict=True)


def test_columns_line_up_by_cells_and_a_pipe_gets_whole_lines(traced: Tasks) -> None:
    header, *lines = traced.run("trace", "last", env={"COLUMNS": "60"}).stdout.splitlines()
    column = cell_len(header[: header.index("what")])
    past = records(traced.run("trace", "last", "--json").stdout)
    assert len(lines) == len(past)
    for line, moment in zip(lines, past, strict=True):
        before, _, what = line.rpartition(moment["message"].replace("\n", " ").strip())
        assert not what.strip()
        assert cell_len(before) >= column and moment["label"] in line
        assert line.split()[1] == moment["component"]
        indent = before.index(moment["component"]) - before.index("  ")
        assert indent == 2 + {"L1": 0, "L2": 2, "L3": 4}[moment["component"]]
    assert any("plan request: 두 줄로 된 목표" in line for line in lines)
    assert any("assignment: echo '" + "안녕 " * 60 in line for line in lines)


def test_a_terminal_gets_no_line_wider_than_itself(traced: Tasks) -> None:
    code = f"import os; os.environ['COLUMNS'] = '80'; os.execv({PROGRAM!r}, ['orchestra', 'trace', 'last'])"
    terminal = Terminal([sys.executable, "-c", code], traced.path)
    shown = terminal.wait_for("of 3 tasks failed: 실패\r\n").splitlines()
    assert terminal.end() == 0
    assert max(map(cell_len, shown)) == 80 and any(line.endswith("…") for line in shown)


def test_a_dry_run_and_a_parked_run_have_a_past(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("가", tool="echo"))
    assert project.dag("--dry-run").returncode == 0
    assert "done: [DRY-RUN] done" in project.run("trace", "last").stdout
    assert project.dag("--approval", "always").returncode == 3
    last = project.run("trace", "last").stdout.splitlines()[-1]
    assert last.split()[1:] == ["L3", "가", "planned"]


def test_a_refused_way_out_is_a_denial(tmp_path: Path) -> None:
    code = "import urllib.request as u\ntry: u.urlopen('http://elsewhere.example')\nexcept OSError: pass"
    reach = {"sandbox": {"net": "allow"}}
    allowed = {"policies": {"allow_network": True}, "security": {"net": {"allow_domains": ["allowed.example"]}}}
    project = Tasks(tmp_path / "p", step("밖", code=code, constraints=reach), config=allowed)
    assert project.dag("--approval", "never").returncode == 0
    [denial] = [m for m in records(project.run("trace", "last", "--json").stdout) if m["kind"] == "denial"]
    assert denial["label"] == "밖" and denial["message"].startswith("NETWORK_ACCESS_DENIED elsewhere.example")
