"""Files that a run made and a person edits: exactly what was made from them is made again."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import orchestra
from orchestra.app import App
from orchestra.core.editions import KEEP, TAKE
from orchestra.core.errors import UsageError
from orchestra.core.faces import News, Notice
from orchestra.core.looks import MOST_TEXT
from orchestra.core.reading import effect_of
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.workflows.headline import headline
from orchestra.workflows.own.workflow import described
from tests.library.support import configured, conforms
from tests.support.core import CountingDisk
from tests.support.project import Project, new_file
from tests.support.runs import read_events, use_disk

calls: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def write(name: str, *told: str) -> str:
    """What a model would do: a text that follows from its inputs, and a call that can be counted."""
    calls.append(name)
    return f"{name} of {' + '.join(told)}"


def upper(name: str, told: str) -> str:
    calls.append(name)
    return f"{name} of {told.upper()}"


@orchestra.workflow
async def edited_chain(ctx: orchestra.Context, goal: str) -> dict[str, str]:
    async def made(name: str, **inputs: object) -> orchestra.Looked:
        here = await ctx.edition(name, **inputs)
        text = await here.step("write", write, name, *map(str, inputs.values()))
        return await ctx.look(name, f"계약/{name}.md", text)

    brief = await made("brief", goal=goal)
    await made("apart", goal=goal)
    design = await made("design", brief=brief)
    test = await made("test", design=design)
    await (await ctx.edition("end", test=test)).ask("publish", "Publish?")
    return {"test": test.text}


def started(project: Project) -> str:
    outcome = orchestra.run(edited_chain, project=project.path, goal="비")
    assert outcome.status == "awaiting_input", outcome
    calls.clear()
    return outcome.runId


def resumed(project: Project, run_id: str) -> orchestra.Outcome[dict[str, str]]:
    return orchestra.resume(run_id, edited_chain, project=project.path)


def events_of(project: Project, run_id: str) -> list[Event]:
    return read_events(project.path / ".runs" / "workflows" / run_id / "events.ndjson")


def answer(project: Project, run_id: str, text: str) -> None:
    app = App(project.path)
    app.answers.answer(app.runs.find(run_id), text)


def facts(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns, p.stat().st_ino) for p in folder.iterdir()}


def test_what_nothing_changed_keeps_its_bytes_and_times_and_costs_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = started(project)
    before, events = facts(project.path / "계약"), len(events_of(project, run))
    assert resumed(project, run).status == "awaiting_input"
    assert (calls, facts(project.path / "계약")) == ([], before)
    assert len(events_of(project, run)) == events
    conforms(project)


def test_an_edited_file_has_exactly_its_dependants_made_again(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = started(project)
    (project.path / "계약/brief.md").write_text("사람이 고침", encoding="utf-8")
    resumed(project, run)
    assert calls == ["design", "test"]
    assert (project.path / "계약/test.md").read_text(encoding="utf-8") == "test of design of 사람이 고침"
    assert (project.path / "계약/brief.md").read_text(encoding="utf-8") == "사람이 고침"
    calls.clear()
    (project.path / "계약/apart.md").write_text("nothing depends on it", encoding="utf-8")
    resumed(project, run)
    assert calls == []
    answer(project, run, "yes")
    assert resumed(project, run).result == {"test": "test of design of 사람이 고침"}
    conforms(project)


def test_an_edit_that_is_taken_back_is_another_edition(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = started(project)
    brief = project.path / "계약/brief.md"
    ours = brief.read_text(encoding="utf-8")
    brief.write_text("edited")
    resumed(project, run)
    brief.write_text(ours, encoding="utf-8")
    calls.clear()
    resumed(project, run)
    assert calls == ["design", "test"]  # only the newest edition is gone on with
    keys = [str(e.payload.get("key")) for e in events_of(project, run)]
    assert [key for key in keys if key.startswith("design@") and key.endswith("/write.1")][::2] == [
        "design@1/write.1",
        "design@2/write.1",
        "design@3/write.1",
    ]


@orchestra.workflow
async def levelled(ctx: orchestra.Context) -> str:
    brief = await ctx.look("brief", "brief.md", "abc")
    design = await (await ctx.edition("design", brief=brief)).step("write", upper, "design", brief.text)
    test = await (await ctx.edition("test", design=design)).step("write", write, "test", design)
    await ctx.ask("go", "Go?")
    return test


def test_equal_bytes_stop_the_wave(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = orchestra.run(levelled, project=project.path).runId
    calls.clear()
    (project.path / "brief.md").write_text("ABC")
    orchestra.resume(run, levelled, project=project.path)
    assert calls == ["design"]  # the design is the same again, so the test holds


def test_a_removed_file_is_written_again_as_it_was_last_seen(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = started(project)
    (project.path / "계약/brief.md").write_text("edited")
    resumed(project, run)
    calls.clear()
    for name in ("brief.md", "test.md"):
        (project.path / "계약" / name).unlink()
    resumed(project, run)
    assert calls == []
    assert (project.path / "계약/brief.md").read_text() == "edited"
    assert (project.path / "계약/test.md").read_text() == "test of design of edited"
    before = len(events_of(project, run))
    resumed(project, run)
    assert len(events_of(project, run)) == before


# -- conflicts --------------------------------------------------------------------------------------------------------


def in_conflict(project: Project) -> str:
    """A run whose test file was edited, and gets a new text too."""
    run = started(project)
    (project.path / "계약/brief.md").write_text("edited brief")
    (project.path / "계약/test.md").write_text("edited test")
    outcome = resumed(project, run)
    assert "계약/test.md was edited, and there is a new text for it" in outcome.message
    assert (project.path / "계약/test.md").read_text() == "edited test"
    return run


@pytest.mark.parametrize(
    ("said", "text"), [(KEEP, "edited test"), (TAKE, "test of design of edited brief")], ids=["keep", "take"]
)
def test_a_person_decides_between_an_edit_and_a_new_text(tmp_path: Path, said: str, text: str) -> None:
    project = Project(tmp_path / "p")
    run = in_conflict(project)
    with pytest.raises(UsageError, match="the options are: keep mine, take the new text"):
        answer(project, run, "perhaps")
    answer(project, run, said)
    resumed(project, run)
    assert (project.path / "계약/test.md").read_text() == text
    before = len(events_of(project, run))
    answer(project, run, "yes")
    assert resumed(project, run).result == {"test": text}
    assert len(events_of(project, run)) == before + 2  # the answer and the end: the decision stands
    kept = [p.read_text() for p in project.folder.artifacts.glob("looks/*.before.txt")]
    assert kept == ([] if said == KEEP else ["edited test"])  # nothing of the person's is lost
    new = [p.read_text() for p in project.folder.artifacts.glob("looks/*.new.txt")]
    assert new == ["test of design of edited brief"]
    conforms(project)


def test_a_person_may_merge_by_hand_and_then_keep_the_file(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = in_conflict(project)
    (project.path / "계약/test.md").write_text("merged by hand")
    answer(project, run, KEEP)
    resumed(project, run)
    answer(project, run, "yes")
    assert resumed(project, run).result == {"test": "merged by hand"}
    asked = [e for e in events_of(project, run) if e.type == "QUESTION_RAISED" and "conflict" in str(e.payload["key"])]
    assert len(asked) == 1


def test_a_conflict_that_is_no_more_is_withdrawn(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = in_conflict(project)
    (project.path / "계약/test.md").write_text("test of design of edited brief")  # the new text, by hand
    outcome = resumed(project, run)
    assert outcome.message.startswith("Publish?")
    pending = App(project.path).runs.summary(project.folder).fold.pending
    assert list(pending) == ["end@2~publish"]
    answer(project, run, "yes")
    assert resumed(project, run).result == {"test": "test of design of edited brief"}
    conforms(project)


def test_a_file_that_was_there_before_the_run_is_not_replaced_unasked(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "계약").mkdir()
    (project.path / "계약/brief.md").write_text("mine")
    outcome = orchestra.run(edited_chain, project=project.path, goal="비")
    assert "계약/brief.md is there already, and is not this run's" in outcome.message
    answer(project, outcome.runId, KEEP)
    resumed(project, outcome.runId)
    assert (project.path / "계약/design.md").read_text() == "design of mine"


# -- what is open in an edition that is replaced ----------------------------------------------------------------------


@orchestra.workflow
async def brief_inner(ctx: orchestra.Context) -> str:
    return await ctx.ask("fine", "Fine?")


@orchestra.workflow
async def brief_asking(ctx: orchestra.Context, child: bool) -> str:
    brief = await ctx.look("brief", "brief.md", "brief")
    here = await ctx.edition("design", brief=brief)
    if brief.edited:
        return brief.text
    return await (here.call("brief_inner", brief_inner) if child else here.ask("colour", "Which colour?"))


def test_a_question_of_a_replaced_edition_is_withdrawn_and_refused_by_name(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = orchestra.run(brief_asking, project=project.path, child=False).runId
    (project.path / "brief.md").write_text("edited")
    app = App(project.path, more=(described(brief_asking),))
    assert orchestra.resume(run, brief_asking, project=project.path).result == "edited"
    conforms(project)
    fold = app.runs.summary(project.folder).fold
    assert (fold.pending, list(fold.withdrawn)) == ({}, ["design@1~colour"])
    with pytest.raises(UsageError, match="question design@1~colour of design@1 was withdrawn: its inputs changed"):
        app.answers.answer(project.folder, "blue")
    assert not (project.folder.inbox / "design@1~colour.json").exists()


@orchestra.workflow
async def asking_twice(ctx: orchestra.Context) -> str:
    brief = await ctx.look("brief", "brief.md", "brief")
    colour = await (await ctx.edition("design", brief=brief)).ask("colour", "무슨 색?")
    await ctx.ask("go", "계속?")
    return colour


class Notices:
    """A face that keeps the notices."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def tell(self, news: News) -> None:
        if isinstance(news, Notice):
            self.texts.append(news.text)


@orchestra.workflow
async def over_asking_twice(ctx: orchestra.Context) -> str:
    return await ctx.call("below", asking_twice)


def test_an_answer_to_a_child_run_that_an_edit_withdraws_is_named_as_it_was_asked(tmp_path: Path) -> None:
    project, face = Project(tmp_path / "p"), Notices()
    run = orchestra.run(over_asking_twice, project=project.path).runId
    app = App(project.path, face=face, more=(described(over_asking_twice), described(asking_twice)))
    root = next(folder for folder in project.runs if folder.id == run)
    [asked] = app.trees.requests(root)
    app.answers.answer(root, "빨강")
    (project.path / "brief.md").write_text("edited")
    asyncio.run(app.drive(root))
    assert asked.name == "below.1/design@1/colour"
    assert any(f"the answer '빨강' to {asked.name} counts for nothing" in text for text in face.texts), face.texts


def test_an_answer_that_an_edit_withdraws_is_mentioned_taken_or_not(tmp_path: Path) -> None:
    project, face = Project(tmp_path / "p"), Notices()
    run = orchestra.run(asking_twice, project=project.path).runId
    app = App(project.path, face=face, more=(described(asking_twice),))
    app.answers.answer(project.folder, "빨강")  # recorded, and not taken by any process yet
    (project.path / "brief.md").write_text("edited")
    asyncio.run(app.drive(project.folder))
    withdrawn = "the answer '빨강' to design@1/colour counts for nothing: what it was about has changed"
    assert face.texts.count(withdrawn) == 1
    app.answers.answer(project.folder, "파랑")
    asyncio.run(app.drive(project.folder))  # taken: the run waits for `go`
    (project.path / "brief.md").write_text("edited again")
    asyncio.run(app.drive(project.folder))
    begins = [headline(event) for event in events_of(project, run) if effect_of(event) == "Edition"]
    assert begins == [
        "design@1 begins: made from brief",
        "design@2 begins: made from brief",
        "design@3 begins: made from brief; answers that count no more: colour",
    ]
    assert face.texts.count(withdrawn) == 1
    conforms(project)


def test_a_child_run_of_a_replaced_edition_is_ended(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = orchestra.run(brief_asking, project=project.path, child=True).runId
    (project.path / "brief.md").write_text("edited")
    assert orchestra.resume(run, brief_asking, project=project.path).result == "edited"
    [child] = [folder for folder in project.runs if folder.id != run]
    last = read_events(child.events)[-1]
    assert last.type == "RUN_CANCELED"
    assert last.payload["result"]["reason"] == "design@1 was replaced: its inputs changed"
    conforms(project)


# -- files that will not do -------------------------------------------------------------------------------------------


@orchestra.workflow
async def looking_at(ctx: orchestra.Context, path: str, text: str = "text") -> str:
    looked = await ctx.look("file", path, text)
    await ctx.ask("go", "Go?")
    return looked.text


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../out.md", "is named by its path below the project's folder"),
        ("/etc/orchestra-test", "is named by its path below the project's folder"),
        ("a//b.md", "is named by its path below the project's folder"),
        ("", "is named by its path below the project's folder"),
        (".git/hooks/pre-commit", "leads into .git"),
        (".runs/workflows/x.md", "belongs to orchestra"),
        ("orchestra.config.yaml", "orchestra's own configuration"),
        (".venv/lib/x.py", "is an environment that commands use"),
        ("Makefile", "decides what a build or a check does"),
        ("a\nb.md", "control characters"),
    ],
)
def test_a_path_that_no_look_may_have_is_refused(tmp_path: Path, path: str, why: str) -> None:
    project = Project(tmp_path / "p")
    outcome = orchestra.run(looking_at, project=project.path, path=path)
    assert outcome.exitCode == 2
    assert why in outcome.message
    assert not (tmp_path / "out.md").exists()


@orchestra.workflow
async def looking_at_many_bytes(ctx: orchestra.Context, size: int) -> int:
    return len((await ctx.look("file", "긴.md", "x" * size)).text)


def test_a_file_that_is_looked_at_has_at_most_a_mebibyte(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert orchestra.run(looking_at_many_bytes, project=project.path, size=MOST_TEXT).result == MOST_TEXT
    outcome = orchestra.run(looking_at_many_bytes, project=project.path, size=MOST_TEXT + 1)
    assert outcome.exitCode == 2
    assert "긴.md: the text has more than 1 MiB, too much for a file that is looked at" in outcome.message


def test_a_link_a_folder_binary_bytes_or_too_many_stop_the_run_until_they_are_gone(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    file = project.path / "a.md"
    run = orchestra.run(looking_at, project=project.path, path="a.md").runId
    (tmp_path / "other").write_text("another file")

    def refused(why: str) -> None:
        outcome = orchestra.resume(run, looking_at, project=project.path)
        assert outcome.exitCode in (1, 2)
        assert why in outcome.message
        assert str(outcome.message).count("\n") == 0

    file.unlink()
    file.symlink_to(tmp_path / "other")
    refused("is a symbolic link")
    file.unlink()
    file.mkdir()
    refused("is not a regular file")
    file.rmdir()
    file.write_bytes(b"\xff\xfe\0")
    refused("a.md is no text in UTF-8")
    file.write_bytes(b"x" * (1 << 20) + b"x")
    refused("at most 1 MiB are looked at")
    os.mkfifo(project.path / "pipe")
    (project.path / "pipe").rename(file)
    refused("is not a regular file")
    file.unlink()
    assert orchestra.resume(run, looking_at, project=project.path).exitCode == 3
    assert file.read_text() == "text"
    assert (tmp_path / "other").read_text() == "another file"


def test_a_link_on_the_way_is_not_followed(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (tmp_path / "elsewhere").mkdir()
    (project.path / "docs").symlink_to(tmp_path / "elsewhere")
    outcome = orchestra.run(looking_at, project=project.path, path="docs/a.md")
    assert outcome.exitCode == 1
    assert "docs/a.md" in outcome.message
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_long_edit_is_kept_as_a_file_of_the_run(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = orchestra.run(looking_at, project=project.path, path="a.md").runId
    long = "긴 글 " * 10_000
    (project.path / "a.md").write_text(long, encoding="utf-8")
    orchestra.resume(run, looking_at, project=project.path)
    (project.path / "a.md").unlink()
    answer(project, run, "yes")
    assert orchestra.resume(run, looking_at, project=project.path).result == long
    assert max(len(line) for line in project.folder.events.read_bytes().splitlines()[:-1]) < 10_000
    conforms(project)


def test_an_edit_of_so_many_bytes_is_in_the_record_itself(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = orchestra.run(looking_at, project=project.path, path="a.md").runId
    for size in (16_384, 16_385):
        (project.path / "a.md").write_text("x" * size)
        orchestra.resume(run, looking_at, project=project.path)
    at_most, longer = [e.payload["outcome"] for e in events_of(project, run) if e.payload.get("effect") == "Look"]
    assert at_most["text"] == "x" * 16_384 and "artifact" not in at_most
    assert longer["artifact"]["bytes"] == 16_385 and "text" not in longer


@orchestra.workflow
async def told_of(ctx: orchestra.Context, text: str) -> None:
    await ctx.edition("part", words=text, numbers=[text])


@pytest.mark.parametrize(
    ("length", "words", "numbers"),
    [(76, "x" * 76, f'["{"x" * 76}"]'), (77, "x" * 77, None), (80, "x" * 80, None), (81, "x" * 80 + "…", None)],
    ids=["76", "77", "80", "81"],
)
def test_of_an_input_the_first_characters_are_recorded_for_people(
    tmp_path: Path, length: int, words: str, numbers: str | None
) -> None:
    project = Project(tmp_path / "p")
    run = orchestra.run(told_of, project=project.path, text="x" * length).runId
    [edition] = [e for e in events_of(project, run) if e.payload.get("effect") == "Edition"]
    inputs = edition.payload["outcome"]["inputs"]
    assert (inputs["words"]["said"], inputs["numbers"].get("said")) == (words, numbers)


def test_a_secret_in_an_edited_file_is_masked_in_the_record_and_left_in_the_file(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = orchestra.run(looking_at, project=project.path, path="a.md").runId
    token = "ghp_" + "a1B2" * 9
    (project.path / "a.md").write_text(f"key {token}")
    for _ in range(2):
        orchestra.resume(run, looking_at, project=project.path)
    events = project.folder.events.read_text()
    assert token not in events
    assert len([e for e in events_of(project, run) if e.payload.get("effect") == "Look"]) == 1
    assert (project.path / "a.md").read_text() == f"key {token}"


# -- names and places -------------------------------------------------------------------------------------------------


@orchestra.workflow
async def parted(ctx: orchestra.Context) -> list[str]:
    async def branch(one: orchestra.Context) -> str:
        here = await one.edition("part", of="x")
        return await here.step("write", write, "part")

    parts = await ctx.fan_out({"left": branch, "right": branch})
    again = [await (await ctx.edition("same", n=n)).step("write", write, "same", str(n)) for n in (1, 2)]
    await ctx.ask("go", "Go?")
    return [*parts.values(), *again]


def test_editions_of_branches_and_of_one_name_are_told_apart(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = orchestra.run(parted, project=project.path).runId
    calls.clear()
    answer(project, run, "yes")
    outcome = orchestra.resume(run, parted, project=project.path)
    assert outcome.result == ["part of ", "part of ", "same of 1", "same of 2"]
    assert calls == []
    keys = {str(e.payload.get("key")) for e in events_of(project, run)}
    assert {"left/part@1/write.1", "right/part@1/write.1", "same@1/write.1", "same.2@1/write.1"} <= keys


@orchestra.workflow
async def doubled(ctx: orchestra.Context) -> None:
    await ctx.look("one", "a.md", "one")
    await ctx.look("two", "a.md", "two")


def test_a_run_looks_at_a_file_in_one_place_only(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    outcome = orchestra.run(doubled, project=project.path)
    assert (outcome.exitCode, (project.path / "a.md").read_text()) == (2, "one")
    assert "two looks at a.md, and so does one" in outcome.message


@orchestra.workflow
async def checking_tree(ctx: orchestra.Context) -> str:
    tree = await ctx.tree_hash("sources", "*.txt", "!b.txt")
    here = await ctx.edition("check", tree=tree)
    said = await here.step("check", write, "check", str(tree.files))
    await ctx.ask("go", "Go?")
    return said


def test_a_step_that_names_its_tree_is_done_again_when_the_tree_changes(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "가.txt").write_text("a")
    run = orchestra.run(checking_tree, project=project.path).runId
    calls.clear()
    os.utime(project.path / "가.txt")
    (project.path / "b.txt").write_text("not named by the globs")
    orchestra.resume(run, checking_tree, project=project.path)
    assert calls == []
    (project.path / "가.txt").write_text("b")
    (project.path / "link.txt").symlink_to("/etc/hostname")
    orchestra.resume(run, checking_tree, project=project.path)
    assert calls == ["check"]
    answer(project, run, "yes")
    assert orchestra.resume(run, checking_tree, project=project.path).result == "check of 1"


def test_a_run_with_editions_can_be_canceled_and_looks_at_nothing_then(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    run = started(project)
    (project.path / "계약/brief.md").write_text("edited")
    app = App(project.path, more=(described(edited_chain),))
    app.answers.ask_to_cancel(RunFolder(app.runs.find(run).path), reason="enough")
    assert resumed(project, run).status == "canceled"
    assert calls == []
    assert not [e for e in events_of(project, run) if str(e.payload.get("key", "")).startswith("design@2")]
    conforms(project)


# -- a patch that a kill cut short ------------------------------------------------------------------------------------

PATCHING = f"""
import orchestra

DIFF = '''{new_file("가.txt", "하나")}{new_file("나.txt", "둘")}'''

@orchestra.workflow
async def two_files(ctx: orchestra.Context) -> str:
    brief = await ctx.look("brief", "brief.md", "brief")
    here = await ctx.edition("build", brief=brief)
    if not brief.edited:
        await here.patch(DIFF, "two files")
    return brief.text
"""


def patched(path: Path) -> Project:
    project = Project(path)
    configured(project, "two_files", PATCHING, "loop: {approval: never}")
    return project


def test_a_patch_of_an_edition_that_is_replaced_does_not_stay_half_written(tmp_path: Path) -> None:
    counted, disk = App(patched(tmp_path / "counted").path), CountingDisk()
    use_disk(counted, disk)
    run = counted.start("two_files", counted.job("two_files", {}), Models())
    asyncio.run(counted.drive(run))
    second = disk.operations.index(("replace", "나.txt")) + 1
    for number in range(second - 3, second + 4):
        project = patched(tmp_path / f"p{number}")
        project.run("start", "two_files", env={"ORCHESTRA_CHAOS": f"{number}:before"})
        files = [(project.path / name).exists() for name in ("가.txt", "나.txt")]
        if files == [True, False]:
            break
    assert files == [True, False]  # killed in the middle of the patch
    (project.path / "brief.md").write_text("edited")
    gone_on = project.run("resume", "last")
    assert (gone_on.returncode, gone_on.stdout) == (0, "edited\n"), gone_on.stderr
    assert (project.path / "나.txt").read_text(encoding="utf-8") == "둘\n"
    assert [e.payload["key"] for e in project.events() if e.type == "PATCH_APPLIED"] == ["build@1/apply.1"]
    conforms(project)
