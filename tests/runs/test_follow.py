"""Following a run: what a reader is told when its files change, are replaced, torn or somebody else's."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.errors import JournalCorrupt, UsageError
from orchestra.core.faces import Happened, Launched, News, Notice, Output, Token
from orchestra.core.records import now
from orchestra.core.redact import MASK, Redactor
from orchestra.core.run import RunFolder
from orchestra.runs.follow import follow
from tests.support.runs import store_of

SECRET = "hunter2-and-more"
PLAN = {"key": "plan.1", "effect": "ModelCall", "role": "planner", "agent": "planner", "artifact": "plan/iter-0001"}


class Writer:
    """A process that drives a run, as far as its files show it. No key seals its journal."""

    def __init__(self, root: Path, name: str = "2026-11-18_001_loop_x", *, polling: bool = False) -> None:
        self.polling = polling  # how it is followed
        self.folder = RunFolder(root / name)
        self.folder.path.mkdir(parents=True)
        self._count = 0
        self.event("RUN_CREATED", {"workflow": "loop"})

    def event(self, type: str, payload: dict[str, Any], *, torn: bool = False) -> None:
        self._count += 1
        event = {"id": f"{self._count:08d}", "runId": self.folder.id, "ts": now(), "type": type, "payload": payload}
        line = json.dumps(event).encode()
        with self.folder.events.open("ab") as journal:
            journal.write(line[:20] if torn else line + b"\n")

    def part(self, artifact: str = "plan/iter-0001", *, anew: bool = False) -> Path:
        path = self.folder.artifact(f"{artifact}.raw.txt.part")
        path.parent.mkdir(parents=True, exist_ok=True)
        if anew:
            path.unlink(missing_ok=True)
        return path

    def add(self, data: bytes, path: Path | None = None) -> None:
        with (path or self.part()).open("ab") as file:
            file.write(data)

    def settle(self, data: bytes, type: str = "PHASE_COMPLETED", *, key: str = "plan.1", name: str = "") -> None:
        """The reply is whole: it gets its name, and its event."""
        target = self.folder.artifact(name or "plan/iter-0001.raw.txt")
        if self.part().exists():
            self.part().rename(target)
        raw = {"path": str(target.relative_to(self.folder.path)), "bytes": len(data)}
        raw["sha256"] = f"sha256:{hashlib.sha256(data).hexdigest()}"
        outcome = {"text": "t", "raw": raw, "finishReason": "stop", "durationMs": 1, "provider": "p"}
        self.event(type, {"key": key, "effect": "ModelCall", "outcome": outcome})

    def end(self) -> None:
        self.event("RUN_COMPLETED", {"exitCode": 0})


class Reader:
    """What somebody who follows the run was told so far."""

    def __init__(self) -> None:
        self.news: list[News] = []

    @property
    def text(self) -> str:
        """The text of the call as a reader has it now."""
        text = ""
        for one in self.news:
            if isinstance(one, Token):
                text = ("" if one.restart else text) + one.text
        return text

    @property
    def lines(self) -> list[str]:
        return [one.line for one in self.news if isinstance(one, Output)]

    @property
    def notices(self) -> list[str]:
        return [one.text for one in self.news if isinstance(one, Notice)]

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(one.run_id, one.event.type) for one in self.news if isinstance(one, Happened)]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110  # what it waits for is in files
                await asyncio.sleep(0.002)


def read(writer: Writer, act: Callable[[Reader], Awaitable[None]], **more: Any) -> Reader:
    """Follow a run while `act` writes it, to its end."""

    async def both() -> Reader:
        reader = Reader()

        async def follows() -> None:
            root = writer.folder.path.parent
            how = {"redactor": Redactor([SECRET]), "root_of": lambda _: root, "polling": writer.polling, **more}
            async for news in follow(store_of(), writer.folder, **how):
                reader.news.append(news)

        async with asyncio.timeout(60), asyncio.TaskGroup() as both:
            both.create_task(follows())
            await reader.until(lambda: reader.news)
            await act(reader)
        return reader

    try:
        return asyncio.run(both())
    except* (JournalCorrupt, UsageError) as group:
        raise group.exceptions[0] from None


@pytest.fixture(params=["inotify", "polling"])
def writer(tmp_path: Path, request: pytest.FixtureRequest) -> Writer:
    return Writer(tmp_path / "runs", polling=request.param == "polling")


def test_text_comes_as_it_is_written_masked_and_with_whole_characters(writer: Writer) -> None:
    async def act(reader: Reader) -> None:
        writer.event("PHASE_STARTED", PLAN)
        data = f"가나다 {SECRET}, 라".encode()
        for at in range(len(data)):
            writer.add(data[at : at + 1])
            if at in (4, 12, 30):
                await reader.until(lambda: f"가나다 {MASK}, 라".startswith(reader.text))
        await reader.until(lambda: reader.text == f"가나다 {MASK}, 라")
        writer.settle(data)
        writer.end()

    reader = read(writer, act)
    assert reader.text == f"가나다 {MASK}, 라"
    assert SECRET[:4] not in "".join(one.text for one in reader.news if isinstance(one, Token))
    assert isinstance(reader.news[0], Launched) and reader.news[0].workflow == "loop"
    assert isinstance(reader.news[-3], Token) or isinstance(reader.news[-4], Token)


def test_a_call_made_again_says_so_also_if_its_new_text_is_longer_already(writer: Writer) -> None:
    async def act(reader: Reader) -> None:
        writer.event("PHASE_STARTED", PLAN)
        writer.add(b"first try!")
        await reader.until(lambda: reader.text == "first try!")
        writer.part(anew=True).write_bytes(b"the second try, which is longer!")
        await reader.until(lambda: reader.text == "the second try, which is longer!")
        writer.settle(b"the second try, which is longer!")
        writer.end()

    reader = read(writer, act)
    tokens = [one for one in reader.news if isinstance(one, Token)]
    assert reader.text == "the second try, which is longer!"
    assert [one.restart for one in tokens if one.restart] == [True]


def test_the_next_attempt_is_not_taken_for_the_same_call(writer: Writer) -> None:
    """The file of the next attempt has the same name, and is there before the reader has seen the first one's end."""

    async def act(reader: Reader) -> None:
        writer.event("PHASE_STARTED", PLAN)
        writer.add(b"one!")
        await reader.until(lambda: reader.text == "one!")
        writer.settle(b"one!", "PHASE_FAILED", name="plan/iter-0001.attempt-1.raw.txt")
        writer.event("PHASE_STARTED", {**PLAN, "key": "plan.2", "attempt": 2})
        writer.add(b"two!")
        writer.settle(b"two!", key="plan.2")
        writer.end()

    reader = read(writer, act)
    told = [(one.key, one.text, one.restart) for one in reader.news if isinstance(one, Token)]
    assert told == [("plan.1", "one!", False), ("plan.2", "two!", False)]


def test_a_call_that_began_and_ended_between_two_looks_is_told_whole(writer: Writer) -> None:
    async def act(reader: Reader) -> None:
        writer.event("PHASE_STARTED", PLAN)
        writer.add(b"all of it!")
        writer.settle(b"all of it!")
        # a later attempt has renamed it since
        writer.folder.artifact("plan/iter-0001.raw.txt").rename(
            writer.folder.artifact("plan/iter-0001.attempt-1.raw.txt")
        )
        writer.end()

    reader = read(writer, act)
    assert reader.text == "all of it!"
    assert [type(one).__name__ for one in reader.news] == ["Launched", *["Happened"] * 2, "Token", *["Happened"] * 2]


def test_calls_that_were_settled_before_are_known_by_their_events_only(writer: Writer) -> None:
    writer.event("PHASE_STARTED", PLAN)
    writer.add(b"long ago")
    writer.settle(b"long ago")

    async def act(reader: Reader) -> None:
        writer.end()

    await_a_moment()
    reader = read(writer, act)
    assert reader.text == "" and len(reader.events) == 4


def await_a_moment() -> None:
    """Times are recorded in milliseconds: the next one begins."""
    before = now()
    while now() == before:
        pass


def test_a_line_of_the_journal_that_is_torn_is_told_when_it_is_whole(writer: Writer) -> None:
    async def act(reader: Reader) -> None:
        size = os.path.getsize(writer.folder.events)
        writer.event("PHASE_STARTED", PLAN, torn=True)
        await asyncio.sleep(0.05)
        assert len(reader.events) == 1
        os.truncate(writer.folder.events, size)  # a driver that goes on cuts it off
        writer.event("PHASE_STARTED", PLAN)
        writer.end()

    assert [type for _, type in read(writer, act).events] == ["RUN_CREATED", "PHASE_STARTED", "RUN_COMPLETED"]


def test_child_runs_are_told_between_the_events_of_their_step_and_only_once(writer: Writer) -> None:
    def begins(child: str) -> dict[str, Any]:
        return {"key": f"{child}.1", "effect": "ChildRun", "childRunId": child, "workflow": "loop"}

    async def act(reader: Reader) -> None:
        writer.event("PHASE_STARTED", begins("2026-11-18_001_loop_c"))
        await reader.until(lambda: len(reader.events) == 2)
        child = Writer(writer.folder.path.parent, "2026-11-18_001_loop_c")
        await reader.until(lambda: len(reader.events) == 3)
        child.event("PHASE_STARTED", {**begins("2026-11-18_001_loop_x"), "key": "again.1"})  # it is its own ancestor
        child.event("PHASE_STARTED", PLAN)
        child.add(b"of the child")
        child.settle(b"of the child")
        child.end()
        writer.event("PHASE_COMPLETED", {"key": "2026-11-18_001_loop_c.1", "effect": "ChildRun"})
        writer.event("PHASE_STARTED", begins("../../etc"))
        writer.event("PHASE_STARTED", begins("never-made"))
        writer.end()

    reader = read(writer, act)
    top, below = writer.folder.id, "2026-11-18_001_loop_c"
    assert [run for run, _ in reader.events] == [top, top, *[below] * 5, *[top] * 4]
    assert reader.text == "of the child"


def test_without_child_runs_if_only_the_run_is_wanted(writer: Writer) -> None:
    Writer(writer.folder.path.parent, "c")
    writer.event("PHASE_STARTED", {"key": "c.1", "effect": "ChildRun", "childRunId": "c", "workflow": "loop"})

    async def act(reader: Reader) -> None:
        writer.end()

    assert {run for run, _ in read(writer, act, own=True).events} == {writer.folder.id}


def test_a_commands_lines_are_told_as_they_come(writer: Writer) -> None:
    check = {"key": "check-1.1", "effect": "RunCommand", "artifact": "evaluate/check-1.txt", "argv": ["x"]}
    task = {**check, "key": "build/task.2", "artifact": "build", "task": "build"}

    async def act(reader: Reader) -> None:
        output = writer.folder.artifact("evaluate/check-1.txt")
        output.parent.mkdir(parents=True)
        writer.add(b"", output)
        writer.event("PHASE_STARTED", check)
        writer.add("한 줄\n\nnot whol".encode(), output)
        await reader.until(lambda: len(reader.lines) == 2)
        writer.add(f"e {SECRET}".encode(), output)
        writer.event("PHASE_COMPLETED", {"key": "check-1.1", "effect": "RunCommand"})
        folder = writer.folder.artifact("build")
        folder.mkdir()
        writer.add(b"out\n", folder / "attempt-2.stdout.txt")
        writer.add(b"\x1b[31merr\xff\n", folder / "attempt-2.stderr.txt")
        writer.event("PHASE_STARTED", task)
        writer.event("PHASE_COMPLETED", {"key": "build/task.2", "effect": "RunCommand"})
        writer.end()

    reader = read(writer, act)
    assert reader.lines == ["한 줄", "", f"not whole {MASK}", "out", "err\\xff"]


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("odd", [_link, os.mkfifo, _huge, os.mkdir])
def test_what_is_no_reply_is_not_read_and_named(writer: Writer, odd: Callable[[Path], None]) -> None:
    async def act(reader: Reader) -> None:
        odd(writer.part())
        writer.event("PHASE_STARTED", PLAN)
        await reader.until(lambda: reader.notices)
        odd(writer.folder.artifact("check"))
        writer.event("PHASE_STARTED", {"key": "check-1.1", "effect": "RunCommand", "artifact": "check"})
        await reader.until(lambda: len(reader.notices) == 2)
        writer.add(b"of somebody else\n", writer.folder.path.parent / "outside.raw.txt.part")
        for bad in ("../../outside", "../../../etc/passwd", "/etc/passwd", "a\0b", ""):
            writer.event("PHASE_STARTED", {**PLAN, "key": f"{bad}.1", "artifact": bad})
        beside = {"key": "check-2.1", "effect": "RunCommand", "artifact": "../../outside.raw.txt.part"}
        writer.event("PHASE_STARTED", beside)
        writer.event("PHASE_COMPLETED", beside)
        writer.end()

    reader = read(writer, act)
    assert reader.text == "" and reader.lines == []
    assert [note.split(":")[0] for note in reader.notices] == ["plan.1", "check-1.1"]
    assert len(reader.events) == 11


def test_a_run_that_vanishes_or_is_damaged_is_an_error_and_a_child_a_notice(writer: Writer) -> None:
    child = Writer(writer.folder.path.parent, "c")
    writer.event("PHASE_STARTED", {"key": "c.1", "effect": "ChildRun", "childRunId": "c", "workflow": "loop"})

    async def act(reader: Reader) -> None:
        await reader.until(lambda: len(reader.events) == 3)
        with child.folder.events.open("ab") as journal:
            journal.write(b"no json\n")
        await reader.until(lambda: reader.notices)
        writer.event("PHASE_STARTED", PLAN)
        await reader.until(lambda: len(reader.events) == 4)
        writer.folder.events.unlink()

    with pytest.raises(UsageError, match="was removed while it was followed"):
        read(writer, act)
    empty = RunFolder(writer.folder.path.parent / "empty")
    empty.path.mkdir()
    empty.events.touch()
    with pytest.raises(JournalCorrupt, match=r"holds no event\. Nothing was changed\. Restore the file from a backup$"):
        read_all(empty)


def read_all(folder: RunFolder) -> list[News]:
    async def all_of_it() -> list[News]:
        return [news async for news in follow(store_of(), folder, redactor=Redactor(), root_of=lambda _: folder.path)]

    return asyncio.run(all_of_it())
