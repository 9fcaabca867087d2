"""A task: its brief, its design, its subtasks one after another, then the whole suite.

Rules
1. A brief is made without a model, from the task and the exploration (merging.py). It is looked at: a person may edit
   it, and its subtask_order is what is done (S3-53).
2. A design holds for its brief, and for what went wrong with the designs before it. A design that is replaced takes
   back what the task has changed, before anything new is written. If a file changed since, nothing is taken back, and
   the work goes on with the files as they are.
3. A redesign is kept as the task's state, and the task is begun again, as a replay would (core/editions.py, rule 6).
"""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import Struct

from orchestra.core.context import Context
from orchestra.core.looks import Looked
from orchestra.workflows.contracts import documents
from orchestra.workflows.contracts.asking import begin, edition_number, remembered, restore
from orchestra.workflows.contracts.discovery import Discovered, look, write_document
from orchestra.workflows.contracts.effects import FoundTerms, LookUp, Settle
from orchestra.workflows.contracts.knowledge import Known
from orchestra.workflows.contracts.merging import Terms, brief_of, task_texts, terms_of
from orchestra.workflows.contracts.places import BRIEF
from orchestra.workflows.contracts.places import DESIGN as DESIGN_FILE
from orchestra.workflows.contracts.progress import Named, Planned, TaskEnded
from orchestra.workflows.contracts.records import DesignBrief, DesignContract, PlannedSubtask, PlannedTask
from orchestra.workflows.contracts.retrying import Problem
from orchestra.workflows.contracts.rules import Ids
from orchestra.workflows.contracts.shapes import DESIGN, Brief, Text, Work, labels
from orchestra.workflows.contracts.subtasks import Redesign, Subtask, do_subtask

REDESIGNS = "redesigns"  # the task's state: why it was designed again (rule 3)


class Designed(Struct, frozen=True):
    """A task with its brief and its design, as their files are now."""

    brief: DesignBrief
    brief_file: Looked
    design: DesignContract
    design_file: Looked


async def do_task(work: Work, found: Discovered, task: PlannedTask, known: Known, ctx: Context) -> None:
    """One task, until all its subtasks are complete (S3-132)."""
    while True:
        here = ctx.again()
        designed = await design_task(here, work, found, task, known)
        problem = await _subtasks(here, work, found, task, designed, known)
        if problem is None:
            break
        why = [*redesigns(ctx), problem]
        await ctx.at("fix", 1, labels("retry", task.id)).keep(REDESIGNS, why)
    rules = tuple(one.rule for one in designed.design.invariants)
    known.learn_decisions(rules)
    here = await ctx.at("evaluate", 1, labels("task", task.id)).edition("done", {"design": designed.design_file})
    await here.perform("completed", Settle(msgspec.to_builtins(TaskEnded(task.id, rules))))


async def _subtasks(
    here: Context, work: Work, found: Discovered, task: PlannedTask, designed: Designed, known: Known
) -> Problem | None:
    """The subtasks in their order; why the task must be designed again, if it must."""
    planned = {one.id: one for one in task.subtasks}
    done: list[str] = []
    for subtask_id in designed.brief.subtask_order:
        named = next(one for one in designed.brief.subtasks if one.id == subtask_id)
        own = planned.get(subtask_id) or PlannedSubtask(id=subtask_id, name=named.name, description="")
        subtask = Subtask(
            work=work,
            planned=msgspec.structs.replace(own, name=named.name),
            design=designed.design,
            design_file=designed.design_file,
            brief_file=designed.brief_file,
            tests=tuple(done),
            redesigns=len(redesigns(here)),
            red=found.red,
            last=subtask_id == designed.brief.subtask_order[-1],
        )
        ended = (await here.fan_out({subtask_id: partial(do_subtask, subtask, known)}))[subtask_id]
        if isinstance(ended, Redesign):
            return ended.problem
        done.append(ended.test_file)
    return None


# -- brief and design -------------------------------------------------------------------------------------------------


async def design_task(ctx: Context, work: Work, found: Discovered, task: PlannedTask, known: Known) -> Designed:
    """The brief and the design contract of a task."""
    ids = Ids(request_id=work.request, task_id=task.id)
    made = await write_brief(ctx, work, found, task)
    brief_file = await look(ctx, "design-brief", work.places.task(work.request, task.id, BRIEF), made, DesignBrief, ids)
    brief = documents.read(str(brief_file), DesignBrief, BRIEF, ids=ids)
    subtasks = tuple(Named(one.id, one.name) for one in brief.subtasks)
    at = await ctx.at("plan", 1, labels("design-brief", task.id)).edition("subtasks", {BRIEF: brief_file})
    planned = Planned(order=brief.subtask_order, task=task.id, subtasks=subtasks)
    await at.perform("planned", Settle(msgspec.to_builtins(planned)))
    text = await write_design(ctx, work, task, brief_file, known)
    path = work.places.task(work.request, task.id, DESIGN_FILE)
    design_file = await look(ctx, "design-contract", path, text, DesignContract, ids)
    return Designed(
        brief,
        brief_file,
        documents.read(str(design_file), DesignContract, DESIGN_FILE, ids=ids),
        design_file,
    )


async def write_brief(ctx: Context, work: Work, found: Discovered, task: PlannedTask) -> str:
    """The text of design-brief.yaml (rule 1)."""
    files = [file.path for file in found.explored.explored_files]
    inputs: dict[str, object] = {"task": msgspec.to_builtins(task), "explored files": files}
    here = await ctx.at("plan", 1, labels("design-brief", task.id)).edition("brief", inputs)
    terms = Terms(tuple(dict.fromkeys((*terms_of(task_texts(task)).paths, *files))))
    there = await here.perform("look-up", LookUp(terms)) if terms else FoundTerms((), ())
    others = await remembered(here, "others", [f"{one.id} {one.name}" for one in found.breakdown.tasks if one != task])
    at = await here.now("written")
    return documents.write(brief_of(work.request, task, found.explored, Terms(there.paths), others, at))


async def write_design(ctx: Context, work: Work, task: PlannedTask, brief: Looked, known: Known) -> str:
    """The text of design-contract.yaml, by the architect (rule 2)."""
    why = redesigns(ctx)
    sources: dict[str, Text] = {"design-brief.yaml": brief, "what went wrong with earlier designs": _told(why)}
    asked = Brief(work, DESIGN, sources, task.id, round=1 + len(why))
    here = await begin(ctx, "design", asked)
    if edition_number(here) > 1:
        await restore(here, task.id)
    asked = msgspec.structs.replace(asked, told={"decisions of earlier tasks": await known.decisions_for(here)})
    ids = Ids(request_id=work.request, task_id=task.id)
    return await write_document(here, asked, DesignContract, ids, {"task_name": task.name})


def redesigns(ctx: Context) -> list[Problem]:
    """Why the task was designed again, so far."""
    return msgspec.convert(ctx.kept(REDESIGNS, []), list[Problem])


def _told(problems: list[Problem]) -> str:
    return "\n\n".join(f"{one.subtask}: {one.text}" for one in problems)
