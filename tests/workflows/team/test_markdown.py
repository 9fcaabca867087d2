"""Markdown, line by line: sections, tables, code blocks and front matter, in any text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestra.workflows.team.markdown import Row, plain, read_markdown
from orchestra.workflows.team.readers import read_agent, read_task, read_team
from orchestra.workflows.team.sheet import artifact_path, cell_of

PIECES = ("```", "````", "~~~", "```json", "## Phases", "# A", "|a|b|", "|---|---|", "- x", "---", "name: x", "\\|", "")


def test_a_document_has_a_title_what_is_below_it_and_sections_with_their_lines() -> None:
    found = read_markdown("# Team: 기획 팀\n\nWhat it does.\nMore.\n\n## Team ##\n\ntext\n### inner\nmore\n## Phases\n")
    assert (found.title, found.title_line, found.about) == ("Team: 기획 팀", 1, "What it does.\nMore.")
    assert [(one.title, one.line, one.text) for one in found.sections] == [
        ("Team", 6, "text\n### inner\nmore"),
        ("Phases", 11, ""),
    ]


def test_windows_line_ends_a_byte_order_mark_and_decomposed_hangul_make_no_difference() -> None:
    text = "# 팀\n\n## 팀 구성\n\n| 에이전트 | 역할 |\n|---|---|\n| `planner` | 기획 |\n"
    windows = "\ufeff" + unicodedata.normalize("NFD", text).replace("\n", "\r\n")
    assert windows != text and read_markdown(windows) == read_markdown(text)


@pytest.mark.parametrize(
    ("text", "header", "rows"),
    [
        ("| a | b |\n|---|:-:|\n| 1 | 2 |", ("a", "b"), [("1", "2")]),
        ("a | b\n--- | ---\n1 | 2", ("a", "b"), [("1", "2")]),  # no borders
        ("|a|b|\n|-|-|\n|1|\n|1|2|3|", ("a", "b"), [("1", ""), ("1", "2")]),  # ragged
        (r"|a|b|" "\n|-|-|\n" r"|x \| y|`p\|q`|", ("a", "b"), [("x | y", "`p|q`")]),
        ("|에이전트|역할|\n|:---|---:|\n|기획자　|  넓은 글자|", ("에이전트", "역할"), [("기획자", "넓은 글자")]),
        ("|a|\n|-|", ("a",), []),
        ("|a|b|\n|-|-|\n||x|", ("a", "b"), [("", "x")]),
    ],
)
def test_tables_are_read_as_people_write_them(text: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    (table,) = read_markdown(f"## T\n\n{text}\n\nafter").sections[0].tables
    assert table.header == header and [row.cells for row in table.rows] == rows
    assert table.line == 3 and [row.line for row in table.rows] == list(range(5, 5 + len(rows)))


def test_a_row_of_pipes_without_dashes_is_no_table_and_neither_is_one_in_a_code_block() -> None:
    found = read_markdown("## T\n\n| a | b |\n| 1 | 2 |\n\n```\n| a |\n|---|\n| 1 |\n```\n").sections[0]
    assert list(found.tables) == []
    assert list(read_markdown("## T\n\n| a | b |\n|\n| 1 | 2 |\n").sections[0].tables) == []  # one pipe is no dash
    assert list(read_markdown("## T\n\n| 표 |\n\nand this | that\n").sections[0].tables) == []  # nor is a single line


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```\nhello\n```", "hello"),
        ("~~~text\nhello\n```\nstill\n~~~", "hello\n```\nstill"),
        ("````\n```json\n{}\n```\n## no heading\n````", "```json\n{}\n```\n## no heading"),
        ("```\na\n```json\n{}\n```\nb\n```", "a\n```json\n{}\n```\nb"),  # a block inside, of the same length
        ("```\na\n```json\n```\n\nafter", "a\n```json"),  # no end of both: the first bare fence
        ("  ```\n  indented\n    more\n  ```", "indented\n  more"),
        ("no block", None),
        ("```\n```", ""),
    ],
)
def test_the_first_code_block_of_a_section(text: str, code: str | None) -> None:
    assert read_markdown(f"## Prompt\n\nwords\n{text}\n").sections[0].code == code


def test_a_heading_in_a_code_block_is_text_and_a_block_without_end_is_named() -> None:
    found = read_markdown("## A\n```\n## B\n```\n## C\n\n```\nopen\n## D\n")
    assert [one.title for one in found.sections] == ["A", "C"]
    assert found.unclosed == 7


def test_bullets_have_the_lines_that_continue_them() -> None:
    found = read_markdown("## R\n\n- one `artifacts/a.md`\n* two\n  goes on\n1. three\n\ntext\n").sections[0]
    assert found.bullets == ["one `artifacts/a.md`", "two goes on", "three"]


def test_front_matter_is_read_even_where_it_is_no_yaml() -> None:
    text = (
        "---\nname: code-reviewer\n"
        "description: Use this agent when: code changed. Examples: <example>user: 'x'</example>\n  goes on: here\n"
        "model: \"sonnet\"\ntools: [Read, 'Grep']\nskills:\n  - a\n  - b\nnote: |\n  one\n  two\n---\n\nBody.\n"
    )
    found = read_markdown(text)
    front = {entry.key: (entry.line, entry.value, entry.items) for entry in found.front or ()}
    assert front["description"][1].startswith("Use this agent when: code changed. Examples: <example>")
    assert front["description"][1].endswith("goes on: here")
    assert front["model"] == (5, "sonnet", ()) and front["tools"] == (6, "", ("Read", "Grep"))
    assert front["skills"][2] == ("a", "b") and front["note"][1] == "one\ntwo"
    assert found.body.strip() == "Body." and found.body_line == 14 and not found.unclosed
    assert read_markdown("---\nname: x\n").unclosed_front
    assert read_markdown("text\n---\nname: x\n---\n").front is None


def test_the_plain_text_of_a_cell_has_no_markup() -> None:
    assert plain("**[`planner`](agents/planner.md)**") == "planner"


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=40))
def test_any_text_can_be_read(pieces: list[str]) -> None:
    text = "\n".join(pieces)
    found = read_markdown(text)
    for one in found.sections:
        assert one.line >= 1 and all(len(row.cells) == len(table.header) for table in one.tables for row in table.rows)
        assert one.code is None or "\r" not in one.code
        assert len(one.bullets) <= len(one.body)
    for read in (read_team, read_agent, read_task):
        record = read(text, "x", "x.md")
        if isinstance(record, list):
            assert all(fault.line >= 1 and str(fault).startswith("x.md:") for fault in record)


def test_a_file_of_fences_takes_no_time_worth_mentioning() -> None:
    found = read_markdown("## A\n" + "```a\n```a\n```\n" * 2_000)  # 6,000 fences: quadratic work would show
    assert found.sections[0].code == "```a"


def test_a_row_without_a_cell_has_an_empty_one() -> None:
    assert [cell_of(Row(1, ("a", "b")), index) for index in range(4)] == ["a", "b", "", ""]


def test_the_name_of_an_artifact_has_a_hundred_bytes_at_most() -> None:
    names = ["a" * 97 + ".md", "a" * 98 + ".md", "가" * 32 + "a.md", "가" * 33 + ".md"]
    assert [artifact_path(name) for name in names] == [f"artifacts/{names[0]}", "", f"artifacts/{names[2]}", ""]


@pytest.mark.parametrize(("inner", "found"), [(11, ["End"]), (12, ["Inner"])])
def test_the_end_of_a_block_with_blocks_inside_is_looked_for_in_so_many_fences(inner: int, found: list[str]) -> None:
    """After too many, the first bare fence is its end, and the last fence begins a block that has none."""
    body = ["```md", *["```py", "```"] * inner, "## Inner", "```", "## End"]
    assert [one.title for one in read_markdown("\n".join(["# T", *body])).sections] == found


@pytest.mark.parametrize(
    ("written", "value"), [("'", "'"), ("''", ""), ("'a # b'", "a # b"), ('"a\\"b"', 'a"b'), ("\"a'", "\"a'")]
)
def test_a_value_of_front_matter_is_read_without_its_quotes(written: str, value: str) -> None:
    [entry] = read_markdown(f"---\nname: {written}\n---\n").front or ()
    assert entry.value == value
