"""resume.py's program on orchestra.core: `resume_ours.py FOLDER STEPS KILL_AT` (0: not killed).

Says the number of the first step that is wholly new, when everything before it is durable and it begins.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from durable import Said, Say, open_ledger

from orchestra.core.context import Context, Step
from orchestra.core.lock import locked


async def main(folder: Path, steps: int, kill_at: int) -> None:
    redone = False

    async def say(effect: Say, step: Step) -> Said:
        nonlocal redone
        if redone:
            os.write(1, f"{effect.number}\n".encode())
            redone = False
        redone = step.redo
        if effect.number == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return Said("x" * effect.bytes)

    ledger = open_ledger(folder)
    with locked(ledger.folder):
        context = Context(ledger, {Say: say})
        for number in range(1, steps + 1):
            await context.perform("step", Say(number))
    ledger.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
