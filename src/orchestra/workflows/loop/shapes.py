"""The records and texts of a loop: the job and the prompts. Pure.

Replies are read by workflows/replies.py.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, convert, to_builtins
from msgspec.structs import replace

from orchestra.core.command import Asker, CommandOutcome, InputFile, typed
from orchestra.core.model import Constraints, Form, Prompt
from orchestra.core.records import Phase, Role
from orchestra.core.retry import Retry
from orchestra.core.scope import Scope
from orchestra.core.shown import Wanted
from orchestra.core.work import EARLIER, Applied, Note
from orchestra.policy.policy import ApprovalPolicy

# 2: files are shown in parts, and models may ask to see more; 3: what a person said stays with the fixer; 4: calls say
# the form of their reply
EDITION = 4
_MOST_EARLIER = 6
_KEPT = ("answer to: ", "a person ")  # how the names of notes begin that all later fixes get


class Job(Struct, frozen=True, kw_only=True):
    """A loop's parameters, frozen in RUN_CREATED."""

    goal: str
    checks: tuple[tuple[str, ...], ...] = ()
    approval: ApprovalPolicy = "always"
    maxFixIterations: int = 3  # S1-45
    evaluator: bool = True
    timeoutMs: int = 600_000
    checkTimeoutMs: int = 300_000
    retries: int = 2
    backoffSec: float = 2.0
    asker: Asker = "person"  # whose wish the checks are
    # files a person opened, `path` or `path:A-B`: every model of the run is shown them, secrets or not
    context: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()  # globs of files that no model of the run is shown
    baseline: bool = False  # run the checks before the plan
    edition: int = 1  # of the prompts: runs of an older edition keep theirs, so that they can go on (EDITION)
    # For a loop that is part of something larger. Unset fields are not recorded, so other runs look as they always did.
    notes: tuple[Note, ...] | UnsetType = UNSET  # texts for planner, developer and fixer: a contract, a design
    plan: str | UnsetType = UNSET  # a given plan: no planner is called
    scope: Scope | UnsetType = UNSET  # the files that patches may change
    explore: str | UnsetType = UNSET  # the workflow that looks for facts and files before the plan (exploring.py)
    agent: str | UnsetType = UNSET  # the name of the developer and fixer in events, scripts and `--role`
    problem: str | UnsetType = UNSET  # what an earlier attempt left to repair: the loop begins with the fixer
    before: tuple[CommandOutcome, ...] | UnsetType = UNSET  # a given baseline: the checks are not run before the plan
    testEnv: tuple[tuple[str, str], ...] | UnsetType = UNSET  # the checks are test runs with these variables
    testFiles: tuple[InputFile, ...] | UnsetType = UNSET  # and see these files

    def writer(self, role: Role) -> str:
        """The agent's name of a call that writes code."""
        return self.agent or role

    @property
    def given_notes(self) -> tuple[Note, ...]:
        """The notes that the job brings along, and its scope in words."""
        scope = (Note("what this run may change", f"{self.scope}.\n"),) if self.scope else ()
        return (*(self.notes or ()), *scope)

    def constraints(self, form: Form) -> Constraints:
        """The constraints of a call whose reply has this form."""
        result = form == "result"  # S1-21
        return Constraints(timeoutMs=self.timeoutMs, patchFirst=result, form=form if self.edition >= 4 else UNSET)

    @property
    def retry(self) -> Retry:
        """How often a model call that failed for a technical reason is made again."""
        return Retry(times=self.retries, base_sec=self.backoffSec)


def as_changed(job: Job, changes: Mapping[str, Any]) -> Job:
    """The job with what a person changed since the run began. The limit of fixes is only ever raised."""
    if not changes:
        return job
    changed = convert({**to_builtins(job), **changes}, Job)
    return replace(changed, maxFixIterations=max(job.maxFixIterations, changed.maxFixIterations))


def earlier_notes(params: Mapping[str, Any]) -> tuple[Note, ...]:
    """The notes about still earlier runs that a run was given, for one that follows it; the newest of them."""
    notes = convert(params.get("notes", ()), tuple[Note, ...])
    return tuple(note for note in notes if note.name.startswith(EARLIER))[-_MOST_EARLIER:]


class Turn(Struct, frozen=True):
    """The loop's position: the phase that writes next, the iteration, and the notes for it."""

    phase: Literal["execute", "fix"]
    iteration: int
    notes: tuple[Note, ...] = ()
    asked: int = 0  # questions in this iteration
    traces: tuple[str, ...] = ()  # output of the checks that failed last
    wanted: tuple[Wanted, ...] = ()  # what a model asked to see; all later calls of the run are shown it
    looked: frozenset[str] = frozenset()  # the phases that asked: each may ask once
    fixes: int = 0  # the fixes begun: iterations after a failure. One after a person's rejection is none
    rejected: tuple[str, ...] = ()  # the digests of the patches that a person rejected

    def answered(self, question: str, text: str) -> Turn:
        """The same phase again, with the answer. This does not count as a fix (G1-3)."""
        return replace(self, notes=(*self.notes, Note(f"answer to: {question}", text)), asked=self.asked + 1)

    def shown(self, wanted: tuple[Wanted, ...]) -> Turn:
        """The same phase again, with what it asked to see."""
        wanted = tuple(dict.fromkeys((*self.wanted, *wanted)))
        return replace(self, asked=self.asked + 1, wanted=wanted, looked=self.looked | {self.phase})

    def told(self, notes: tuple[Note, ...]) -> Turn:
        """The same, with what a person said about a patch."""
        return replace(self, notes=(*self.notes, *notes))

    def fixing(self, *notes: Note, traces: tuple[str, ...] = ()) -> Turn:
        """The next fix, with everything that the person said, and the newest problem only."""
        kept = tuple(note for note in self.notes if note.name.startswith(_KEPT))
        turn = replace(self, phase="fix", iteration=self.iteration + 1, notes=(*kept, *notes), asked=0)
        return replace(turn, traces=traces, fixes=self.fixes + 1)

    def rejecting(self, why: Note, digest: str, edition: int) -> Turn:
        """The next iteration after a person's rejection, which is no fix. The reason stays with all later ones."""
        if edition < 3:
            return replace(self.fixing(why), fixes=self.fixes)
        turn = self.fixing(Note(f"a person rejected iteration {self.iteration}", why.content))
        return replace(turn, fixes=self.fixes, rejected=(*self.rejected, digest), traces=self.traces)


class Change(Struct, frozen=True):
    """The applied patch, for the evaluator: its text, its diffstat, and changed files that affect the checks."""

    files: Applied
    diff: str
    checks: tuple[str, ...]
    untouched: bool = False  # no patch of the run has been applied
    said: tuple[Note, ...] = ()  # what a person said with their own version of the patch


_ADDED = {  # what edition 2 adds to a prompt
    "planner": ("parts", "need"),
    "developer": ("parts", "look"),
    "fixer": ("parts", "look"),
}


@functools.cache
def _template(name: str) -> str:
    return importlib.resources.files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")


def prompt(name: str, job: Job, *, task: str) -> Prompt:
    """The prompt: `prompts/<name>.md` as system text; goal, checks and the current task as user text."""
    checks = "".join(f"- {command_line(argv)}\n" for argv in job.checks) or "- none\n"
    added = _ADDED.get(name, ()) if job.edition >= 2 else ()
    return Prompt(
        system="".join(map(_template, (name, *added))),
        user=f"# Goal\n\n{job.goal}\n\n# Checks that decide\n\n{checks}\n# Your task\n\n{task}\n",
    )


def command_line(argv: tuple[str, ...]) -> str:
    """A command as a person would type it."""
    return typed(argv)


def artifact(phase: Phase, iteration: int) -> str:
    """The stem of an artifact's name, such as `execute/iter-0001` (S1-103 … S1-109)."""
    return f"{phase}/iter-{iteration:04d}"
