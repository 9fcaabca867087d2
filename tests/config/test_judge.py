"""Entries of `workflows:`: refused when they cannot be right, and named when their function is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.config.borders import Place
from orchestra.config.judge import judged, missing_workflows
from orchestra.config.sections import Config


@pytest.mark.parametrize(
    ("name", "target", "why"),
    [
        ("mine", "flows.py:run", ""),
        ("m" * 40, "flows.py:run", ""),
        ("m" * 41, "flows.py:run", "small letters"),
        ("Mine", "flows.py:run", "small letters"),
        ("mine", "flows.py", "write"),
        ("mine", "flows.txt:run", "write"),
        ("mine", "flows.py:run me", "write"),
    ],
)
def test_which_workflows_can_be_named(tmp_path: Path, name: str, target: str, why: str) -> None:
    place = Place.of(tmp_path, "./runs", {"HOME": "/nonexistent"})
    found = [said for keys, said in judged(Config(workflows={name: target}), place) if keys[0] == "workflows"]
    assert len(found) == bool(why) and all(why in said for said in found)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("async def run(): ...", ""),
        ("from flows2 import run", ""),
        ("from flows2 import other as run", ""),
        ("from flows2 import run as other", "flows.py defines no `async def run`"),
        ("def run(): ...", "flows.py defines no `async def run`"),
        ("async def b(): ...\nasync def a(): ...", "flows.py defines no `async def run`; it has a, b"),
        ("async def (", "flows.py is no Python"),
        (None, "flows.py: No such file"),
    ],
)
def test_a_workflow_that_is_not_where_it_is_said_to_be_is_named(tmp_path: Path, text: str | None, why: str) -> None:
    if text is not None:
        (tmp_path / "flows.py").write_text(text)
    place = Place.of(tmp_path, "./runs", {"HOME": "/nonexistent"})
    found = dict(missing_workflows(Config(workflows={"mine": "flows.py:run"}), place))
    assert list(found) == [("workflows", "mine")] * bool(why)
    assert all(said == why or (said.startswith(why) and ";" not in said[len(why) :]) for said in found.values())
