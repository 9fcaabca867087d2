"""Diffs whose files are named by `---` and `+++` alone: read, written in the normal form, refused if unclear."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings

from orchestra.core.work import Refusal
from orchestra.patch.diff import FileChange, Hunk, Line, parse_diff
from orchestra.patch.normal import Normal, normal_form
from orchestra.patch.safety import check

from .support import changes_of, make_diff
from .test_diff import DIFFS
from .test_locate import TEXTS

HUNK = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
BODY = (Hunk(1, (Line(" ", "a"), Line("-", "b"), Line("+", "B"), Line(" ", "c"))),)
ADDED, GONE = "@@ -0,0 +1 @@\n+x\n", "@@ -1 +0,0 @@\n-x\n"


def modify(path: str, modes: tuple[str, ...] = ()) -> FileChange:
    return FileChange("modify", path, path, BODY, modes=modes)


def create(path: str, mode: str = "100644") -> FileChange:
    return FileChange("create", None, path, (Hunk(0, (Line("+", "x"),)),), mode, (mode,))


def delete(path: str) -> FileChange:
    return FileChange("delete", path, None, (Hunk(1, (Line("-", "x"),)),), None, ("100644",))


@pytest.mark.parametrize(
    ("diff", "changes"),
    [
        (f"--- a/f\n+++ b/f\n{HUNK}", (modify("f"),)),
        (f"--- f\n+++ f\n{HUNK}--- g\n+++ g\n{HUNK}", (modify("f"), modify("g"))),
        (f"--- f\t2024-01-01\n+++ f\t2024-01-02\n{HUNK}--- g\t1\n+++ g\t2\n{HUNK}", (modify("f"), modify("g"))),
        (f"--- a/내 문서.md\n+++ b/내 문서.md\n{HUNK}", (modify("내 문서.md"),)),
        (f'--- "a/\\353\\260\\224"\n+++ "b/\\353\\260\\224"\n{HUNK}', (modify("바"),)),
        (f'--- "a/q\\"q"\n+++ "b/q\\"q"\n{HUNK}', (modify('q"q'),)),
        (f"--- a/f\n+++ b/f\n{HUNK}--- /dev/null\n+++ b/new\n{ADDED}", (modify("f"), create("new"))),
        (f"--- a/old\n+++ /dev/null\n{GONE}--- a/f\n+++ b/f\n{HUNK}", (delete("old"), modify("f"))),
        (f"--- f\n+++ f\n{HUNK}--- old\n+++ /dev/null\n{GONE}", (modify("f"), delete("old"))),
        (f"--- f\n+++ f\n{HUNK}--- /dev/null\n+++ new\n{ADDED}", (modify("f"), create("new"))),
        (
            f"index 1..2 100644\n--- a/f\n+++ b/f\n{HUNK}index 3..4\n--- a/g\n+++ b/g\n{HUNK}",
            (modify("f", ("100644",)), modify("g")),
        ),
        (
            f"--- a/f\n+++ b/f\n{HUNK}new file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/run.sh\n{ADDED}",
            (modify("f"), create("run.sh", "100755")),
        ),
        (f"diff --git a/f b/f\n--- a/f\n+++ b/f\n{HUNK}--- a/g\n+++ b/g\n{HUNK}", (modify("f"), modify("g"))),
        (f"--- a/f\n+++ b/f\n{HUNK}diff --git a/g b/g\n--- a/g\n+++ b/g\n{HUNK}", (modify("f"), modify("g"))),
        (
            f"--- a/f\n+++ b/f\n{HUNK}rename from one\nrename to two\n",
            (modify("f"), FileChange("rename", "one", "two")),
        ),
        (
            f"rename from one\nrename to two\n--- a/one\n+++ b/two\n{HUNK}",
            (FileChange("rename", "one", "two", BODY),),
        ),
        (
            f"old mode 100644\nnew mode 100755\n--- a/f\n+++ b/f\n{HUNK}",
            (FileChange("modify", "f", "f", BODY, "100755", ("100644", "100755")),),
        ),
        (f"--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n a\n-b\n+B\n c\n--- a/g\n+++ b/g\n{HUNK}", None),  # counts too large
    ],
)
def test_the_normal_form_says_the_same_with_every_header(diff: str, changes: tuple[FileChange, ...] | None) -> None:
    normal = normal_form(diff)
    found = changes_of(normal.diff)
    assert changes is None or found == changes
    assert [(c.kind, c.paths) for c in changes_of(diff)] == [(c.kind, c.paths) for c in found]
    assert normal.diff.count("diff --git ") == len(found)
    assert normal.repaired
    for line in ("@@", "+B", "+x", "-x"):  # the hunks are as they were
        assert normal.diff.count(f"\n{line}") == f"\n{diff}".count(f"\n{line}")
    assert normal_form(normal.diff) == Normal(normal.diff)


def test_what_was_repaired_names_the_files_without_a_header() -> None:
    diff = f"diff --git a/f b/f\n--- a/f\n+++ b/f\n{HUNK}--- a/내 것\n+++ b/내 것\n{HUNK}--- a/g\n+++ b/g\n{HUNK}"
    assert normal_form(diff).repaired == ("the `diff --git` line was missing and was added: 내 것, g",)


@pytest.mark.parametrize(
    ("diff", "says"),
    [
        (f"--- /dev/null\n+++ a/new\n{ADDED}", "a/new may be the file new or a file in a folder a"),
        (f"--- b/old\n+++ /dev/null\n{GONE}", "b/old may be the file old or a file in a folder b"),
        (f"--- f\n+++ f\n{HUNK}--- /dev/null\n+++ b/new\n{ADDED}", "b/new may be the file new"),
        (f"--- f\n+++ f\n{HUNK}--- a/old\n+++ /dev/null\n{GONE}", "a/old may be the file old"),
        (f"--- a/f\n+++ b/g\n{HUNK}", "disagree on the path"),
        (f"--- f.orig\n+++ f\n{HUNK}", "disagree on the path"),
        (f"--- a/f\n+++ b/f\n{HUNK}copy from f\ncopy to g\n", "copy"),
    ],
)
def test_what_may_mean_two_files_is_refused(diff: str, says: str) -> None:
    result = parse_diff(diff)
    assert isinstance(result, Refusal)
    assert says in result.message
    assert normal_form(diff) == Normal(diff)  # left as it is, for its reader to refuse


@pytest.mark.parametrize("mode", ["index 1..2 120000", "new file mode 120000", "old mode 120000\nnew mode 100644"])
def test_a_mode_that_is_never_taken_stays_in_the_normal_form(mode: str) -> None:
    sides = "--- /dev/null\n+++ b/f\n" if mode.startswith("new file") else "--- a/f\n+++ b/f\n"
    diff = f"{mode}\n{sides}{ADDED if 'null' in sides else HUNK}"
    refused = check(changes_of(normal_form(diff).diff))
    assert refused is not None
    assert "120000 is a symbolic link" in refused.message


def test_a_git_line_settles_what_a_lone_name_cannot() -> None:
    diff = f"diff --git a/a/new b/a/new\n--- /dev/null\n+++ b/a/new\n{ADDED}"
    assert [change.path for change in changes_of(diff)] == ["a/new"]


def test_removed_lines_that_look_like_a_header_are_no_file() -> None:
    """SQL comments: the hunk's own counts say that the pair belongs to it."""
    diff = "--- a/q.sql\n+++ b/q.sql\n" + "".join(make_diff("q.sql", "k\n-- a/x\n", "k\n++ b/x\n").split("\n", 3)[3:])
    (change,) = changes_of(diff + "@@ -9 +9 @@\n-y\n+z\n")
    assert len(change.hunks) == 2


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS)
def test_a_diff_without_its_git_line_means_what_it_meant(old: str, new: str) -> None:
    if old == new or "\r" in old + new:
        return
    full = make_diff("문서/f 1.txt", old, new)
    bare = full.split("\n", 1)[1]
    assert changes_of(normal_form(bare).diff) == changes_of(full)
    assert normal_form(bare).diff == full.replace("f 1.txt\n+++", "f 1.txt\t\n+++").replace(
        "b/문서/f 1.txt\n@@", "b/문서/f 1.txt\t\n@@"
    )


@settings(max_examples=200, deadline=None)
@given(DIFFS)
def test_any_text_has_a_normal_form_and_only_one(diff: str) -> None:
    normal = normal_form(diff)
    assert normal_form(normal.diff).diff == normal.diff
    assert bool(normal.repaired) == (normal.diff != diff)
    before, after = parse_diff(diff), parse_diff(normal.diff)
    assert isinstance(before, Refusal) == isinstance(after, Refusal)


def test_git_takes_the_normal_form(tmp_path: Path) -> None:
    (tmp_path / "내 것.txt").write_text("a\nb\nc\n")
    (tmp_path / "old").write_text("x\n")
    bare = f"--- 내 것.txt\t1\n+++ 내 것.txt\t2\n{HUNK}--- /dev/null\n+++ new\n{ADDED}--- old\n+++ /dev/null\n{GONE}"
    run = subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=normal_form(bare).diff.encode(), check=False)
    assert run.returncode == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"내 것.txt": "a\nB\nc\n", "new": "x\n"}
