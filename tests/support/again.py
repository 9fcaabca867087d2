"""Workflows whose runs fail, ask and have children, and the scripts for them: for the tests of retry and fork."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.project import Project

CODE = """\
import orchestra

AGAIN = orchestra.Retry(1, 0.01)


@orchestra.workflow
async def drafts(ctx: orchestra.Context, n: int = 20) -> list[str]:
    \"\"\"Drafts at once, then a review of each; one that failed fails the run at its end.\"\"\"

    async def draft(number: int, here: orchestra.Context) -> str:
        try:
            text = await here.model(f"agent-{number:02d}", f"draft {number}", retry=AGAIN)
        except orchestra.ProviderError:
            return ""
        if text.startswith("ASK"):
            text += await here.ask(f"colour-{number:02d}", text, options=("red", "빨강"))
        return text

    def branch(number: int):
        return lambda here: draft(number, here)

    made = await ctx.fan_out({f"b{number:02d}": branch(number) for number in range(n)})
    reviews = [await ctx.model("reviewer", f"review {text}", retry=AGAIN) for text in made.values() if text]
    if len(reviews) < n:
        raise RuntimeError("a draft is missing")
    return reviews


@orchestra.workflow
async def leaf(ctx: orchestra.Context, name: str) -> str:
    first = await ctx.model(f"first-{name}", "first", retry=AGAIN)
    said = await ctx.ask("colour", f"colour of {name}?")
    return first + said + await ctx.model(f"second-{name}", f"second {said}", retry=AGAIN)


@orchestra.workflow
async def middle(ctx: orchestra.Context) -> str:
    own = await ctx.model("middle", "own", retry=AGAIN)
    done = await ctx.fan_out({one: lambda here, one=one: here.call("child", leaf, one) for one in ("a", "b")})
    return own + "".join(done.values())


@orchestra.workflow
async def top(ctx: orchestra.Context) -> str:
    own = await ctx.model("top", "own", retry=AGAIN)
    below = await ctx.call("below", middle)
    return await ctx.model("last", f"{own} {below}", retry=AGAIN)


@orchestra.workflow
async def two(ctx: orchestra.Context) -> str:
    \"\"\"Two questions beside each other, and work that depends on one, on the other, and on both.\"\"\"

    async def side(name: str, here: orchestra.Context) -> str:
        said = await here.ask(name, f"{name}?")
        return await here.model(name, f"about {said}", retry=AGAIN)

    made = await ctx.fan_out({name: lambda here, name=name: side(name, here) for name in ("left", "right")})
    return await ctx.model("both", " ".join(made.values()), retry=AGAIN)
"""
NAMES = ("drafts", "leaf", "middle", "top", "two")
BROKEN = {"code": "UNKNOWN", "message": "거절", "retriable": True}


def says(agent: str, text: str, **more: Any) -> dict[str, Any]:
    """A scripted reply for one agent."""
    return {"match": {"agent": agent}, "text": text, **more}


def fails(agent: str) -> dict[str, Any]:
    return {"match": {"agent": agent}, "error": BROKEN}


def drafts(n: int, *, broken: int | None = None, asks: int | None = None) -> list[dict[str, Any]]:
    """Replies for `drafts`: each once, so that a call that is made again finds none."""
    replies: list[dict[str, Any]] = []
    for number in range(n):
        agent = f"agent-{number:02d}"
        if number == broken:
            replies += [fails(agent), fails(agent)]
        replies.append(says(agent, f"ASK {number}" if number == asks else f"draft {number}"))
    return [*replies, *(says("reviewer", f"review {number}") for number in range(2 * n))]


def furnish(path: Path) -> None:
    """Write the workflows and their configuration into a project's folder."""
    (path / "flows.py").write_text(CODE, encoding="utf-8")
    named = ", ".join(f'{name}: "flows.py:{name}"' for name in NAMES)
    (path / "orchestra.config.yaml").write_text(f"workflows: {{{named}}}\n", encoding="utf-8")


def project(path: Path, *replies: dict[str, Any]) -> Project:
    """A project with these workflows, trusted."""
    made = Project(path, *replies)
    furnish(path)
    made.configure((path / "orchestra.config.yaml").read_text())
    return made
