"""The documents are fresh, complete, and their links lead somewhere."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from rich.text import Text

from orchestra import __version__
from orchestra.cli.commands import COMMANDS
from orchestra.core.errors import OrchestraError
from orchestra.worker.confine import NOT_HELD
from tests.docs.blocks import ROOT

DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md"))
)


def _of_docs(name: str) -> ModuleType:
    """docs/NAME.py, which imports what is beside it."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "docs"))


def test_generated_pages_are_fresh() -> None:
    stale = [
        path.name
        for path, text in _of_docs("generate").pages().items()
        if not path.exists() or path.read_text() != text
    ]
    assert stale == [], "run make docs"


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demos of these tests are: each is run once."""
    return tmp_path_factory.mktemp("demos").resolve()


def demo(name: str, demos: Path) -> str:
    """What a demo printed in its folder of `demos`."""
    said: str = _of_docs("generate").printed(name, demos / name)
    return said


def test_the_transcripts_are_what_the_demos_print(demos: Path) -> None:
    found = _of_docs("generate").transcripts(demos)
    assert {path.name for path in found} == {"loop.md", "tasks.md", "contracts.md"}
    assert [path.name for path, text in found.items() if path.read_text(encoding="utf-8") != text] == [], (
        "run make docs"
    )


def test_the_pictures_are_what_the_program_shows_at_a_terminal() -> None:
    found = _of_docs("pictures").pictures()
    assert [path.name for path, text in found.items() if path.read_text(encoding="utf-8") != text] == [], (
        "run make docs"
    )
    shown = {path.relative_to(ROOT).as_posix() for path in found}
    for page in ("README.md", "README.ko.md"):
        assert set(re.findall(r"!\[[^]]+\]\(([^)]+)\)", _prose(ROOT / page))) == shown
    for text in found.values():
        assert len(text.encode()) < 40_000
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")  # it loads nothing


def test_a_picture_gives_every_syllable_the_width_of_two_letters() -> None:
    drawn = ElementTree.fromstring(_of_docs("pictures").svg(Text("한글 a|\nabcd a|"), "two lines of the same width"))
    ends = [element.attrib["x"] for element in drawn.iter() if element.text == "a|"]
    assert len(ends) == 2 and ends[0] == ends[1]


def test_the_demo_says_what_happened_where_it_is_and_what_to_try_next(demos: Path) -> None:
    last = demo("demo.py", demos).partition("== What happened")[2]
    [folder] = (demos / "demo.py" / "greeting" / ".runs" / "workflows").iterdir()
    assert "2 patches were applied, 1 failed its checks and was fixed" in last
    assert str(folder) in last
    tried = re.findall(r"^(?:export|cd|orchestra) .*$", last, re.MULTILINE)
    script = "\n".join(["set -e", *tried[:-1], f"{tried[-1]} --approval never"])  # the last one would ask a person
    again = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "conforms" in again.stdout
    assert (demos / "demo.py" / "yours" / ".runs").exists()


def test_the_demo_of_a_task_graph_says_what_to_try_next(demos: Path) -> None:
    said = demo("demo_dag.py", demos)
    tried = re.findall(r"^(?:export|cd|orchestra) .*$", said.partition("== What to try")[2], re.MULTILINE)
    script = "\n".join(["set -e", *tried[:-1], f"{tried[-1]} --approval never"])  # the last one would ask a person
    again = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "conforms" in again.stdout and "## Artifacts" in again.stdout
    assert (demos / "demo_dag.py" / "yours" / "LICENSES.md").exists()
    assert not list((demos / "demo_dag.py").glob("*/build"))


@pytest.mark.parametrize("demo", ["demo.py", "demo_dag.py", "demo_contracts.py"])
def test_a_demo_never_touches_a_folder_that_exists(demo: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / demo), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "exists" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_reference(name: str) -> None:
    assert f"## orchestra {name}\n" in (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_readme(name: str) -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Commands")[2]
    assert re.search(rf"`{name}\b", table)


def test_the_readme_lists_every_exit_code() -> None:
    def codes(kind: type[OrchestraError]) -> set[int]:
        return {kind.exit_code}.union(*(codes(child) for child in kind.__subclasses__()))

    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("| exit code |")[2].partition("\n\n")[0]
    listed = {int(number) for number in re.findall(r"\| (\d+) \|", table)}
    assert listed == codes(OrchestraError) | {0, 3, 130}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name: str) -> None:
    text = _prose(ROOT / name)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), f"{name}: {target} leads nowhere"
        if anchor:
            assert anchor in _anchors(file), f"{name}: {target}: there is no such heading"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_names_this_machine(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert str(ROOT) not in text
    assert not re.search(r"(?<![\w.])/(?:home|work|root|Users)/", text)


def test_the_map_of_the_code_names_every_module_and_is_short() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 190
    source = ROOT / "src" / "orchestra"
    modules = [path for path in source.rglob("*.py") if path.name != "__init__.py" and "cli" not in path.parts]
    missing = [str(path.relative_to(source)) for path in modules if not re.search(rf"\b{re.escape(path.name)}", text)]
    assert missing == [], "ARCHITECTURE.md does not name them"


def test_the_page_on_the_sandbox_says_what_a_weaker_tier_does_not_hold_in_the_words_of_doctor() -> None:
    text = " ".join((ROOT / "docs" / "security.md").read_text(encoding="utf-8").split())
    assert " ".join(f"- {point}" for point in NOT_HELD) in text


def test_the_changelog_has_this_version() -> None:
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_both_readmes_begin_with_the_same_two_commands() -> None:
    for name in ("README.md", "README.ko.md"):
        block = (ROOT / name).read_text(encoding="utf-8").partition("```console\n")[2].partition("```")[0]
        assert block == "$ make demo\n$ make test\n"


def _prose(path: Path) -> str:
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchors(path: Path) -> set[str]:
    """Headings as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", _prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
