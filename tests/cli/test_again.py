"""Go on after a failure, answer differently later: retry and fork, by the real program."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orchestra.app import App
from orchestra.core.run import RunFolder
from tests.library.support import conforms
from tests.support import again
from tests.support.again import fails, says
from tests.support.project import PLAN, RIGHT, RIGHT_PATCH, Project, patch, records, role
from tests.support.runs import read_events
from tests.support.tasks import Tasks, step


def start(project: Project, workflow: str, *params: str) -> tuple[int, str]:
    done = project.run("start", workflow, *params, "--provider", f"scripted:{project.script}", "--no-input", "--json")
    return done.returncode, records(done.stdout)[-1]["runId"] if done.stdout else done.stderr


def answer(project: Project, run: str, text: str) -> int:
    return project.run("answer", run, text, "--no-input", "--json").returncode


def retried(project: Project, *words: str) -> tuple[int, list[dict[str, Any]]]:
    done = project.run("retry", *words, "--no-input", "--json")
    assert done.stdout, done.stderr
    said = records(done.stdout)
    assert said[0]["type"] == "launch" and said[-1]["type"] == "done"
    assert said[0]["runId"] == said[-1]["runId"]
    return done.returncode, said


def calls(project: Project, run: str) -> tuple[Counter[str], Counter[str]]:
    """The agents of the calls that a run's own journal has: kept ones, and those that it made."""
    said = [one for one in records(project.run("audit", run, "--json").stdout) if one["type"] == "call"]
    own = [one for one in said if one.get("runId", run) == run]
    assert not any(one["asked"] > 1 for one in own)
    kept, made = ([one["agent"] for one in own if one["kept"] is kept] for kept in (True, False))
    return Counter(kept), Counter(made)


def bytes_of(project: Project) -> dict[str, bytes]:
    return {folder.id: folder.events.read_bytes() for folder in project.runs if folder.events.exists()}


def named(project: Project, words: str) -> list[RunFolder]:
    return [folder for folder in project.runs if words in folder.id]


# -- retry ------------------------------------------------------------------------------------------------------------


def test_a_retry_keeps_all_drafts_and_answers_but_the_failed_one(tmp_path: Path) -> None:
    """B4: a fork kept none of nineteen drafts, and said that calls may have been paid twice."""
    project = again.project(tmp_path / "p", *again.drafts(20, broken=7, asks=3))
    code, run = start(project, "drafts")
    assert code == 3
    assert answer(project, run, "빨강") == 1
    before = bytes_of(project)
    code, said = retried(project, run)
    new = said[-1]["runId"]
    assert code == 0 and new != run and said[-1]["status"] == "completed"
    kept, made = calls(project, new)
    assert sum(kept.values()) == 19 and set(kept) == {f"agent-{n:02d}" for n in range(20) if n != 7}
    assert made == {"agent-07": 1, "reviewer": 20}
    asked = [e for e in project.events_of(new) if e.type == "QUESTION_RAISED"]
    assert len(asked) == 1, "the answer is kept"
    assert {run: data for run, data in bytes_of(project).items() if run in before} == before
    total = records(project.run("audit", new, "--json").stdout)[-1]
    assert (total["calls"], total["askedAgain"]) == (21, 0)
    assert "paid twice" not in project.run("audit", new).stdout
    conforms(project)


def test_a_retry_of_a_run_that_fails_again_can_be_retried(tmp_path: Path) -> None:
    replies = again.drafts(3)
    project = again.project(tmp_path / "p", *[fails("agent-01")] * 4, *replies)
    _, run = start(project, "drafts", "n=3")
    code, said = retried(project, run)
    assert code == 1
    code, said = retried(project, "last")
    assert code == 0
    kept, made = calls(project, said[-1]["runId"])
    assert (kept, made) == ({"agent-00": 1, "agent-02": 1}, {"agent-01": 1, "reviewer": 3})
    created = project.events_of(said[-1]["runId"])[0].payload
    assert created["forkedFrom"]["origin"] == run
    conforms(project)


def test_a_failed_grandchild_is_gone_on_from_and_nothing_else_is_done_again(tmp_path: Path) -> None:
    project = again.project(
        tmp_path / "p",
        *(says(name, f"{name}.") for name in ("top", "middle", "first-a", "first-b", "second-a", "last")),
        *(fails("second-b"), fails("second-b"), says("second-b", "second-b.")),
    )
    code, run = start(project, "top")
    assert code == 3
    for name in ("a", "b"):
        [leaf] = [one for one in named(project, "_leaf_") if f"-{name}-child-" in one.id]
        answer(project, leaf.id, name)
    before = bytes_of(project)
    code, said = retried(project, run)
    assert code == 0, said[-1]
    assert said[-1]["result"] == "last."
    made = {folder.id: calls(project, folder.id) for folder in project.runs if folder.id not in before}
    by_flow = {name.split("_")[2]: (dict(kept), dict(new)) for name, (kept, new) in made.items()}
    assert by_flow == {
        "top": ({"top": 1}, {"last": 1}),
        "middle": ({"middle": 1}, {}),
        "leaf": ({"first-b": 1}, {"second-b": 1}),
    }, "leaf a is kept as a result; its run is the old one's"
    assert {name: data for name, data in bytes_of(project).items() if name in before} == before
    for folder in project.runs:
        if folder.id not in before and "_top_" not in folder.id:
            created = read_events(folder.events)[0].payload
            assert created["parentRunId"] not in before and created["forkedFrom"]["runId"] in before
    conforms(project)


def test_a_run_that_has_not_ended_is_gone_on_with_as_it_is(tmp_path: Path) -> None:
    project = again.project(tmp_path / "p", says("left", "l"), says("right", "r"), says("both", "b"))
    _, run = start(project, "two")
    done = project.run("retry", run, "--no-input", "--json")
    assert done.returncode == 3 and records(done.stdout)[-1]["runId"] == run
    assert f"run {run} has not ended: going on with it" in done.stderr
    assert len(project.runs) == 1
    refused = project.run("retry", run, "--max-fixes", "9")
    assert refused.returncode == 2 and "has not ended" in refused.stderr


def test_a_canceled_run_goes_on_where_it_was(tmp_path: Path) -> None:
    project = again.project(tmp_path / "p", says("first-가", "1"), says("second-가", "2"))
    _, run = start(project, "leaf", "name=가")
    assert project.run("cancel", run).returncode == 0
    before = project.folder.events.read_bytes()
    code, said = retried(project, run)
    new = said[-1]["runId"]
    assert code == 3 and calls(project, new) == ({"first-가": 1}, {})
    assert answer(project, new, "초록") == 0
    assert project.events_of(new)[-1].payload["result"] == "1초록2"
    assert RunFolder(project.path / ".runs/workflows" / run).events.read_bytes() == before


def test_another_provider_makes_the_failed_call(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), {"match": {"role": "developer"}, "error": again.BROKEN})
    project.configure("retries: {max: 0}\n")
    assert project.loop("--approval", "never").returncode == 6
    other = tmp_path / "other.yaml"
    script = project.script.read_text()
    project.write_script(role("developer", RIGHT_PATCH))
    project.script.rename(other)
    project.script.write_text(script)
    code, said = retried(project, "last", "--provider", f"scripted:{other}")
    assert code == 0 and project.calc().endswith(RIGHT)
    assert calls(project, said[-1]["runId"]) == ({"planner": 1}, {"developer": 1})
    conforms(project)


@pytest.mark.parametrize("words", [(), ("--max-fixes", "2")])
def test_a_loop_goes_on_beyond_its_last_fix(tmp_path: Path, words: tuple[str, ...]) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", patch("a - b", "a * b")),
        role("fixer", patch("a * b", "a / b")),
        role("fixer", patch("a / b", "a + b")),
    )
    failed = project.loop("--approval", "never", "--max-fixes", "1")
    assert failed.returncode == 1
    run = project.folder.id
    shown = project.run("resume", run, "--no-input")
    assert f"orchestra retry {run} --max-fixes N" in shown.stderr + shown.stdout
    few = project.run("retry", run, "--max-fixes", "1")
    assert few.returncode == 2 and "give more than 1" in few.stderr and len(project.runs) == 1
    code, said = retried(project, run, *words)
    new = said[-1]["runId"]
    assert code == 0 and project.calc().endswith(RIGHT)
    kept, made = calls(project, new)
    assert (kept, made) == ({"planner": 1, "developer": 1, "fixer": 1}, {"fixer": 1})
    assert project.events_of(new)[0].payload["maxFixIterations"] == 2
    conforms(project)


def test_after_an_unreadable_last_fix_the_next_one_hears_why(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p",
        role("planner", PLAN),
        role("developer", "no patch at all"),
        {"match": {"role": "fixer", "contains": "could not be used"}, "text": RIGHT_PATCH},
    )
    assert project.loop("--approval", "never", "--max-fixes", "0").returncode == 1
    code, said = retried(project, "last")
    assert code == 0
    assert calls(project, said[-1]["runId"]) == ({"planner": 1, "developer": 1}, {"fixer": 1})


def test_failed_tasks_and_what_depends_on_them_are_done_again(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    flaky = f"import pathlib; raise SystemExit(not pathlib.Path({str(outside / 'ok')!r}).exists())"
    plan = [
        step("flaky", code=flaky),
        step("slow", code="import time; time.sleep(0.3)"),  # begun beside it, and ended after it
        step("late", "slow", tool="echo", inputs={"args": ["1"]}),
        step("end", "flaky", "late", tool="echo"),
    ]
    project = Tasks(tmp_path / "p", *plan, config={"security": {"fs": {"allow_read": ["./", str(outside)]}}})
    assert project.dag().returncode == 1
    (outside / "ok").touch()
    code, said = retried(project, "last")
    assert code == 0
    began = [e["payload"]["task"] for e in said if e["type"] == "PHASE_STARTED" and "task" in e["payload"]]
    assert began == ["flaky", "end"]
    assert project.run("verify", said[-1]["runId"]).returncode == 0


def test_a_rejected_change_of_a_task_is_asked_about_again(tmp_path: Path) -> None:
    writes = step("w", code="open('made.txt', 'w').write('x')", constraints={"sandbox": {"fs": "rw"}})
    project = Tasks(tmp_path / "p", writes, config={"policies": {"default_fs_mode": "rw"}})
    project.dag("--approval", "always")
    run = project.folder.id
    project.run("approve", run, "--no-input")
    assert project.run("reject", run, "--reason", "아니", "--no-input").returncode == 1
    code, said = retried(project, run)
    assert code == 3
    assert project.run("approve", said[-1]["runId"], "--no-input").returncode == 0
    assert (project.path / "made.txt").read_text() == "x"


def test_what_cannot_be_retried_is_said(tmp_path: Path) -> None:
    project = again.project(tmp_path / "p", says("first-a", "1"), says("second-a", "2"))
    _, run = start(project, "leaf", "name=a")
    assert answer(project, run, "x") == 0
    for words in (("retry", run), ("fork", run)):
        done = project.run(*words)
        assert done.returncode == 2 and f"run {run} is completed" in done.stderr, done
        assert f"orchestra fork {run} --answer QUESTION TEXT" in done.stderr
    assert project.run("retry", "no-such-run").returncode == 2
    journal = project.folder.events
    journal.write_bytes(journal.read_bytes().replace(b"first-a", b"first-b"))
    refused = project.run("retry", run)
    assert refused.returncode not in (0, 3) and "Traceback" not in refused.stderr
    assert len(project.runs) == 1


# -- fork -------------------------------------------------------------------------------------------------------------


def test_a_fork_of_a_waiting_tree_has_its_own_questions_and_canceling_it_touches_nothing(tmp_path: Path) -> None:
    """B1: canceling a fork canceled the children of the run it was forked from."""
    project = again.project(
        tmp_path / "p", *(says(name, name) for name in ("top", "middle", "first-a", "first-b")), says("last", "ok")
    )
    _, run = start(project, "top")
    before = bytes_of(project)
    made = project.run("fork", run, "--no-input", "--json")
    assert made.returncode == 3, made.stderr
    new = records(made.stdout)[-1]["runId"]
    assert calls(project, new) == ({"top": 1}, {})
    assert len(named(project, "_leaf_")) == 4 and not any(
        made for name in named(project, "_leaf_") for made in calls(project, name.id)[1:] if name.id not in before
    )
    assert project.run("cancel", new).returncode == 0
    assert {name: data for name, data in bytes_of(project).items() if name in before} == before
    ended = {f.id: read_events(f.events)[-1].type for f in project.runs if f.id not in before}
    assert set(ended.values()) == {"RUN_CANCELED"} and len(ended) == 4
    parked = project.run("fork", run, "--at", "99999999")
    assert parked.returncode == 2
    conforms(project)


def test_a_fork_at_an_open_step_keeps_the_settled_ones_only(tmp_path: Path) -> None:
    project = again.project(tmp_path / "p", *(says(name, name) for name in ("top", "middle", "first-a", "first-b")))
    _, run = start(project, "top")
    journal = RunFolder(project.path / ".runs/workflows" / run)
    at = read_events(journal.events)[-1]
    assert at.payload["effect"] == "ChildRun"
    new = project.run("fork", run, "--at", at.id, "--no-drive").stdout.strip()
    kept = project.events_of(new)
    assert [e.payload.get("key") for e in kept] == [None, "top.1", "top.1"]
    assert "children" not in kept[0].payload["forkedFrom"]
    before = bytes_of(project)
    assert project.run("cancel", new).returncode == 0
    assert {n: d for n, d in bytes_of(project).items() if n != new} == {n: d for n, d in before.items() if n != new}


def test_a_fork_of_a_child_by_its_own_id_is_a_root(tmp_path: Path) -> None:
    project = again.project(
        tmp_path / "p", *(says(name, name) for name in ("top", "middle", "first-a", "first-b", "second-a"))
    )
    start(project, "top")
    [leaf] = [one for one in named(project, "_leaf_") if "-a-child-" in one.id]
    new = project.run("fork", leaf.id, "--no-drive").stdout.strip()
    created = project.events_of(new)[0].payload
    assert not {"parentRunId", "parentKey"} & set(created)
    assert project.run("resume", new, "--no-input").returncode == 3
    assert answer(project, new, "x") == 0
    assert project.events_of(new)[-1].payload["result"] == "first-axsecond-a"
    assert read_events(leaf.events)[-1].type == "QUESTION_RAISED"


def test_last_is_a_fork_that_was_made_last(tmp_path: Path) -> None:
    project = again.project(tmp_path / "p", says("first-a", "1"), says("first-b", "1"))
    _, old = start(project, "leaf", "name=a")
    start(project, "leaf", "name=b")
    new = project.run("fork", old, "--no-drive").stdout.strip()
    assert records(project.run("show", "last", "--json").stdout)[0]["runId"] == new


# -- another answer ---------------------------------------------------------------------------------------------------


def test_another_answer_redoes_what_follows_it_and_keeps_the_rest(tmp_path: Path) -> None:
    script = [says("left", "l1"), says("right", "r1"), says("both", "b1")]
    later = [{"match": {"agent": "left", "contains": "파랑"}, "text": "l2"}]
    later += [{"match": {"agent": "both", "contains": "l2 r1"}, "text": "b2"}]
    project = again.project(tmp_path / "p", *later, *script)
    _, run = start(project, "two")
    assert project.run("answer", run, "red", "--no-input").returncode in (2, 3)
    _answer_both(project, run, "red", "green")
    old = read_events(project.folder.events)
    assert old[-1].payload["result"] == "b1"
    before = project.folder.events.read_bytes()
    done = project.run("fork", run, "--answer", "left", "파랑", "--no-input", "--json")
    assert done.returncode == 0, done.stderr
    new = records(done.stdout)[-1]["runId"]
    assert calls(project, new) == ({"right": 1}, {"left": 1, "both": 1})
    said = {e.payload["questionId"]: e.payload["outcome"]["text"] for e in project.events_of(new) if _answers(e)}
    assert said == {"left~left": "파랑", "right~right": "green"}
    assert records(done.stdout)[-1]["result"] == "b2"
    assert project.runs[0].events.read_bytes() == before
    conforms(project)


@pytest.mark.parametrize("apart", [False, True])
def test_a_fork_may_have_another_provider_also_if_it_is_driven_later(tmp_path: Path, apart: bool) -> None:
    project = again.project(tmp_path / "p", says("left", "l1"), says("right", "r1"), says("both", "b1"))
    _, run = start(project, "two")
    _answer_both(project, run, "red", "green")
    other = project.path / "다른.yaml"
    other.write_text(json.dumps({"replies": [says("left", "l2"), says("both", "b2")]}))
    words: tuple[str, ...] = ("fork", run, "--answer", "left", "파랑", "--provider", f"scripted:{other}")
    if apart:
        run = project.run(*words, "--no-drive").stdout.strip()
        words = ("resume", run)
    done = project.run(*words, "--no-input", "--json")
    assert records(done.stdout)[-1]["result"] == "b2", done.stderr


@pytest.mark.parametrize("words", [("retry", "RUN"), ("fork", "RUN", "--no-drive"), ("fork", "RUN", "--at", "3")])
def test_a_kill_leaves_no_new_run_with_other_models_or_limits_than_were_typed(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    project = again.project(tmp_path / "p", *again.drafts(1, broken=0))
    code, run = start(project, "drafts", "n=1")
    assert code == 1
    other = project.path / "other.json"
    other.write_text(json.dumps({"replies": [says("agent-00", "d"), says("reviewer", "r")]}))
    typed = ("--provider", f"scripted:{other}", "--max-budget-usd", "0.5", "--max-time", "77s")
    command = [run if word == "RUN" else word for word in words]
    made: set[str] = set()
    for number in range(1, 60):
        done = project.run(*command, *typed, "--no-input", env={"ORCHESTRA_CHAOS": f"{number}:after"})
        app = App(project.path)
        for new in {one.id for one in app.runs.folders()} - made - {run}:
            made.add(new)
            summary = app.runs.summary(RunFolder(project.path / ".runs/workflows" / new))
            models = app.terms.models(summary.folder, summary.created)
            assert (models.default, models.maxBudgetUsd, models.maxTimeSec) == (f"scripted:{other}", 0.5, 77), number
        if done.returncode != -signal.SIGKILL or len(made) == 6:
            break
    assert made, done.stderr


def _answers(event: Any) -> bool:
    return bool(event.type == "QUESTION_ANSWERED")


def _answer_both(project: Project, run: str, left: str, right: str) -> None:
    """Answer both questions of `two`, whichever way the command line names them."""
    from orchestra.app import App
    from orchestra.core.inbox import message

    app = App(project.path)
    folder = app.runs.find(run)
    for name, text in (("left~left", left), ("right~right", right)):
        if app.project.store.mail(folder, name) is None:
            app.project.store.deliver(folder, name, message("answer", "tester", text=text))
    assert project.run("resume", run, "--no-input").returncode == 0


def test_another_answer_to_a_question_of_a_child_forks_that_child_too(tmp_path: Path) -> None:
    project = again.project(
        tmp_path / "p",
        *(says(name, f"{name}.", repeat=True) for name in ("top", "middle", "first-a", "first-b", "last")),
        *(says(name, f"{name}.", repeat=True) for name in ("second-a", "second-b")),
    )
    _, run = start(project, "top")
    for leaf in named(project, "_leaf_"):
        answer(project, leaf.id, "red")
    before = bytes_of(project)
    vague = project.run("fork", run, "--answer", "colour", "blue")
    assert vague.returncode == 2 and "below.1/a/child.1/colour" in vague.stderr, vague.stderr
    done = project.run("fork", run, "--answer", "below.1/a/child.1/colour", "blue", "--no-input", "--json")
    assert done.returncode == 0, done.stderr
    made = {f.id.split("_")[2]: calls(project, f.id) for f in project.runs if f.id not in before}
    assert made == {
        "top": ({"top": 1}, {"last": 1}),
        "middle": ({"middle": 1}, {}),
        "leaf": ({"first-a": 1}, {"second-a": 1}),
    }
    [leaf] = [f for f in named(project, "_leaf_") if f.id not in before]
    assert read_events(leaf.events)[-1].payload["result"] == "first-a.bluesecond-a."
    assert {name: data for name, data in bytes_of(project).items() if name in before} == before
    conforms(project)


def test_an_answer_that_cannot_be_is_refused_and_makes_no_run(tmp_path: Path) -> None:
    project = again.project(tmp_path / "p", *again.drafts(2, asks=1))
    _, run = start(project, "drafts", "n=2")
    assert answer(project, run, "red") == 0
    for words, why in (
        (("--answer", "colour-99", "red"), "no question 'colour-99'"),
        (("--answer", "colour-01", "green"), "the options are: red, 빨강"),
        (("--answer", "colour-01", "  "), "the answer is empty"),
        (("--answer", "colour-01", "빨강", "--at", "3"), "give one of them"),
    ):
        refused = project.run("fork", run, *words, "--no-input")
        assert refused.returncode == 2 and why in refused.stderr, refused
    assert len(project.runs) == 1
    done = project.run("fork", run, "--answer", "colour-01", "빨강", "--no-input", "--json")
    assert done.returncode == 0, done.stderr
    assert calls(project, records(done.stdout)[-1]["runId"]) == ({"agent-00": 1, "agent-01": 1}, {"reviewer": 2})


@pytest.mark.parametrize("how", ["undone", "later patches", "edited", "as it was"])
def test_files_that_are_not_as_the_kept_history_left_them_are_named(tmp_path: Path, how: str) -> None:
    replies = (role("developer", patch("a - b", "a * b")), role("fixer", patch("a * b", "a / b")))
    project = Project(tmp_path / "p", role("planner", PLAN), *replies)
    assert project.loop("--approval", "never", "--max-fixes", "1").returncode == 1
    run = project.folder.id
    applied = [event.id for event in project.events() if event.type == "PATCH_APPLIED"]
    if how == "undone":
        assert project.run("undo", run).returncode == 0
    if how == "edited":
        (project.path / "calc.py").write_text("손으로 고쳤다\n")
    at = applied[0] if how == "later patches" else applied[-1]
    made = project.run("fork", run, "--at", at, "--no-drive")
    said = made.stderr
    left = project.run("cancel", made.stdout.strip()).stderr
    assert f"left in your files: {'nothing' if how == 'undone' else 'calc.py'}" in left
    if how == "as it was":
        assert "left it" not in said
        return
    assert f"calc.py: not as what is kept of run {run} left it; used as it is now" in said
    undos = [one.id for one in project.runs if "_undo_" in one.id]
    cures = {"undone": f"orchestra undo {undos[-1]}" if undos else "", "edited": ""}
    cure = cures.get(how, f"orchestra undo {run} --to {int(at)}")
    assert (cure in said) if cure else ("orchestra undo" not in said)
    if cure:
        assert project.run(*cure.split()[1:]).returncode == 0
        assert project.calc().endswith("return a * b\n" if how == "later patches" else "return a / b\n")
