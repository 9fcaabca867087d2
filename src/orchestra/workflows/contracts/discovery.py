"""Global discovery: code exploration and the breakdown in parallel, then their merge without a model (section 5/S3).

    evidence (child run) ─▶ code-explore ─▶ explored.yaml ────────┐
    planner, who does not see it ────────▶ task-breakdown.yaml ───┼─▶ merge ─▶ (planner again, with the exploration)
    the whole test suite, before anything changes ────────────────┘

Rules
1. A file is looked at once its text is final: the breakdown after the merge (core/editions.py, rule 6).
2. An exploration that fails or finds nothing does not stop the request: code-explore is called without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from orchestra.core.context import Context
from orchestra.core.errors import ContractError
from orchestra.core.looks import Looked
from orchestra.core.work import ModelReply
from orchestra.workflows.contracts import documents
from orchestra.workflows.contracts.asking import begin, call
from orchestra.workflows.contracts.effects import FoundTerms, LookUp, Settle, Taken, TakeRequest
from orchestra.workflows.contracts.merging import Judged, Terms, judge, must_replan, terms_of
from orchestra.workflows.contracts.places import BREAKDOWN as BREAKDOWN_FILE
from orchestra.workflows.contracts.places import EXPLORED
from orchestra.workflows.contracts.progress import Merged, Named, Planned
from orchestra.workflows.contracts.records import Explored, TaskBreakdown
from orchestra.workflows.contracts.rules import Ids
from orchestra.workflows.contracts.shapes import BREAKDOWN, EXPLORE, Brief, Job, Text, Work, labels, template
from orchestra.workflows.contracts.testruns import TestRun
from orchestra.workflows.contracts.verification import run_tests, whole_suite

Kind = TypeVar("Kind", bound=Struct)
EXPLORER = "evidence"  # the workflow that explores
_MOST_EVIDENCE = 24_000  # characters of an exploration that code-explore is shown


class Discovered(Struct, frozen=True):
    """What the request begins with."""

    explored: Explored
    breakdown: TaskBreakdown
    red: tuple[str, ...]  # tests that failed before anything changed


async def take_request(ctx: Context, job: Job) -> Taken:
    """The id of the request, and what was there when it began."""
    return await ctx.at("plan", 1, labels("request")).perform("request", TakeRequest(job.projectHash))


async def discover(ctx: Context, work: Work, taken: Taken) -> Discovered:
    """Explore and plan in parallel, then merge."""
    branches: Mapping[str, Any] = {
        "explore": partial(explore, work, taken),
        "plan": partial(plan, work),
        "baseline": partial(run_baseline, work),
    }
    found = await ctx.fan_out(branches)
    ids = Ids(request_id=work.request)
    seen = await look(ctx, "explored", work.places.request(work.request, EXPLORED), found["explore"], Explored, ids)
    explored = documents.read(str(seen), Explored, EXPLORED, ids=ids)
    made = await merge(ctx, work, seen, explored, found["plan"])
    path = work.places.request(work.request, BREAKDOWN_FILE)
    final = await look(ctx, "task-breakdown", path, made, TaskBreakdown, ids)
    breakdown = documents.read(str(final), TaskBreakdown, BREAKDOWN_FILE, ids=ids)
    at = await ctx.at("plan", 1, labels("breakdown")).edition("tasks", {BREAKDOWN_FILE: final})
    planned = Planned(tuple(Named(task.id, task.name) for task in breakdown.tasks), breakdown.task_order)
    await at.perform("planned", Settle(msgspec.to_builtins(planned)))
    red: TestRun = found["baseline"]
    return Discovered(explored, breakdown, tuple(one.id for one in red.failing))


async def look(ctx: Context, name: str, path: str, made: str, kind: type[Struct], ids: Ids) -> Looked:
    """A contract as it is in its file: as made, or as a person edited it. One that is not valid is written anew."""

    def usable(text: str) -> bool:
        try:
            documents.read(text, kind, path, ids=ids)
        except ContractError:
            return False
        return True

    return await ctx.look(name, path, made, usable=usable)


# -- the branches -----------------------------------------------------------------------------------------------------


async def explore(work: Work, taken: Taken, ctx: Context) -> str:
    """The text of explored.yaml: what the evidence loop found, written down by code-explore."""
    here = ctx.at(EXPLORE.phase, 1, labels(EXPLORE.native))
    child = await here.call("evidence", EXPLORER, {"goal": template("explore.goal").format(request=work.job.request)})
    brief = Brief(work, EXPLORE, {"what was found": _told(child.result)})
    stamp = {"project_manifest": msgspec.to_builtins(taken.manifest)}
    return await write_document(
        await begin(ctx, "explored", brief), brief, Explored, Ids(request_id=work.request), stamp
    )


def _told(result: Any) -> str:
    """What the exploration found, for code-explore (rule 2)."""
    if not isinstance(result, Mapping) or not result.get("answer"):
        return "nothing"
    looked = [f"$ {one.get('command', '')}\n{one.get('text', '')}" for one in result.get("evidence", ())]
    files = ", ".join(str(one.get("path", "")) for one in result.get("files", ()))
    return shortened_text(f"{result['answer']}\n\nFiles: {files or 'none'}\n\n" + "\n\n".join(looked))


def shortened_text(text: str) -> str:
    """A text of which the end may be missing."""
    return text if len(text) <= _MOST_EVIDENCE else f"{text[:_MOST_EVIDENCE]}\n[… more was left out]"


async def plan(work: Work, ctx: Context) -> str:
    """The text of task-breakdown.yaml, by a planner who has not seen the exploration: hence its assumptions."""
    return await write_breakdown(ctx, "breakdown", Brief(work, BREAKDOWN, {}))


async def write_breakdown(ctx: Context, place: str, brief: Brief) -> str:
    """Call the planner."""
    stamp = {"original_request": brief.work.job.request}
    here = await begin(ctx, place, brief)
    return await write_document(here, brief, TaskBreakdown, Ids(request_id=brief.work.request), stamp)


async def run_baseline(work: Work, ctx: Context) -> TestRun:
    """The whole suite before anything changes, so that old failures are not taken for new ones."""
    here = ctx.at("plan", 1, labels("baseline"))
    return await run_tests(here, work, "baseline", whole_suite(work))


# -- a document by a role ---------------------------------------------------------------------------------------------


async def write_document(
    here: Context,
    brief: Brief,
    kind: type[Kind],
    ids: Ids,
    stamp: Mapping[str, Any],
    wrong: Callable[[Kind], str] = lambda record: "",
) -> str:
    """The text of a contract that a role wrote, with the fields that the orchestrator knows (shapes.py, rule 1).

    `here` is the edition of the call; `wrong` says why a record that is valid will still not do.
    """
    known = {name: value for name, value in msgspec.to_builtins(ids).items() if value}
    at = await here.now("written")
    given = {"version": 1, "created_at": at, "created_by": brief.action.agent, **known, **stamp}

    def read(reply: ModelReply) -> str:
        record = documents.read_reply(reply.text, kind, f"{brief.action.native} reply", ids=ids, stamp=given)
        if why := wrong(record):
            raise ContractError("CONTRACT_INVALID", why)
        return documents.write(record)

    return await call(here, brief, read)


# -- the merge --------------------------------------------------------------------------------------------------------


async def merge(ctx: Context, work: Work, seen: Looked, explored: Explored, made: str) -> str:
    """The breakdown after the merge: as it was planned, or planned again with the exploration (merging.py, rule 2)."""
    ids = Ids(request_id=work.request)
    planned = documents.read(made, TaskBreakdown, BREAKDOWN_FILE, ids=ids)
    inputs: dict[str, object] = {"explored.yaml": seen, "assumptions": planned.assumptions}
    here = await ctx.at("plan", 1, labels("merge")).edition("merge", inputs)
    terms = terms_of(planned.assumptions)
    found = await here.perform("look-up", LookUp(terms)) if terms else FoundTerms((), ())
    judged = [judge(one, explored, Terms(found.paths, found.identifiers)) for one in planned.assumptions]
    again = must_replan(judged)
    await here.perform("merged", Settle(msgspec.to_builtins(Merged(tuple(judged), again))))
    if not again:
        return made
    sources: dict[str, Text] = {"explored.yaml": seen, "what was wrong": _wrong(judged), "your first breakdown": made}
    return await write_breakdown(ctx, "breakdown-again", Brief(work, BREAKDOWN, sources, round=2))


def _wrong(judged: list[Judged]) -> str:
    lines = [f"- {one.assumption}: {', '.join(one.missing)} is not there" for one in judged if one.verdict == "wrong"]
    return "\n".join(lines)
