"""Names in the headers of a diff."""

from __future__ import annotations

import pytest

from orchestra.patch.paths import quote, read_git_line


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a/x.py b/x.py", ("a/x.py", "b/x.py")),
        ('"a/\\355\\225\\234.py" "b/\\355\\225\\234.py"', ("a/한.py", "b/한.py")),
        ('a/x.py "b/\\355\\225\\234.py"', ("a/x.py", "b/한.py")),
        ('"a/x.py" "b/unfinished', None),
        ('"a/x.py" ', None),
        ('"" b/x.py', None),
        (' "b/x.py"', None),
    ],
)
def test_the_two_names_are_read_or_none(text: str, names: tuple[str, str] | None) -> None:
    assert read_git_line(text) == names


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("a b한.txt", "a b한.txt"),
        ('a "b".txt', '"a \\"b\\".txt"'),
        ("a b\\c", '"a b\\\\c"'),
        ("a\tb\x1f \x7f", '"a\\tb\\037 \\177"'),
    ],
)
def test_only_what_git_escapes_is_escaped(name: str, quoted: str) -> None:
    assert quote(name) == quoted
