"""Runs as long as runs may be: every view of one's own stays within 200 MB, and a longer plan is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestra.core.errors import ContractError
from orchestra.workflows.dag.plan import MOST_TASKS, read_plan
from tests.support.core import KEY
from tests.support.graph import POLICY, task, wanted, write_long_run
from tests.support.inside import said
from tests.support.memory import measured
from tests.support.project import PROGRAM

RUN = "2026-01-01_001_dag_long"
MOST_BYTES = 200_000_000


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a graph of the most tasks there may be, which goes on."""
    project = tmp_path_factory.mktemp("long")
    write_long_run(project, RUN, MOST_TASKS, lines=40)
    return project


@pytest.mark.parametrize("view", ["show", "report", "trace", "verify", "logs", "audit", "inspect"])
def test_no_view_of_a_graph_of_the_most_tasks_takes_more_than_200_mb(project: Path, view: str) -> None:
    task_of = ("t19999",) if view == "inspect" else ()
    done = measured([PROGRAM, view, RUN, *task_of], project, {"ORCHESTRA_KEY": KEY})
    assert done.code in (0, 1), done.said[-2000:]
    assert "too long to be shown" not in done.said and "damaged" not in done.said
    assert done.peak <= MOST_BYTES


def test_a_plan_of_more_tasks_is_refused_with_one_message(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(wanted(MOST_TASKS + 1))
    done = said(tmp_path, "dag", "긴 일", "--plan", "plan.json", "--no-input")
    assert done.code == 2
    assert "the plan has 20,001 tasks; at most 20,000 are run: make several runs of it" in done.err
    assert not (tmp_path / ".runs").exists()


def test_a_plan_of_few_tasks_that_is_too_long_is_refused_with_one_message(tmp_path: Path) -> None:
    files = [{"path": f"f{n}", "content": "x" * (1 << 19)} for n in range(40)]
    (tmp_path / "plan.json").write_text(json.dumps([task("t", inputs={"files": files})]))
    done = said(tmp_path, "dag", "긴 일", "--plan", "plan.json", "--no-input")
    assert done.code == 2
    assert "a plan has at most 16 MiB" in done.err


def test_a_plan_of_very_many_small_values_is_refused() -> None:
    inputs = {"args": [""] * 1000}
    with pytest.raises(ContractError, match="less if it is of very many small values"):
        read_plan(json.dumps([task(f"t{n}", inputs=inputs) for n in range(2_000)]), RUN, POLICY)


def test_a_plan_of_what_is_left_has_a_tenth_of_the_tasks() -> None:
    text = json.dumps([task(f"t{n}") for n in range(MOST_TASKS // 10 + 1)])
    assert len(read_plan(text, RUN, POLICY).tasks) == 2_001
    with pytest.raises(ContractError, match="at most 2,000 are run"):
        read_plan(text, RUN, POLICY, scope="again~")
