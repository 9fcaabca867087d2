"""The files of sessions: one process's during a turn, whole after a kill, and nowhere but in the project's folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestra.core.disk import Disk
from orchestra.core.errors import DurabilityError, RunLocked, UsageError
from orchestra.core.redact import Redactor
from orchestra.workflows.evidence.effects import SaveSession
from orchestra.workflows.evidence.memory import Message
from orchestra.workflows.evidence.sessions import FOLDER, Sessions, Told, Turn
from tests.support.core import CountingDisk

SAID = (Message("user", "왜 느린가?"), Message("assistant", "잠을 자서"))
TOLD = [Told(number, f"run-{number}", f"목표 {number}", f"답 {number}") for number in (1, 2, 3)]


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path, Disk(), Redactor(["s3cr3t-value-1234"]))


def test_a_session_that_is_held_is_refused_by_name_and_free_afterwards(tmp_path: Path) -> None:
    first, second = (Sessions(tmp_path, Disk(), Redactor([])) for _ in range(2))
    with first.hold("s1"):
        with pytest.raises(RunLocked, match="session s1 is in use"), second.hold("s1"):
            pass
        with second.hold("s2"):
            pass
    with second.hold("s1"):
        pass


def test_a_saved_session_is_read_again_without_secrets_and_keeps_its_beginning(sessions: Sessions) -> None:
    secret = Message("user", "the token is s3cr3t-value-1234")
    assert sessions.save("s1", (*SAID, secret), TOLD[0])
    first = sessions.open("s1")
    assert first is not None and first.messages[:2] == SAID and "s3cr3t" not in first.messages[2].content
    assert sessions.save("s1", SAID, TOLD[1], previous="run-1")
    second = sessions.open("s1")
    assert second is not None and (second.turn, second.runId, second.messages) == (2, "run-2", SAID)
    assert second.createdAt == first.createdAt
    assert list(sessions.turns("s1")) == TOLD[:2]
    assert sessions.ids() == ["s1"] and sessions.open("other") is None


def test_a_turn_that_another_run_saved_is_not_replaced(sessions: Sessions) -> None:
    assert sessions.save("s1", SAID, TOLD[1])
    assert not sessions.save("s1", (), TOLD[0])  # older
    assert not sessions.save("s1", (), Told(2, "run-9", "g", "a"))  # the same turn of another run
    assert not sessions.save("s1", (), Told(3, "run-9", "g", "a"), previous="run-8")  # of a deleted session
    found = sessions.open("s1")
    assert found is not None and found.messages == SAID and list(sessions.turns("s1")) == [TOLD[1]]


def test_a_kill_while_a_turn_is_logged_costs_no_turn_and_repeats_none(sessions: Sessions) -> None:
    sessions.save("s1", SAID, TOLD[0])
    log = sessions.path("s1").with_suffix(".ndjson")
    assert sessions.save("s1", SAID, TOLD[0]) and log.read_bytes().count(b"\n") == 1  # the same run, resumed
    log.write_bytes(log.read_bytes()[:-9])  # torn
    sessions.save("s1", SAID, TOLD[1], previous="run-1")
    sessions.save("s1", SAID, TOLD[2], previous="run-2")
    assert list(sessions.turns("s1")) == TOLD[1:]
    assert log.read_bytes().count(b"\n") == 3  # no empty line


def test_a_damaged_session_is_written_again_and_kept_beside(sessions: Sessions) -> None:
    assert sessions.restore("s1", SAID, TOLD) is None  # there was none, nor a folder
    sessions.path("s1").write_text("broken")
    aside = sessions.restore("s1", SAID, TOLD)
    assert aside is not None and aside.read_text() == "broken" and aside.parent == sessions.path("s1").parent
    found = sessions.open("s1")
    assert found is not None and (found.messages, found.turn, found.runId) == (SAID, 3, "run-3")
    assert list(sessions.turns("s1")) == TOLD


def test_a_newest_turn_is_written_again_and_its_damaged_file_kept(sessions: Sessions) -> None:
    turn = Turn(1, "run-1")
    sessions.restore_turn("s1", turn)  # there is no folder yet
    assert sessions.newest_turn("s1") == turn and sessions.exists("s1") and sessions.ids() == ["s1"]
    file = sessions.path("s1").with_suffix(".turn")
    file.write_text("broken")
    sessions.restore_turn("s1", turn)
    assert sessions.newest_turn("s1") == turn
    assert [path.read_text() for path in file.parent.glob("s1.turn.damaged-*")] == ["broken"]


def test_nothing_is_moved_or_written_in_a_folder_behind_a_link(tmp_path: Path, sessions: Sessions) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "s1.json").write_text("mine")
    (elsewhere / "s1.turn").write_text("mine")
    (tmp_path / FOLDER).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / FOLDER).symlink_to(elsewhere)
    with pytest.raises(UsageError, match="is a link"):
        sessions.restore("s1", SAID, TOLD)
    with pytest.raises(UsageError, match="is a link"):
        sessions.restore_turn("s1", Turn(1, "run-1"))
    with pytest.raises(UsageError, match="is a link"), sessions.hold("s2"):
        pass
    with pytest.raises(UsageError, match="is a link"):
        sessions.save("s2", SAID, TOLD[0])
    assert sorted(path.name for path in elsewhere.iterdir()) == ["s1.json", "s1.turn"]


def test_a_renamed_session_has_all_its_files_under_the_new_name_only(sessions: Sessions) -> None:
    sessions.save("old", SAID, TOLD[0])
    sessions.begin_turn("old", Turn(2, "run-2"))
    sessions.rename("old", "new")
    found = sessions.open("new")
    assert found is not None and found.id == "new" and found.messages == SAID
    assert list(sessions.turns("new")) == TOLD[:1] and sessions.newest_turn("new") == Turn(2, "run-2")
    assert sessions.ids() == ["new"] and not sessions.exists("old") and list(sessions.turns("old")) == []


def test_a_session_is_renamed_only_if_it_exists_and_the_name_is_free(sessions: Sessions) -> None:
    sessions.save("one", SAID, TOLD[0])
    sessions.begin_turn("two", Turn(1))  # its first turn is not over
    with pytest.raises(UsageError, match="there is a session 'two' already"):
        sessions.rename("one", "two")
    with pytest.raises(UsageError, match="there is no session 'three'"):
        sessions.rename("three", "four")
    sessions.rename("two", "three")
    assert sessions.ids() == ["one", "three"]


def test_a_deleted_session_leaves_no_file_of_its_name(sessions: Sessions) -> None:
    sessions.save("s1", SAID, TOLD[0])
    sessions.begin_turn("s1", Turn(2))
    sessions.save("s2", SAID, TOLD[0])
    sessions.delete("s1")
    assert sessions.ids() == ["s2"]
    assert [path.name for path in sessions.path("s1").parent.iterdir() if path.name.startswith("s1")] == []


def test_what_was_said_is_not_committed_by_accident(sessions: Sessions) -> None:
    sessions.save("s1", SAID, TOLD[0])
    ignored = sessions.path("s1").parent / ".gitignore"
    assert ignored.read_text() == "*\n"
    ignored.write_text("!s1.json\n")  # a person's own
    sessions.save("s1", SAID, TOLD[1])
    assert ignored.read_text() == "!s1.json\n"


def test_a_turn_is_durable_before_its_run_exists_and_its_run_need_not_be(tmp_path: Path) -> None:
    disk = CountingDisk()
    sessions = Sessions(tmp_path, disk, Redactor([]))
    sessions.restore_turn("s1", Turn(1))
    assert "sync" in disk.kinds
    disk.operations.clear()
    sessions.begin_turn("s1", Turn(1, "run-1"))
    assert disk.kinds == ["append", "replace"]


def test_what_was_said_is_read_by_its_owner_only(tmp_path: Path, sessions: Sessions) -> None:
    with sessions.hold("s1"):
        sessions.save("s1", SAID, TOLD[0])
    folder = tmp_path / FOLDER
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and sessions.history == folder / ".history"
    assert stat.S_IMODE((folder / "s1.lock").stat().st_mode) == 0o600
    assert str(folder) not in {os.path.dirname(os.path.realpath(fd)) for fd in Path("/proc/self/fd").iterdir()}


def test_a_session_that_cannot_be_read_is_left_as_it_is_with_the_way_to_make_it_again(sessions: Sessions) -> None:
    sessions.save("s1", SAID, TOLD[0])
    sessions.path("s2").write_bytes(sessions.path("s1").read_bytes())
    with pytest.raises(DurabilityError, match="is the file of session 's1'"):
        sessions.open("s2")
    readers: tuple[tuple[str, Callable[[str], object]], ...] = (
        (".json", sessions.open),
        (".turn", sessions.newest_turn),
    )
    for ending, read in readers:
        path = sessions.path("s1").with_suffix(ending)
        path.write_text("{", encoding="utf-8")
        with pytest.raises(DurabilityError, match="orchestra sessions rebuild s1"):
            read("s1")
        assert path.read_text(encoding="utf-8") == "{"


def test_a_turn_that_an_older_version_began_can_be_saved() -> None:
    """It did not name the run before: the effect is the same with it and without."""
    effect = SaveSession("s1", 2, "목표", "답", (Message("assistant", "답"),))
    for previous in (effect.previous, "run-1"):
        same = msgspec.structs.replace(effect, previous=previous)
        assert same.identity() == "sha256:b134e71dc81551c736b5f33c1615d896fa683cdd6863399a5439ef41ec2d4d00"
