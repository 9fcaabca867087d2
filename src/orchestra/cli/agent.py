"""Commands about agents: agent ls, agent inspect. They run nothing and contact no provider."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import msgspec
from click.core import ParameterSource

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.policy import contained, opened, program_of, sandbox_facts
from orchestra.cli.text import print_json, safe
from orchestra.commands.tools import NoTool, Tool
from orchestra.core.cells import table
from orchestra.policy.policy import Policy
from orchestra.workflows.dag.agents import Agents, Answerer, Flags, Inspected, Told, find_level

_WIDTH = 100  # the most columns
_STICKY = "\u00a0"  # a space at which no line is wrapped, for text that a person copies


@click.group()
def agent() -> None:
    """The three levels and the roles: what each does, and which model it uses."""


@agent.command(short_help="The roles, their models and their limits.")
@options.as_json
@options.models
@options.project
def ls(as_json: bool, who: options.Answering, project: Path) -> int:
    """The three levels of a task graph, then the roles: what each does, which model answers, and why.

    \b
    orchestra agent ls
    orchestra agent ls --role planner=local      # which model would answer with this flag

    No provider is contacted. `orchestra agent inspect L2` shows one level in full.
    """
    app, effective, _ = opened(project)
    found = list(_agents(app, who).everyone(effective.whitelist))
    if as_json:
        for one in found:
            print_json(one)
        return 0
    tools = _listed(effective)
    for one in found:
        name = f"{one.name} {one.title}"
        click.echo(f"{click.style(f'{name:<16}', bold=one.kind == 'level')} {one.does}")
        role = f", as {one.answers.agent}" if one.answers and one.kind == "level" else ""
        line = f"answers: {_who(one.answers)} ({one.answers.why}){role}" if one.answers else f"tools: {tools}"
        click.echo(f"{'':<16} {safe(line)}")
    for state in _troubles(one.answers for one in found):
        click.echo(safe(app.project.redactor.text(state)), err=True)
    return 0


@agent.command(short_help="One level in full.")
@click.argument("name", metavar="L1|L2|L3")
@options.json_of("One JSON object.")
@options.models
@options.project
def inspect(name: str, as_json: bool, who: options.Answering, project: Path) -> int:
    """One level in full: its duty, messages, model and prompt, and the limits and policy that bind it.

    \b
    orchestra agent inspect L2
    orchestra agent inspect L3 --json
    """
    level = find_level(name)
    app, effective, toolbox = opened(project)
    facts = _agents(app, who).inspect(level)
    tools = {tool: toolbox.resolve(tool) for tool in effective.whitelist} if level.name != "L1" else {}
    if as_json:
        paths = {tool: found.path if isinstance(found, Tool) else None for tool, found in tools.items()}
        sandbox = sandbox_facts(effective) if level.name == "L3" else {}
        print_json(msgspec.structs.replace(facts, tools=paths, sandbox=sandbox))
        return 0
    for line in _told(facts):
        click.echo(line)
    if level.name == "L2":
        click.echo("\n".join(("", *_section("tools", [safe(_listed(effective))]))))
    for line in _contained(effective, tools) if level.name == "L3" else ():
        click.echo(line)
    for state in _troubles([facts.answers]):
        click.echo(safe(app.project.redactor.text(state)), err=True)
    return 0


def _agents(app: App, who: options.Answering) -> Agents:
    providers = app.project.providers
    models = providers.routing(
        provider=who.provider, roles=who.roles, model=who.model, budget=who.max_budget_usd, seconds=who.max_time
    )
    app.refuse_unknown_roles(models)
    flags = Flags(_said("provider", who.provider), _said("model", who.model), who.roles)
    return Agents(app.project.config, app.project.origins, providers, models, flags)


def _said(option: str, value: str) -> str:
    """The flag, or its environment variable, with which a person set this value."""
    if not value:
        return ""
    source = click.get_current_context().get_parameter_source(option)
    return f"ORCHESTRA_{option.upper()}" if source is ParameterSource.ENVIRONMENT else f"--{option}"


def _listed(effective: Policy) -> str:
    return f"{', '.join(effective.whitelist) or 'none'} (whitelist_tools, {effective.layers[0].where})"


def _who(answers: Answerer) -> str:
    if not answers.provider:
        return "nobody"
    model = "" if answers.provider.endswith(f":{answers.model}") else answers.model  # the spec already ends with it
    return f"{answers.provider} {model}".strip()


def _troubles(everyone: Iterable[Answerer | None]) -> list[str]:
    """Why a model cannot answer, each reason once."""
    found = [f"{_who(one)}: {one.state}" if one.provider else one.state for one in everyone if one and not one.ready]
    return list(dict.fromkeys(found))


def _told(facts: Inspected) -> Iterator[str]:
    yield f"{click.style(facts.name, bold=True)} {facts.title}: {facts.does}"
    yield from _section("duty", [f"- {duty}" for duty in facts.duties])
    hears = ["your intent (orchestra dag INTENT), flags and configuration"] if facts.name == "L1" else []
    yield from _section("is told", [*hears, *map(_message, facts.hears)])
    says = ["report.md, for you"] if facts.name == "L1" else []
    yield from _section("says", [*map(_message, facts.says), *says])
    if facts.answers is None:
        yield from _section("model", ["none: tools do the work"])
    else:
        agent = f"as the agent {facts.answers.agent}: --role {facts.answers.agent}=PROVIDER names another"
        yield from _section("model", [f"{safe(_who(facts.answers))} ({safe(facts.answers.why)})", agent])
    if facts.prompt is not None:
        yield from _section("prompt", [f"{facts.prompt.key} ({facts.prompt.where}); {{…}} is filled in"])
        yield from (f"    | {safe(line)}".rstrip() for line in facts.prompt.text.splitlines())
        yield from _section("system", ["what the model is told before it (built in)"])
        yield from (f"    | {safe(line)}".rstrip() for line in facts.prompt.system.splitlines())
    yield ""
    rows = [(f"  {one.what}", safe(_value(one.value)), safe(one.where), one.key) for one in facts.limits]
    yield from table(("  limit", "value", "where", "key"), rows)


def _contained(effective: Policy, tools: dict[str, Tool | NoTool]) -> Iterator[str]:
    """The tools of a worker, and their sandbox."""
    yield ""
    yield from table(("  tool", "program"), [(f"  {safe(name)}", program_of(tool)) for name, tool in tools.items()])
    yield ""
    yield from _section("sandbox", contained(effective))
    for rule in effective.rules:
        reason = f": {safe(rule.reason)}" if rule.reason else ""
        yield from _section("rule", [f"{rule.decision} {safe(str(rule))} ({rule.where}){reason}"])


def _message(told: Told) -> str:
    command = f"(orchestra schema {told.record})".replace(" ", _STICKY)
    return f"{told.sender} → {told.receiver}: {told.fields} {command}"


def _section(name: str, texts: list[str]) -> Iterator[str]:
    """Texts under a heading, wrapped and aligned."""
    width = min(shutil.get_terminal_size((_WIDTH, 20)).columns, _WIDTH)
    for at, text in enumerate(texts):
        lines = textwrap.wrap(text, max(width - 11, 20), subsequent_indent="  ", break_on_hyphens=False) or [""]
        for number, line in enumerate(lines):
            yield f"  {name if at == number == 0 else '':<9}{line.replace(_STICKY, ' ')}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "no limit" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
