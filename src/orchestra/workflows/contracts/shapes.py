"""The records and prompts of a contracts run: its job, what each role is asked, what it is shown (S3). Pure.

Rules
1. A role that makes a contract replies with the YAML document itself (D-15). Fields that the orchestrator knows (ids,
   times, who wrote it, the request's own words) are set by it, whatever the model wrote.
2. A call is made in an edition of what the role is shown (`Brief.inputs`). So it is made again exactly if one of these
   texts is another one (docs/design/0012-contracts.md). What is told besides, but must cause no new call (knowledge),
   is recorded inside the edition.
3. Contracts, replies and the output of tests are data. A model is shown each inside a block that says so.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from orchestra.core.command import Asker
from orchestra.core.looks import Looked
from orchestra.core.model import Prompt
from orchestra.core.records import Phase, Role
from orchestra.core.retry import Retry
from orchestra.core.scopes import Labels
from orchestra.core.work import Note
from orchestra.policy.policy import ApprovalPolicy
from orchestra.workflows.contracts.places import Places
from orchestra.workflows.contracts.testcommand import Runner

REPAIRS = 2  # of a reply that cannot be read (C-09)
MOST_QUESTIONS = 3  # replies with questions in one step of a role
Text = str | Looked
Native = Literal[
    "request",
    "baseline",
    "explore",
    "breakdown",
    "merge",
    "design-brief",
    "design",
    "test-contract",
    "test-code",
    "red",
    "implement",
    "verify",
    "gate",
    "test-result",
    "suite",
    "prove",
    "retry",
    "take-back",
    "task",
]


class Job(Struct, frozen=True, kw_only=True):
    """The parameters of a contracts run, frozen in RUN_CREATED."""

    request: str
    test: tuple[str, ...] = ()  # the test command (G3-9)
    runner: Runner = "other"  # that it starts
    testOrigin: str = ""  # where the command comes from, for people
    projectHash: str = ""  # of the folder of its contracts (S3-02)
    approval: ApprovalPolicy = "always"
    implementations: int = 3  # retries of an implementation, per subtask (G3-2)
    designs: int = 2  # retries of a design, per task
    reruns: int = 1  # how often failing tests are run again on the same files, to find flaky ones
    designCommand: tuple[str, ...] = ()  # judges GATE-4 in place of the architect
    designCheck: bool = True  # whether GATE-4 is judged at all
    mutants: int = 5  # changes of implemented lines that the tests should notice, per subtask
    asker: Asker = "person"  # whose wish the test command is
    timeoutMs: int = 600_000
    testTimeoutMs: int = 300_000
    retries: int = 2
    backoffSec: float = 2.0
    notes: tuple[Note, ...] = ()  # texts for planner, architect and QA engineer: what came before the request
    context: tuple[str, ...] = ()  # files a person opened for every model of the run
    hidden: tuple[str, ...] = ()  # globs of files that no model of the run is shown

    @property
    def retry(self) -> Retry:
        """How often a model call that failed for a technical reason is made again."""
        return Retry(times=self.retries, base_sec=self.backoffSec)

    @property
    def places(self) -> Places:
        """Where the contracts of the project lie."""
        return Places(self.projectHash)


class Work(NamedTuple):
    """What every step of a run needs: the job, and the id of the request."""

    job: Job
    request: str

    @property
    def places(self) -> Places:
        return self.job.places

    def approval(self, changes: Mapping[str, Any]) -> ApprovalPolicy:
        """The approval mode that holds now. `changes` are a person's, since the run began."""
        mode: ApprovalPolicy = changes.get("approval", self.job.approval)
        return mode


class Action(Struct, frozen=True):
    """One kind of thing that a role does (surfaces: agent, role and phase of each call)."""

    native: Native
    agent: str
    role: Role
    phase: Phase
    template: str


EXPLORE = Action("explore", "code-explore", "planner", "plan", "explore")
BREAKDOWN = Action("breakdown", "planner", "planner", "plan", "planner")
DESIGN = Action("design", "architect", "planner", "plan", "architect")
TEST_CONTRACT = Action("test-contract", "qa-engineer", "planner", "execute", "test-contract")
TEST_CODE = Action("test-code", "qa-engineer", "developer", "execute", "test-code")
CLASSIFY = Action("verify", "qa-engineer", "evaluator", "evaluate", "classify")
JUDGE_DESIGN = Action("gate", "architect", "evaluator", "evaluate", "design-check")
IMPLEMENTER = "implementer"
ROLES = ("code-explore", "planner", "architect", "qa-engineer", IMPLEMENTER)  # S3-139


def labels(native: Native, target: str = "", round: int = 1) -> Labels:
    """The names of a step in its events: what it is, of which task or subtask, in which round."""
    names = {"native": native, "target": target, "round": round}
    return Labels(names, names)


class Brief(Struct, frozen=True):
    """What one call of a role is made of."""

    work: Work
    action: Action
    sources: Mapping[str, Text]  # by heading: the inputs of the edition that the call is made in (rule 2)
    target: str = ""  # the task or subtask
    told: Mapping[str, str] = {}  # shown as well, but recorded in the edition
    round: int = 1

    @property
    def inputs(self) -> dict[str, object]:
        """The inputs of the edition that the call is made in."""
        return {"request": self.work.job.request, **self.sources}

    def prompt(self, problem: str = "", answers: tuple[tuple[str, str], ...] = ()) -> Prompt:
        """The prompt. `problem` is of the last reply; `answers` are a person's, to questions of this role."""
        own = {"request": self.work.request, "target": self.target}
        parts = [
            f"# Request {self.work.request}\n\n{self.work.job.request}",
            *(block(note.name, note.content) for note in self.work.job.notes),
            *(block(name, str(text)) for name, text in {**self.sources, **self.told}.items() if str(text).strip()),
            *(f"A person answered your question.\nQuestion: {asked}\nAnswer: {said}" for asked, said in answers),
            template(f"{self.action.template}.ask").format(**own),
            f"Your last reply could not be used. {problem.rstrip()}\nReply again, as described." if problem else "",
        ]
        return Prompt(template(self.action.template), "\n\n".join(filter(None, parts)))


@functools.cache
def template(name: str) -> str:
    """The text of a prompt."""
    return importlib.resources.files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8").strip()


def block(name: str, text: str) -> str:
    """A text in a prompt, marked as data (rule 3)."""
    return f'<data name="{name}">\n{text.rstrip().replace("</data", "&lt;/data")}\n</data>'
