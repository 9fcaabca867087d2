"""`orchestra start`: start any workflow by its name, your own too."""

from __future__ import annotations

import types
import typing
from typing import Any

import click
import msgspec

from orchestra.cli import options
from orchestra.cli.completing import run_names, workflow_names
from orchestra.cli.driving import Drive
from orchestra.core.errors import UsageError
from orchestra.core.text import misfit_text


@click.command(short_help="Start any workflow by its name, your own too.")
@click.argument("name", shell_complete=workflow_names)
@click.argument("params", metavar="[KEY=VALUE]...", nargs=-1)
@click.option(
    "--input-run",
    default="",
    metavar="RUN",
    shell_complete=run_names,
    help="Begin with the files that this completed run made; recorded, and shown by `orchestra lineage`.",
)
@options.environment
@options.models
@options.driving
def start(
    name: str,
    params: tuple[str, ...],
    input_run: str,
    environment: str,
    who: options.Answering,
    how: options.Driving,
) -> int:
    """Start a run of workflow NAME with these parameters, and drive it.

    A value is read as the type of its parameter: `n=10`, `flag=true`, a list or an object as JSON. Your own workflows
    are named in orchestra.config.yaml (`workflows:`) or come with an installed package (docs/library.md). Their results
    are printed on standard output.

    \b
    orchestra start essay topic=rain
    orchestra start loop goal="make the tests pass" checks='[["pytest", "-q"]]'
    """
    drive = Drive(how, environment=environment)
    app = drive.app
    drive.ask_consent()  # the workflow's code is loaded below
    kinds = {field.encode_name: field.type for field in msgspec.structs.fields(app.workflows.named(name).params)}
    for line in app.workflows.unused(name):
        click.echo(f"note: {line}", err=True)
    job = app.job(name, _parameters(params, kinds))
    models = options.routed(who, app.project.providers)
    return drive.drive(lambda: app.start(name, job, models, input_run=input_run))


def _parameters(texts: tuple[str, ...], kinds: dict[str, Any]) -> dict[str, Any]:
    """The parameters by name; UsageError if one is given twice."""
    found: dict[str, Any] = {}
    for text in texts:
        key, value = _parameter(text, kinds)
        if key in found:
            is_list = typing.get_origin(kinds.get(key)) in (list, tuple, set, frozenset)
            raise UsageError(f"{key} is given twice{'; write a list as JSON' if is_list else ''}")
        found[key] = value
    return found


def _parameter(text: str, kinds: dict[str, Any]) -> tuple[str, Any]:
    """The key and value of one KEY=VALUE, converted to the parameter's type."""
    key, equals, value = options.clean(text).partition("=")
    if not equals:
        raise UsageError(f"{text!r}: write KEY=VALUE, e.g. {next(iter(kinds), 'goal')}=…")
    return key, _value(value, kinds.get(key, Any), key)  # an unknown one is refused with the whole job


def _value(text: str, kind: Any, key: str) -> Any:
    if kind in (str, Any):
        return text
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.to_builtins(msgspec.json.decode(text, type=kind, strict=False))
    except msgspec.ValidationError as wrong:
        if _takes_text(kind):
            return text
        raise UsageError(f"{key}={text}: {misfit_text(wrong)}") from wrong
    except msgspec.DecodeError as wrong:
        if _takes_text(kind):
            return text
        cure = "" if isinstance(kind, type) and not typing.get_args(kind) else "; lists and objects are written as JSON"
        raise UsageError(f"{key}={text}: this is no {_name(kind)}{cure}") from wrong


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind).replace("typing.", "")


def _takes_text(kind: Any) -> bool:
    """Whether a parameter of this type may be a text."""
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return kind is str or (union and str in typing.get_args(kind))
