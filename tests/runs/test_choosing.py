"""The parts of a patch that a person named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from orchestra.core.errors import UsageError
from orchestra.patch.choosing import Part
from orchestra.runs.choosing import pick

A1, A2 = (Part("a.py", number, 2, "head", f"@@ -{number} +{number} @@\n-x\n+y\n") for number in (1, 2))
B = Part("b.py", 1, 1, "head", "@@ -1 +1 @@\n-x\n+y\n")


@pytest.mark.parametrize(
    ("only", "hunks", "parts"),
    [
        ((), {"a.py": (1,)}, [A1]),
        ((), {"a.py": (2,)}, [A2]),
        ((), {"a.py": (2, 1)}, [A1, A2]),
        (("b.py",), {"a.py": (2,)}, [A2, B]),
        (("a.py",), {}, [A1, A2]),
        ((), {}, []),
    ],
)
def test_parts_are_named_by_file_or_by_number(
    only: Sequence[str], hunks: Mapping[str, Sequence[int]], parts: list[Part]
) -> None:
    assert pick([A1, A2, B], only, hunks) == parts


@pytest.mark.parametrize(
    ("only", "hunks", "said"),
    [
        ((), {"a.py": (0,)}, "there is no hunk 0 in a.py; it has 2 hunks:"),
        ((), {"a.py": (1, 3)}, "there is no hunk 3 in a.py; it has 2 hunks:"),
        ((), {"b.py": (2,)}, "there is no hunk 2 in b.py; it has 1 hunk:"),
        (("c.py",), {}, "'c.py' is not in this patch; it touches: a.py, b.py"),
        ((), {"c.py": (1,)}, "'c.py' is not in this patch; it touches: a.py, b.py"),
    ],
)
def test_a_part_that_is_not_there_is_refused_with_those_that_are(
    only: Sequence[str], hunks: Mapping[str, Sequence[int]], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        pick([A1, A2, B], only, hunks)
