"""A wrong argument of a verb is refused before anything of its step is recorded, and the run can be resumed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import orchestra
from orchestra.core.errors import UsageError
from tests.library.support import conforms
from tests.support.project import Project

NEW_FILE = "diff --git a/z b/z\nnew file mode 100644\n--- /dev/null\n+++ b/z\n@@ -0,0 +1 @@\n+a\n"
HALF = "x\ud800"


async def nothing(ctx: orchestra.Context) -> int:
    return 1


async def called() -> int:
    return 1


# Each is a call of a verb with a wrong argument, and what the refusal says.
WRONG: dict[str, tuple[Any, str]] = {
    "option": (lambda c: c.ask("a", "q", options=(1, 2)), "ctx.ask('a') (test_arguments.py:"),
    "option 2": (lambda c: c.ask("a", "q", options=("x", 2)), "options[1] must be text, not int"),
    "options": (lambda c: c.ask("a", "q", options="yes"), "options must be a tuple of texts"),
    "default": (lambda c: c.ask("a", "q", default=3), "default must be text, not int"),
    "no option": (lambda c: c.ask("a", "q", options=("x", "y"), default="z"), "'z' is none of the options: x, y"),
    "impact": (lambda c: c.ask("a", "q", impact=3), "impact must be text, not int"),
    "question": (lambda c: c.ask("a", 3), "question must be text, not int"),
    "half": (lambda c: c.ask("a", HALF), "question: its text has half a character ('\\ud800')"),
    "name": (lambda c: c.ask(3, "q"), "the name of the step must be text, not int"),
    "summary": (lambda c: c.patch(NEW_FILE, 3), "ctx.patch() (test_arguments.py:"),
    "diff": (lambda c: c.patch(b"x"), "diff must be text, not bytes"),
    "text": (lambda c: c.model("planner", 3), "text must be text, not int"),
    "system": (lambda c: c.model("planner", "x", None), "system must be text, not NoneType"),
    "role": (lambda c: c.model("planner", "x", role="king"), "no role 'king'; there are planner, developer"),
    "files": (lambda c: c.model("planner", "x", files="a.py"), "files must be True or False, not str"),
    "timeout": (lambda c: c.model("planner", "x", timeout_sec=0), "timeout_sec must be a number of seconds above 0"),
    "timeout 2": (lambda c: c.command("ls", timeout_sec=math.nan), "above 0, not nan"),
    "timeout 3": (lambda c: c.command("ls", timeout_sec="9"), "must be a number of seconds, not str"),
    "argv": (lambda c: c.command("ls", 3), "argv[1] must be text, not int"),
    "argv 2": (lambda c: c.command(["ls"]), "argv[0] must be text, not list"),
    "argv 3": (lambda c: c.command(), "no command is given: write ctx.command(program, argument, …)"),
    "net": (lambda c: c.command("ls", net="pypi.org"), "net must be True or False"),
    "function": (lambda c: c.step("a", 3), "the second argument must be a function, not int"),
    "swapped": (lambda c: c.step(len, "a"), "the name of the step must be text, not builtin_function_or_method"),
    "coroutine": (lambda c: c.step("a", called()), "pass the function, and its arguments after it"),
    "step's name": (lambda c: c.step(HALF, len, "x"), "the name of the step: its text has half a character"),
    "retry": (lambda c: c.step("a", len, "x", retry=3), "retry must be orchestra.Retry(times=…, base_sec=…), not int"),
    "retry 2": (lambda c: c.step("a", len, "x", retry=orchestra.Retry(times=-1)), "times must be a whole number"),
    "retry 3": (lambda c: c.model("a", "x", retry=orchestra.Retry(base_sec=math.nan)), "base_sec must be a number"),
    "seconds": (lambda c: c.sleep(math.nan), "ctx.sleep() (test_arguments.py:"),
    "seconds 2": (lambda c: c.sleep(1e12), "seconds must be a number of seconds, not 1000000000000.0"),
    "workflow": (lambda c: c.call("a", nothing), "nothing is no workflow: write @orchestra.workflow above it"),
    "workflow 2": (lambda c: c.call("a", 3), "workflow must be text, not int"),
    "parameter": (lambda c: c.call("a", "loop", goal=HALF), "goal: its text has half a character"),
    "parameter 2": (lambda c: c.call("a", "loop", goal=object()), "goal: it cannot be recorded as JSON"),
    "path": (lambda c: c.look("a", "x.md", 3), "text must be text, not int"),
    "glob": (lambda c: c.tree_hash("a", 3), "globs[0] must be text, not int"),
    "input": (lambda c: c.edition("a", size={"x": [math.inf]}), "size.x[0]: inf is no number of JSON"),
    "folder": (lambda c: c.inside(3).call("a", "loop", goal="x"), "folder must be text, not int"),
    "limit": (lambda c: c.fan_out({"a": nothing}, limit=-1), "limit must be a whole number, 1 or more"),
    "limit 2": (lambda c: c.fan_out({"a": nothing}, limit=1.5), "(0: all branches at once), not 1.5"),
    "branches": (lambda c: c.fan_out([nothing]), 'branches must be a dict, {"name": function}, not list'),
    "branch": (lambda c: c.fan_out({"a": 3}), "branch 'a' must be a function that takes a context"),
    "branch 2": (lambda c: c.fan_out({1: nothing}), "the name of a branch must be text, not int"),
}


@orchestra.workflow
async def mistaken(ctx: orchestra.Context, which: str) -> str:
    await ctx.step("before", len, "x")
    await WRONG[which][0](ctx)
    return "went on"


@pytest.mark.parametrize("which", WRONG)
def test_a_wrong_argument_stops_the_run_before_its_step_is_recorded(tmp_path: Path, which: str) -> None:
    project = Project(tmp_path / "p")
    outcome = orchestra.run(mistaken, which=which, project=project.path, on_ask="default")
    assert (outcome.status, outcome.exitCode) == ("running", 2), outcome
    assert WRONG[which][1] in outcome.message and "\n" not in outcome.message
    assert f"correct the workflow, then: orchestra resume {outcome.runId}" in outcome.message
    assert [event.type for event in project.events()] == ["RUN_CREATED", "PHASE_STARTED", "PHASE_COMPLETED"]
    conforms(project)


good = False


@orchestra.workflow
async def corrected(ctx: orchestra.Context) -> str:
    await ctx.step("before", len, "x")
    options: Any = ("1", "2") if good else (1, 2)
    return await ctx.ask("which", "Which?", options=options, default=options[0])


def test_a_corrected_workflow_goes_on_with_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path / "p")
    assert orchestra.run(corrected, project=project.path).exitCode == 2
    assert project.run("show", "last").returncode == 0
    monkeypatch.setattr(f"{__name__}.good", True)
    assert orchestra.resume("last", corrected, project=project.path, on_ask="default").result == "1"


@orchestra.workflow
async def measured(ctx: orchestra.Context, size: float = 1.0, words: dict[str, str] = {}) -> float:  # noqa: B006
    return size


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"size": math.nan}, "measured: size: nan is no number of JSON. Its parameters: size: float, words: dict"),
        ({"words": {"a": HALF}}, "measured: words.a: its text has half a character ('\\ud800'), which cannot be"),
        ({"words": {HALF: "a"}}, "measured: words: its text has half a character"),
    ],
)
def test_a_parameter_that_json_does_not_have_is_refused_before_there_is_a_run(
    tmp_path: Path, params: dict[str, Any], why: str
) -> None:
    project = Project(tmp_path / "p")
    with pytest.raises(UsageError) as refused:
        orchestra.run(measured, project=project.path, **params)
    assert why in str(refused.value)
    with pytest.raises(UsageError, match="workflow loop: goal: its text has half a character"):
        orchestra.run("loop", goal=HALF, project=project.path, provider="scripted")
    assert project.runs == list[object]()
