"""The records and texts of a loop: the job, the prompts, and the evaluator's decision. Pure.

Replies of the developer and the fixer are read by orchestra.patch (S1 §5).
"""

from __future__ import annotations

import functools
import importlib.resources
import re
import shlex
from typing import Literal

from msgspec import Struct

from orchestra.core.errors import ContractError
from orchestra.core.model import Prompt
from orchestra.core.records import Phase
from orchestra.core.work import Asker, CommandOutcome, ModelReply, Note, Refusal
from orchestra.patch.diff import parse_diff
from orchestra.patch.result import Ask, Noop, Patch, Unparsable, parse_result
from orchestra.patch.safety import check
from orchestra.policy.policy import ApprovalPolicy
from orchestra.workflows.loop.effects import CheckResult, Decision

FAILURE_CHARS = 4_000  # of each failing check's output in a prompt: the beginning and the end


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


class Turn(Struct, frozen=True):
    """The loop's position: the phase that writes next, the iteration, and the notes for it."""

    phase: Literal["execute", "fix"]
    iteration: int
    notes: tuple[Note, ...] = ()
    asked: int = 0  # questions to the person in this iteration

    def answered(self, question: str, text: str) -> Turn:
        """The same phase again, with the answer. This does not count as a fix (G1-3)."""
        return Turn(self.phase, self.iteration, (*self.notes, Note(f"answer to: {question}", text)), self.asked + 1)

    def fixing(self, *notes: Note) -> Turn:
        """The next fix, with all answers of the person, and the newest problem only."""
        kept = tuple(note for note in self.notes if note.name.startswith("answer to: "))
        return Turn("fix", self.iteration + 1, (*kept, *notes))


class Opinion(Struct, frozen=True):
    """A judgement, from the evaluator's reply or from exit codes."""

    decision: Decision
    grounds: str
    question: str = ""


_DECISION = re.compile(r"^[\s>*_`#-]*DECISION\s*:\s*[*_`]*\s*(PASS|FIX|ASK)\b[*_`.\s]*$", re.MULTILINE)
_QUESTION = re.compile(r"^[\s>*_`#-]*QUESTION\s*:\s*(.+)$", re.MULTILINE)
_MEANING: dict[str, Decision] = {"PASS": "pass", "FIX": "fixable", "ASK": "blocked"}


def read_decision(reply: ModelReply) -> Opinion:
    """The decision in the evaluator's reply; ContractError unless there is exactly one (F1-07)."""
    found: list[str] = _DECISION.findall(reply.text)
    if len(found) != 1:
        what = "no DECISION line" if not found else f"{len(found)} DECISION lines ({', '.join(found)})"
        raise ContractError(
            "no_decision", f"the evaluator's reply has {what}; it must say DECISION: PASS, FIX or ASK once"
        )
    question = _QUESTION.search(reply.text)
    grounds = _QUESTION.sub("", _DECISION.sub("", reply.text)).strip()
    return Opinion(_MEANING[found[0]], grounds, question.group(1).strip() if question else "")


def read_result(text: str) -> Patch | Ask | Noop:
    """A developer's or fixer's reply as one of the three forms (S1-79); ContractError if its patch is never allowed.

    Whether the patch fits the files is checked later. A reply that was cut at the length limit needs its closing
    marker too, even if a part of it would apply (G1-7).
    """
    result = parse_result(text)
    if isinstance(result, Unparsable):
        raise ContractError(result.reason, result.message)
    if isinstance(result, Patch):
        changes = parse_diff(result.diff)
        refused = changes if isinstance(changes, Refusal) else check(changes)
        if refused is not None:
            raise ContractError(refused.reason, refused.message)
    return result


@functools.cache
def _template(name: str) -> str:
    return importlib.resources.files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")


def prompt(name: str, job: Job, *, task: str) -> Prompt:
    """The prompt: `prompts/<name>.md` as system text; goal, checks and the current task as user text."""
    checks = "".join(f"- {command_line(argv)}\n" for argv in job.checks) or "- none\n"
    return Prompt(
        system=_template(name),
        user=f"# Goal\n\n{job.goal}\n\n# Checks that decide\n\n{checks}\n# Your task\n\n{task}\n",
    )


def command_line(argv: tuple[str, ...]) -> str:
    """A command as a person would type it."""
    return shlex.join(argv)


def describe_checks(job: Job, outcomes: tuple[CommandOutcome, ...]) -> str:
    """The results of the checks, for the evaluator and the fixer: exit codes, and the output of failed checks."""
    if not outcomes:
        return "No checks are configured.\n"
    parts: list[str] = []
    for argv, done in zip(job.checks, outcomes, strict=True):
        how = "timed out" if done.timedOut else done.error or f"exit code {done.exitCode}"
        parts.append(f"$ {command_line(argv)}\n[{done.status}: {how}]\n")
        if done.status != "pass":
            parts.append(_excerpt(done.output) + "\n")
    return "".join(parts)


def check_results(job: Job, outcomes: tuple[CommandOutcome, ...]) -> tuple[CheckResult, ...]:
    """The rows of evaluate/iter-NNNN.json (G1-9)."""
    return tuple(
        CheckResult(command=command_line(argv), status=done.status, exitCode=done.exitCode)
        for argv, done in zip(job.checks, outcomes, strict=True)
    )


def artifact(phase: Phase, iteration: int) -> str:
    """The stem of an artifact's name, such as `execute/iter-0001` (S1-103 … S1-109)."""
    return f"{phase}/iter-{iteration:04d}"


def _excerpt(text: str) -> str:
    if len(text) <= FAILURE_CHARS:
        return text
    half = FAILURE_CHARS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
