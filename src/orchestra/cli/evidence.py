"""`orchestra agent:run` and `orchestra chat:turn`: the evidence loop (S5)."""

from __future__ import annotations

import sys
from typing import Any

import click

from orchestra.cli import options
from orchestra.cli.driving import Drive
from orchestra.cli.sessionoptions import (
    agent_option,
    max_steps_option,
    mode_option,
    no_stream_option,
    session_option,
)
from orchestra.cli.turns import take_turn
from orchestra.core.errors import UsageError
from orchestra.workflows.evidence.workflow import configured

_MOST_MESSAGE = 1 << 20  # characters of a message on standard input


@click.command(short_help="Answer a goal from evidence.")
@session_option
@agent_option
@click.option("--goal", required=True, help="What you want to know.")
@mode_option
@max_steps_option
@no_stream_option
@options.environment
@options.models
@options.driving
def agent_run(
    session: str,
    agent: str,
    goal: str,
    mode: str | None,
    max_steps: int | None,
    no_stream: bool,
    environment: str,
    who: options.Answering,
    how: options.Driving,
) -> int:
    """Answer a goal from evidence: a worker looks with commands in the sandbox, main decides when it is enough.

    Standard output is the answer and nothing else; what happens is on standard error.

    \b
    orchestra agent:run --session s1 --agent default --goal "why does the build take so long?"
    orchestra agent:run --session s1 --goal "and since when?" --provider local --max-steps 6
    """
    return _turn(session, agent, goal, _typed(mode, max_steps, no_stream), environment, who, how)


@click.command(short_help="One message to a session.")
@session_option
@agent_option
@click.option("--message", metavar="TEXT", help="The message (default: standard input).")
@mode_option
@max_steps_option
@no_stream_option
@options.environment
@options.models
@options.driving
def chat_turn(
    session: str,
    agent: str,
    message: str | None,
    mode: str | None,
    max_steps: int | None,
    no_stream: bool,
    environment: str,
    who: options.Answering,
    how: options.Driving,
) -> int:
    """Send one message to a session, and print the reply.

    The same loop as `agent:run`, with the same memory. A session whose last turn waits for you takes no message: answer
    it first (exit code 3). A session that another process uses: exit code 7.

    \b
    orchestra chat:turn --session s1 --message "hello"
    git log --oneline -5 | orchestra chat:turn --session s1 --json
    """
    text = _read() if message is None else message
    return _turn(session, agent, text, _typed(mode, max_steps, no_stream), environment, who, how)


def _typed(mode: str | None, max_steps: int | None, no_stream: bool) -> dict[str, Any]:
    """The fields of the job that flags set."""
    typed: dict[str, Any] = {"mode": mode, "maxSteps": max_steps, "stream": False if no_stream else None}
    return {name: value for name, value in typed.items() if value is not None}


def _turn(
    session: str,
    agent: str,
    goal: str,
    typed: dict[str, Any],
    environment: str,
    who: options.Answering,
    how: options.Driving,
) -> int:
    drive = Drive(how, environment=environment)
    job = configured(drive.app.project, options.clean(goal).strip(), agent, **typed)
    return take_turn(drive, session, job, options.routed(who, drive.app.project.providers))


def _read() -> str:
    """The message on standard input."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("there is no message: give --message TEXT, or write it to standard input")
    data = sys.stdin.buffer.read(4 * _MOST_MESSAGE + 1)
    if len(data) > 4 * _MOST_MESSAGE:
        raise UsageError("the message is longer than 4 MiB; put it into a file of the project, and name that")
    return data.decode("utf-8", "replace")
