"""A process that forks one driver per case: every case is a new process, none pays for imports.

The order to count operations comes first and is carried out here: what a process makes once (modules, patterns) is
made before the first fork. `driver` is the module that drives the flow, if it is not this one: a process that has
defined workflows guards the files of all modules beside them, which no other flow should pay for.

Reads JSON lines {driver, flow, project, script, cache, tmp, chaos, appends, types, copies, into, count} and answers
{status, said}. The driver starts (or finds) the run of the project, drives it, and plays the person: it approves what
waits and answers what is asked, through the inbox, until the run is final. After so many `appends` to journals it is
killed; only events of `types` count, if these are given. At each of `copies` (a number and a mode) the folder of the
case is copied to `into`.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import importlib.util
import inspect
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

import orchestra
import orchestra.workflows.project
from orchestra.app import App
from orchestra.core.context import Context, Verdict
from orchestra.core.disk import Chaos, Disk
from orchestra.core.engine import Beginning
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.workflows.contracts.shapes import Job as ContractsJob
from orchestra.workflows.dag.shapes import EDITION as DAG_EDITION
from orchestra.workflows.dag.shapes import Job as DagJob
from orchestra.workflows.dag.workflow import shown_config
from orchestra.workflows.description import Workflow
from orchestra.workflows.evidence.memory import Message
from orchestra.workflows.evidence.workflow import configured
from orchestra.workflows.loop.shapes import EDITION, Job
from orchestra.workflows.team.workflow import job_of_files
from tests.kill import worktrees
from tests.kill.copies import CopyingDisk
from tests.support.core import CountingDisk, KillingDisk
from tests.support.inner import OUTER, Call, Order
from tests.support.runs import use_disk
from tests.support.team import TASK, TEAM


class Errand(Struct):
    """What the parent is asked: which loop to run as its child."""

    job: dict[str, Any]


async def parent(ctx: Context, order: Errand) -> Verdict:
    """A parent with steps before, beside and after its child."""
    await ctx.now()

    async def quick(branch: Context) -> str:
        return await branch.new_id()

    ids = await ctx.fan_out({"left": quick, "right": quick})
    child = await ctx.call("build", "loop", order.job)
    return Verdict(status=child.status, result={"child": child.childRunId, "ids": len(ids)})


PARENT = Workflow(
    name="parent", params=Errand, flow=parent, goal=lambda order: "parent", root=lambda project: project.path / "runs"
)


def drive(flow: str, project: Path, script: Path, counting: CountingDisk | None = None) -> int:
    """Start or go on, answering everything, until the run is final."""
    if flow.endswith(".py"):
        return _program(Path(flow), project, script, counting)
    if flow.startswith("tree"):
        return _tree(flow, project, script, counting)
    app = App(project, more=(PARENT, OUTER))
    assert app.project.keyring.seal  # made before anything is counted: it is made once for all cases
    os.environ["ORCHESTRA_TRUST"] = app.project.consent.digest
    if counting is not None:
        use_disk(app, counting)
    if flow == "worktree":
        return worktrees.drive(app, script)
    begin = {
        "dag": _graph,
        "loop": _loop,
        "hunks": _hunks,
        "inner": _inner,
        "evidence": _evidence,
        "team": _team,
        "contracts": _contracts,
    }
    root = begin[flow](app, script)
    while True:
        end = asyncio.run(app.drive(root))
        if end.status in FINAL.values():
            return end.exit_code
        for summary in (app.runs.summary(folder) for folder in app.runs.folders()):
            for request in summary.fold.pending.values():
                if request.type == "APPROVAL_REQUESTED" and flow == "hunks" and len(request.payload["files"]) > 1:
                    app.answers.approve(summary.folder, hunks={"글.txt": (1, 3)}, reason="가운데는 빼라", by="tester")
                elif request.type == "APPROVAL_REQUESTED":
                    app.answers.approve(summary.folder, by="tester")
                else:
                    said = {"evidence": "예", "team": "Next.js"}.get(flow, "더해라: plus")
                    app.answers.answer(summary.folder, said, by="tester")


def _hunks(app: App, script: Path) -> RunFolder:
    """A loop whose first patch the person grants in part."""
    if found := app.runs.folders():
        return found[0]
    checks = (("grep", "-q", "a + b", "calc.py"),)
    job = Job(goal="고쳐라", checks=checks, backoffSec=0.01, evaluator=False, edition=EDITION)
    return app.start("loop", job, Models(default=f"scripted:{script}"))


def _evidence(app: App, script: Path) -> RunFolder:
    """A turn of a session with a long memory: its first call is preceded by a compaction."""
    found = app.runs.folders()
    if found:
        return found[0]
    memory = tuple(Message("user", f"{number} " + "오래된 말 " * 60) for number in range(30))
    job = configured(app.project, "지워도 되나?", session="s1", memory=memory, backoffSec=0.0)
    return app.start("evidence", job, Models(default=f"scripted:{script}"))


def _team(app: App, script: Path) -> RunFolder:
    """A team of four: two drafts at once, a question, two rounds of reviews."""
    found = app.runs.folders()
    if found:
        return found[0]
    return app.start("team", job_of_files(app.project, TEAM, TASK), Models(default=f"scripted:{script}"))


def _contracts(app: App, script: Path) -> RunFolder:
    """A request for a small package (tests/support/contracts.py), without a person."""
    if found := [folder for folder in app.runs.folders() if "_contracts_" in folder.id]:
        return found[0]
    test = ("grep", "-q", "return 2", "calc/t1_s1.py")  # a runner of which only the exit code is known: quick
    job = ContractsJob(request="계산기를 만들어줘", test=test, approval="never", backoffSec=0.0, reruns=0)
    return app.start("contracts", job, Models(default=f"scripted:{script}"))


def _tree(flow: str, project: Path, script: Path, counting: CountingDisk | None) -> int:
    """A tree of three levels (tests/support/trees.py). The person answers by the root's id, one request at a time.

    `tree-reversed`: the last of those that wait first.
    """
    from tests.support.trees import TREE

    app = App(project, more=TREE)
    assert app.project.keyring.seal
    if counting is not None:
        use_disk(app, counting)
    started = [folder for folder in app.runs.folders() if "_crew_" in folder.id]
    root = started[0] if started else app.start("crew", app.job("crew", {}), Models(default=f"scripted:{script}"))
    while (end := asyncio.run(app.drive(root))).status not in FINAL.values():
        waits = [one for one in app.trees.requests(root) if not one.answered]
        meant = waits[-1] if flow == "tree-reversed" else waits[0]
        app.answers.answer(root, "빨강" if "왼쪽" in meant.asked.question else "Blue", question=meant.name, by="tester")
    return end.exit_code


def _program(path: Path, project: Path, script: Path, counting: CountingDisk | None) -> int:
    """The same for a program that uses the library (tests/library/test_killed.py): `release` of docs/library.md.

    All that happens in this process counts as one disk, although each call of the library opens the project anew.
    """
    assert App(project).project.keyring.seal  # made before anything is counted: it is made once for all cases
    spec = os.environ.get("ORCHESTRA_CHAOS")
    disk = counting or Disk(Chaos.from_spec(spec) if spec else None)
    orchestra.workflows.project.Disk = lambda *_: disk  # type: ignore[assignment,attr-defined]
    os.environ.pop("ORCHESTRA_CHAOS", None)
    release = _module(path, project.parent / "calls").release
    app = App(project)
    found = app.runs.folders()
    if found:
        outcome = orchestra.resume(found[0].id, release, project=project)
    else:
        outcome = orchestra.run(release, project=project, provider=f"scripted:{script}", version="1.0")
    while outcome.exitCode == 3:
        folder = app.runs.find(outcome.runId)
        if outcome.status == "awaiting_input":
            app.answers.answer(folder, "비", by="tester")
        else:
            app.answers.approve(folder, by="tester")
        outcome = orchestra.resume(outcome.runId, release, project=project)
    if outcome.exitCode:
        raise RuntimeError(outcome.message)
    return 0


def _module(path: Path, calls: Path) -> Any:
    """The program, loaded once; each call of one of its functions becomes a line of the file `calls`."""
    if path.stem not in sys.modules:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    loaded: Any = sys.modules[path.stem]
    diff_of = inspect.unwrap(loaded.diff_of)

    @functools.wraps(diff_of)
    def counted(version: str, notes: dict[str, str]) -> object:
        with calls.open("a", encoding="utf-8") as file:
            file.write("diff_of\n")
        return diff_of(version, notes)

    loaded.diff_of = counted
    return loaded


def _loop(app: App, script: Path) -> RunFolder:
    """The run of the parent, begun if there is none."""
    roots = [folder for folder in app.runs.folders() if "_parent_" in folder.id.replace("_loop_", "")]
    found = next((f for f in roots if app.runs.root_of(f).id == f.id), None)
    if found is not None:
        return found
    checks = (("grep", "-q", "a + b", "calc.py"),)
    job = Job(goal="make add() add", checks=checks, backoffSec=0.01, baseline=True, edition=EDITION)
    facts = {"goal": "parent", "models": to_builtins(Models(default=f"scripted:{script}"))}
    return app.engine.start("parent", "kill", Beginning({"job": to_builtins(job)}, facts))


def _inner(app: App, script: Path) -> RunFolder:
    """A parent whose child works in a folder of its own, with a plan, a note and a scope; then it takes all back."""
    if found := [folder for folder in app.runs.folders() if "_outer_" in folder.id]:
        return found[0]
    job = {
        "goal": "make add() add",
        "checks": [["grep", "-q", "a + b", "calc.py"]],
        "notes": [{"name": "계약", "content": "add() returns the sum"}],
        "plan": "1. add() adds.",
        "scope": {"never": ["docs/"]},
        "agent": "implementer",
    }
    return app.start("outer", Order((Call(job, "build/앱"),), own=True), Models(default=f"scripted:{script}"))


def _graph(app: App, script: Path) -> RunFolder:
    """The run of the task graph, begun if there is none: as `orchestra dag` does it."""
    if found := app.runs.folders():
        return found[0]
    prompts = app.project.config.llm.prompts
    job = DagJob(
        intent="모두 해줘",
        policy=app.project.policy,
        prompts={"planner": prompts.planner, "summarizer": prompts.summarizer},
        config=shown_config(app.project),
        approval="always",
        retries=app.project.config.retries.max,
        backoffSec=app.project.config.retries.backoff_base_sec,
        edition=DAG_EDITION,
    )
    return app.start("dag", job, Models(default=f"scripted:{script}"))


def serve() -> None:
    """Fork a driver for each line of standard input."""
    # What was written survives a kill, synced or not: only a power cut could tell. The kill points are all still there.
    os.fdatasync = lambda fd: None
    for line in sys.stdin:
        order = json.loads(line)
        if order.get("count"):
            _answer(*_counted(order))
            gc.collect()
            gc.freeze()  # a collection in a driver would copy every page of what is loaded
            continue
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            _child(order, write)
        os.close(write)
        with os.fdopen(read) as answer:
            said = answer.read()
        _, status = os.waitpid(pid, 0)
        _answer(os.waitstatus_to_exitcode(status), said)


def _answer(status: int, said: str) -> None:
    sys.stdout.write(json.dumps({"status": status, "said": said}) + "\n")
    sys.stdout.flush()


def _counted(order: dict[str, Any]) -> tuple[int, str]:
    counting = CountingDisk()
    return _drive(order, counting), json.dumps(counting.operations)


def _drive(order: dict[str, Any], counting: CountingDisk | None = None) -> int:
    os.environ["XDG_CACHE_HOME"] = order["cache"]
    tempfile.tempdir = order["tmp"]
    one: Any = importlib.import_module(f"tests.kill.{order['driver']}") if order["driver"] else sys.modules[__name__]
    code: int = one.drive(order["flow"], Path(order["project"]), Path(order["script"]), counting)
    return code


def _disk(order: dict[str, Any]) -> CountingDisk | None:
    """The disk for this order; None: the real one, with `chaos` if that is given."""
    if order.get("appends"):
        return KillingDisk(order["appends"], order.get("types", ()))
    if order.get("copies"):
        return CopyingDisk(Path(order["project"]).parent, Path(order["into"]), map(tuple, order["copies"]))
    return None


def _child(order: dict[str, Any], write: int) -> None:
    gc.disable()  # a life is too short to need it
    code = 99
    try:
        if order.get("chaos"):
            os.environ["ORCHESTRA_CHAOS"] = order["chaos"]
        code = _drive(order, _disk(order))
    except BaseException as error:
        os.write(write, f"{type(error).__name__}: {error}\n{traceback.format_exc()}".encode())
        code = getattr(error, "exit_code", 98)
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve()
