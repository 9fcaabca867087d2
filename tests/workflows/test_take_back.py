"""A flow takes the patches of a run and of the runs below it back: exactly, or it names the file that changed since."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestra.app import App
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from tests.patch.kill_driver import tree
from tests.support.inner import OUTER, Call, Order, furnished, job, run
from tests.support.project import PLAN, RIGHT_PATCH, Project, new_file, reply, role
from tests.support.runs import read_events, verify

MORE = """\
diff --git a/calc.py b/더하기/calc.py
rename from calc.py
rename to 더하기/calc.py
--- a/calc.py
+++ b/더하기/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""
WRITES = (role("planner", PLAN), role("developer", reply(MORE + new_file("docs/deep/새.md", "new"))))
INNER = {"checks": [["grep", "-q", "a + b", "더하기/calc.py"]]}


def files(project: Project) -> dict[str, str]:
    """Everything but the runs."""
    return {name: what for name, what in tree(project.path).items() if not name.startswith(".runs")}


def last(project: Project, workflow: str = "outer") -> RunFolder:
    return [folder for folder in project.runs if f"_{workflow}_" in folder.id][-1]


def conforms(project: Project) -> None:
    known = App(project.path, more=(OUTER,)).workflows.get
    assert [str(found) for folder in project.runs for found in verify(folder.path, known)] == []


def of_patches(events: list[Event]) -> list[str]:
    return [event.type for event in events if event.type.startswith(("PATCH", "APPROVAL"))]


def test_a_childs_patches_are_taken_back_to_the_byte(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", *WRITES)
    (project.path / "build/앱/calc.py").chmod(0o640)
    before = files(project)
    end = run(project, Order((Call(job(project, **INNER), "build/앱"),), back=(0,)))
    assert end.result["said"][0]["iterations"] == 1
    inner = ("build/앱/calc.py", "build/앱/docs/deep/새.md", "build/앱/더하기/calc.py")
    assert (sorted(end.result["files"]), end.result["refusal"]) == (sorted(inner), "")
    assert files(project) == before  # the folders that the patch made are gone too
    assert of_patches(read_events(last(project).events)) == ["PATCH_PRODUCED", "APPROVAL_GRANTED", "PATCH_APPLIED"]
    conforms(project)


def test_the_whole_tree_is_taken_back_and_a_second_time_nothing_is_left(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", *WRITES, role("planner", PLAN), role("developer", RIGHT_PATCH))
    before = files(project)
    calls = (Call(job(project, **INNER), "build/앱"), Call(job(project)))
    end = run(project, Order(calls, own=True))
    assert len(end.result["files"]) == 4 and end.result["refusal"] == ""
    assert files(project) == before
    again = run(project, Order(runs=(last(project).id,)))
    assert (again.result["files"], again.result["refusal"]) == ([], "")
    assert files(project) == before
    conforms(project)


def test_a_take_back_of_a_take_back_brings_the_patches_again(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", *WRITES)
    run(project, Order((Call(job(project, **INNER), "build/앱"),)))
    patched = files(project)
    first = last(project).id
    run(project, Order(runs=(first,)))
    assert files(project) != patched
    run(project, Order(runs=(last(project).id,)))
    assert files(project) == patched


@pytest.mark.parametrize("who", ["a person", "a later run"])
def test_a_file_that_changed_since_is_named_and_nothing_is_changed(tmp_path: Path, who: str) -> None:
    later = RIGHT_PATCH.replace("a - b", "a + b").replace("+    return a + b", "+    return b + a")
    later = later.replace("calc.py", "더하기/calc.py")
    project = furnished(tmp_path / "p", *WRITES)
    run(project, Order((Call(job(project, **INNER), "build/앱"),)))
    first = last(project).id
    if who == "a person":
        (project.path / "build/앱/더하기/calc.py").write_text("mine\n")
    else:
        project.write_script(role("planner", PLAN), role("developer", later))
        run(project, Order((Call(job(project, checks=[["grep", "-q", "b + a", "더하기/calc.py"]]), "build/앱"),)))
    now = files(project)
    end = run(project, Order(runs=(first,)))
    why = "build/앱/더하기/calc.py changed since the run's patches were applied; nothing was taken back"
    assert (end.result["files"], end.result["refusal"]) == ([], why)
    assert files(project) == now
    assert of_patches(read_events(last(project).events)) == ["PATCH_PRODUCED", "PATCH_APPLY_FAILED"]


def test_only_the_accepted_files_of_a_patch_are_taken_back(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", RIGHT_PATCH.replace("[PATCH_END]", new_file("extra.md", "x") + "[PATCH_END]")),
    )
    assert project.loop().returncode == 3
    assert project.run("approve", "last", "--only", "calc.py").returncode == 0
    assert "a + b" in project.calc() and not (project.path / "extra.md").exists()
    (project.path / "extra.md").write_text("a person's own\n")
    end = run(project, Order(runs=(project.folder.id,)))
    assert end.result["files"] == ["calc.py"]
    assert "a - b" in project.calc() and (project.path / "extra.md").read_text() == "a person's own\n"


def test_a_run_in_a_folder_takes_back_nothing_outside_it(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    run(project, Order((Call(job(project)),)))
    first = last(project).id
    end = run(project, Order((Call({"runs": [first]}, "build/앱", workflow="outer"),)))
    assert end.result["said"][0]["refusal"] == (
        "calc.py: outside build/앱/, where this run works; nothing was taken back"
    )
    assert "a + b" in project.calc()


def test_a_foreign_run_or_a_changed_record_is_refused(tmp_path: Path) -> None:
    project = furnished(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    run(project, Order((Call(job(project)),)))
    first = last(project, "loop")
    [undo] = first.artifacts.glob("undo/*.json")
    assert undo.stat().st_mode & 0o777 == 0o600
    kept = undo.read_bytes()
    undo.write_bytes(kept.replace(b"a", b"b"))
    end = run(project, Order(runs=(first.id,)))
    assert "is gone, or is not what the run recorded" in end.result["refusal"]
    undo.write_bytes(kept)
    lines = [json.loads(line) for line in first.events.read_text().splitlines()]
    lines[0]["payload"]["goal"] = "another"
    first.events.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    end = run(project, Order(runs=(first.id,)))
    assert "foreign" in end.result["refusal"] or "key" in end.result["refusal"], end.result
    assert "a + b" in project.calc()
