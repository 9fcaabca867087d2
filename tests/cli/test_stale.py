"""`orchestra rerun --stale` and `orchestra lineage`, and edits between two commands: real processes, Korean texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.run import digest
from tests.library.support import configured, conforms
from tests.support.project import Project, records

CHAIN = """
import orchestra

@orchestra.workflow
async def chain(ctx: orchestra.Context, goal: str, ask: bool = False) -> str:
    async def made(name: str, **inputs: object) -> orchestra.Looked:
        here = await ctx.edition(name, **inputs)
        text = await here.model(name, f"{name}: {' '.join(map(str, inputs.values()))}")
        return await ctx.look(name, f"계약/{name}.md", text)

    brief = await made("brief", goal=goal)
    apart = await made("apart", goal=goal)
    design = await made("design", brief=brief)
    if ask:
        await (await ctx.edition("review", design=design)).ask("fine", "설계가 괜찮은가?")
    test = await made("test", design=design)
    return test.text
"""
NAMES = ("brief", "apart", "design", "test")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(
        tmp_path / "프로젝트", *({"match": {"agent": n}, "text": f"{n} {i}판"} for i in (1, 2, 3) for n in NAMES)
    )
    configured(project, "chain", CHAIN)
    return project


def start(project: Project, *more: str) -> str:
    ran = project.run("start", "chain", "goal=비", *more, "--provider", f"scripted:{project.script}", "--json")
    return str(records(ran.stdout)[-1]["runId"])


def calls(project: Project, run: str) -> list[str]:
    shown = records(project.run("audit", run, "--json").stdout)
    return [record["key"] for record in shown if record["type"] == "call"]


def text(project: Project, name: str) -> str:
    return (project.path / "계약" / f"{name}.md").read_text(encoding="utf-8")


def edit(project: Project, name: str, new: str = "사람이 고침") -> None:
    (project.path / "계약" / f"{name}.md").write_text(new, encoding="utf-8")


def facts(project: Project) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in (project.path / "계약").iterdir()}


def lineage(project: Project, run: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"run": [], "edition": [], "file": [], "child": []}
    for record in records(project.run("lineage", run, "--json").stdout):
        found[record.pop("type")].append(record)
    return found


def test_nothing_stale_makes_no_run_and_touches_nothing(project: Project) -> None:
    run = start(project)
    before = facts(project)
    again = project.run("rerun", "--stale", run)
    assert (again.returncode, again.stdout) == (0, "test 1판\n")
    assert f"nothing is stale in {run}: no new run is made" in again.stderr
    assert records(project.run("rerun", "--stale", run, "--json").stdout)[0] == {
        "type": "stale",
        "runId": run,
        "stale": [],
    }
    assert (len(project.runs), facts(project)) == (1, before)


def test_an_edited_file_of_a_finished_run_has_its_dependants_done_again(project: Project) -> None:
    run = start(project)
    edit(project, "brief")
    before = facts(project)
    again = project.run("rerun", "--stale", "last")
    assert (again.returncode, again.stdout) == (0, "test 2판\n"), again.stderr
    assert "계약/brief.md was edited" in again.stderr
    new = project.runs[-1].id
    assert len(project.runs) == 2
    assert calls(project, new)[4:] == ["design@2/design.1", "test@2/test.1"]
    assert {n: text(project, n) for n in NAMES} == {
        "brief": "사람이 고침",
        "apart": "apart 1판",
        "design": "design 2판",
        "test": "test 2판",
    }
    assert [facts(project)[name] for name in ("brief.md", "apart.md")] == [before["brief.md"], before["apart.md"]]
    conforms(project)
    refused = project.run("rerun", "--stale", run)  # its files are the new run's now
    assert refused.returncode == 2
    assert f"orchestra rerun --stale {new}" in refused.stderr


def test_a_removed_file_of_a_finished_run_is_written_again_for_nothing(project: Project) -> None:
    start(project)
    (project.path / "계약/design.md").unlink()
    again = project.run("rerun", "--stale", "last", "--json")
    assert records(again.stdout)[0]["stale"] == ["계약/design.md is gone"]
    assert text(project, "design") == "design 1판"
    assert len(calls(project, project.runs[-1].id)) == 4


def test_a_rerun_may_have_another_provider(project: Project) -> None:
    start(project)
    edit(project, "design")
    other = project.path.parent / "other.yaml"
    other.write_text(json.dumps({"replies": [{"match": {"agent": "test"}, "text": "다른 모델"}]}))
    again = project.run("rerun", "--stale", "last", "--provider", f"scripted:{other}")
    assert (again.returncode, again.stdout) == (0, "다른 모델\n"), again.stderr


def test_a_rerun_of_what_is_no_finished_run_is_refused(project: Project) -> None:
    run = start(project, "ask=true")
    waits = project.run("rerun", "--stale", run)
    assert waits.returncode == 2
    assert f"has not ended, and looks at edited files itself: orchestra resume {run}" in waits.stderr
    assert project.run("rerun", "--stale", "nothing").returncode == 2
    unsaid = project.run("rerun", run)
    assert (unsaid.returncode, "rerun --stale" in unsaid.stderr) == (2, True)
    assert len(project.runs) == 1


def test_an_answer_to_a_question_of_a_replaced_edition_is_refused_by_name(project: Project) -> None:
    run = start(project, "ask=true")
    shown = records(project.run("inbox", "--json").stdout)
    assert "설계가 괜찮은가?" in json.dumps(shown, ensure_ascii=False)
    edit(project, "design")
    (project.path / "계약/brief.md").unlink()
    (project.path / "계약/brief.md").mkdir()  # the run stops before it comes to its question again
    stopped = project.run("resume", run)
    assert stopped.returncode == 1
    (project.path / "계약/brief.md").rmdir()
    waiting = project.run("resume", run)
    assert waiting.returncode == 3
    state = json.loads(project.folder.state.read_text())
    assert state["pendingQuestionId"] == "review@2~fine"
    answered = project.run("answer", run, "네")
    assert answered.returncode == 0, answered.stderr
    assert not (project.folder.inbox / "review@1~fine.json").exists()
    late = project.run("answer", run, "아니오")
    assert late.returncode == 2
    assert "question review@1~fine of review@1 was withdrawn: its inputs changed" in late.stderr
    assert len(calls(project, run)) == 4


def test_the_ending_of_a_waiting_run_names_the_documents_that_it_wrote(project: Project) -> None:
    waits = project.run("start", "chain", "goal=비", "ask=true", "--provider", f"scripted:{project.script}")
    files = "계약/brief.md, 계약/apart.md, 계약/design.md"
    left = f"left in your files: {files}; written without a patch, so undo leaves them"
    assert waits.returncode == 3 and left in waits.stderr, waits.stderr


def test_lineage_says_what_was_made_from_what_across_runs(project: Project) -> None:
    run = start(project)
    edit(project, "design")
    project.run("rerun", "--stale", "last")
    new = project.runs[-1].id
    found = lineage(project, new)
    assert [(r["runId"], r["status"]) for r in found["run"]] == [(new, "completed"), (run, "completed")]
    assert found["run"][0]["forkedFrom"]["runId"] == run
    editions = {e["edition"]: e for e in found["edition"] if e["runId"] == new}
    assert editions["test@2"]["inputs"]["design"]["path"] == "계약/design.md"
    assert [name for name, e in editions.items() if e["replaced"]] == ["test@1"]
    files = {f["path"]: f for f in found["file"] if f["runId"] == new}
    assert (files["계약/design.md"]["edited"], files["계약/design.md"]["madeIn"]) == (True, "design@1")
    assert files["계약/design.md"]["digest"] == editions["test@2"]["inputs"]["design"]["digest"]
    assert (files["계약/test.md"]["edited"], files["계약/test.md"]["madeIn"]) == (False, "test@2")
    said = project.run("lineage", "last").stdout
    assert "test@2 was made from design (계약/design.md, edited)" in said
    assert f"forked from {run}" in said


def test_each_of_several_files_with_the_same_text_has_the_edition_that_made_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", {"text": "같은 글", "repeat": True})
    configured(project, "chain", CHAIN)
    made = {file["path"]: file["madeIn"] for file in lineage(project, start(project))["file"]}
    assert made == {f"계약/{name}.md": f"{name}@1" for name in NAMES}


def test_lineage_of_a_run_without_editions_names_the_run(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.loop()
    shown = project.run("lineage", "last")
    assert (shown.returncode, shown.stdout) == (0, f"{project.folder.id} (loop, awaiting_approval)\n")


READER = """
import orchestra

@orchestra.workflow
async def reader(ctx: orchestra.Context) -> list[str]:
    return sorted(ctx.inputs)
"""


def test_a_run_records_the_files_of_the_run_it_began_with(project: Project) -> None:
    run = start(project)
    (project.path / "reader.py").write_text(READER)
    project.configure('workflows: {chain: "chain.py:chain", reader: "reader.py:reader"}')
    read = project.run("start", "reader", "--input-run", run)
    assert json.loads(read.stdout) == [f"계약/{name}.md" for name in sorted(NAMES)], read.stderr
    found = lineage(project, "last")
    assert [record["runId"] for record in found["run"]][1:] == [run]
    assert found["run"][0]["inputRunId"] == run
    digests = {file["path"]: file["digest"] for file in found["file"]}
    assert found["run"][0]["inputs"] == digests
    waiting = start(project, "ask=true")
    refused = project.run("start", "reader", "--input-run", waiting)
    assert (refused.returncode, "is awaiting_input" in refused.stderr) == (2, True)
    assert project.run("start", "reader", "--input-run", "nothing").returncode == 2


BOOK = """
import orchestra

@orchestra.workflow
async def page(ctx: orchestra.Context) -> str:
    return (await ctx.look("page", "page.md", "a page")).text

@orchestra.workflow
async def book(ctx: orchestra.Context) -> str:
    await ctx.call("page", page)
    await ctx.inside("site").call("inner", page)
    await ctx.look("gone", "gone.md", "removed later")
    return (await ctx.look("book", "BOOK.md", "a book")).text

@orchestra.workflow
async def reader(ctx: orchestra.Context) -> dict[str, str]:
    return ctx.inputs
"""


def test_a_run_begins_with_the_files_of_a_whole_tree_as_they_are_now(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "site").mkdir()
    (project.path / "book.py").write_text(BOOK)
    project.configure(
        "workflows: {" + ", ".join(f'{name}: "book.py:{name}"' for name in ("page", "book", "reader")) + "}"
    )
    assert project.run("start", "book", "--no-input").returncode == 0
    (project.path / "BOOK.md").write_text("edited")
    (project.path / "gone.md").unlink()
    read = project.run("start", "reader", "--input-run", "last", "--no-input")
    wanted = {"BOOK.md": "edited", "page.md": "a page", "site/page.md": "a page"}
    assert json.loads(read.stdout) == {path: digest(text.encode()) for path, text in wanted.items()}, read.stderr


def test_an_edition_of_other_inputs_is_named_with_the_inputs_that_differ(project: Project) -> None:
    start(project)
    configured(
        project, "chain", CHAIN.replace('made("design", brief=brief)', 'made("design", brief=brief, style="새")')
    )
    again = project.run("rerun", "--stale", "last", "--json")
    assert records(again.stdout)[0]["stale"] == ["design: another style"], again.stderr


def test_a_step_that_the_workflow_did_not_have_is_stale_and_asking_does_not_do_it(project: Project) -> None:
    start(project)
    before = project.folder.events.read_bytes()
    configured(project, "chain", CHAIN.replace("return test.text", 'return await ctx.model("apart", "그다음")'))
    again = project.run("rerun", "--stale", "last", "--json")
    assert records(again.stdout)[0]["stale"] == ["step apart.1 was not done yet"], again.stderr
    old, new = project.runs
    assert old.events.read_bytes() == before
    assert calls(project, new.id)[4:] == ["apart.1"]
