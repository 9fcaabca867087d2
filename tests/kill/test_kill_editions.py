"""SIGKILL at every disk operation of a run whose files a person edits between its lives; then a new process goes on.

However it is killed, exactly what was made from an edited file is made again: the same calls, the same files, the same
decisions asked for, and nothing waits in an edition that was replaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestra.core.reading import effect_of, key_of
from orchestra.core.records import Event
from orchestra.core.tables import Fold
from tests.kill.editing import AGENTS, EDITED, WORKFLOWS
from tests.kill.harness import SHARDS, Gone, Operations, Zygote, findings, journals, other_end, undated
from tests.support.runs import read_events

KINDS = {workflow.name: workflow for workflow in WORKFLOWS}


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("editions")
    replies = [{"match": {"agent": name}, "text": f"{name} {n}판\n"} for n in (1, 2, 3) for name in AGENTS]
    (base / "replies.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    zygote = Zygote(base, "editing", base / "replies.json", lambda work: None, driver="editing")
    yield zygote
    zygote.close()


class Ending:
    """Everything about the finished run that a kill must not change."""

    def __init__(self, work: Path) -> None:
        runs = {undated(path): read_events(path) for path in journals(work)}
        self.files = {p.name: p.read_text(encoding="utf-8") for p in sorted((work / "계약").iterdir())}
        self.calls = sorted(_key(e) for events in runs.values() for e in events if _is_call(e))
        self.editions = sorted(key_of(e) for events in runs.values() for e in events if effect_of(e) == "Edition")
        self.answers = sorted(
            (key_of(e), e.payload["outcome"]["text"])
            for events in runs.values()
            for e in events
            if e.type == "QUESTION_ANSWERED"
        )
        self.ends = {undated(p): read_events(p)[-1].type for p in journals(work)}
        self.results = [events[-1].payload.get("result") for events in runs.values()]


def _is_call(event: Event) -> bool:
    return event.type == "PHASE_COMPLETED" and effect_of(event) == "ModelCall"


def _key(event: Event) -> tuple[str, str]:
    return key_of(event), event.payload["outcome"]["text"]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_at_any_disk_operation_changes_nothing_about_the_end(
    zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int
) -> None:
    expected, operations = unkilled
    wrong = zygote.kill_each(operations, shard, lambda gone: _problem(gone, expected))
    assert not wrong, "\n".join(wrong)


def _problem(gone: Gone, expected: Ending) -> str:
    if other := other_end(gone, expected):
        return other
    for path in journals(gone.work):
        fold = Fold.of(read_events(path))
        if fold.pending or fold.children:
            return f"{path.parent.name}: {[*fold.pending, *fold.children]} waits"
    return findings(gone.work, KINDS.get)


def test_exactly_the_dependants_of_what_was_edited_are_made_again(unkilled: tuple[Ending, Operations]) -> None:
    ending, operations = unkilled
    assert ending.calls == [
        ("apart@1/apart.1", "apart 1판\n"),
        ("brief@1/brief.1", "brief 1판\n"),
        ("design@2/design.1", "design 1판\n"),
        ("test@1/test.1", "test 1판\n"),
        ("test@2/test.1", "test 2판\n"),
    ]
    assert ending.files == {
        "apart.md": "apart 1판\n",
        "brief.md": f"brief 1판\n{EDITED}",
        "design.md": f"design 1판\n{EDITED}",
        "test.md": "test 2판\n",
    }
    assert [key for key, _ in ending.answers] == [
        "design@2/asks/colour.1",
        "fine.1",
        "publish.1",
        "test-file@2/conflict.1",
    ]
    assert sorted(ending.ends.values()) == ["RUN_CANCELED", "RUN_COMPLETED", "RUN_COMPLETED"]  # the first child ended
    assert {"append", "sync", "replace", "link", "unlink"} >= {kind for kind, _ in operations}
