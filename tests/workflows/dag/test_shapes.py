"""What a task graph's planner is told, by the edition of the prompts that its run began with."""

from __future__ import annotations

import pytest

from orchestra.workflows.dag.shapes import fill, system_text


@pytest.mark.parametrize(
    ("agent", "edition", "told"),
    [("planner", 1, False), ("planner", 2, True), ("summarizer", 2, False)],
)
def test_a_planner_is_told_how_to_ask_from_edition_2_on(agent: str, edition: int, told: bool) -> None:
    assert ("asking is never expected" in system_text(agent, edition)) is told


def test_only_known_placeholders_are_filled_and_each_once() -> None:
    assert fill("{a} {b} {{c}} {", {"a": "{b}", "c": "y"}) == "{b} {b} {y} {"
