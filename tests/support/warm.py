"""The real program without the cost of its start: one process has loaded it, and forks for every command.

Each command is a process of its own, from `main` to its exit code, with its own folder, environment, pipes and end;
only the loading of modules is shared. Of a thousand commands of the tests that is the greater part of the time. That
the program also starts by itself is tested where it is started by its name: in documents, terminals, kills and
benchmarks. What is decided while Python itself starts (its variables, the language) starts anew here too.

Run as a program, this is the server; it knows nothing of the tests. Before it serves it runs one loop itself: patterns,
decoders and facts of the machine, which every process makes once, are made then. What a run could leave behind in a
process (signals, threads, files, variables) is compared. A command ends as Python does, up to the destruction of what
was loaded: that would copy every page of it.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import os
import pkgutil
import resource
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

_EARLY = ("PYTHON", "LC_", "LANG", "LD_", "TZ")  # read before the first line of the program
_MOST = 64_000  # bytes of one order


# -- who asks ---------------------------------------------------------------------------------------------------------


def run(program: str, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float) -> Done:
    """Run `program` with these arguments, with nothing to read, as subprocess.run(capture_output, text) does."""
    order = json.dumps({"program": program, "arguments": arguments, "cwd": str(cwd), "env": dict(env)}).encode()
    if len(order) > _MOST or _early(env) != _early(os.environ) or not cwd.is_dir():
        words = [program, *arguments]
        nothing = subprocess.DEVNULL
        return subprocess.run(
            words, cwd=cwd, env=env, stdin=nothing, capture_output=True, text=True, timeout=timeout, check=False
        )
    pipes = [os.pipe() for _ in range(3)]  # output, errors, and what became of it
    try:
        fds = array.array("i", [write for _, write in pipes])
        _server(_early(os.environ)).sendmsg([order], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    finally:
        for _, write in pipes:
            os.close(write)
    out, err, became = _read_all([read for read, _ in pipes], [program, *arguments], timeout)
    return subprocess.CompletedProcess([program, *arguments], int(became.split()[1]), _text(out), _text(err))


Done = subprocess.CompletedProcess[str]


def _early(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in env.items() if name.startswith(_EARLY)))


@cache
def _server(early: tuple[tuple[str, str], ...]) -> socket.socket:
    """The line to the server for this process; it ends when nobody holds the other end any more."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [sys.executable, __file__, str(theirs.fileno())]
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(words, pass_fds=[theirs.fileno()], cwd="/", stdin=nothing, stdout=nothing)
    process.returncode = 0  # nobody waits for it: it ends after us
    theirs.close()
    return ours


def _read_all(fds: list[int], words: list[str], timeout: float) -> list[bytes]:
    """All that comes from these until nobody can write there any more."""
    found = {fd: bytearray() for fd in fds}
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as waiting:
        for fd in fds:
            waiting.register(fd, selectors.EVENT_READ)
        try:
            while waiting.get_map():
                ready = waiting.select(max(0.0, deadline - time.monotonic()))
                if not ready and time.monotonic() >= deadline:
                    os.kill(int(found[fds[2]].split()[0]), signal.SIGKILL)
                    raise subprocess.TimeoutExpired(words, timeout, *(bytes(found[fd]) for fd in fds[:2]))
                for key, _ in ready:
                    data = os.read(key.fd, 1 << 16)
                    found[key.fd] += data
                    if not data:
                        waiting.unregister(key.fd)
        finally:
            for fd in fds:
                os.close(fd)
    return [bytes(found[fd]) for fd in fds]


def _text(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


# -- the server -------------------------------------------------------------------------------------------------------


def serve(line: socket.socket) -> list[str] | None:
    """Fork for every order. Returns in each child: its command line; and None when nobody asks any more."""
    running: dict[int, tuple[int, int]] = {}  # by descriptor of the process: its id, and where to say how it ended
    with selectors.DefaultSelector() as waiting:
        waiting.register(line, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fd in running:
                    waiting.unregister(key.fd)
                    pid, told = running.pop(key.fd)
                    _, status = os.waitpid(pid, 0)
                    os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
                    os.close(told)
                    os.close(key.fd)
                    continue
                data, fds, _, _ = socket.recv_fds(line, _MOST + 1, 3)
                if not data:
                    return None
                pid = os.fork()
                if pid == 0:
                    for fd in (line.fileno(), fds[2], *running, *(told for _, told in running.values())):
                        os.close(fd)
                    for fd, number in zip(fds, (1, 2), strict=False):
                        os.dup2(fd, number)
                        os.close(fd)
                    return _become(json.loads(data))
                os.write(fds[2], f"{pid}\n".encode())
                os.close(fds[0])
                os.close(fds[1])
                process = os.pidfd_open(pid)
                running[process] = (pid, fds[2])
                waiting.register(process, selectors.EVENT_READ)


def _become(order: dict[str, object]) -> list[str]:
    """Be the process that was asked for."""
    os.chdir(str(order["cwd"]))
    env, arguments = order["env"], order["arguments"]
    assert isinstance(env, dict) and isinstance(arguments, list)
    os.environ.clear()
    os.environ.update(env)
    sys.path[0] = str(Path(str(order["program"])).parent)
    return [str(order["program"]), *arguments]


def _load() -> None:
    """Every module of the program, whatever they are called; and what a first run makes."""
    import orchestra

    for module in pkgutil.walk_packages(orchestra.__path__, "orchestra."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    _rehearse()
    gc.collect()
    gc.freeze()


def _rehearse() -> None:
    """Run a loop in this process, in a folder of its own, and leave the process as it was."""
    from orchestra.cli.program import run as run_program  # not `main`: that closes what no other command could open

    interrupt = signal.getsignal(signal.SIGINT)  # ignored in a shell's background job; a loop's end sets the default
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = _surroundings()
    out, variables = os.dup(1), dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/work")
        Path(folder, "work", "calc.py").write_text("a - b\n")
        Path(folder, "replies.json").write_text(json.dumps({"replies": _REPLIES}))
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)
        order = {"program": sys.argv[0], "arguments": _LOOP, "cwd": f"{folder}/work"}
        env = {**variables, "HOME": folder, "XDG_CACHE_HOME": folder}
        sys.argv = _become({**order, "env": env})
        assert run_program() == 0
        os.dup2(out, 1)
        os.close(out)
        os.chdir("/")
    os.environ.clear()
    os.environ.update(variables)
    assert _surroundings() == before
    signal.signal(signal.SIGINT, interrupt)


_DIFF = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-a - b\n+a + b\n"
_RESULT = "<<<AIO_RESULT_START>>>\ntype: PATCH\nsummary: it adds\n<<<AIO_RESULT_END>>>\n\n"
_REPLIES = [
    {"match": {"role": "planner"}, "text": "1. It adds."},
    {"match": {"role": "developer"}, "text": f"{_RESULT}[PATCH_BEGIN]\n{_DIFF}[PATCH_END]\n"},
]
_CHECK = "grep -q 'a + b' calc.py"
_LOOP = ["loop", "add", "--check", _CHECK, "--provider", "scripted:../replies.json", "--no-input", "--yes", "--json"]


def _surroundings() -> tuple[object, ...]:
    """What a run could leave in its process, beside memory and variables."""
    signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
    limits = {number: resource.getrlimit(number) for number in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)}
    umask = os.umask(0)
    os.umask(umask)
    return signals, limits, umask, threading.active_count(), len(os.listdir("/proc/self/fd"))


def _end(code: int) -> NoReturn:
    """End as Python does: threads, what was registered, and then the output."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    line = socket.socket(fileno=int(sys.argv[1]))
    _load()
    words = serve(line)
    if words is not None:
        from orchestra.cli import main

        sys.argv = words
        try:
            main()
        except SystemExit as error:
            if error.code is None or isinstance(error.code, int):
                _end(error.code or 0)
            raise  # a message, which Python prints
