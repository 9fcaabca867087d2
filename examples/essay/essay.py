"""A workflow of your own: a model writes, you decide."""

import orchestra


@orchestra.workflow
async def essay(ctx: orchestra.Context, topic: str) -> str:
    draft = await ctx.model("writer", f"Write one sentence about {topic}.")
    answer = await ctx.ask("publish", f"{draft} Publish?", options=("yes", "no"))
    return draft if answer == "yes" else "not published"
