"""What a run may change: globs of paths, judged at the gate."""

from __future__ import annotations

import msgspec
import pytest

from orchestra.core.errors import UsageError
from orchestra.core.scope import Scope
from orchestra.core.work import PatchFile


def file(path: str, old: str | None = None) -> PatchFile:
    return PatchFile(path, "rename" if old else "modify", "a", "b", 1, 1, oldPath=old)


@pytest.mark.parametrize(
    ("scope", "path", "within"),
    [
        (Scope(), "any/thing.py", True),
        (Scope(only=("src/",)), "src/a/b.py", True),
        (Scope(only=("src/",)), "srcs/b.py", False),
        (Scope(only=("/src/*.py",)), "src/a.py", True),
        (Scope(only=("/src/*.py",)), "other/src/a.py", False),
        (Scope(only=("src/앱.py",)), "src/앱.py", True),
        (Scope(only=("src/",), never=("*_test.py",)), "src/a_test.py", False),
        (Scope(never=("tests/",)), "tests/a.py", False),
        (Scope(never=("tests/",)), "TESTS/a.py", False),
        (Scope(never=("Tests/",)), "tests/a.py", False),
        (Scope(never=("tests/",)), "src/a.py", True),
        (Scope(only=("src/",)), "Src/a.py", False),
    ],
)
def test_a_path_is_in_scope_or_refused_by_name(scope: Scope, path: str, within: bool) -> None:
    refusal = scope.refusal([file("src/other.py"), file(path)] if not scope.only else [file(path)])
    assert (refusal is None) == within
    if refusal is not None:
        assert refusal.path == path and refusal.reason == "path_violation"


def test_both_names_of_a_renamed_file_count() -> None:
    scope = Scope(only=("src/",))
    assert scope.refusal([file("src/new.py", old="src/old.py")]) is None
    for moved in (file("src/new.py", old="docs/old.py"), file("docs/new.py", old="src/old.py")):
        refusal = scope.refusal([moved])
        assert refusal is not None and refusal.message.startswith("docs/")


def test_the_reason_names_every_wrong_path_and_the_scope() -> None:
    refusal = Scope(("src/",), ("*.md",)).refusal([file("a.md"), file("src/a.py"), file("b.py")])
    assert refusal is not None and refusal.message == (
        "a.md, b.py: out of scope for this run, so nothing was applied. It may change only src/, and never *.md."
        " Write the patch again without the files that are out of scope"
    )


def test_a_wrong_glob_or_field_is_refused_before_a_run_exists() -> None:
    with pytest.raises(UsageError, match="scope: a\\*b\\*c\\*d\\*e: it is too long, or has more than 3 stars"):
        Scope(("a*b*c*d*e",)).check()
    with pytest.raises(msgspec.ValidationError, match="onyl"):
        msgspec.convert({"onyl": ["a"]}, Scope)
