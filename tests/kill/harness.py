"""What the kill tests share: the forking server with a project for each case, where to kill, what is left."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from orchestra.core.disk import Disk
from orchestra.core.logs import LogBook
from orchestra.core.reading import RunCreated
from orchestra.core.records import Event, WorkflowState
from orchestra.core.run import RunFolder
from orchestra.core.tables import Fold
from orchestra.workflows.description import Workflow
from tests.kill.copies import Point, name_of
from tests.support.project import until
from tests.support.runs import read_events, verify

Operations = list[list[str]]  # kind and file name, in order
JOURNAL = "events.ndjson"
SHARDS = 6
KILLED = 5  # one in so many cases is a process that is killed; see copies.py


class Gone(NamedTuple):
    """A case that was cut short at an operation, after a new process went on with it."""

    number: int
    work: Path
    code: int
    said: str


Problem = Callable[[Gone], str]  # what is wrong with its end; empty if nothing
Only = frozenset[tuple[str, ...]]  # kinds and names of operations


class Zygote:
    """The forking server, and one folder for each case: `work` is the project; beside it what the project has outside.

    `furnish` fills a new project; `driver` is the module of this folder that drives the flow, if not zygote.py; `code`
    is what an undisturbed run exits with, and `slack` how many operations it may differ by from another: so near its
    end one may escape its kill. One case in `each` is a process that is killed; the others are copies (copies.py).

    Commands run in a sandbox, and the first process on a machine proves that it holds and keeps the proof in the cache.
    The first undisturbed case does that; every later one begins with the proof, as on a machine that was used before.
    A kill while the proof is made has cases of its own, without it (`kill_each`).
    """

    def __init__(
        self,
        base: Path,
        flow: str,
        script: Path,
        furnish: Callable[[Path], object],
        *,
        driver: str = "",
        code: int = 0,
        slack: int = 0,
        each: int = KILLED,
    ) -> None:
        self.base = base
        self.script = script
        self._driver, self._flow = driver, flow
        self._furnish = furnish
        self._code, self._slack, self._each = code, slack, each
        self._proofs: dict[str, bytes] = {}  # files of the cache, by their names
        self._proving: Operations = []  # the operations of the case that made the proof
        self._numbers = count(1)  # for names of folders
        self._removal = ThreadPoolExecutor(1)
        self._cleared: list[Future[None]] = []
        # Of every process of a case this is in the command line, or it is a process of a sandbox below one that has it.
        # In memory, because each life fills a folder there (/etc for its sandboxes), and there are a thousand.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.tmp = Path(tempfile.mkdtemp(prefix="orchestra-kill-", dir=memory))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kill.zygote"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def case(self, name: str, *, proved: bool = True) -> Path:
        """A new folder for a case, with its project in it, and beside it the proof that the sandbox holds."""
        work = self.base / name / "work"
        work.mkdir(parents=True)
        self._furnish(work)
        if proved and self._proofs:
            cache = work.parent / "cache" / "orchestra"
            cache.mkdir(parents=True, mode=0o700)
            for file, data in self._proofs.items():
                (cache / file).write_bytes(data)
        return work

    def drive(self, work: Path, **order: Any) -> tuple[int, str]:
        """One new process: its exit code (negative: its signal) and what it said."""
        assert self._process.stdin is not None and self._process.stdout is not None
        places = {"project": str(work), "script": str(self.script), "cache": f"{work.parent}/cache"}
        line = json.dumps({"driver": self._driver, "flow": self._flow, "tmp": str(self.tmp), **places, **order})
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["status"], answer["said"]

    def clear(self, work: Path) -> None:
        """The case is over and as it should be. Its files are removed while the next one runs."""
        gone = work.parent.rename(self.base / f"cleared-{next(self._numbers)}")
        self._cleared.append(self._removal.submit(shutil.rmtree, gone))

    def left(self, work: Path) -> list[str]:
        """What a finished case has left on the machine; spawners of killed processes are given time to end."""
        until(lambda: not _spawners(self.tmp))
        kept = work.parent / "cache" / "orchestra" / "context"  # counts of words, kept for later runs
        found = (*self.tmp.iterdir(), *work.parent.glob("cache/orchestra/*/"))
        return [str(path) for path in found if path != kept]

    def undisturbed(self) -> tuple[Path, Operations]:
        """A case that nobody cuts short, over; and its disk operations."""
        first, self._proving = self._counted("unproved")
        self._proofs = {path.name: path.read_bytes() for path in first.parent.glob("cache/orchestra/proof-*.json")}
        return self._counted("unkilled") if self._proofs else (first, self._proving)

    def _counted(self, name: str) -> tuple[Path, Operations]:
        work = self.case(name)
        code, said = self.drive(work, count=True)
        assert code == self._code, said
        assert self.left(work) == []
        return work, json.loads(said)

    def kill_each(
        self, operations: Operations, shard: int, problem: Problem, *, shards: int = SHARDS, only: Only = frozenset()
    ) -> list[str]:
        """Kill a case at each operation of a shard, and let a new process go on: what is wrong then, and where.

        `only` the operations of these kinds and names, if given.
        """
        wanted = [case for case in cases(operations, 0, 1) if not only or tuple(operations[case[0] - 1]) in only]
        wrong = self.kill_at(wanted[shard::shards], operations, problem)
        if only or not self._proofs:
            return wrong
        proof = {n for n, (_, name) in enumerate(self._proving, start=1) if name.startswith("proof-")}
        assert proof
        near = range(min(proof) - 1, max(proof) + 2)  # from before the proof to after it
        proving = [case for case in cases(self._proving, 0, 1) if case[0] in near]
        return wrong + self.kill_at(proving[shard::shards], self._proving, problem, proved=False)

    def kill_at(
        self, points: Iterable[Point], operations: Operations, problem: Problem, *, proved: bool = True
    ) -> list[str]:
        """The same at some operations, by their numbers and modes. One in `each` is a kill, the others are copies."""
        points = list(points)
        copies = [point for n, point in enumerate(points) if n % self._each]
        missing = {point for point in points if point[0] <= len(operations) - self._slack}
        wrong: list[str] = []
        for (number, mode), work in chain(self._killed(points[:: self._each], proved), self.copied(copies, proved)):
            missing.discard((number, mode))
            frozen = {path: path.read_bytes() for path in journals(work)}
            found = _behind(work) or problem(Gone(number, work, *self.drive(work)))
            found = found or _rewritten(frozen) or _other_logs(work) or "; ".join(self.left(work))
            if found:
                wrong.append(f"{number}:{mode} ({operations[number - 1]}): {found}")
                work.parent.rename(self.base / f"wrong-{number}-{mode}")
            else:
                self.clear(work)
        return wrong + [f"{number}:{mode} was not reached" for number, mode in missing]

    def _killed(self, points: Iterable[Point], proved: bool) -> Iterator[tuple[Point, Path]]:
        """Cases that are killed at these points."""
        for number, mode in points:
            work = self.case(f"{number}-{mode}" + ("" if proved else "-unproved"), proved=proved)
            killed, said = self.drive(work, chaos=f"{number}:{mode}")
            assert killed in (-9, self._code), said
            if killed == -9:
                yield (number, mode), work

    def copied(
        self, points: Sequence[Point], proved: bool = True, *, begun: Path | None = None, **order: Any
    ) -> Iterator[tuple[Point, Path]]:
        """Cases as a kill at these points would leave them: copies of one run (copies.py), each in the run's own place.

        The run is a new case, or goes on in `begun`.
        """
        if not points:
            return
        work = begun or self.case(f"copied-{next(self._numbers)}", proved=proved)
        into = self.base / f"copies-{next(self._numbers)}"
        into.mkdir()
        code, said = self.drive(work, copies=points, into=str(into), **order)
        assert code == self._code, said
        self.clear(work)
        for point in points:
            if (copy := into / name_of(point)).exists():
                copy.rename(work.parent)
                yield point, work

    def fill_at_each(self, operations: Operations, numbers: Sequence[int], problem: Problem) -> list[str]:
        """Fill the disk at each of these operations; it stays full until the process ends. The same after that."""
        wrong: list[str] = []
        for number in numbers:
            work = self.case(f"{number}-enospc")
            stopped, complaint = self.drive(work, chaos=f"{number}:enospc")
            clear = stopped == 1 and complaint.startswith("DiskFull: the disk is full")
            clear = clear and "orchestra resume" in complaint
            escaped = not complaint and number > len(operations) - self._slack
            found = problem(Gone(number, work, *self.drive(work)))
            if found or not (clear or escaped):
                wrong.append(f"{number} ({operations[number - 1]}): {stopped} {complaint[:1500]} then {found}")
            else:
                self.clear(work)
        return wrong

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        for cleared in self._cleared:
            cleared.result()
        self._removal.shutdown()
        shutil.rmtree(self.tmp)


def journals(work: Path) -> Iterator[Path]:
    """Of all runs of a case, in its project and beside it."""
    yield from sorted((*work.rglob(JOURNAL), *work.parent.glob(f"runs/*/{JOURNAL}")))


def _rewritten(frozen: dict[Path, bytes]) -> str:
    """S1-114: what was whole in a journal when it was cut short stays, byte for byte."""
    wrong = [p for p, before in frozen.items() if not p.read_bytes().startswith(before[: before.rfind(b"\n") + 1])]
    return "; ".join(f"{path.name} was rewritten" for path in wrong)


def _behind(work: Path) -> str:
    """S1-113: state.json says what the journal says; after a kill it may lack the very last event."""
    for journal in journals(work):
        folder, events = RunFolder(journal.parent), read_events(journal)
        shown = msgspec.json.decode(folder.state.read_bytes(), type=WorkflowState) if folder.state.exists() else None
        said = [Fold.of(beginning) for beginning in (events, events[:-1]) if beginning]
        if shown is None and (len(events) == 1 or all(fold.changes == 0 for fold in said[-1:])):
            continue  # nothing has happened that it would show, or only the very last event
        if shown is None or _seen(shown) not in [_seen(fold.state) for fold in said]:
            return f"state.json of {folder.id} says {shown}, the journal {said[0].state}"
    return ""


def _seen(state: WorkflowState) -> WorkflowState:
    """What it is written for: not the steps within a phase (core/ledger.py, rule 3)."""
    return msgspec.structs.replace(state, lastEventId=None, updatedAt="")


def _other_logs(work: Path) -> str:
    """The logs are what the journal gives, line by line."""
    for journal in journals(work):
        anew = RunFolder(work.parent / "logs anew" / journal.parent.name)
        LogBook(anew, Disk()).restore(read_events(journal))
        wanted, found = (
            {p.name: p.read_bytes() for p in f.glob("*.log")} for f in (anew.logs, journal.parent / "logs")
        )
        if found != wanted:
            return f"the logs of {journal.parent.name} are other than its journal: {difference(found, wanted)}"
    return ""


def told_once(events: list[Event]) -> list[Event]:
    """A command cut short is announced again, with its new process: only the last time counts."""
    last = {e.payload["key"]: e.id for e in events if e.type == "PHASE_STARTED" and "process" in e.payload}
    return [e for e in events if e.type != "PHASE_STARTED" or last.get(e.payload.get("key", ""), e.id) == e.id]


def _spawners(tmp: Path) -> list[str]:
    """Processes beside orchestra that start commands and end with the last of them, by their argument."""
    return [line for line in command_lines() if f"\0{tmp}/" in line]


def command_lines() -> Iterator[str]:
    """Of every process there is, in sandboxes too; words end with NUL."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            yield Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue


def cases(operations: Operations, shard: int, shards: int) -> Iterator[tuple[int, str]]:
    """Where and how to kill.

    What a kill finds after an operation is what it finds before the next: so before each, torn where a file grows in
    place, and for the journal also after. A sync changes nothing that a kill could show, so only the journal's count,
    after which commands are let go; and before and after it are the same moment, because nothing happens within it.
    Of a file that is rebuilt from the journal the first and the last time are enough.
    """
    again = _again(operations)
    append = ["append", JOURNAL]
    first = operations.index(append)  # before it there is no run yet: starting again makes another one
    found = [(first + 1, "after")]
    for number in range(first + 2, len(operations) + 1):
        kind, name = operations[number - 1]
        if number in again:
            continue
        if operations[number - 2] != append and kind != "sync":
            found.append((number, "before"))
        if kind == "append" and not name.endswith(".tmp"):
            found.append((number, "torn"))
        if name == JOURNAL:
            found.append((number, "after"))
    yield from found[shard::shards]


def undated(journal: Path) -> str:
    """A run by its journal: its id without the day and what is made of it, because tests may go on past midnight."""
    name = re.sub(r"^\d{4}-\d\d-\d\d_|-[0-9a-f]{8}$", "", journal.parent.name)
    return f"{name} {RunCreated.of(next(iter(read_events(journal)), None)).parentKey}"


def appends(operations: Operations) -> list[int]:
    """Where a disk may be full: at every write of the journal and of every other file but those that `_again` names."""
    again = _again(operations)
    return [n for n, (kind, _) in enumerate(operations, start=1) if kind == "append" and n not in again]


def _again(operations: Operations) -> set[int]:
    """Operations on files that are rebuilt from the journal: all but the first and the last of each kind and name.

    Whichever line of a log or state it is that is lost, the way back is the same.
    """
    rebuilt: dict[tuple[str, str], list[int]] = {}
    for number, (kind, name) in enumerate(operations, start=1):
        name = re.sub(r"[.][0-9]+[.]tmp$", ".tmp", name)
        if name.removesuffix(".tmp").endswith(("state.json", ".log", ".jsonl")):
            rebuilt.setdefault((kind, name), []).append(number)
    return {number for numbers in rebuilt.values() for number in numbers[1:-1]}


def other_end(gone: Gone, expected: object, *, code: int = 0) -> str:
    """What is other about the end of a case than `expected`, which is the end of one that was not cut short."""
    if gone.code != code:
        return f"did not go on: exit {gone.code}: {gone.said[:2000]}"
    ending: Callable[[Path], object] = type(expected)
    different = difference(vars(ending(gone.work)), vars(expected))
    return different and f"another end: {different}"


def findings(work: Path, known: Callable[[str], Workflow | None]) -> str:
    """What does not conform in the runs of a case."""
    return "; ".join(str(found) for journal in journals(work) for found in verify(journal.parent, known))


def difference(found: Any, wanted: Any) -> str:
    """What differs between two endings, in few words."""
    if isinstance(found, dict):
        return "; ".join(
            f"{k}: {found.get(k)!r:.300} instead of {wanted.get(k)!r:.300}"
            for k in {*found, *wanted}
            if found.get(k) != wanted.get(k)
        )
    return f"{sorted(set(found) ^ set(wanted))}"
