"""Files and lines that a text names, in the forms of people and of tracebacks."""

from __future__ import annotations

import pytest

from orchestra.context.mentions import Named, Names

PATHS = [
    "src/app/query.py",
    "src/app/__init__.py",
    "src/db/__init__.py",
    "src/web/__init__.py",
    "tests/__init__.py",
    "lib/server.js",
    "pkg/net/conn.go",
    "crates/core/src/main.rs",
    "core/src/main/java/com/acme/Cart.java",
    "Makefile",
    "scripts/build",
    "설정/한글.py",
]
NAMES = Names(PATHS, "/home/me/project")


def named(text: str) -> list[Named]:
    return NAMES.named_in([text])


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ('  File "/home/me/project/src/app/query.py", line 12, in run', "src/app/query.py", 12),
        ("src/app/query.py:12: AssertionError", "src/app/query.py", 12),
        ("    at send (/home/me/project/lib/server.js:40:7)", "lib/server.js", 40),
        ("\t/build/elsewhere/pkg/net/conn.go:33 +0x1d", "pkg/net/conn.go", 33),
        ("thread 'main' panicked at crates/core/src/main.rs:7:5:", "crates/core/src/main.rs", 7),
        ("\tat com.acme.Cart.total(Cart.java:88)", "core/src/main/java/com/acme/Cart.java", 88),
        ("lib/server.js(5,3): error TS2322", "lib/server.js", 5),
    ],
)
def test_a_traceback_names_file_and_line(text: str, path: str, line: int) -> None:
    assert Named(path, ((line, line),)) in named(text)


def test_lines_are_taken_from_a_goal_too() -> None:
    assert named("see src/app/query.py:10-20") == [Named("src/app/query.py", ((10, 20),))]


@pytest.mark.parametrize("text", ["query.py를 고쳐라", "`app/query.py`", "./src/app/query.py.", "query.py, please"])
def test_a_file_is_named_by_path_end_of_path_or_name(text: str) -> None:
    assert [one.path for one in named(text)] == ["src/app/query.py"]


def test_a_korean_path_is_named() -> None:
    assert [one.path for one in named("설정/한글.py를 봐라")] == ["설정/한글.py"]


def test_a_name_that_many_files_have_names_none_of_them() -> None:
    assert named("add it to __init__.py") == []


def test_a_name_that_three_files_have_names_each_of_them() -> None:
    three = ["a/x/conf.py", "b/x/conf.py", "c/x/conf.py"]
    for text in ("see conf.py", "see x/conf.py"):
        assert [one.path for one in Names(three, "/p").named_in([text])] == three
        assert Names([*three, "d/x/conf.py"], "/p").named_in([text]) == []


def test_a_name_without_a_dot_counts_unless_it_is_an_ordinary_word() -> None:
    assert [one.path for one in named("run build by the Makefile")] == ["Makefile"]


def test_a_long_text_does_not_take_long_and_its_end_counts() -> None:
    text = "a/" * 500_000 + "\n" + "x" * 900_000 + "\nsrc/app/query.py:3"
    assert [one.path for one in named(text)] == ["src/app/query.py"]


@pytest.mark.parametrize(
    ("word", "named"),
    [("Doc", False), ("Docs", True), ("docs", False), ("a.b", True), (".x", True), ("API", False), ("BUILD", True)],
)
def test_a_file_without_an_ending_is_named_by_a_word_that_is_no_ordinary_one(word: str, named: bool) -> None:
    assert bool(Names([word]).meant(word)) is named


def test_a_word_of_three_letters_can_be_a_file() -> None:
    assert [one.path for one in Names(["a.c", "x/a.h", "b"]).named_in(["see a.c, a.h and b"])] == ["a.c", "x/a.h"]


def test_so_many_files_and_so_many_places_in_each_are_named() -> None:
    paths = [f"m{at}.py" for at in range(61)]
    assert [one.path for one in Names(paths).named_in(paths)] == paths[:60]
    again = Names(paths).named_in([*paths, "m3.py:7", "m60.py:7"])
    assert again[3].lines == ((7, 7),) and len(again) == 60
    [one] = NAMES.named_in(f"src/app/query.py:{at}" for at in range(1, 42))
    assert one.lines == tuple((at, at) for at in range(1, 41))


@pytest.mark.parametrize(("more", "found"), [(0, True), (1, False)])
def test_only_a_longer_text_is_read_without_its_middle(more: int, found: bool) -> None:
    path = "src/app/query.py"
    text = f"{' ' * (400_000 - 12)}{path}{' ' * (400_000 - 4 + more)}"
    assert bool(named(text)) is found
