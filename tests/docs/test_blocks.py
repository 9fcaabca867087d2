"""Every command the documents for users show is run, or at least exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from orchestra.cli.program import program
from tests.docs.blocks import ROOT, Block, Shell, blocks, copy_examples, first_missing

# Pages whose blocks stand alone, each with the example it is run in.
EXAMPLES = {
    "README.md": "greeting",
    "README.ko.md": "greeting",
    "docs/security.md": "greeting",
    "docs/tasks.md": "licences",
}
PAGES = (*EXAMPLES, "docs/tutorial.md", "docs/library.md", "docs/evidence.md", "docs/teams.md", "docs/undo-and-git.md")
PAGES += ("CONTRIBUTING.md",)
SINGLE = [block for page in EXAMPLES for block in blocks(page) if block.runs]
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("block", SINGLE, ids=str)
def test_a_block_does_what_it_shows(block: Block, tmp_path: Path) -> None:
    Shell(copy_examples(tmp_path / "examples") / EXAMPLES[block.page]).run(block)


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
