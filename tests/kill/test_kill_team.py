"""SIGKILL at appends to the journal of a team's run, and at writes of its drafts; then a new process goes on.

Two drafts run at once, one agent asks a person, one reply cannot be read, and the reviews take two rounds. However the
run is killed, it ends with the same files, and no draft that was finished is paid for again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from orchestra.core.run import RunFolder
from tests.kill.harness import JOURNAL, Operations, Zygote, cases, journals, other_end
from tests.support.project import KNOWN
from tests.support.runs import read_events, verify
from tests.support.team import STANDARD, says, write_team

QUESTION = "=== question\nkind: stack\ntext: 스택?\noptions: Next.js | Django\ndefault: Django\nimpact: 모든 것\n"
REPLIES = (STANDARD[0], says("research", QUESTION, "execute"), says("tech-architect", " ", "execute"), *STANDARD[1:])
_EVERY = 4  # of the appends, one in so many is a case


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("team")
    script = base / "replies.yaml"
    script.write_text(yaml.safe_dump({"replies": list(REPLIES)}, allow_unicode=True), encoding="utf-8")
    zygote = Zygote(base, "team", script, write_team, slack=12)
    yield zygote
    zygote.close()


class Ending:
    """Everything about a finished run that a kill must not change."""

    def __init__(self, work: Path) -> None:
        [journal] = journals(work)
        run, events = RunFolder(journal.parent), read_events(journal)
        self.result = events[-1].payload["result"]
        ended = [event for event in events if event.type in ("PHASE_COMPLETED", "PHASE_FAILED")]
        self.steps = Counter((event.type, event.payload["key"]) for event in ended)  # branches end in any order
        kept = (*run.path.glob("artifacts/*.*"), *run.path.glob("reviews/*"))
        self.files = {path.name: path.read_bytes() for path in kept}
        self.findings = [str(finding) for finding in verify(run.path, KNOWN)]


def test_the_run_under_test_has_it_all(unkilled: tuple[Ending, Operations]) -> None:
    ending, operations = unkilled
    assert ending.findings == [] and max(ending.steps.values()) == 1
    assert len(ending.files) == 7 and ending.result["reviewRounds"] == 2
    assert ("PHASE_FAILED", "phase2/tech-architect/draft@1/draft.1") in ending.steps
    assert ("PHASE_COMPLETED", "phase2/research/draft@1/draft.2") in ending.steps
    assert ["replace", "market-analysis.md"] in operations


@pytest.mark.spec("S4-46", "S4-64")
def test_a_kill_changes_nothing_about_the_end(zygote: Zygote, unkilled: tuple[Ending, Operations]) -> None:
    expected, operations = unkilled
    points = list(cases(operations, 0, 1))
    appends = [case for case in points if operations[case[0] - 1] == ["append", JOURNAL]][::_EVERY]
    drafts = [case for case in points if operations[case[0] - 1] == ["replace", "market-analysis.md"]]
    wrong = zygote.kill_at([*appends, *drafts], operations, lambda gone: other_end(gone, expected))
    assert not wrong, "\n".join(wrong)
