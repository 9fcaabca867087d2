"""Locating: the right place or a refusal that says why; the file's own bytes stay."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.core.work import PatchFile, Refusal
from orchestra.patch.locate import Image, Prepared, PreparedFile, compute
from orchestra.patch.prepared import sha256
from orchestra.patch.unified import Edit

from .support import changes_of, make_diff, patch_of, patched, prepare
from .test_diff import DIFFS
from .test_result import SEED_PATCH

CODE = "import os\n\n\ndef first(x):\n    return x + 1\n\n\ndef second(x):\n    y = x * 2\n    return y\n"


def ready(diff: str, files: dict[str, bytes | str]) -> Prepared:
    done = prepare(diff, files)
    assert isinstance(done, Prepared), done
    return done


def refusal(diff: str, old: bytes | str, path: str = "f.txt") -> Refusal:
    result = patched(diff, old, path)
    assert isinstance(result, Refusal), result
    return result


def hunk(*lines: str, start: str = "@@ @@") -> str:
    return "\n".join(["--- a/f.txt", "+++ b/f.txt", start, *lines]) + "\n"


# --- the everyday cases ---------------------------------------------------------------------------------------------


@pytest.mark.spec("S1-89")
def test_the_specifications_sample_applies_in_spite_of_its_counts() -> None:  # T-1
    diff = patch_of(SEED_PATCH).diff
    assert patched(diff, "old\n", "path/to/file") == b"new\n"


def test_a_prepared_patch_knows_hashes_counts_and_the_canonical_diff() -> None:
    old, new = "a\nb\nc\n", "a\nB\nBB\nc\n"
    done = ready(make_diff("f.txt", old, new).replace("@@ -1,3 +1,4 @@", "@@ -7,9 +8,1 @@"), {"f.txt": old})
    diff = "diff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n+BB\n c\n"
    hashes = sha256(old.encode()), sha256(new.encode())
    file = PatchFile("f.txt", "modify", *hashes, added=2, removed=1, mode=0o644, beforeMode=0o644)
    back = (Edit(1, 3, (b"b\n",)),)
    assert done == Prepared(
        (PreparedFile(file, new.encode(), diff, replaced=((1, 2),), length=3, back=back),), diff, 2, 1
    )


def test_create_delete_and_rename() -> None:
    assert ready(make_diff("n.txt", None, "x\ny\n"), {}).files[0].data == b"x\ny\n"
    gone = ready(make_diff("o.txt", "x\ny", None), {"o.txt": "x\ny"}).files[0]
    assert (gone.file.change, gone.data, gone.file.after, gone.file.mode, gone.file.removed) == (
        "delete",
        None,
        None,
        None,
        2,
    )
    diff = "diff --git a/one b/two\nrename from one\nrename to two\n--- a/one\n+++ b/two\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    moved = ready(diff, {"one": "a\nb\n"}).files[0]
    assert (moved.file.change, moved.file.path, moved.file.oldPath) == ("rename", "two", "one")
    assert moved.data == b"a\nc\n"


def test_a_bare_rename_and_an_empty_new_file_need_no_hunk() -> None:
    moved = ready("diff --git a/one b/two\nrename from one\nrename to two\n", {"one": "a\n"}).files[0]
    assert (moved.file.before, moved.file.after, moved.file.added) == (sha256(b"a\n"), sha256(b"a\n"), 0)
    assert ready("diff --git a/e b/e\nnew file mode 100644\n", {}).files[0].data == b""
    assert ready("diff --git a/e b/e\ndeleted file mode 100644\n", {"e": ""}).files[0].file.after is None


@pytest.mark.parametrize(
    ("mode", "wanted", "after"),
    [
        (0o644, "100755", 0o755),
        (0o600, "100755", 0o700),
        (0o755, "100644", 0o644),
        (0o664, "100644", 0o664),
        (0o755, "100755", 0o755),
    ],
)
def test_only_the_x_bits_change_and_only_if_the_patch_says_so(mode: int, wanted: str, after: int) -> None:
    changes = changes_of(
        f"diff --git a/f b/f\nold mode 100644\nnew mode {wanted}\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
    )
    done = compute(changes, {"f": Image(b"a\n", mode)})
    assert isinstance(done, Prepared) and done.files[0].file.mode == after
    kept = compute(changes_of(make_diff("f", "a\n", "b\n")), {"f": Image(b"a\n", mode)})
    assert isinstance(kept, Prepared) and kept.files[0].file.mode == mode


def test_a_new_executable_gets_its_bits() -> None:
    diff = make_diff("x.sh", None, "x\n").replace("100644", "100755")
    assert ready(diff, {}).files[0].file.mode == 0o755


def test_a_new_file_whose_header_forgot_to_say_so() -> None:
    assert ready("--- a/n\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n+b\n", {}).files[0].file.change == "create"


# --- the file's own bytes -------------------------------------------------------------------------------------------


def test_a_crlf_file_stays_crlf_whether_the_patch_is_or_not() -> None:
    old, new = "a\nb\nc\n", "a\nB\nX\nc\n"
    crlf = new.replace("\n", "\r\n").encode()
    diff = make_diff("f.txt", old, new)
    for patch in (
        diff,
        diff.replace("\n", "\r\n"),
        make_diff("f.txt", old.replace("\n", "\r\n"), new.replace("\n", "\r\n")),
    ):
        assert patched(patch, old.replace("\n", "\r\n")) == crlf
    assert patched(diff.replace("\n", "\r\n"), old) == new.encode()


def test_added_lines_take_the_ending_in_use_around_them() -> None:
    old = b"a\r\nb\r\nc\nd\n"
    assert patched(hunk(" b", "+X", " c"), old) == b"a\r\nb\r\nX\r\nc\nd\n"
    assert patched(hunk(" c", "+X", " d"), old) == b"a\r\nb\r\nc\nX\nd\n"


def test_a_patch_that_changes_the_line_endings_does_so() -> None:
    for old, new in (("a\r\nb\r\n", "a\nb\n"), ("a\nb\n", "a\r\nb\r\n")):
        assert patched(make_diff("f.txt", old, new), old) == new.encode()


def test_trailing_blanks_of_context_lines_stay() -> None:
    assert patched(hunk(" a", "-b", "+B", " c"), "a  \nb\t\nc \n") == b"a  \nB\nc \n"


def test_a_byte_order_mark_stays_first() -> None:
    bom = "\ufeff"
    for old, lines, new in (
        ("a\nb\n", ("-a", "+A", " b"), "A\nb\n"),
        ("a\nb\n", ("+x", " a"), "x\na\nb\n"),
        ("a\nb\n", ("-a", " b"), "b\n"),
        ("a\nb\n", (" a", "-b", "+B"), "a\nB\n"),
    ):
        assert patched(hunk(*lines), bom + old) == (bom + new).encode()
    assert patched(make_diff("f.txt", f"{bom}a\nb\n", "a\nb\n"), f"{bom}a\nb\n") == b"a\nb\n"  # the patch means it


@pytest.mark.parametrize(
    ("old", "lines", "new"),
    [
        ("a\nb", ("-b", "+B"), "a\nB"),
        ("a\nb", (" b", "+c"), "a\nb\nc"),
        ("a\nb", ("+x", " b"), "a\nx\nb"),
        ("a\nb", (" a", "-b"), "a\n"),
        ("a\nb", ("-b", "\\ No newline at end of file", "+b"), "a\nb\n"),
        ("a\nb\n", ("-b", "+b", "\\ No newline at end of file"), "a\nb"),
        ("a\nb\n", (" b", "+c", "\\ No newline at end of file"), "a\nb\nc"),
        ("a\nb\n", ("-a", "+A", "\\ No newline at end of file"), "A\nb\n"),  # not at the end: it says nothing
        ("a\r\nb", (" b", "+c"), "a\r\nb\r\nc"),
        ("", ("+a",), "a\n"),
    ],
)
def test_the_final_newline_is_kept_unless_the_patch_speaks_of_it(old: str, lines: tuple[str, ...], new: str) -> None:
    assert patched(hunk(*lines), old) == new.encode()


def test_bytes_that_are_no_utf8_survive_beside_a_change() -> None:
    assert patched(hunk(" a", "-b", "+B"), b"\xff\xfe\na\nb\n\x80") == b"\xff\xfe\na\nB\n\x80"


# --- finding the place ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ("     y = x * 2", "-    return y", "+    return -y"),
        ("     y = x * 2  ", "-    return y \t", "+    return -y"),
        (" y = x * 2", "-return y", "+return -y"),
        ("         y = x * 2", "-        return y", "+        return -y"),
        ("def second(x):", "    y = x * 2", "-    return y", "+    return -y"),
        (" def second(z):", "     y = x * 2", "-    return y", "+    return -y"),
        (" def wrong():", " def second(x):", "     y = x * 2", "-    return y", "+    return -y"),
        (" def second(x):", "     y = x  * 2", "-    return y", "+    return -y"),
        (" import os", " ...", " def second(x):", "     y = x * 2", "-    return y", "+    return -y"),
        ("     y = x * 2", "-    return y", "+    return -y", ""),
        ("     y = x * 2", "-    return y", "+    return -y", "", "That is all."),
    ],
    ids=[
        "exact",
        "trailing",
        "dedented",
        "indented",
        "raw",
        "similar",
        "edge",
        "similar far",
        "dots",
        "blank below",
        "prose below",
    ],
)
@pytest.mark.parametrize("start", ["@@ @@", "@@ -1,3 +1,3 @@", "@@ -900,3 +901,3 @@"])
def test_a_place_is_found_by_its_text(lines: tuple[str, ...], start: str) -> None:
    assert patched(hunk(*lines, start=start), CODE) == CODE.replace("    return y\n", "    return -y\n").encode()


def test_dots_may_stand_for_no_line_at_all() -> None:
    lines = ("-a", "+A", " b", " ...", " c", "-d", "+D")
    assert patched(hunk(*lines), "a\nb\nc\nd\n") == b"A\nb\nc\nD\n"
    assert "not in this order" in refusal(hunk(*lines), "c\nd\na\nb\n").message


def test_typographic_quotes_are_forgiven_only_where_they_do_no_harm() -> None:
    assert patched(hunk(' say("a")', "-b", "+c"), "say(“a”)\nb\n") == "say(“a”)\nc\n".encode()
    assert patched(hunk(" say(“a”)", "-b", "+c"), 'say("a")\nb\n') == b'say("a")\nc\n'
    assert "typographic" in refusal(hunk(" say(“a”)", "-b", "+say(“c”)"), 'say("a")\nb\n').message
    assert (
        patched(hunk(" 가나", "-b", "+c"), "\u1100\u1161\u1102\u1161\nb\n") == "\u1100\u1161\u1102\u1161\nc\n".encode()
    )


def test_context_that_lost_its_prefix_is_read_where_the_added_lines_prove_it() -> None:
    context = "    y = x * 2"
    for lines in ((context, "-    return y", "+    return -y"), (context, "+    print(y)", "    return y")):
        result = patched(hunk(*lines), CODE)
        added = next(line for line in lines if line.startswith("+")).removeprefix("+")
        assert isinstance(result, bytes) and f"    y = x * 2\n{added}\n".encode() in result


def test_the_line_number_decides_between_equal_places_only_if_it_hits_one() -> None:
    old = "x\na\nb\ny\na\nb\nz\n"
    assert patched(hunk(" a", "-b", "+B", start="@@ -5,2 +5,2 @@"), old) == b"x\na\nb\ny\na\nB\nz\n"
    for start in ("@@ -4,2 +4,2 @@", "@@ @@", "@@ -1,2 +1,2 @@"):
        result = refusal(hunk(" a", "-b", "+B", start=start), old)
        assert result.reason == "context_mismatch" and "hunk 1" in result.message
        assert "2 places (lines 2, 5)" in result.message


@pytest.mark.parametrize(
    "lines",
    [
        ("-not there", "+x"),
        (" import os", "+x", " def first(x):"),  # lines left out next to the change: before them or behind?
        (" def first(x):", " ...", "+x", "     y = x * 2"),
        (" wrong", "+x", " wrong too"),
        ("+x",),
        ("     y = x * 2", "-    return z", "+    return -y"),
        (
            "    return x + 1",
            "+   print(x)",
        ),  # one blank is missing: the prefix, or of the indentation? The added line is right in one case only
    ],
)
def test_what_cannot_be_known_is_refused(lines: tuple[str, ...]) -> None:
    result = refusal(hunk(*lines), CODE)
    assert (result.reason, result.path) == ("context_mismatch", "f.txt") and "hunk 1" in result.message


def test_context_is_dropped_only_while_the_change_stays_anchored_on_both_sides() -> None:
    old = "a1\na2\na3\nb1\nb2\nb3\n"
    assert patched(hunk(" zz", " a2", " a3", "+X", " b1", " b2", " zz"), old) == b"a1\na2\na3\nX\nb1\nb2\nb3\n"
    assert isinstance(patched(hunk(" a1", " a2", " zz", "+X", " b1", " b2"), old), Refusal)


def test_hunks_may_come_in_any_order_but_must_not_touch() -> None:
    old = "".join(f"line {number}\n" for number in range(1, 21))
    two = hunk(" line 15", "-line 16", "+L16") + "@@ @@\n line 2\n-line 3\n+L3\n"
    assert patched(two, old) == old.replace("line 16", "L16").replace("line 3\n", "L3\n").encode()
    for second in ("@@ @@\n-line 16\n+other\n", "@@ @@\n line 16\n+behind\n line 17\n"):
        assert refusal(hunk(" line 15", "-line 16", "+L16") + second, old).reason == "conflict"


def test_a_hunk_without_changes_asks_for_nothing() -> None:
    assert patched(hunk(" not there") + "@@ @@\n-a\n+b\n", "a\n") == b"b\n"


# --- refusals that teach --------------------------------------------------------------------------------------------


def test_a_mismatch_shows_what_the_file_really_says() -> None:
    message = refusal(
        hunk(" def second(x):", "     y = x * 3", "-    return y", "+    return 1"),
        CODE.replace("y = x * 2", "y = x << 1"),
    ).message
    assert message.startswith("f.txt, hunk 1: its context is not in the file")
    assert "     8| def second(x):\n     9|     y = x << 1\n    10|     return y" in message


def test_a_hunk_no_line_of_which_is_in_the_file_is_shown_the_most_similar_place() -> None:
    wrong = hunk(" def", "-    y = x * 44", "+    y = 1")
    message = refusal(wrong, CODE.replace("y = x * 2", "y = x * 24")).message
    assert "The nearest lines of the file:\n     8| def second(x):\n     9|     y = x * 24\n" in message
    nothing = refusal(hunk("-qqqqqqqqqqqqqqqqqqqqq", "+    y = 1"), CODE).message
    assert f"Nothing in the file ({CODE.count(chr(10))} lines) is similar. It begins:\n     1| " in nothing


def test_a_hunk_that_seems_applied_is_told_so_and_still_refused() -> None:
    diff = make_diff("f.txt", "a\nb\nc\n", "a\nB\nc\n")
    result = refusal(diff, "a\nB\nc\n")
    assert result.reason == "context_mismatch"
    assert "already in the file at line 1" in result.message


@pytest.mark.parametrize(
    ("diff", "files", "reason"),
    [
        (make_diff("f", None, "a\n"), {"f": "other\n"}, "conflict"),
        (make_diff("f", None, "a\n"), {"f": "a\n"}, "conflict"),
        ("diff --git a/f b/g\nrename from f\nrename to g\n", {"f": "a\n", "g": "b\n"}, "conflict"),
        ("diff --git a/f b/g\nrename from f\nrename to g\n", {}, "context_mismatch"),
        (make_diff("f", "a\n", "b\n"), {}, "context_mismatch"),
        (make_diff("f", "a\n", None), {}, "context_mismatch"),
        (make_diff("f", "a\nb\n", None), {"f": "a\nc\n"}, "context_mismatch"),
        (make_diff("f", "a\n", None), {"f": "a\nb\n"}, "context_mismatch"),
        ("diff --git a/f b/f\ndeleted file mode 100644\n", {"f": "a\n"}, "context_mismatch"),
        ("--- a/f\n+++ b/f\n@@ @@\n-a\n+a\n", {"f": "a\n"}, "invalid_patch"),
        ("diff --git a/f b/f\nold mode 100755\nnew mode 100644\n", {"f": "a\n"}, "invalid_patch"),
        ("--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\nb\n", {}, "invalid_patch"),
        ("--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n-b\n", {}, "invalid_patch"),
        ("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n@@ -9 +9 @@\n+b\n", {}, "invalid_patch"),
        (make_diff("f", "a\n", "b\n"), {"f": b"a\n\0"}, "unsafe"),
    ],
)
def test_refusals_by_kind(diff: str, files: dict[str, bytes | str], reason: str) -> None:
    result = prepare(diff, files)
    assert isinstance(result, Refusal)
    assert (result.reason, result.path) == (reason, "g" if "g" in files else "f")
    assert result.path in result.message


def test_one_refused_file_refuses_the_whole_patch() -> None:
    both = make_diff("a", "1\n", "2\n") + make_diff("b", "1\n", "2\n")
    assert isinstance(prepare(both, {"a": "1\n", "b": "other\n"}), Refusal)


def test_blank_lines_without_plus_inside_a_new_file_are_its_blank_lines() -> None:
    assert ready("--- /dev/null\n+++ b/f\n@@ -0,0 +1,3 @@\n+a\n\n+b\n\n", {}).files[0].data == b"a\n\nb\n"


# --- after preparing ------------------------------------------------------------------------------------------------


def test_the_digest_binds_the_files_before_as_well_as_after() -> None:  # D-11
    one = ready(hunk("-b", "+B"), {"f.txt": "a\nb\n"})
    same_text_elsewhere = ready(hunk("-b", "+B"), {"f.txt": "a\nb\n\nc\n"})
    assert one.digest == ready(hunk("-b", "+B", start="@@ -2 +2 @@"), {"f.txt": "a\nb\n"}).digest
    assert one.digest != same_text_elsewhere.digest


TEXTS = st.lists(
    st.sampled_from(["", "a", "b", "  a", "가나", "x = 1", "x = 1 ", "\tz", "}", "\ufeffq", "r\r"]), max_size=14
).flatmap(lambda lines: st.sampled_from(["\n".join(lines), "\n".join([*lines, ""])]))


@settings(max_examples=250, deadline=None)
@given(TEXTS, TEXTS)
def test_a_correct_diff_gives_exactly_the_new_text(old: str, new: str) -> None:
    if old == new:
        return
    done = prepare(make_diff("f.txt", old, new), {"f.txt": old})
    if isinstance(done, Refusal):  # nothing to anchor on: a text that shares no line with an old one that is not empty
        assert "no context" in done.message
        return
    assert done.files[0].data == new.encode()
    assert patched(done.diff, old) == new.encode()  # the canonical diff says the same


@settings(max_examples=200, deadline=None)
@given(DIFFS, TEXTS, TEXTS)
def test_any_diff_over_any_file_is_worked_out_or_refused(diff: str, f: str, g: str) -> None:
    for files in ({"f": f}, {"f": f, "g": g}, {}):
        done = prepare(diff, {**files})
        assert isinstance(done, Prepared | Refusal)
        assert prepare(diff, {**files}) == done


@settings(max_examples=30, deadline=None)
@given(TEXTS, TEXTS)
def test_git_applies_the_canonical_diff_to_the_same_end(
    tmp_path_factory: pytest.TempPathFactory, old: str, new: str
) -> None:
    done = prepare(make_diff("f.txt", old, new), {"f.txt": old}) if old != new else None
    if not isinstance(done, Prepared):
        return
    root: Path = tmp_path_factory.mktemp("git")
    (root / "f.txt").write_bytes(old.encode())
    command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"]
    run = subprocess.run(command, cwd=root, input=done.diff.encode(), capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    assert (root / "f.txt").read_bytes() == new.encode()


# --- borders of hunks -----------------------------------------------------------------------------------------------

TEN = "".join(f"line {number}\n" for number in range(1, 11))


def replacing(*numbers: int, context: tuple[int, ...] = ()) -> str:
    """A hunk that replaces the first of these lines and removes the others; lines of `context` stand below them."""
    removed = [f"-line {number}" for number in numbers]
    return "\n".join(["@@ @@", *removed, f"+new {numbers[0]}", *(f" line {number}" for number in context)]) + "\n"


@pytest.mark.parametrize("order", [(4, 5), (5, 4)])
def test_hunks_of_neighbouring_lines_do_not_touch(order: tuple[int, int]) -> None:
    both = "--- a/f.txt\n+++ b/f.txt\n" + "".join(replacing(number) for number in order)
    assert patched(both, TEN) == TEN.replace("line 4", "new 4").replace("line 5", "new 5").encode()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_hunk_may_change_what_is_context_of_another(reverse: bool) -> None:
    hunks = [replacing(2, context=(3, 4, 5, 6)), replacing(3, 4, 5)]
    both = "--- a/f.txt\n+++ b/f.txt\n" + "".join(hunks[::-1] if reverse else hunks)
    new = TEN.replace("line 2\nline 3\nline 4\nline 5\n", "new 2\nnew 3\n")
    assert patched(both, TEN) == new.encode()


def test_a_delete_that_removes_more_than_the_file_has_says_how_long_the_file_is() -> None:
    said = refusal(make_diff("f.txt", "a\nb\nc\n", None), "a\nb\n")
    assert "the file has 2 lines" in said.message
    assert "line 3 is 'c'" in refusal(make_diff("f.txt", "a\nb\n", None), "a\nb\nc\n").message


@pytest.mark.parametrize(("lines", "fits"), [([" a", "+ x", " b"], True), ([" a", "+x", " b"], False)])
def test_a_file_that_is_indented_by_one_blank_takes_context_that_lost_its_prefix(lines: list[str], fits: bool) -> None:
    """Only if the added line is indented like the file: else the whole hunk may be indented too little."""
    done = patched(hunk(*lines), " a\n b\n")
    assert done == b" a\n x\n b\n" if fits else isinstance(done, Refusal)


@pytest.mark.parametrize(
    ("lines", "new"),
    [
        ([" a", "-b", "+c"], b"a\nc"),  # as the file
        ([" a", "-b", "\\ No newline at end of file", "+c"], b"a\nc\n"),  # the patch says what it changes
        ([" a", "-b", "\\ No newline at end of file", "+c", "\\ No newline at end of file"], b"a\nc"),
        ([" a", " b", "+c"], b"a\nb\nc"),
    ],
)
def test_a_file_without_a_newline_at_its_end_gets_one_only_if_the_patch_says_so(lines: list[str], new: bytes) -> None:
    assert patched(hunk(*lines), "a\nb") == new


@pytest.mark.parametrize(("path", "said"), [("a.txt", "with exactly this text"), (".env", "with other text")])
def test_a_guess_at_what_a_secret_file_holds_is_not_confirmed(path: str, said: str) -> None:
    done = refusal(make_diff(path, None, "TOKEN=1\n"), "TOKEN=1\n", path)
    assert "exists already" in done.message and said in done.message
