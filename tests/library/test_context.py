"""What a workflow sees of its run: every verb, live and after a crash."""

from __future__ import annotations

import functools
import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import orchestra
from orchestra.app import App
from orchestra.core.errors import UsageError
from orchestra.providers.choose import Models
from orchestra.workflows.own.context import as_declared, file_name, returned
from tests.library.support import conforms
from tests.support.project import Project, new_file, role


class Point(msgspec.Struct, frozen=True):
    x: int
    y: int = 0


calls: list[str] = []


def counted(text: str) -> dict[int, Point]:
    calls.append(text)
    return {len(text): Point(1)}


async def counted_too(text: str) -> tuple[str, datetime]:
    calls.append(text)
    return text, datetime(2026, 1, 2)


class Adder:
    def __init__(self, base: int) -> None:
        self.base = base

    def plus(self, more: int) -> Point:
        return Point(self.base, more)

    def __call__(self, more: int) -> Point:
        return self.plus(more)


@orchestra.workflow
async def stepping(ctx: orchestra.Context) -> list[str]:
    first = await ctx.step("first", counted, "한국")
    second = await ctx.step("second", counted_too, "b")
    bound = [
        await ctx.step("bound", Adder(1).plus, 2),
        await ctx.step("object", Adder(1), 2),
        await ctx.step("partial", functools.partial(Adder(1).plus, 2)),
        await ctx.step("class", Point, 1, 2),
    ]
    assert bound == [Point(1, 2)] * 4
    plain: object = await ctx.step("lambda", lambda: Point(3))
    assert plain == {"x": 3, "y": 0}  # nothing says what a lambda returns
    await ctx.ask("go", "Go on?")
    return [repr(first), repr(second)]


def test_a_step_is_called_once_and_its_result_has_the_declared_type(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    calls.clear()
    assert orchestra.run(stepping, project=project.path).status == "awaiting_input"
    project.run("answer", "last", "네", "--no-drive")
    outcome = orchestra.resume("last", stepping, project=project.path)
    assert outcome.result == ["{2: Point(x=1, y=0)}", "('b', datetime.datetime(2026, 1, 2, 0, 0))"]
    assert calls == ["한국", "b"]
    conforms(project)


@orchestra.workflow
async def unrecordable(ctx: orchestra.Context, where: str) -> Any:
    if where == "step":
        return await ctx.step("object", object)
    return object()


@pytest.mark.parametrize("where", ["step", "workflow"])
def test_a_result_that_is_no_json_fails_the_run_with_its_type(tmp_path: Path, where: str) -> None:
    outcome = orchestra.run(unrecordable, project=Project(tmp_path / "p").path, where=where)
    assert (outcome.status, outcome.exitCode) == ("failed", 1)
    assert "returned object, which cannot be recorded as JSON" in outcome.message


@orchestra.workflow
async def leaving(ctx: orchestra.Context) -> str:
    try:
        return await ctx.step("leave", exit, 4)
    except orchestra.StepFailed as failed:
        return f"{failed.key}: {failed}"


def test_a_function_that_would_end_the_program_fails_its_step(tmp_path: Path) -> None:
    outcome = orchestra.run(leaving, project=Project(tmp_path / "p").path)
    assert outcome.result is not None and outcome.result.startswith("leave.1: ")
    assert "SystemExit: 4" in outcome.result


tries: list[int] = []


def at_the_third() -> str:
    tries.append(1)
    if len(tries) < 3:
        raise OSError("away")
    return "there"


@orchestra.workflow
async def retrying(ctx: orchestra.Context) -> str:
    return await ctx.step("try", at_the_third, retry=orchestra.Retry(times=2, base_sec=0.01))


def test_a_step_is_tried_again_as_often_as_it_says(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    tries.clear()
    assert orchestra.run(retrying, project=project.path).result == "there"
    assert project.types().count("PHASE_FAILED") == 2


@orchestra.workflow
async def dividing(ctx: orchestra.Context, how: str) -> str:
    shapes = {
        "nan": math.nan,
        "in a list": [1.0, (math.inf,)],
        "in a dict": {"a": {"b": -math.inf}},
        "a key": {math.nan: 1},
    }
    try:
        return str(await ctx.step("divide", lambda: shapes[how]))
    except orchestra.StepFailed as failed:
        return f"{failed.code}: {failed}"


@orchestra.workflow
async def endless(ctx: orchestra.Context) -> float:
    return math.inf


def test_a_result_that_is_no_number_of_json_fails_the_run(tmp_path: Path) -> None:
    outcome = orchestra.run(endless, project=Project(tmp_path / "p").path)
    assert (outcome.status, outcome.exitCode) == ("failed", 1)
    assert "inf is no number of JSON" in outcome.message


@pytest.mark.parametrize("how", ["nan", "in a list", "in a dict", "a key"])
def test_what_is_no_number_of_json_is_not_recorded_as_none(tmp_path: Path, how: str) -> None:
    outcome = orchestra.run(dividing, project=Project(tmp_path / "p").path, how=how)
    assert outcome.result is not None
    assert outcome.result.startswith("NOT_JSON: ") and "is no number of JSON" in outcome.result


def secret() -> str:
    return "Authorization: Bearer abcdefgh12345678abcdefgh12345678"


@orchestra.workflow
async def telling(ctx: orchestra.Context) -> str:
    return await ctx.step("secret", secret)


def test_a_secret_in_a_result_is_masked_in_the_run_and_for_the_workflow(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    outcome = orchestra.run(telling, project=project.path)
    assert outcome.result is not None and "abcdefgh12345678" not in outcome.result
    assert b"abcdefgh12345678" not in project.folder.events.read_bytes()


# -- people -----------------------------------------------------------------------------------------------------------


@orchestra.workflow
async def asking(ctx: orchestra.Context) -> list[str]:
    first = await ctx.ask("이름", "이름이 뭐야?", impact="표지에 쓴다")
    second = await ctx.ask("이름", "또?", options=("하나", "둘"), default="하나")
    third = await ctx.ask("이름.2", "And now?")
    return [first, second, third]


def test_questions_of_one_name_are_answered_one_by_one_and_only_with_their_options(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    orchestra.run(asking, project=project.path)
    assert project.run("answer", "last", "김", "--no-drive").returncode == 0
    assert orchestra.resume("last", project=project.path).exitCode == 3
    refused = project.run("answer", "last", "셋", "--no-drive")
    assert refused.returncode == 2 and "하나, 둘" in refused.stderr
    assert project.run("answer", "last", " 둘 ", "--no-drive").returncode == 0
    waiting = orchestra.resume("last", project=project.path)
    assert waiting.message.startswith("And now?")  # and has no answer yet, although its name looks like another's
    project.run("answer", "last", "셋", "--no-drive")
    assert orchestra.resume("last", project=project.path).result == ["김", "둘", "셋"]
    conforms(project)


@orchestra.workflow
async def asks_by_odd_names(ctx: orchestra.Context, diff: str) -> list[str]:
    said = [await ctx.ask(name, f"{name}?") for name in ("cancel", "models", "Cancel", "approval-patch", "x.refused")]
    return [*said, str((await ctx.patch(diff)).applied)]


def test_a_question_never_takes_the_place_of_a_cancel_of_the_models_or_of_an_approval(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    orchestra.run(asks_by_odd_names, project=project.path, diff=new_file("one.txt", "하나"))
    App(project.path).terms.keep_models(project.folder, Models(default="scripted"))
    for number in range(5):
        assert project.run("answer", "last", f"{number}", "--no-drive").returncode == 0
        waiting = orchestra.resume("last", asks_by_odd_names, project=project.path)
        assert waiting.exitCode == 3, waiting
    assert waiting.status == "awaiting_approval"
    assert App(project.path).terms.models(project.folder, project.events()[0]).default == "scripted"
    assert project.run("approve", "last", "--no-drive").returncode == 0
    outcome = orchestra.resume("last", asks_by_odd_names, project=project.path)
    assert outcome.result == [*"01234", "True"]
    conforms(project)


@orchestra.workflow
async def granting(ctx: orchestra.Context) -> list[int | None]:
    first = await ctx.command("echo", "one")
    second = await ctx.command("echo", "one")
    third = await ctx.command("echo", "one", "two")
    return [first.exitCode, second.exitCode, third.exitCode]


ASK = "rules: [{prefix: [echo], decision: ask, reason: look first}]\n"


def test_a_grant_is_for_exactly_this_command_and_no_other(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure(ASK)
    waiting = orchestra.run(granting, project=project.path)
    assert (waiting.status, waiting.exitCode) == ("awaiting_approval", 3)
    assert waiting.message == f"echo one (orchestra approve {waiting.runId})"
    shown = project.run("show", "last").stdout
    assert "• 1 execute waits for a grant: " in shown and "✗" not in shown and "NOT_GRANTED" not in shown
    [pending] = json.loads(project.run("show", "last", "--json").stdout)["pending"]
    assert (pending["subject"], pending["summary"], pending["files"]) == ("command", "echo one", [])
    assert pending["digest"].startswith("sha256:")
    assert project.run("approve", "last", "--no-drive").returncode == 0
    again = orchestra.resume("last", project=project.path)
    assert again.message.startswith("echo one two (")  # the second is the first again, and was granted with it
    project.run("approve", "last", "--no-drive")
    assert orchestra.resume("last", project=project.path).result == [0, 0, 0]
    assert project.types().count("APPROVAL_REQUESTED") == 2
    conforms(project)


@orchestra.workflow
async def reaching(ctx: orchestra.Context) -> list[int | None]:
    inside = await ctx.command("echo", "one")
    outside = await ctx.command("echo", "one", net=True)
    again = await ctx.command("echo", "one", net=True)
    return [inside.exitCode, outside.exitCode, again.exitCode]


def test_a_grant_without_network_gives_none(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure(ASK)
    waiting = orchestra.run(reaching, project=project.path)
    assert waiting.message.startswith("echo one (orchestra approve")
    project.run("approve", "last", "--no-drive")
    again = orchestra.resume("last", project=project.path)
    assert again.message.startswith("echo one (with network) (orchestra approve")
    assert "it runs with network" in project.run("show", "last").stdout
    project.run("approve", "last", "--no-drive")
    assert orchestra.resume("last", project=project.path).result == [0, 0, 0]
    assert project.types().count("APPROVAL_REQUESTED") == 2
    conforms(project)


def test_a_rejected_command_is_refused_with_the_reason(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure(ASK)
    orchestra.run(granting, project=project.path)
    assert project.run("reject", "last", "--reason", "not today", "--no-drive").returncode == 0
    outcome = orchestra.resume("last", project=project.path)
    assert (outcome.status, outcome.exitCode) == ("failed", 5)
    assert "not today" in outcome.message


@orchestra.workflow
async def catching(ctx: orchestra.Context) -> list[str]:
    caught: list[str] = []
    for argv in (("git", "push"), ("nosuchtool",), ("git", "push")):
        try:
            await ctx.command(*argv)
        except orchestra.Refused as refused:
            caught.append(str(refused))
    return caught


def test_a_forbidden_command_raises_refused_and_can_be_caught(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure("rules: [{prefix: [git, push], decision: forbid, reason: never}]\n")
    outcome = orchestra.run(catching, project=project.path)
    assert outcome.result is not None
    assert ["never" in text for text in outcome.result] == [True, False, True]
    assert outcome.exitCode == 0


@orchestra.workflow
async def running(ctx: orchestra.Context) -> orchestra.CommandOutcome:
    return await ctx.command("cat", "calc.py", "none", timeout_sec=30)


def test_a_command_that_fails_is_an_outcome_with_both_outputs(tmp_path: Path) -> None:
    outcome = orchestra.run(running, project=Project(tmp_path / "p").path)
    assert outcome.result is not None
    assert outcome.result.exitCode == 1
    assert "def add" in outcome.result.stdout and "none" in outcome.result.stderr


# -- patches ----------------------------------------------------------------------------------------------------------

TWO = new_file("one.txt", "하나") + new_file("two.txt", "둘")
CONTEXT = """\
diff --git a/blank.txt b/blank.txt
--- a/blank.txt
+++ b/blank.txt
@@ -1,3 +1,3 @@
-a
+b
 c
 
"""  # noqa: W293


@orchestra.workflow
async def patching(ctx: orchestra.Context, diff: str) -> orchestra.PatchOutcome:
    return await ctx.patch(diff, "두 파일")


def _patched(project: Project, *how: str) -> orchestra.PatchOutcome:
    assert orchestra.run(patching, project=project.path, diff=TWO).status == "awaiting_approval"
    assert project.run(*how, "--no-drive").returncode == 0
    outcome = orchestra.resume("last", patching, project=project.path)
    conforms(project)
    assert outcome.result is not None
    return outcome.result


def test_a_patch_waits_for_a_person_and_is_applied_whole(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert _patched(project, "approve", "last") == orchestra.PatchOutcome(True, ("one.txt", "two.txt"))
    assert (project.path / "one.txt").read_text() == "하나\n"


def test_a_person_may_approve_some_of_the_files(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert _patched(project, "approve", "last", "--only", "two.txt").files == ("two.txt",)
    assert not (project.path / "one.txt").exists()


def test_a_rejected_patch_is_an_outcome_with_the_reason(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert _patched(project, "reject", "last", "--reason", "too short") == orchestra.PatchOutcome(
        False, (), "too short"
    )
    assert not (project.path / "one.txt").exists()


def test_with_consent_the_configuration_may_leave_the_person_out(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure("loop: {approval: never}\n")
    (project.path / "blank.txt").write_text("a\nc\n\n")
    for diff in (TWO, CONTEXT):  # the second ends with an empty line of context
        outcome = orchestra.run(patching, project=project.path, diff=diff)
        assert outcome.result is not None and outcome.result.applied, outcome
    assert (project.path / "blank.txt").read_text() == "b\nc\n\n"


def test_a_patch_that_does_not_fit_is_an_outcome_that_says_why(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure("loop: {approval: never}\n")
    for diff in ("no diff at all", CONTEXT):
        outcome = orchestra.run(patching, project=project.path, diff=diff)
        assert outcome.result is not None and not outcome.result.applied and outcome.result.reason


# -- other runs, branches, time ---------------------------------------------------------------------------------------


@orchestra.workflow
async def adding(ctx: orchestra.Context, a: int, b: int = 1) -> Point:
    return Point(a, b)


@orchestra.workflow
async def calling(ctx: orchestra.Context) -> list[str]:
    function = await ctx.call("one", adding, 1, b=2)
    name = await ctx.call("two", "adding", a=1, b=2)
    return [repr(function), repr(name)]


def test_a_child_run_returns_its_result_by_function_with_its_type_and_by_name_as_json(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    outcome = orchestra.run(calling, project=project.path)
    assert outcome.result == ["Point(x=1, y=2)", "{'x': 1, 'y': 2}"]
    assert len(project.runs) == 3
    conforms(project)


@orchestra.workflow
async def calls_badly(ctx: orchestra.Context, name: str, job: dict[str, Any]) -> str:
    try:
        await ctx.call("child", name, **job)
    except orchestra.StepFailed as failed:
        return str(failed)
    return "called"


@pytest.mark.parametrize(
    ("name", "job", "why"),
    [
        ("loop", {"goal": "g", "evaluator": False}, "nothing can decide whether the goal is reached"),
        ("loop", {"goal": ["a"]}, "workflow loop: goal: expected str, got array. Its parameters: goal, "),
        ("loop", {"goal": "g", "checks": [["grep"]], "colour": 1}, "colour"),
        ("adding", {"a": "one"}, "workflow adding: a: expected int, got str. Its parameters: a, b"),
        ("unheard", {}, "there is no workflow 'unheard'"),
    ],
)
def test_a_child_that_would_be_refused_as_a_root_fails_its_step_before_a_folder_exists(
    tmp_path: Path, name: str, job: dict[str, Any], why: str
) -> None:
    project = Project(tmp_path / "p")
    provider = f"scripted:{project.script}"
    outcome = orchestra.run(calls_badly, project=project.path, provider=provider, name=name, job=job)
    assert outcome.result is not None and why in outcome.result
    assert [folder.id for folder in project.runs] == [outcome.runId]
    conforms(project)


@orchestra.workflow
async def looping(ctx: orchestra.Context) -> object:
    return await ctx.call("build", "loop", goal="make add() add", checks=[["grep", "-q", "a + b", "calc.py"]])


def test_a_child_has_facts_of_its_own_and_the_configuration_s_defaults(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure("loop: {approval: never, max_fix_iterations: 7}\nwhitelist_tools: [grep]\n")
    outcome = orchestra.run(looping, project=project.path, provider=f"scripted:{project.script}")
    assert outcome.status == "completed", outcome
    [child] = [folder for folder in project.runs if folder.id != outcome.runId]
    created = project.events_of(child.id)[0].payload
    assert created["goal"] == "make add() add"
    assert (created["approval"], created["maxFixIterations"]) == ("never", 7)
    assert created["parentRunId"] == outcome.runId
    assert "maxFixIterations" not in project.events_of(outcome.runId)[0].payload
    assert (project.path / ".runs" / ".gitignore").exists()
    assert "a + b" in project.calc()


@orchestra.workflow
async def failing_below(ctx: orchestra.Context) -> str:
    try:
        await ctx.call("child", "leaving_badly")
    except orchestra.StepFailed as failed:
        return str(failed)
    return ""


@orchestra.workflow
async def leaving_badly(ctx: orchestra.Context) -> str:
    raise RuntimeError("below")


def test_a_child_that_fails_fails_its_step_with_its_message(tmp_path: Path) -> None:
    outcome = orchestra.run(failing_below, project=Project(tmp_path / "p").path)
    assert outcome.result is not None
    assert outcome.result.startswith("child run ") and " failed: RuntimeError: below" in outcome.result
    assert " is failed" not in outcome.result


async def _branch(text: str, ctx: orchestra.Context) -> str:
    answer = await ctx.ask("same", f"{text}?") if text == "b" else text
    return f"{answer} {await ctx.new_id()}"


@orchestra.workflow
async def branching(ctx: orchestra.Context) -> dict[str, str]:
    return await ctx.fan_out({name: functools.partial(_branch, name) for name in ("a", "b", "c")}, limit=2)


def test_branches_run_beside_one_that_waits_and_are_not_run_again(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert orchestra.run(branching, project=project.path).status == "awaiting_input"
    ids = [event.payload["outcome"]["id"] for event in project.events() if "id" in event.payload.get("outcome", {})]
    project.run("answer", "last", "네", "--no-drive")
    result = orchestra.resume("last", branching, project=project.path).result
    assert result is not None and list(result) == ["a", "b", "c"]
    assert {result["a"].split()[1], result["c"].split()[1]} == set(ids)
    assert result["b"].startswith("네 ")


@orchestra.workflow
async def timing(ctx: orchestra.Context) -> list[str]:
    before = await ctx.now()
    await ctx.sleep(0.01)
    token = await ctx.new_id()
    await ctx.ask("go", "Go on?")
    return [before, token, await ctx.now(), ctx.run_id]


def test_time_and_chance_are_the_same_after_a_resume(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    orchestra.run(timing, project=project.path)
    outcomes = [event.payload.get("outcome", {}) for event in project.events()]
    recorded = [outcome.get("at") or outcome.get("id") for outcome in outcomes if outcome]
    project.run("answer", "last", "x", "--no-drive")
    outcome = orchestra.resume("last", timing, project=project.path)
    assert outcome.result is not None
    assert outcome.result[:2] == [recorded[0], recorded[2]]
    assert outcome.result[3] == outcome.runId


def test_a_changed_step_is_drift_which_can_be_accepted(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    code = "import orchestra\n\n@orchestra.workflow\nasync def drifting(ctx: orchestra.Context) -> str:\n"
    code += '    size = await ctx.step("size", len, "WORD")\n    return f"{size} {await ctx.ask(\'go\', \'Go?\')}"\n'
    (project.path / "drifting.py").write_text(code)
    project.configure('workflows: {drifting: "drifting.py:drifting"}\n')
    assert project.run("start", "drifting", "--no-input").returncode == 3
    (project.path / "drifting.py").write_text(code.replace("WORD", "LONGER"))
    stopped = project.run("answer", "last", "x")
    assert stopped.returncode == 1 and "--accept-drift size.1" in stopped.stderr
    assert "it is a CallFunction as before, with other arguments" in stopped.stderr
    done = project.run("resume", "last", "--accept-drift", "size.1")
    assert (done.returncode, done.stdout) == (0, "4 x\n")


def test_a_step_under_a_new_name_is_no_drift_and_one_that_is_counted_shifts_the_others(tmp_path: Path) -> None:
    """Drift leaves a waiting run waiting (docs/library.md)."""
    project = Project(tmp_path / "p")
    code = "import orchestra\n\n@orchestra.workflow\nasync def drifting(ctx: orchestra.Context) -> str:\n"
    rest = "    await ctx.sleep(0.01)\n    await ctx.step('size', len, 'x')\n    return await ctx.ask('go', 'Go?')\n"
    (project.path / "drifting.py").write_text(code + rest)
    project.configure('workflows: {drifting: "drifting.py:drifting"}\n')
    assert project.run("start", "drifting", "--no-input").returncode == 3
    (project.path / "drifting.py").write_text(code + "    await ctx.step('new', len, 'x')\n" + rest)
    assert project.run("resume", "last", "--no-input").returncode == 3
    for added, key in (("sleep(0)", "sleep.1: "), ("step('size', len, 'y')", "size.1: ")):
        (project.path / "drifting.py").write_text(f"{code}    await ctx.{added}\n{rest}")
        drifted = project.run("resume", "last", "--no-input")
        assert drifted.returncode == 1 and f"step {key}" in drifted.stderr
        assert project.state()["status"] == "awaiting_input"


def test_two_functions_of_one_name_are_refused_where_the_first_is_used(tmp_path: Path) -> None:
    def make(answer: str) -> Any:
        @orchestra.workflow
        async def twin(ctx: orchestra.Context) -> str:
            return answer

        return twin

    first, second = make("first"), make("second")
    path = Project(tmp_path / "p").path
    with pytest.raises(UsageError, match="two workflows of this program are named twin"):
        orchestra.run(first, project=path)
    assert orchestra.run(second, project=path).result == "second"

    @orchestra.workflow
    async def calls_a_twin(ctx: orchestra.Context) -> str:
        return str(await ctx.call("twin", first))

    outcome = orchestra.run(calls_a_twin, project=path)
    assert outcome.exitCode == 2 and "two workflows" in outcome.message


def test_the_model_of_an_agent_is_chosen_by_its_name(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", "from the default"))
    other = tmp_path / "other.yaml"
    other.write_text("replies: [{text: 다른 답}]\n", encoding="utf-8")

    @orchestra.workflow
    async def two_agents(ctx: orchestra.Context) -> list[str]:
        return [await ctx.model("a", "x", system="s"), await ctx.model("b", "x", files=True)]

    provider, roles = f"scripted:{project.script}", {"b": f"scripted:{other}"}
    outcome = orchestra.run(two_agents, project=project.path, provider=provider, roles=roles)
    assert outcome.result == ["from the default", "다른 답"]


# -- names ------------------------------------------------------------------------------------------------------------


async def _all_of(name: str, diff: str, ctx: orchestra.Context) -> list[object]:
    said: list[object] = [await ctx.ask(name, "?"), await ctx.ask(f"{name}b", "?")]
    said.append((await ctx.command("echo", "one")).exitCode)
    said.append((await ctx.patch(diff)).applied)
    said.append(await ctx.call(name, "adding", a=1))
    return [*said, await ctx.model(name, "x")]


@orchestra.workflow
async def names_oddly(ctx: orchestra.Context, name: str, diff: str) -> list[object]:
    await ctx.model(name, "y")
    await ctx.step(name, str)
    return (await ctx.fan_out({name: functools.partial(_all_of, name, diff)}))[name]


@pytest.mark.parametrize("name", ["a" * 300, "한" * 100, ".", "..", "%", " "])
def test_a_name_of_any_length_and_of_dots_is_one_of_files_in_the_run(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path / "p", role("planner", "one"), role("planner", "two"))
    project.configure(ASK)
    provider, diff = f"scripted:{project.script}", new_file("one.txt", "하나")
    outcome = orchestra.run(names_oddly, project=project.path, provider=provider, name=name, diff=diff)
    for words in (("answer", "last", "a"), ("answer", "last", "b"), ("approve", "last"), ("approve", "last")):
        assert outcome.exitCode == 3, outcome
        done = project.run(*words, "--no-drive")
        assert done.returncode == 0, done.stderr
        outcome = orchestra.resume("last", names_oddly, project=project.path)
    assert outcome.status == "completed", outcome
    assert outcome.result is not None and outcome.result[:4] == ["a", "b", 0, True]
    kept = next(run for run in project.runs if run.id == outcome.runId).artifacts
    assert {path.relative_to(kept).parts[0] for path in kept.rglob("*")} >= {"ask", "command", "model", "patch"}
    assert not [path for path in (kept / "model").iterdir() if path.name.startswith(".")]
    conforms(project)


class Callable:
    def __call__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("value", "hint", "read"),
    [
        ({"x": 1}, Point, Point(1)),
        ({"1": {"x": 1}}, dict[int, Point], {1: Point(1)}),
        ({"x": "no number"}, Point, {"x": "no number"}),
        *(([1], hint, [1]) for hint in (None, Any, object, type(None), lambda: 0)),
    ],
)
def test_what_was_recorded_is_read_as_the_declared_type_if_it_fits(value: Any, hint: Any, read: Any) -> None:
    assert as_declared(value, hint) == read


def test_the_declared_type_of_whatever_can_be_called() -> None:
    plain: Any = lambda: 0  # noqa: E731
    found = [returned(one) for one in (counted, functools.partial(counted, "x"), Point, Callable(), plain)]
    assert found == [dict[int, Point], dict[int, Point], Point, int, None]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        *(("글.1", "글"), ("글.2", "글.2"), ("글.1.1", "글.1.1"), ("글.x.1", "글.x"), ("a/b~c.1", "a~b%7Ec")),
        *((".1", "%"), ("..1", "%."), (".a.1", "%.a"), ("100%.1", "100%25"), ("\0.1", "%00")),
    ],
)
def test_the_files_of_a_step_have_a_name_of_their_own(key: str, name: str) -> None:
    assert file_name(key) == name
