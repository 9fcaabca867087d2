"""The description of a person's own workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from orchestra.core.context import Context as Run
from orchestra.core.context import Handlers, Verdict
from orchestra.core.errors import ContractError, UsageError
from orchestra.workflows.description import MIXED, Running, Workflow
from orchestra.workflows.own.context import Context
from orchestra.workflows.own.definition import Definition
from orchestra.workflows.own.effects import CallFunction, KeepDiff, as_json, call_function, keep_diff
from orchestra.workflows.project import Project

_GOALS = ("goal", "topic", "task", "title", "question", "text")  # parameters that describe a run's goal


def described(own: Definition[..., Any], name: str = "") -> Workflow:
    """The description of a person's own workflow. It allows any step and any agent. `name` replaces its own name."""

    async def flow(run: Run, job: Any) -> Verdict:
        value = await own.begin(Context(run), job)
        try:
            return Verdict(status="completed", result=as_json(value))
        except (TypeError, ValueError, UnicodeEncodeError) as wrong:
            what = f"workflow {own.name} returned {type(value).__name__}, which cannot be recorded as JSON ({wrong})"
            raise ContractError("result", f"{what}: return text, numbers, lists, dicts or structs") from wrong

    return Workflow(
        name=name or own.name,
        params=own.params,
        returns=own.returns,
        printed=lambda result: result if isinstance(result, str) else msgspec.json.encode(result).decode(),
        flow=flow,
        goal=lambda job: _goal(name or own.name, job),
        facts=_facts,
        agents=None,
        effects=_effects,
        approval=lambda config: config.loop.approval,
        uncommitted=MIXED,
        after_no=lambda params, subject: "goes to the workflow, which decides what to do",
    )


def _facts(project: Project, job: Any) -> dict[str, Any]:
    """The facts of a run. With `own`, a run can be verified without its code: any order of steps is allowed."""
    policy = msgspec.to_builtins(project.policy)
    return {"own": True, "approval": project.config.loop.approval, "policy": policy}


def _effects(running: Running) -> Handlers:
    return {CallFunction: call_function, KeepDiff: keep_diff}


def _goal(name: str, job: Any) -> str:
    """The goal of a run, for a person: the first parameter of _GOALS that has text, or the workflow's name."""
    fields: Mapping[str, Any] = msgspec.to_builtins(job)
    words = [str(fields[one]) for one in _GOALS if isinstance(fields.get(one), str)]
    said = words or [value for value in fields.values() if isinstance(value, str)]
    return said[0] if said and said[0].strip() else name


def refuse_unfit(own: object, name: str) -> Definition[..., Any]:
    """Return the workflow that a configuration or package names; UsageError if it is not one."""
    if isinstance(own, Definition):
        return own
    raise UsageError(f"workflows.{name}: {own!r} is no workflow: write @orchestra.workflow above its `async def`")
