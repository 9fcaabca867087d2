"""Workflows that run others: a tree of three levels with a question at each of its two ends.

crew ── fan_out: left, right ── call "build" ──▶ middle ── call "deep" ──▶ leaf ── model, ask "colour", patch
"""

from __future__ import annotations

import orchestra
from orchestra.workflows.own.workflow import described

DIFF = """diff --git a/{0}.txt b/{0}.txt
new file mode 100644
--- /dev/null
+++ b/{0}.txt
@@ -0,0 +1 @@
+{0}
"""


def noted(who: str, colour: str) -> str:
    return f"{who}={colour}"


@orchestra.workflow
async def leaf(ctx: orchestra.Context, who: str, patch: bool = False) -> str:
    await ctx.model("writer", f"Draft {who}.")
    question = f"{who}: 어떤 색?"
    colour = await ctx.ask("colour", question, options=("빨강", "blue"), default="blue", impact=f"{who}의 로고")
    if patch:
        await ctx.patch(DIFF.format(who), f"{who}의 파일")
    return await ctx.step("note", noted, who, colour)


@orchestra.workflow
async def middle(ctx: orchestra.Context, who: str, patch: bool = False) -> str:
    return await ctx.call("deep", leaf, who=who, patch=patch)


@orchestra.workflow
async def crew(ctx: orchestra.Context, goal: str = "둘 다", patch: bool = False) -> dict[str, str]:
    async def left(branch: orchestra.Context) -> str:
        return await branch.call("build", middle, who="왼쪽", patch=patch)

    async def right(branch: orchestra.Context) -> str:
        return await branch.call("build", middle, who="오른쪽", patch=patch)

    return await ctx.fan_out({"left": left, "right": right})


TREE = tuple(described(one) for one in (crew, middle, leaf))
LEFT, RIGHT = "left/build.1/deep.1/colour", "right/build.1/deep.1/colour"
REPLIES = ({"match": {"agent": "writer"}, "text": "초안", "repeat": True},)
