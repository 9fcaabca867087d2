"""`orchestra agent:tui` and `orchestra tui` (S5-22). The UI itself is loaded when the command runs."""

from __future__ import annotations

import os
from pathlib import Path

import click

from orchestra.cli import options
from orchestra.cli.sessionoptions import agent_option, max_steps_option, mode_option, no_stream_option


@click.command(short_help="The terminal UI.")
@click.option(
    "--session",
    envvar="ORCHESTRA_SESSION",
    metavar="ID",
    help="The conversation that your messages belong to (default: tui, or a free one beside it).",
)
@agent_option
@mode_option
@max_steps_option
@no_stream_option
@click.option(
    "--screen-reader",
    is_flag=True,
    help="Only append lines: nothing is drawn again, no number ticks (so too with ACCESSIBLE=1, TERM=dumb, or a pipe).",
)
@options.environment
@options.models
@options.project
def agent_tui(
    session: str | None,
    agent: str,
    mode: str | None,
    max_steps: int | None,
    no_stream: bool,
    screen_reader: bool,
    environment: str,
    who: options.Answering,
    project: Path,
) -> int:
    """Talk to the agent at an input line below the log; start, follow and decide on runs of every workflow.

    What you type is a goal or a question: the same loop as `agent:run`. Every command of orchestra works with a slash
    before it: /loop fix the test --check "pytest -q". /help lists what else there is. Enter sends, Alt-Enter or Ctrl-J
    begins a new line. Ctrl-C stops what runs; again, it leaves.

    \b
    orchestra tui
    orchestra agent:tui --session s1 --provider local
    """
    from orchestra.cli.tui.begin import begin
    from orchestra.cli.tui.early import Flags
    from orchestra.cli.tui.plain import why_plain

    stream = False if no_stream else None
    flags = Flags(project, session, agent, mode, max_steps, stream, who, environment)
    return begin(flags, why_plain(screen_reader, os.environ))


tui = agent_tui
