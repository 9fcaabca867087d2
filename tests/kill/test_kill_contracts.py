"""SIGKILL at appends to the journals of a contracts run and of its child runs; then a new process goes on.

One implementation fails and is repaired, and one design is made again: so the run has retries, patches that are taken
back, contracts that are written twice and projections outside its folder. However it is killed, it ends with the same
contracts, the same code and the same steps.

One run is killed after every append in turn, and so has as many lives as it has events. What a life does is one step on
what the last one left: this costs about as much as a dozen runs that are killed once.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestra.core.reading import effect_of, key_of
from orchestra.core.records import Event
from tests.kill.harness import JOURNAL, Gone, Operations, Zygote, cases, findings, journals, other_end, undated
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
PATCHING = ("PATCH_PRODUCED", "APPROVAL_REQUESTED", "APPROVAL_GRANTED", "PATCH_APPLIED")
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
        runs = {undated(journal): read_events(journal) for journal in journals(work)}
        ended = ("PHASE_COMPLETED", "PHASE_FAILED", "PATCH_APPLIED")
        steps = ((run, e.type, e.payload["key"]) for run, events in runs.items() for e in events if e.type in ended)
        self.steps = Counter(steps)
        self.calls = Counter((run, key_of(e)) for run, events in runs.items() for e in events if _is_call(e))
        self.ends = {run: events[-1].type for run, events in runs.items()}
        globs = (".claude/**/*.yaml", ".claude/**/state.json", "calc/*", "tests/*")
        kept = {_HASH.sub("HASH", str(path.relative_to(work))): path for glob in globs for path in work.glob(glob)}
        self.files = {name: _TIME.sub(b"T", path.read_bytes()) for name, path in kept.items() if path.is_file()}
        self.findings = findings(work, KNOWN)


def _is_call(event: Event) -> bool:
    return event.type == "PHASE_COMPLETED" and effect_of(event) == "ModelCall"


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


@pytest.mark.spec("S3-127", "S3-131")
def test_a_run_that_is_killed_after_each_of_its_appends_has_the_same_end(
    zygote: Zygote, unkilled: tuple[Ending, Operations]
) -> None:
    expected, operations = unkilled
    gone, lives = lived(zygote, "every", 1, lambda work, life: None)
    assert not other_end(gone, expected)
    assert lives > operations.count(["append", JOURNAL])


@pytest.mark.spec("S3-128")
@pytest.mark.parametrize(("name", "appends", "types"), [("damaged", 7, ()), ("patched", 1, PATCHING)])
def test_a_contract_that_is_damaged_after_a_kill_has_nothing_else_done_again(
    zygote: Zygote, unkilled: tuple[Ending, Operations], name: str, appends: int, types: tuple[str, ...]
) -> None:
    expected, _ = unkilled
    damaged: set[str] = set()

    def damage(work: Path, life: int) -> None:
        """Delete one contract, cut one short, or make one invalid."""
        found = sorted(path for path in work.glob(".claude/**/*.yaml") if "history" not in path.parts)
        if not found:
            return
        path = found[life % len(found)]
        damaged.add(path.name)
        if life % 3 == 0:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:40] if life % 3 == 1 else b"version: [1")

    gone, lives = lived(zygote, name, appends, damage, types)
    assert gone.code == 0, gone.said
    ending = Ending(gone.work)
    assert (ending.files, ending.ends, ending.findings) == (expected.files, expected.ends, "")
    assert ending.calls == expected.calls
    assert {"explored.yaml", "design-contract.yaml", "test-contract.yaml", "test-result.yaml"} <= damaged
    assert lives > 18  # six patches, each produced, granted and applied


def lived(
    zygote: Zygote, name: str, appends: int, between: Callable[[Path, int], None], types: tuple[str, ...] = ()
) -> tuple[Gone, int]:
    """One run that is killed after so many appends, again and again, until it ends; and how many lives it had.

    A command that was cut short is announced again. A life that did only that is followed by one that may do more.
    """
    work, seen, allowed = zygote.case(name), 0, appends
    for life in range(1, 1_000):
        code, said = zygote.drive(work, appends=allowed, types=types)
        if code != -9:
            return Gone(life, work, code, said), life
        told = {(path, e.type, e.payload.get("key")) for path in journals(work) for e in read_events(path)}
        allowed = appends if len(told) > seen else allowed + 1
        seen = max(seen, len(told))
        between(work, life)
    raise AssertionError("it does not end")
