"""Every file that is derived from a run's journal comes back as it was (B14, D-01)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestra.core.run import RunFolder
from tests.support.project import Project, role
from tests.support.tasks import step

_PLAN = [step("하나", tool="echo", inputs={"args": ["안녕"]}), step("둘", "하나", tool="echo", inputs={"args": ["끝"]})]
_OF_EVERY_RUN = ("report.md", "logs/run.log")
_OF_A_GRAPH = ("plan.json", "tasks.jsonl", "messages.jsonl", "metrics.json", *_OF_EVERY_RUN)


def graph(project: Project) -> RunFolder:
    (project.path / "plan-in.json").write_text(json.dumps(_PLAN, ensure_ascii=False), encoding="utf-8")
    done = project.run("dag", "인사", "--plan", "plan-in.json", "--no-input", "--json")
    assert done.returncode == 0, done.stderr
    return RunFolder(project.path / "runs" / json.loads(done.stdout.splitlines()[0])["runId"])


def loop(project: Project) -> RunFolder:
    done = project.loop("--approval", "never")
    assert done.returncode == 0, done.stderr
    return project.folder


def _removed(path: Path) -> None:
    path.unlink()


def _torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _edited(path: Path) -> None:
    path.write_text(path.read_text().replace("e", "E", 1))


@pytest.mark.spec("D-01", "C-26")
@pytest.mark.parametrize("damage", [_removed, _torn, _edited])
@pytest.mark.parametrize(("start", "names"), [(graph, _OF_A_GRAPH), (loop, _OF_EVERY_RUN)])
def test_the_files_of_a_finished_run_are_rebuilt(
    tmp_path: Path,
    start: Callable[[Project], RunFolder],
    names: tuple[str, ...],
    damage: Callable[[Path], None],
) -> None:
    project = Project(tmp_path / "p")
    run = start(project)
    before = {name: (run.path / name).read_bytes() for name in names}
    for name in names:
        damage(run.path / name)
    assert project.run("resume", run.id, "--json").returncode == 0
    assert {name: (run.path / name).read_bytes() for name in names} == before


def test_report_brings_a_missing_report_back(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = loop(project)
    before = run.report.read_bytes()
    run.report.unlink()
    shown = project.run("report", run.id)
    assert shown.returncode == 0 and "status: **completed**" in shown.stdout
    assert run.report.read_bytes() == before


def test_the_files_of_a_waiting_run_are_rebuilt(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", json.dumps(_PLAN, ensure_ascii=False)))
    arguments = (
        "dag",
        "인사",
        "--approval",
        "always",
        "--provider",
        f"scripted:{project.script}",
        "--no-input",
        "--json",
    )
    done = project.run(*arguments)
    assert done.returncode == 3, done.stderr
    run = RunFolder(project.path / "runs" / json.loads(done.stdout.splitlines()[0])["runId"])
    plan = (run.path / "plan.json").read_bytes()
    assert "안녕" in plan.decode()
    (run.path / "plan.json").unlink()
    assert project.run("resume", run.id, "--no-input", "--json").returncode == 3
    assert (run.path / "plan.json").read_bytes() == plan
