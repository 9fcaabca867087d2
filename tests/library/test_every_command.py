"""A workflow that no line of src/ knows has every command: registered by an App, by the configuration, or by nobody."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from orchestra.app import App
from orchestra.core.context import Context, Verdict
from orchestra.core.errors import UsageError
from orchestra.core.work import AskPerson
from orchestra.providers.choose import Models
from orchestra.workflows.description import Workflow
from tests.library.support import configured
from tests.support.project import Project, records, role
from tests.support.runs import verify

REVIEW = """\
import orchestra

DIFF = '''diff --git a/review.txt b/review.txt
new file mode 100644
--- /dev/null
+++ b/review.txt
@@ -0,0 +1 @@
+좋다
'''


@orchestra.workflow
async def review(ctx: orchestra.Context, file: str) -> str:
    text = await ctx.model("reviewer", f"Review {file}.", files=True)
    mark = await ctx.ask("mark", "Which mark?", options=("good", "bad"))
    outcome = await ctx.patch(DIFF, "the review")
    return f"{text} {mark} {outcome.applied}"
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "p", role("planner", "fine work", match={"agent": "reviewer"}, repeat=True))
    configured(made, "review", REVIEW)
    return made


def _start(project: Project) -> None:
    started = project.run("start", "review", "file=calc.py", "--provider", f"scripted:{project.script}", "--no-input")
    assert started.returncode == 3, started.stderr


def test_a_configured_workflow_has_every_command(project: Project) -> None:
    _start(project)
    run = project.folder.id
    assert run in project.run("runs").stdout
    assert json.loads(project.run("runs", "--json").stdout.splitlines()[0])["workflow"] == "review"
    shown = project.run("show", run).stdout
    assert "Which mark?" in shown and "orchestra answer" in shown
    assert json.loads(project.run("show", run, "--json").stdout.splitlines()[0])["status"] == "awaiting_input"
    assert "Which mark?" in project.run("inbox").stdout
    assert "QUESTION_RAISED" in project.run("logs", run).stdout
    assert "Review calc.py." in project.run("show", run, "--prompt", "reviewer.1").stdout
    assert "calc.py" in project.run("sent", run).stdout
    assert "reviewer" in project.run("audit", run).stdout
    wrong = project.run("answer", run, "so so")
    assert wrong.returncode == 2 and "good, bad" in wrong.stderr
    answered = project.run("answer", run, "GOOD", "--json")
    assert answered.returncode == 3
    assert records(answered.stdout)[-1]["status"] == "awaiting_approval"
    assert "+좋다" in project.run("diff", run).stdout
    done = project.run("approve", run)
    assert (done.returncode, done.stdout) == (0, "fine work good True\n"), done.stderr
    assert "conforms" in project.run("verify", run).stdout
    assert "review" in project.run("report", run).stdout
    watched = project.run("watch", run, "--json")
    assert watched.returncode == 0 and '"RUN_COMPLETED"' in watched.stdout
    assert (project.path / "review.txt").read_text() == "좋다\n"


def test_it_is_forked_resumed_and_canceled(project: Project) -> None:
    _start(project)
    first = project.folder.id
    forked = project.run("fork", first, "--at", "3", "--no-drive")
    assert forked.returncode == 0, forked.stderr
    again = project.run("resume", forked.stdout.strip(), "--no-input")
    assert again.returncode == 3
    calls = [e for e in project.events_of(forked.stdout.strip()) if e.payload.get("key") == "reviewer.1"]
    assert len(calls) == 2  # kept, not called again
    assert project.run("cancel", first, "--reason", "그만").returncode == 0
    assert project.events_of(first)[-1].type == "RUN_CANCELED"
    assert "conforms" in project.run("verify", first).stdout


def test_a_run_of_an_unknown_workflow_is_read_verified_and_canceled_but_not_driven(project: Project) -> None:
    _start(project)
    run = project.folder.id
    (project.path / "orchestra.config.yaml").unlink()
    (project.path / "review.py").unlink()
    for text in ("runs", f"show {run}", f"logs {run}", f"report {run}", f"audit {run}", f"sent {run}", "inbox"):
        done = project.run(*text.split())
        assert done.returncode == 0, (text, done.stderr)
    assert "conforms" in project.run("verify", run).stdout
    for text in (f"resume {run}", f"answer {run} good", f"fork {run} --at 3"):
        done = project.run(*text.split())
        assert done.returncode == 2, (text, done.stderr)
        assert "there is no workflow 'review' here" in done.stderr
    assert len(project.runs) == 1
    canceled = project.run("cancel", run)
    assert canceled.returncode == 0, canceled.stderr
    assert project.events()[-1].type == "RUN_CANCELED"
    assert "conforms" in project.run("verify", run).stdout


def test_a_run_is_canceled_without_consent_and_without_loading_its_code(project: Project) -> None:
    _start(project)
    (project.path / "review.py").write_text("raise SystemExit('loaded')\n")
    project.run("trust", "--revoke")
    assert project.run("resume", "last").returncode == 5
    assert project.run("cancel", "last").returncode == 0
    assert project.events()[-1].type == "RUN_CANCELED"


PATCHES = """\
import orchestra
DIFF = '''diff --git a/one.txt b/one.txt
new file mode 100644
--- /dev/null
+++ b/one.txt
@@ -0,0 +1 @@
+1
'''
@orchestra.workflow
async def patches(ctx: orchestra.Context) -> str:
    await ctx.patch(DIFF)
    await ctx.command("echo", "one")
    return await ctx.ask("more", "More?")
"""


@pytest.mark.parametrize("applied", [True, False])
def test_a_run_of_an_unknown_workflow_is_canceled_unless_its_patch_may_be_half_applied(
    tmp_path: Path, applied: bool
) -> None:
    project = Project(tmp_path / "p")
    configured(project, "patches", PATCHES, "rules: [{prefix: [echo], decision: ask, reason: look first}]")
    assert project.run("start", "patches", "--no-input").returncode == 3
    for _ in ("the patch", "the command"):
        assert project.run("approve", "last", "--no-input").returncode == 3
    if not applied:  # as a kill right after the grant leaves it
        lines = project.folder.events.read_bytes().splitlines(keepends=True)
        granted = next(number for number, line in enumerate(lines) if b'"APPROVAL_GRANTED"' in line)
        project.folder.events.write_bytes(b"".join(lines[: granted + 1]))
    (project.path / "orchestra.config.yaml").unlink()
    canceled = project.run("cancel", "last")
    if applied:
        assert canceled.returncode == 0, canceled.stderr
        assert project.events()[-1].type == "RUN_CANCELED"
    else:
        assert canceled.returncode == 2 and "there is no workflow 'patches' here" in canceled.stderr
        assert not (project.folder.inbox / "cancel.json").exists()


class Order(msgspec.Struct, frozen=True):
    text: str


async def _tested(ctx: Context, order: Order) -> Verdict:
    question = AskPerson(questionId="q", question=order.text, reason="", needed_input=(), artifact="ask/q.md")
    answer = await ctx.at("execute", 1).perform("ask", question)
    return Verdict(status="completed", result={"answer": answer.text})


TESTED = Workflow(name="tested", params=Order, flow=_tested, goal=lambda order: order.text)


def test_a_workflow_that_an_app_is_given_is_started_answered_and_driven(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    app = App(project.path, more=(TESTED,))
    folder = app.start("tested", app.job("tested", {"text": "무엇?"}), Models())
    assert asyncio.run(app.drive(folder)).exit_code == 3
    assert project.run("runs").stdout.count("awaiting_input") == 1
    assert project.run("answer", folder.id, "이것", "--no-drive").returncode == 0
    end = asyncio.run(App(project.path, more=(TESTED,)).drive(folder))
    assert (end.status, end.result) == ("completed", {"answer": "이것"})
    assert list(verify(folder.path, app.workflows.get)) == []
    assert "무엇?" in "".join(app.report(app.runs.summary(folder)))


def test_a_workflow_that_an_app_is_given_cannot_take_the_name_of_one_of_ours(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has a workflow loop of its own"):
        App(Project(tmp_path / "p").path, more=(msgspec.structs.replace(TESTED, name="loop"),))
