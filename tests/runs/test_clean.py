"""Which runs may be removed, judged on journals that the tests write themselves."""

from __future__ import annotations

from pathlib import Path

from orchestra.app import App
from orchestra.runs.clean import Cleaning, look
from tests.runs.test_tree import Place, asks, final


def test_a_run_that_ended_may_go_and_a_damaged_one_stays_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    app = App(tmp_path / "p")
    place = Place(tmp_path / "p")
    cleaning = Cleaning(app.project, place.runs, app.terms)
    over, broken = place.write("끝", final("10:00:01")), place.write("broken", final("10:00:01"))
    place.write("open", asks("q", "q.1"))
    broken.events.write_bytes(broken.events.read_bytes().replace(b"\n", b"\n{\n", 1))
    sweep = look(cleaning, 0)
    assert [tree.id for tree in sweep.going] == [over.id] and sweep.open == 1
    assert [(one.run_id, one.why) for one in sweep.staying] == [
        (broken.id, f"its journal is damaged (orchestra verify {broken.id} says where)")
    ]
    assert look(cleaning, 1).going == ()
