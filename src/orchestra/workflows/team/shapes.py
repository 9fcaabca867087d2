"""The records and prompts of a team's run: its job, what its agents are asked, what they are shown (S4). Pure.

Rules
1. Artifacts, reviews and answers are data. A model is shown each inside a block that says so, and that nothing inside
   can end; instructions in them are not followed.
2. A prompt is made of its sources: the agent's definition, the direction of the task, the common rules, and named texts
   (`Sources`). They are the inputs of the edition that the call is made in. So a call is made again exactly if one of
   them is another one (docs/design/0011-teams.md).
3. An input that does not exist yet is named as such: the agent begins without it (S4-83).
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from orchestra.core.looks import Looked
from orchestra.core.model import Prompt
from orchestra.core.records import Phase as CorePhase
from orchestra.core.records import Role
from orchestra.core.retry import Retry
from orchestra.core.scopes import Labels
from orchestra.workflows.team.definitions import DECISIONS, Agent, Definition, Phase
from orchestra.workflows.team.replies import KINDS

Native = Literal["draft", "update", "review", "revise", "decide", "build", "settle"]
REPAIRS = 2  # of a reply that cannot be read (C-09)
MOST_QUESTIONS = 3  # replies with questions in one step of an agent
NOT_THERE = "not created yet"


class Given(Struct, frozen=True):
    """A file of an earlier run that this one begins with (S4-57)."""

    path: str
    text: str


class Job(Struct, frozen=True, kw_only=True):
    """The parameters of a team's run, frozen in RUN_CREATED: the whole definition, and the files of the input run."""

    definition: Definition
    inputRun: str = ""
    given: tuple[Given, ...] = ()
    models: tuple[tuple[str, str], ...] = ()  # agents whose own file names a provider
    workers: int = 4  # drafts at a time (C-34)
    timeoutMs: int = 600_000
    retries: int = 1  # S4-76
    backoffSec: float = 2.0

    @property
    def retry(self) -> Retry:
        """How often an agent's call that failed for a technical reason is made again."""
        return Retry(times=self.retries, base_sec=self.backoffSec)


class Action(Struct, frozen=True):
    """One kind of thing that an agent does (surfaces: agent, role and phase of each call)."""

    native: Native
    phase: CorePhase
    role: Role
    turn: int


DRAFT = Action("draft", "execute", "planner", 1)
UPDATE = Action("update", "execute", "planner", 1)
REVIEW = Action("review", "evaluate", "evaluator", 2)
DECIDE = Action("decide", "evaluate", "evaluator", 2)
REVISE = Action("revise", "fix", "planner", 3)
BUILD = Action("build", "execute", "developer", 1)
SETTLE = Action("settle", "execute", "planner", 3)

Text = str | Looked
Sources = Mapping[str, Text]


def labels(action: Action, phase: int, agent: str, target: str, round: int) -> Labels:
    """The names of a step in its events: its phase, turn and round, the agent, the file."""
    names = {
        "stage": phase,
        "turn": action.turn,
        "round": round,
        "native": action.native,
        "agent": agent,
        "target": target,
    }
    return Labels(names, names)


class Work:
    """The job of a run, and how many replies of models came so far: the same number on every replay."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.definition = job.definition
        self.replies = 0


class Brief(Struct, frozen=True):
    """What one call of an agent is made of (rule 2)."""

    work: Work
    agent: Agent
    action: Action
    phase: Phase
    files: tuple[str, ...]  # that the agent writes in this call; of a review: the file that is reviewed
    sources: Sources  # shown to the agent, in this order, by their headings
    round: int = 1

    @property
    def needed(self) -> tuple[str, ...]:
        """The files that the agent has to write: those of a draft that no earlier phase or run made."""
        files = [path for path in self.files if path != DECISIONS] or self.files
        there = {path for path, text in self.sources.items() if text != NOT_THERE}
        return tuple(path for path in files if self.action is DRAFT and path not in there)

    @property
    def inputs(self) -> dict[str, object]:
        """The inputs of the edition that the call is made in."""
        definition = self.work.definition
        return {
            "agent": msgspec.to_builtins(self.agent),
            "direction": definition.task.direction,
            "rules": definition.rules,
            "files": list(self.files),
            **self.sources,
        }

    def prompt(self, answers: Sequence[tuple[str, str]] = (), problem: str = "") -> Prompt:
        """The prompt. `answers` are a person's, to questions of this agent; `problem` is of its last reply."""
        definition = self.work.definition
        told = [f"A person answered your question.\nQuestion: {asked}\nAnswer: {said}" for asked, said in answers]
        parts = [
            f"Task `{definition.task.name}`, its direction:\n{definition.task.direction.strip()}",
            *(block(name, str(text)) for name, text in self.sources.items()),
            "" if self._judges and self.agent.form == "team" else self.agent.prompt.strip(),  # it is about writing
            *told,
            (_ASKED_AGAIN if self._writes_again else _ASKED[self.action.native]).format(files=_names(self.files)),
            f"Your last reply could not be used: {problem.rstrip('.')}. Reply again, as described." if problem else "",
        ]
        return Prompt(self._system(), "\n\n".join(filter(None, parts)))

    def _system(self) -> str:
        definition = self.work.definition
        form = template(_FORMS.get(self.action.native, "write"))
        criterion = self.agent.criterion.strip() if self._judges else ""
        parts = [
            template("agent").format(agent=self.agent.name, team=definition.team.name, phase=self.phase.number),
            f"Your role:\n{self.agent.role.strip()}" if self.agent.role.strip() else "",
            f"Your reviews look at:\n{criterion}" if criterion else "",
            f"Rules of all teams:\n{definition.rules.strip()}" if definition.rules.strip() else "",
            form.format(files=_names(self.files), first=self.files[0] if self.files else "", kinds="|".join(KINDS)),
        ]
        return "\n\n".join(filter(None, parts))

    @property
    def _writes_again(self) -> bool:
        return self.action is DRAFT and bool(self.files) and not self.needed

    @property
    def _judges(self) -> bool:
        return self.action.native in ("review", "decide")


_FORMS = {"review": "review", "decide": "decide"}
_ASKED_AGAIN = "Now bring {files} up to date with your inputs. If nothing is to be changed, reply: No changes"
_ASKED: dict[Native, str] = {
    "draft": "Now write {files}.",
    "update": "Inputs came into being while you wrote. Bring {files} up to date with them, or reply: No changes",
    "review": "Now review {files}.",
    "revise": "Now work the reviews into {files}. If nothing is to be changed, reply: No changes",
    "decide": "Now compare the reasons of both sides and decide each conflict.",
    "build": "",
    "settle": "",
}


@functools.cache
def template(name: str) -> str:
    """The text of a prompt."""
    return importlib.resources.files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8").strip()


def block(name: str, text: str) -> str:
    """A text in a prompt, marked as data (rule 1)."""
    if text == NOT_THERE:
        return f"`{name}`: {NOT_THERE}. Begin without it."
    return f'<data name="{name}">\n{text.rstrip().replace("</data", "&lt;/data")}\n</data>'


def changes(path: str, before: str, after: str) -> str:
    """What changed in a text, as a unified diff."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"{path} before", f"{path} now", lineterm="")
    return "\n".join(lines)


def received(reviews: Iterable[tuple[str, str]]) -> str:
    """The reviews that an agent received, by reviewer, as one text."""
    return "\n\n".join(f"Review of `{reviewer}`:\n\n{text.strip()}" for reviewer, text in reviews)


def _names(files: Sequence[str]) -> str:
    return ", ".join(f"`{path}`" for path in files) or "your file"
