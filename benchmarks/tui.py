"""14. The terminal UI in a pty: a key until it is seen, the processor while text streams, bytes, the start, an attach.

A model writes 500 pieces a second, of the size of tokens; a key is typed every 0.2 s, and its letter is waited for in
what the program writes. The processor time is the program's own, with the model in it, which is a script. Start: from
before the process begins until its input line is there, against `python -c pass`, in turns. Attach: `/watch` of a
run of 10,000 events, from Enter until a line of its last round is on the screen.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loop_run import write_loop_run
from measure import CHILD_ENV, Row, interleaved, scratch, time_text, timed_process

PROGRAM = str(Path(sys.executable).with_name("orchestra"))
RATE, SECONDS, EVERY_S, STARTS, ATTACHES, EVENTS = 500, 8.0, 0.2, 7, 3, 10_000
LAST = f" {(EVENTS - 3) // 10} "  # the number of the run's last round
WORDS = (
    "오늘",
    "the",
    "build",
    "fails",
    "because",
    "`foo.py`",
    "line",
    "3",
    "imports",
    "없는",
    "모듈",
    "and",
    "so",
    "on.",
)
READY = "Ctrl-D leaves."  # the last line before the input line
KEY = "Q"  # in no text of the model


class Watched:
    """The program in a pty."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.fd, theirs = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        env = {**CHILD_ENV, "TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": str(folder.parent)}
        command = [sys.executable, PROGRAM, "tui", *more]
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command], cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        self.bytes = 0

    def read(self, seconds: float) -> bytes:
        if not select.select([self.fd], [], [], seconds)[0]:
            return b""
        data = os.read(self.fd, 65536)
        self.bytes += len(data)
        return data

    def until(self, text: str, seconds: float = 60) -> None:
        seen, end = b"", time.monotonic() + seconds
        while text.encode() not in seen:
            seen += self.read(0.1)
            if time.monotonic() > end:
                raise RuntimeError(f"{text!r} was not shown: {seen[-2000:]!r}")

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    @property
    def used_s(self) -> float:
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1e9


@contextmanager
def watched(folder: Path, *more: str) -> Iterator[Watched]:
    one = Watched(folder, *more)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait()
        os.close(one.fd)


def bench() -> list[Row]:
    with scratch("tui") as home:
        script, folder = home / "replies.json", home / "project"
        folder.mkdir()
        script.write_text(json.dumps({"replies": _replies()}, ensure_ascii=False), encoding="utf-8")
        provider = ("--provider", f"scripted:{script}")
        return [*_streaming(folder, *provider), _start(folder, *provider), _attach(folder, *provider)]


def _replies() -> list[dict[str, object]]:
    """A plan, and an answer of 500 pieces a second."""
    count = int(RATE * (SECONDS + 4))
    text = "".join("\n\n" if n % 60 == 59 else f"{WORDS[n % len(WORDS)]} " for n in range(count))
    plan: dict[str, object] = {"match": {"phase": "plan"}, "text": '{"next": "final_report", "reason": "x"}'}
    chunk = max(1, len(text) // count)
    return [plan, {"match": {"phase": "execute"}, "text": text, "chunk": chunk, "delayMs": int(1000 * (SECONDS + 4))}]


def _streaming(folder: Path, *more: str) -> list[Row]:
    with watched(folder, *more) as ours:
        ours.until(READY)
        ours.type("go\r")
        ours.until("build")
        time.sleep(0.5)
        while ours.read(0.0):
            pass
        begun, used, ours.bytes = time.monotonic(), ours.used_s, 0
        taken: list[float] = []
        sent, due = 0.0, begun
        while (now := time.monotonic()) < begun + SECONDS:
            if not sent and now >= due:
                sent, due = time.perf_counter(), now + EVERY_S
                ours.type(KEY if len(taken) % 40 else f"\x15{KEY}")
            if KEY.encode() in ours.read(0.01) and sent:
                taken.append(time.perf_counter() - sent)
                sent = 0.0
        elapsed = time.monotonic() - begun
        share = 100 * (ours.used_s - used) / elapsed
        megabytes = ours.bytes * 15 / elapsed / 1e6
    median = statistics.median(taken)
    return [
        Row("terminal UI: a key until it is seen, 500 tokens/s, in ms", time_text(median), "35 ms", 1e3 * median, 35.0),
        Row("  its processor time meanwhile, in % of one core", f"{share:.1f} %", "100 %", share, 10.0),
        Row("  its bytes to the terminal in 15 s, in MB", f"{megabytes:.2f} MB", "0.2 MB", megabytes, 0.2),
    ]


def _start(folder: Path, *more: str) -> Row:
    def once() -> float:
        start = time.perf_counter()
        with watched(folder, *more) as ours:
            ours.until("/help")  # the status row, drawn together with the input line
            return time.perf_counter() - start

    once()
    times = interleaved(STARTS, once, timed_process("-c", "pass"))
    bare = f"{time_text(times.median(1))} python -c pass"
    return Row("  its start, until the input line is there", time_text(times.median(0)), bare, times.ratio(0, 1), 25.0)


def _attach(folder: Path, *more: str) -> Row:
    """A run of 10,000 events, shown."""
    run = write_loop_run(folder, EVENTS)
    taken = []
    for _ in range(ATTACHES):
        with watched(folder, *more) as ours:
            ours.until(READY)
            ours.type(f"/watch {run}")
            time.sleep(0.5)
            start = time.perf_counter()
            ours.type("\r")
            ours.until(LAST)
            taken.append(time.perf_counter() - start)
    median = statistics.median(taken)
    return Row("  a run of 10,000 events, until it is shown, in s", time_text(median), "1 s", median, 1.0)
