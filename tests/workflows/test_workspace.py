"""A child run works in a folder of its own inside the project: everything it sees, changes and runs is there (B16)."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

import orchestra
from orchestra.app import App
from orchestra.core.effects import ChildRun, digest_of
from orchestra.core.errors import UsageError
from orchestra.core.reading import RunCreated
from orchestra.core.records import Event
from orchestra.providers.choose import Models
from tests.library.support import conforms
from tests.support.inner import OUTER, Call, Order, furnished, job, run
from tests.support.project import PLAN, RIGHT_PATCH, WRONG_PATCH, Project, new_file, reply, role
from tests.support.runs import verify

WRITES = (role("planner", PLAN), role("developer", RIGHT_PATCH))
WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"


def events_below(project: Project) -> list[Event]:
    """The events of the only loop."""
    [folder] = [folder for folder in project.runs if "_loop_" in folder.id]
    return project.events_of(folder.id)


def shown(event: Event) -> tuple[str, ...]:
    return tuple(event.payload["outcome"].get("files", ()))


def test_a_child_patches_and_checks_the_files_of_its_own_folder(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", *WRITES)
    (project.path / "other.py").write_text("def add_all(): ...\n")
    end = run(project, Order((Call(job(project), "build/앱"),)))
    assert end.result["said"][0]["iterations"] == 1
    assert (project.calc(), (project.path / "build/앱/calc.py").read_text()) == (WRONG, RIGHT)
    events = events_below(project)
    facts = RunCreated.of(events[0])
    assert (facts.folder, facts.workspace) == ("build/앱", str(project.path))
    calls = [event for event in events if event.payload.get("effect") == "ModelCall" and "outcome" in event.payload]
    assert [shown(event) for event in calls] == [("calc.py",)] * 2  # not other.py, nor any path of the project
    conforms_with_outer(project)


def test_the_files_of_a_child_are_named_from_the_project_for_people(tmp_path: Path) -> None:
    """In the tree's diff, in the reports and in the child's result: as the person who started the run sees them."""
    project = furnished(tmp_path / "p", *WRITES)
    run(project, Order((Call(job(project), "build/앱"),)))
    [root] = [folder for folder in project.runs if "_loop_" not in folder.id]
    [done] = [event for event in project.events_of(root.id) if event.payload.get("effect") == "ChildRun"][1:]
    assert done.payload["outcome"]["paths"] == ["build/앱/calc.py"]
    assert project.run("report", root.id).stdout.count("- `build/앱/calc.py`") == 2  # the root's, and the child's own
    for command in ("show", "logs", "watch"):
        assert "patch applied: build/앱/calc.py" in project.run(command, root.id).stdout, command
    patch = project.run("diff", root.id).stdout
    taken = subprocess.run(["git", "apply", "-R", "-"], input=patch, text=True, cwd=project.path, capture_output=True)
    assert (taken.returncode, taken.stderr) == (0, "")
    assert (project.path / "build/앱/calc.py").read_text() == WRONG


def conforms_with_outer(project: Project) -> None:
    known = App(project.path, more=(OUTER,)).workflows.get
    assert [str(found) for folder in project.runs for found in verify(folder.path, known)] == []


def test_a_command_sees_the_folder_and_nothing_else_of_the_project(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", *WRITES)
    (project.path / "secret-plan.md").write_text("of the project\n")
    lists = job(project, checks=[["ls", "-1", ".", ".."], ["grep", "-q", "a + b", "calc.py"]])
    run(project, Order((Call(lists, "build/앱"),)))
    outputs = [
        event.payload["outcome"]["output"]
        for event in events_below(project)
        if event.payload.get("effect") == "RunCommand" and event.type == "PHASE_COMPLETED"
    ]
    assert outputs[0].split() == [".:", "calc.py", "..:", "앱"]
    assert not any("secret-plan" in output for output in outputs)


def test_a_folder_that_is_missing_is_made_and_its_environment_is_the_projects(tmp_path: Path) -> None:
    diff = new_file("src/새.py", "a + b")
    project = furnished(tmp_path / "p", role("planner", PLAN), role("developer", reply(diff)))
    venv.create(project.path / ".venv", symlinks=True, with_pip=False)
    tool = project.path / ".venv/bin/cat"  # a program of the environment: it says which Python runs it
    tool.write_text(f"#!{project.path}/.venv/bin/python\nimport sys\nprint(sys.prefix, open(sys.argv[1]).read())\n")
    tool.chmod(0o755)
    end = run(project, Order((Call(job(project, checks=[["cat", "src/새.py"]]), "fresh/one"),)))
    assert end.result["said"][0]["iterations"] == 1, end
    assert (project.path / "fresh/one/src/새.py").read_text() == "a + b\n"
    [check] = [e for e in events_below(project) if e.payload.get("effect") == "RunCommand" and e.phase == "evaluate"][
        1:
    ]
    assert check.payload["outcome"]["output"].strip() == f"{project.path}/.venv a + b"


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("../x", "the path has an '..' part"),
        ("build/../../x", "the path has an '..' part"),
        ("/etc", "the path is absolute"),
        ("", "the path is empty"),
        (".", "the path has an '.' part"),
        ("build//x", "the path has an empty part"),
        ("link", "link is a link"),
        ("link/x", "link is a link"),
        ("calc.py", "calc.py is not a folder"),
        ("calc.py/x", "calc.py is not a folder"),
        (".git", "the path leads into .git"),
        ("build/.GIT/x", "the path leads into .git"),
        ("git~1", "the path leads into .git"),
        (".runs/x", ".runs is a hidden folder"),
        (".ssh", ".ssh is a hidden folder"),
        ("runs/x", "runs is closed"),
        ("RUNS", "runs is closed"),
        ("node_modules/x", "node_modules is closed"),
        ("build/node_modules", "build/node_modules is closed"),
        ("venv", "venv is closed"),
        ("secrets/x", "what lies there is a secret by its name"),
        ("bu\u200bild", "the name has invisible characters"),
        ("bad\nname", "the path has control characters"),
    ],
)
def test_a_folder_that_no_run_may_work_in_fails_the_step_and_makes_no_child(
    tmp_path: Path, folder: str, why: str
) -> None:
    project = furnished(tmp_path / "p", *WRITES)
    os.symlink(project.path / "build", project.path / "link")
    (project.path / "venv/bin").mkdir(parents=True)
    (project.path / "venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    before = sorted(path for path in project.path.rglob("*") if ".runs" not in path.parts)
    end = run(project, Order((Call(job(project), folder),)))
    assert why in end.result["said"][0] and end.result["said"][0].startswith("USAGE: loop: workspace "), end.result
    assert end.result["children"] == [] and len(project.runs) == 1
    assert sorted(path for path in project.path.rglob("*") if ".runs" not in path.parts) == before


def test_a_job_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", *WRITES)
    end = run(project, Order((Call(job(project, scope={"only": ["a*b*c*d*e*f"]}), "fresh"),)))
    assert "scope: a*b*c*d*e*f: it is too long, or has more than 3 stars" in end.result["said"][0]
    assert not (project.path / "fresh").exists()


def test_a_childs_child_has_the_same_folder_or_one_inside_it(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH), *WRITES)
    inner = project.path / "build/앱/inner"
    inner.mkdir()
    (inner / "calc.py").write_text(WRONG)
    calls = [{"job": job(project)}, {"job": job(project), "folder": "inner"}, {"job": job(project), "folder": "../.."}]
    end = run(project, Order((Call({"calls": calls}, "build/앱", workflow="outer"),)))
    below = end.result["said"][0]["said"]
    assert [below[0]["iterations"], below[1]["iterations"]] == [1, 1]
    assert "the path has an '..' part" in below[2]
    assert ((inner / "calc.py").read_text(), (inner.parent / "calc.py").read_text()) == (RIGHT, RIGHT)
    assert project.calc() == WRONG
    folders = {RunCreated.of(project.events_of(one.id)[0]).folder for one in project.runs}
    assert folders == {"", "build/앱", "build/앱/inner"}


def test_what_is_closed_in_the_project_is_closed_in_a_folder_of_it(tmp_path: Path) -> None:
    bad = [new_file(path, "x") for path in ("kept/x.txt", "node_modules/x.js", ".git/hooks/x")]
    replies = [role("developer", reply(bad[0])), *(role("fixer", reply(diff)) for diff in bad[1:])]
    project = furnished(
        tmp_path / "p", role("planner", PLAN), *replies, folder="work", more="paths: {runs: work/kept}\n"
    )
    end = run(project, Order((Call(job(project, maxFixIterations=2), "work"),)))
    assert end.result["said"][0].startswith("failed: still failing after 2 fixes"), end.result
    reasons = [e.payload["outcome"]["refusal"]["message"] for e in events_below(project) if "APPLY_FAILED" in e.type]
    assert reasons[0] == "'kept/x.txt': kept/ belongs to orchestra; no patch writes there"
    assert "node_modules is an environment that commands use" in reasons[1]
    assert not (project.path / "work/node_modules").exists()


def test_the_rules_above_a_folder_hold_in_it_and_hidden_files_stay_hidden(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", *WRITES, more="context: {hide: [/build/앱/data/]}\n")
    (project.path / "AGENTS.md").write_text("PROJECT RULE\n")
    (project.path / "build/앱/AGENTS.md").write_text("INNER RULE\n")
    (project.path / "other").mkdir()
    (project.path / "other/AGENTS.md").write_text("OTHER RULE\n")
    (project.path / "build/앱/data").mkdir()
    (project.path / "build/앱/data/add.csv").write_text("add\n")
    run(project, Order((Call(job(project), "build/앱"),)))
    [folder] = [folder for folder in project.runs if "_loop_" in folder.id]
    sent = "".join(path.read_text() for path in sorted(folder.artifacts.rglob("*prompt*")))
    assert sent.index("PROJECT RULE") < sent.index("INNER RULE")
    assert "OTHER RULE" not in sent and "add.csv" not in sent and "calc.py" in sent


def test_a_moved_project_finds_the_folder_again(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    app = App(project.path, more=(OUTER,))
    folder = app.start(
        "outer",
        Order((Call(job(project, approval="always"), "build/앱"),)),
        Models(default=f"scripted:{project.script}"),
    )
    assert asyncio.run(app.drive(folder)).exit_code == 3
    moved = tmp_path / "elsewhere"
    shutil.move(project.path, moved)
    there = Project.__new__(Project)
    there.path, there.script = moved, project.script
    for one in there.runs:
        there.run("adopt", one.id, "--yes")
    app = App(moved, more=(OUTER,))
    [child] = [app.runs.find(one.id) for one in there.runs if "_loop_" in one.id]
    there.configure((moved / "orchestra.config.yaml").read_text())
    app.answers.approve(child, by="tester")
    assert asyncio.run(app.drive(app.runs.root_of(child))).exit_code == 0
    assert (moved / "build/앱/calc.py").read_text() == RIGHT


def test_a_folder_that_became_a_link_stops_the_run_until_it_is_one_again(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", *WRITES)
    app = App(project.path, more=(OUTER,))
    models = Models(default=f"scripted:{project.script}")
    folder = app.start("outer", Order((Call(job(project, approval="always"), "build/앱"),)), models)
    assert asyncio.run(app.drive(folder)).exit_code == 3
    os.rename(project.path / "build/앱", project.path / "build/real")
    os.symlink("real", project.path / "build/앱")
    [child] = [app.runs.find(one.id) for one in project.runs if "_loop_" in one.id]
    app.answers.approve(child, by="tester")
    with pytest.raises(UsageError, match="build/앱 is a link"):
        asyncio.run(app.drive(folder))
    assert (project.path / "build/real/calc.py").read_text() == WRONG
    os.unlink(project.path / "build/앱")
    os.rename(project.path / "build/real", project.path / "build/앱")
    assert asyncio.run(app.drive(folder)).exit_code == 0
    assert (project.path / "build/앱/calc.py").read_text() == RIGHT


def test_a_child_without_a_folder_has_the_digest_it_always_had() -> None:
    params: dict[str, Any] = {"goal": "x"}
    assert ChildRun("loop", params, "id").identity() == digest_of(["loop", params])
    assert ChildRun("loop", params, "id").public() == {"workflow": "loop", "childRunId": "id"}
    assert ChildRun("loop", params, "id", UNSET).identity() != ChildRun("loop", params, "id", "a").identity()


@orchestra.workflow
async def greet(ctx: orchestra.Context, inside: str) -> list[str]:
    outcome = await ctx.patch(new_file(f"{inside}.txt", "hello"))
    listing = await ctx.command("ls", "-1")
    return [*outcome.files, *listing.stdout.split()]


@orchestra.workflow
async def two_places(ctx: orchestra.Context) -> dict[str, list[str]]:
    async def one(branch: orchestra.Context) -> list[str]:
        return await branch.inside("first").call("greet", greet, inside="하나")

    async def two(branch: orchestra.Context) -> list[str]:
        return await branch.inside("second").call("greet", greet, inside="둘")

    return await ctx.fan_out({"one": one, "two": two})


def test_a_workflow_of_ones_own_runs_children_in_folders_side_by_side(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p")
    outcome = orchestra.run(two_places, project=project.path)
    assert outcome.result == {"one": ["하나.txt", "하나.txt"], "two": ["둘.txt", "둘.txt"]}, outcome
    assert (project.path / "second/둘.txt").read_text() == "hello\n"
    conforms(project)


def test_a_wrong_first_patch_is_fixed_in_the_folder_too(tmp_path: Path) -> None:
    fix = WRONG_PATCH.replace("a - b", "a * b").replace("+    return a * b", "+    return a + b")
    project = furnished(tmp_path / "p", role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", fix))
    end = run(project, Order((Call(job(project), "build/앱"),)))
    assert end.result["said"][0]["iterations"] == 2
    assert (project.path / "build/앱/calc.py").read_text() == RIGHT
