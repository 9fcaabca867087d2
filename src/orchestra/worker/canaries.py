"""Canaries: files, sockets and shared memory that a sandboxed probe tries to reach, and must not (probe.py).

Rules
1. All canaries are made here, in a new folder, and removed afterwards. The probe aims at nothing else.
2. Modes allow everything to everybody, so that only the sandbox can refuse.
3. The facts passed to the probe contain no secret: a random text, paths, numbers, names.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from orchestra.worker import attempts
from orchestra.worker.task import Command, Sandbox, Tier

_SYSTEM = "/usr/bin/python3"
_IPC_CREAT, _IPC_RMID = 0o1000, 0


class Canaries:
    """The canaries, and the facts about them that are passed into the sandbox."""

    def __init__(
        self, folder: Path, tcp: socket.socket, abstract: str, listeners: list[socket.socket], shm: int
    ) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.temporary = folder / "temporary"
        self.canary = folder / "outside" / "canary"
        self._listeners = [tcp, *listeners]
        self._text = secrets.token_hex(8)
        self._environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nowhere"}
        self.canary.write_text(self._text, encoding="utf-8")
        self.canary.chmod(0o666)  # rule 2
        (self.workspace / "hello").write_text(self._text, encoding="utf-8")
        self._facts = {
            "canary": str(self.canary),
            "home": _in_home(folder),
            "port": tcp.getsockname()[1],
            "abstract": abstract,
            "socket": str(folder / "outside" / "socket"),
            "socket inside": "socket",
            "pid": os.getpid(),
            "start": attempts.start_time(os.getpid()),
            "names": [*self._environment, "TMPDIR", "PWD"],
            "shared memory": shm,
            "hello": self._text,
        }

    def command(self, tier: Tier, run_as: int | None = None) -> Command:
        text = Path(attempts.__file__).read_text(encoding="utf-8")
        tmp = str(self.temporary) if tier == "landlock" else "/tmp"
        return Command(
            argv=(_interpreter(run_as), "-I", "-S", "-c", text, json.dumps(self._facts)),
            cwd=str(self.workspace),
            env=self._environment | {"TMPDIR": tmp},
            timeout_ms=20_000,
            grace_ms=0,
        )

    def sandbox(self, tier: Tier, run_as: int | None) -> Sandbox:
        prefix = os.path.realpath(sys.base_prefix)
        reads = () if prefix == "/usr" or _interpreter(run_as) == _SYSTEM else (prefix,)
        own = ((str(self.temporary), str(self.temporary)),) if tier == "landlock" else ()
        return Sandbox(tier=tier, workspace=str(self.workspace), reads=reads, writes=own, run_as=run_as)

    def touched(self) -> dict[str, str]:
        """The canaries that were changed or reached: name -> what happened."""
        found = {}
        beside = sorted(os.listdir(self.canary.parent))
        if self.canary.read_text(encoding="utf-8") != self._text or beside != ["canary", "socket"]:
            found["the canary file"] = f"changed; beside it: {beside}"
        if (left := sorted(os.listdir(self.workspace))) != ["hello", "socket"]:
            found["the workspace"] = f"it has {left}"
        if reached := [listener for listener in self._listeners if _reached(listener)]:
            found["the listeners"] = f"{len(reached)} were reached"
        return found


@contextlib.contextmanager
def canaries(near: Path | None) -> Iterator[Canaries]:
    folder = Path(tempfile.mkdtemp(prefix="orchestra-probe-", dir=near))
    libc = ctypes.CDLL(None, use_errno=True)
    key = secrets.randbits(30) | 1
    shm = libc.shmget(key, 4096, _IPC_CREAT | 0o666)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(libc.shmctl, shm, _IPC_RMID, None)
        for path in (folder, folder / "outside", folder / "workspace", folder / "temporary"):
            path.mkdir(exist_ok=True)
            path.chmod(0o777 if path != folder else 0o755)  # rule 2
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = f"orchestra-probe-{secrets.token_hex(8)}"
        addresses = ["\0" + abstract, str(folder / "outside" / "socket"), str(folder / "workspace" / "socket")]
        listeners = [stack.enter_context(_listener(address)) for address in addresses]
        yield Canaries(folder, tcp, abstract, listeners, key)


def _listener(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    if address.startswith("\0"):
        listener.bind(address)
    else:
        # A socket's path has at most 107 bytes. A folder's path may be longer; the path of its descriptor never is.
        folder = os.open(os.path.dirname(address), os.O_PATH | os.O_CLOEXEC)
        listener.bind(f"/proc/self/fd/{folder}/{os.path.basename(address)}")
        os.close(folder)
        os.chmod(address, 0o777)
    listener.listen()
    return listener


def _reached(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _in_home(folder: Path) -> str | None:
    """A path in the user's home that no sandbox needs to show; None if there is none."""
    home = os.path.expanduser("~")
    visible = (str(folder), os.path.realpath(sys.base_prefix))
    try:
        names = sorted(os.listdir(home))
    except OSError:
        return None
    paths = [os.path.join(home, name) for name in names]
    return next((path for path in paths if not any((v + "/").startswith(path + "/") for v in visible)), None)


def _interpreter(run_as: int | None) -> str:
    """Our Python; or the system's, if commands run as a user who cannot read ours (it is in root's home)."""
    ours = Path(os.path.realpath(sys.executable))
    closed = run_as is not None and not all(folder.stat().st_mode & stat.S_IXOTH for folder in ours.parents)
    return _SYSTEM if closed and os.access(_SYSTEM, os.X_OK) else str(ours)
