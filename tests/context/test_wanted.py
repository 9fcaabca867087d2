"""What a model asks for is shown, or refused with the reason; nothing else is read for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.core.shown import Wanted

from .support import contents, filler, note, shown, write

SECRET = "canary-4711"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_text(SECRET)
    root = write(
        tmp_path / "project",
        {
            "src/big.py": filler(600, "big"),
            "src/near.py": filler(300) + "def wanted_thing():\n    return 1\n",
            "src/other.py": filler(600, "other"),
            ".gitignore": "ignored.py\n",
            "ignored.py": SECRET,
            ".env": SECRET,
            ".git/config": SECRET,
            "node_modules/x.js": SECRET,
            "hidden/a.py": SECRET,
        },
    )
    (root / "binary.dat").write_bytes(b"\0" + SECRET.encode())
    (root / "link.txt").symlink_to("../outside.txt")
    (root / "folder").symlink_to("..")
    return root


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../outside.txt", "it is not in the project"),
        ("src/../../outside.txt", "it is not in the project"),
        ("/etc/passwd", "it is not in the project"),
        ("~/.ssh/id_rsa", "it is not in the project"),
        (".git/config", "files of repositories and runs are not shown"),
        (".runs/x/events.ndjson", "files of repositories and runs are not shown"),
        ("ignored.py", "it is ignored by .gitignore"),
        ("node_modules/x.js", "it is ignored by .gitignore, or is in a folder of installed packages"),
        ("link.txt", "it is no regular file"),
        ("folder/outside.txt", "a link leads there"),
        ("src", "it is a folder"),
        ("binary.dat", "it is no text"),
        (".env", "a secret by its name"),
        ("hidden/a.py", "a person has hidden it"),
        ("none.py", "there is no such file"),
        ("a\0b", "there is no such file"),
        ("", "none"),
    ],
)
def test_a_path_that_is_not_for_models_is_refused_and_told(root: Path, path: str, why: str) -> None:
    asked = Wanted(file=path) if path else Wanted(search="nothing_like_this")
    got = shown(root, "zzz", asked=(asked,), hidden=("hidden",))
    assert SECRET not in "".join(one.content for one in got.artifacts)
    if path:
        assert [line for line in got.receipt.refused if line.startswith(f"file: {path}: {why}")]
        assert f"You asked for file: {path}: refused, {why}" in note(got)
    else:
        assert "You asked for search: nothing_like_this: found nowhere." in note(got)


def test_a_file_that_fits_is_shown_whole(root: Path) -> None:
    got = shown(root, "zzz", asked=(Wanted(file="near.py"),))
    assert contents(got)["src/near.py"] == (root / "src/near.py").read_text()
    (one,) = [one for one in got.receipt.files if one.path == "src/near.py"]
    assert (one.how, one.reason) == ("asked", "asked for by the model")


def test_lines_of_a_file_are_shown(root: Path) -> None:
    got = shown(root, "zzz", 30_000, asked=(Wanted(file="src/big.py", lines=(1501, 1510)),))
    assert "def filler_big300" in contents(got)["src/big.py"]
    assert "You asked for file: src/big.py:1501-1510: parts of it are shown." in note(got)


def test_a_term_is_found_where_it_is_defined(root: Path) -> None:
    got = shown(root, "zzz", 20_000, asked=(Wanted(search="wanted_thing"),))
    assert "def wanted_thing" in contents(got)["src/near.py"]
    assert "You asked for search: wanted_thing: found in 1 file, shown in src/near.py." in note(got)


def test_an_answer_counts_the_files_of_the_term_as_it_is_written(root: Path) -> None:
    write(root, {"src/a.py": "def order(): ...\n", "src/b.py": "def walk(): ...\norder = 1\n"})
    terms = ("order_by", "order", "preorder", "Order", "test", "wanted_thing")
    got = note(shown(root, "zzz", 20_000, asked=tuple(Wanted(search=term) for term in terms)))
    assert "You asked for search: order_by: not found as it is written; order in 2 files." in got
    assert "You asked for search: order: found in 2 files" in got
    assert "You asked for search: Order: found in 2 files" in got
    assert "You asked for search: preorder: found nowhere." in got
    assert "You asked for search: test: too common a word to search for." in got
    assert "You asked for search: wanted_thing: found in 1 file" in got
