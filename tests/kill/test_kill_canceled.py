"""SIGKILL between two files of a child run's patch, and then a cancel of the tree instead of a resume."""

from __future__ import annotations

import itertools
import json
import signal
from pathlib import Path

import pytest

from tests.support.project import Project

FLOWS = """
import orchestra

def made(name: str) -> str:
    head = f"diff --git a/{name} b/{name}\\nnew file mode 100644\\n--- /dev/null\\n+++ b/{name}\\n"
    return f"{head}@@ -0,0 +1 @@\\n+{name}\\n"

@orchestra.workflow
async def child(ctx: orchestra.Context) -> str:
    await ctx.patch("".join(made(f"file-{number}") for number in range(5)), "five files")
    return "done"

@orchestra.workflow
async def middle(ctx: orchestra.Context) -> str:
    return await ctx.call("child", child)

@orchestra.workflow
async def parent(ctx: orchestra.Context) -> str:
    return await ctx.call("middle", middle)
"""
NAMES = "".join(f'  {name}: "flows.py:{name}"\n' for name in ("child", "middle", "parent"))


def written(project: Project) -> int:
    return len(list(project.path.glob("file-*")))


@pytest.mark.spec("D-12")
def test_a_cancel_leaves_no_half_of_a_child_runs_patch(tmp_path: Path) -> None:
    """The child is two levels below the run that is canceled."""
    for operation in itertools.count(60):
        project = Project(tmp_path / str(operation))
        (project.path / "flows.py").write_text(FLOWS, encoding="utf-8")
        project.configure(f"workflows:\n{NAMES}loop: {{approval: never}}\n")
        killed = project.run("start", "parent", "--no-input", env={"ORCHESTRA_CHAOS": f"{operation}:after"})
        assert killed.returncode == -signal.SIGKILL, "no kill fell between two files"
        if 0 < written(project) < 5:
            break
    (project.path / "flows.py").write_text("def (", encoding="utf-8")
    refused = project.run("cancel", "last")
    assert refused.returncode == 2 and "flows.py" in refused.stderr  # nothing is recorded: half of the patch would stay
    (project.path / "flows.py").write_text(FLOWS, encoding="utf-8")
    assert json.loads(project.run("show", "last", "--json").stdout.splitlines()[0])["status"] != "canceled"
    canceled = project.run("cancel", "last")
    assert canceled.returncode == 0 and "canceled, with 2 child runs" in canceled.stderr
    assert written(project) == 5
    assert "left in your files: file-0, file-1, " in canceled.stderr
    assert project.run("undo", "last", "--yes").returncode == 0
    assert written(project) == 0
    for run in project.runs:
        assert project.run("verify", str(run.path)).returncode == 0
