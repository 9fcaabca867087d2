"""Starts a program of the person's own on the person's terminal: an editor, a pager (commands/personal.py).

Rules
1. It is no command of a run. The launcher starts those contained, without a terminal, for a model or a check. An editor
   is what the person would start in the same shell: as they are, with their environment and their files. So it is
   started here, beside the launcher, and only when a person at a terminal has asked for it.
2. It is started without a shell, and waited for without stopping the event loop: other branches of the run go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence


async def on_terminal(words: Sequence[str], environ: Mapping[str, str], given: bytes | None = None) -> int:
    """Run a program on the terminal until it ends; returns its exit code. `given` is its standard input.

    OSError if it cannot be started.
    """
    stdin = None if given is None else asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, env=environ, stdin=stdin)
    await process.communicate(given)  # a pager that is left early reads no more: asyncio ignores that
    return process.returncode or 0
