"""The store of runs in files: made, found, claimed, hidden, and records beside the journal."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from msgspec import Struct

from orchestra.core.errors import JournalCorrupt, RunLocked
from orchestra.core.run import RunFolder
from tests.support.core import CountingDisk, open_ledger
from tests.support.runs import store_of


class Choice(Struct, frozen=True):
    """A record beside the journal."""

    text: str
    seal: str = ""


def begun(path: Path) -> RunFolder:
    open_ledger(path).close()
    return RunFolder(path)


def test_a_run_gets_the_next_free_number_and_the_files_it_begins_with(tmp_path: Path) -> None:
    store = store_of()
    first = store.create(tmp_path / "runs", workflow="loop", name="x", files={"plan/a.json": b"{}"})
    assert first.id.endswith("_001_loop_x") and os.stat(first.path).st_mode & 0o777 == 0o700
    assert (first.path / "plan" / "a.json").read_bytes() == b"{}"
    assert store.create(tmp_path / "runs", workflow="dag", name="x").id.endswith("_001_dag_x")
    assert store.create(tmp_path / "runs", workflow="loop", name="x").id.endswith("_002_loop_x")


def _created(root: str) -> str:
    return store_of().create(Path(root), workflow="loop", name="x").id


def test_starters_at_once_get_runs_of_their_own(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        ids = pool.map(_created, [str(tmp_path / "runs")] * 12)
    assert len(set(ids)) == 12


def test_a_child_that_a_kill_left_half_made_is_made_again(tmp_path: Path) -> None:
    store = store_of()
    store.create_child(tmp_path / "runs", "child", {"a": b"1"})
    assert (store.create_child(tmp_path / "runs", "child", {"a": b"2"}).path / "a").read_bytes() == b"2"


def test_only_folders_with_a_journal_are_runs_and_a_damaged_run_is_one(tmp_path: Path) -> None:
    store = store_of()
    for name in ("a1", "a2", "b1", ".hidden"):
        begun(tmp_path / name)
    (tmp_path / "a3").mkdir()
    (tmp_path / "a2" / "events.ndjson").write_text("{}\n")
    assert sorted(run.id for run in store.runs([tmp_path, tmp_path / "missing"])) == ["a1", "a2", "b1"]
    assert sorted(run.id for run in store.runs([tmp_path], "a")) == ["a1", "a2"]
    assert store.began(RunFolder(tmp_path / "a1")) and store.began(RunFolder(tmp_path / "a2"))
    with pytest.raises(JournalCorrupt):
        store.first(RunFolder(tmp_path / "a2"))
    assert store.began(RunFolder(tmp_path / "a3")) is None
    assert store.first(RunFolder(tmp_path / "a3")) is None


def test_a_claim_excludes_every_other_and_ends_with_its_block(tmp_path: Path) -> None:
    one, other, run = store_of(), store_of(), begun(tmp_path / "r")
    assert not other.is_driven(run)
    with one.claim(run) as claim:
        assert other.is_driven(run)
        with pytest.raises(RunLocked, match=f"pid {os.getpid()}"), other.claim(run):
            pass
        journal = claim.journal()
        assert [event.type for event in journal.load()] == ["RUN_CREATED"]
        journal.close()
    assert not other.is_driven(run)


def test_a_fork_is_no_run_before_it_is_published(tmp_path: Path) -> None:
    disk = CountingDisk()
    store = store_of(disk=disk)
    claim = store.create_fork(tmp_path, workflow="loop", name="x")
    begun_at = open_ledger(claim.folder.path)  # its id is another: only the listing is looked at here
    begun_at.close()
    assert list(store.runs([tmp_path])) == [] and claim.folder.path.name.startswith(".")
    assert claim.folder.path.stat().st_mode & 0o077 == 0
    disk.operations.clear()
    new = store.publish_fork(claim)
    assert [run.id for run in store.runs([tmp_path])] == [new.id] == [claim.folder.id]
    assert disk.kinds == ["sync", "replace", "sync"]  # whole before it has its name, and the name survives a power cut


def test_a_run_that_is_being_removed_is_hidden_and_keeps_its_id(tmp_path: Path) -> None:
    store = store_of()
    run = begun(store.create(tmp_path, workflow="loop", name="x").path)
    path = store.hide(run)
    (tmp_path / ".2026-01-01_001_loop_link.removed").symlink_to(tmp_path)
    (tmp_path / ".other.removed").mkdir()
    assert list(store.runs([tmp_path])) == []
    assert list(store.hidden([tmp_path, tmp_path / "missing"])) == [(run.id, path)]
    assert store.create(tmp_path, workflow="loop", name="x").id.endswith("_002_loop_x")


def test_a_record_is_kept_for_one_run_and_one_user(tmp_path: Path) -> None:
    store, run, other = store_of(), begun(tmp_path / "r"), begun(tmp_path / "s")
    assert store.kept(run, "models", Choice) is None
    for text in ("first", "second"):
        store.keep(run, "models", Choice(text))
    found = store.kept(run, "models", Choice)
    assert found is not None and found.text == "second"
    assert store_of("somebody else's key").kept(run, "models", Choice) is None
    other.inbox.mkdir()
    (other.inbox / "models.json").write_bytes((run.inbox / "models.json").read_bytes())
    assert store.kept(other, "models", Choice) is None


def test_a_follower_gives_each_event_once(tmp_path: Path) -> None:
    store, run = store_of(), begun(tmp_path / "r")
    follower = store.follow(run)
    assert [event.type for event in follower.new()] == ["RUN_CREATED"]
    assert list(follower.new()) == []
    ledger = open_ledger(run.path)
    ledger.record("PHASE_COMPLETED", {"key": "a"}, phase="plan", iteration=1)
    ledger.close()
    assert [event.payload["key"] for event in follower.new()] == ["a"]
