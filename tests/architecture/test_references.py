"""What the code, the tests and the documents cite exists in this repository: ids, sections, documents (docs/spec)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.spec import SPEC, defined, requirements, sections

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks")
CITING = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")))
    if path.suffix in (".py", ".md", ".yaml", ".toml", ".txt") and path.is_file() and path != Path(__file__)
)
SAMPLES = ("src/orchestra/workflows/team/sample/", "examples/team-ko/")  # files of a project that has teams
OUTSIDE = [name for name in CITING if not name.startswith(("docs/spec/", *SAMPLES))]
NUMBERS = {"S1": 126, "S2": 137, "S3": 142, "S4": 105, "S5": 87}
IDS = re.compile(r"(?<![\w-])(?:S\d-\d{2,}|G\d-\d+|F\d-\d{2}|[CD]-\d{2}|U-\d{2}|T-\d|M[MS]-\d+(?:\.\d+)?)(?![\w-])")
SECTIONS = re.compile(r"(S\d )?§(\d+(?:\.\d+)*)?((?:(?:,| and| to| …) §\d+(?:\.\d+)*)*)")
DOCUMENT = re.compile(r"(?<![\w./*{}<>$~-])(?:[\w.-]+/)*[A-Za-z][\w-]*\.md\b")
# How documents were cited that are not in this repository: by words, without a file name.
ELSEWHERE = re.compile(
    r"\b(?:design|decisions) (?:§|section)|\btraps? \d|\b[Ss]eed(?:s|'s| \d)\b(?!')|\bissue \d|\bmodels\.md \d"
)
# Documents that a project, a run or a test's project has; this repository need not have them.
OF_PROJECTS = re.compile(
    r"\b(?:report|summary|AGENTS|CLAUDE|LICENSES|iter-\w+|NNNN-\w+|orchestrator|NAME|TEAM|TASK)\.md$"
    r"|^(?:artifacts|agents|tasks|orchestrators|reviews)/|^(?:market-analysis|tech-architecture)\.md$"
)


@cache
def prose(name: str) -> tuple[str, ...]:
    """The text for people: all of a document, the comments and docstrings of a module. Read once for all tests."""
    return tuple(_prose(name))


def _prose(name: str) -> Iterator[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    if not name.endswith(".py"):
        yield re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def test_an_id_is_defined_once() -> None:
    assert [name for name, count in Counter(defined()).items() if count > 1] == []


@pytest.mark.parametrize("spec", NUMBERS)
def test_every_requirement_line_is_there_in_order(spec: str) -> None:
    assert requirements(spec) == [f"{spec}-{number:02}" for number in range(1, NUMBERS[spec] + 1)]


def test_every_cited_id_exists() -> None:
    known = set(defined())
    cited = [(name, used) for name in CITING for used in IDS.findall((ROOT / name).read_text(encoding="utf-8"))]
    assert len(cited) > 1000
    assert sorted({(name, used) for name, used in cited if used not in known}) == [], "docs/spec defines no such id"


def test_every_cited_section_exists() -> None:
    wrong = [
        (name, f"{spec}§{part}")
        for name in OUTSIDE
        for text in prose(name)
        for spec, first, more in SECTIONS.findall(text)
        for part in (first, *re.findall(r"§([\d.]*\d)", more))
        if not spec or part not in sections(spec.strip())
    ]
    assert wrong == [], "a section is cited with its specification, as in S1 §4.3, and is a heading of docs/spec"


def test_no_document_outside_this_repository_is_cited() -> None:
    texts = [(name, text) for name in OUTSIDE for text in prose(name)]
    assert [(name, found) for name, text in texts for found in ELSEWHERE.findall(text)] == [], "cite an id of docs/spec"
    named = [(name, path) for name, text in texts for path in DOCUMENT.findall(text) if not OF_PROJECTS.search(path)]
    assert [(name, path) for name, path in named if not _is_here(path, name)] == [], "no such document here"


def _is_here(path: str, name: str) -> bool:
    return any((folder / path).is_file() for folder in (ROOT, ROOT / "docs", (ROOT / name).parent))


def test_the_words_that_explain_ids_name_every_kind() -> None:
    kinds = {re.split(r"-", name)[0].rstrip("12345") for name in defined()}
    explained = set(re.findall(r"^\| `([A-Z]+)\d?-", (SPEC / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert kinds == explained
