"""A tree of runs has one budget and one clock, however many runs it is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

import orchestra
from tests.library.support import configured
from tests.support.project import Project, records

PROGRAM = """
import orchestra

@orchestra.workflow
async def one(ctx: orchestra.Context, word: str) -> str:
    return await ctx.model("writer", word)

@orchestra.workflow
async def parent(ctx: orchestra.Context, together: bool) -> int:
    if together:
        said = await ctx.fan_out({f"b{n}": (lambda c, n=n: c.call("child", one, word=str(n))) for n in range(4)})
        return len(said)
    return len([await ctx.call("child", one, word=str(n)) for n in range(4)])
"""
# Each reply costs $0.60, of which the budget learns afterwards.
PRICES = "budget: {prices: {m: {input: 1000, output: 1000}}}"
REPLY = {"text": "한 마디", "usage": {"inputTokens": 300, "outputTokens": 300}, "repeat": True}


@pytest.mark.spec("S2-50")
@pytest.mark.parametrize("together", [False, True])
def test_children_spend_the_budget_of_their_root(tmp_path: Path, together: bool) -> None:
    project = Project(tmp_path / "p")
    configured(project, "parent", PROGRAM, PRICES)
    project.write_script(REPLY)
    done = project.run(
        *("start", "parent", f"together={str(together).lower()}", "--provider", f"scripted:{project.script}"),
        *("--model", "m", "--max-budget-usd", "1.0", "--json"),
    )
    assert done.returncode == 4, done.stderr
    root = records(done.stdout)[0]["runId"]
    assert "of $1.0000 spent" in done.stderr and f"resume {root} --max-budget-usd" in done.stderr
    events = (line for line in records(done.stdout) if line["type"] == "PHASE_COMPLETED")
    paid = [event for event in events if event["payload"]["effect"] == "ModelCall"]
    assert 0 < len(paid) < 4
    again = project.run("resume", root, "--max-budget-usd", "10", "--json")
    assert again.returncode == 0, again.stderr
    assert orchestra.resume(root, project=project.path).result == 4
