"""Runs that are found by their folders, read from journals that the tests write themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.core.errors import ForeignRun, JournalCorrupt
from orchestra.core.run import RunFolder
from tests.runs.test_tree import Place, run_id
from tests.support.core import OPEN_TABLE, new_ledger


def test_a_run_with_an_empty_journal_is_refused_and_no_line_is_blamed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    empty = RunFolder(place.root / run_id("empty"))
    empty.path.mkdir(parents=True)
    empty.events.touch()
    said = f"{empty.events} holds no event. Nothing was changed. Restore the file from a backup"
    for look in (place.runs.summary, place.runs.drivable_root):
        with pytest.raises(JournalCorrupt) as refused:
            look(empty)
        assert str(refused.value) == said and refused.value.line == 0


def test_a_run_whose_folder_was_renamed_is_not_driven_and_adopting_it_would_not_help(tmp_path: Path) -> None:
    place = Place(tmp_path)
    moved = place.write("before").path.rename(place.root / run_id("after"))
    with pytest.raises(ForeignRun) as refused:
        new_ledger(RunFolder(moved), OPEN_TABLE).open()
    assert str(refused.value).endswith("not driven. Give its folder back its own name and place")


def test_the_newest_run_is_meant_even_if_its_journal_is_damaged(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("a")
    newest = place.write("b")
    with newest.events.open("a") as journal:
        journal.write("no event\n")
    with pytest.raises(JournalCorrupt):
        place.runs.summary(newest)
    assert place.runs.find("last").id == newest.id
