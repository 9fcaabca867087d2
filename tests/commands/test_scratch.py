"""Where commands write: what an earlier life left there decides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.commands.scratch import Scratch


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path / "scratch", "run-1", tmp_path / "project")


@pytest.mark.parametrize("left", ["nothing", "an empty folder", "a full folder", "a file", "a link"])
def test_a_fresh_folder_is_empty_whatever_was_there(scratch: Scratch, tmp_path: Path, left: str) -> None:
    folder = scratch.fresh("a")
    match left:
        case "nothing":
            folder.rmdir()
        case "a full folder":
            (folder / "up" / "x").mkdir(parents=True)
        case "a file":
            folder.rmdir()
            folder.touch()
        case "a link":
            folder.rmdir()
            (tmp_path / "elsewhere").mkdir()
            folder.symlink_to(tmp_path / "elsewhere")
    assert scratch.fresh("a", mode=0o700) == folder
    assert not folder.is_symlink() and list(folder.iterdir()) == [] and folder.stat().st_mode & 0o777 == 0o700


def test_layers_of_an_earlier_attempt_are_gone_with_its_folder(scratch: Scratch) -> None:
    upper = scratch.fresh("a") / "up"
    upper.mkdir()
    scratch.remember("a", (upper,))
    assert scratch.layers("a") == (upper,)
    scratch.clear("a")
    assert scratch.layers("a") == () and not upper.exists()
    scratch.clear("a")


def test_a_command_without_a_folder_of_its_own_hands_on_the_layers_it_saw(scratch: Scratch) -> None:
    upper = scratch.fresh("a") / "up"
    upper.mkdir()
    scratch.clear("b")
    scratch.remember("b", (upper,))
    assert scratch.layers("b") == (upper,)
