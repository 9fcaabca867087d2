"""Who vouches for a run: the keyed chain of its lines, a person's adoption, and the key itself."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestra.core.adoption import Adoption
from orchestra.core.disk import Disk
from orchestra.core.errors import ForeignRun, JournalCorrupt, UsageError
from orchestra.core.keyring import Keyring
from orchestra.core.ledger import Ledger
from orchestra.core.records import now
from orchestra.core.run import RunFolder
from orchestra.core.seal import Seal
from orchestra.core.store import FileStore
from orchestra.core.vouching import Standing
from tests.support.core import KEY, OPEN_TABLE, REDACTOR, CountingDisk, open_ledger
from tests.support.runs import store_of

OTHER = "somebody else's key"


def made(path: Path, *texts: str) -> RunFolder:
    """A run of this user's."""
    ledger = open_ledger(path)
    for text in texts:
        ledger.record("PHASE_COMPLETED", {"key": text, "text": text}, phase="plan", iteration=1)
    ledger.close()
    return RunFolder(path)


def read_run(folder: RunFolder, key: str) -> Standing:
    """The run as the user with this key sees it, also if only its seals are read."""
    seen, quickly = store_of(key).standing(folder), store_of(key).vouched(folder)
    assert list(seen.events) == list(quickly.events)
    for field in ("created", "foreign", "workspace", "lines", "sha256"):
        assert getattr(seen, field) == getattr(quickly, field)
    return seen


def adopt(folder: RunFolder, standing: Standing, workspace: str = "/here", key: str = KEY) -> None:
    adoption = Adoption(lines=standing.lines, sha256=standing.sha256, workspace=workspace, by="민수", at=now())
    store_of(key).adopt(folder, adoption)


def test_a_run_is_vouched_for_by_the_key_that_made_it_and_by_no_other(tmp_path: Path) -> None:
    folder = made(tmp_path / "r", "하나", "둘")
    assert read_run(folder, KEY).foreign == ""
    assert "not made with your key" in read_run(folder, OTHER).foreign
    assert "not made with your key" in read_run(folder, "").foreign
    assert len(read_run(folder, OTHER).events) == 3


def _swap(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[2], lines[1], *lines[3:]]


@pytest.mark.parametrize(
    "forge",
    [
        lambda lines: [*lines[:-1], lines[-1].replace("넷".encode(), "넥".encode())],  # the last line: no digest has it
        lambda lines: [lines[0], lines[1].replace("둘".encode(), "뚤".encode()), *lines[2:]],
        lambda lines: [*lines[:1], *lines[2:]],
        _swap,
        lambda lines: [*lines, lines[-1]],
        lambda lines: [*lines, lines[-1].replace(b'"seal":"', b'"seal":"0')],
        lambda lines: [lines[0].replace(b'"workflow"', b'"Workflow"'), *lines[1:]],
        # The seal may stand in one place only, first in the payload.
        lambda lines: [*lines[:-1], lines[-1].replace(b'"payload":{', b'"payload":{"payload":{},')],
    ],
)
def test_a_line_that_was_changed_moved_or_added_is_not_driven(
    tmp_path: Path, forge: Callable[[list[bytes]], list[bytes]]
) -> None:
    folder = made(tmp_path / "r", "둘", "셋", "넷")
    folder.events.write_bytes(b"".join(forge(folder.events.read_bytes().splitlines(keepends=True))))
    before = folder.events.read_bytes()
    with pytest.raises((ForeignRun, JournalCorrupt)):
        open_ledger(tmp_path / "r")
    with pytest.raises((ForeignRun, JournalCorrupt)):
        raise ForeignRun(folder.id, store_of(KEY).vouched(folder).foreign or pytest.fail("taken for this user's"))
    assert folder.events.read_bytes() == before


def test_a_line_of_another_run_is_foreign_in_this_one(tmp_path: Path) -> None:
    one, two = made(tmp_path / "one", "가", "나"), made(tmp_path / "two", "가", "나")
    mixed = [*one.events.read_bytes().splitlines(keepends=True)[:2], two.events.read_bytes().splitlines(True)[2]]
    one.events.write_bytes(b"".join(mixed))
    with pytest.raises((ForeignRun, JournalCorrupt)):
        open_ledger(tmp_path / "one")


def test_a_copy_under_another_name_is_not_driven(tmp_path: Path) -> None:
    made(tmp_path / "r", "하나").path.rename(tmp_path / "s")
    with pytest.raises(ForeignRun, match="its journal is that of run r"):
        open_ledger(tmp_path / "s")


@pytest.mark.spec("S1-120")
def test_an_adopted_run_goes_on_and_then_vouches_for_itself(tmp_path: Path) -> None:
    folder = made(tmp_path / "r", "하나", "둘")
    adopt(folder, read_run(folder, OTHER), workspace="/moved", key=OTHER)
    assert read_run(folder, OTHER).foreign == ""
    before = folder.events.read_bytes()
    ledger = _driven_by(folder, OTHER)
    assert ledger.workspace == "/moved"
    ledger.record("PHASE_COMPLETED", {"key": "next"}, phase="plan", iteration=1)
    ledger.record("PHASE_COMPLETED", {"key": "after"}, phase="plan", iteration=1)
    ledger.close()
    assert folder.events.read_bytes().startswith(before)  # S1-114
    folder.adopted.unlink()  # the journal alone is enough
    standing = read_run(folder, OTHER)
    assert standing.foreign == "" and standing.workspace == "/moved"
    assert standing.events[3].payload["vouches"]["by"] == "민수"
    assert "line 4" in read_run(folder, KEY).foreign  # what the other user wrote is foreign to the first


def test_what_a_person_typed_counts_only_in_a_first_line_of_this_user_s_key(tmp_path: Path) -> None:
    folder = made(tmp_path / "r", "하나")
    own = _driven_by(folder, KEY)
    assert own.journal.own_first  # and so does each later process
    own.close()
    adopt(folder, read_run(folder, OTHER), key=OTHER)
    for _ in range(2):  # by `adopted.json`, then by the journal's own record of it
        adopted = _driven_by(folder, OTHER)
        assert not adopted.journal.own_first
        adopted.record("PHASE_COMPLETED", {"key": "next"}, phase="plan", iteration=1)
        assert not adopted.journal.own_first
        adopted.close()


def _driven_by(folder: RunFolder, key: str) -> Ledger:
    with store_of(key).claim(folder) as claim:
        journal = claim.journal()
    ledger = Ledger(folder, journal, OPEN_TABLE, disk=Disk(), redactor=REDACTOR, on_event=lambda event: None)
    ledger.open()
    return ledger


@pytest.mark.parametrize("change", ["an event more", "an event less", "another event", "another run's", "unsealed"])
def test_an_adoption_is_for_exactly_what_the_person_saw(tmp_path: Path, change: str) -> None:
    folder = made(tmp_path / "r", "하나", "둘")
    adopt(folder, read_run(folder, OTHER), key=OTHER)
    lines = folder.events.read_bytes().splitlines(keepends=True)
    if change == "an event more":
        made(tmp_path / "r", "셋")
    elif change == "an event less":
        folder.events.write_bytes(b"".join(lines[:-1]))
    elif change == "another event":
        folder.events.write_bytes(b"".join([*lines[:-1], lines[-1].replace("둘".encode(), "뚤".encode())]))
    elif change == "another run's":
        folder.path.rename(tmp_path / "s")
        folder = RunFolder(tmp_path / "s")
    else:
        said = msgspec.json.decode(folder.adopted.read_bytes())
        folder.adopted.write_bytes(msgspec.json.encode({**said, "workspace": "/elsewhere"}))
    assert read_run(folder, OTHER).foreign != ""


def test_a_run_made_before_lines_were_sealed_is_adopted_like_any_other(tmp_path: Path) -> None:
    folder = made(tmp_path / "r", "하나")
    old = [msgspec.json.decode(line) for line in folder.events.read_bytes().splitlines()]
    for event in old:
        event["payload"].pop("seal")
        event["payload"].pop("prev", None)
    folder.events.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in old))
    standing = read_run(folder, KEY)
    assert standing.foreign.startswith("it was made before runs were sealed, or elsewhere")
    adopt(folder, standing)
    assert read_run(folder, KEY).foreign == ""
    made(tmp_path / "r", "둘")
    assert read_run(folder, KEY).foreign == ""


# -- the key ----------------------------------------------------------------------------------------------------------


def mark(seal: Seal) -> str:
    return seal.closes(Adoption(lines=1, sha256="", workspace="", by="", at=""), "r").seal


def keyring(home: Path, project: Path, **environ: str) -> Keyring:
    return Keyring({"HOME": str(home), **environ}, project, Disk())


def test_a_new_key_is_durable_before_anything_is_sealed_with_it(tmp_path: Path) -> None:
    disk = CountingDisk()
    keys = Keyring({"HOME": str(tmp_path / "home")}, tmp_path / "p", disk)
    assert keys.seal
    folder = str(keys.file.parent)
    assert disk.operations.index(("link", keys.file.name)) < disk.operations.index(("sync", Path(folder).name))


def test_reading_makes_no_key_and_writing_makes_one_for_its_owner_only(tmp_path: Path) -> None:
    keys = keyring(tmp_path / "home", tmp_path / "p")
    assert keys.known is None and not (tmp_path / "home").exists()
    assert keys.seal and os.stat(keys.file).st_mode & 0o777 == 0o600
    assert os.stat(keys.file.parent).st_mode & 0o777 == 0o700
    folder = made(tmp_path / "r")
    again = keyring(tmp_path / "home", tmp_path / "p")
    assert again.known is not None and mark(again.known) == mark(keys.seal)
    assert FileStore(Disk(), REDACTOR, again).standing(folder).foreign


def _seal_of(home: str) -> str:
    return mark(keyring(Path(home), Path(home) / "p").seal)


def test_processes_that_make_the_key_at_once_have_the_same(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        seals = pool.map(_seal_of, [str(tmp_path / "home")] * 12)
    assert len(set(seals)) == 1
    assert os.listdir(tmp_path / "home" / ".local" / "state" / "orchestra") == ["key"]


def test_a_shared_secret_vouches_on_both_machines(tmp_path: Path) -> None:
    one, two = (keyring(tmp_path / name, tmp_path / "p", ORCHESTRA_KEY="공유된 비밀 열쇠입니다 1234") for name in "ab")
    assert mark(one.seal) == mark(two.seal)
    assert not (tmp_path / "a").exists()  # nothing was made


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda key: (key.write_text("short"), key.chmod(0o600)), "damaged"),
        (lambda key: (key.write_text("x" * 64), key.chmod(0o644)), "chmod 600"),
        (lambda key: os.mkfifo(key, 0o600), "named pipe"),
        (lambda key: key.mkdir(mode=0o700), "folder"),
        (lambda key: key.symlink_to("/dev/zero"), "device"),
    ],
)
def test_a_key_that_cannot_be_one_is_refused_with_its_cure(
    tmp_path: Path, prepare: Callable[[Path], object], said: str
) -> None:
    keys = keyring(tmp_path / "home", tmp_path / "p")
    keys.file.parent.mkdir(parents=True)
    prepare(keys.file)
    with pytest.raises(Exception, match=said) as refused:
        _ = keys.seal
    assert str(keys.file) in str(refused.value)


def test_a_key_in_the_project_is_refused(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    (project / "key").write_text("x" * 64)
    (tmp_path / "link").symlink_to(project)
    for environ in (
        {"ORCHESTRA_KEY_FILE": str(project / "key")},
        {"ORCHESTRA_KEY_FILE": str(tmp_path / "link" / "key")},
        {"XDG_STATE_HOME": str(project)},
    ):
        with pytest.raises(UsageError, match="lies in the project"):
            _ = keyring(tmp_path / "home", project, **environ).seal


def test_a_key_of_sixteen_characters_is_long_enough_and_one_less_is_not(tmp_path: Path) -> None:
    keys = keyring(tmp_path / "home", tmp_path / "p")
    keys.file.parent.mkdir(parents=True)
    for secret in ("x" * 15, "x" * 16):
        keys.file.write_text(f"{secret}\n")
        keys.file.chmod(0o600)
        for environ in ({}, {"ORCHESTRA_KEY": secret}):
            given = keyring(tmp_path / "home", tmp_path / "p", **environ)
            if len(secret) == 16:
                assert given.seal
            else:
                with pytest.raises(UsageError, match=r"too short|fewer than 16"):
                    _ = given.seal


def test_a_key_that_can_be_guessed_or_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can be guessed"):
        _ = keyring(tmp_path, tmp_path / "p", ORCHESTRA_KEY="short").seal
    with pytest.raises(UsageError, match="there is no"):
        _ = keyring(tmp_path, tmp_path / "p", ORCHESTRA_KEY_FILE=str(tmp_path / "nowhere")).seal
