"""What a contracts run does in the workspace: takes the number of a request, and looks terms up."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.workflows.contracts.effects import FoundTerms, _look_up, _taken
from orchestra.workflows.contracts.merging import Terms


@pytest.mark.parametrize(
    ("there", "redo", "taken"),
    [
        ((), False, "R1"),
        (("R1",), False, "R2"),
        (("R1",), True, "R1"),  # a step that was cut short had made it
        (("R1/contract.yaml",), True, "R2"),
        (("R1/contract.yaml", "R2"), True, "R2"),
        (("R1/contract.yaml", "R2"), False, "R3"),
        (("other",), True, "R1"),
    ],
)
def test_a_request_gets_the_next_number_and_its_folder(
    tmp_path: Path, there: tuple[str, ...], redo: bool, taken: str
) -> None:
    for path in there:
        (tmp_path / path).mkdir(parents=True)
    assert _taken(tmp_path, redo=redo) == taken
    assert (tmp_path / taken).is_dir()


def test_paths_and_words_are_found_in_the_files_of_the_project(tmp_path: Path) -> None:
    for path, text in {"src/a.py": "class LoginService: ...\n", "src/sub/b.py": "def total(): ...\n"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    terms = Terms(("src/", "src/sub", "src/a.py", "db/", "src/c.py"), ("total", "LoginService", "LogoutService"))
    found = _look_up(tmp_path, terms)
    assert found.paths == ("src/", "src/sub", "src/a.py")
    assert sorted(found.identifiers) == ["LoginService", "total"]
    assert _look_up(tmp_path, Terms((), ())) == FoundTerms((), ())
