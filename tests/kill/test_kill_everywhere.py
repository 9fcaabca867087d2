"""SIGKILL before, in the middle of and after every disk operation of a run that has it all; then a new process goes on.

The run: a parent with concurrent branches calls a loop as a child. The loop runs its check before the plan; its planner
asks to see files and then plans; it asks a question, has a provider error retried, writes a wrong patch over two files,
waits for approval and fails its check; its fixer asks to see a file, is answered, fixes, waits again, and it passes. A
person answers through the inbox in between, and is killed there too. However it is killed, the end is the same: the
same events in the same order, the same files, every reply used once, every patch applied once.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestra.core.records import Event
from orchestra.workflows.all import ALL
from tests.kill.harness import (
    SHARDS,
    Gone,
    Operations,
    Zygote,
    appends,
    cases,
    findings,
    journals,
    other_end,
    told_once,
    undated,
)
from tests.kill.zygote import PARENT
from tests.support.project import PLAN, Project, ask, reply, role
from tests.support.runs import read_events

TWO_FILES = """\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a * b
diff --git a/NEWS.md b/NEWS.md
new file mode 100644
--- /dev/null
+++ b/NEWS.md
@@ -0,0 +1 @@
+덧셈
"""
FIX = """\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a * b
+    return a + b
diff --git a/NEWS.md b/CHANGES.md
similarity index 100%
rename from NEWS.md
rename to CHANGES.md
"""
BUSY = {"code": "RATE_LIMIT", "message": "slow down", "retriable": True}
SEE = "<<<AIO_RESULT_START>>>\ntype: ASK\nquestion: what is in it?\nreason: it is not shown\nneeded_input:\n"
SEE += "- file: calc.py:1-2\n<<<AIO_RESULT_END>>>\n"
REPLIES = (
    role("planner", "NEED\n- file: calc.py\n- search: 덧셈"),
    role("planner", PLAN),
    role("developer", ask("plus or times?")),
    {"match": {"role": "developer"}, "error": BUSY},
    role("developer", reply(TWO_FILES), chunk=200),
    role("evaluator", "DECISION: FIX\nthe check fails"),
    role("fixer", SEE),
    role("fixer", reply(FIX)),
    role("evaluator", "DECISION: PASS\nit adds"),
)

KINDS = {workflow.name: workflow for workflow in (*ALL, PARENT)}


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = tmp_path_factory.mktemp("kill")
    template = Project(base / "template", *REPLIES)
    (template.path / "orchestra.config.yaml").write_text("whitelist_tools: [grep]\n")  # the parent's checks need it

    def fill(work: Path) -> None:
        for name in ("calc.py", "orchestra.config.yaml"):
            shutil.copy(template.path / name, work)

    zygote = Zygote(base, "loop", template.script, fill)
    yield zygote
    zygote.close()


class Ending:
    """Everything about a finished run that a kill must not change."""

    def __init__(self, project: Path) -> None:
        self.journals = {undated(path): _milestones(read_events(path)) for path in journals(project)}
        self.files = {
            str(path.relative_to(project)): path.read_bytes()
            for path in sorted(project.rglob("*"))
            if path.is_file() and not {".runs", "runs"} & set(path.relative_to(project).parts)
        }
        self.artifacts = sorted(
            str(path.relative_to(project))
            for path in project.rglob("artifacts/**/*")
            if path.is_file() and not path.name.endswith((".part", ".tmp"))
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ending) and self.__dict__ == other.__dict__


def _milestones(events: list[Event]) -> list[tuple[object, ...]]:
    """What happened."""
    return [_essence(event) for event in told_once(events)]


def _essence(event: Event) -> tuple[object, ...]:
    outcome = event.payload.get("outcome") or {}
    said = outcome.get("text") or outcome.get("digest") or outcome.get("decision") or outcome.get("exitCode")
    return (event.type, event.phase, event.iteration, event.payload.get("key"), said)


@pytest.mark.spec("S1-113", "S1-114", "S1-120", "S1-121", "S1-125", "S1-02")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_at_any_disk_operation_changes_nothing_about_the_end(
    zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int
) -> None:
    expected, operations = unkilled

    def problem(gone: Gone) -> str:
        return other_end(gone, expected) or findings(gone.work, KINDS.get)

    wrong = zygote.kill_each(operations, shard, problem)
    assert not wrong, "\n".join(wrong)


def test_the_run_under_test_has_it_all(unkilled: tuple[Ending, Operations]) -> None:
    ending, operations = unkilled
    assert ending.files["calc.py"] == b"def add(a, b):\n    return a + b\n"
    assert ending.files["CHANGES.md"].decode() == "덧셈\n"
    assert "NEWS.md" not in ending.files
    types = {row[0] for journal in ending.journals.values() for row in journal}
    assert {
        "QUESTION_ANSWERED",
        "APPROVAL_GRANTED",
        "EVALUATION_FAILED_FIXABLE",
        "PHASE_FAILED",
        "RUN_COMPLETED",
    } <= types
    assert len(ending.journals) == 2
    assert {"append", "sync", "replace", "link", "unlink"} == {kind for kind, _ in operations}


def test_a_copy_is_what_a_kill_leaves(zygote: Zygote, unkilled: tuple[Ending, Operations]) -> None:
    """Of most cases of these tests no process is killed (copies.py)."""
    points = [*cases(unkilled[1], 0, 1)][5::45]
    assert {mode for _, mode in points} == {"before", "torn", "after"}
    copies = {}
    for point, work in zygote.copied(points):
        copies[point] = _left(work)
        zygote.clear(work)
    for number, mode in points:
        work = zygote.case(f"left-{number}-{mode}")
        assert zygote.drive(work, chaos=f"{number}:{mode}")[0] == -9
        assert _left(work) == copies[number, mode]


def _left(work: Path) -> Counter[tuple[str, int, bool]]:
    """Every file by its name without ids; of those that grow, their lines and whether the last of them is whole.

    But readings of the clock: it depends on the time whether there is one (core/clockfile.py, rule 4).
    """
    found: Counter[tuple[str, int, bool]] = Counter()
    for path in (path for path in work.parent.rglob("*") if path.is_file() and path.name != ".clock"):
        name = re.sub(r"[0-9a-f]{6,}|[0-9]+", "N", str(path.relative_to(work.parent)))
        data = path.read_bytes() if path.suffix in (".ndjson", ".log") else b"\n"
        found[name, data.count(b"\n"), data.endswith(b"\n")] += 1
    return found


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_full_disk_at_any_write_is_a_clear_error_and_the_run_goes_on_later(
    zygote: Zygote, unkilled: tuple[Ending, Operations], shard: int
) -> None:
    expected, operations = unkilled

    def problem(gone: Gone) -> str:
        ending = Ending(gone.work)
        # Before the first event there is no run yet: starting again makes another one.
        same = ending == expected if gone.number > 1 else ending.files == expected.files
        return "" if same and gone.code == 0 else f"another end: {gone.code} {gone.said[:200]}"

    wrong = zygote.fill_at_each(operations, appends(operations)[shard::SHARDS], problem)
    assert not wrong, "\n".join(wrong)
