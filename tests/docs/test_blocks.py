"""Every command the documents for users show is run, or at least exists."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from orchestra.cli.program import program
from tests.docs.blocks import ROOT, Block, Shell, blocks, copy_examples, first_missing

# Pages whose blocks stand alone, each with the example it is run in.
EXAMPLES = {
    "docs/loop.md": "greeting",
    "docs/security.md": "greeting",
    "docs/tasks.md": "licences",
}
READMES = ("README.md", "README.ko.md")
PAGES = (
    *EXAMPLES,
    *READMES,
    "docs/tutorial.md",
    "docs/library.md",
    "docs/evidence.md",
    "docs/teams.md",
    "docs/undo-and-git.md",
)
PAGES += ("CONTRIBUTING.md", "docs/tui.md")
SINGLE = [block for page in EXAMPLES for block in blocks(page) if block.runs]
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("block", SINGLE, ids=str)
def test_a_block_does_what_it_shows(block: Block, tmp_path: Path) -> None:
    Shell(copy_examples(tmp_path / "examples") / EXAMPLES[block.page]).run(block)


def test_the_readme_does_what_it_shows_from_beginning_to_end(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    copy_examples(clone / "examples")
    subprocess.run(["git", "init", "-q", str(clone)], check=True)  # a folder below it is a project only if it says so
    shell = Shell(clone)
    tried = [block for block in blocks("README.md") if block.runs]
    for block in tried:
        shell.run(block)
    assert len(tried) >= 10


def test_both_readmes_have_the_same_sections_and_the_same_blocks() -> None:
    english, korean = ([(b.kind, b.note, b.body) for b in blocks(page)] for page in READMES)
    assert english == korean  # so that what was run above is run for both
    assert _outline("README.md") == _outline("README.ko.md")


def _outline(page: str) -> list[tuple[str, list[str], list[str], int]]:
    """Of each section its level, the commands and links in its text, and the rows of its tables."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = []
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE)[1:]:
        commands = re.findall(r"`((?:orchestra|make)\b[^`]*)`", part)
        targets = re.findall(r"\]\(([^)\s]+)\)", part)
        found.append(
            (part.split(" ")[0], sorted(commands), sorted(targets), len(re.findall(r"^\|", part, re.MULTILINE)))
        )
    return found


def test_the_program_in_the_readme_is_the_example() -> None:
    [shown] = [block.body for block in blocks("README.md") if block.kind == "python"]
    assert shown == (ROOT / "examples" / "essay" / "essay.py").read_text(encoding="utf-8")


def test_the_tutorial_does_what_it_shows_from_beginning_to_end(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    copy_examples(clone / "examples")
    shell = Shell(clone)
    tried = [block for block in blocks("docs/tutorial.md") if block.runs]
    for block in tried:
        shell.run(block)
    assert len(tried) >= 8


def test_the_page_on_the_library_does_what_it_shows_from_beginning_to_end(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    shell = Shell(folder)
    tried = [block for block in blocks("docs/library.md") if block.runs]
    for block in tried:
        shell.run(block)
    assert len(tried) >= 20


def test_the_page_on_teams_does_what_it_shows_from_beginning_to_end(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    shell = Shell(folder)
    tried = [block for block in blocks("docs/teams.md") if block.runs]
    for block in tried:
        shell.run(block)
    assert len(tried) == 9


def test_the_page_on_evidence_does_what_it_shows_from_beginning_to_end(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    shell = Shell(folder)
    tried = [block for block in blocks("docs/evidence.md") if block.runs]
    for block in tried:
        shell.run(block)
    assert len(tried) == 5


def test_the_page_on_the_terminal_ui_does_what_it_shows_from_beginning_to_end(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    shell = Shell(folder)
    tried = [block for block in blocks("docs/tui.md") if block.runs]
    for block in tried:
        shell.run(block)
    assert len(tried) == 3


@pytest.mark.parametrize("page", PAGES)
def test_every_shown_command_exists(page: str) -> None:
    shown = [c.text for block in blocks(page) for c in block.commands]
    shown += re.findall(r"`((?:orchestra|make) [^`]+)`", (ROOT / page).read_text(encoding="utf-8"))
    for text in shown:
        for command in re.split(r"&&|\|", text):
            _exists(page, command.strip())


def _exists(page: str, command: str) -> None:
    words = [word for word in shlex.split(command, comments=True) if not re.match(r"[A-Z_]+=", word)]
    if words[:1] == ["make"]:
        assert words[1] in TARGETS, f"{page}: `{command}`: no such make target"
    if words[:1] != ["orchestra"] or words[1].isupper():
        return
    context = click.Context(program)
    known = program.get_command(context, words[1])
    assert known is not None, f"{page}: `{command}`: no such command"
    if isinstance(known, click.Group):
        return
    options = {name for parameter in known.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    for word in words[2:]:
        if re.match(r"--?[a-zA-Z]", word):
            assert word.partition("=")[0] in options, f"{page}: `{command}`: no such option {word}"


def test_shown_lines_must_come_in_order_and_dots_stand_for_anything() -> None:
    output = "one\ntwo 2\nthree\n"
    assert first_missing(("one", "…", "three"), output) is None
    assert first_missing(("two …",), output) is None
    assert first_missing(("three", "one"), output) == "one"
    assert first_missing(("tw",), output) == "tw"
