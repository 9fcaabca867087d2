"""What a command wrote, said as a diff, is exactly that again after the gate: parse, check, locate, apply."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.core.disk import Disk
from orchestra.core.work import Refusal
from orchestra.patch.apply import AppliedFiles, apply, read_images
from orchestra.patch.diff import parse_diff
from orchestra.patch.locate import compute
from orchestra.patch.safety import check
from orchestra.patch.written import WrittenDiff, diff_of, edits_between

Tree = Mapping[str, tuple[bytes, bool]]  # path -> text, executable


class File(msgspec.Struct, frozen=True):
    path: str
    before: bytes | None
    after: bytes | None
    before_mode: int | None = 0o644
    after_mode: int | None = 0o644


def _mode(side: tuple[bytes, bool] | None) -> int | None:
    return None if side is None else 0o755 if side[1] else 0o644


def files_of(old: Tree, new: Tree) -> list[File]:
    made = []
    for path in sorted({*old, *new}):
        was, now = old.get(path), new.get(path)
        if was != now:
            made.append(File(path, was and was[0], now and now[0], _mode(was), _mode(now)))
    return made


def write(root: Path, tree: Tree) -> None:
    for path, (data, executable) in tree.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(0o755 if executable else 0o644)


def read(root: Path) -> Tree:
    return {
        str(file.relative_to(root)): (file.read_bytes(), bool(file.stat().st_mode & 0o100))
        for file in root.rglob("*")
        if file.is_file()
    }


def through_the_gate(root: Path, made: WrittenDiff, scratch: Path) -> None:
    assert made.refused == ()
    changes = parse_diff(made.diff)
    assert not isinstance(changes, Refusal), changes
    assert check(changes) is None
    images = read_images(root, changes)
    assert not isinstance(images, Refusal), images
    prepared = compute(changes, images)
    assert not isinstance(prepared, Refusal), prepared
    assert isinstance(apply(root, prepared, disk=Disk(), scratch=scratch), AppliedFiles)


def round_trip(old: Tree, new: Tree) -> None:
    with TemporaryDirectory() as name:
        root = Path(name, "ws")
        root.mkdir()
        write(root, old)
        if files := files_of(old, new):
            through_the_gate(root, diff_of(files), Path(name, "scratch"))
        assert read(root) == dict(new)


# Lines that look like a diff's own, line endings of every kind, marks, Hangul: what could be misread on the way back.
ODD = ["", "a", "b", "  x", "x  ", "-- a/x", "++ b/x", "-", "--", "+", "2.39.5", "@@ -1 +1 @@", "diff --git a/x b/x"]
ODD += [
    "```",
    "\\ No newline at end of file",
    "[PATCH_END]",
    "한글",
    "\ufeff",
    "‘quoted’",
    "'quoted'",
    "\x0c",
    "a\u2028b",
]
LINES = st.sampled_from(ODD)
TEXTS = st.builds(
    lambda bom, rows, end: ((b"\xef\xbb\xbf" if bom else b"") + b"".join(rows)).removesuffix(end),
    st.booleans(),
    st.lists(st.builds(lambda line, end: f"{line}{end}".encode(), LINES, st.sampled_from(["\n", "\n", "\r\n"]))),
    st.sampled_from([b"", b"\n"]),
)
NAMES = st.sampled_from(["a", "b c", "한글.txt", "d/e", "d/f/g", 'q"uote', "a b/c d", "-x"])
TREES = st.dictionaries(NAMES, st.tuples(TEXTS, st.booleans()), max_size=5)


@settings(max_examples=400, deadline=None)
@given(TREES, TREES)
def test_any_two_trees_round_trip(old: Tree, new: Tree) -> None:
    round_trip(old, new)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, min_size=3, max_size=40), st.data())
def test_an_edited_file_round_trips(lines: list[str], data: st.DataObject) -> None:
    edited = list(lines)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(edited)))
        edited[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(LINES, max_size=2))
    old, new = ("".join(f"{line}\n" for line in text).encode() for text in (lines, edited))
    round_trip({"f": (old, False)}, {"f": (new, False)})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"a": (b"1\r\n2\r\n", False)}, {"a": (b"1\r\n3\r\n", False)}, id="CRLF"),
        pytest.param({"a": (b"1\r\n2\r\n", False)}, {"a": (b"1\n2\n", False)}, id="CRLF becomes LF"),
        pytest.param({"a": (b"\xef\xbb\xbf1\n", False)}, {"a": (b"1\n", False)}, id="the byte order mark goes"),
        pytest.param({"a": (b"1\n2", False)}, {"a": (b"1\n2\n", False)}, id="a final newline comes"),
        pytest.param({"a": (b"1\n2\n", False)}, {"a": (b"1\n2", False)}, id="a final newline goes"),
        pytest.param({}, {"new/deep/empty": (b"", False)}, id="an empty file in new folders"),
        pytest.param({"d/empty": (b"", False)}, {}, id="an empty file goes"),
        pytest.param({"a": (b"x\n", False)}, {"a": (b"", False)}, id="a file is emptied"),
        pytest.param({"a": (b"x\n", False)}, {"a": (b"x\n", True)}, id="x bit comes"),
        pytest.param({"a": (b"x\n", True)}, {"a": (b"y\n", False)}, id="x bit goes, text changes"),
        pytest.param({"옛/이름": (b"x\n", False)}, {"새/이름": (b"x\n", False)}, id="rename"),
        pytest.param({"a": (b"-\n2.39.5\n", False)}, {"a": (b"2.39.5\n", False)}, id="looks like git's signature"),
        pytest.param({"a": (b"-- a/x\n@@\n", False)}, {"a": (b"++ b/x\n@@\n", False)}, id="looks like a header"),
        pytest.param({"a": (b"x\n" * 500, False)}, {"a": (b"x\n" * 400, False)}, id="the same line over and over"),
        pytest.param({}, {"a": (b"\n\n\n", False)}, id="only blank lines"),
    ],
)
def test_special_cases_round_trip(old: Tree, new: Tree) -> None:
    round_trip(old, new)


def test_git_takes_the_diff_too(tmp_path: Path) -> None:
    """A person may apply it by hand."""
    old: Tree = {"a.txt": (b"".join(b"%d\n" % n for n in range(60)), False), "gone": (b"x\n", False)}
    new: Tree = {"a.txt": (old["a.txt"][0].replace(b"7\n", b"seven\n"), True), "한글 이름": (b"y", False)}
    write(tmp_path, old)
    made = diff_of(files_of(old, new))
    assert made.diff.count("@@ -") >= 3
    subprocess.run(["git", "apply", "-"], input=made.diff.encode(), cwd=tmp_path, check=True)
    assert read(tmp_path) == dict(new)


def test_what_the_gate_refuses_is_named_and_the_rest_is_said() -> None:
    made = diff_of([File(".git/config", None, b"[core]\n"), File("a", None, b"x\n")])
    assert [refused.path for refused in made.refused] == [".git/config"]
    assert "+x" in made.diff
    assert ".git" not in made.diff


def test_too_many_files_give_no_diff_at_all() -> None:
    made = diff_of([File(f"f{n}", None, b"x\n") for n in range(201)])
    assert made.diff == ""
    assert "201 files" in made.refused[0].message


def test_a_large_rewrite_takes_no_forever() -> None:
    old, new = b"".join(b"%d\n" % n for n in range(30_000)), b"".join(b"%d\n" % (n * 7) for n in range(30_000))
    made = diff_of([File("a", old, new)])
    assert made.diff.startswith("diff --git a/a b/a\n")


def test_text_that_is_no_utf8_is_never_altered() -> None:
    made = diff_of([File("a", None, b"caf\xe9\n")])
    assert made.diff == ""
    assert [refused.path for refused in made.refused] == ["a"]


def lines(side: str, many: int, same: str = "", every: int = 1) -> list[bytes]:
    """So many lines that are only on this side, and among them some that both have."""
    return [same.encode() if same and at % every == 5 else f"{side}{at}\n".encode() for at in range(many)]


@pytest.mark.parametrize(("more", "edits"), [(0, 26), (1, 1)])
def test_frequent_lines_are_compared_up_to_a_million_pairs(more: int, edits: int) -> None:
    old, new = lines("a", 1_000, "}\n", 40), lines("b", 1_000 + more, "}\n", 40)
    assert len(edits_between(old, new)) == edits


@pytest.mark.parametrize(("more", "edits"), [(0, 2), (1, 1)])
def test_beyond_four_hundred_million_pairs_the_middle_is_one_edit(more: int, edits: int) -> None:
    old, new = lines("a", 20_000), lines("b", 20_000 + more)
    old[777] = new[777] = b"same\n"
    assert len(edits_between(old, new)) == edits
