"""A change of lines that the model was not shown is a reason to ask; where the hunk really belongs decides."""

from __future__ import annotations

import pytest

from orchestra.core.shown import Lines, ShownLines
from orchestra.patch.prepared import Prepared
from orchestra.patch.unseen import unseen
from tests.patch.support import make_diff, prepare

OLD = "".join(f"line {number}\n" for number in range(1, 21))


def ready(diff: str, **files: str) -> Prepared:
    done = prepare(diff, {name.replace("_", "."): text for name, text in files.items()})
    assert isinstance(done, Prepared), done
    return done


def edited(old: str, new: str) -> str:
    assert old in OLD
    return OLD.replace(old, new)


def reasons(new: str | None, *lines: Lines) -> tuple[str, ...]:
    """What is said about this new text of f.py, if these lines of it were shown."""
    return unseen(ready(make_diff("f.py", OLD, new), f_py=OLD), ShownLines(parts={"f.py": lines}))


@pytest.mark.parametrize(
    ("new", "lines", "missing"),
    [
        (edited("line 7\n", "seven\n"), [(5, 9)], ""),
        (edited("line 7\n", "seven\n"), [(7, 7)], ""),
        (edited("line 7\n", ""), [(1, 6), (8, 20)], "line 7"),
        (edited("line 7\nline 8\n", "x\n"), [(1, 7)], "line 8"),
        (edited("line 7\nline 8\nline 9\n", "x\n"), [(8, 8)], "lines 7, 9"),
        (edited("line 3\nline 4\nline 5\n", "x\n"), [(10, 20)], "lines 3-5"),
        (edited("line 3\nline 4\nline 5\n", "x\n"), [(4, 4), (1, 3), (5, 5)], ""),  # in any order
        (edited("line 7\n", "line 7\nnew\n"), [(7, 8)], ""),  # between two shown lines
        (edited("line 7\n", "line 7\nnew\n"), [(1, 7)], "line 8"),  # what follows was not shown
        (edited("line 7\n", "line 7\nnew\n"), [(8, 20)], "line 7"),
        (f"{OLD}new\n", [(20, 20)], ""),  # at the end of the file
        (f"new\n{OLD}", [(1, 3)], ""),
        (f"{OLD}new\n", [(1, 19)], "line 20"),
        (None, [(1, 20)], ""),  # a deleted file
        (None, [(1, 10)], "lines 11-20"),
    ],
)
def test_the_lines_that_were_not_shown_are_named(new: str | None, lines: list[Lines], missing: str) -> None:
    expected = (f"changes {missing} of f.py, which the model was not shown",) if missing else ()
    assert reasons(new, *lines) == expected


def test_the_place_where_a_hunk_belongs_counts_and_not_its_header() -> None:
    diff = make_diff("f.py", OLD, edited("line 15\n", "fifteen\n")).replace("@@ -12,7 +12,7 @@", "@@ -2,7 +2,7 @@")
    done = ready(diff, f_py=OLD)
    assert unseen(done, ShownLines(parts={"f.py": ((10, 20),)})) == ()
    assert unseen(done, ShownLines(parts={"f.py": ((1, 10),)})) == (
        "changes line 15 of f.py, which the model was not shown",
    )


def test_context_lines_that_were_not_shown_are_no_reason() -> None:
    diff = make_diff("f.py", OLD, edited("line 7\n", "seven\n"), context=6)
    assert unseen(ready(diff, f_py=OLD), ShownLines(parts={"f.py": ((7, 7),)})) == ()


def test_a_file_that_was_not_shown_at_all_is_named_once() -> None:
    diff = make_diff("f.py", OLD, edited("line 2\n", "two\n")) + make_diff("g.py", "a\n", "b\n")
    done = ready(diff, f_py=OLD, g_py="a\n")
    assert unseen(done, ShownLines()) == (
        "changes f.py, which the model was not shown",
        "changes g.py, which the model was not shown",
    )
    assert unseen(done, ShownLines(whole=("f.py",), parts={"g.py": ()})) == (
        "changes g.py, which the model was not shown",  # listed or outlined, and no more
    )
    assert unseen(done, ShownLines(whole=("f.py", "g.py"))) == ()


def test_a_new_file_an_empty_one_and_a_bare_rename_are_no_reason() -> None:
    assert unseen(ready(make_diff("n.py", None, "x\n")), ShownLines()) == ()
    assert unseen(ready(make_diff("e.py", "", "x\n"), e_py=""), ShownLines()) == ()
    rename = "diff --git a/f.py b/h.py\nrename from f.py\nrename to h.py\n"
    assert unseen(ready(rename, f_py=OLD), ShownLines()) == ()


def test_a_renamed_file_is_judged_by_its_old_name() -> None:
    body = make_diff("f.py", OLD, edited("line 2\n", "two\n")).partition("@@")[2]
    diff = f"diff --git a/f.py b/h.py\nrename from f.py\nrename to h.py\n--- a/f.py\n+++ b/h.py\n@@{body}"
    done = ready(diff, f_py=OLD)
    assert unseen(done, ShownLines(whole=("f.py",))) == ()
    assert unseen(done, ShownLines(whole=("h.py",))) == ("changes f.py, which the model was not shown",)


def test_many_places_are_named_in_short() -> None:
    new = "".join(f"LINE {n}\n" if n % 2 else f"line {n}\n" for n in range(1, 21))
    assert reasons(new, (20, 20)) == ("changes lines 1, 3, 5, 7 and 6 more of f.py, which the model was not shown",)
