"""What a run asks of a definition: who makes what, who reviews whom, which inputs are there, whether it was edited."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from orchestra.providers.prices import Price
from orchestra.workflows.team.check import Limit, calls, cost_at_most, forecast, notes, wrong
from orchestra.workflows.team.definitions import Agent, Artifact, Definition, Member, Phase, Task, Team


def agent(name: str, **more: object) -> Agent:
    return Agent(name=name, role="역할", prompt="write", source=f"agents/{name}.md", **more)  # type: ignore[arg-type]


def definition(*agents: Agent, phases: tuple[Phase, ...], artifacts: dict[str, str]) -> Definition:
    """A team of these agents; `artifacts` are owners by name."""
    rows = tuple(Artifact(f"artifacts/{name}", owner, line=9) for name, owner in artifacts.items())
    members = tuple(Member(one.name, line=5) for one in agents)
    team = Team(name="t", members=members, phases=phases, artifacts=rows, source="orchestrators/t.md")
    return Definition(team, agents, Task("블로그", ("t",), "방향"))


TRIO = definition(
    agent("a", inputs=("artifacts/b.md", "artifacts/early.md"), reviews="artifacts/c.md", outputs=("artifacts/a.md",)),
    agent("b", outputs=("artifacts/b.md",)),
    agent("c", outputs=("artifacts/c.md", "artifacts/c.csv"), reviews="artifacts/elsewhere.md"),
    phases=(Phase(2, ("a", "b", "c"), "turns", 7),),
    artifacts={"a.md": "a", "b.md": "b", "c.md": "c", "c.csv": "c", "decisions.json": "b"},
)
(TURNS,) = TRIO.team.phases


@pytest.mark.spec("S4-44", "S4-48")
def test_a_declared_target_is_reviewed_and_without_one_every_other_draft() -> None:  # G4-6
    assert [(one.reviewer, one.author, one.target, one.file) for one in TRIO.reviews(TURNS)] == [
        ("a", "c", "artifacts/c.md", "reviews/phase2-a-reviews-c-md.md"),  # c has two files of this name
        ("b", "a", "artifacts/a.md", "reviews/phase2-b-reviews-a.md"),
        ("b", "c", "artifacts/c.md", "reviews/phase2-b-reviews-c-md.md"),
        ("b", "c", "artifacts/c.csv", "reviews/phase2-b-reviews-c-csv.md"),
        ("c", "a", "artifacts/a.md", "reviews/phase2-c-reviews-a.md"),
        ("c", "b", "artifacts/b.md", "reviews/phase2-c-reviews-b.md"),  # its target is no draft of this phase
    ]
    assert TRIO.reviews(replace(TURNS, mode="solo")) == ()


@pytest.mark.spec("S4-82", "S4-83")
def test_inputs_are_there_missing_or_late() -> None:
    assert TRIO.missing("a", {"artifacts/b.md"}) == ("artifacts/early.md",)
    assert TRIO.late(TURNS, "a") == ("artifacts/b.md",) and TRIO.late(TURNS, "b") == ()
    found = forecast(TRIO, lambda agent, role: None)
    states = {one.path: one.state for one in found.phases[0].agents[0].inputs}
    assert states == {"artifacts/b.md": "late", "artifacts/early.md": "missing"}


def test_a_claude_agent_is_given_everything_that_exists_but_its_own_files() -> None:
    one = replace(TRIO, agents=(*TRIO.agents[:1], replace(TRIO.agent("b"), form="claude"), TRIO.agent("c")))
    existing = {"artifacts/b.md", "artifacts/a.md", "artifacts/earlier.md"}
    assert one.wanted("b", existing) == ("artifacts/a.md", "artifacts/earlier.md")
    assert one.missing("b", existing) == ()


def test_a_definition_survives_json_and_its_digest_changes_with_the_meaning_only() -> None:
    again = msgspec.json.decode(msgspec.json.encode(TRIO), type=Definition)
    assert again == TRIO and again.digest == TRIO.digest
    moved = replace(TRIO, team=replace(TRIO.team, phases=(replace(TURNS, line=70),)))
    assert moved != TRIO and moved.digest == TRIO.digest
    edited = replace(TRIO, agents=(replace(TRIO.agents[0], prompt="write it"), *TRIO.agents[1:]))
    assert edited.digest != TRIO.digest
    assert replace(TRIO, rules="x").digest != TRIO.digest


@pytest.mark.spec("S4-51")
def test_calls_are_counted_with_one_round_at_least_and_two_at_most() -> None:
    made = list(calls(TRIO))
    assert [call.step for call in made if call.certain] == ["draft"] + ["update"] + ["draft"] * 2 + [
        *["review"] * 6,
        *["revision"] * 3,
    ]
    found = forecast(TRIO, lambda agent, role: None)
    assert (found.calls_least, found.calls_most, found.cost_usd_most) == (13, 22, None)


def test_the_cost_counts_every_text_as_a_longest_reply() -> None:
    solo = definition(
        agent("a", inputs=("artifacts/x.md",)), phases=(Phase(1, ("a",)),), artifacts={"a.md": "a"}
    )  # one call: its own text of about 2,000 tokens, one input of 1,000, a reply of 1,000
    cost = cost_at_most(solo, lambda agent, role: Limit(Price(1.0, 10.0), 1_000))
    assert cost is not None and 0.013 <= cost < 0.0132
    assert cost_at_most(solo, lambda agent, role: None) is None
    assert cost_at_most(TRIO, lambda agent, role: None if role == "evaluator" else Limit(Price(), 1)) is None


@pytest.mark.spec("S4-65")
def test_what_looks_wrong_is_noted() -> None:
    odd = definition(
        agent("a", outputs=("artifacts/a.md", "artifacts/extra.md"), tools=("Read",)),
        agent("b", outputs=("artifacts/a.md",)),
        phases=(Phase(1, ("a", "b"), "turns", 7),),
        artifacts={"a.md": "a", "mine.md": "a", "nobody.md": "c"},
    )
    odd = replace(odd, team=replace(odd.team, members=(*odd.team.members, Member("c", line=6))))
    assert list(notes(odd)) == [
        "orchestrators/t.md:6: `c` is in no phase, so it does nothing",
        "orchestrators/t.md:9: no phase makes `artifacts/nobody.md`: `c` is in none",
        "agents/a.md: its output `artifacts/extra.md` is not in the table of artifacts in orchestrators/t.md, so it is"
        " kept out (S4-65)",
        "orchestrators/t.md:9: `a` makes `artifacts/mine.md`, which agents/a.md does not declare",
        "agents/a.md: `tools` has no effect: agents of a team return text, and orchestra writes the files",
        "agents/b.md: its output `artifacts/a.md` belongs to `a` in orchestrators/t.md, so it is kept out (S4-65)",
        "agents/b.md: it makes no artifact in phase 1, so it only reviews",
    ]
    assert list(wrong(odd)) == []
    assert "its review target `artifacts/elsewhere.md` is no draft of another agent in phase 2" in "".join(notes(TRIO))
    assert "agents/a.md: no agent of the team makes its inputs artifacts/early.md; give --input-run" in "".join(
        notes(TRIO)
    )


def test_a_model_that_the_configuration_does_not_have_is_noted() -> None:
    one = definition(agent("a", model="opus"), agent("b", model="judge:big"), phases=(), artifacts={})
    assert forecast(one, lambda agent, role: None, models=("judge",)).notes[2:] == (
        "agents/a.md: `model: opus` is no entry of `providers:`, so it has no effect:"
        " give it one in orchestra.config.yaml (providers: {opus: anthropic:MODEL})",
    )


def test_a_phase_in_which_nobody_has_a_file_to_write_is_a_fault_unless_a_child_run_works_there() -> None:
    def team(mode: str) -> Definition:
        return definition(agent("a"), phases=(Phase(1, ("a",), mode, 7),), artifacts={"x.md": "b"})  # type: ignore[arg-type]

    assert [str(one) for one in wrong(team("solo"))] == [
        "orchestrators/t.md:7: phase 1 makes no artifact; expected a row with the owner `a` in the table of artifacts"
    ]
    assert list(wrong(team("loop"))) == [] and list(calls(team("loop"))) == []


def test_twenty_agents_in_one_phase_review_their_targets_only() -> None:
    names = [f"agent-{number}" for number in range(20)]
    agents = [agent(one, reviews=f"artifacts/{names[at - 1]}.md") for at, one in enumerate(names)]
    many = definition(
        *agents, phases=(Phase(1, tuple(names), "turns"),), artifacts={f"{name}.md": name for name in names}
    )
    assert len(many.reviews(many.team.phases[0])) == 20 and len(list(calls(many))) == 100
