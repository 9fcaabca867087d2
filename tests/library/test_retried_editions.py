"""Retry and fork of a run that looks at files: what was seen of them is kept, with a person's edit and its editions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import orchestra
from orchestra.app import App
from orchestra.core.run import RunFolder
from orchestra.workflows.own.workflow import described
from tests.support.project import Project, new_file
from tests.support.runs import read_events

calls: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def write(name: str, told: str) -> str:
    calls.append(name)
    return f"{name} of {told}\n"


def gate(where: str) -> None:
    if not (Path(where) / "ok").exists():
        raise ValueError("not ok")


@orchestra.workflow
async def priced(ctx: orchestra.Context, where: str) -> str:
    plan = await ctx.look("plan", "계획.md", await ctx.step("draft", write, "plan", "지붕"))
    here = await ctx.edition("price", plan=plan)
    await here.patch(new_file(f"made-{len(plan.text)}.txt", "made"))
    price = await ctx.look("price", "price.md", await here.step("price", write, "price", plan.text.strip()))
    await ctx.ask("go", "계속?")
    await ctx.step("gate", gate, where)
    return price.text


def write_unless(where: str, told: str) -> str:
    if (Path(where) / "bad").exists():
        raise ValueError("bad")
    return write("first", told)


@orchestra.workflow
async def chained(ctx: orchestra.Context, where: str) -> str:
    plan = await ctx.look("plan", "계획.md", await ctx.step("draft", write, "plan", "지붕"))
    first = await ctx.edition("first", plan=plan)
    text = await ctx.look("first", "first.md", await first.step("write", write_unless, where, plan.text.strip()))
    second = await ctx.edition("second", first=text)
    last = await ctx.look("second", "second.md", await second.step("write", write, "second", text.text.strip()))
    apart = await ctx.step("apart", write, "apart", "nothing")
    await ctx.ask("go", "계속?")
    return last.text + apart


def retried(project: Project) -> RunFolder:
    app = App(project.path, more=(described(priced),))
    new = asyncio.run(app.again.retry(app.runs.find("last")))
    assert asyncio.run(app.drive(new)).status == "completed"
    return new


def test_a_retry_keeps_the_looks_the_edit_and_the_patches_of_replaced_editions(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = _failed_after_an_edit(project)
    calls.clear()
    (project.path / "ok").touch()
    new = retried(project)
    assert calls == []  # only the gate is done again
    assert (project.path / "계획.md").read_text() == "기와 지붕\n"
    assert [e.type for e in read_events(new.events)].count("QUESTION_RAISED") == 1  # the kept one
    patches = [event.payload["key"] for event in read_events(new.events) if event.type == "PATCH_APPLIED"]
    assert [key.split("/")[0] for key in patches] == ["price@1", "price@2"]  # both are in the files
    assert [e.payload["key"] for e in read_events(run.events) if e.type == "PATCH_APPLIED"] == patches


def test_a_file_that_is_gone_before_a_retry_is_written_as_it_was_last_seen(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    _failed_after_an_edit(project)
    calls.clear()
    (project.path / "ok").touch()
    (project.path / "계획.md").unlink()
    retried(project)
    assert (project.path / "계획.md").read_text() == "기와 지붕\n"
    assert calls == []


def test_a_retry_keeps_what_an_earlier_process_made_beyond_the_failed_step(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    app = App(project.path, more=(described(chained),))
    end = orchestra.run(chained, project=project.path, where=str(project.path))
    assert end.status == "awaiting_input", end
    (project.path / "계획.md").write_text("기와\n")
    (project.path / "bad").touch()
    assert orchestra.resume(end.runId, chained, project=project.path).status == "failed"
    (project.path / "bad").unlink()
    calls.clear()
    new = asyncio.run(app.again.retry(app.runs.find(end.runId)))
    assert asyncio.run(app.drive(new)).exit_code == 3
    assert calls == ["first", "second"]  # and not `apart` again, which was made before the failure
    assert [one.name for one in app.trees.requests(new)] == ["go"]  # no file of the run is taken for a person's edit
    assert (project.path / "second.md").read_text() == "second of first of 기와\n"
    app.answers.answer(new, "예")
    assert asyncio.run(app.drive(new)).status == "completed"


def _failed_after_an_edit(project: Project) -> RunFolder:
    """A run whose plan was edited while it waited, and that failed at the gate after the second edition."""
    app = App(project.path, more=(described(priced),))
    end = orchestra.run(priced, project=project.path, where=str(project.path))
    assert end.status == "awaiting_approval", end
    folder = app.runs.find(end.runId)
    app.answers.approve(folder)
    assert orchestra.resume(end.runId, priced, project=project.path).status == "awaiting_input"
    app.answers.answer(folder, "예")
    (project.path / "계획.md").write_text("기와 지붕\n")
    end = orchestra.resume(end.runId, priced, project=project.path)
    assert end.status == "awaiting_approval", end  # the patch of the second edition
    app.answers.approve(folder)
    assert orchestra.resume(end.runId, priced, project=project.path).status == "failed"
    return folder
