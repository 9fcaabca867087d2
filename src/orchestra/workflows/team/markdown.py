"""Markdown as people write definitions in it, line by line: headings, tables, lists, code blocks, front matter. Pure.

Rules
1. Any text can be read: nothing here raises, and no line is looked at more than a few times. What is missing is empty,
   and the readers of definitions name it.
2. Every part has its line, for messages. Windows line ends and a byte order mark are no part of a text, and Korean in
   decomposed form (NFD, as some systems save it) is the same as in composed form.
3. A heading or a table row inside a code block is text of that block.
4. A code block ends at a fence of its own kind, at least as long. One of the same length with a language (```json)
   opens a block inside it, which people write in prompts; where the blocks then do not end, the first bare fence ends
   the block, as CommonMark has it.
5. A table is a row with `|`, a row of dashes, and the rows up to a line without `|`. `\\|` is a pipe in a cell. A row
   that is too short is filled up with empty cells; surplus cells are dropped.

It is no Markdown library: emphasis, links and HTML are left as they are, but for the plain text of a cell.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
_DASHES = re.compile(r"[ \t]*:?-+:?[ \t]*")
_BULLET = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_LINK = re.compile(r"\[([^\[\]]{0,200})\]\([^()]{0,500}\)")
_NESTED = 20  # fences that are looked at to find the end of blocks in a block
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_COMMENT = re.compile(r"[ \t]+#.*")
_KEY = re.compile(r"([A-Za-z][\w-]{0,40})[ \t]*:(?:[ \t]+|$)")


class Row(NamedTuple):
    """A row of a table."""

    line: int
    cells: tuple[str, ...]


class Table(NamedTuple):
    """A table: the line and the cells of its first row, and its other rows with as many cells."""

    line: int
    header: tuple[str, ...]
    rows: tuple[Row, ...]


class Section(Struct, frozen=True):
    """A heading of level 2, and what is below it."""

    title: str
    line: int
    body: tuple[str, ...] = ()  # body[0] is in the line after the heading

    @property
    def text(self) -> str:
        """The text below the heading."""
        return "\n".join(self.body).strip()

    @property
    def tables(self) -> Iterator[Table]:
        """The tables below the heading (rule 5)."""
        return _tables(self.body, self.line + 1)

    @property
    def code(self) -> str | None:
        """The text of the first code block; None if there is none."""
        for first, last in _blocks(self.body):
            indent = len(self.body[first]) - len(self.body[first].lstrip(" "))
            inner = self.body[first + 1 : last]
            return "\n".join(line.removeprefix(" " * indent) for line in inner).strip("\n")
        return None

    @property
    def bullets(self) -> list[str]:
        """The texts of the list items below the heading, each with the lines that continue it."""
        items: list[str] = []
        for line, plain in zip(self.body, _is_plain(self.body), strict=True):
            found = _BULLET.match(line) if plain else None
            if found:
                items.append(line[found.end() :].strip())
            elif items and plain and line.startswith(" ") and line.strip():
                items[-1] += f" {line.strip()}"
        return items


class Title(NamedTuple):
    """A heading of any level."""

    level: int
    text: str
    line: int


class Entry(NamedTuple):
    """A key of the front matter and its value: one text, or the items of a list."""

    line: int
    key: str
    value: str
    items: tuple[str, ...] = ()


class Document(Struct, frozen=True):
    """A file: its title, what stands below the title, its sections, its front matter."""

    title: str = ""
    title_line: int = 1
    about: str = ""
    sections: tuple[Section, ...] = ()
    titles: tuple[Title, ...] = ()  # of all headings, in order
    front: tuple[Entry, ...] | None = None  # None: the file does not begin with `---`
    body: str = ""  # the text after the front matter
    body_line: int = 1
    unclosed: int = 0  # the line of a code block that does not end
    unclosed_front: bool = False


def read_markdown(text: str) -> Document:
    """The parts of a Markdown text (rule 1)."""
    lines = _lines(text)
    front, start, unclosed_front = _front_matter(lines)
    body = lines[start:]
    open_block = next((first for first, last in _blocks(body) if last == len(body)), None)
    parts = list(_parts(body, start))
    top = next((section for level, section in parts if level == 1), parts[0][1])  # parts[0]: no title
    return Document(
        title=top.title,
        title_line=top.line or 1,
        about=top.text,
        sections=tuple(section for level, section in parts if level == 2),
        titles=tuple(title for _, title in _titles(body, start)),
        front=front,
        body="\n".join(body).strip("\n"),
        body_line=start + 1,
        unclosed=0 if open_block is None else start + open_block + 1,
        unclosed_front=unclosed_front,
    )


def plain(cell: str) -> str:
    """A cell's text without emphasis, backticks and the targets of links."""
    return _LINK.sub(r"\1", cell).replace("**", "").replace("__", "").replace("`", "").strip(" \t*")


def _lines(text: str) -> list[str]:
    """The lines of a text, in one Unicode form (rule 2)."""
    text = unicodedata.normalize("NFC", text.removeprefix("\ufeff"))
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _parts(body: Sequence[str], start: int) -> Iterator[tuple[int, Section]]:
    """The text before the first heading (level 0), and the headings of levels 1 and 2, each with what is below it."""
    level, title, line, since = 0, "", start, 0
    for at, found in _titles(body, start):
        if found.level <= 2:
            yield level, Section(title, line, tuple(body[since:at]))
            level, title, line, since = found.level, found.text, found.line, at + 1
    yield level, Section(title, line, tuple(body[since:]))


def _titles(body: Sequence[str], start: int) -> Iterator[tuple[int, Title]]:
    """The headings of all levels, each with its index."""
    for at, (text, plain_line) in enumerate(zip(body, _is_plain(body), strict=True)):
        if plain_line and (found := _HEADING.match(text)):
            yield at, Title(len(found[1]), text[found.end() :].strip().rstrip("#").rstrip(), start + at + 1)


# -- code blocks ------------------------------------------------------------------------------------------------------


def _is_plain(lines: Sequence[str]) -> list[bool]:
    """For each line, whether it is outside of code blocks and their fences (rule 3)."""
    plain_lines = [True] * len(lines)
    for first, last in _blocks(lines):
        for at in range(first, min(last + 1, len(lines))):
            plain_lines[at] = False
    return plain_lines


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where each code block begins and ends, as indexes of its fences; the end is `len(lines)` if it has none."""
    fences = [(at, found) for at, line in enumerate(lines) if (found := _FENCE.match(line))]
    number = 0
    while number < len(fences):
        end = _end(fences, number)
        yield fences[number][0], fences[end][0] if end < len(fences) else len(lines)
        number = end + 1


def _end(fences: Sequence[tuple[int, re.Match[str]]], first: int) -> int:
    """The number of the fence that ends the block of fence `first`; `len(fences)` if none does (rule 4)."""
    kind = fences[first][1][1]
    depth, bare = 1, len(fences)
    for number in range(first + 1, len(fences)):
        _, fence = fences[number]
        if fence[1][0] != kind[0] or len(fence[1]) < len(kind):
            continue
        if fence[2].strip():
            depth += len(fence[1]) == len(kind)
            continue
        bare = min(bare, number)
        depth -= 1
        if not depth:
            return number
        if number - bare > _NESTED:
            break
    return bare


# -- tables -----------------------------------------------------------------------------------------------------------


def _tables(body: Sequence[str], start: int) -> Iterator[Table]:
    plain_lines = _is_plain(body)
    rows: list[Row] = []
    for at, line in enumerate((*body, "")):
        if at < len(body) and plain_lines[at] and "|" in line:
            rows.append(Row(start + at, _cells(line)))
            continue
        if len(rows) > 1 and all(_DASHES.fullmatch(cell) for cell in rows[1].cells):
            width = len(rows[0].cells)
            yield Table(rows[0].line, rows[0].cells, tuple(_as_wide(row, width) for row in rows[2:]))
        rows = []


def _as_wide(row: Row, width: int) -> Row:
    return Row(row.line, (*row.cells, *[""] * (width - len(row.cells)))[:width])


def _cells(line: str) -> tuple[str, ...]:
    """The cells of a row; a pipe at its beginning and end is a border."""
    parts = re.split(r"(?<!\\)\|", line.strip().removeprefix("|"))
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return tuple(part.replace("\\|", "|").strip() for part in parts)


# -- front matter -----------------------------------------------------------------------------------------------------


def _front_matter(lines: Sequence[str]) -> tuple[tuple[Entry, ...] | None, int, bool]:
    """The keys between two lines `---` at the top, the index of the line after them, and whether they do not end.

    It is read line by line and not as YAML: descriptions of Claude agents hold colons and quotes that no YAML parser
    takes, and they are to be loaded unchanged.
    """
    if not lines or lines[0].rstrip() != "---":
        return None, 0, False
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), len(lines))
    entries: list[tuple[int, str, list[str]]] = []
    for at, line in enumerate(lines[1:end], 2):
        if found := _KEY.match(line):
            entries.append((at, found[1], [line[found.end() :].strip()]))
        elif entries and line.strip() and not line.startswith("#"):
            entries[-1][2].append(line.strip())
    front = tuple(_entry(at, key, texts) for at, key, texts in entries)
    return front, min(end + 1, len(lines)), end == len(lines)


def _entry(line: int, key: str, texts: list[str]) -> Entry:
    """A key with its value: quotes and the marks of block texts (`|`, `>`) are left out, lists are split."""
    first, *more = texts
    if re.fullmatch(r"[|>][+-]?", first):
        return Entry(line, key, ("\n" if first[0] == "|" else " ").join(more))
    if not first and more and all(text.startswith("- ") for text in more):
        return Entry(line, key, "", tuple(_unquoted(text[2:].strip()) for text in more))
    value = " ".join(texts)
    if value.startswith("[") and value.endswith("]"):
        return Entry(line, key, "", tuple(_unquoted(part.strip()) for part in value[1:-1].split(",") if part.strip()))
    return Entry(line, key, _unquoted(value))


def _unquoted(text: str) -> str:
    """The text without its quotes and with the escapes of double quotes replaced; a word without its comment."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        inner = text[1:-1]
        return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[0]), inner) if text[0] == '"' else inner
    word = _COMMENT.sub("", text)
    return text if " " in word else word
