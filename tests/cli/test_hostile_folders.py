"""Run folders of anybody's making: no command hangs, breaks, obeys them or takes much memory; what is odd is named."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orchestra.app import App
from orchestra.core.errors import RunLocked
from orchestra.core.files import MIB
from orchestra.core.run import RunFolder
from tests.support.graph import job
from tests.support.hostile import (
    DAMAGED,
    ENDED,
    ODD,
    RUN,
    SHA,
    STRANGE,
    adopted,
    created,
    device,
    graph,
    journal,
    line,
    pipe,
    plan,
    sparse,
    task,
)
from tests.support.inside import Said, said
from tests.support.memory import measured
from tests.support.project import PROGRAM, Project
from tests.support.runs import claimed

VIEWS = (
    *(("runs",), ("runs", "--json"), ("inbox",), ("inbox", "--json"), ("clean", "--dry-run")),
    *(("clean", "--dry-run", "--json"), ("show", RUN), ("show", RUN, "--json"), ("show", RUN, "--prompt", "k")),
    *(("logs", RUN), ("logs", RUN, "--json"), ("diff", RUN), ("report", RUN), ("audit", RUN), ("audit", RUN, "--json")),
    *(("inspect", RUN, "a"), ("inspect", RUN, "run"), ("trace", RUN), ("trace", RUN, "--json"), ("verify", RUN)),
    ("adopt", RUN),
)
DRIVES = (
    *(("resume", RUN), ("approve", RUN), ("reject", RUN, "--reason", "r"), ("answer", RUN, "t"), ("cancel", RUN)),
    *(("fork", RUN), ("fork", RUN, "--at", "1"), ("fork", RUN, "--answer", "q", "t"), ("retry", RUN)),
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
    for command in DRIVES:
        done = said(project, *command)
        quiet(done, *command)
        assert done.code in (1, 2, 5), (command, done)  # nobody vouches for it: nothing is driven
        assert done.err.startswith("orchestra: ") or "is foreign" in done.err, (command, done)
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


def test_names_that_are_no_text_or_would_be_obeyed_are_shown_as_they_are(tmp_path: Path) -> None:
    root = tmp_path / ".runs" / "workflows"
    root.mkdir(parents=True)
    for name in (b"\xff\xfe", b"\x1b[31m", "\u202e뒤".encode()):
        folder = Path(os.fsdecode(os.fsencode(root) + b"/" + name))
        folder.mkdir()
        ENDED(folder)
    for arguments in (("runs",), ("runs", "--json"), ("inbox",), ("clean", "--dry-run"), ("show", "last")):
        quiet(said(tmp_path, *arguments), *arguments)
    found = [json.loads(text)["runId"] for text in said(tmp_path, "runs", "--json").out.splitlines()]
    assert sorted(found) == sorted([RUN] * 3)  # what their journals say
    shown = said(tmp_path, "runs").out
    assert "\\udcff\\udcfe" in shown and "\\u202e뒤" in shown


def test_among_very_many_names_a_run_is_found_by_its_own(tmp_path: Path) -> None:
    root = tmp_path / ".runs" / "workflows"
    root.mkdir(parents=True)
    for number in range(3_000):
        os.mkdir(f"{root}/2025-01-01_{number}_x")
    (root / RUN).mkdir()
    ENDED(root / RUN)
    app = App(tmp_path)
    assert [folder.id for folder in app.runs.folders()] == [RUN]
    assert app.runs.find("2026").id == app.runs.find("last").id == app.runs.find(RUN).id == RUN


def test_a_lock_that_is_none_is_not_waited_for(run: Path) -> None:
    ENDED(run)
    pipe(run / "lock")
    with pytest.raises(Exception, match="is no lock") as refused, claimed(RunFolder(run)):
        pass
    assert not isinstance(refused.value, RunLocked)


def test_a_person_s_own_run_goes_on_over_whatever_stands_in_the_place_of_what_is_rebuilt(tmp_path: Path) -> None:
    project = Project(tmp_path / "프로젝트")
    assert project.loop("--approval", "always").returncode == 3
    folder = project.folder
    for path in (folder.state, folder.report, folder.logs / "run.log", folder.logs / "gatekeeper.log"):
        path.unlink(missing_ok=True)
        pipe(path)
    folder.lock.unlink()
    pipe(folder.lock)
    refused = project.run("approve", "last", "--no-input", timeout=20)
    assert refused.returncode == 1
    assert f"{folder.lock} is no lock" in refused.stderr
    folder.lock.unlink()
    assert project.run("resume", "last", "--no-input", timeout=60).returncode == 3  # the fix waits now
    assert project.state()["status"] == "awaiting_approval"
    assert (folder.logs / "gatekeeper.log").is_file() and (folder.logs / "run.log").is_file()


# -- as a program: memory, time, another user -------------------------------------------------------------------------

MOST_MIB = 200
JOB = msgspec.to_builtins(job("", intent="그래프"))


def peak(project: Path, *arguments: str) -> float:
    """Run the real program on hostile runs; the most memory it took, in MiB."""
    done = measured([PROGRAM, *arguments], project)
    assert done.code in (0, 1, 2, 5), (arguments, done.said[-2000:])
    assert "internal error" not in done.said and "Traceback" not in done.said, (arguments, done.said[-2000:])
    return done.peak / MIB


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with runs that are small as text and huge as objects, or endless."""
    project = tmp_path_factory.mktemp("heavy")
    root = project / ".runs" / "workflows"
    for name in ("objects", "goal", "line", "graph", "sparse", "device", "asks", "files"):
        (root / name).mkdir(parents=True)
    begin = json.dumps(created()).encode() + b"\n"
    step = (
        json.dumps(line(2, "PHASE_STARTED", {"key": "a", "more": [{}] * 1000}), separators=(",", ":")).encode() + b"\n"
    )
    (root / "objects" / "events.ndjson").write_bytes(begin + step * 5_000)
    journal(created(goal="낱말 " * 2_000_000 + "\U0001f600"))(root / "goal")
    (root / "line" / "events.ndjson").write_bytes(begin + step.replace(b"{},", b"{}," * 7_000))
    graph(adopted(plan(*(task(f"t{number}") for number in range(30_000)))), params=JOB)(root / "graph")
    sparse(root / "sparse" / "events.ndjson")
    device(root / "device" / "events.ndjson")
    wait = (
        json.dumps(line(2, "APPROVAL_REQUESTED", {"approvalId": "@", "files": [{"path": "p"}] * 100})).encode() + b"\n"
    )
    waits = (wait.replace(b"@", str(number).encode()) for number in range(50_000))
    (root / "asks" / "events.ndjson").write_bytes(begin + b"".join(waits))
    left = [{"path": f"artifacts/{number}", "bytes": 1, "sha256": SHA} for number in range(500)]
    ran = {"key": "@/run.1", "effect": "RunCommand", "outcome": {"exitCode": 0, "changes": {"a": 1}, "artifacts": left}}
    done = json.dumps(line(3, "PHASE_COMPLETED", ran, phase="execute")).encode() + b"\n"
    graph(adopted(plan(*(task(f"t{number}") for number in range(2_000)))), params=JOB)(root / "files")
    with (root / "files" / "events.ndjson").open("ab") as file:
        file.writelines(done.replace(b"@", f"t{number}".encode()) for number in range(2_000))
    return project


@pytest.mark.parametrize(
    "command",
    [
        *(
            "runs",
            "inbox --json",
            "clean --dry-run",
            "show objects",
            "report objects",
            "verify objects",
            "logs objects",
        ),
        *("show --json goal", "logs --json goal", "adopt goal", "audit line", "logs --json line", "verify line"),
        *("trace graph", "report graph", "show graph", "verify sparse", "show device", "show asks", "adopt asks"),
        *("report files", "inspect files t7", "trace files"),
    ],
)
def test_no_view_takes_much_memory(heavy: Path, command: str) -> None:
    assert peak(heavy, *command.split()) <= MOST_MIB


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_an_ordinary_user_may_not_read_is_named_and_hides_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")
    project = Path(tempfile.mkdtemp(prefix="orchestra-hostile-"))
    root = project / ".runs" / "workflows"
    try:
        for name in ("closed", "pipe", "sparse", RUN):
            (root / name).mkdir(parents=True)
        project.chmod(0o755)
        ENDED(root / RUN)
        ENDED(root / "closed")
        (root / "closed" / "events.ndjson").chmod(0)
        pipe(root / "pipe" / "events.ndjson")
        sparse(root / "sparse" / "events.ndjson")
        assert "completed" in said(project, "show", RUN).out  # everything is imported before: that user may not be able
        os.seteuid(65534)
        try:
            listed, denied, cleaned = (said(project, *words) for words in (["runs"], ["show", "closed"], ["clean"]))
        finally:
            os.seteuid(0)
        assert re.search(rf"{RUN} +completed", listed.out)
        assert all(re.search(rf"{name} +damaged", listed.out) for name in ("closed", "pipe", "sparse"))
        assert denied.code == 1
        assert denied.err.startswith(f"orchestra: {root}/closed/events.ndjson cannot be read: permission denied")
        assert "closed is kept: its journal is damaged" in cleaned.out
    finally:
        shutil.rmtree(project)
