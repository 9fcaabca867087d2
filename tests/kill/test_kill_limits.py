"""SIGKILL at appends to the journals of a tree that has a budget or a time limit; then a new process goes on.

However it is killed, a tree does not spend more than its budget and does not work much longer than its time: at most
the one call that the kill cut off is not counted, because it is too short for a reading of the clock. With a higher
limit it goes on to its end, and the sums are right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from orchestra.core.calls import calls_in
from orchestra.core.effects import ChildResult
from orchestra.core.reading import effect_of
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from tests.kill.harness import JOURNAL, Operations, Zygote, journals
from tests.kill.limits import BUDGET_USD, CALL_SEC, CASES, CHILDREN, WORKFLOWS
from tests.support.runs import read_events, verify

KINDS = {workflow.name: workflow for workflow in WORKFLOWS}
REPLY = {"text": "한 마디", "usage": {"inputTokens": 100, "outputTokens": 100}, "repeat": True}
SOME = {"budget": slice(0, None, 3), "time": slice(1, None, 2)}  # of the appends: those of the children are alike
UNKILLED = {"budget": 0, "time": 4}  # exit codes


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Zygote]]:
    base = tmp_path_factory.mktemp("limits")
    reply = REPLY if request.param == "budget" else {**REPLY, "delayMs": int(CALL_SEC * 1000)}
    script = base / "replies.yaml"
    script.write_text(yaml.safe_dump({"replies": [reply]}, allow_unicode=True), encoding="utf-8")
    zygote = Zygote(base, request.param, script, _furnish, driver="limits")
    yield request.param, zygote
    zygote.close()


def _furnish(work: Path) -> None:
    (work / "orchestra.config.yaml").write_text("budget: {prices: {m: {input: 100, output: 100}}}\n")


def _paid(work: Path) -> list[float]:
    """What each call with a reply cost."""
    calls = [call for path in journals(work) for call in calls_in(RunFolder(path.parent), read_events(path))]
    return [call.costUsd or 0.0 for call in calls if call.status == "ok"]


def _children(events: list[Event]) -> list[ChildResult]:
    ends = [event for event in events if event.type == "PHASE_COMPLETED" and effect_of(event) == "ChildRun"]
    return [msgspec.convert(event.payload["outcome"], ChildResult) for event in ends]


def test_a_killed_tree_keeps_its_limit_and_goes_on_when_it_is_raised(case: tuple[str, Zygote]) -> None:
    name, zygote = case
    code, said = zygote.drive(zygote.case("unkilled"), count=True)
    assert code == UNKILLED[name], said
    operations: Operations = json.loads(said)
    appends = [n for n, one in enumerate(operations, start=1) if one == ["append", JOURNAL]]
    wrong = {number: what for number in appends[SOME[name]] if (what := _problem(name, zygote, number))}
    assert len(appends[SOME[name]]) > 1 and not wrong


def _problem(name: str, zygote: Zygote, number: int) -> str:
    """What is wrong after a kill right behind this operation, two resumes, and one with a higher limit."""
    work = zygote.case(f"{number}")
    killed, _ = zygote.drive(work, chaos=f"{number}:after")
    # In the time that is left beside one recorded call there is no second one. A call that was cut off is not counted.
    most = CHILDREN[name] if name == "budget" else len(_paid(work)) or 2
    codes = [zygote.drive(work)[0] for _ in range(2)]
    paid = _paid(work)
    if killed not in (-9, UNKILLED[name]) or not {0, 4}.issuperset(codes):
        return f"killed: {killed}, then exit {codes}"
    if len(paid) > most or sum(paid) > BUDGET_USD:
        return f"{len(paid)} calls were made, for ${sum(paid)}"
    if (raised := zygote.drive(work, flow=f"{name}-raised"))[0] != 0:
        return f"did not go on with a higher limit: {raised}"
    root = next(path for path in journals(work) if "_limited_" in path.parent.name)
    children = _children(read_events(root))
    if len(children) != CHILDREN[name] or sum(one.costUsd or 0.0 for one in children) != pytest.approx(
        sum(_paid(work))
    ):
        return f"the sums are wrong: {children}"
    return "; ".join(str(found) for path in journals(work) for found in verify(path.parent, KINDS.get))
