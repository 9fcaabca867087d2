"""The options of commands that talk in a session. Nothing heavy is imported here (cli/options.py)."""

from __future__ import annotations

import click

_DEFAULT = "default"  # the agent that always exists (workflows/evidence/workflow.py)

session_option = click.option(
    "--session", required=True, envvar="ORCHESTRA_SESSION", metavar="ID", help="The conversation it belongs to."
)
agent_option = click.option("--agent", default=_DEFAULT, metavar="NAME", help="An agent of `evidence.agents`.")
mode_option = click.option(
    "--mode",
    type=click.Choice(["single-main", "main-worker"]),
    help="One model for all, or a worker that gathers and a main that decides.",
)
max_steps_option = click.option(
    "--max-steps", type=int, metavar="N", help="How many actions the worker has (default: 12)."
)
no_stream_option = click.option("--no-stream", is_flag=True, help="Replies come as a whole.")
