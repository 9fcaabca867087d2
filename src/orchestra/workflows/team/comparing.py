"""Compares two runs of one team and task: other prompts, other models, another day. Reads their files, nothing else."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from orchestra.core.errors import OddFile, UsageError
from orchestra.core.records import Event, seconds_between
from orchestra.core.run import RunFolder
from orchestra.workflows.team.files import account_of
from orchestra.workflows.team.progress import Progress

_MOST = 1 << 24  # bytes of one file


class ComparedRun(Struct, frozen=True):
    """One of the two runs, in numbers."""

    runId: str
    status: str
    calls: int
    costUsd: float
    tokens: int
    seconds: float
    reviewRounds: int
    findingsOpen: int
    findingsClosed: int
    decisions: int
    errors: int


class ComparedFile(Struct, frozen=True):
    """An artifact in both runs: the lines that only one of them has."""

    path: str
    status: Literal["same", "different", "only in the first", "only in the second"]
    removed: int = 0  # lines that only the first has
    added: int = 0  # lines that only the second has


class Comparison(Struct, frozen=True, tag="comparison"):
    """What `orchestra compare` prints."""

    team: str
    task: str
    runs: tuple[ComparedRun, ComparedRun]
    artifacts: tuple[ComparedFile, ...]


Side = tuple[RunFolder, Sequence[Event]]


def compare(one: Side, other: Side) -> Comparison:
    """Compare two runs; UsageError if they are not of one team and task."""
    first, second = Progress.of(one[1]), Progress.of(other[1])
    names = _names(one[0], first)
    if names != _names(other[0], second):
        raise UsageError(
            f"{one[0].id} is of {' on '.join(names)}, {other[0].id} of {' on '.join(_names(other[0], second))}:"
            " only runs of the same team and task are compared"
        )
    files = compared(dict.fromkeys((*first.files, *second.files)), one[0], other[0])
    return Comparison(*names, (_run(one, first), _run(other, second)), files)


def compared(paths: Iterable[str], one: RunFolder, other: RunFolder) -> tuple[ComparedFile, ...]:
    """These artifacts of two runs, each against the other."""
    return tuple(_file(path, _text(one, path), _text(other, path)) for path in paths)


def _names(folder: RunFolder, progress: Progress) -> tuple[str, str]:
    if progress.definition is None:
        raise UsageError(f"{folder.id} is no run of a team (orchestra runs lists all runs)")
    return progress.definition.team.name, progress.definition.task.name


def _run(side: Side, progress: Progress) -> ComparedRun:
    folder, events = side
    account, board = account_of(folder, events), progress.board
    return ComparedRun(
        runId=folder.id,
        status=progress.fold.state.status,
        calls=account.calls,
        costUsd=round(account.costUsd, 6),
        tokens=account.tokens.input + account.tokens.output,
        seconds=round(seconds_between(events[0].ts, events[-1].ts), 3),
        reviewRounds=sum(phase.rounds for phase in board.phases),
        findingsOpen=sum(finding.is_open for finding in board.findings),
        findingsClosed=sum(not finding.is_open for finding in board.findings),
        decisions=len(board.decisions),
        errors=len(progress.errors),
    )


def _text(folder: RunFolder, path: str) -> str | None:
    try:
        return folder.read(path, _MOST).decode("utf-8", "replace")
    except (OSError, OddFile):
        return None


def _file(path: str, one: str | None, other: str | None) -> ComparedFile:
    if one is None or other is None:
        return ComparedFile(path, "only in the second" if one is None else "only in the first")
    if one == other:
        return ComparedFile(path, "same")
    lines = list(difflib.unified_diff(one.splitlines(), other.splitlines(), lineterm="", n=0))[2:]
    removed = sum(line.startswith("-") for line in lines)
    return ComparedFile(path, "different", removed, sum(line.startswith("+") for line in lines))


def diff(path: str, one: Side, other: Side) -> list[str]:
    """An artifact of the first run against that of the second, as lines of a unified diff."""
    first, second = ((_text(folder, path) or "").splitlines() for folder, _ in (one, other))
    return list(difflib.unified_diff(first, second, f"{one[0].id}/{path}", f"{other[0].id}/{path}", lineterm=""))


def rows(found: Comparison) -> Iterator[tuple[str, str, str]]:
    """The numbers of both runs side by side, for people."""
    one, other = found.runs
    yield "status", one.status, other.status
    yield "model calls", str(one.calls), str(other.calls)
    yield "cost", f"${one.costUsd:.4f}", f"${other.costUsd:.4f}"
    yield "tokens", str(one.tokens), str(other.tokens)
    yield "time, waits included", f"{one.seconds:.1f} s", f"{other.seconds:.1f} s"
    yield "review rounds", str(one.reviewRounds), str(other.reviewRounds)
    yield "findings open", str(one.findingsOpen), str(other.findingsOpen)
    yield "findings closed", str(one.findingsClosed), str(other.findingsClosed)
    yield "decisions", str(one.decisions), str(other.decisions)
    yield "failed attempts", str(one.errors), str(other.errors)


def file_line(file: ComparedFile) -> str:
    """One artifact, for people."""
    lines = f" (-{file.removed} +{file.added} lines)" if file.status == "different" else ""
    return f"{file.path}: {file.status}{lines}"
