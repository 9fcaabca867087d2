"""Diff text: what models get wrong is read, what contradicts itself is refused, nothing raises."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestra.core.work import Refusal
from orchestra.patch.diff import MAX_DIFF_BYTES, FileChange, Hunk, Line, parse_diff
from orchestra.patch.paths import quote, unquote

from .support import changes_of, make_diff
from .test_result import SEED_PATCH

HUNK = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
BODY = (Hunk(1, (Line(" ", "a"), Line("-", "b"), Line("+", "B"), Line(" ", "c"))),)


def refused(diff: str) -> Refusal:
    result = parse_diff(diff)
    assert isinstance(result, Refusal), result
    return result


@pytest.mark.spec("S1-89")
def test_the_specifications_sample_with_its_wrong_counts_is_read() -> None:  # T-1
    diff = SEED_PATCH.partition("[PATCH_BEGIN]\n")[2].partition("[PATCH_END]")[0]
    hunk = Hunk(1, (Line("-", "old"), Line("+", "new")), miscounted=True)
    assert changes_of(diff) == (FileChange("modify", "path/to/file", "path/to/file", (hunk,), modes=("100644",)),)


@pytest.mark.spec("S1-89")
@pytest.mark.parametrize(
    "header",
    [
        "diff --git a/f.txt b/f.txt\nindex 111..222\n--- a/f.txt\n+++ b/f.txt\n",
        "--- a/f.txt\n+++ b/f.txt\n",
        "--- f.txt\n+++ f.txt\n",
        "--- a/f.txt\n+++ f.txt\n",
        "--- f.txt\n+++ b/f.txt\n",
        "diff --git f.txt f.txt\n--- f.txt\n+++ f.txt\n",
        "diff --git i/f.txt w/f.txt\n--- i/f.txt\n+++ w/f.txt\n",
        "--- a/f.txt\t2024-01-01 00:00:00\n+++ b/f.txt\t2024-01-02 00:00:00\n",
        "diff --git a/f.txt b/f.txt\n",
        "Some prose.\n- and a list\n\ndiff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n",
        "```diff\n--- a/f.txt\n+++ b/f.txt\n",
    ],
)
def test_the_ways_to_name_one_file(header: str) -> None:
    assert changes_of(header + HUNK) == (FileChange("modify", "f.txt", "f.txt", BODY),)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (
            'diff --git "a/\\353\\260\\224" "b/\\353\\260\\224"\n--- "a/\\353\\260\\224"\n+++ "b/\\353\\260\\224"\n',
            "바",
        ),
        ("diff --git a/문서/읽기.md b/문서/읽기.md\n--- a/문서/읽기.md\n+++ b/문서/읽기.md\n", "문서/읽기.md"),
        ("diff --git a/my file b/my file\n--- a/my file\t\n+++ b/my file\t\n", "my file"),
        ("diff --git a/x b/y b/x b/y\n--- a/x b/y\t\n+++ b/x b/y\t\n", "x b/y"),
        ('--- "a/tab\\there \\"q\\""\n+++ "b/tab\\there \\"q\\""\n', 'tab\there "q"'),
        ("--- b/f\n+++ b/f\n", "b/f"),  # a folder named b, no prefixes
        ("diff --git a/a/f b/a/f\n--- a/a/f\n+++ b/a/f\n", "a/f"),
    ],
)
def test_names_with_blanks_quotes_and_hangul(header: str, name: str) -> None:
    assert changes_of(header + HUNK) == (FileChange("modify", name, name, BODY),)


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        ("a/a b b/c", "a b", "c"),
        ("a/c b/a b", "c", "a b"),
        ("a/a b b/a  c", "a b", "a  c"),
        ("a/one b/three", "one", "three"),
        ("a/one b/tw o b/x", "one b/tw o", "x"),
    ],
)
def test_where_blanks_hide_the_border_the_rename_lines_say_it(line: str, old: str, new: str) -> None:
    moved = f"diff --git {line}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"
    assert changes_of(moved) == (FileChange("rename", old, new),)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("a/a b b/c", "its header names no file"),
        ("a/a b c b/d", "its header names no file"),
        ("a/one b/three", "its header lines disagree on the path: 'one', 'three'"),
    ],
)
def test_two_names_of_unequal_length_alone_name_no_file(line: str, why: str) -> None:
    for more in ("new file mode 100644\n", "old mode 100644\nnew mode 100755\n"):
        assert why in refused(f"diff --git {line}\n{more}").message


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
def test_quoting_a_name_can_be_undone(name: str) -> None:
    written = quote(name)
    assert (unquote(written[1:-1]) if written.startswith('"') else written) == name


def test_create_delete_rename_and_mode_changes() -> None:
    diff = (
        "diff --git a/new.sh b/new.sh\nnew file mode 100755\nindex 000..111\n"
        "--- /dev/null\n+++ b/new.sh\n@@ -0,0 +1 @@\n+x\n"
        "diff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/one b/two\nsimilarity index 100%\nrename from one\nrename to two\n"
        "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
        "diff --git a/empty b/empty\nnew file mode 100644\nindex 000..e69\n"
    )
    assert changes_of(diff) == (
        FileChange("create", None, "new.sh", (Hunk(0, (Line("+", "x"),)),), "100755", ("100755",)),
        FileChange("delete", "old", None, (Hunk(1, (Line("-", "x"),)),), None, ("100644",)),
        FileChange("rename", "one", "two"),
        FileChange("modify", "run", "run", (), "100755", ("100644", "100755")),
        FileChange("create", None, "empty", (), "100644", ("100644",)),
    )


@pytest.mark.parametrize(
    "start", ["@@ @@", "@@ ... @@", "@@", "@@ -1 +1 @@", "@@ -1,99 +1,99 @@ def f():", "@@ def f():"]
)
def test_a_hunk_header_may_be_damaged(start: str) -> None:
    (change,) = changes_of(f"--- a/f.txt\n+++ b/f.txt\n{start}\n a\n-b\n+B\n c\n")
    assert change.hunks[0].lines == BODY[0].lines
    assert change.hunks[0].start == (1 if "-1" in start else None)


def test_lines_that_lost_their_prefix_are_context() -> None:
    (change,) = changes_of("--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n a\n\n-b\n+B\n c\n\n")
    assert change.hunks == (
        Hunk(1, (Line(" ", "a"), Line(" ", ""), Line("-", "b"), Line("+", "B"), Line(" ", "c"), Line(" ", "")), soft=1),
    )
    (change,) = changes_of("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\ndef f():\n    a\n-    b\n+    B\n")
    assert change.hunks[0].lines[:2] == (Line(" ", "def f():"), Line(" ", "    a"))


def test_a_crlf_diff_is_the_same_diff_and_a_crlf_file_keeps_its_carriage_returns() -> None:
    diff = make_diff("f.txt", "a\nb\nc\n", "a\nB\nc\n")
    assert parse_diff(diff.replace("\n", "\r\n")) == parse_diff(diff)
    (change,) = changes_of(make_diff("f.txt", "a\r\nb\r\n", "a\r\nB\r\n"))
    assert [line.text for line in change.hunks[0].lines] == ["a\r", "b\r", "B\r"]


def test_the_no_newline_mark_belongs_to_the_line_above_it() -> None:
    (change,) = changes_of(make_diff("f", "a\nb", "a\nc"))
    assert change.hunks[0].lines == (Line(" ", "a"), Line("-", "b", newline=False), Line("+", "c", newline=False))


def test_removed_lines_that_look_like_headers_stay_lines() -> None:
    old, new = "-- a/x\nkeep\n", "++ b/x\nkeep\n"
    (change,) = changes_of(make_diff("q.sql", old, new))
    assert [(line.op, line.text) for line in change.hunks[0].lines][:2] == [("-", "-- a/x"), ("+", "++ b/x")]
    (change,) = changes_of(make_diff("q.sql", "k\n-- a/x\n", "k\n++ b/x\n") + "@@ -9 +9 @@\n-y\n+z\n")
    assert len(change.hunks) == 2


def test_two_files_without_git_lines_are_two_files() -> None:
    diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-c\n+d\n"
    assert [change.path for change in changes_of(diff)] == ["f", "g"]


def test_the_signature_of_a_mailed_patch_is_no_removed_line() -> None:
    diff = make_diff("f", "a\n", "b\n")
    assert parse_diff(f"From 123\nSubject: [PATCH] x\n---\n f | 2 +-\n\n{diff}-- \n2.39.5\n\n") == parse_diff(diff)
    assert parse_diff("-- \n2.39.5\n") == parse_diff("")


@pytest.mark.parametrize("names", ["--- a/f\n+++ b/f", "diff --git a/f b/f\n--- a/f\n+++ b/f"])
def test_names_that_end_the_diff_name_a_file_without_a_hunk(names: str) -> None:
    assert changes_of(names) == (FileChange("modify", "f", "f", ()),)


@pytest.mark.spec("S1-90", "S1-91")
@pytest.mark.parametrize(
    ("diff", "says"),
    [
        ("", "names no file"),
        ("just prose\n", "names no file"),
        (HUNK, "no file was named"),
        ("--- a/f\n+++ b/g\n" + HUNK, "disagree on the path"),
        ("diff --git a/f b/f\n--- a/g\n+++ b/g\n" + HUNK, "disagree on the path"),
        ("diff --git a/f b/g\n--- a/f\n+++ b/g\n" + HUNK, "rename from"),
        ("diff --git a/f b/g\nrename from f\nrename to h\n", "disagree on the path"),
        ("diff --git a/f b/g\nrename from f\n", "needs both"),
        ("diff --git a/f b/g\ncopy from f\ncopy to g\n", "copy"),
        ("diff --git a/f b/f\nnew file mode 100644\n--- a/f\n+++ b/f\n" + HUNK, "disagree on whether"),
        ("diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ b/f\n" + HUNK, "disagree on whether"),
        ("--- /dev/null\n+++ /dev/null\n" + HUNK, "names no file"),
        ('--- "a/\\377"\n+++ "b/\\377"\n' + HUNK, "cannot be read"),
        ('--- "a/\\q"\n+++ "b/\\q"\n' + HUNK, "cannot be read"),
        ("diff --cc f\n--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n++x\n", "combined"),
        ("--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n++x\n", "combined"),
        ("diff --git a/f b/f\n+x\n" + HUNK, "outside a hunk"),
        ("--- a/f\n+++ b/f\n" + HUNK + "```\n+x\n", "outside a hunk"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+\0\n", "NUL"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+\ud800\n", "surrogates"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+" + "가" * (MAX_DIFF_BYTES // 3) + "\n", "larger than"),
    ],
)
def test_what_contradicts_itself_is_refused(diff: str, says: str) -> None:
    assert says in refused(diff).message


PIECES = st.sampled_from(
    [
        "diff --git a/f b/f",
        "diff --git a/f b/g",
        '--- "a/\\',
        "--- a/f",
        "+++ b/f",
        "+++ /dev/null",
        "@@ -1,2 +1,2 @@",
        "@@ @@",
        "@@@ x",
        " a",
        "+b",
        "-c",
        "\\ No newline",
        "",
        "```",
        "rename from f",
        "rename to g",
        "new file mode 100644",
        "GIT binary patch",
        "-- ",
        "2.1",
    ]
)
DIFFS = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=6)), max_size=25).map("\n".join))


@pytest.mark.spec("S1-79")
@settings(max_examples=300, deadline=None)
@given(DIFFS)
@example("--- a/\n+++ /dev/null")
@example("--- /dev/null\n+++ b/")
@example("--- a/\n+++ b/\n@@ -1 +1 @@\n-a\n+b")
@example("diff --git a/ b/\nnew file mode 100644")
@example('diff --git a/x b/x\nsimilarity index 100%\nrename from \nrename to ""')
def test_any_text_gives_changes_or_a_refusal_and_always_the_same(diff: str) -> None:
    result = parse_diff(diff)
    assert isinstance(result, Refusal) or all(isinstance(change, FileChange) and change.path for change in result)
    assert parse_diff(diff) == result


@pytest.mark.parametrize("name", ["가", "a"])
def test_a_diff_of_exactly_two_mebibytes_is_read(name: str) -> None:
    head = f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+"
    line = "x" * (MAX_DIFF_BYTES - len(head.encode()) - 1)
    assert changes_of(f"{head}{line}\n")[0].path == name
    assert "larger than 2 MiB" in refused(f"{head}{line}x\n").message


@pytest.mark.parametrize("line", ["these files differ", "Binary files are not meant"])
def test_a_line_between_the_headers_that_only_resembles_that_of_a_binary_file_is_prose(line: str) -> None:
    [change] = changes_of(f"diff --git a/x b/x\n{line}\n--- a/x\n+++ b/x\n{HUNK}")
    assert change.hunks == BODY
