"""What TAB completes: runs, providers and workflows of the project. No error reaches the shell."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from orchestra.app import App
from orchestra.config.sections import KINDS
from orchestra.config.upward import find_project
from orchestra.core.errors import OrchestraError
from orchestra.core.text import brief

_MOST = 100  # runs that are offered, the newest
_GOAL = 50  # characters of a goal beside an id


def run_names(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The ids that begin with what was typed, or contain it; after `@`, the numbers. The newest run is first.

    Undos and commits are offered where no other run fits. Where several ids contain what was typed, it is offered too:
    the shell would replace it by what these ids begin with.
    """
    app = _app(ctx)
    if app is None:
        return []
    facts = [(folder.id, app.runs.began(folder)) for folder in reversed(app.runs.folders())]
    roots = [(run_id, began) for run_id, began in facts if not began.parentRunId]
    if typed.startswith("@"):
        fitting = [
            (f"@{began.number}", began) for _, began in roots if began.number and f"@{began.number}".startswith(typed)
        ]
    else:
        begin = [(run_id, began) for run_id, began in roots if run_id.startswith(typed)]
        found = begin or [(run_id, began) for run_id, began in roots if typed in run_id]
        fitting = [(run_id, began) for run_id, began in found if not began.aside] or found
    offered = [CompletionItem(name, help=brief(began.goal, _GOAL)) for name, began in fitting[:_MOST]]
    within = len(offered) > 1 and not any(item.value.startswith(typed) for item in offered)
    return [*([CompletionItem(typed)] if within else ()), *offered]


def provider_names(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The kinds of providers, and those that the configuration names."""
    app = _app(ctx)
    named = app.project.config.providers if app else ()
    return [CompletionItem(name) for name in dict.fromkeys((*KINDS, *named)) if name.startswith(typed)]


def workflow_names(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The workflows, those of the configuration too."""
    app = _app(ctx)
    return [CompletionItem(name) for name in (app.workflows.names if app else ()) if name.startswith(typed)]


def _app(ctx: click.Context) -> App | None:
    """The project of the command line so far; None if it cannot be opened."""
    given = ctx.params.get("project") or ctx.find_root().params.get("folder")
    try:
        return App(Path(given) if given else find_project(Path.cwd(), os.environ))
    except (OrchestraError, OSError):
        return None
