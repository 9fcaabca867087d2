"""SIGKILL before, in the middle of and after every disk operation of a task graph; then a new process goes on.

The run: the planner is busy once, then plans; a person approves the plan; two tasks run beside each other; one fails at
first and then succeeds; one fails for good, and what comes after it is not run; an `rw` task changes the workspace, a
person approves that too, and the task after it sees the change and the caches of the one before; a summary. However it
is killed, the end is the same, and nothing is left on the machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestra.core.journal import read_events
from orchestra.core.records import Event
from orchestra.verify import verify
from orchestra.workflows.dag.states import TABLE
from tests.kill.harness import Operations, Zygote, cases, difference
from tests.support.tasks import SUMMARY, step

SHARDS = 6
SLACK = 12  # tasks run beside each other, so runs differ by a few operations: near its end one may escape its kill
CONFIG_NAME = "orchestra.config.yaml"
CONFIG = {
    "whitelist_tools": ["sh"],
    "policies": {"default_fs_mode": "rw"},
    "retries": {"max": 1, "backoff_base_sec": 0.01},
}


def _task(name: str, *after: str, code: str, fs: str = "read-only") -> dict[str, Any]:
    inputs = {"args": ["-c", code]}
    return step(name, *after, tool="sh", inputs=inputs, constraints={"sandbox": {"fs": fs, "net": "deny"}})


PLAN = [
    _task("left", code="echo 왼쪽; echo left > $ORCHESTRA_ARTIFACTS/left.txt"),
    _task("right", code="echo 오른쪽"),
    # What tells the second attempt from the first is the journal alone: no kill can confuse it.
    _task("flaky", code="grep -q 'flaky/run[.]1.*E[X]IT' ../runs/*/events.ndjson && echo 두번째"),
    _task("broken", "left", code="echo 망가짐 >&2; exit 3"),
    _task("never", "broken", code="echo never"),
    _task("change", "left", "right", code="echo 한줄 >> NEWS.md; mkdir build; echo o > build/x.o", fs="rw"),
    _task("look", "change", "flaky", code="cat NEWS.md build/x.o"),
]
REPLIES = [
    {"match": {"phase": "plan"}, "error": {"code": "RATE_LIMIT", "message": "slow down", "retriable": True}},
    {"match": {"phase": "plan"}, "text": json.dumps(PLAN, ensure_ascii=False)},
    {"match": {"agent": "summarizer"}, "text": SUMMARY},
]


def _furnish(work: Path) -> None:
    runs = str(work.parent / "runs")
    places = {"paths": {"runs": runs}, "security": {"fs": {"allow_read": ["./", runs], "allow_write": []}}}
    (work / CONFIG_NAME).write_text(yaml.safe_dump({**CONFIG, **places}))
    (work / "NEWS.md").write_text("소식\n")
    (work / ".gitignore").write_text("build/\n")


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("graph")
    script = base / "replies.yaml"
    script.write_text(yaml.safe_dump({"replies": REPLIES}, allow_unicode=True))
    zygote = Zygote(base, "dag", script, _furnish)
    yield zygote
    zygote.close()


class Ending:
    """Everything about a finished run that a kill must not change."""

    def __init__(self, work: Path) -> None:
        [run] = (path.parent for path in work.parent.glob("runs/*/events.ndjson"))
        self.run = run
        self.events = _milestones(read_events(run / "events.ndjson"))
        files = (path for path in work.rglob("*") if path.is_file() and path.name != CONFIG_NAME)
        self.files = {str(path.relative_to(work)): path.read_bytes() for path in files}
        self.kept = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file() and _counts(path))
        self.handed = {str(p.relative_to(run)): p.read_bytes() for p in run.glob("artifacts/*/**/*.txt")}
        lines = map(json.loads, (run / "tasks.jsonl").read_text().splitlines())
        self.states = {line["label"]: (line["state"], line["retries"]) for line in lines}

    def differs(self, wanted: Ending) -> str:
        parts = ("events", "files", "kept", "states", "handed")
        return "; ".join(
            f"{part}: {difference(getattr(self, part), getattr(wanted, part))}"
            for part in parts
            if getattr(self, part) != getattr(wanted, part)
        )


def _counts(path: Path) -> bool:
    """Whether it is a file of the run: not one that was to get another name, nor one that only a kill leaves."""
    return path.suffix not in (".tmp", ".part") and path.name != "lock"


def _milestones(events: list[Event]) -> dict[str, list[tuple[object, ...]]]:
    """What happened in each branch, in order; which branch was first is no matter."""
    last = {e.payload["key"]: e.id for e in events if e.type == "PHASE_STARTED" and "process" in e.payload}
    found: dict[str, list[tuple[object, ...]]] = {}
    for event in events:
        key = event.payload.get("key", "")
        if event.type == "PHASE_STARTED" and last.get(key, event.id) != event.id:
            continue  # a command cut short is announced again, with its new process: no difference
        outcome = event.payload.get("outcome") or {}
        said = [outcome.get(name) for name in ("text", "output", "exitCode", "status", "granted", "after", "refusal")]
        error = event.payload.get("error") or {}
        row = (event.type, event.phase, event.iteration, key, json.dumps(said), error.get("message"))
        found.setdefault(key.rpartition("/")[0], []).append(row)
    return found


@pytest.fixture(scope="module")
def unkilled(zygote: Zygote) -> tuple[Ending, Operations]:
    work = zygote.case("unkilled")
    code, said = zygote.drive(work, count=True)
    assert code == 1, said  # a task failed
    assert zygote.left(work) == []
    return Ending(work), json.loads(said)


def test_the_graph_under_test_has_it_all(unkilled: tuple[Ending, Operations]) -> None:
    ending, operations = unkilled
    assert ending.states["left"] == ending.states["right"] == ending.states["change"] == ("done", 0)
    assert ending.states["flaky"] == ("done", 1)
    assert ending.states["broken"] == ("failed", 1)
    assert ending.states["never"] == ("blocked", 0)
    assert ending.files["NEWS.md"].decode() == "소식\n한줄\n"
    assert ending.handed["artifacts/look/stdout.txt"].decode() == "소식\n한줄\no\n"
    assert {"config.yaml", "plan.json", "report.md", "metrics.json", "messages.jsonl"} <= set(ending.kept)
    assert SUMMARY in (ending.run / "report.md").read_text()
    types = [event.type for event in read_events(ending.run / "events.ndjson")]
    assert types.count("APPROVAL_GRANTED") == 2 and types.count("PATCH_APPLIED") == 1
    assert {"append", "sync", "replace", "link"} <= {kind for kind, _ in operations}


@pytest.mark.spec("S1-113", "S1-114", "S1-120", "S1-121", "D-12")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_at_any_disk_operation_changes_nothing_about_the_end(
    zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int
) -> None:
    expected, operations = unkilled
    wrong: list[str] = []
    for number, mode in cases(operations, shard, SHARDS):
        work = zygote.case(f"{number}-{mode}")
        killed, _ = zygote.drive(work, chaos=f"{number}:{mode}")
        frozen = {path: path.read_bytes() for path in work.parent.glob("runs/*/events.ndjson")}
        code, said = zygote.drive(work)
        problem = _problem(work, code, said, expected, frozen) or "; ".join(zygote.left(work))
        if killed != -9 and not (killed == 1 and number > len(operations) - SLACK):
            problem = f"was not killed: {killed}"
        if problem:
            wrong.append(f"{number}:{mode} ({operations[number - 1]}): {problem}")
        else:
            zygote.clear(work)
    assert not wrong, "\n".join(wrong)


def _problem(work: Path, code: int, said: str, expected: Ending, frozen: dict[Path, bytes]) -> str:
    if code != 1 or said:
        return f"did not go on: exit {code}: {said[:2000]}"
    ending = Ending(work)
    if differs := ending.differs(expected):
        return f"another end: {differs}"
    for path, before in frozen.items():
        if not path.read_bytes().startswith(before[: before.rfind(b"\n") + 1]):
            return f"{path.name} was rewritten"
    return "; ".join(map(str, verify(ending.run, {"dag": TABLE})))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_full_disk_at_any_write_is_a_clear_error_and_the_graph_goes_on_later(
    zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int
) -> None:
    expected, operations = unkilled
    first = operations.index(["append", "events.ndjson"]) + 1
    appends = [n for n, (kind, _) in enumerate(operations, start=1) if kind == "append" and n > first]
    wrong: list[str] = []
    for number in appends[shard::SHARDS]:  # a full disk stays full until the process ends
        work = zygote.case(f"{number}-enospc")
        stopped, complaint = zygote.drive(work, chaos=f"{number}:enospc")
        clear = stopped == 1 and complaint.startswith("DiskFull: the disk is full") and "orchestra resume" in complaint
        clear = clear or (number > len(operations) - SLACK and not complaint)
        code, said = zygote.drive(work)
        problem = _problem(work, code, said, expected, {}) or "; ".join(zygote.left(work))
        if problem or not clear:
            wrong.append(f"{number} ({operations[number - 1]}): {complaint[:1500]} then {problem}")
        else:
            zygote.clear(work)
    assert not wrong, "\n".join(wrong)
