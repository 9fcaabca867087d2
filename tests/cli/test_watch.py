"""`watch` and `--stream`: another process reads along with a run, live and whole (runs/follow.py)."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from tests.support.project import PROGRAM, Project, records, role, until
from tests.support.runs import read_events
from tests.support.terminal import Terminal
from tests.support.watching import (
    MASK,
    SECRET,
    drive,
    events,
    go_on,
    has_printed,
    held,
    made,
    part_of,
    printed,
    reply,
    root,
    seen,
    size_of,
    texts,
    watch,
)

FIRST = f"하나, 둘, 셋.\nThe key is {SECRET}, 비밀.\n" + "끝 " * 50
TOKEN = '"token"'
LEFT, RIGHT = "left " * 100, "오른쪽 " * 100


def _tree(path: Path, *, first_ms: int = 1500, chunk: int = 3) -> Project:
    return made(
        path,
        reply("first", FIRST, delayMs=first_ms, chunk=chunk),
        reply("left", LEFT, delayMs=800, chunk=5),
        reply("right", RIGHT, delayMs=800, chunk=5),
    )


def _all_events(project: Project) -> set[tuple[str, str]]:
    return {(run.id, event.id) for run in project.runs for event in read_events(run.events)}


WHOLE = {
    ("first", "first.1"): FIRST.replace(SECRET, MASK),
    ("left", "left.1"): LEFT,
    ("right", "right.1"): RIGHT,
}


def test_a_watcher_that_joins_in_the_middle_of_a_call_gets_every_event_and_text_once(tmp_path: Path) -> None:
    project = _tree(tmp_path / "프로젝트")
    driver = drive(project, "--stream")
    until(lambda: size_of(part_of(project, "first")) > 30)
    with held(driver):
        watcher = watch(project)
        begun = printed(watcher, TOKEN)
    told, own = seen(watcher, begun), seen(driver)
    assert sorted(events(told)) == sorted(_all_events(project))
    assert texts(told) == texts(own) == WHOLE
    assert SECRET not in json.dumps(told) and SECRET not in json.dumps(own)
    # the text of a call comes between its two events, and a child run's events between its parent's
    order = [(one["runId"] if "payload" in one else "", one["type"], one.get("key", "")) for one in told]
    for run in {one["runId"] for one in told}:
        assert [one["id"] for one in told if "payload" in one and one["runId"] == run] == [
            event.id for event in read_events(project.path / ".runs" / "workflows" / run / "events.ndjson")
        ]
    for agent in ("left", "right"):
        [run] = {one["runId"] for one in told if one["type"] == "token" and one["agent"] == agent}
        mine = [place for place, one in enumerate(told) if one["runId"] == run]
        parent = [n for n, one in enumerate(told) if one.get("payload", {}).get("key") == f"{agent}/work.1"]
        assert parent[0] < mine[0] and mine[-1] < parent[1], order
        tokens = [place for place, one in enumerate(told) if one["runId"] == run and one["type"] == "token"]
        assert tokens[-1] < next(n for n in mine if told[n]["type"] == "PHASE_COMPLETED")


def test_watching_a_run_that_has_ended_shows_its_tree_and_ends(tmp_path: Path) -> None:
    project = _tree(tmp_path / "p", first_ms=0)
    seen(drive(project))
    told = seen(watch(project))
    assert sorted(events(told)) == sorted(_all_events(project)) and texts(told) == {}
    assert told[-1]["type"] == "RUN_COMPLETED" and told[-1]["runId"] == root(project)
    own = seen(watch(project, "--own"))
    assert {one["runId"] for one in own} == {root(project)}
    lines = project.run("watch", root(project), "--stream").stdout
    assert "[left/work.1]" in lines and "[right/work.1]" in lines


def test_one_watcher_sees_a_killed_driver_and_the_next_one(tmp_path: Path) -> None:
    project = _tree(tmp_path / "p", first_ms=2500)
    driver = drive(project)
    until(lambda: size_of(part_of(project, "first")) > 60)
    with held(driver):
        watcher = watch(project)
        begun = printed(watcher, TOKEN)
    until(lambda: size_of(part_of(project, "first")) > 120)
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()
    seen(go_on(project))
    told = seen(watcher, begun)
    assert sorted(events(told)) == sorted(_all_events(project))
    assert texts(told) == WHOLE
    restarts = [one for one in told if one.get("restart")]
    assert [one["key"] for one in restarts] == ["first.1"], "the call was made again, and said so once"


def test_a_watcher_that_stalls_slows_nothing_and_gets_all(tmp_path: Path) -> None:
    """500 tokens a second for four seconds, 160 KB: more than a pipe holds."""
    long = "토큰 tokens! " * 10_000
    project = made(
        tmp_path / "p",
        reply("first", long, delayMs=4000, chunk=len(long) // 2000),
        reply("left", LEFT),
        reply("right", RIGHT),
    )
    driver = drive(project)
    until(lambda: size_of(part_of(project, "first")))
    with held(driver):
        stalled, leaving = watch(project), watch(project)
        assert leaving.stdout is not None
        leaving.stdout.readline()
        leaving.stdout.close()  # it leaves
        until(lambda: has_printed(stalled))
    driver.communicate(timeout=60)  # the stalled one reads nothing until the run is over
    assert driver.returncode == 0
    told = seen(stalled)
    assert texts(told) == {("first", "first.1"): long, ("left", "left.1"): LEFT, ("right", "right.1"): RIGHT}
    assert sorted(events(told)) == sorted(_all_events(project))
    leaving.wait(30)
    if leaving.stderr:
        assert "Traceback" not in leaving.stderr.read()
        leaving.stderr.close()


def test_the_output_of_a_command_is_read_along_whole(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    printing = "[(print('줄', n, flush=True), time.sleep(0.02)) for n in range(60)]; print('ende', end='')"
    code = f"import time; time.sleep(1); {printing}"  # a watcher joins before its end, also on a busy machine
    check = f'python3 -c "{code}"'
    words = ["loop", "g", "--check", check, "--provider", f"scripted:{project.script}", "--no-input", "--json"]
    driver = subprocess.Popen(
        [PROGRAM, *words, "--stream"], cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: project.runs and project.folder.events.exists())
    with held(driver):
        watcher = subprocess.Popen(
            [PROGRAM, "watch", "last", "--json", "--stream"], cwd=project.path, stdout=subprocess.PIPE, text=True
        )
        until(lambda: has_printed(watcher))
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == 3, err
    newest = [one["line"] for one in records(out) if one["type"] == "output"]
    assert newest and set(newest) <= {*(f"줄 {n}" for n in range(60)), "ende"}
    project.run("reject", "last", "--reason", "no", "--end", "--no-input")
    told = records(watcher.communicate(timeout=30)[0])
    lines = [one["line"] for one in told if one["type"] == "output" and one["key"] == "baseline-1.1"]
    assert lines == [*(f"줄 {n}" for n in range(60)), "ende"]
    place = [n for n, one in enumerate(told) if one["type"] == "output"]
    ended = next(n for n, one in enumerate(told) if one["type"] == "PHASE_COMPLETED")
    assert place[-1] < ended


def test_a_run_that_is_removed_while_it_is_watched_ends_the_watch(tmp_path: Path) -> None:
    project = _tree(tmp_path / "p", first_ms=60_000)
    driver = drive(project)
    until(lambda: size_of(part_of(project, "first")))
    watcher = watch(project)
    assert watcher.stdout is not None
    watcher.stdout.readline()
    driver.kill()
    driver.communicate()
    shutil.rmtree(project.path / ".runs" / "workflows" / root(project))
    _, err = watcher.communicate(timeout=30)
    assert watcher.returncode == 2 and "was removed while it was followed" in err and "Traceback" not in err


def test_what_a_call_says_is_printed_as_it_comes_line_by_line_and_masked(tmp_path: Path) -> None:
    """`--stream` where a run is driven; folded without it."""
    secret = "sk-ant-api03-" + "a1B2" * 24
    project = Project(tmp_path / "p", role("planner", f"first 줄\nkey {secret}\nlast", chunk=3))
    words = ("loop", "g", "--check", "true", "--no-baseline", "--provider", f"scripted:{project.script}", "--no-input")
    said = project.run(*words, "--stream").stderr
    lines = [line for line in said.splitlines() if line.startswith("plan.1 │ ")]
    assert lines[0] == "plan.1 │ first 줄" and lines[2] == "plan.1 │ last" and len(lines) == 3
    assert secret not in said and said.index("│ last") < said.index("plan done")
    project.write_script(role("planner", "first 줄"))
    assert "│" not in project.run(*words).stderr
    terminal = Terminal([PROGRAM, *words[:-1], "--stream"], project.path)
    terminal.wait_for("plan.1 │ first 줄")
    terminal.end()


def test_text_of_two_runs_at_once_is_not_mixed_at_a_terminal(tmp_path: Path) -> None:
    """B6. Every line of text names its step; only the lines of the log and the live lines stand beside them."""
    lines = {name: [f"{name} 줄 {n}" for n in range(30)] for name in ("left", "right")}
    project = made(
        tmp_path / "p",
        reply("first", "x"),
        *(reply(name, "\n".join(told), delayMs=1500, chunk=4) for name, told in lines.items()),
    )
    driver = drive(project)
    until(lambda: root(project) and b"PHASE_STARTED" in project.runs[0].events.read_bytes())
    with held(driver):
        terminal = Terminal([PROGRAM, "watch", root(project), "--stream"], project.path)
        shown = terminal.wait_for("first.1")
    shown += terminal.wait_for("right/work.1/right.1 │ right 줄 29")
    assert terminal.end() == 0
    driver.communicate(timeout=30)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown + terminal.seen)  # a colour that two readings cut apart
    for name, told in lines.items():
        mine = [line.partition(" │ ")[2].strip() for line in shown.splitlines() if f"{name}/work.1/{name}.1 │" in line]
        assert mine == told
