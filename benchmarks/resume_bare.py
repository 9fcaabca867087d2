"""resume.py's program without orchestra: `resume_bare.py FOLDER STEPS KILL_AT` (0: not killed).

What it does: asyncio, one JSON line per step with the step's number and a text, written and fdatasynced before the next
step begins; on start it reads the file, parses every line and goes on behind the last. What it does not do: intents,
digests, a lock, redaction, a state file, a check of what it reads.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys


async def act(number: int, kill_at: int) -> str:
    if number == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return "x" * 60


async def main(folder: str, steps: int, kill_at: int) -> None:
    fd = os.open(f"{folder}/steps.ndjson", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    data = os.read(fd, os.fstat(fd).st_size)
    done = [json.loads(line) for line in data.splitlines()]
    first = len(done) + 1
    for number in range(first, steps + 1):
        if done and number == first + 1:
            os.write(1, f"{number}\n".encode())
        text = await act(number, kill_at)
        os.write(fd, json.dumps({"step": number, "text": text, "padding": "x" * 200}).encode() + b"\n")
        os.fdatasync(fd)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
