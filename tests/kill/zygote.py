"""A process that forks one driver per case: every case is a new process, none pays for imports.

Reads JSON lines {project, chaos} and answers {status, ops}. The driver starts (or finds) a run of a parent workflow
that calls a loop as a child, drives it, and plays the person: it approves what waits and answers what is asked,
through the inbox, until the run is final.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from orchestra.app import App, Models
from orchestra.core.context import Context, Verdict
from orchestra.core.engine import Workflow
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.workflows.loop.shapes import Job
from tests.support.core import OPEN_TABLE, CountingDisk


class Order(Struct):
    """What the parent is asked: which loop to run as its child."""

    job: dict[str, Any]


async def parent(ctx: Context, order: Order) -> Verdict:
    """A parent with steps before, beside and after its child."""
    await ctx.now()

    async def quick(branch: Context) -> str:
        return await branch.new_id()

    ids = await ctx.fan_out({"left": quick, "right": quick})
    child = await ctx.call("build", "loop", order.job)
    return Verdict(status=child.status, result={"child": child.childRunId, "ids": len(ids)})


def drive(project: Path, script: Path, counting: CountingDisk | None = None) -> int:
    """Start or go on, answering everything, until the run is final."""
    app = App(project)
    if counting is not None:
        app.disk = counting
        app.engine._disk = counting
    app.workflows["parent"] = Workflow("parent", project / "runs", OPEN_TABLE, Order, parent)
    roots = [folder for folder in app.folders() if "_parent_" in folder.id.replace("_loop_", "")]
    root = next((f for f in roots if app.root_of(f).id == f.id), None) or _start(app, script)
    while True:
        end = asyncio.run(app.drive(root))
        if end.status in FINAL.values():
            return end.exit_code
        for summary in app.summaries():
            for request in summary.fold.pending.values():
                if request.type == "APPROVAL_REQUESTED":
                    app.approve(summary.folder, by="tester")
                else:
                    app.answer(summary.folder, "더해라: plus", by="tester")


def _start(app: App, script: Path) -> RunFolder:
    job = Job(goal="make add() add", checks=(("grep", "-q", "a + b", "calc.py"),), approval="always", backoffSec=0.01)
    facts = {"goal": "parent", "models": to_builtins(Models(default=f"scripted:{script}"))}
    return app.engine.start("parent", "kill", {"job": to_builtins(job)}, facts)


def serve() -> None:
    """Fork a driver for each line of standard input."""
    for line in sys.stdin:
        order = json.loads(line)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            _child(order, write)
        os.close(write)
        with os.fdopen(read) as answer:
            said = answer.read()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(json.dumps({"status": os.waitstatus_to_exitcode(status), "said": said}) + "\n")
        sys.stdout.flush()


def _child(order: dict[str, Any], write: int) -> None:
    code = 99
    try:
        if order.get("chaos"):
            os.environ["ORCHESTRA_CHAOS"] = order["chaos"]
        counting = CountingDisk() if order.get("count") else None
        code = drive(Path(order["project"]), Path(order["script"]), counting)
        if counting is not None:
            os.write(write, json.dumps(counting.kinds).encode())
    except BaseException as error:
        os.write(write, f"{type(error).__name__}: {error}\n{traceback.format_exc()}".encode())
        code = getattr(error, "exit_code", 98)
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve()
