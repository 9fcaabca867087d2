"""The globs of `--no-context` and `context.hide`."""

from __future__ import annotations

import pytest

from orchestra.core.errors import UsageError
from orchestra.core.globs import Globs


def test_globs_mean_what_they_mean_in_gitignore() -> None:
    hidden = Globs(("docs/", "*.min.js", "./data/*.csv", "!keep.min.js"))
    assert [path for path in ("docs/a/b.md", "x/a.min.js", "data/a.csv") if not hidden(path)] == []
    assert [path for path in ("a.md", "x/data/a.csv", "a/keep.min.js", "docs") if hidden(path)] == []
    assert not Globs(())("anything")
    assert Globs(("x" * 500,))("x" * 500) and Globs(("a*b*c*",))(
        "a1b2c3"
    )  # as long, and as many stars, as there may be


@pytest.mark.parametrize("glob", ["", "  ", "# x", "a*b*c*d*", "x" * 501, "a\\"])
def test_a_glob_that_names_nothing_or_would_take_long_is_refused(glob: str) -> None:
    with pytest.raises(UsageError, match="--no-context"):
        Globs((glob,))


def test_hidden_globs_name_files_folders_and_paths() -> None:
    hides = Globs(("*.sql", "legacy", "docs/*.md", "./src/old/"))
    gone = ["a.sql", "db/b.sql", "legacy/x.py", "a/legacy/y.py", "docs/a.md", "src/old/z.py"]
    assert [path for path in (*gone, "src/new.py", "docs/a.rst") if hides(path)] == gone
