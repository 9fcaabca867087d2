"""Chunks begin at definitions and cover every line once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestra.context.chunks import LEAST, MOST, Definition, chunks, definitions
from orchestra.core.shown import Lines

LINES = st.lists(
    st.sampled_from(["def a():\n", "    x = 1\n", "\n", "# note\n", "@decorated\n", "class B:\n", "}\n", "한글\n"]),
    max_size=300,
)


def pieces(path: str, lines: list[str]) -> list[Lines]:
    return chunks(lines, definitions(path, lines))


@given(LINES)
def test_every_line_is_in_exactly_one_chunk(lines: list[str]) -> None:
    covered = [at for first, last in pieces("x.py", lines) for at in range(first, last + 1)]
    assert covered == list(range(1, len(lines) + 1))
    assert all(last - first < MOST for first, last in pieces("x.py", lines))


def test_a_chunk_begins_with_the_comment_above_its_definition() -> None:
    lines = ["x = 1\n"] * 20 + ["# what it is\n", "@cached\n", "def wanted():\n"] + ["    pass\n"] * 20
    assert (21, 43) in pieces("a.py", lines)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "    async def run(self):"),
        ("a.go", "func (c *Conn) Close() error {"),
        ("a.ts", "export function useSlots() {"),
        ("a.ts", "  private async load(id: string): Promise<void> {"),
        ("a.rs", "    pub(crate) async fn open(&self) -> Result<()> {"),
        ("A.java", "  public static <T> List<T> of(T... items) {"),
        ("a.rb", "  def save"),
        ("a.md", "## Usage"),
        ("a.unknown", "function go() {"),
    ],
)
def test_definitions_are_found_in_many_languages(path: str, line: str) -> None:
    assert [one.line for one in definitions(path, ["\n", line + "\n"])] == [2]


@pytest.mark.parametrize("line", ["    return x", "    if (a) {", "    value = run(x)"])
def test_ordinary_lines_are_no_definitions(line: str) -> None:
    assert definitions("a.ts", [line + "\n"]) == definitions("a.py", [line + "\n"]) == []


def test_a_long_piece_is_cut_after_an_empty_line_with_little_indentation_behind_it() -> None:
    lines = ["    x = 1"] * (3 * MOST)
    assert chunks(lines, []) == [(1, MOST), (MOST + 1, 2 * MOST), (2 * MOST + 1, 3 * MOST)]
    lines[MOST - 10] = lines[MOST - 20] = lines[MOST - 30] = ""
    lines[MOST - 19], lines[MOST - 9] = "y = 2", "        z = 3"
    assert chunks(lines, [])[0] == (1, MOST - 19)  # behind the empty line comes `y = 2`


@pytest.mark.parametrize(
    ("size", "found"),
    [
        (0, []),
        (LEAST, [(1, LEAST)]),
        (MOST, [(1, MOST)]),
        (MOST + 1, [(1, MOST - 2), (MOST - 1, MOST + 1)]),
    ],
)
def test_a_piece_is_cut_only_if_it_has_too_many_lines(size: int, found: list[Lines]) -> None:
    lines = ["x = 1"] * size
    if size >= MOST:
        lines[MOST - 3] = ""  # a good place for a cut
    assert chunks(lines, []) == found


@pytest.mark.parametrize(("line", "found"), [(LEAST, [(1, MOST)]), (LEAST + 1, [(1, LEAST), (LEAST + 1, MOST)])])
def test_a_chunk_has_so_many_lines_at_least(line: int, found: list[Lines]) -> None:
    assert chunks(["x = 1"] * MOST, [Definition(line, "def f():")]) == found


def test_of_two_equally_good_places_the_lower_one_is_cut_at() -> None:
    lines = ["x = 1"] * (MOST + 9)
    lines[MOST - 6] = lines[MOST - 16] = ""
    assert chunks(lines, []) == [(1, MOST - 5), (MOST - 4, MOST + 9)]


def test_comments_that_reach_up_to_the_chunk_before_begin_none_of_their_own() -> None:
    lines = ["x = 1"] * 20 + ["def one():"] + ["# note"] * 30 + ["def two():"] + ["    pass"] * 20
    assert chunks(lines, definitions("a.py", lines)) == [(1, 20), (21, 72)]
