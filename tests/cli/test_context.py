"""`orchestra context`: what a model would be shown, without a model and without a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.context.support import filler, write
from tests.support.project import Project


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    project = Project(tmp_path / "shop")
    files = {f"src/part{at}.py": filler(400, f"p{at}_") for at in range(5)}
    files["src/totals.py"] = filler(500) + "def round_totals(amount):\n    return amount\n"
    write(project.path, files)
    return project


def test_json_has_files_ranges_reasons_and_what_was_not_found(shop: Project) -> None:
    done = shop.run("context", "round_totals and zyxwv in src/part1.py:7", "--json", "--bytes", "30000")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    files = {one["path"]: one for one in told["files"]}
    assert files["src/part1.py"]["reason"] == "named in the goal"
    assert any(first <= 7 <= last for first, last in files["src/part1.py"]["lines"])
    assert files["src/totals.py"]["reason"].startswith("words: round_totals")
    assert files["src/totals.py"]["score"] > 0
    assert told["notFound"] == ["zyxwv"] and told["method"]
    assert sum(one["bytes"] for one in told["files"]) == told["bytes"] <= 30_000
    assert shop.runs == []


def test_a_whole_file_has_no_lines(shop: Project) -> None:
    told = json.loads(shop.run("context", "calc.py", "--json").stdout)
    (one,) = [one for one in told["files"] if one["path"] == "calc.py"]
    assert "lines" not in one


def test_a_person_reads_a_table_with_reasons_words_and_one_line(shop: Project) -> None:
    done = shop.run("context", "round_totals zyxwv", "--bytes", "20000")
    assert done.returncode == 0, done.stderr
    assert "src/totals.py" in done.stdout and "words: round_totals" in done.stdout
    assert "words found nowhere: zyxwv" in done.stdout
    assert "\ncontext: " in done.stdout


def test_files_are_opened_and_hidden(shop: Project) -> None:
    (shop.path / ".env").write_text("A=1\nB=2\n")
    done = shop.run("context", "round_totals", "--json", "--context", ".env:2", "--no-context", "totals.py")
    files = {one["path"]: one for one in json.loads(done.stdout)["files"]}
    assert files[".env"] | {"tokens": 0} == {
        "path": ".env",
        "lines": [[2, 2]],
        "bytes": len("… line 1 not shown\nB=2\n".encode()),
        "score": 0.0,
        "reason": "opened by you",
        "how": "opened",
        "tokens": 0,
    }
    assert "src/totals.py" not in files


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((" ",), "the goal is empty"),
        (("x", "--context", "none.py"), "--context none.py: there is no such file"),
        (("x", "--context", "calc.py:900"), "--context calc.py:900: calc.py has only"),
        (("x", "--bytes", "0"), "--bytes"),
        (("x", "-C", "/none"), "is not a folder"),
    ],
)
def test_bad_input_is_refused_in_one_message(shop: Project, words: tuple[str, ...], why: str) -> None:
    done = shop.run("context", *words)
    assert done.returncode == 2 and why in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("file", ["/etc/passwd", "../x", ".env"])
def test_a_configuration_that_shows_what_it_may_not_is_refused_everywhere(tmp_path: Path, file: str) -> None:
    project = Project(tmp_path / "p")
    project.configure(f"context: {{show: [{file}]}}\n")
    for words in (("context", "x"), ("config", "validate")):
        done = project.run(*words)
        assert done.returncode == 2 and f"context.show: {file}" in done.stderr, done.stderr


def test_the_count_of_an_identifier_is_not_that_of_its_words(shop: Project) -> None:
    (shop.path / "src/other.py").write_text("totals = 1\n")
    told = json.loads(shop.run("context", "round_totals", "--json", "--bytes", "20000").stdout)
    assert told["terms"] == {"round_totals": 1, "round": 1, "totals": 2}
    reasons = {one["path"]: one["reason"] for one in told["files"]}
    assert reasons["src/totals.py"] == "words: round_totals" and reasons["src/other.py"] == "words: totals"


def test_the_projects_rules_are_named(shop: Project) -> None:
    (shop.path / "AGENTS.md").write_text("Use single quotes.\n")
    assert "rules of the project: AGENTS.md\n" in shop.run("context", "round_totals").stdout
    assert json.loads(shop.run("context", "round_totals", "--json").stdout)["rules"] == ["AGENTS.md"]
