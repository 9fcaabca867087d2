"""SIGKILL over a team's phase that builds: at appends to its journals, and at writes of the built file.

The child works in a copy of the project; a person approves its patch. However the run is killed, a new process goes on,
and in the end the project has the result. It was patched once, and nothing was built or paid for twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from orchestra.core.run import RunFolder
from tests.kill.harness import JOURNAL, Gone, Zygote, cases, journals
from tests.support.project import KNOWN, PLAN, RIGHT_PATCH, role
from tests.support.runs import read_events, verify
from tests.support.team import VISION, says, write_team

BEFORE, BUILT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
ROWS = (("planner", "project-vision.md", (), ""), ("builder", "built.md", ("project-vision.md",), ""))
PHASES = ((1, ("planner",), "solo"), (2, ("builder",), "loop"))
REPLIES = (
    says("planner", VISION, "execute"),
    role("planner", PLAN),
    says("builder", RIGHT_PATCH, "execute"),
    says("builder", "# Built", "execute"),
)
_EVERY = 7  # of the appends, one in so many is a case


def furnish(work: Path) -> None:
    write_team(work, ROWS, PHASES)
    (work / "calc.py").write_text(BEFORE)
    (work / "orchestra.config.yaml").write_text(
        "whitelist_tools: [grep]\nloop: {evaluator: false, checks: [grep -q b calc.py]}\n"
    )


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("building")
    script = base / "replies.yaml"
    script.write_text(yaml.safe_dump({"replies": list(REPLIES)}, allow_unicode=True), encoding="utf-8")
    zygote = Zygote(base, "team", script, furnish, slack=12)
    yield zygote
    zygote.close()


def problem(gone: Gone) -> str:
    if gone.code != 0:
        return f"exit {gone.code}: {gone.said}"
    if (gone.work / "calc.py").read_text() != BUILT:
        return "the project does not have the result"
    found = sorted(journals(gone.work))
    if len(found) != 2:
        return f"{len(found)} runs"
    events = [event for journal in found for event in read_events(journal)]
    applied = [event.runId for event in events if event.type == "PATCH_APPLIED"]
    calls = [event for event in events if event.type == "PHASE_COMPLETED" and event.payload["effect"] == "ModelCall"]
    if len(set(applied)) != 2 or len(applied) != 2 or len(calls) != len(REPLIES):
        return f"{len(applied)} patches, {len(calls)} replies"
    return "; ".join(str(one) for journal in found for one in verify(RunFolder(journal.parent).path, KNOWN))


def test_a_kill_changes_nothing_about_the_result(zygote: Zygote) -> None:
    work, operations = zygote.undisturbed()
    assert problem(Gone(0, work, 0, "")) == ""
    points = list(cases(operations, 0, 1))
    appends = [case for case in points if operations[case[0] - 1] == ["append", JOURNAL]][::_EVERY]
    files = [case for case in points if operations[case[0] - 1] == ["replace", "calc.py"]]
    wrong = zygote.kill_at([*appends, *files], operations, problem)
    assert not wrong, "\n".join(wrong)
