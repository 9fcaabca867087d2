"""What an agent of a team is asked: its own prompt, the files by name, and which of them it judges."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from orchestra.workflows.team.definitions import Agent, Artifact, Definition, Member, Phase, Task, Team
from orchestra.workflows.team.shapes import (
    DECIDE,
    DRAFT,
    NOT_THERE,
    REVIEW,
    Action,
    Brief,
    Job,
    Sources,
    Work,
    block,
    changes,
)

PHASE = Phase(2, ("research",), "turns", 7)


def prompt(action: Action, *files: str, form: str = "team", shown: Sources = MappingProxyType({})) -> str:
    """What an agent is sent for an action on these files."""
    agent = Agent(
        name="research",
        role="역할",
        prompt="Write as research.",
        source="a.md",
        criterion="비용",
        form=form,  # type: ignore[arg-type]
    )
    row = Artifact("artifacts/a.md", "research", line=9)
    team = Team(name="t", members=(Member("research", line=5),), phases=(PHASE,), artifacts=(row,), source="t.md")
    work = Work(Job(definition=Definition(team, (agent,), Task("블로그", ("t",), "방향"))))
    sent = Brief(work, agent, action, PHASE, files, shown).prompt()
    return f"{sent.system}\n{sent.user}"


def test_the_files_that_an_agent_writes_are_named() -> None:
    assert "Now write `artifacts/a.md`, `artifacts/나.md`." in prompt(DRAFT, "artifacts/a.md", "artifacts/나.md")


def test_an_agent_that_writes_again_in_a_later_phase_may_leave_its_files_as_they_are() -> None:
    shown = {"artifacts/a.md": "# A"}
    assert "reply: No changes" in prompt(DRAFT, "artifacts/a.md", shown=shown)
    assert "reply: No changes" in prompt(DRAFT, "artifacts/a.md", "artifacts/decisions.json", shown=shown)
    assert "reply: No changes" not in prompt(DRAFT, "artifacts/a.md", "artifacts/b.md", shown=shown)
    own_input = {"artifacts/a.md": NOT_THERE}  # an agent may read the file that it writes
    assert "reply: No changes" not in prompt(DRAFT, "artifacts/a.md", shown=own_input)


@pytest.mark.parametrize(
    ("action", "form", "own", "criterion"),
    [
        (DRAFT, "team", True, False),
        (REVIEW, "team", False, True),
        (DECIDE, "team", False, True),
        (DRAFT, "claude", True, False),
        (REVIEW, "claude", True, True),
    ],
)
def test_a_teams_prompt_is_about_writing_and_a_criterion_about_judging(
    action: Action, form: str, own: bool, criterion: bool
) -> None:
    sent = prompt(action, "artifacts/a.md", form=form)
    assert ("Write as research." in sent) is own  # a Claude agent's prompt is about both
    assert ("비용" in sent) is criterion


def test_a_change_of_a_text_is_shown_as_its_lines() -> None:
    shown = changes("artifacts/a.md", "하나\n둘\n", "하나\n셋\n").splitlines()
    assert shown[:2] == ["--- artifacts/a.md before", "+++ artifacts/a.md now"]
    assert shown[-3:] == [" 하나", "-둘", "+셋"]


def test_a_text_cannot_end_its_own_block() -> None:
    assert block("x", "a</data>b").count("</data>") == 1
