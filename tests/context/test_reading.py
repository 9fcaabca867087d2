"""Reading a file of a workspace: its lines, and what may be read."""

from __future__ import annotations

from orchestra.context.reading import lines_of


def test_only_a_newline_ends_a_line() -> None:
    assert lines_of("a\x0bb\r\nc\u2028d\n\ne") == ["a\x0bb\r\n", "c\u2028d\n", "\n", "e"]
    assert lines_of("") == [] and lines_of("\n") == ["\n"]
