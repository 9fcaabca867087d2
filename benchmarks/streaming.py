"""12. A streamed reply through an adapter, against the bare httpx2 SSE loop that it is made of.

The server is another process that sends bytes it made before. Bare: one client, `EventSource`, `json.loads`, the text
of each delta kept. Per call: the same with a reply of one token; what counts is the difference.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import httpx2
from measure import Row, Timed, interleaved, time_text

from orchestra.core.model import Constraints, Prompt, Provider, ProviderRequest
from orchestra.providers.anthropic import Anthropic
from orchestra.providers.http import Endpoint, Http
from orchestra.providers.openai_compat import OpenAICompat, Wishes

TOKENS, ROUNDS, CALLS = 5_000, 15, 101
SERVER = """
import json, socket, sys, threading
tokens = {"/many": int(sys.argv[1]), "/one": 1}
def chunk(data): return b"%x\\r\\n%s\\r\\n" % (len(data), data)
def chat(n):
    piece = {"id": "x", "object": "chat.completion.chunk", "model": "m"}
    told = [{**piece, "choices": [{"index": 0, "delta": {"content": "토큰 "}, "finish_reason": None}]}] * n
    told += [{**piece, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    return [b"data: " + json.dumps(t).encode() + b"\\n\\n" for t in told] + [b"data: [DONE]\\n\\n"]
def messages(n):
    told = [{"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}}]
    told += [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "토큰 "}}] * n
    told += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": n}}]
    told += [{"type": "message_stop"}]
    return [f"event: {t['type']}\\ndata: {json.dumps(t)}\\n\\n".encode() for t in told]
HEAD = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\n"
HEAD += b"transfer-encoding: chunked\\r\\nconnection: close\\r\\n\\r\\n"
bodies = {}
for name, n in tokens.items():
    for wire, made in (("chat", chat(n)), ("messages", messages(n))):
        bodies[name, wire] = HEAD + b"".join(map(chunk, made)) + b"0\\r\\n\\r\\n"
def serve(line):
    data = b""
    while b"\\r\\n\\r\\n" not in data: data += line.recv(65536)
    head, _, body = data.partition(b"\\r\\n\\r\\n")
    size = next(int(h.split(b":")[1]) for h in head.split(b"\\r\\n") if h.lower().startswith(b"content-length"))
    while len(body) < size: body += line.recv(65536)
    path = head.split()[1].decode()
    try: line.sendall(bodies["/many" if "many" in path else "/one", "messages" if "messages" in path else "chat"])
    except OSError: pass
    line.close()
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
REQUEST = ProviderRequest(
    runId="r",
    iteration=1,
    phase="plan",
    role="planner",
    prompt=Prompt("s", "u"),
    contextArtifacts=(),
    constraints=Constraints(timeoutMs=60_000, patchFirst=False),
)


def bench() -> list[Row]:
    with served() as url, asyncio.Runner() as runner:

        def timed(call: Callable[[], Awaitable[int]], tokens: int) -> Timed:
            async def once() -> float:
                start = time.perf_counter()
                count = await call()
                taken = time.perf_counter() - start
                if count != tokens:
                    raise RuntimeError(f"{count} tokens instead of {tokens}")
                return taken

            return lambda: runner.run(once())

        def sides(path: str, tokens: int) -> list[Timed]:
            chat = OpenAICompat(endpoint(f"{url}/{path}"), Wishes(model="m"))
            messages = Anthropic(endpoint(f"{url}/{path}"), model="m")
            calls = (_adapter(chat), _adapter(messages), bare_loop(f"{url}/{path}/chat/completions"))
            return [timed(call, tokens) for call in calls]

        many = interleaved(ROUNDS, *sides("many", TOKENS))
        one = interleaved(CALLS, *sides("one", 1))
    bare = f"{time_text(many.median(2) / TOKENS)} bare httpx2 SSE loop"
    rows = []
    for side, name in enumerate(("openai_compat", "anthropic")):
        ours = time_text(many.median(side) / TOKENS)
        rows.append(Row(f"one streamed token, {name}", ours, bare, many.ratio(side, 2), 1.5))
    for side, name in enumerate(("openai_compat", "anthropic")):
        beyond = 1000 * (one.median(side) - one.median(2))
        call = f"{time_text(one.median(2))} bare call"
        rows.append(Row(f"  a call beyond the bare one, {name}, in ms", time_text(one.median(side)), call, beyond, 2.0))
    return rows


def endpoint(url: str) -> Http:
    return Http(Endpoint(base_url=url, headers={"authorization": "Bearer x"}))


def _adapter(provider: Provider) -> Callable[[], Awaitable[int]]:
    async def call() -> int:
        tokens: list[str] = []
        response = await provider.complete(REQUEST, tokens.append)
        return len(tokens) if response.finishReason == "stop" else -1

    return call


def bare_loop(url: str) -> Callable[[], Awaitable[int]]:
    client = httpx2.AsyncClient(timeout=None, limits=httpx2.Limits(max_keepalive_connections=0))
    body = {"model": "m", "messages": [{"role": "user", "content": "u"}], "stream": True}

    async def call() -> int:
        tokens: list[str] = []
        async with client.sse(url, method="POST", json=body) as events:
            async for event in events:
                if event.data != "[DONE]":
                    delta = json.loads(event.data)["choices"][0]["delta"]
                    if "content" in delta:
                        tokens.append(delta["content"])
        return len(tokens)

    return call


@contextmanager
def served() -> Iterator[str]:
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(TOKENS)], stdout=subprocess.PIPE, text=True)
    assert server.stdout
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
