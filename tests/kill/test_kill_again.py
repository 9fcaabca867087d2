"""SIGKILL at every append of a run that goes on from another one; then a new process goes on.

Six cases: twenty drafts at once of which one failed twice and one asked, retried; a tree of three levels with a failed
grandchild, retried at its root; a fork of a waiting tree, canceled; another answer to a question two levels down; a
finished tree, rerun after an edit in one of its children; a fork of a tree that has seen an edit and waits, canceled.
Each time the old runs stay as they were, byte for byte; there is one new root; and what was kept is not done again.
Files outside the run folders are the new root's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestra.app import App
from orchestra.core.calls import calls_in
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from tests.kill.again import EDITED, FLOWS
from tests.kill.harness import JOURNAL, KILLED, Operations, Zygote, journals
from tests.support import edited
from tests.support.again import drafts, fails, furnish, says
from tests.support.runs import read_events, verify

SHARDS = 2
EACH = {"stale": 4, "edited": 3}  # of the points: their runs are made in the same way as those of the other cases
LEAVES = ("top", "middle", "first-a", "first-b", "second-a", "last")
REPLIES: dict[str, list[dict[str, Any]]] = {
    "drafts": drafts(20, broken=7, asks=3),
    "failed": [*(says(name, name) for name in LEAVES), fails("second-b"), fails("second-b"), says("second-b", "ok")],
    "cancel": [says(name, name) for name in LEAVES],
    "other": [*(says(name, name) for name in (*LEAVES, "second-b"))],
    "stale": [says(name, f"{name} {n}") for n in (1, 2) for name in edited.AGENTS],
    "edited": [says(name, f"{name} {n}") for n in (1, 2) for name in edited.AGENTS],
}
# the exit code of what comes before
BEFORE = {"drafts": 1, "failed": 1, "cancel": 3, "other": 0, "stale": 0, "edited": 3}


class Case:
    """One case, undisturbed: its operations, and what it came to."""

    def __init__(self, name: str, zygote: Zygote) -> None:
        self.name = name
        self.zygote = zygote
        work, _ = self.begun("unkilled")
        code, said = zygote.drive(work, flow=name, count=True)
        assert code == 0, said
        self.operations: Operations = json.loads(said)
        self.end = ending(work)

    def begun(self, name: str) -> tuple[Path, dict[Path, bytes]]:
        """A new project with the old run; and its journals."""
        work = self.zygote.case(f"{self.name}-{name}")
        code, said = self.zygote.drive(work, flow=f"{self.name}-before")
        assert code == BEFORE[self.name], said
        return work, {path: path.read_bytes() for path in journals(work)}

    def wrong(self, numbers: Sequence[int]) -> dict[int, str]:
        """What is wrong after a kill right behind these operations. One in `KILLED` is a kill, others are copies."""
        found: dict[int, str] = {}
        for number in numbers[::KILLED]:
            work, old = self.begun(str(number))
            killed, _ = self.zygote.drive(work, flow=self.name, chaos=f"{number}:after")
            found[number] = self._problem(work, old) if killed == -9 else self._escaped(number, killed)
        copies = [(number, "after") for n, number in enumerate(numbers) if n % KILLED]
        work, old = self.begun(f"copied-{numbers[0]}")
        for (number, _), copy in self.zygote.copied(copies, begun=work, flow=self.name):
            found[number] = self._problem(copy, old)
        found |= {number: self._escaped(number, 0) for number in numbers if number not in found}
        return {number: what for number, what in found.items() if what}

    def _escaped(self, number: int, code: int) -> str:
        return f"was not killed: {code}" if code or number < len(self.operations) - 40 else ""

    def _problem(self, work: Path, old: dict[Path, bytes]) -> str:
        """What is wrong after a new process has gone on."""
        code, said = self.zygote.drive(work, flow=self.name)
        changed = [path.parent.name for path, data in old.items() if path.read_bytes() != data]
        found = ending(work)
        if code or changed:
            return f"exit {code}: {said[:500]}; changed: {changed}"
        if found != self.end:
            return f"another end: {[one for one in found if one not in self.end]}"
        known = App(work, more=EDITED).workflows.get
        wrong = [
            str(one) for path in journals(work) if path.parent.name[0] != "." for one in verify(path.parent, known)
        ]
        self.zygote.clear(work)
        return "; ".join(wrong)


def ending(work: Path) -> list[tuple[object, ...]]:
    """Every run: its workflow, whether it is a fork, how it ended, its steps, and its calls, kept and made."""
    runs = []
    for path in journals(work):
        if path.parent.name.startswith("."):
            continue  # cut short while it was hidden: no run
        events = read_events(path)
        forked = "forkedFrom" in events[0].payload
        calls = calls_in(RunFolder(path.parent), events)
        agents = tuple(sorted(Counter((call.agent, call.kept, call.status) for call in calls).items()))
        steps = frozenset((event.type, event.payload.get("key")) for event in events)
        last = events[-1].type if events[-1].type in FINAL else "open"
        runs.append((path.parent.name.split("_")[2], forked, last, steps, agents))
    return [*sorted(runs, key=repr), *_derived(work)]


def _derived(work: Path) -> Iterator[tuple[object, ...]]:
    """The files outside the run folders: whether they are of a fork, and what they hold besides its id."""
    for path in sorted(edited.outside(work).glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        owner = text.split()[0]
        created = read_events(next(one for one in journals(work) if one.parent.name == owner))[0]
        yield path.name, "forkedFrom" in created.payload, text.replace(owner, "RUN")


@pytest.fixture(scope="module", params=FLOWS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    base = tmp_path_factory.mktemp("again")
    script = base / "replies.json"
    script.write_text(json.dumps({"replies": REPLIES[request.param]}), encoding="utf-8")
    zygote = Zygote(base, request.param, script, furnish, driver="again")
    yield Case(request.param, zygote)
    zygote.close()


def places(operations: Operations) -> list[int]:
    """Right after each append to a journal, before and after a run gets its name, and after an answer is delivered.

    While the new root is hidden, all kills are alike: of its copied lines some are enough. So are the twenty reviews.
    """
    named = next(n for n, (kind, name) in enumerate(operations, start=1) if kind == "replace" and "_00" in name)
    found = [n for n, (kind, name) in enumerate(operations, start=1) if kind == "append" and name == JOURNAL]
    others = [n for n, (kind, name) in enumerate(operations, start=1) if kind == "link" or "_00" in name]
    later = [n for n in found if n > named]
    return sorted(
        {
            *later[:12],
            *later[12 :: 3 if len(later) > 40 else 1],
            *[n for n in found if n < named][::12],
            named - 1,
            *others,
        }
    )


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_at_any_append_changes_nothing_about_the_end(case: Case, shard: int) -> None:
    points = places(case.operations)[:: EACH.get(case.name, 1)]
    assert not case.wrong(points[shard::SHARDS])


def test_what_is_kept_and_what_is_made(case: Case) -> None:
    made: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for *_, forked, _, _, agents in (one for one in case.end if len(one) == 5):
        for (agent, copied, status), times in agents:  # type: ignore[attr-defined]
            if forked:
                (kept if copied else made)[agent] += times
                assert status == "ok"
    assert (dict(made), sum(kept.values())) == {
        "drafts": ({"agent-07": 1, "reviewer": 20}, 19),
        "failed": ({"second-b": 1, "last": 1}, 3),
        "cancel": ({}, 4),
        "other": ({"second-a": 1, "last": 1}, 3),
        "stale": ({"왼쪽": 1, "summary": 1}, 3),
        "edited": ({}, 2),
    }[case.name]
    outside = [one for one in case.end if len(one) == 3]
    assert [forked for _, forked, _ in outside] == ([True, True] if FLOWS[case.name] == "tree" else [])
