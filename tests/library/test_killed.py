"""The larger program of docs/library.md, killed at every write of its journal and at the others; then it goes on.

A model call and a step in branches, a question, a step, a patch that waits. However the program is killed, a new
process ends with the same result; nothing that is recorded is done again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.records import Event
from orchestra.core.tables import Table
from orchestra.workflows.description import Workflow
from tests.docs.blocks import blocks
from tests.kill.harness import SHARDS, Gone, Operations, Zygote, difference, journals
from tests.support.runs import read_events, verify

RELEASE: Any = Workflow(name="release", params=dict, flow=lambda ctx, job: ..., goal=str, table=Table.any("release"))  # type: ignore[arg-type,return-value]


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("killed")
    for block in blocks("docs/library.md"):
        if block.file in ("release.py", "replies.yaml"):
            (base / block.file).write_text(block.body, encoding="utf-8")
    zygote = Zygote(base, str(base / "release.py"), base / "replies.yaml", lambda work: None)
    yield zygote
    zygote.close()


class Ending:
    """Everything about the finished run that a kill must not change."""

    def __init__(self, work: Path) -> None:
        [journal] = journals(work)
        events = read_events(journal)
        self.result = events[-1].payload["result"]
        self.news = (work / "NEWS.md").read_text(encoding="utf-8")
        self.steps = sorted(_essence(event) for event in events)  # branches may settle in another order
        self.after = [_essence(event) for event in events if "/" not in str(event.payload.get("key", ""))]


def _essence(event: Event) -> tuple[str, ...]:
    outcome = event.payload.get("outcome") or {}
    said = outcome.get("text") or outcome.get("digest") or outcome.get("result")
    return (event.type, str(event.payload.get("key")), str(said))


@pytest.fixture(scope="module")
def unkilled(zygote: Zygote) -> tuple[Ending, Operations]:
    work, operations = zygote.undisturbed()
    assert (work.parent / "calls").read_text() == "diff_of\n"
    return Ending(work), operations


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_at_any_write_changes_nothing_about_the_end(
    zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int
) -> None:
    expected, operations = unkilled
    wrong = zygote.kill_each(operations, shard, lambda gone: _problem(gone, expected))
    assert not wrong, "\n".join(wrong)


def _problem(gone: Gone, expected: Ending) -> str:
    if gone.code != 0:
        return f"did not go on: exit {gone.code}: {gone.said[:500]}"
    ending = Ending(gone.work)
    for part, wanted in vars(expected).items():
        if getattr(ending, part) != wanted:
            return f"another end: {part}: {difference(vars(ending), vars(expected))}"
    [journal] = journals(gone.work)
    done = [
        event for event in read_events(journal) if event.payload.get("key") == "diff.1" and "outcome" in event.payload
    ]
    again = any(event.payload.get("redone") for event in done)
    calls = (gone.work.parent / "calls").read_text().count("diff_of")
    if calls > 1 + again:
        return f"the function of a recorded step was called {calls} times"
    return "; ".join(map(str, verify(journal.parent, lambda name: RELEASE)))


def test_the_program_under_test_has_it_all(unkilled: tuple[Ending, Operations]) -> None:
    ending, operations = unkilled
    assert ending.result == {
        "version": "1.0",
        "notes": {"what": "Rain is the sky, come down to look around.", "size": "3 files"},
        "files": ["NEWS.md"],
    }
    types = {step[0] for step in ending.steps}
    assert {"QUESTION_ANSWERED", "APPROVAL_GRANTED", "PATCH_APPLIED", "RUN_COMPLETED"} <= types
    assert {"what/writer.1", "size/measure.1", "diff.1"} <= {step[1] for step in ending.steps}
    assert len([1 for kind, name in operations if (kind, name) == ("append", "events.ndjson")]) >= 15
