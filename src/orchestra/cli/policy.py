"""Commands about the policy: policy explain, test, show. They run nothing."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.text import print_json, safe
from orchestra.commands.tools import NoTool, Tool, Toolbox
from orchestra.config.upward import FILE_NAME
from orchestra.core.cells import table
from orchestra.core.errors import UsageError
from orchestra.policy.decide import Ruling, decide, failed_examples
from orchestra.policy.inputs import check_inputs
from orchestra.policy.policy import Layer, Policy, Rule, digest

FORBIDDEN = 5  # exit code (D-14)
_SAMPLE = """\
  rules:
    - prefix: [git, [push, fetch, pull]]
      decision: forbid
      reason: this project has no remote
      match: ["git push origin main"]
      not_match: ["git log"]"""
_COLOURS = {"allow": "green", "ask": "yellow", "forbid": "red"}
_json_option = options.json_of("One JSON object.")


@click.group()
def policy() -> None:
    """What tools may do: explain a decision, test the rules, show all of it."""


@policy.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("argv", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--as",
    "asker",
    type=click.Choice(["model", "person"]),
    default="model",
    show_default=True,
    help="Who asks: a model's task needs the whitelist, what a person typed (--check, tool run) does not.",
)
@_json_option
@options.project
def explain(argv: tuple[str, ...], asker: Literal["model", "person"], as_json: bool, project: Path) -> int:
    """May COMMAND run? The decision, the rule and its line, the program it would be, and what the sandbox gives it.

    For example: orchestra policy explain -- git push origin main

    Exit code 0: allowed, or a person is asked first; 5: forbidden.
    """
    _, effective, toolbox = opened(project)
    ruling = _ruling(argv, effective, asker)
    is_path = asker == "person" and "/" in argv[0]
    tool = toolbox.resolve_path(argv[0]) if is_path else toolbox.resolve(argv[0])
    if as_json:
        found = {"tool": tool} if isinstance(tool, Tool) else {"tool": None, "noTool": tool.reason}
        facts = {"argv": argv, **msgspec.to_builtins(ruling), **msgspec.to_builtins(found)}
        print_json({**facts, "sandbox": sandbox_facts(effective), "policy": digest(effective)})
    else:
        for line in _told(argv, ruling, tool, effective):
            click.echo(line)
    return FORBIDDEN if ruling.decision == "forbid" else 0


@policy.command()
@_json_option
@options.project
def test(as_json: bool, project: Path) -> int:
    """Check the rules against their own examples (`match`, `not_match`); exit code 1 if one does not hold.

    A rule that forbids or asks about an option is warned of: an option has many spellings.
    """
    app, effective, _ = opened(project)
    failed = failed_examples(effective.rules)
    number = sum(len(rule.match) + len(rule.not_match) for rule in effective.rules)
    loose = {rule: other_spellings(rule) for rule in effective.rules if names_option(rule)}
    if as_json:
        warnings = [{"where": rule.where, "rule": str(rule), "passes": passes} for rule, passes in loose.items()]
        print_json({"rules": len(effective.rules), "examples": number, "failed": failed, "warnings": warnings})
        return 1 if failed else 0
    for example in failed:
        click.echo(f"{click.style(example.where, fg='red')}: {safe(example.text)!r}: {safe(example.reason)}")
    for rule, passes in loose.items():
        click.echo(_warning(rule, passes))
    if failed:
        click.echo(f"{len(failed)} of {number} example(s) do not hold", err=True)
        return 1
    if not number:
        rules = f"{len(effective.rules)} rule(s) without" if effective.rules else "no rules, so no"
        file = app.project.config_path or app.project.path / FILE_NAME
        click.echo(f"{rules} examples. A rule with examples, in {file}:\n{_SAMPLE}")
        return 0
    click.echo(f"{number} example(s) of {len(effective.rules)} rule(s) hold")
    return 0


def names_option(rule: Rule) -> bool:
    """Whether a rule that forbids or asks is about an option."""
    return rule.decision != "allow" and any(word.startswith("-") for words in rule.prefix[1:] for word in words)


def other_spellings(rule: Rule) -> tuple[str, ...]:
    """Other spellings of a rule's command that the rule does not match."""
    alone = Policy(layers=(Layer(whitelist=rule.prefix[0], rules=(rule,)),))
    words = tuple(next((word for word in group if word.startswith("-")), group[0]) for group in rule.prefix)
    tries: list[tuple[str, ...]] = []
    for at, word in enumerate(words):
        if at and word.startswith("-"):
            if words[at + 1 :]:
                joint = "=" if word.startswith("--") else ""
                tries.append((*words[:at], f"{word}{joint}{words[at + 1]}", *words[at + 2 :]))
            tries.append((*words[:at], "-v", *words[at:]))
    passing = (argv for argv in tries if decide(argv, alone, asker="model").decision == "allow")
    return tuple(dict.fromkeys(map(shlex.join, passing)))


def _warning(rule: Rule, passes: tuple[str, ...]) -> str:
    shown = f", e.g. {' and '.join(f'`{safe(text)}`' for text in passes)}" if passes else ""
    return (
        f"{click.style(rule.where, fg='yellow')}: warning: `{safe(str(rule))}` names an option, and another spelling "
        f"passes it{shown}. Rules are no boundary; the sandbox is"
    )


@policy.command()
@_json_option
@options.project
def show(as_json: bool, project: Path) -> int:
    """The policy in force: limits, rules, and the program behind each whitelisted tool."""
    _, effective, toolbox = opened(project)
    tools = {name: toolbox.resolve(name) for name in effective.whitelist}
    if as_json:
        found = {name: tool.path if isinstance(tool, Tool) else None for name, tool in tools.items()}
        print_json(
            {"digest": digest(effective), "sandbox": sandbox_facts(effective), "tools": found, "policy": effective}
        )
        return 0
    click.echo(f"policy {digest(effective)}")
    for line in contained(effective):
        click.echo(f"  {line}")
    rows = [(f"  {safe(name)}", program_of(tool)) for name, tool in tools.items()]
    for line in table(("  tool", "program"), rows):
        click.echo(line)
    for rule in effective.rules:
        verdict = click.style(f"{rule.decision:<6}", fg=_COLOURS[rule.decision])
        click.echo(f"  {verdict} {safe(str(rule))}  {rule.where}" + (f": {safe(rule.reason)}" if rule.reason else ""))
    for note in toolbox.notes:
        click.echo(f"  note: {safe(note)}")
    return 0


def opened(project: Path) -> tuple[App, Policy, Toolbox]:
    """A project, the policy in force, and its tools."""
    app = App(project)
    opened = app.project
    return app, opened.policy, opened.toolbox


def _ruling(argv: tuple[str, ...], effective: Policy, asker: Literal["model", "person"]) -> Ruling:
    if not argv[0]:
        raise UsageError("give a command, e.g. orchestra policy explain -- git push")
    ruling = decide(argv, effective, asker=asker)
    wrong = check_inputs(argv[1:], {}, ()) if asker == "model" and ruling.decision != "forbid" else ()
    if not wrong:
        return ruling
    return Ruling(decision="forbid", rule="inputs", where="built in", reason=f"{wrong[0].where}: {wrong[0].reason}")


def _told(argv: tuple[str, ...], ruling: Ruling, tool: Tool | NoTool, effective: Policy) -> list[str]:
    verdict = click.style(ruling.decision, fg=_COLOURS[ruling.decision], bold=True)
    lines = [
        f"{verdict}  {safe(shlex.join(argv))}",
        f"  by       {safe(ruling.rule)} ({safe(ruling.where)})",
        f"  because  {safe(ruling.reason)}",
    ]
    if ruling.note:
        lines.append(f"  note     {safe(ruling.note)}")
    lines.append(f"  program  {program_of(tool)}")
    if isinstance(tool, Tool) and tool.prefixes:
        lines.append(f"           reads {safe(', '.join(tool.prefixes))}")
    if ruling.decision != "forbid":
        lines += [f"  {'sandbox' if at == 0 else '':<8} {line}" for at, line in enumerate(contained(effective))]
    return lines


def program_of(tool: Tool | NoTool) -> str:
    """The program for a tool's name, or why there is none, as text."""
    if isinstance(tool, NoTool):
        return click.style(f"none: {safe(tool.reason)}", fg="yellow")
    return safe(tool.path) + (f" ({safe(tool.note)})" if tool.note else "")


def sandbox_facts(effective: Policy) -> dict[str, Any]:
    """The sandbox of a command, as JSON."""
    return {
        "tier": effective.tier,
        "fs": effective.fs,
        "net": effective.net,
        "domains": [str(entry) for entry in effective.domains],
        "loopback": effective.loopback,
        "reads": effective.reads,
        "writes": effective.writes,
        "maxTaskSec": effective.max_task_sec,
        **msgspec.to_builtins(effective.bounds),
    }


def contained(effective: Policy) -> list[str]:
    """The sandbox of a command, as lines."""
    bounds = effective.bounds
    tier = {
        "strict": "tier strict: its own root, processes and network",
        "landlock": "tier landlock: weaker; orchestra doctor says what it does not hold",
        "none": click.style("tier none: not contained at all", fg="red"),
    }
    changes = {"read-only": "what it writes is thrown away", "rw": "what it writes becomes a patch"}
    network = "to " + ", ".join(str(entry) for entry in effective.domains) if effective.domains else "none"
    if effective.loopback:
        ports = ", ".join(map(str, effective.loopback))
        network = ("" if network == "none" else f"{network}, and ") + f"to port {ports} of this machine"
    lines = [
        tier[effective.tier],
        f"workspace {effective.fs}: {changes[effective.fs]}; kept: its artifact folder",
        f"network {safe(network)}",
        f"at most {effective.max_task_sec:g} s, {bounds.memory_mb} MiB memory, {bounds.processes} processes, "
        f"{bounds.disk_mb} MiB written",
    ]
    lines += [f"may also write {safe(', '.join(effective.writes))}"] if effective.writes else []
    return [*lines, f"may read {safe(', '.join(effective.reads))}, a private /tmp, the system's programs"]
