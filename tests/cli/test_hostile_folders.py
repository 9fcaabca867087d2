"""Run folders of anybody's making: no command hangs, breaks, obeys them or takes much memory; what is odd is named."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import hostile
from tests.support.hostile import DAMAGED, ODD, RUN, STRANGE, Maker
from tests.support.inside import Said, said

VIEWS = (
    *(("runs",), ("runs", "--json"), ("inbox",), ("inbox", "--json"), ("clean", "--dry-run")),
    *(("clean", "--dry-run", "--json"), ("show", RUN), ("show", RUN, "--json"), ("show", RUN, "--prompt", "k")),
    *(("logs", RUN), ("logs", RUN, "--json"), ("diff", RUN), ("report", RUN), ("audit", RUN), ("audit", RUN, "--json")),
    *(("inspect", RUN, "a"), ("inspect", RUN, "run"), ("trace", RUN), ("trace", RUN, "--json"), ("verify", RUN)),
    ("adopt", RUN),
)
DRIVES = (
    *(("resume", RUN), ("approve", RUN), ("reject", RUN, "--reason", "r"), ("answer", RUN, "t"), ("cancel", RUN)),
    *(("fork", RUN), ("fork", RUN, "--at", "1")),
)
FOLLOWS = (("watch", RUN), ("logs", RUN, "-f"))
ALL_RUNS = ("runs", "inbox", "clean")  # of these a damaged run is one of many
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "프로젝트" / ".runs" / "workflows" / RUN
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(autouse=True)
def hang_guard() -> Iterator[None]:
    """Nothing here waits for anything: what does is ended, and the test with it."""

    def end(number: int, frame: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def quiet(done: Said, *arguments: str) -> None:
    """No internal error, no Traceback, nothing that a terminal would obey."""
    assert "internal error" not in done.err, (arguments, done.err)
    assert "Traceback" not in done.err, (arguments, done.err)
    assert OBEYED.search(done.out + done.err) is None, (arguments, done)


def names_and_bytes(folder: Path) -> dict[str, object]:
    """What is in a folder, as far as it can be read."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        held = path.lstat()
        found[str(path)] = path.read_bytes() if path.is_file() and held.st_size < 1 << 20 else held.st_mode
    return found


@pytest.mark.parametrize("name", DAMAGED)
def test_a_journal_that_cannot_be_read_is_named_by_every_command(run: Path, name: str) -> None:
    DAMAGED[name](run)
    project = run.parents[2]
    for arguments in (*VIEWS, *DRIVES, *FOLLOWS):
        done = said(project, *arguments)
        quiet(done, *arguments)
        if arguments[0] in ALL_RUNS:
            assert done.code == 0
        elif "--at" in arguments:
            assert done.code in (1, 5), (arguments, done)  # damage after that event would not matter
        else:
            assert done.code == 1, (arguments, done)
            assert "events.ndjson" in done.out + done.err, (arguments, done)
    assert "damaged" in said(project, "runs").out
    assert f"{RUN} is kept: " in said(project, "clean", "--dry-run").out


@pytest.mark.parametrize("name", STRANGE)
def test_whatever_a_run_holds_every_view_shows_or_refuses_it(run: Path, name: str) -> None:
    STRANGE[name](run)
    project = run.parents[2]
    before = names_and_bytes(run)
    for arguments in VIEWS:
        done = said(project, *arguments)
        quiet(done, *arguments)
        assert done.code in (0, 1, 2, 5), (arguments, done)
        assert done.code == 0 or len(done.err.splitlines()) <= 12, (arguments, done)
    for arguments in DRIVES:
        done = said(project, *arguments)
        quiet(done, *arguments)
        assert done.code in (1, 2, 5), (arguments, done)  # nobody vouches for it: nothing is driven
        assert done.err.startswith("orchestra: ") or "is foreign" in done.err, (arguments, done)
    assert names_and_bytes(run) == before


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("place", [".runs", ".runs/workflows"])
def test_what_stands_in_the_place_of_all_runs_is_no_run(tmp_path: Path, kind: str, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    ODD[kind](tmp_path / place)
    for arguments in (("runs",), ("inbox",), ("clean", "--dry-run"), ("show", "last"), ("show", "x")):
        done = said(tmp_path, *arguments)
        quiet(done, *arguments)
        assert done.code in (0, 1, 2), (arguments, done)
