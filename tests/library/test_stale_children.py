"""`rerun --stale` of a tree: a file of a finished child run is edited, and exactly its dependants are done again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import orchestra
from orchestra.app import App
from orchestra.core.reading import RunCreated
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.workflows.own.workflow import described
from tests.library.support import conforms
from tests.support.project import Project
from tests.support.runs import read_events

calls: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def write(name: str, told: str) -> str:
    calls.append(name)
    return f"{name} of {told}"


@orchestra.workflow
async def contracted(ctx: orchestra.Context, name: str) -> str:
    """A brief that a person may edit, a design made from it, and a step that is made from neither."""
    await ctx.step("once", write, f"{name} once", "비")
    brief = await ctx.look("brief", f"계약/{name}-brief.md", await ctx.step("brief", write, f"{name} brief", "비"))
    here = await ctx.edition("design", brief=brief)
    design = await here.step("design", write, f"{name} design", brief.text)
    return (await ctx.look("design", f"계약/{name}-design.md", design)).text


@orchestra.workflow
async def halves(ctx: orchestra.Context) -> str:
    """Between the root and the contracts: a run whose own files nobody edits."""
    left = await ctx.call("left", contracted, name="왼쪽")
    return left.upper()


@orchestra.workflow
async def whole(ctx: orchestra.Context) -> dict[str, str]:
    first = await ctx.step("first", write, "first", "비")
    left = await ctx.call("half", halves)
    right = await ctx.call("right", contracted, name="right")
    joined = await (await ctx.edition("join", left=left)).step("join", write, "join", left)
    apart = await (await ctx.edition("apart", right=right)).step("apart", write, "apart", right)
    return {"first": first, "join": joined, "apart": apart}


def opened(project: Project) -> App:
    return App(project.path, more=(described(whole), described(halves), described(contracted)))


def finished(project: Project) -> RunFolder:
    app = opened(project)
    run = app.start("whole", app.job("whole", {}), Models())
    assert asyncio.run(app.drive(run)).status == "completed"
    calls.clear()
    return run


def rerun(project: Project, run: RunFolder) -> tuple[list[str], RunFolder]:
    """What is stale, and the new run, driven to its end; the same run if nothing is."""
    app = opened(project)
    stale = asyncio.run(app.again.stale(run))
    if not stale:
        return [], run
    app = opened(project)
    new = asyncio.run(app.again.rerun(run, stale))
    assert asyncio.run(app.drive(new)).status == "completed"
    return list(stale.lines()), new


def edit(project: Project, name: str, text: str) -> None:
    (project.path / "계약" / f"{name}.md").write_text(text, encoding="utf-8")


def result(run: RunFolder) -> dict[str, str]:
    found: dict[str, str] = read_events(run.events)[-1].payload["result"]
    return found


def test_nothing_is_stale_in_a_tree_that_nobody_edited(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = finished(project)
    assert rerun(project, run) == ([], run)
    assert calls == []


def test_an_edit_in_a_child_of_a_child_has_exactly_its_dependants_done_again(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = finished(project)
    before = {path: path.read_bytes() for path in run.path.parent.rglob("events.ndjson")}
    edit(project, "왼쪽-brief", "사람이 고침")
    said, new = rerun(project, run)
    assert said == ["half.1: left.1: 계약/왼쪽-brief.md was edited"]
    assert calls == ["왼쪽 design", "join"]  # not: first, either brief, right's design, apart
    assert result(new)["join"] == "join of 왼쪽 DESIGN OF 사람이 고침"
    assert result(new)["apart"] == result(run)["apart"]
    assert {path: path.read_bytes() for path in before} == before  # the old runs are as they were
    conforms(project)
    calls.clear()
    assert rerun(project, new) == ([], new)  # the new run has seen the edit


def test_a_second_edit_goes_on_from_the_newest_children(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = finished(project)
    edit(project, "왼쪽-brief", "하나")
    _, second = rerun(project, run)
    calls.clear()
    edit(project, "right-brief", "two")
    said, third = rerun(project, second)
    assert said == ["right.1: 계약/right-brief.md was edited"]
    assert calls == ["right design", "apart"]
    assert result(third) == {**result(second), "apart": "apart of right design of two"}
    conforms(project)


def test_an_edit_that_changes_no_result_stops_at_the_child(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = finished(project)
    (project.path / "계약" / "right-design.md").unlink()
    said, new = rerun(project, run)
    assert said == ["right.1: 계약/right-design.md is gone"]
    assert (calls, result(new)) == ([], result(run))
    assert (project.path / "계약" / "right-design.md").read_text(
        encoding="utf-8"
    ) == "right design of right brief of 비"


def test_a_rerun_that_was_canceled_before_its_children_began_loses_none_of_them(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = finished(project)
    edit(project, "right-brief", "고침")
    app = opened(project)
    new = asyncio.run(app.again.rerun(run, asyncio.run(app.again.stale(run))))
    asyncio.run(app.cancel(new, "그만"))
    app = opened(project)
    again = asyncio.run(app.again.retry(new))
    origin = RunCreated.of(read_events(again.events)[0]).forkedFrom
    assert origin is not None
    assert list(origin.children) == ["right.1"]
    assert asyncio.run(app.drive(again)).status == "completed"
    assert calls == ["right design", "apart"]
    conforms(project)


TEXTS = {"rules": "하나"}


@orchestra.workflow
async def copying(ctx: orchestra.Context) -> str:
    return (await ctx.look("rules", "계약/rules.md", TEXTS["rules"])).text


def test_a_file_that_the_program_has_another_text_for_is_stale_and_said_so(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    app = App(project.path, more=(described(copying),))
    run = app.start("copying", app.job("copying", {}), Models())
    assert asyncio.run(app.drive(run)).status == "completed"
    assert not asyncio.run(app.again.stale(run))
    TEXTS["rules"] = "둘"  # as if the program had been changed
    assert list(asyncio.run(app.again.stale(run)).lines()) == ["계약/rules.md gets another text"]
