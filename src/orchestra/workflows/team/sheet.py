"""A definition file while it is read: finds sections and columns by English or Korean names, and collects faults. Pure.

Rules
1. A fault is `PATH:LINE: what was found; what was expected`. All faults of a file are collected.
2. A heading or column is found by any of its names; case, spaces, numbering and emphasis do not matter. A column whose
   name is unknown is found by its place.
3. An agent is written by its file's name, in backticks or not, or by its display name: "Tech Architect" is
   `tech-architect`. Of a text with backticks only what is in backticks counts.
4. An artifact is written with or without `artifacts/`. It has an extension and no folder, so that no artifact has the
   name of a folder of working files (C-25).
"""

from __future__ import annotations

import difflib
import re
import unicodedata

from msgspec import Struct

from orchestra.core.names import folded, has_unseen
from orchestra.core.text import brief
from orchestra.workflows.team.definitions import FOLDER
from orchestra.workflows.team.markdown import Document, Row, Section, Table, plain, read_markdown

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")  # G4-2
NAME_FORM = "small letters, digits and hyphens, as in `tech-architect`"
ARTIFACT_FORM = "a file name with an extension and no folder, as in `artifacts/market-analysis.md`"
_LONGEST = 100  # bytes of an artifact's name
_NUMBERING = re.compile(r"\d{1,3}[.)]\s*")
_SEPARATOR = re.compile(r"[,，、;]|<br\s*/?>", re.IGNORECASE)
_IN_BACKTICKS = re.compile(r"`([^`]+)`")
_NOTE = re.compile(r"\s*[(（].*$", re.DOTALL)


class Fault(Struct, frozen=True):
    """What is wrong in a line of a definition file (rule 1)."""

    path: str
    line: int
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found}; expected {self.expected}"


class Heading(Struct, frozen=True):
    """A section by its names: the first is English, the second Korean, the others count too."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"`## {self.names[0]}` (or `## {self.names[1]}`)"

    def fits(self, title: str) -> bool:
        """Whether this title is one of the names (rule 2)."""
        return _key(title) in map(_key, self.names)


class Sheet:
    """One definition file: its document, and the faults found so far."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.document: Document = read_markdown(text)
        self.faults: list[Fault] = []
        if self.document.unclosed_front:
            self.fault(1, "the front matter that begins here does not end", "a line `---`")
        elif self.document.unclosed and self.document.front is None:  # else the whole text is a prompt
            what = "the code block that begins here does not end"
            self.fault(self.document.unclosed, what, "a line with the same fence (```)")

    def fault(self, line: int, found: str, expected: str) -> None:
        """Record a fault."""
        self.faults.append(Fault(self.source, line, found, expected))

    def title(self) -> str:
        """The title without its kind: "# Agent: Tech Architect" is "Tech Architect"."""
        kind, colon, rest = self.document.title.replace("：", ":").partition(":")
        return rest.strip() if colon and rest.strip() else kind.strip()

    def section(self, heading: Heading) -> Section | None:
        """The section under a heading; None if there is none. A second one is a fault."""
        found = [section for section in self.document.sections if heading.fits(section.title)]
        seen: dict[str, int] = {}
        for one in found:
            self.once(seen, str(heading), one.line, "one of them")
        return found[0] if found else None

    def required(self, heading: Heading, holds: str) -> Section | None:
        """The section under a heading that every such file has; `holds` describes its content, for the fault."""
        found = self.section(heading)
        if found is None and (other := next((one for one in self.document.titles if heading.fits(one.text)), None)):
            what = f"`{'#' * other.level} {brief(other.text, 60)}` is a heading of level {other.level}"
            self.fault(other.line, what, f"one of level 2: {heading} with {holds}")
        elif found is None:
            titles = {_key(section.title): section for section in self.document.sections}
            near = [key for name in heading.names for key in difflib.get_close_matches(_key(name), titles, n=1)]
            line = titles[near[0]].line if near else 1
            like = f", only `## {brief(titles[near[0]].title, 60)}`" if near else ""
            self.fault(line, f"there is no section {heading}{like}", f"this section with {holds}")
        return found

    def text(self, heading: Heading) -> str:
        """The text of a section; empty if there is none."""
        found = self.section(heading)
        return found.text if found else ""

    def required_text(self, heading: Heading, holds: str) -> str:
        """The text of a section that every such file has."""
        found = self.required(heading, holds)
        if found is not None and not found.text:
            self.fault(found.line, f"the section {heading} is empty", holds)
        return found.text if found else ""

    def once(self, seen: dict[str, int], what: str, line: int, expected: str) -> None:
        """Record that something stands in this line; the second time is a fault. `seen` has the lines so far."""
        first = seen.setdefault(folded(what), line)
        if first != line:
            self.fault(line, f"{what} stands twice (first in line {first})", expected)

    def table(self, heading: Heading, columns: str) -> Table | None:
        """The first table of a section that every such file has, with at least one row."""
        holds = f"a table: {columns}"
        section = self.required(heading, holds)
        if section is None:
            return None
        found = next(iter(section.tables), None)
        if found is None:
            self.fault(
                section.line, f"the section {heading} has no table", f"{holds}, with a row |---| below its names"
            )
            return None
        if not found.rows:
            self.fault(found.line, f"the table of {heading} is empty", "at least one row")
        return found

    def agents(self, cell: str, line: int) -> tuple[str, ...]:
        """The agents in a cell (rule 3), comma separated; a text that is no name is a fault."""
        names = [name_of(part) for part in _SEPARATOR.split(cell) if plain(part)]
        for name in names:
            if not NAME.fullmatch(name):
                self.fault(line, f"`{brief(name, 60)}` is no agent's name", f"the name of its file: {NAME_FORM}")
        return tuple(dict.fromkeys(names))

    def artifact(self, text: str, line: int) -> str:
        """The path of an artifact (rule 4); empty, and a fault, if the text is none."""
        path = artifact_path(text)
        if not path:
            self.fault(line, f"`{brief(plain(text), 80)}` is no artifact's name", ARTIFACT_FORM)
        return path


def column(table: Table, names: tuple[str, ...], place: int) -> int:
    """The index of a column, by its names or else its place (rule 2)."""
    keys = [_key(plain(cell)) for cell in table.header]
    return next((keys.index(_key(name)) for name in names if _key(name) in keys), place)


def cell_of(row: Row, index: int) -> str:
    """A cell of a row; empty if the row has no such cell."""
    return row.cells[index] if index < len(row.cells) else ""


def name_of(text: str) -> str:
    """The name that a text stands for (rule 3); it may be wrong."""
    marked = _IN_BACKTICKS.search(text)
    shown = marked[1].strip() if marked else _NOTE.sub("", plain(text))
    shown = shown.rpartition("/")[2].removesuffix(".md")
    return "-".join(unicodedata.normalize("NFC", shown).lower().split())


def artifact_path(text: str) -> str:
    """`artifacts/NAME` for an artifact's name (rule 4); empty if it is none."""
    marked = _IN_BACKTICKS.search(text)
    name = (marked[1] if marked else plain(text)).strip().removeprefix("./").removeprefix(FOLDER)
    beginning, dot, extension = name.rpartition(".")
    wrong = not (dot and beginning.strip(".") and extension) or name.startswith(".") or "/" in name or "\\" in name
    if wrong or not name.isprintable() or has_unseen(name) or len(name.encode("utf-8", "replace")) > _LONGEST:
        return ""
    return f"{FOLDER}{name}"


def _key(text: str) -> str:
    """A heading or column name in the form for comparison (rule 2)."""
    return "".join(folded(_NUMBERING.sub("", text.strip(), count=1)).split()).strip("*_`:：")
