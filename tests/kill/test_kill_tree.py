"""SIGKILL at every append to a journal of a tree of three levels, and at every answer; then a new process goes on.

Two children two levels down wait at once, and are answered by the root's id, in either order. However the tree is
killed, each question is asked and answered once, every run ends as it would have, and conforms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestra.core.records import Event
from tests.kill.harness import JOURNAL, Gone, Only, Operations, Zygote, findings, journals, other_end, undated
from tests.support.runs import read_events
from tests.support.trees import REPLIES, TREE

_SHARDS = 2
_KNOWN = {workflow.name: workflow for workflow in TREE}.get
_ONLY: Only = frozenset({("append", JOURNAL), ("link", "colour.json")})


@pytest.fixture(scope="module", params=["tree", "tree-reversed"])
def zygote(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("tree")
    script = base / "replies.json"
    script.write_text(json.dumps({"replies": list(REPLIES)}), encoding="utf-8")
    zygote = Zygote(base, str(request.param), script, lambda work: None)
    yield zygote
    zygote.close()


class Ending:
    """Everything about a finished tree that a kill must not change."""

    def __init__(self, work: Path) -> None:
        self.runs = {undated(journal): _essence(read_events(journal)) for journal in journals(work)}
        [self.result] = [
            read_events(journal)[-1].payload["result"] for journal in journals(work) if "_crew_" in str(journal)
        ]


def _essence(events: list[Event]) -> list[tuple[str, str, str]]:
    """What happened in a run; of branches that work beside each other, either may be first."""
    found = []
    for event in events:
        outcome = event.payload.get("outcome") or {}
        said = outcome.get("text") or outcome.get("result")
        found.append((event.type, str(event.payload.get("key")), str(said)))
    return sorted(found)


def test_the_tree_under_test_has_it_all(unkilled: tuple[Ending, Operations]) -> None:
    ending, operations = unkilled
    assert ending.result == {"left": "왼쪽=빨강", "right": "오른쪽=blue"}
    assert len(ending.runs) == 5
    types = [step[0] for run in ending.runs.values() for step in run]
    assert types.count("QUESTION_RAISED") == types.count("QUESTION_ANSWERED") == 2
    assert types.count("RUN_COMPLETED") == 5
    assert operations.count(["link", "colour.json"]) == 2


@pytest.mark.spec("S1-113", "S1-114", "S1-120", "S1-121")
@pytest.mark.parametrize("shard", range(_SHARDS))
def test_a_kill_at_any_append_changes_nothing_about_the_end(
    zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int
) -> None:
    expected, operations = unkilled

    def problem(gone: Gone) -> str:
        return other_end(gone, expected) or findings(gone.work, _KNOWN)

    wrong = zygote.kill_each(operations, shard, problem, shards=_SHARDS, only=_ONLY)
    assert not wrong, "\n".join(wrong)
