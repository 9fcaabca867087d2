"""A run is driven only if this user's key, or this user's word, vouches for it: a range of forged run folders (F1).

Each case takes a genuine run that waits for a person and changes, plants, links, truncates or moves something of it.
The forger can write everything in the project and has no key. What must hold: nothing that was not granted is applied,
no command runs uncontained, no person's word is invented; and what is genuine still goes on.

It is long because the forgeries and the tests that use them belong together.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from orchestra.app import App
from orchestra.core import inbox
from orchestra.core.disk import Disk
from orchestra.core.errors import ForeignRun, OrchestraError, UsageError
from orchestra.core.keyring import Keyring
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.runs import adopt as adopting
from orchestra.workflows.loop.shapes import Job
from tests.support.others import as_ordinary_user
from tests.support.project import NOOP, PLAN, RIGHT_PATCH, Project, agree, role
from tests.support.tasks import Tasks, step

WAITS = (role("planner", PLAN), role("developer", RIGHT_PATCH), role("fixer", NOOP))


class Place(NamedTuple):
    """A project with a loop that waits for the approval of its patch."""

    project: Project
    folder: RunFolder

    @property
    def inbox(self) -> Path:
        self.folder.inbox.mkdir(exist_ok=True)
        return self.folder.inbox

    @property
    def digest(self) -> str:
        asked = [
            event for event in App(self.project.path).runs.summary(self.folder).events if "approvalId" in event.payload
        ]
        return str(asked[-1].payload["digest"])

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.folder.events.read_text(encoding="utf-8").splitlines()]

    def write(self, lines: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
        self.folder.events.write_text(text, encoding="utf-8")

    def granted(self, **more: Any) -> dict[str, Any]:
        """The line by which a person's approval is in a journal."""
        lines = self.lines()
        asked = lines[-1]
        outcome = {"granted": True, "by": "person", "digest": asked["payload"]["digest"], "approvalId": "approval-0001"}
        payload = {
            "key": asked["payload"]["key"],
            "effect": "Approve",
            "approvalId": "approval-0001",
            "outcome": outcome,
        }
        return {**asked, "id": f"{len(lines) + 1:08d}", "type": "APPROVAL_GRANTED", "payload": {**payload, **more}}


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with a key, and a project whose run waits; made once, copied back for every case."""
    base = tmp_path_factory.mktemp("foreign")
    project = Project(base / "p", *WAITS)
    app = App(project.path, environ={**os.environ, "HOME": str(base / "home")})
    job = Job(goal="make add() add", checks=(("grep", "-q", "a + b", "calc.py"),))
    folder = app.start("loop", job, Models(default=f"scripted:{project.script}"))
    assert asyncio.run(app.drive(folder)).exit_code == 3
    shutil.copytree(base / "p", base / "kept", symlinks=True)
    yield base


@pytest.fixture
def place(genuine: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("HOME", str(genuine / "home"))
    shutil.rmtree(genuine / "p")
    shutil.copytree(genuine / "kept", genuine / "p", symlinks=True)
    project = Project.__new__(Project)
    project.path, project.script, project.check = genuine / "p", genuine / "p.replies.json", "grep -q 'a + b' calc.py"
    return Place(project, project.folder)


def drive(place: Place, run: str = "last") -> str:
    """What comes of `resume`: the status, or the name of the error."""
    app = App(place.project.path)
    try:
        return asyncio.run(app.drive(app.runs.find(run))).status
    except OrchestraError as error:
        return type(error).__name__


# -- what is forged ---------------------------------------------------------------------------------------------------


def grant_file(place: Place) -> None:
    said = inbox.message("approve", "person", digest=place.digest)
    (place.inbox / "approval-0001.json").write_bytes(msgspec.json.encode(said))


def grant_file_with_a_seal_of_zeros(place: Place) -> None:
    said = inbox.message("approve", "person", digest=place.digest, seal="0" * 32)
    (place.inbox / "approval-0001.json").write_bytes(msgspec.json.encode(said))


def grant_line(place: Place) -> None:
    place.write([*place.lines(), place.granted()])


def grant_line_with_the_old_chain(place: Place) -> None:
    """As it was forged before lines were sealed: the plain digest is right."""
    last = place.folder.events.read_bytes().splitlines(keepends=True)[-1]
    line = place.granted(prev=hashlib.sha256(last).hexdigest()[:16])
    with place.folder.events.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def grant_instead_of_the_request(place: Place) -> None:
    *before, _ = place.lines()
    place.write([*before, place.granted()])


def grant_that_vouches_for_itself(place: Place) -> None:
    vouches = {
        "lines": len(place.lines()),
        "workspace": str(place.project.path),
        "by": "me",
        "at": "2026-01-01T00:00:00Z",
    }
    place.write([*place.lines(), place.granted(seal="0" * 32, vouches=vouches)])


def approval_mode(place: Place) -> None:
    first, *rest = place.lines()
    first["payload"]["params"]["approval"] = "never"
    place.write([first, *rest])


def no_containment(place: Place) -> None:
    first, *rest = place.lines()
    first["payload"]["policy"]["tier"] = "none"
    place.write([first, *rest])


def another_workspace(place: Place) -> None:
    first, *rest = place.lines()
    first["payload"]["workspace"] = "/etc"
    place.write([first, *rest])


def another_check(place: Place) -> None:
    first, *rest = place.lines()
    first["payload"]["params"]["checks"] = [["sh", "-c", "id > /tmp/owned"]]
    place.write([first, *rest])


def another_plan(place: Place) -> None:
    text = place.folder.events.read_text(encoding="utf-8")
    place.folder.events.write_text(text.replace("Nothing else changes", "Everything else changes"), encoding="utf-8")


def another_patch_in_the_event(place: Place) -> None:
    text = place.folder.events.read_text(encoding="utf-8")
    place.folder.events.write_text(text.replace("return a + b", "return a ** b"), encoding="utf-8")


def a_line_removed(place: Place) -> None:
    lines = place.lines()
    place.write([*lines[:2], *lines[3:]])


def lines_in_another_order(place: Place) -> None:
    one, two, three, *rest = place.lines()
    place.write([one, three, two, *rest])


def journal_written_anew(place: Place) -> None:
    """The same words with other blanks: not one byte of it is what was sealed."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in place.lines())
    place.folder.events.write_text(text, encoding="utf-8")


def journal_of_another_run(place: Place) -> None:
    other = RunFolder(place.folder.path.with_name("2026-01-01_009_loop_other"))
    shutil.copytree(place.folder.path, other.path)
    shutil.rmtree(place.folder.path)


def adopted_by_nobody(place: Place) -> None:
    approval_mode(place)
    said = {"lines": len(place.lines()), "sha256": "sha256:" + "0" * 64, "workspace": str(place.project.path)}
    place.folder.adopted.write_text(json.dumps({**said, "by": "me", "at": "2026-01-01T00:00:00Z", "seal": "0" * 32}))


def journal_as_pipe(place: Place) -> None:
    place.folder.events.unlink()
    os.mkfifo(place.folder.events)


def journal_as_device(place: Place) -> None:
    place.folder.events.unlink()
    place.folder.events.symlink_to("/dev/zero")


def journal_as_link(place: Place) -> None:
    aside = place.project.path / "journal"
    place.folder.events.rename(aside)
    place.folder.events.symlink_to(aside)


def journal_sparse(place: Place) -> None:
    os.truncate(place.folder.events, 20 << 30)


def journal_of_zeros(place: Place) -> None:
    place.folder.events.write_bytes(b"\0" * 4096)


def journal_empty(place: Place) -> None:
    place.folder.events.write_bytes(b"")


def journal_gone(place: Place) -> None:
    place.folder.events.unlink()


def journal_as_folder(place: Place) -> None:
    place.folder.events.unlink()
    place.folder.events.mkdir()


def folder_as_link(place: Place) -> None:
    aside = place.project.path / "aside"
    place.folder.path.rename(aside)
    place.folder.path.symlink_to(aside)


REFUSED: list[Callable[[Place], None]] = [
    grant_line,
    grant_line_with_the_old_chain,
    grant_instead_of_the_request,
    grant_that_vouches_for_itself,
    approval_mode,
    no_containment,
    another_workspace,
    another_check,
    another_plan,
    another_patch_in_the_event,
    a_line_removed,
    lines_in_another_order,
    journal_written_anew,
    journal_of_another_run,
    adopted_by_nobody,
    journal_as_pipe,
    journal_as_device,
    journal_as_link,
    journal_sparse,
    journal_of_zeros,
    journal_empty,
    journal_gone,
    journal_as_folder,
    folder_as_link,
]


@pytest.mark.parametrize("forge", REFUSED, ids=lambda forge: forge.__name__)
def test_what_was_forged_is_not_driven(forge: Callable[[Place], None], place: Place) -> None:
    forge(place)
    assert drive(place) in ("ForeignRun", "JournalCorrupt", "UsageError")
    app = App(place.project.path)
    answers = app.answers
    acts = (
        answers.approve,
        answers.ask_to_cancel,
        lambda f: answers.reject(f, reason="no"),
        lambda f: answers.answer(f, "yes"),
    )
    for act in acts:
        for folder in app.runs.folders():
            with pytest.raises(OrchestraError):
                act(folder)
    assert "a - b" in place.project.calc()


# What does not touch the evidence itself: the run waits on as if it were not there.


def budget_file(place: Place) -> None:
    (place.inbox / "models.json").write_text(json.dumps({"maxBudgetUsd": 1e9}))


def budget_file_in_the_new_form(place: Place) -> None:
    said = {"models": {"default": "claude_code", "maxBudgetUsd": 1e9}, "seal": "0" * 32}
    (place.inbox / "models.json").write_text(json.dumps(said))


def cancel_file(place: Place) -> None:
    (place.inbox / "cancel.json").write_bytes(msgspec.json.encode(inbox.message("cancel", "person")))


def grant_as_pipe(place: Place) -> None:
    os.mkfifo(place.inbox / "approval-0001.json")


def grant_as_device(place: Place) -> None:
    (place.inbox / "approval-0001.json").symlink_to("/dev/zero")


def grant_as_folder(place: Place) -> None:
    (place.inbox / "approval-0001.json").mkdir()


def grant_sparse(place: Place) -> None:
    (place.inbox / "approval-0001.json").touch()
    os.truncate(place.inbox / "approval-0001.json", 20 << 30)


def state_says_completed(place: Place) -> None:
    state = json.loads(place.folder.state.read_text())
    place.folder.state.write_text(json.dumps({**state, "status": "completed", "lastEventId": "99999999"}))


def state_as_device(place: Place) -> None:
    place.folder.state.unlink()
    place.folder.state.symlink_to("/dev/zero")


def torn_line(place: Place) -> None:
    with place.folder.events.open("a") as file:
        file.write('{"id":"00000099","runId":"x","type":"APPROVAL_GRANTED"')


WAITING: list[Callable[[Place], None]] = [
    grant_file,
    grant_file_with_a_seal_of_zeros,
    budget_file,
    budget_file_in_the_new_form,
    cancel_file,
    grant_as_pipe,
    grant_as_device,
    grant_as_folder,
    grant_sparse,
    state_says_completed,
    state_as_device,
    torn_line,
]


@pytest.mark.parametrize("forge", WAITING, ids=lambda forge: forge.__name__)
def test_what_was_planted_beside_it_counts_for_nothing(forge: Callable[[Place], None], place: Place) -> None:
    forge(place)
    assert drive(place) == "awaiting_approval"
    assert "a - b" in place.project.calc()
    app = App(place.project.path)
    assert app.terms.models(place.folder, app.runs.summary(place.folder).created).maxBudgetUsd is None
    app.answers.approve(place.folder)
    assert drive(place) == "completed"
    assert "a + b" in place.project.calc()


def test_a_word_to_a_run_that_was_removed_is_none_to_the_next_run_of_its_name(tmp_path: Path) -> None:
    """Ids are used again: what a person said to the old run was kept by somebody and put back."""
    project = Project(tmp_path / "p", *WAITS)
    assert project.loop().returncode == 3
    assert project.run("approve", "last", "--no-drive").returncode == 0
    run, kept = project.folder, tmp_path / "kept.json"
    shutil.copy(run.inbox / "approval-0001.json", kept)
    shutil.rmtree(run.path)
    assert project.loop().returncode == 3
    assert project.folder.id == run.id
    run.inbox.mkdir()
    shutil.copy(kept, run.inbox / "approval-0001.json")
    again = project.run("resume", "last", "--no-input")
    assert again.returncode == 3 and "was not written with your key" in again.stderr
    assert "a - b" in project.calc()


# -- through the real program -----------------------------------------------------------------------------------------


def test_a_planted_run_that_a_clone_brings_is_shown_as_foreign_and_never_run(tmp_path: Path) -> None:
    """F1 (c): a whole run folder with `tier: none`, a shell and its approval. Nothing of it runs, adopted or not."""
    maker = Tasks(tmp_path / "maker", step("가", tool="echo"), config={"whitelist_tools": ["sh", "echo"]})
    owned = tmp_path / "owned"
    plan = [
        {"task_id": "x", "intent": "x", "tools": ["sh"], "inputs": {"args": ["-c", f"id > {owned}"]}, "depends_on": []}
    ]
    maker.script.write_text(json.dumps({"replies": [{"match": {"phase": "plan"}, "text": json.dumps(plan)}]}))
    maker.settings({"whitelist_tools": ["sh", "echo"], "sandbox": {"tier": "none"}})
    elsewhere = {"HOME": str(tmp_path / "their-home"), "ORCHESTRA_TRUST": App(maker.path).project.consent.digest}
    assert maker.dag("--approval", "always", env=elsewhere).returncode == 3
    victim = Tasks(tmp_path / "victim", step("가", tool="echo"))
    shutil.copytree(maker.path / "runs", victim.path / "runs")
    run = victim.folder.id
    request = "approval-plan-1"
    asked = [e for e in victim.events() if e.type == "APPROVAL_REQUESTED"]
    victim.folder.inbox.mkdir()
    said = inbox.message("approve", "person", digest=asked[0].payload["digest"])
    (victim.folder.inbox / f"{request}.json").write_bytes(msgspec.json.encode(said))

    listed = victim.run("runs")
    assert "(foreign)" in listed.stdout and "orchestra adopt RUN" in listed.stdout
    waits = victim.run("inbox")
    assert "nothing waits for you" in waits.stdout and "is foreign" in waits.stderr
    assert "foreign" in victim.run("show", run).stdout
    assert json.loads(victim.run("show", run, "--json").stdout)["vouched"] is False
    checked = victim.run("verify", run)
    assert checked.returncode == 0 and "foreign: it was not made with your key" in checked.stdout
    for words in (
        ["resume", run, "--no-input"],
        ["approve", run, "--no-input"],
        ["reject", run, "--reason", "no", "--no-input"],
        ["answer", run, "yes", "--no-input"],
        ["cancel", run],
        ["fork", run, "--at", "2", "--no-input"],
        ["fork", run, "--no-input"],
        ["fork", run, "--answer", "question-0001-1", "yes", "--no-input"],
        ["retry", run, "--no-input"],
    ):
        refused = victim.run(*words)
        assert refused.returncode == 5, (words, refused.stderr)
        assert "is foreign" in refused.stderr and f"orchestra adopt {run}" in refused.stderr
    assert not owned.exists()

    asked_first = victim.run("adopt", run)
    assert asked_first.returncode == 5 and "nothing was adopted" in asked_first.stderr
    told = asked_first.stdout
    assert "containment" in told and "strict (it asks for none; this project does not allow more)" in told
    assert "(it asks for sh, echo; this project does not allow more)" in told
    assert f"waits with      {request}" in told
    adopted = victim.run("adopt", run, "--yes")
    assert adopted.returncode == 0, adopted.stderr
    assert victim.run("verify", run).stdout.startswith("vouched")
    still = victim.run("resume", run, "--no-input")
    assert still.returncode == 3 and "was not written with your key" in still.stderr  # the planted approval
    over = victim.run("approve", run, "--no-input")
    assert over.returncode != 0
    assert not owned.exists()  # bound by this project: no shell, and strict


@pytest.mark.spec("S1-120")
def test_the_three_files_are_enough_to_go_on_after_adopting(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *WAITS)
    assert project.loop().returncode == 3
    for path in sorted(project.folder.path.iterdir()):
        if path.name not in ("events.ndjson", "state.json", "artifacts"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    moved = tmp_path / "moved"
    project.path.rename(moved)
    project.path = moved
    refused = project.run("resume", "last", "--no-input")
    assert refused.returncode == 5 and f"it was made for {tmp_path / 'p'}" in refused.stderr
    adopted = project.run("adopt", "last", "--yes")
    assert adopted.returncode == 0 and "runs as a check grep -q 'a + b' calc.py" in adopted.stdout
    done = project.run("approve", "last", "--no-input")
    assert done.returncode == 0, done.stderr
    assert "a + b" in project.calc()
    assert project.run("verify", "last").returncode == 0
    assert "needs no adoption" in project.run("adopt", "last", "--yes").stdout


def test_a_shared_key_vouches_in_another_home(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *WAITS)
    key = {"ORCHESTRA_KEY": "우리 팀의 열쇠: 0123456789abcdef"}
    assert project.loop(env=key).returncode == 3
    assert project.run("approve", "last", "--no-input").returncode == 5
    done = project.run("approve", "last", "--no-input", env={**key, "HOME": str(tmp_path / "other")})
    assert done.returncode == 0, done.stderr
    assert "0123456789abcdef" not in project.folder.events.read_text()


@pytest.mark.parametrize("at", [f"{n}:{how}" for n in range(1, 5) for how in ("before", "torn", "after")])
def test_a_kill_while_adopting_leaves_the_run_foreign_or_adopted(at: str, place: Place) -> None:
    moved = place.project.path.with_name("q")
    shutil.rmtree(moved, ignore_errors=True)
    shutil.copytree(place.project.path, moved, symlinks=True)
    place.project.path = moved
    killed = place.project.run("adopt", "last", "--yes", env={"ORCHESTRA_CHAOS": at})
    assert killed.returncode in (0, -9), killed.stderr
    app = App(moved)
    foreign = app.runs.summary(app.runs.find("last")).foreign
    assert killed.returncode == -9 or foreign == ""
    assert place.project.run("adopt", "last", "--yes").returncode == 0
    app = App(moved)
    app.answers.approve(app.runs.find("last"))
    assert drive(place) == "completed"


def test_a_run_goes_on_under_the_narrower_of_then_and_now(tmp_path: Path) -> None:
    """F2: the policy a run began with is recorded; what the file says later can take away, never give."""
    project = Project(tmp_path / "p", *WAITS)
    assert project.loop().returncode == 3
    created = project.events()[0]
    assert created.payload["policy"]["tier"] == "strict"
    project.configure("sandbox: {tier: none}\nwhitelist_tools: [echo, curl]\n")
    app = App(project.path)
    bound = app.terms.policy(created)
    assert bound.tier == "strict" and bound.whitelist == ("echo",)
    assert project.run("approve", "last", "--no-input").returncode == 0
    checks = [e for e in project.events() if e.payload.get("effect") == "RunCommand" and e.type == "PHASE_COMPLETED"]
    assert [e.payload["outcome"]["tier"] for e in checks] == ["strict", "strict"]  # before and after


def test_what_a_person_typed_stays_and_what_the_file_said_is_narrowed(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("가", tool="echo"))
    assert project.dag("--retries", "7", "--approval", "always").returncode == 3
    project.settings({"retries": {"max": 1}, "concurrency": {"max_workers": 2}, "budget": {"max_usd": 3}})
    app = App(project.path)
    bound = app.terms.policy(project.events()[0])
    assert (bound.max_retries, bound.max_workers) == (7, 2)
    assert app.terms.models(project.folder, project.events()[0]).maxBudgetUsd == 3


def test_a_consent_that_is_gone_stops_a_run_that_goes_on(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *WAITS)
    assert project.loop().returncode == 3
    (project.path / "orchestra.config.yaml").write_text("sandbox: {env: [HOME_TOWN]}\n")
    refused = project.run("resume", "last", "--no-input")
    assert refused.returncode == 5 and "sandbox.env: HOME_TOWN" in refused.stderr
    agree(project.path)
    assert project.run("approve", "last", "--no-input").returncode == 0


def test_a_foreign_run_is_an_error_of_its_own(place: Place) -> None:
    grant_line_with_the_old_chain(place)
    app = App(place.project.path)
    with pytest.raises(ForeignRun, match="orchestra adopt"):
        app.answers.approve(place.folder)


def test_a_fork_records_the_policy_of_now_and_names_what_that_changes(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *WAITS)
    assert project.loop().returncode == 3
    project.configure("whitelist_tools: [echo]\npolicies: {max_task_duration_sec: 10}\n")
    forked = project.run("fork", "last", "--at", "1", "--no-drive")
    assert forked.returncode == 0, forked.stderr
    assert "max_task_sec: 300 -> 10" in forked.stderr and "whitelist_tools: " in forked.stderr
    created = project.events_of(forked.stdout.strip())[0]
    assert App(project.path).terms.policy(created).max_task_sec == 10
    project.configure("policies: {max_task_duration_sec: 20}\n")
    assert App(project.path).terms.policy(created).max_task_sec == 10  # a file can take away, never give


@pytest.mark.parametrize("link", [".runs", ".runs/workflows", "runs"])
def test_runs_are_not_kept_behind_a_link(tmp_path: Path, link: str) -> None:
    """git ships links: evidence would lie where patches and commands reach it."""
    project = Project(tmp_path / "p", *WAITS)
    outside = tmp_path / "outside"
    outside.mkdir()
    (project.path / link).parent.mkdir(exist_ok=True)
    (project.path / link).symlink_to(outside)
    refused = project.run("tool", "run", "--", "true") if link == "runs" else project.loop()
    assert refused.returncode == 2 and f"{project.path / link} is a link" in refused.stderr
    assert list(outside.iterdir()) == []


def test_a_foreign_run_speaks_for_no_other(place: Place) -> None:
    """It may name a genuine run as its parent, and say that it is of tomorrow."""
    evil = RunFolder(place.folder.path.with_name("2026-01-01_009_loop_evil"))
    shutil.copytree(place.folder.path, evil.path)
    first, *rest = place.lines()
    first["payload"] |= {"parentRunId": place.folder.id, "parentKey": "x.1"}
    first["payload"]["models"] = {"default": "scripted:/nowhere", "maxBudgetUsd": 1e9, "typedBudget": True}
    lines = [{**line, "runId": evil.id, "ts": "2099-01-01T00:00:00Z"} for line in (first, *rest)]
    for line in lines:
        line["payload"] = {name: value for name, value in line["payload"].items() if name not in ("seal", "prev")}
    Place(place.project, evil).write(lines)
    app = App(place.project.path)
    assert app.runs.find("last").id == place.folder.id
    for words in (["resume", evil.id, "--model", "m", "--no-input"], ["cancel", evil.id], ["approve", evil.id]):
        refused = place.project.run(*words)
        assert refused.returncode == 5 and "is foreign" in refused.stderr, (words, refused.stderr)
    assert not place.folder.inbox.exists()
    assert App(place.project.path).runs.summary(place.folder).fold.state.status == "awaiting_approval"


def test_a_configuration_behind_a_link_is_judged_from_where_it_is_used(tmp_path: Path) -> None:
    """It named a folder that was harmless from the link's target and the project's hooks from the project."""
    project = Project(tmp_path / "p", *WAITS)
    (project.path / ".git" / "hooks").mkdir(parents=True)
    (project.path / "hooks").symlink_to(".git/hooks")
    (project.path / "sub").mkdir()
    (project.path / "sub" / "hooks").symlink_to(tmp_path)
    (project.path / "sub" / "conf.yaml").write_text('security: {fs: {allow_write: ["hooks"]}}\n')
    (project.path / "orchestra.config.yaml").symlink_to("sub/conf.yaml")
    refused = project.loop()
    assert refused.returncode == 2 and "the workspace is not written directly" in refused.stderr


def test_a_fork_writes_nothing_outside_its_folder(place: Place) -> None:
    home = Path(os.environ["HOME"])
    (home / ".profile").write_text("mine")
    (place.project.path / "theirs").write_text("evil")
    data = b"evil"
    sha256 = f"sha256:{hashlib.sha256(data).hexdigest()}"
    (place.folder.path / "a").symlink_to(place.project.path)
    up = os.path.relpath(home / ".profile", place.folder.path)
    lines = place.lines()
    for name in ("a/theirs", f"a/../{up}", up, str(home / ".profile")):
        lines[-1]["payload"].setdefault("more", []).append({"path": name, "bytes": len(data), "sha256": sha256})
    for line in lines:
        line["payload"] = {name: value for name, value in line["payload"].items() if name not in ("seal", "prev")}
    place.write(lines)
    assert place.project.run("adopt", "last", "--yes").returncode == 0
    assert place.project.run("fork", "last", "--at", str(len(lines)), "--no-drive").returncode == 0
    assert (home / ".profile").read_text() == "mine"


@pytest.mark.parametrize("name", ["lock", "logs", "artifacts", "inbox", "scratch"])
def test_a_link_in_a_run_folder_is_not_written_through(place: Place, name: str) -> None:
    target = place.project.path / "elsewhere"
    inside = place.folder.path / name
    shutil.rmtree(inside) if inside.is_dir() else inside.unlink(missing_ok=True)
    target.write_text("mine") if name == "lock" else target.mkdir()
    inside.symlink_to(target)
    assert drive(place) in ("ForeignRun", "OddFile")
    assert target.read_text() == "mine" if name == "lock" else list(target.iterdir()) == []


# -- what a review broke ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forge", ["changed", "gone", "pipe", "link"])
def test_nobody_is_shown_another_patch_than_the_one_that_would_be_applied(place: Place, forge: str) -> None:
    asked = [line for line in place.lines() if line["type"] == "APPROVAL_REQUESTED"]
    shown = place.folder.path / asked[0]["payload"]["patch"]["path"]
    whole = shown.read_text()
    shown.unlink()
    if forge == "changed":
        shown.write_text(whole.replace("a + b", "a + 0"))
    elif forge == "pipe":
        os.mkfifo(shown)
    elif forge == "link":
        (place.project.path / "aside").write_text(whole)
        shown.symlink_to(place.project.path / "aside")
    refused = place.project.run("diff", "last")
    assert refused.returncode == 2 and "is not what the run recorded" in refused.stderr
    assert "a + 0" not in refused.stdout


def test_a_foreign_run_that_was_adopted_has_typed_nothing(tmp_path: Path) -> None:
    """What a person typed may be wider than the file; a forged journal may say it typed everything."""
    project = Project(tmp_path / "p", *WAITS)
    assert project.loop(env={"HOME": str(tmp_path / "their-home")}).returncode == 3
    lines = [json.loads(line) for line in project.folder.events.read_text(encoding="utf-8").splitlines()]
    first = lines[0]["payload"]
    first["typed"] = ["tier", "layers", "writes", "bounds", "approval", "max_retries", "fs"]
    first["policy"] |= {"tier": "none", "max_retries": 99, "fs": "rw"}
    first["approval"] = first["params"]["approval"] = "never"
    first["models"] |= {"maxBudgetUsd": 1e9, "typedBudget": True}
    for line in lines:
        line["payload"].pop("prev", None)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    project.folder.events.write_text(text, encoding="utf-8")
    project.configure("budget: {max_usd: 2}\n")
    assert project.run("adopt", "last", "--yes").returncode == 0
    app = App(project.path)
    created = app.runs.summary(project.folder).created
    bound = app.terms.policy(created)
    assert (bound.tier, bound.max_retries, bound.fs) == ("strict", 2, "read-only")
    assert app.terms.models(project.folder, created).maxBudgetUsd == 2
    assert app.runs.facts(created).typed == ()


def test_who_vouches_vouches_for_what_was_shown(place: Place) -> None:
    grant_line_with_the_old_chain(place)
    app = App(place.project.path)
    shown = adopting.candidates(app.project.store, app.runs, place.folder)
    lines = place.folder.events.read_bytes().splitlines(keepends=True)
    place.folder.events.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b'"by": "person"', b'"by": "nobody"')]))
    with pytest.raises(UsageError, match="has changed since you looked"):
        adopting.adopt(app.project, shown)


def test_a_secret_like_the_place_of_a_seal_does_not_harm_the_journal(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *WAITS)
    env = {"OPENAI_API_KEY": "0" * 32}
    assert project.loop(goal=f"use {'0' * 32}", env=env).returncode == 3
    assert "0" * 32 not in project.events()[0].payload["goal"]
    assert project.run("approve", "last", "--no-input", env=env).returncode == 0


def test_verify_and_show_agree_and_say_why(place: Place) -> None:
    moved = place.project.path.with_name("q2")
    shutil.rmtree(moved, ignore_errors=True)
    shutil.copytree(place.project.path, moved, symlinks=True)
    place.project.path = moved
    assert "foreign: it was made for" in place.project.run("verify", "last").stdout
    assert "it was made for" in place.project.run("show", "last").stdout


def test_a_run_made_before_there_were_seals_says_so(place: Place) -> None:
    lines = place.lines()
    for line in lines:
        line["payload"].pop("seal")
        line["payload"].pop("prev", None)
    place.write(lines)
    refused = place.project.run("resume", "last", "--no-input")
    assert refused.returncode == 5 and "it was made before runs were sealed, or elsewhere" in refused.stderr
    assert place.project.run("adopt", "last", "--yes").returncode == 0
    assert place.project.run("approve", "last", "--no-input").returncode == 0


def _answer(path: str, name: str) -> bool:
    app = App(Path(path))
    try:
        app.answers.approve(app.runs.find("last"), by=name)
    except UsageError:
        return False
    return True


def test_of_many_who_answer_beside_a_planted_file_exactly_one_wins_and_stays(place: Place) -> None:
    grant_file(place)
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        won = pool.starmap(_answer, [(str(place.project.path), f"p{n}") for n in range(8)])
    assert won.count(True) == 1
    said = App(place.project.path).project.store.mail(place.folder, "approval-0001")
    assert said is not None and said.by == f"p{won.index(True)}"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else; all others ran as an ordinary user")
def test_it_holds_for_an_ordinary_user_too() -> None:
    done = as_ordinary_user(Path(__file__), "-k", "was_forged or planted_beside")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


@pytest.mark.parametrize("how", ["before", "torn", "after"])
def test_a_kill_while_the_key_is_made_leaves_a_key_or_none(place: Place, how: str, tmp_path: Path) -> None:
    for number in range(1, 5):
        home = {"HOME": str(tmp_path / f"{number}")}
        killed = place.project.run("adopt", "last", "--yes", env={**home, "ORCHESTRA_CHAOS": f"{number}:{how}"})
        assert killed.returncode == -9
        kept = Keyring(home, place.project.path, Disk())
        assert kept.known is not None or not kept.file.exists()
        assert place.project.run("adopt", "last", "--yes", env=home).returncode == 0
        assert "vouched" in place.project.run("verify", "last", env=home).stdout
