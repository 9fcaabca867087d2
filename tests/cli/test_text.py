"""Lines that are painted for a terminal."""

from __future__ import annotations

import click
import pytest

from orchestra.cli.text import paint_diff


@pytest.mark.parametrize(
    ("diff", "lines"),
    [
        ("", []),
        ("+하나\n", ["+하나"]),
        ("-a\r\n+b\x85-c\u2028\n \n", ["-a", "+b\\x85-c\\u2028", " "]),  # no line without its first character
    ],
)
def test_a_diff_has_the_lines_that_git_sees(diff: str, lines: list[str]) -> None:
    assert [click.unstyle(line) for line in paint_diff(diff)] == lines
