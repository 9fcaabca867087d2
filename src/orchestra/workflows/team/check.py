"""What a team will do, before a model is called: calls, files, inputs that come late, and what looks wrong. Pure.

Rules
1. `wrong` are faults across files that make a run pointless; a start refuses them. `notes` are worth a look only.
2. Calls are counted without retries and without decisions about conflicts: one round of reviews and revisions at least,
   two at most (S4-51), and one update of an agent whose input is made during its phase (S4-83).
3. The cost is a limit from above: every text that a call sees counts as a reply of the greatest length. In a phase
   that builds a child run works first, whose calls are not counted here; then the agent writes its file.
4. An agent without a file only reviews, so it needs a phase with others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Literal

from msgspec import Struct

from orchestra.core.records import Role
from orchestra.core.text import estimated_tokens
from orchestra.providers.prices import Price
from orchestra.workflows.team.definitions import (
    DECISIONS,
    MOST_ROUNDS,
    Agent,
    Definition,
    Mode,
    Phase,
    Review,
    Team,
)
from orchestra.workflows.team.sheet import Fault

_OWN_TOKENS = 2_000  # of a call: what the workflow itself says
State = Literal["ready", "late", "missing"]
Limits = Callable[[str, Role], "Limit | None"]  # agent, role -> what its calls may cost; None: unknown


class Call(Struct, frozen=True):
    """A model call that will or may be made."""

    phase: int
    agent: str
    role: Role
    step: Literal["draft", "update", "review", "revision"]
    certain: bool
    texts: int  # how many artifacts and reviews it sees
    tokens: int  # of the definition that it sees


class Limit(Struct, frozen=True):
    """The price of a model, and how long its replies may be."""

    price: Price
    output_tokens: int


class InputState(Struct, frozen=True, rename="camel"):
    """A declared input: made by an earlier phase, during the same phase, or by no agent before."""

    path: str
    state: State


class AgentPart(Struct, frozen=True, rename="camel"):
    """What an agent does in a phase."""

    agent: str
    makes: tuple[str, ...]
    inputs: tuple[InputState, ...]


class PhasePart(Struct, frozen=True, rename="camel"):
    """What happens in a phase."""

    phase: int
    mode: Mode
    agents: tuple[AgentPart, ...]
    reviews: tuple[Review, ...]


class Forecast(Struct, frozen=True, rename="camel", tag="team"):
    """What a team will do: a line of `orchestra team check --json`."""

    team: str
    task: str
    phases: tuple[PhasePart, ...]
    artifacts: tuple[str, ...]
    calls_least: int
    calls_most: int
    child_runs: tuple[Mode, ...]  # not among the calls
    cost_usd_most: float | None  # None: a model has no known price
    notes: tuple[str, ...]
    digest: str


def forecast(
    definition: Definition,
    limits: Limits,
    *,
    checks: bool = True,
    tests: bool = True,
    models: Collection[str] = (),
) -> Forecast:
    """What a run of this definition will do.

    `checks`: the configuration names commands that check a build; `tests`: the project has a test command; `models`:
    the names that an agent's `model` may have.
    """
    made = list(calls(definition))
    team = definition.team
    working = {agent for phase in team.phases for agent in phase.agents}
    return Forecast(
        team=team.name,
        task=definition.task.name,
        phases=tuple(_part(definition, phase) for phase in team.phases),
        artifacts=tuple(one.path for one in team.artifacts if one.owner in working or one.path == DECISIONS),
        calls_least=sum(call.certain for call in made),
        calls_most=len(made),
        child_runs=tuple(phase.mode for phase in team.phases if phase.builds),
        cost_usd_most=cost_at_most(definition, limits),
        notes=(
            *notes(definition),
            *_unused_models(definition, models),
            *(() if checks else _unchecked(team)),
            *(() if tests else untested(team)),
        ),
        digest=definition.digest,
    )


def _part(definition: Definition, phase: Phase) -> PhasePart:
    before = made_before(definition, phase)
    agents = (
        AgentPart(
            agent,
            definition.artifacts_of(agent),
            tuple(
                InputState(path, _state(definition, phase, agent, path)) for path in definition.wanted(agent, before)
            ),
        )
        for agent in phase.agents
    )
    return PhasePart(phase.number, phase.mode, tuple(agents), definition.reviews(phase))


def made_before(definition: Definition, phase: Phase) -> tuple[str, ...]:
    """The artifacts that earlier phases make."""
    earlier = (one for one in definition.team.phases if one.number < phase.number)
    return tuple(
        dict.fromkeys(path for one in earlier for agent in one.agents for path in definition.artifacts_of(agent))
    )


def _state(definition: Definition, phase: Phase, agent: str, path: str) -> State:
    if path in made_before(definition, phase):
        return "ready"
    return "late" if path in definition.late(phase, agent) else "missing"


# -- calls and their cost ---------------------------------------------------------------------------------------------


def calls(definition: Definition) -> Iterator[Call]:
    """The calls of a run (rule 2), those of child runs not included."""
    for phase in definition.team.phases:
        yield from _calls(definition, phase)


def _calls(definition: Definition, phase: Phase) -> Iterator[Call]:
    before = made_before(definition, phase)
    sees = {agent: len(definition.wanted(agent, before)) for agent in phase.agents}
    reads = {agent: _tokens(definition, definition.agent(agent)) for agent in phase.agents}
    makes = {agent: len(definition.artifacts_of(agent)) for agent in phase.agents}
    for agent in (name for name in phase.agents if makes[name]):
        yield Call(phase.number, agent, "planner", "draft", True, sees[agent], reads[agent])
        if late := definition.late(phase, agent):
            certain = not set(late).issubset(before)  # one that an earlier phase made may stay as it is
            yield Call(phase.number, agent, "planner", "update", certain, sees[agent] + makes[agent], reads[agent])
    reviews = definition.reviews(phase)
    for certain in (True, *[False] * (MOST_ROUNDS - 1)):
        for review in reviews:
            one = review.reviewer
            yield Call(phase.number, one, "evaluator", "review", certain, sees[one] + 1 + (not certain), reads[one])
        for agent in phase.agents:
            if got := sum(review.author == agent for review in reviews):
                texts = sees[agent] + makes[agent] + got
                yield Call(phase.number, agent, "planner", "revision", certain, texts, reads[agent])


def _tokens(definition: Definition, agent: Agent) -> int:
    said = (definition.rules, definition.task.direction, agent.role, agent.criterion, agent.prompt)
    return _OWN_TOKENS + sum(map(estimated_tokens, said))


def cost_at_most(definition: Definition, limits: Limits) -> float | None:
    """The most that the calls can cost in US dollars (rule 3); None if a model has no known price."""
    total = 0.0
    longest = [limit.output_tokens for agent in definition.agents if (limit := limits(agent.name, "planner"))]
    for call in calls(definition):
        limit = limits(call.agent, call.role)
        if limit is None:
            return None
        total += limit.price.at_most(call.tokens + call.texts * max(longest, default=0), limit.output_tokens)
    return total


# -- what is wrong ----------------------------------------------------------------------------------------------------


def wrong(definition: Definition) -> Iterator[Fault]:
    """Why a run would be pointless (rule 1): a phase in which no agent has a file to write."""
    team = definition.team
    for phase in team.phases:
        if not phase.builds and not any(definition.artifacts_of(agent) for agent in phase.agents):
            owners = " or ".join(f"`{agent}`" for agent in phase.agents)
            expected = f"a row with the owner {owners} in the table of artifacts"
            yield Fault(team.source, phase.line, f"phase {phase.number} makes no artifact", expected)


def notes(definition: Definition) -> Iterator[str]:
    """What is worth a look (rule 1), each as `PATH:LINE: text` or `PATH: text`."""
    team = definition.team
    working = {agent for phase in team.phases for agent in phase.agents}
    for member in team.members:
        if member.agent not in working:
            yield f"{team.source}:{member.line}: `{member.agent}` is in no phase, so it does nothing"
    for artifact in team.artifacts:
        if artifact.owner not in working and artifact.path != DECISIONS:
            yield f"{team.source}:{artifact.line}: no phase makes `{artifact.path}`: `{artifact.owner}` is in none"
    for agent in definition.agents:
        yield from _output_notes(definition, agent)
        if agent.tools:
            yield f"{agent.source}: `tools` has no effect: agents of a team return text, and orchestra writes the files"
    for phase in team.phases:
        yield from _phase_notes(definition, phase)


def _unused_models(definition: Definition, models: Collection[str]) -> Iterator[str]:
    """The agents whose `model` names nothing that the configuration has."""
    for agent in definition.agents:
        name = agent.model.partition(":")[0]
        if name and name not in models:
            cure = f"give it one in orchestra.config.yaml (providers: {{{name}: anthropic:MODEL}})"
            yield f"{agent.source}: `model: {agent.model}` is no entry of `providers:`, so it has no effect: {cure}"


def _unchecked(team: Team) -> Iterator[str]:
    for phase in team.phases:
        if phase.mode == "loop":
            what = f"phase {phase.number} builds, and no command checks the result"
            yield f"{team.source}:{phase.line}: {what}: name some in orchestra.config.yaml (loop: checks)"


def untested(team: Team) -> Iterator[str]:
    """The phases that cannot build in a project without a test command."""
    for phase in team.phases:
        if phase.mode == "contracts":
            what = f"phase {phase.number} builds test first, and no test command was found"
            cure = 'name one in orchestra.config.yaml (contracts: {test: "python3 -m unittest"})'
            yield f"{team.source}:{phase.line}: {what}: {cure}"


def _output_notes(definition: Definition, agent: Agent) -> Iterator[str]:
    own = definition.artifacts_of(agent.name)
    for path in agent.outputs:
        if path in own or path == DECISIONS:
            continue
        other = definition.owner(path)
        why = f"belongs to `{other}`" if other else "is not in the table of artifacts"
        yield f"{agent.source}: its output `{path}` {why} in {definition.team.source}, so it is kept out (S4-65)"
    for artifact in definition.team.artifacts:
        if artifact.owner == agent.name and agent.form == "team" and artifact.path not in agent.outputs:
            where = f"{definition.team.source}:{artifact.line}"
            yield f"{where}: `{agent.name}` makes `{artifact.path}`, which {agent.source} does not declare"


def _phase_notes(definition: Definition, phase: Phase) -> Iterator[str]:
    before = made_before(definition, phase)
    targets = {(review.reviewer, review.target) for review in definition.reviews(phase)}
    for name in phase.agents:
        agent = definition.agent(name)
        absent = [
            path for path in definition.wanted(name, before) if _state(definition, phase, name, path) == "missing"
        ]
        if never := [path for path in absent if not definition.owner(path)]:
            what = f"no agent of the team makes its inputs {', '.join(never)}"
            yield f"{agent.source}: {what}; give --input-run RUN, or it begins without them"
        if later := [path for path in absent if definition.owner(path)]:
            yield f"{agent.source}: in phase {phase.number} it begins without {', '.join(later)}, made in a later phase"
        if phase.mode == "turns" and not definition.artifacts_of(name):
            yield f"{agent.source}: it makes no artifact in phase {phase.number}, so it only reviews"
        if phase.mode == "turns" and agent.reviews and (name, agent.reviews) not in targets:
            what = f"its review target `{agent.reviews}` is no draft of another agent in phase {phase.number}"
            yield f"{agent.source}: {what}, so it reviews every other draft"
