"""The canaries of the range: a workspace with hostile content, and what lies around it. Made, watched, taken away."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestra.worker import attempts
from orchestra.worker.task import Limits, Sandbox

KEY = "RANGE_API_KEY"
GIVEN = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/tmp"}
NAMESPACES = ("pid", "net", "mnt", "ipc", "uts", "user", "cgroup")
_libc = ctypes.CDLL(None, use_errno=True)


class Place:
    """Everything that a case may aim at."""

    def __init__(self, top: Path, stack: contextlib.ExitStack) -> None:
        self.top = top
        self.mark = "range-" + secrets.token_hex(6)
        self.workspace, self.outside, self.home = top / "workspace", top / "outside", top / "home"
        self.reads, self.writes, self.upper = top / "reads", top / "writes", top / "upper"
        self.canary = self.outside / "canary"
        self._stack = stack
        self._listeners: dict[str, socket.socket] = {}
        self._shared_memory = secrets.randbits(30) | 1
        self._make_files()
        self._make_sockets()
        self._make_processes()
        self._make_memory()
        self._before = self._snapshot()

    def sandbox(self, *, upper: bool = False, **changes: Any) -> Sandbox:
        fields: dict[str, Any] = {
            "workspace": str(self.workspace),
            "hides": (str(self.workspace / "runs"),),
            "reads": (str(self.reads),),
            "writes": ((str(self.writes), str(self.writes)),),
            "upper": self._new_upper() if upper else None,
            "limits": Limits(memory_bytes=1 << 30),
        }
        return Sandbox(**(fields | changes))

    def _new_upper(self) -> str:
        path = self.upper / str(len(os.listdir(self.upper)))
        path.mkdir()
        return str(path)

    def facts(self, bwrap: str) -> dict[str, Any]:
        users = [line.split(":")[0] for line in Path("/etc/passwd").read_text().splitlines()]
        names = {name: listener.getsockname() for name, listener in self._listeners.items()}
        return {
            "top": str(self.top),
            "shown": ["workspace", "reads", "writes"],
            "workspace": str(self.workspace),
            "outside": str(self.outside),
            "canary": str(self.canary),
            "hidden": str(self.workspace / "runs"),
            "reads": str(self.reads),
            "writes": str(self.writes),
            "upper": str(self.upper),
            "home": str(self.home),
            "home entries": os.listdir(self.home),
            "run entries": os.listdir("/run"),
            "tmp entries": os.listdir("/tmp"),
            "shm file": self.mark + "-canary",
            "user canary": next(name for name in users if name not in ("root", "nobody")),
            "key name": KEY,
            "given": [*GIVEN],
            "host name": os.uname().nodename,
            "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES},
            "victim": self.victim.pid,
            "victim start": attempts.start_time(self.victim.pid),
            "victim mark": self.mark + "-victim",
            "orchestra": os.getpid(),
            "shared memory": self._shared_memory,
            "queue": self.mark,
            "mark": self.mark,
            "bwrap": bwrap,
            "tcp": names["tcp"][1],
            "tcp6": names["tcp6"][1] if "tcp6" in names else 1,
            "udp": names["udp"][1],
            "abstract": self.mark,
            "abstract datagram": self.mark + "-datagram",
            "unix": names["unix"],
            "unix datagram": names["unix datagram"],
            "unix in workspace": str(self.workspace / "service"),
            "unix in reads": str(self.reads / "service"),
        }

    def changes(self) -> list[str]:
        """What is not as it was."""
        after = self._snapshot()
        paths = sorted(after.keys() | self._before.keys())
        found = [f"changed: {path}" for path in paths if after.get(path) != self._before.get(path)]
        found += [f"reached: {name}" for name, listener in self._listeners.items() if _reached(listener)]
        if self.victim.poll() is not None:
            found.append("the process outside has ended")
        if _state(self.stopped.pid) != "T":
            found.append("the stopped process runs")
        with contextlib.suppress(BlockingIOError):
            found += ["the pipe has words in it"] if os.read(self._pipe, 1) else []
        for folder in ("/tmp", "/run", "/dev/shm"):
            found += [f"{folder}/{name}" for name in os.listdir(folder) if name == self.mark]
        if _libc.shmget(4711, 0, 0) >= 0:
            found.append("shared memory was made outside")
        deadline = time.monotonic() + 5  # bwrap's own process of an empty sandbox may need a moment (launcher, rule 6)
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.01)
        return found + [f"left behind: {pid}" for pid in self.left()]

    def left(self) -> list[int]:
        """Processes that carry the mark of a case in their arguments."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if f"{self.mark}-case".encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(int(name))
        return [pid for pid in found if pid != os.getpid()]

    def _make_files(self) -> None:
        for folder in (self.workspace, self.outside, self.home, self.reads, self.writes, self.upper):
            folder.mkdir()
        (self.home / ".ssh").mkdir()
        files = ["home/.ssh/id_ed25519", "home/notes", "outside/canary", "outside/linked", "reads/file"]
        files += [f"workspace/{name}" for name in ("readme", "src/a.py", ".git/HEAD", ".git/config", "runs/secret")]
        files += ["workspace/.git/hooks/pre-commit.sample"]
        for name in files:
            path = self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{self.mark} {name}\n")
            path.chmod(0o666)
        os.link(self.outside / "linked", self.workspace / "planted")
        os.symlink(self.canary, self.workspace / "link out")
        os.symlink(self.outside, self.workspace / "folder out")
        os.symlink("/usr/bin/env", self.workspace / "link usr")
        os.mkfifo(self.workspace / "pipe")
        self._pipe = os.open(self.workspace / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        self._stack.callback(os.close, self._pipe)
        if os.getuid() == 0:
            os.mknod(self.workspace / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        shared = Path("/dev/shm", self.mark + "-canary")
        for path in (shared, Path("/tmp", self.mark + "-canary")):
            path.write_text(self.mark)
            self._stack.callback(path.unlink, missing_ok=True)

    def _make_sockets(self) -> None:
        listen = self._listen
        listen("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        with contextlib.suppress(OSError):
            listen("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
        listen("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        listen("abstract", socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.mark)
        listen("abstract datagram", socket.AF_UNIX, socket.SOCK_DGRAM, "\0" + self.mark + "-datagram")
        listen("unix", socket.AF_UNIX, socket.SOCK_STREAM, str(self.outside / "service"))
        listen("unix datagram", socket.AF_UNIX, socket.SOCK_DGRAM, str(self.outside / "log"))
        listen("unix in reads", socket.AF_UNIX, socket.SOCK_STREAM, str(self.reads / "service"))
        listen("unix in runs", socket.AF_UNIX, socket.SOCK_STREAM, str(self.workspace / "runs" / "service"))
        for name in ("service", "service2", "service3"):
            listen(f"unix {name}", socket.AF_UNIX, socket.SOCK_STREAM, str(self.workspace / name))

    def _listen(self, name: str, family: int, kind: int, address: Any) -> None:
        listener = self._stack.enter_context(socket.socket(family, kind))
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        listener.setblocking(False)
        if isinstance(address, str) and not address.startswith("\0"):
            os.chmod(address, 0o777)
        self._listeners[name] = listener

    def _make_processes(self) -> None:
        named = [self.mark + "-victim", "600"]
        self.victim = subprocess.Popen(named, executable="/bin/sleep", start_new_session=True)
        self._stack.callback(_end, self.victim)
        self.stopped = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
        self._stack.callback(_end, self.stopped)
        os.kill(self.stopped.pid, signal.SIGSTOP)
        while _state(self.stopped.pid) != "T":
            time.sleep(0.005)

    def _make_memory(self) -> None:
        segment = _libc.shmget(self._shared_memory, 4096, 0o1666)
        self._stack.callback(_libc.shmctl, segment, 0, None)
        semaphore = _libc.semget(self._shared_memory, 1, 0o1666)
        self._stack.callback(_libc.semctl, semaphore, 0, 0)
        queue = _libc.mq_open(b"/" + self.mark.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
        if queue >= 0:
            self._stack.callback(_libc.mq_unlink, b"/" + self.mark.encode())
            self._stack.callback(os.close, queue)

    def _snapshot(self) -> dict[str, str]:
        """Every file of ours outside the two folders that may be written to, with all that can be seen of it."""
        found = {}
        for folder, folders, files in os.walk(self.top):
            folders[:] = [n for n in folders if os.path.join(folder, n) not in (str(self.upper), str(self.writes))]
            for name in [*folders, *files]:
                path = os.path.join(folder, name)
                info = os.lstat(path)
                text = os.readlink(path) if stat.S_ISLNK(info.st_mode) else ""
                if stat.S_ISREG(info.st_mode):
                    text = hashlib.sha256(Path(path).read_bytes()).hexdigest()
                times = f"{info.st_mtime_ns} {info.st_nlink}" if not stat.S_ISDIR(info.st_mode) else ""
                more = os.listxattr(path, follow_symlinks=False)
                found[path] = f"{info.st_mode:o} {info.st_uid} {info.st_size} {times} {text} {more}"
        return found


@contextlib.contextmanager
def place() -> Iterator[Place]:
    """Not below /tmp: a private /tmp must not be what hides it."""
    with contextlib.ExitStack() as stack:
        top = Path(tempfile.mkdtemp(prefix="range-", dir="/var/tmp"))
        stack.callback(_remove, top)
        top.chmod(0o755)  # a command may run as another user, and the sandbox must refuse, not the mode
        yield Place(top, stack)


def _remove(top: Path) -> None:
    for folder, folders, _ in os.walk(top):
        for name in folders:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)  # overlay leaves a folder without rights (MS-3.10)
    shutil.rmtree(top)


def _reached(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_DGRAM:
            return bool(listener.recv(100))
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
