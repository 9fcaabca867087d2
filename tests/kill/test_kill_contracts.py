"""SIGKILL at appends to the journals of a contracts run and of its child runs; then a new process goes on.

One implementation fails and is repaired, and one design is made again: so the run has retries, patches that are taken
back, contracts that are written twice and projections outside its folder. However it is killed, it ends with the same
contracts, the same code and the same steps.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kill.harness import JOURNAL, Operations, Zygote, cases, findings, journals, other_end
from tests.support.contracts import (
    EXPLORED,
    EXPLORING,
    JUDGED,
    breakdown,
    classified,
    code,
    designed,
    fix,
    furnish,
    implemented,
    qa,
    says,
)
from tests.support.project import KNOWN
from tests.support.runs import read_events

S1 = "T1-S1"
REPLIES = (
    *EXPLORING,
    says("code-explore", EXPLORED),
    says("planner", breakdown(("T1", S1))),
    designed("T1", S1),
    *qa(S1),
    implemented(S1, code(S1, "n")),
    classified(S1, "implementation_error"),
    implemented(S1, fix(S1, "n", "0"), role="fixer"),
    classified(S1, "design_violation"),
    designed("T1", S1, rule="다시"),
    *qa(S1),
    implemented(S1),
    JUDGED,
)
SHARDS = 2
_EVERY = 31  # of the appends, one in so many is a case; every fifth was tried once
_HASH = re.compile(r"(?<=sessions/)\w{8}(?=/)")
_TIME = re.compile(rb"'?\d{4}-\d\d-\d\dT[\d:.]+Z'?")


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("contracts")
    script = base / "replies.json"
    script.write_text(json.dumps({"replies": list(REPLIES)}, ensure_ascii=False), encoding="utf-8")
    zygote = Zygote(base, "contracts", script, furnish, slack=40)
    yield zygote
    zygote.close()


class Ending:
    """Everything about a finished run that a kill must not change."""

    def __init__(self, work: Path) -> None:
        runs = {journal.parent.name: read_events(journal) for journal in journals(work)}
        ended = ("PHASE_COMPLETED", "PHASE_FAILED", "PATCH_APPLIED")
        steps = ((run, e.type, e.payload["key"]) for run, events in runs.items() for e in events if e.type in ended)
        self.steps = Counter(steps)
        self.ends = {run: events[-1].type for run, events in runs.items()}
        globs = (".claude/**/*.yaml", ".claude/**/state.json", "calc/*", "tests/*")
        kept = {_HASH.sub("HASH", str(path.relative_to(work))): path for glob in globs for path in work.glob(glob)}
        self.files = {name: _TIME.sub(b"T", path.read_bytes()) for name, path in kept.items() if path.is_file()}
        self.findings = findings(work, KNOWN)


@pytest.fixture(scope="module")
def unkilled(zygote: Zygote) -> tuple[Ending, Operations]:
    work, operations = zygote.undisturbed()
    return Ending(work), operations


def test_the_run_under_test_has_it_all(unkilled: tuple[Ending, Operations]) -> None:
    ending, _ = unkilled
    assert ending.findings == "" and max(ending.steps.values()) == 1
    assert len(ending.ends) == 5  # an exploration, three implementations
    assert sum(type == "PATCH_APPLIED" for _, type, _ in ending.steps) == 6  # one of them takes back
    assert any("T1-S1/history/test-result-0002.yaml" in name for name in ending.files)


@pytest.mark.spec("S3-127", "S3-131")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_changes_nothing_about_the_end(zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int) -> None:
    expected, operations = unkilled
    points = [case for case in cases(operations, 0, 1) if operations[case[0] - 1] == ["append", JOURNAL]][::_EVERY]
    wrong = zygote.kill_at(points[shard::SHARDS], operations, lambda gone: other_end(gone, expected))
    assert not wrong, "\n".join(wrong)
