"""Reading a file of a workspace: its lines, and what may be read."""

from __future__ import annotations

from pathlib import Path

from orchestra.context.reading import Text, lines_of, text_of


def test_only_a_newline_ends_a_line() -> None:
    assert lines_of("a\x0bb\r\nc\u2028d\n\ne") == ["a\x0bb\r\n", "c\u2028d\n", "\n", "e"]
    assert lines_of("") == [] and lines_of("\n") == ["\n"]


def test_a_file_is_read_whole_up_to_exactly_so_many_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    assert text_of(tmp_path, "a", 8) == Text("one\ntwo\n", True)
    assert text_of(tmp_path, "a", 7) == Text("one\n", False)
    assert text_of(tmp_path, "a", 3) == Text("", False)
    (tmp_path / "a").write_text("")
    assert text_of(tmp_path, "a", 0) == Text("", True)
