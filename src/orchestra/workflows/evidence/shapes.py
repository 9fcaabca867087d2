"""The records of the evidence loop: its job, its evidence, its state. Pure.

Rules
1. One tool result takes at most a quarter of the context; the whole is in its artifact.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from orchestra.core.command import CommandOutcome
from orchestra.core.errors import StepFailed
from orchestra.core.retry import Retry
from orchestra.core.shown import Omitted
from orchestra.core.text import clean, estimated_tokens
from orchestra.workflows.evidence.memory import Message, tagged
from orchestra.workflows.evidence.protocol import FALLBACK_PLANNING, Planning

Mode = Literal["single-main", "main-worker"]
State = Literal[
    "PlanIntent", "ContextGuard", "AcquireEvidence", "AssessSufficiency", "ForcedSynthesis", "Done"
]  # S5-01
CONTEXT_TOKENS = 8192
MAX_STEPS = 12
TOOL_TIMEOUT_MS = 20_000
KEPT_CHARACTERS = 12_000  # of a tool's output
_NOT_RUN = "the command line was not run: "  # policy/words.py
REFUSED = 126  # the exit code of a command line that was not run, as a shell's


class Job(Struct, frozen=True, kw_only=True):
    """The parameters of an evidence run, frozen in RUN_CREATED."""

    goal: str
    session: str = ""  # empty: the run belongs to no session
    turn: int = 1
    previous: str = ""  # the run of the turn before
    agent: str = "default"
    mode: Mode = "main-worker"
    maxSteps: int = MAX_STEPS
    stream: bool = True
    memory: tuple[Message, ...] = ()  # the session so far, as ContextGuard left it
    contextTokens: int = CONTEXT_TOKENS  # the smaller of the two models'
    tools: tuple[str, ...] = ()  # programs that the worker may start
    absent: tuple[str, ...] = ()  # those of them that are not on this machine: the worker is not told of them
    names: tuple[str, ...] = ()  # files of the workspace at the start, the likeliest first (offered.py)
    words: tuple[str, ...] = ()  # words of the goal to search for
    models: tuple[tuple[str, str], ...] = ()  # who answers as `main` and `worker`, if that was chosen
    timeoutMs: int = 600_000
    retries: int = 2
    backoffSec: float = 2.0

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that the worker may start and that are on this machine."""
        return tuple(name for name in self.tools if name not in self.absent)

    @property
    def retry(self) -> Retry:
        """How often a model call that failed for a technical reason is made again."""
        return Retry(times=self.retries, base_sec=self.backoffSec)


class Evidence(Struct, frozen=True):
    """The result of one command line, as a reader can check it."""

    step: int
    command: str
    exitCode: int | None  # of the last stage; None: it was ended
    text: str  # stdout, then stderr, within bounds
    lines: tuple[int, int] = (0, 0)  # the first and the last line of stdout that is in `text`
    artifact: str = ""  # the file of the run with the whole output (`_kept`); its digest is in the tool-result event
    exitCodes: tuple[int, ...] = ()  # of all stages


class FoundFile(Struct, frozen=True):
    """A file of the workspace that the evidence is about, and its lines."""

    path: str
    lines: tuple[int, int] | None = None


class Result(Struct, frozen=True):
    """What a run hands to the person or to its parent run."""

    answer: str
    evidence: tuple[Evidence, ...] = ()
    files: tuple[FoundFile, ...] = ()


class Loop(Struct, frozen=True):
    """Everything the loop knows at one moment."""

    messages: tuple[Message, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    planning: Planning = FALLBACK_PLANNING
    guidance: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()  # open points, by main's last decision
    answers: tuple[tuple[str, str], ...] = ()  # questions and their answers
    step: int = 0  # worker actions so far
    replies: int = 0  # replies of models so far, usable or not
    think: bool | UnsetType = UNSET  # whether ForcedSynthesis may think (S5-57, S5-58)
    failure: StepFailed | None = None  # of the newest call that got no reply
    halved: int = 0  # how often a server found a call too long for its context (asking.py, rule 4)
    compacted: str = ""  # the signature of the messages that the last compaction left (memory.py, rule 6)
    dropped: tuple[Omitted, ...] = ()  # what compactions of this run took from the conversation, by tag

    def heard(self, *messages: Message) -> Loop:
        """The same, with these messages at the end of the conversation."""
        return replace(self, messages=(*self.messages, *messages))

    def with_evidence(self, found: Evidence) -> Loop:
        """The same, with a new piece of evidence and its message (S5-35 … S5-37, S5-75)."""
        said = tagged("user", "WORKER_TOOL_RESULT", f"exit={exit_codes(found)}\n{found.text}", number=found.step)
        return replace(self.heard(said), evidence=(*self.evidence, found))


def begin(job: Job) -> Loop:
    """The loop before its first call."""
    return Loop(messages=(*job.memory, tagged("user", "AGENT_GOAL", job.goal, of=job.agent)))


def steps_left(job: Job, loop: Loop) -> int:
    """The number of actions that the worker may still do."""
    return job.maxSteps - loop.step


def has_repeated(loop: Loop) -> bool:
    """Whether the newest command was run before: small models repeat themselves."""
    return loop.evidence[-1].command in (one.command for one in loop.evidence[:-1]) if loop.evidence else False


def exit_codes(found: Evidence) -> str:
    """The exit codes of a command line, one for each stage."""
    if found.exitCodes:
        return ",".join(map(str, found.exitCodes))
    return "killed" if found.exitCode is None else str(found.exitCode)


def evidence_of(step: int, command: str, outcome: CommandOutcome, context_tokens: int) -> Evidence:
    """The evidence in a command's outcome. A failing command is evidence too (S5-38)."""
    parts = [outcome.stdout.rstrip("\n"), *([f"[stderr]\n{outcome.stderr.rstrip()}"] if outcome.stderr else ())]
    parts += [f"[{outcome.error}]"] if outcome.error else ["[timed out]"] if outcome.timedOut else []
    whole = clean("\n".join(part for part in parts if part)) or "[no output]"
    text, shown = cut(whole, tokens=context_tokens // 4)  # rule 1
    kept = _kept(outcome)
    return Evidence(step, command, outcome.exitCode, text, _lines(outcome.stdout, shown), kept, outcome.exitCodes)


def _kept(outcome: CommandOutcome) -> str:
    """The file with the whole output: of stdout, or of stderr if nothing else was printed."""
    ending = ".stderr.txt" if outcome.stderr and not outcome.stdout else ".stdout.txt"
    paths = [one.path for one in outcome.artifacts]
    return next((path for path in paths if path.endswith(ending)), paths[0] if paths else "")


def _lines(stdout: str, shown: int) -> tuple[int, int]:
    """The lines of an output that are in its first `shown` characters. After a gap in the output none is counted."""
    if len(stdout) > KEPT_CHARACTERS:  # worker/capture.py: so many were kept, half of them before the gap
        shown = min(shown, KEPT_CHARACTERS // 2)
    begun = stdout[:shown].rstrip("\n")
    return (1, begun.count("\n") + 1) if begun else (0, 0)


def refused_evidence(step: int, command: str, why: str) -> Evidence:
    """A command line that was not run, with the reason for the worker."""
    return Evidence(step, command, REFUSED, f"[not run: {why.removeprefix(_NOT_RUN)}]")


class Shortened(NamedTuple):
    """The beginning of a text, with a note on what is missing, and how many of its characters there are."""

    text: str
    kept: int


def cut(text: str, *, tokens: int) -> Shortened:
    """The beginning of a text that has about so many tokens at most."""
    if estimated_tokens(text) <= tokens:
        return Shortened(text, len(text))
    most = min(4 * tokens, len(text))
    while most > 1 and estimated_tokens(text[:most]) > tokens:
        most = most * 9 // 10
    return Shortened(f"{text[:most]}\n[… {len(text) - most} more characters]", most)
