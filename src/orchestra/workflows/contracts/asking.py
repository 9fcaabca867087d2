"""Calling a role: one model call in its edition, with its repairs; and what a replaced edition takes back.

Rules
1. A technical failure is tried again as the configuration says. A reply that cannot be read goes back to the role with
   every mistake, at most REPAIRS times (C-09). After that the run fails, and says what was wrong.
2. A repair is no round: it counts for no limit of retries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from orchestra.core.context import Context
from orchestra.core.errors import ContractError, StepFailed, end_of_run
from orchestra.core.looks import file_name
from orchestra.core.model import Constraints
from orchestra.core.newest import edition_of
from orchestra.core.work import ModelCall, ModelReply
from orchestra.workflows.contracts.shapes import REPAIRS, Brief, labels
from orchestra.workflows.gate import take_back

T = TypeVar("T")


async def begin(ctx: Context, place: str, brief: Brief) -> Context:
    """The context of a call: an edition of what the role is shown (shapes.py, rule 2)."""
    named = labels(brief.action.native, brief.target, brief.round)
    return await ctx.at(brief.action.phase, brief.round, named).edition(place, brief.inputs)


async def call(
    here: Context, brief: Brief, read: Callable[[ModelReply], T], *, answers: tuple[tuple[str, str], ...] = ()
) -> T:
    """Call a role until its reply can be read (rule 1)."""
    name, problem = brief.action.native, ""
    for left in reversed(range(1 + REPAIRS)):
        wanted = ModelCall(
            role=brief.action.role,
            agent=brief.action.agent,
            prompt=brief.prompt(problem, answers),
            notes=(),
            constraints=Constraints(timeoutMs=brief.work.job.timeoutMs, patchFirst=brief.action.role == "developer"),
            artifact=f"{brief.action.phase}/{file_name(here.peek_key(name))}",
            hints=(brief.work.job.request, *map(str, brief.sources.values())),
        )
        try:
            return await here.perform(name, wanted, accept=lambda reply: read(whole(reply)), retry=brief.work.job.retry)
        except StepFailed as failed:
            if failed.code != ContractError.code or not left:
                raise end_of_run(failed) from failed
            problem = str(failed)
    raise AssertionError("unreachable: the last repair returns or raises")


def whole(reply: ModelReply) -> ModelReply:
    """The reply; ContractError if it was cut off (G1-7)."""
    if reply.finishReason == "length":
        raise ContractError("truncated", "The reply was cut off before its end: write a shorter one.")
    return reply


# -- editions that replace others -------------------------------------------------------------------------------------


async def remembered(here: Context, name: str, now: list[str]) -> list[str]:
    """The knowledge recorded when the edition began. Later changes of it start no new call."""
    found = here.kept(name, None)
    if found is None:
        await here.keep(name, now)
    return now if found is None else [str(one) for one in found]


def edition_number(here: Context) -> int:
    """The number of the edition that this context is of."""
    return int(edition_of(here.peek_key("step")).rpartition("@")[2])


async def restore(here: Context, place: str) -> None:
    """Take back what the steps below this place have changed; if a file changed since, nothing is."""
    at = here.at("fix", 1, labels("take-back", place.rpartition("/")[2]))
    await take_back(at, (), f"fix/{file_name(here.peek_key('patch'))}.patch", below=f"{place}/")
