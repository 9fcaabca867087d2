"""Which run a person means who names none: the only one that fits, else they are asked to name one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.core.errors import UsageError
from orchestra.runs.meant import Meant
from tests.runs.test_tree import Place, asks, final


def test_the_only_run_that_fits_is_meant_and_of_several_none(tmp_path: Path) -> None:
    place = Place(tmp_path)
    meant = Meant(place.runs, place.trees)
    place.write("over", final("10:00:01"))
    with pytest.raises(UsageError, match=r"no run here asks a question \(orchestra runs lists all\)"):
        meant.to_answer(None)
    first = place.write("하나", asks("q", "q.1"))
    assert {look(None).id for look in (meant.to_answer, meant.to_go_on_with, meant.to_end)} == {first.id}
    with pytest.raises(UsageError, match="no run here waits for your approval"):
        meant.to_decide(None)
    second = place.write("둘", asks("q", "q.1"))
    with pytest.raises(UsageError, match="2 runs fit; name one of them:") as refused:
        meant.to_answer(None)
    assert first.id in str(refused.value) and second.id in str(refused.value)
