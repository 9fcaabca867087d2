"""SIGKILL before, in the middle of and after every disk operation of a task graph; then a new process goes on.

The run: the planner is busy once, asks to see a file, then plans; a person approves the plan; two tasks run beside each
other; one fails at first and then succeeds; one fails for good, and what comes after it is not run; an `rw` task
changes the workspace, a person approves that too, and the task after it sees the change and the caches of the one
before; a summary. However it is killed, the end is the same, and nothing is left on the machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestra.core.records import Event
from tests.kill.harness import (
    JOURNAL,
    SHARDS,
    Gone,
    Operations,
    Zygote,
    appends,
    findings,
    journals,
    other_end,
    told_once,
)
from tests.support.project import KNOWN
from tests.support.runs import read_events
from tests.support.tasks import SUMMARY, step

SLACK = 12  # tasks run beside each other, so runs differ by a few operations
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
    {"match": {"phase": "plan"}, "text": '{"need": [{"file": "NEWS.md"}, {"search": "소식"}]}'},
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
    script = base / "replies.json"
    script.write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    zygote = Zygote(base, "dag", script, _furnish, code=1, slack=SLACK)  # a task fails
    yield zygote
    zygote.close()


class Ending:
    """Everything about a finished run that a kill must not change."""

    def __init__(self, work: Path) -> None:
        [journal] = journals(work)
        run = journal.parent
        self.events = _milestones(read_events(run / "events.ndjson"))
        files = (path for path in work.rglob("*") if path.is_file() and path.name != CONFIG_NAME)
        self.files = {str(path.relative_to(work)): path.read_bytes() for path in files}
        self.kept = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file() and _counts(path))
        self.handed = {str(p.relative_to(run)): p.read_bytes() for p in run.glob("artifacts/*/**/*.txt")}
        lines = map(json.loads, (run / "tasks.jsonl").read_text().splitlines())
        self.states = {line["label"]: (line["state"], line["retries"]) for line in lines}


def _counts(path: Path) -> bool:
    """Whether it is a file of the run: not one that was to get another name, nor one that only a kill leaves."""
    return path.suffix not in (".tmp", ".part") and path.name != "lock"


def _milestones(events: list[Event]) -> dict[str, list[tuple[object, ...]]]:
    """What happened in each branch, in order; which branch was first is no matter."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for event in told_once(events):
        key = event.payload.get("key", "")
        outcome = event.payload.get("outcome") or {}
        said = [outcome.get(name) for name in ("text", "output", "exitCode", "status", "granted", "after", "refusal")]
        error = event.payload.get("error") or {}
        row = (event.type, event.phase, event.iteration, key, json.dumps(said), error.get("message"))
        found.setdefault(key.rpartition("/")[0], []).append(row)
    return found


def test_the_graph_under_test_has_it_all(zygote: Zygote, unkilled: tuple[Ending, Operations]) -> None:
    ending, operations = unkilled
    [journal] = journals(zygote.base / "unkilled" / "work")
    assert ending.states["left"] == ending.states["right"] == ending.states["change"] == ("done", 0)
    assert ending.states["flaky"] == ("done", 1)
    assert ending.states["broken"] == ("failed", 1)
    assert ending.states["never"] == ("blocked", 0)
    assert ending.files["NEWS.md"].decode() == "소식\n한줄\n"
    assert ending.handed["artifacts/look/stdout.txt"].decode() == "소식\n한줄\no\n"
    assert {"config.yaml", "plan.json", "report.md", "metrics.json", "messages.jsonl"} <= set(ending.kept)
    assert SUMMARY in (journal.parent / "report.md").read_text()
    planned = [str(row[3]) for row in ending.events[""] if str(row[3]).startswith("plan.")]
    assert list(dict.fromkeys(planned)) == ["plan.1", "plan.2", "plan.3"]  # busy, a request, a plan
    types = [event.type for event in read_events(journal)]
    assert types.count("APPROVAL_GRANTED") == 2 and types.count("PATCH_APPLIED") == 1
    assert {"append", "sync", "replace", "link"} <= {kind for kind, _ in operations}


@pytest.mark.spec("S1-113", "S1-114", "S1-120", "S1-121", "D-12")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_at_any_disk_operation_changes_nothing_about_the_end(
    zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int
) -> None:
    expected, operations = unkilled
    wrong = zygote.kill_each(operations, shard, lambda gone: _problem(gone, expected))
    assert not wrong, "\n".join(wrong)


def _problem(gone: Gone, expected: Ending) -> str:
    return gone.said or other_end(gone, expected, code=1) or findings(gone.work, KNOWN)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_full_disk_at_any_write_is_a_clear_error_and_the_graph_goes_on_later(
    zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int
) -> None:
    expected, operations = unkilled
    first = operations.index(["append", JOURNAL]) + 1
    later = [number for number in appends(operations) if number > first]

    def problem(gone: Gone) -> str:
        return _problem(gone, expected) or "; ".join(zygote.left(gone.work))

    wrong = zygote.fill_at_each(operations, later[shard::SHARDS], problem)
    assert not wrong, "\n".join(wrong)
