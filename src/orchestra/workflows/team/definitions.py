"""What a team is: the records that the Markdown files of S4 become, and the questions that a run asks of them. Pure.

Rules
1. A run records its whole definition in its job. So a run that waits goes on with the definition it began with, also
   after a file was edited. `digest` tells two definitions apart.
2. Agents, teams and tasks are named by their files (G4-2): `tech-architect` is `agents/tech-architect.md`.
3. An artifact's path is `artifacts/NAME` everywhere. NAME has no folder: folders below `artifacts/` are for working
   files (C-25).
4. Only artifacts in the team's table are made (S4-65, S4-104), each by its owner. `decisions.json` is always allowed
   (G4-9), whether or not the table has it; nobody reviews it.
5. A declared review target counts if another agent of the same phase drafts it; otherwise the agent reviews every other
   draft of the phase (G4-6). Agents are shared by teams (S4-11), so a target may be missing in one of them.
6. `line` fields are for messages about the files. They are no part of the digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

Mode = Literal["solo", "turns", "loop", "contracts"]
FOLDER = "artifacts/"
DECISIONS = f"{FOLDER}decisions.json"
MOST_ROUNDS = 2  # S4-51


class Agent(Struct, frozen=True, omit_defaults=True):
    """An agent: its role, its files and its prompt (S4-105)."""

    name: str
    role: str
    prompt: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    reviews: str = ""  # the artifact it reviews, if it declares one
    criterion: str = ""  # what its review looks at
    model: str = ""
    tools: tuple[str, ...] = ()
    title: str = ""  # the name for people: "Tech Architect", "기획자"
    description: str = ""
    form: Literal["team", "claude"] = "team"  # claude: a file of `.claude/agents`, whose body is the prompt
    source: str = ""  # the file, from the project's folder


class Member(Struct, frozen=True, omit_defaults=True):
    """A row of a team's table of members."""

    agent: str
    role: str = ""
    line: int = 0


class Phase(Struct, frozen=True, omit_defaults=True):
    """A phase: its agents, in the order of the table."""

    number: int
    agents: tuple[str, ...]
    mode: Mode = "solo"
    line: int = 0

    @property
    def builds(self) -> bool:
        """Whether another workflow writes code in this phase (building.py)."""
        return self.mode not in ("solo", "turns")


class Artifact(Struct, frozen=True, omit_defaults=True):
    """A file that the team makes, and the agent that makes it."""

    path: str
    owner: str
    about: str = ""
    line: int = 0


class Team(Struct, frozen=True, omit_defaults=True):
    """A team file: `orchestrators/NAME.md`."""

    name: str
    members: tuple[Member, ...]
    phases: tuple[Phase, ...]  # in the order of their numbers
    artifacts: tuple[Artifact, ...] = ()
    title: str = ""
    about: str = ""
    flow: str = ""
    input: str = ""
    output: str = ""
    source: str = ""


class Task(Struct, frozen=True, omit_defaults=True):
    """A task file: `tasks/NAME.md`."""

    name: str
    teams: tuple[str, ...]
    direction: str
    title: str = ""
    source: str = ""
    line: int = 0  # of its table of teams


class Review(Struct, frozen=True):
    """One review of turn 2: `reviewer` reviews the artifact `target` of the agent `author`."""

    reviewer: str
    author: str
    target: str
    file: str  # reviews/phase2-research-reviews-tech-architecture.md


class Definition(Struct, frozen=True, omit_defaults=True):
    """Everything that one run of a team is made of."""

    team: Team
    agents: tuple[Agent, ...]  # those of the phases, each once
    task: Task
    rules: str = ""  # orchestrator.md

    def agent(self, name: str) -> Agent:
        """The agent of this name; KeyError if the team has none."""
        for agent in self.agents:
            if agent.name == name:
                return agent
        raise KeyError(name)

    def artifacts_of(self, agent: str) -> tuple[str, ...]:
        """The paths that an agent makes, in the order of the team's table (rule 4)."""
        return tuple(one.path for one in self.team.artifacts if one.owner == agent)

    def owner(self, path: str) -> str:
        """The agent that makes an artifact; empty if no agent of this team does."""
        return next((one.owner for one in self.team.artifacts if one.path == path), "")

    def wanted(self, agent: str, existing: Collection[str]) -> tuple[str, ...]:
        """The artifacts that an agent is given: its declared inputs. A Claude agent declares none: all that exist."""
        found = self.agent(agent)
        if found.form == "claude" and not found.inputs:
            own = self.artifacts_of(agent)
            return tuple(sorted(path for path in existing if path not in own))
        return found.inputs

    def missing(self, agent: str, existing: Collection[str]) -> tuple[str, ...]:
        """The declared inputs of an agent that do not exist yet; it starts without them (S4-83)."""
        return tuple(path for path in self.wanted(agent, existing) if path not in existing)

    def late(self, phase: Phase, agent: str) -> tuple[str, ...]:
        """The declared inputs of an agent that another agent makes in the same phase (S4-82)."""
        others = {path for other in phase.agents if other != agent for path in self.artifacts_of(other)}
        return tuple(path for path in self.agent(agent).inputs if path in others)

    def reviews(self, phase: Phase) -> tuple[Review, ...]:
        """Who reviews what in a phase, in the order of its agents (rule 5); nothing in a phase without turns."""
        return tuple(self._reviews(phase)) if phase.mode == "turns" else ()

    def _reviews(self, phase: Phase) -> Iterator[Review]:
        drafts = [(author, path) for author in phase.agents for path in self.artifacts_of(author) if path != DECISIONS]
        for reviewer in phase.agents:
            others = [(author, path) for author, path in drafts if author != reviewer]
            declared = [(author, path) for author, path in others if path == self.agent(reviewer).reviews]
            for author, path in declared or others:
                yield Review(reviewer, author, path, self.review_file(phase.number, reviewer, path))

    def review_file(self, phase: int, reviewer: str, target: str) -> str:
        """The file of a review (S4-48); the target is the artifact's name without extension, if that is unique."""
        name = target.removeprefix(FOLDER)
        alike = [one.path for one in self.team.artifacts if stem(one.path) == stem(target)]
        short = stem(target) if len(alike) <= 1 else name.replace(".", "-")
        return f"reviews/phase{phase}-{reviewer}-reviews-{short}.md"

    @property
    def digest(self) -> str:
        """`sha256:<hex>` of what the files say (rule 6)."""
        data = msgspec.json.encode(_without_lines(msgspec.to_builtins(self)), order="sorted")
        return f"sha256:{hashlib.sha256(data).hexdigest()}"


def stem(path: str) -> str:
    """An artifact's name without folder and extension."""
    name = path.removeprefix(FOLDER)
    return name.rpartition(".")[0] or name


def _without_lines(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_lines(inner) for key, inner in value.items() if key != "line"}
    return [_without_lines(inner) for inner in value] if isinstance(value, list | tuple) else value
