"""Sessions under stress: ten thousand messages, odd ids, a turn that waits while its session is to be deleted."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestra.app import App
from orchestra.cli.turns import unfinished
from orchestra.providers.choose import Models
from orchestra.workflows.evidence.memory import Message
from orchestra.workflows.evidence.sessions import Told, Turn
from orchestra.workflows.evidence.workflow import configured, sessions_of
from tests.support.evidence import ask, ask_agent, decision, finalize, main, planning, runs_of, session
from tests.support.project import Project

CHAT = (planning("final_report"), main("안녕하세요", "execute"))
QUESTION = (planning(), ask("지워도 되나요?"), finalize(), decision(answer="됐다"))
TURNS = 2_000  # of five messages each
_opened: list[str] | None = None


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event == "open" and isinstance(arguments[0], str | bytes):
        _opened.append(os.fsdecode(arguments[0]))


@contextmanager
def opened() -> Iterator[list[str]]:
    """The paths of the files that this process opens meanwhile."""
    global _opened
    found: list[str] = []
    _opened = found
    try:
        yield found
    finally:
        _opened = None


sys.addaudithook(_hook)


def bytes_read() -> int:
    """How many bytes this process has read so far, by any system call."""
    return int(Path("/proc/self/io").read_text().split()[1])


def long_session(project: Project, turns: int) -> None:
    """Make the session longer: so many turns more before its newest one, the last with their runs."""
    newest = session(project)
    [run] = runs_of(project)
    told = [
        Told(number, f"2020-01-01_{number:03d}_evidence_run", f"물음 {number}", "답 " * 50) for number in range(turns)
    ]
    sessions = sessions_of(App(project.path).project)
    messages = tuple(Message(one["role"], one["content"]) for one in newest["messages"])
    sessions.restore("s1", messages, [*told, Told(turns + 1, run.name, "끝", "답")])
    sessions.begin_turn("s1", Turn(turns + 1, run.name))
    for one in told[-300:]:
        folder = run.parent / one.runId
        folder.mkdir()
        os.link(run / "events.ndjson", folder / "events.ndjson")


def take_turn(project: Project) -> None:
    """One more turn, in this process, as `chat:turn` takes it."""
    app = App(project.path)
    sessions = sessions_of(app.project)
    with sessions.hold("s1"):
        assert unfinished(app, sessions, "s1") is None
        found = sessions.open("s1")
        assert found is not None
        turn = found.turn + 1
        job = configured(app.project, "또?", session="s1", turn=turn, previous=found.runId, memory=found.messages)
        sessions.begin_turn("s1", Turn(turn))
        run = app.start("evidence", job, Models(default=f"scripted:{project.script}"))
        sessions.begin_turn("s1", Turn(turn, run.id))
        assert asyncio.run(app.drive(run)).status == "completed"


@pytest.mark.spec("S5-15", "S5-16", "S5-17")
def test_a_turn_reads_the_same_however_long_its_session_is(tmp_path: Path) -> None:
    """A turn in a session of ten thousand messages opens no more files, and reads no more, than in a short one."""
    opens, reads = [], []
    for turns in (0, TURNS):
        project = Project(tmp_path / f"of-{turns}", *CHAT, *CHAT)
        assert ask_agent(project, goal="안녕").returncode == 0
        long_session(project, turns)
        before = bytes_read()
        with opened() as paths:
            take_turn(project)
        reads.append(bytes_read() - before)
        opens.append(len([path for path in paths if project.path.name in path]))
        assert not [path for path in paths if "2020-01-01" in path]  # no run of an earlier turn
        assert session(project)["turn"] == turns + 2
    assert opens[1] < opens[0] + 5 and reads[1] < reads[0] + 100_000  # the end of what was said: 64 KiB
    log = (project.path / ".orchestra" / "sessions" / "s1.ndjson").read_bytes()
    assert len(log) > 400_000 and log.count(b"\n") == TURNS + 2 and json.loads(log.splitlines()[-1])["goal"] == "또?"


@pytest.mark.spec("S5-15")
def test_an_id_that_is_none_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *CHAT)
    for name in ("../x", "", "x" * 65, "..", "a\nb", unicodedata.normalize("NFD", "세션")):
        ran = ask_agent(project, session=name, command="chat:turn", goal="x")
        assert ran.returncode == 2 and "no session's id" in ran.stderr, name
    assert not runs_of(project) and not (project.path / ".orchestra").exists()
    assert ask_agent(project, session="x" * 64, command="chat:turn", goal="x").returncode == 0


@pytest.mark.spec("S5-39", "S5-85")
def test_a_session_whose_turn_waits_is_neither_deleted_nor_renamed(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", *QUESTION)
    assert ask_agent(project).returncode == 3
    [run] = runs_of(project)
    for command in (("delete", "s1"), ("rename", "s1", "s2")):
        refused = project.run("sessions", *command)
        assert refused.returncode == 2 and run.name in refused.stderr
    assert project.run("sessions", "show", "s1").returncode == 2  # no turn of it is finished
    for path in (project.path / ".orchestra" / "sessions").iterdir():
        path.unlink()  # by hand, though
    answered = project.run("answer", run.name, "아니오")
    assert (answered.returncode, answered.stdout) == (0, "됐다\n"), answered.stderr
    assert session(project)["messages"][-1]["content"] == "됐다"  # the run has all that it saves
    assert project.run("sessions", "delete", "s1").returncode == 0
    assert not [one for one in (project.path / ".orchestra" / "sessions").iterdir() if one.suffix in (".json", ".turn")]


@pytest.mark.spec("S5-16", "S5-17")
def test_a_damaged_note_of_the_newest_turn_is_refused_kept_and_made_again(tmp_path: Path) -> None:
    """Without the note a waiting turn would be forgotten, and the next message taken."""
    project = Project(tmp_path / "p", *CHAT)
    assert ask_agent(project, goal="안녕").returncode == 0
    project.write_script(*QUESTION)
    assert ask_agent(project).returncode == 3
    note = project.path / ".orchestra" / "sessions" / "s1.turn"
    note.write_bytes(b"\xff{")
    refused = ask_agent(project)
    assert refused.returncode == 1 and "orchestra sessions rebuild s1" in refused.stderr
    assert len(runs_of(project)) == 2 and note.read_bytes() == b"\xff{"
    assert "damaged" in project.run("sessions").stdout
    rebuilt = project.run("sessions", "rebuild", "s1")
    assert rebuilt.returncode == 0 and "s1: 1 turn, from its runs" in rebuilt.stderr
    assert any(path.read_bytes() == b"\xff{" for path in note.parent.glob("s1.turn.damaged-*"))
    waits = ask_agent(project, goal="거기 있나?")
    assert waits.returncode == 3 and "지워도 되나요?" in waits.stderr and len(runs_of(project)) == 2
    assert project.run("sessions", "rebuild", "s9").returncode == 2
