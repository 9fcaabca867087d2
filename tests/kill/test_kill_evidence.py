"""SIGKILL at every append to the journal of an evidence run, and at every write of its session; then a new process.

The run has a compaction, a repair, a tool call, a refused command line, a question and a session to save. However it is
killed, the model is asked no question twice, the answer is the same, and the session is saved once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.workflows.evidence.sessions import Sessions
from tests.kill.harness import JOURNAL, Only, Operations, Zygote, journals, other_end
from tests.support.evidence import ask, decision, finalize, planning, tool, worker
from tests.support.project import KNOWN
from tests.support.runs import read_events, verify

_SHARDS = 2
_ONLY: Only = frozenset(
    {("append", JOURNAL), ("link", "ask-3.json"), ("replace", "s1.json"), ("append", "s1.ndjson"), ("sync", "s1.json")}
)
REPLIES = (
    *(planning(), worker("no JSON"), tool("grep -n 말 글.txt | head -1"), tool("ls; ls"), ask("지워도 되나요?")),
    *(finalize(), decision(answer="지워도 된다")),
)


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("evidence")
    script = base / "replies.json"
    script.write_text(json.dumps({"replies": list(REPLIES)}), encoding="utf-8")

    def furnish(work: Path) -> None:
        (work / "글.txt").write_text("첫 말\n둘째 말\n")

    zygote = Zygote(base, "evidence", script, furnish)
    yield zygote
    zygote.close()


class Ending:
    """Everything about a finished turn that a kill must not change."""

    def __init__(self, work: Path) -> None:
        [journal] = journals(work)
        events = read_events(journal)
        self.result = {**events[-1].payload["result"]}
        self.steps = [
            (event.type, event.payload.get("key"), event.payload.get("native"), event.payload.get("state"))
            for event in events
            if event.type not in ("PHASE_STARTED",)  # a step may be begun again
        ]
        folder = work / ".orchestra" / "sessions"
        self.messages = json.loads((folder / "s1.json").read_text())["messages"]
        self.lines = [told.answer for told in Sessions(work, Disk(), Redactor([])).turns("s1")]  # torn lines left out
        self.findings = [str(finding) for finding in verify(journal.parent, KNOWN)]


def test_the_turn_under_test_has_it_all(unkilled: tuple[Ending, Operations]) -> None:
    ending, operations = unkilled
    assert ending.result["answer"] == "지워도 된다"
    assert [piece["exitCode"] for piece in ending.result["evidence"]] == [0, 126]
    natives = [step[2] for step in ending.steps]
    for name in ("compaction-complete", "planning-result", "tool-result", "ask-answer", "main-decision", "complete"):
        assert name in natives, natives
    assert ending.lines == ["지워도 된다"] and ending.findings == []
    assert ["replace", "s1.json"] in operations and ["append", "s1.ndjson"] in operations


@pytest.mark.spec("S5-11", "S5-17")
@pytest.mark.parametrize("shard", range(_SHARDS))
def test_a_kill_at_any_append_changes_nothing_about_the_end(
    zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int
) -> None:
    expected, operations = unkilled
    wrong = zygote.kill_each(operations, shard, lambda gone: other_end(gone, expected), shards=_SHARDS, only=_ONLY)
    assert not wrong, "\n".join(wrong)
