"""The gate of one project: which folders no patch writes, by every name that leads to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.core.redact import Redactor
from orchestra.patch.gatekeeper import Gatekeeper


@pytest.fixture
def gate(tmp_path: Path) -> Gatekeeper:
    work = tmp_path / "work"
    for folder in ("kept/runs", "venv/lib", "src", "contracts"):
        (work / folder).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (work / "way").symlink_to("kept")
    (work / "out").symlink_to("../elsewhere")
    return Gatekeeper(
        work,
        Redactor(),
        closed=(str(work / "kept/runs"), str(tmp_path / "elsewhere"), str(work / "out/deep"), str(tmp_path)),
        installed=(str(work / "venv"), str(work)),
        code={str(work / "flows/mine.py"): "a workflow"},
        code_folders={str(work / "flows"): "what a workflow imports"},
    )


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("src/가.py", ""),
        ("kept/a.py", ""),
        ("kept/runs/a.json", "kept/runs/ belongs to orchestra"),
        ("way/runs/a.json", "it leads to kept/runs/a.json"),
        ("way/a.py", ""),
        ("out/deep/a.py", "out/deep/ belongs to orchestra"),
        ("out/a.py", ""),  # a link that leaves the project: applying refuses it
        ("venv/lib/a.py", "venv is an environment"),
        (".runs/x", ".runs/ belongs to orchestra"),
    ],
)
def test_a_folder_is_closed_by_each_of_its_names_and_one_that_holds_the_project_closes_nothing(
    gate: Gatekeeper, path: str, why: str
) -> None:
    refused = gate.closed_to(["src/fine.py", path])
    assert (refused is None) == (not why)
    assert refused is None or (why in refused.message and (refused.reason, refused.path) == ("path_violation", path))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        *(("src/가.py", ""), ("flows/mine.py", "a workflow"), ("flows/other.py", "what a workflow imports")),
        *(("kept/runs/a", "belongs to orchestra"), ("Makefile", "bring it as a patch"), ("docs/a.md", "")),
    ],
)
def test_a_file_that_is_looked_at_is_not_one_that_a_person_must_approve(gate: Gatekeeper, path: str, why: str) -> None:
    refused = gate.refused_path(path)
    assert why in refused and bool(refused) == bool(why)
