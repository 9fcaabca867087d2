"""What a call is shown: rules before files, within a tenth of the bytes; nothing that a person hid."""

from __future__ import annotations

from pathlib import Path

from orchestra.context.rules import PREFACE, find_rules
from orchestra.context.view import View
from orchestra.core.model import Gathered
from orchestra.core.shown import Opened, Search, Wanted


def project(root: Path) -> Path:
    for folder, text in {"": "root", "src": "src", "src/api": "api", "web": "web"}.items():
        (root / folder).mkdir(exist_ok=True)
        (root / folder / "AGENTS.md").write_text(f"rules of {text}\n")
    (root / "src" / "api" / "x.py").write_text("x = 1\n")
    (root / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    return root


def view(root: Path, *hidden: str, opened: tuple[Opened, ...] = ()) -> View:
    return View(root, rules=find_rules(root), opened=opened, hidden=hidden)


def names(found: Gathered) -> list[str]:
    return [artifact.name for artifact in found.artifacts]


def test_a_call_without_files_gets_the_roots_rules_and_no_listing(tmp_path: Path) -> None:
    found = view(project(tmp_path))(None, 10_000)
    assert names(found) == ["rules of this project", "rules of this project: AGENTS.md"]
    assert found.receipt.rules == ("AGENTS.md",)


def test_rules_of_a_folder_are_told_if_a_text_or_the_model_names_a_file_in_it(tmp_path: Path) -> None:
    root = project(tmp_path)
    shown = view(root, "*.py", "AGENTS.md", "!/AGENTS.md", "!/src/**", "!/web/AGENTS.md")
    assert shown(Search(("fix it",)), 20_000).receipt.rules[0] == "AGENTS.md"
    only = View(root, rules=find_rules(root), hidden=("*.py",))
    by_goal = only(Search(("write web/new/page.html",)), 20_000)
    assert "web/AGENTS.md" in by_goal.receipt.rules
    asked = only(Search(("fix",), wanted=(Wanted(file="src/api/none.py"),)), 20_000)
    order = [path for path in asked.receipt.rules if path != "web/AGENTS.md"]
    assert order == ["AGENTS.md", "src/AGENTS.md", "src/api/AGENTS.md"]
    traced = only(Search(("fix",), traces=('File "/home/me/p/src/api/x.py", line 3',)), 20_000)
    assert "src/api/AGENTS.md" in traced.receipt.rules


def test_rules_come_before_the_listing_and_take_a_tenth_at_most(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "AGENTS.md").write_text("a rule of this project\n" * 2000)
    found = view(root)(Search(("src/api/x.py",)), 10_000)
    told = [artifact for artifact in found.artifacts if artifact.name.startswith("rules of")]
    assert names(found)[: len(told)] == [artifact.name for artifact in told]
    assert names(found)[len(told)] == "files of the workspace"
    assert len(PREFACE) < sum(len(artifact.content.encode()) for artifact in told) <= 1_000
    assert sum(len(artifact.content.encode()) for artifact in found.artifacts) <= 10_000
    assert "AGENTS.md" in [left.path for left in found.receipt.leftOut]


def test_a_hidden_file_is_neither_shown_nor_listed_nor_told_as_a_rule(tmp_path: Path) -> None:
    found = view(project(tmp_path), "src/", "/AGENTS.md")(Search(("src/api/x.py and calc.py",)), 20_000)
    text = "\n".join(artifact.content for artifact in found.artifacts)
    assert "calc.py" in text and "return a - b" in text
    assert "x = 1" not in text and "src/" not in text and "rules of root" not in text
    assert all(not path.startswith("src/") and path != "AGENTS.md" for path in found.receipt.rules)


def test_opened_lines_are_shown_and_nothing_else_of_the_file(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "prod.env").write_text("A=1\nB=2\nC=3\n")
    found = view(root, opened=(Opened("prod.env", (2, 2)),))(Search(("fix",)), 20_000)
    [artifact] = [artifact for artifact in found.artifacts if artifact.path == "prod.env"]
    assert "B=2" in artifact.content and "A=1" not in artifact.content and "C=3" not in artifact.content
    assert found.receipt.parts == {"prod.env": ((2, 2),)}


def test_the_same_project_and_words_are_shown_the_same(tmp_path: Path) -> None:
    root = project(tmp_path)
    one, two = (view(root)(Search(("src/api/x.py",)), 20_000) for _ in range(2))
    assert one.artifacts == two.artifacts
