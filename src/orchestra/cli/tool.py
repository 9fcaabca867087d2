"""`orchestra tool run`: one command under the policy and in the sandbox, to try them out."""

from __future__ import annotations

import math
import shlex
import shutil
import sys

import click
import msgspec

from orchestra.cli import options
from orchestra.cli.driving import Drive
from orchestra.cli.text import safe
from orchestra.core.errors import PolicyError, UsageError
from orchestra.core.files import MIB, open_below
from orchestra.core.run import MOST_ARTIFACT, RunFolder
from orchestra.policy.decide import decide
from orchestra.policy.inputs import check_inputs
from orchestra.policy.policy import FsMode, Policy
from orchestra.providers.choose import Models
from orchestra.workflows.dag.shapes import Job
from orchestra.workflows.dag.workflow import shown_config


@click.group()
def tool() -> None:
    """Run single commands as orchestra's workers would."""


@tool.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("argv", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--fs",
    type=click.Choice(["read-only", "rw"]),
    default="read-only",
    show_default=True,
    help="rw: what it changes is shown as a patch, and applied if you approve it. read-only: it is thrown away.",
)
@click.option("--net", is_flag=True, help="Let it reach the configured allow_domains.")
@click.option("--timeout", type=click.FloatRange(0.1, 1e9), metavar="SECONDS", help="Stop it after this long.")
@options.environment
@options.driving
def run(
    argv: tuple[str, ...],
    fs: FsMode,
    net: bool,
    timeout: float | None,
    environment: str,
    how: options.Driving,
) -> int:
    """Run COMMAND in the sandbox, in the project folder, and show what it printed.

    \b
    orchestra tool run -- python x.py
    orchestra tool run --fs rw -- python make_changes.py    # see the changes as a patch first

    It is your own command, so it needs no whitelist, but rules with `forbid` apply. Exit code 0 if it exits 0, else 1;
    5 if it is refused; 3 if its changes wait for your approval.
    """
    drive = Drive(how, environment=environment)
    app = drive.app
    words = tuple(map(options.clean, argv))
    if timeout is not None and math.isnan(timeout):
        raise UsageError("--timeout: name a number of seconds")
    if net and not app.project.policy.domains:
        raise UsageError("--net: no domain is allowed; set policies.allow_network and security.net.allow_domains")
    _refuse(words, app.project.policy)
    job = Job(
        intent=f"run {shlex.join(words)}",
        policy=msgspec.structs.replace(app.project.policy, fs=fs, max_retries=0),
        prompts={},
        config=shown_config(app.project),
        plan=_plan(words, fs, net, timeout),
        asker="person",
        approval="always",
        summarizer=False,
        maxWorkers=1,
        retries=0,
    )
    folders: list[RunFolder] = []

    def start() -> RunFolder:
        folders.append(app.start("dag", job, Models(), typed=("approval", "fs", "max_retries")))
        return folders[0]

    code = drive.drive(start)
    if not how.as_json and code != PolicyError.exit_code:  # a refused command printed nothing
        _show(folders[0])
    return code


def _refuse(argv: tuple[str, ...], policy: Policy) -> None:
    """Raise if the policy refuses the command. The message is about the command, not the plan made of it."""
    ruling = decide(argv, policy, asker="person")
    if ruling.decision == "forbid":
        raise PolicyError(f"{shlex.join(argv)}: {ruling.reason} (rule `{ruling.rule}`, {ruling.where})")
    for violation in check_inputs(argv[1:], {}, ()):
        raise PolicyError(f"{argv[0]}: {violation.where}: {violation.reason}")


def _plan(argv: tuple[str, ...], fs: FsMode, net: bool, timeout: float | None) -> str:
    constraints = {"sandbox": {"fs": fs, "net": "allow" if net else "deny"}}
    task = {
        "task_id": "tool",
        "intent": shlex.join(argv),
        "tools": [argv[0]],
        "inputs": {"args": argv[1:]},
        "constraints": {**constraints, **({"max_duration_sec": timeout} if timeout else {})},
    }
    return msgspec.json.encode([task]).decode()


def _show(folder: RunFolder) -> None:
    """Print the command's stdout and stderr to the same streams."""
    for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
        try:
            fd = open_below(folder.path, f"{folder.artifacts.name}/tool/{name}.txt", MOST_ARTIFACT)
        except FileNotFoundError:
            continue
        if stream.isatty():  # escape control characters for a terminal
            with open(fd, encoding="utf-8", errors="backslashreplace") as file:
                while text := file.read(MIB):
                    click.echo(safe(text), file=stream, nl=False)
        else:
            with open(fd, "rb") as printed:
                shutil.copyfileobj(printed, stream.buffer)
                stream.flush()
