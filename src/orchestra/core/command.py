"""The effect of running a command, and its outcome. Data only.

core/effects.py explains what an effect is, and has a table of all effects with their handlers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from msgspec import Struct

from orchestra.core.effects import Effect, digest_of
from orchestra.core.records import ArtifactRef, Digest
from orchestra.core.work import Reply

Asker = Literal["model", "person"]  # who asked for a command; a person's commands need no whitelist
Keeps = Literal["layer", "files", "nothing"]  # what is kept of a command's files (see RunCommand)
NOT_GRANTED = "NOT_GRANTED"  # the error of a command that needs a person's grant and has none


class InputFile(Struct, frozen=True):
    """A file that a command sees in addition to the workspace's files (S2-21)."""

    path: str
    content: str


Errors = Literal["apart", "stdout", "nothing"]  # where a stage's stderr goes: `2>&1` is stdout, `2>/dev/null` nothing
_IN_DOUBLE = re.compile(r'["$`\\!\x00-\x1f]')  # what double quotes do not hold as it is
MOST_STAGES = 3  # of one command: at most two pipes (C-15)


class Stage(Struct, frozen=True, omit_defaults=True):
    """One program of a pipe, and where its stderr goes."""

    argv: tuple[str, ...]
    errors: Errors = "apart"


def typed(argv: Iterable[str]) -> str:
    """The words as a person would type them for a shell: `"it's"`, where `shlex.join` has `'it'"'"'s'`."""
    return " ".join(f'"{word}"' if "'" in word and not _IN_DOUBLE.search(word) else shlex.quote(word) for word in argv)


def line_of(stages: tuple[Stage, ...]) -> str:
    """The stages as one command line, for people and models; policy/words.py reads it back."""
    flags: dict[Errors, str] = {"apart": "", "stdout": " 2>&1", "nothing": " 2>/dev/null"}
    return " | ".join(typed(stage.argv) + flags[stage.errors] for stage in stages)


class Denied(Struct, frozen=True):
    """A connection that the sandbox's proxy refused, or a written file that could not be taken over."""

    what: str
    why: str


class CommandOutcome(Struct, frozen=True, omit_defaults=True):
    """How a command ended. A non-zero exit code is an outcome, not a failure of the step."""

    command: str
    exitCode: int | None
    status: Literal["pass", "fail", "not_run"]
    durationMs: int
    timedOut: bool
    output: str  # shortened, cleaned and redacted, for a person and for the fixer; empty if the command has `keep`
    artifact: ArtifactRef | None = None  # what it printed
    error: str = ""
    artifacts: tuple[ArtifactRef, ...] = ()  # its output, and the files it left in its artifact folder
    limit: str = ""  # the limit that ended it
    denials: tuple[Denied, ...] = ()  # connections that were refused
    changes: Reply | None = None  # its changes of the workspace's copy, as a patch for the gate
    untaken: tuple[Denied, ...] = ()  # changes that cannot be part of a patch
    tier: str = ""  # the sandbox tier it ran in
    stdout: str = ""  # of a tool call, separately from `output`; shortened, cleaned and redacted as well
    stderr: str = ""
    exitCodes: tuple[int, ...] = ()  # of a tool call or a pipe: of every stage, as a shell gives them (128 + signal)
    # Of a check that failed for lack of its environment, not because of the code (commands/failures.py):
    blocked: str = ""  # what is missing, in one sentence; it lies outside the workspace
    cure: str = ""  # the command or the line of the configuration that helps
    tree: str = ""  # of a test run: the digest of the project's files that it ran on (context/treehash.py)


class RunCommand(Effect[CommandOutcome], frozen=True, omit_defaults=True, kw_only=True):
    """Run one command in the sandbox: an L3 task (D-09). argv only, or a pipe of them; never a shell line.

    `asker` has no default: the whitelist applies to a model's commands only (policy/decide.py, rule 2).
    `keeps` is the kind of command, and what is kept of the files it writes:

        layer     a check: its build output is kept for later checks; its output is one file, `artifact`; the files that
                  a test run leaves (`reports`) are in a folder of that name without its ending
        files     a graph's task: its result files, stdout and stderr are kept in the folder `artifact`; its changes
                  become a patch if it may write (`fs`)
        nothing   a tool call: its files are deleted; its outcome has stdout and stderr separately
    """

    argv: tuple[str, ...]
    timeoutMs: int
    artifact: str
    asker: Asker
    keeps: Keeps
    task: str = ""  # the label of the graph's task
    taskId: str = ""
    env: tuple[tuple[str, str], ...] = ()
    files: tuple[InputFile, ...] = ()
    fs: Literal["read-only", "rw"] = "read-only"
    net: bool = False
    after: tuple[str, ...] = ()  # tasks whose private layers (build output, caches) it sees
    mustPass: bool = False  # any exit code but 0 fails the step, which may be tried again (S2-13, G2-5)
    dry: bool = False
    errors: Errors = "apart"  # where the stderr of `argv` goes
    then: tuple[Stage, ...] = ()  # a pipe: programs that read the output of the one before (C-15)
    keep: int = 0  # characters of stdout and of stderr in the outcome; 0: the usual excerpt
    # A test run: the files it leaves in a folder of its own are kept, which `{artifacts}` in `argv` and `env` stands
    # for; and the digest of the project's files is in the outcome.
    reports: bool = False

    outcome: ClassVar[Any] = CommandOutcome

    def __post_init__(self) -> None:
        if len(self.then) >= MOST_STAGES:
            raise ValueError(f"a command has at most {MOST_STAGES} stages, not {len(self.then) + 1}")

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All programs of the command."""
        return (Stage(self.argv, self.errors), *self.then)

    @property
    def line(self) -> str:
        """The command as people and models write it."""
        return line_of(self.stages)

    def grant(self) -> Digest:
        """What a person grants when a rule asks about one of its stages."""
        return command_digest(self.argv, net=self.net, errors=self.errors, then=self.then)

    def identity(self) -> str:
        return digest_of([type(self).__name__, _recorded_form(self)])

    def public(self) -> dict[str, Any]:
        # The inputs are not in the event; they are in the plan.
        told: dict[str, Any] = {"argv": self.argv, "timeoutMs": self.timeoutMs, "artifact": self.artifact}
        if self.then:
            told["line"] = self.line
        if self.task:
            told |= {"task": self.task, "taskId": self.taskId}
        return told


def output_files(artifact: str, key: str, keeps: Keeps) -> tuple[str, ...]:
    """Where a command's output is stored as it comes, masked: one file for a check, else stdout's and stderr's.

    A graph's task has new files for each attempt, which is the number at the end of its key.
    """
    if keeps == "layer":
        return (artifact,)
    if keeps == "nothing":
        return f"{artifact}.stdout.txt", f"{artifact}.stderr.txt"
    attempt = key.rpartition(".")[2]
    prefix = "" if attempt == "1" else f"attempt-{attempt}."
    return f"{artifact}/{prefix}stdout.txt", f"{artifact}/{prefix}stderr.txt"


class _RecordedCommand(Struct, frozen=True, omit_defaults=True):
    """The form of a RunCommand whose digest is in journals. It is older than the fields `asker` and `keeps`.

    Checks and tasks keep their old digest, so that older waiting runs can go on. Tool calls have both fields.
    """

    argv: tuple[str, ...]
    timeoutMs: int
    artifact: str
    task: str = ""
    taskId: str = ""
    env: tuple[tuple[str, str], ...] = ()
    files: tuple[InputFile, ...] = ()
    fs: Literal["read-only", "rw"] = "read-only"
    net: bool = False
    after: tuple[str, ...] = ()
    mustPass: bool = False
    dry: bool = False
    typed: bool = False
    keeps: str = ""
    asker: str = ""
    errors: Errors = "apart"
    then: tuple[Stage, ...] = ()
    keep: int = 0
    reports: bool = False


def _recorded_form(command: RunCommand) -> _RecordedCommand:
    fields = {name: getattr(command, name) for name in command.__struct_fields__ if name not in ("asker", "keeps")}
    if command.keeps == "files" and command.task:
        return _RecordedCommand(**fields, typed=command.asker == "person")
    if command.keeps == "layer" and command.asker == "person":
        return _RecordedCommand(**fields)
    return _RecordedCommand(**fields, keeps=command.keeps, asker=command.asker)


def command_digest(
    argv: tuple[str, ...], *, net: bool, errors: Errors = "apart", then: tuple[Stage, ...] = ()
) -> Digest:
    """The digest that a person's grant of a command names: of exactly these words, and with the network only for `net`.

    Of a pipe it is the whole pipe. Without network and pipe it is the digest of the words, as journals have held it
    from the beginning.
    """
    bound: dict[str, Any] = {"argv": argv}
    if net:
        bound["net"] = True
    if then or errors != "apart":
        bound["stages"] = (Stage(argv, errors), *then)
    return digest_of(bound if len(bound) > 1 else argv)
