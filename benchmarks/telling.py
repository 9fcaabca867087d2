"""14. A streamed token from the wire to another process that follows the run, masked; against the bare SSE loop.

Ours is everything between: the adapter, the handler of model calls, the reply's file, and a second process that reads
the file along, masks it and reports tokens (`runs/follow.py`). What is compared is the processor time of both
processes, from the beginning of the call until the last character was reported and the reply is durable: a machine with
other work on its processors makes two processes wait twice, and costs nothing. The bare loop only collects the texts.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from contextlib import closing
from itertools import count

from durable import open_ledger
from following import came, process_of, used_ns
from measure import Row, Timed, interleaved, scratch, time_text
from streaming import TOKENS, bare_loop, endpoint, served

from orchestra.core.context import Context
from orchestra.core.faces import News
from orchestra.core.ledger import Ledger
from orchestra.core.model import Constraints, Gathered, Prompt
from orchestra.core.work import ModelCall
from orchestra.providers.budget import Budget
from orchestra.providers.calling import Caller
from orchestra.providers.contract import Route
from orchestra.providers.openai_compat import OpenAICompat, Wishes
from orchestra.providers.showing import Showing

ROUNDS = 15
CHARACTERS = TOKENS * len("토큰 ")
FOLLOWER = """
import asyncio, sys, time
from collections import Counter
from pathlib import Path
from orchestra.core.disk import Disk
from orchestra.core.faces import Launched, Token
from orchestra.core.keyring import Keyring
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.store import FileStore
from orchestra.runs.follow import follow
run, characters, told = RunFolder(Path(sys.argv[1])), int(sys.argv[2]), Counter()
async def follow_it():
    redactor = Redactor()
    store = FileStore(Disk(), redactor, Keyring({"HOME": "/nonexistent"}, run.path, Disk()))
    async for news in follow(store, run, redactor=redactor, root_of=lambda _: run.path.parent):
        if isinstance(news, Token):
            told[news.key] += len(news.text)
            if told[news.key] == characters:
                print(time.monotonic(), flush=True)
        elif isinstance(news, Launched):
            print(0.0, flush=True)
asyncio.run(follow_it())
"""


class Deaf:
    """A face that shows nothing."""

    def tell(self, news: News) -> None: ...


def bench() -> list[Row]:
    with (
        scratch("telling") as folder,
        served() as url,
        asyncio.Runner() as runner,
        closing(open_ledger(folder / "2026-01-01_001_loop_x")) as ledger,
        process_of(FOLLOWER, str(ledger.folder.path), str(CHARACTERS)) as follower,
    ):
        came(follower)  # it has begun to follow
        times = interleaved(ROUNDS, _told(runner, ledger, follower, f"{url}/many"), _bare(runner, f"{url}/many"))
    ours, bare = (time_text(times.median(side) / TOKENS) for side in range(2))
    name = "one streamed token, told in another process"
    return [Row(name, ours, f"{bare} bare httpx2 SSE loop", times.ratio(0, 1), 1.5)]


def _told(runner: asyncio.Runner, ledger: Ledger, follower: subprocess.Popen[str], url: str) -> Timed:
    provider, face = OpenAICompat(endpoint(url), Wishes(model="m")), Deaf()
    caller = Caller(
        ledger,
        lambda call: Route(provider, "p"),
        showing=Showing(lambda search, most: Gathered(), ledger, face),
        face=face,
        budget=Budget(None, run_id=ledger.folder.id),
    )
    context = Context(ledger, {ModelCall: caller}).at("plan", 1)
    limits = Constraints(timeoutMs=60_000, patchFirst=False)
    numbers = count(1)

    async def call() -> None:
        artifact = f"plan/call-{next(numbers):04d}"
        await context.perform("plan", ModelCall("planner", "main", Prompt("s", "u"), (), limits, artifact, files=False))

    def once() -> float:
        start = time.process_time() + used_ns(follower) / 1e9
        runner.run(call())
        came(follower)
        return time.process_time() + used_ns(follower) / 1e9 - start

    return once


def _bare(runner: asyncio.Runner, url: str) -> Timed:
    loop = bare_loop(f"{url}/chat/completions")

    async def call() -> int:
        return await loop()

    def once() -> float:
        start = time.process_time()
        if (told := runner.run(call())) != TOKENS:
            raise RuntimeError(f"{told} tokens instead of {TOKENS}")
        return time.process_time() - start

    return once
