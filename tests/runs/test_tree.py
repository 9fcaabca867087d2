"""Trees of runs, read from journals that the tests write themselves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.errors import JournalCorrupt, UsageError
from orchestra.core.records import EventType
from orchestra.core.run import RunFolder
from orchestra.patch.gatekeeper import Gatekeeper
from orchestra.runs.answers import Answers
from orchestra.runs.find import Runs, RunSummary
from orchestra.runs.tree import Trees, named, names_of
from tests.support.core import OPEN_TABLE, REDACTOR, new_ledger
from tests.support.runs import store_of

Told = tuple[EventType, str, str, Mapping[str, Any]]  # type, key, time, and more of the payload


def _no_gate(run: RunSummary) -> Gatekeeper:
    raise AssertionError(f"{run.folder.id} waits with no patch")


def run_id(name: str) -> str:
    return f"2026-11-18_001_flow_{name}"


class Place:
    """A folder with runs."""

    def __init__(self, path: Path) -> None:
        self.root = path / "runs"
        self.store = store_of()
        self.runs = Runs(path, lambda: [self.root], lambda workflow: self.root, self.store)
        self.trees = Trees(self.runs, self.store)
        self.answers = Answers(self.runs, self.store, _no_gate, REDACTOR)

    def write(self, name: str, *events: Told, parent: str = "", key: str = "", at: str = "10:00:00") -> RunFolder:
        """Write a run; it says which run it is a child of, and by which step."""
        folder = RunFolder(self.root / run_id(name))
        folder.path.mkdir(parents=True)
        ledger = new_ledger(folder, OPEN_TABLE)
        ledger.open()
        above = {"parentRunId": run_id(parent), "parentKey": key} if parent else {}
        ledger.record("RUN_CREATED", {"workflow": "flow", "params": {}, "goal": name, **above}, ts=_time(at))
        for type, step, when, more in events:
            where: dict[str, Any] = {} if type.startswith("RUN_") else {"phase": "execute", "iteration": 1}
            ledger.record(type, {"key": step, **more} if step else dict(more), ts=_time(when), **where)
        ledger.close()
        return folder


def _time(clock: str) -> str:
    return f"2026-11-18T{clock}.000Z"


def began(child: str, key: str, at: str = "10:00:01") -> Told:
    return ("PHASE_STARTED", key, at, {"effect": "ChildRun", "childRunId": run_id(child), "workflow": "flow"})


def asks(question: str, key: str, at: str = "10:00:02", **more: Any) -> Told:
    return ("QUESTION_RAISED", key, at, {"effect": "AskPerson", "questionId": question, "question": "?", **more})


def ended(key: str, at: str) -> Told:
    return ("PHASE_COMPLETED", key, at, {"effect": "ChildRun", "outcome": {"status": "completed"}})


def final(at: str) -> Told:
    return ("RUN_COMPLETED", "", at, {"result": {}, "exitCode": 0})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_child_comes_between_the_step_that_began_it_and_its_end_whatever_the_clocks_said(place: Place) -> None:
    root = place.write("root", began("child", "c.1", "10:00:09"), ended("c.1", "10:00:01"), final("10:00:01"))
    place.write("child", asks("q", "q.1", "10:00:05"), final("10:00:08"), parent="root", key="c.1", at="10:00:00")
    told = [(one.member.key, one.event.type) for one in place.trees.events(place.trees.members(root))]
    assert told == [
        ("", "RUN_CREATED"),
        ("", "PHASE_STARTED"),
        ("c.1", "RUN_CREATED"),
        ("c.1", "QUESTION_RAISED"),
        ("c.1", "RUN_COMPLETED"),
        ("", "PHASE_COMPLETED"),
        ("", "RUN_COMPLETED"),
    ]


def test_only_what_a_run_began_itself_is_open_below_it(place: Place) -> None:
    """A fork names the children of the run it was forked from."""
    original = place.write("original", began("child", "c.1"))
    place.write("child", asks("q", "q.1"), parent="original", key="c.1")
    fork = place.write("fork", began("child", "c.1"))
    assert [one.name for one in place.trees.requests(original)] == ["c.1/q"]
    assert (place.trees.status(original), place.trees.status(fork)) == ("awaiting_input", "running")
    assert place.trees.requests(fork) == []
    assert [(member.key, member.kept) for member in place.trees.members(fork)] == [("", False), ("c.1", True)]
    with pytest.raises(UsageError, match="waits for no answer"):
        place.answers.answer(fork, "x")


def test_nothing_is_open_below_a_run_that_has_ended(place: Place) -> None:
    """Another branch of it failed while this one asked."""
    failed: Told = ("RUN_FAILED", "", "10:00:08", {"error": {"code": "X", "message": "x"}, "exitCode": 1})
    root = place.write("root", began("child", "c.1"), failed)
    child = place.write("child", began("leaf", "l.1"), parent="root", key="c.1")
    leaf = place.write("leaf", asks("q", "q.1"), asks("r", "r.1"), parent="child", key="l.1")
    for run in (root, child, leaf):
        assert place.trees.requests(run) == []
    assert [one.requests for tree in place.trees.listing() for one in tree] == [(), (), ()]
    for run in (child, leaf):
        with pytest.raises(
            UsageError, match=f"waits for nothing any more: run {root.id} .*has ended .failed..*retry {root.id}"
        ):
            place.answers.answer(run, "x", question="q")
    assert not list(leaf.inbox.iterdir()) if leaf.inbox.exists() else True


def test_a_name_is_as_long_as_it_must_be(place: Place) -> None:
    """The root and two of its children ask `colour`; one child asks something else besides, in a branch."""
    root = place.write("root", began("a", "a.1"), began("b", "b.1"), asks("colour", "colour.1"))
    place.write("a", asks("colour", "colour.1"), asks("left~size", "left/size.1"), parent="root", key="a.1")
    place.write("b", asks("colour", "colour.1"), parent="root", key="b.1")
    requests = place.trees.requests(root)
    assert names_of(requests) == ["colour", "a.1/colour", "size", "b.1/colour"]
    assert [one.name for one in requests] == ["colour", "a.1/colour", "a.1/left/size", "b.1/colour"]
    for name, wanted in (
        ("colour", ["colour"]),  # the root's own is meant
        ("b.1/colour", ["b.1/colour"]),
        ("left~size", ["a.1/left/size"]),  # the id as recorded
        ("left/size", ["a.1/left/size"]),
        ("olour", []),
    ):
        assert [one.name for one in named(requests, name)] == wanted
    below = [one for one in requests if one.path]
    assert len(named(below, "colour")) == 2


def test_a_name_does_not_come_to_mean_another_question_while_an_answer_is_on_its_way(place: Place) -> None:
    root = place.write("root", began("a", "a.1"), asks("colour", "colour.1"))
    place.write("a", asks("colour", "colour.1"), parent="root", key="a.1")
    assert place.answers.answer(root, "x", question="colour").path == ()
    with pytest.raises(UsageError, match="already answered"):
        place.answers.answer(root, "y", question="colour")
    assert place.answers.answer(root, "y", question="a.1/colour").path == ("a.1",)


def test_a_refused_answer_names_the_question_as_a_person_does(place: Place) -> None:
    root = place.write("root", began("a", "a.1"))
    place.write("a", asks("left~size", "left/size.1", options=["큰", "작은"]), parent="root", key="a.1")
    with pytest.raises(UsageError, match="'중간' is no answer to left/size; the options are: 큰, 작은"):
        place.answers.answer(root, "중간", question="left/size")
    place.answers.answer(root, "큰", question="left/size")
    with pytest.raises(UsageError, match=r"_root: 'a\.1/left/size' was already answered by .*; the first"):
        place.answers.answer(root, "작은", question="left/size")


def test_a_question_of_a_step_that_is_over_is_refused_by_its_name(place: Place) -> None:
    """Its run waits for something else now."""
    answered: Told = ("QUESTION_ANSWERED", "one.1", "10:00:03", {"questionId": "one", "outcome": {"by": "김"}})
    root = place.write("root", asks("one", "one.1"), answered, asks("two", "two.1", "10:00:04"))
    with pytest.raises(UsageError, match="'one' was already answered by"):
        place.answers.answer(root, "x", question="one")
    with pytest.raises(UsageError, match=r"(?s)asks no question 'three'.*--question two"):
        place.answers.answer(root, "x", question="three")
    assert place.answers.answer(root, "x", question="two").id == "two"
    with pytest.raises(UsageError, match="already answered"):
        place.answers.answer(root, "y")


def test_yes_and_no_are_recorded_in_one_form(place: Place) -> None:
    root = place.write("root", asks("go", "go.1", kind="yes_no"))
    with pytest.raises(UsageError, match="the options are: yes, no"):
        place.answers.answer(root, "글쎄")
    place.answers.answer(root, " 아니요 ")
    message = place.store.mail(root, "go")
    assert message is not None and message.text == "no"


def test_the_list_has_every_run_once_below_its_parent(place: Place) -> None:
    place.write("b", at="10:00:01")
    place.write("a", began("a1", "x.1"), began("a2", "y.1"), at="10:00:00")
    place.write("a2", asks("q", "q.1"), parent="a", key="y.1", at="10:00:02")
    place.write("a1", began("a11", "z.1"), parent="a", key="x.1", at="10:00:01")
    damaged = place.write("a11", parent="a1", key="z.1", at="10:00:04")
    damaged.events.write_bytes(damaged.events.read_bytes() + b"{}\n{}\n")
    place.write("orphan", parent="gone", key="x.1", at="10:00:09")
    listed = [[(one.folder.id[20:], one.depth, one.status) for one in tree] for tree in place.trees.listing()]
    assert listed == [
        [("a", 0, "awaiting_input"), ("a1", 1, "running"), ("a11", 2, None), ("a2", 1, "awaiting_input")],
        [("b", 0, "created")],
        [("orphan", 0, "created")],
    ]
    [found] = [one.found for tree in place.trees.listing() for one in tree if one.folder.id.endswith("_a11")]
    assert isinstance(found, JournalCorrupt)


def test_runs_that_name_each_other_as_parents_are_listed_once(place: Place) -> None:
    place.write("one", began("two", "x.1"), parent="two", key="x.1")
    place.write("two", began("one", "x.1"), parent="one", key="x.1")
    place.write("self", began("self", "x.1"), parent="self", key="x.1")
    below = place.write("below", parent="one", key="b.1")
    listed = sorted(one.folder.id[20:] for tree in place.trees.listing() for one in tree)
    assert listed == ["below", "one", "self", "two"]
    assert place.trees.path(below) == "x.1/b.1"
    one = RunFolder(place.root / run_id("one"))
    assert len(place.trees.members(one)) == 2 and place.trees.path(one) == "x.1"


def test_a_tree_may_be_deep(place: Place) -> None:
    depth = 150
    for level in range(depth):
        place.write(f"n{level}", began(f"n{level + 1}", "d.1"), parent=f"n{level - 1}" if level else "", key="d.1")
    place.write(f"n{depth}", asks("q", "q.1"), parent=f"n{depth - 1}", key="d.1")
    root = RunFolder(place.root / run_id("n0"))
    assert place.trees.status(root) == "awaiting_input"
    assert [one.name.count("/") for one in place.trees.requests(root)] == [depth]
    assert [names for one in [place.trees.requests(root)] for names in names_of(one)] == ["q"]
    [tree] = place.trees.listing()
    assert [one.depth for one in tree] == list(range(depth + 1))


_FIND = """
import sys
from pathlib import Path
from orchestra.app import App
app = App(Path.cwd())
listed = []
sys.addaudithook(lambda event, args: listed.append(args) if event in ("os.scandir", "os.listdir") else None)
folder = app.runs.find(sys.argv[1])
app.runs.root_of(folder)
list(app.runs.members(folder))
print(len(listed))
"""


def test_an_exact_id_is_found_without_a_look_at_other_runs(tmp_path: Path) -> None:
    """B12"""
    place = Place(tmp_path / ".runs")
    place.root = tmp_path / ".runs" / "workflows"
    place.write("root", began("child", "c.1"))
    place.write("child", parent="root", key="c.1")
    words = [sys.executable, "-c", _FIND, run_id("child")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
