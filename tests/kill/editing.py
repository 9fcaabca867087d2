"""The workflow of the edition kill tests, and the person who edits its files between its lives.

The chain: brief -> design -> test, and one apart; each a model's text in a file. The design asks a question and has a
child run that asks another, side by side. The person edits the brief while both are open, so that the first design is
replaced; then answers what the second asks; then edits the design and the test, so that the new test meets an edited
file; and takes the new text.

The person acts by what the journal and the files say, so a killed person goes on where the last one stopped.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import orchestra
from orchestra.app import App
from orchestra.core.editions import TAKE
from orchestra.core.inbox import message
from orchestra.core.reading import key_of
from orchestra.core.records import FINAL
from orchestra.core.run import RunFolder
from orchestra.providers.choose import Models
from orchestra.workflows.own.workflow import described
from tests.support.core import CountingDisk
from tests.support.runs import use_disk

AGENTS = ("brief", "apart", "design", "test")
EDITED = "사람이 고침\n"


@orchestra.workflow
async def reviewing(ctx: orchestra.Context, text: str) -> str:
    return await ctx.ask("fine", f"괜찮은가? {text}")


@orchestra.workflow
async def editing(ctx: orchestra.Context, goal: str) -> dict[str, str]:
    async def made(here: orchestra.Context, name: str, told: object) -> orchestra.Looked:
        text = await here.model(name, f"Write the {name}: {told}")
        return await ctx.look(f"{name}-file", f"계약/{name}.md", text)

    async def asks(branch: orchestra.Context) -> str:
        return await branch.ask("colour", "무슨 색?")

    async def reviews(branch: orchestra.Context) -> str:
        return await branch.call("review", reviewing, text=brief.text)

    brief = await made(await ctx.edition("brief", goal=goal), "brief", goal)
    apart = await made(await ctx.edition("apart", goal=goal), "apart", goal)
    designing = await ctx.edition("design", brief=brief)
    said = await designing.fan_out({"asks": asks, "reviews": reviews})
    design = await made(designing, "design", said)
    test = await made(await ctx.edition("test", design=design), "test", design)
    await ctx.ask("publish", "Publish?")
    return {"brief": brief.text, "apart": apart.text, "design": design.text, "test": test.text}


WORKFLOWS = (described(editing), described(reviewing))


def drive(flow: str, project: Path, script: Path, counting: CountingDisk | None) -> int:
    """Start or go on, answering and editing, until the run is final."""
    app = App(project, more=WORKFLOWS)
    assert app.project.keyring.seal  # made before anything is counted
    if counting is not None:
        use_disk(app, counting)
    found = [folder for folder in app.runs.folders() if "_editing_" in folder.id]
    root = found[0] if found else app.start("editing", app.job("editing", {"goal": "비"}), _models(script))
    while True:
        end = asyncio.run(app.drive(root))
        if end.status in FINAL.values():
            return end.exit_code
        _act(app, project / "계약")


def _models(script: Path) -> Models:
    return Models(default=f"scripted:{script}")


def _act(app: App, files: Path) -> None:
    """One act of the person: an edit, or answers to everything that waits."""
    waiting: dict[str, RunFolder] = {}
    for summary in (app.runs.summary(folder) for folder in app.runs.folders()):
        waiting |= {key_of(event): summary.folder for event in summary.fold.pending.values()}
    if any(key.startswith("design@1/") for key in waiting):
        _edit(files / "brief.md")
    elif "publish.1" in waiting and not (files / "design.md").read_text(encoding="utf-8").endswith(EDITED):
        _edit(files / "design.md")
        _edit(files / "test.md")
    elif conflict := next((key for key in waiting if key.endswith("/conflict.1")), ""):
        _answer(app, waiting[conflict], conflict, TAKE)
    else:
        for key, folder in waiting.items():
            _answer(app, folder, key, "파랑")


def _edit(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + EDITED, encoding="utf-8")


def _answer(app: App, folder: RunFolder, key: str, text: str) -> None:
    """Answer this question, also if others wait in the run."""
    pending = app.runs.summary(folder).fold.pending
    name = next(name for name, event in pending.items() if key_of(event) == key)
    app.project.store.deliver(folder, name, message("answer", "tester", text=text))
