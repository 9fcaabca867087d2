"""The supervisor: a small process between orchestra and a command, so that no process of the command outlives either.

Started as `python -I -S supervisor.py FD` with an empty environment, one per command. It is a program, not a module of
orchestra: it imports nothing of it (a supervisor starts in the time of a bare interpreter) and is read as a file.

Why a process: a parent-death signal reaches only the direct child, follows the *thread* that started it (sandbox.md
§3, trap 4) and needs code between fork and exec; a process group is left by one `setsid`. A subreaper that waits on a
socket needs neither: when orchestra goes, however it goes, the kernel closes the other end; and whatever the command
left behind becomes a child of this process, wherever it moved to.

Rules
1. FD is a stream socket. It brings the request (length, then NUL-separated: cwd, number of arguments, arguments,
   NAME=value …), then any number of T = SIGTERM to everything; end-of-file = SIGKILL to everything, then exit.
2. It answers in lines: `S pid` the command runs; `E errno` it cannot; `X status` it ended (a wait status).
3. The command inherits descriptors 0, 1, 2 and nothing else; this process gives its own copies of them up at once, so
   that end-of-file means what it should.
4. It ends only when it has no child left, or none it is allowed to kill. It reaps all of them: no zombie.
5. SIGTERM to it is the same as end-of-file: whoever finds a supervisor of a dead orchestra ends the tree by that.

It judges nothing, limits nothing and reads no output.
"""

from __future__ import annotations

# Not `signal` and `socket`: they import enum and re, and the start takes 25 ms instead of 15 (a bare Python: 10).
import _signal as signal  # type: ignore[import-not-found]  # built in, but typeshed has no stub
import ctypes
import errno
import os
import select
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
_GIVE_UP_S = 10.0  # a process we may not kill (it became another user's) must not keep us for ever


def main(control: int) -> None:
    """Run one command from the request on `control` to the end of its last descendant."""
    os.set_inheritable(control, False)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    pid = -1
    try:
        cwd, argv, env = _request(control)
        try:
            pid = _start(cwd, argv, env)
        except OSError as error:
            _say(control, b"E %d\n" % (error.errno or errno.EIO))
            return
        finally:
            null = os.open(os.devnull, os.O_RDWR)
            for stdio in (0, 1, 2):
                os.dup2(null, stdio)
        _say(control, b"S %d\n" % pid)
        _watch(control, pid)
    except EOFError:
        pass  # orchestra went before it said what it wanted
    finally:
        _end_all(control, pid)


def _say(control: int, line: bytes) -> None:
    try:
        os.write(control, line)
    except OSError:
        pass  # orchestra is gone; the next read of the socket says so too


def _request(control: int) -> tuple[bytes, list[bytes], dict[bytes, bytes]]:
    size = int.from_bytes(_exactly(control, 8), "big")
    cwd, count, *rest = _exactly(control, size).split(b"\0")
    pairs = (pair.partition(b"=") for pair in rest[int(count) :])
    return cwd, rest[: int(count)], {name: value for name, _, value in pairs}


def _exactly(control: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = os.read(control, min(size - len(data), 1 << 16))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def _start(cwd: bytes, argv: list[bytes], env: dict[bytes, bytes]) -> int:
    """Start it in its own session. A bare name is looked up in *its* PATH, in absolute folders: never the workspace."""
    os.chdir(cwd)
    names = [argv[0]]
    if b"/" not in argv[0]:
        folders = env.get(b"PATH", os.defpath.encode()).split(b":")
        names = [os.path.join(folder, argv[0]) for folder in folders if folder.startswith(b"/")]
    failure = OSError(errno.ENOENT, "")
    for name in names:
        try:
            # Python ignores SIGPIPE and SIGXFSZ: a command must not inherit that.
            defaults = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM]
            return os.posix_spawn(name, argv, env, setsid=True, setsigdef=defaults, setsigmask=[])
        except OSError as error:
            if failure.errno == errno.ENOENT or error.errno not in (errno.ENOENT, errno.ENOTDIR):
                failure = error
    raise failure


def _watch(control: int, pid: int) -> None:
    """Tell when the command ends; obey until told to end everything."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    ended = os.pidfd_open(pid)
    poll.register(ended, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll(1000)]  # the second is for orphans that ended: nobody else reaps them
        _reap(control, pid)
        if ended in ready:
            poll.unregister(ended)
        if control in ready:
            try:
                order = os.read(control, 1)
            except ConnectionResetError:
                order = b""  # gone, with words of ours unread
            if order != b"T":
                return
            for descendant in _descendants():
                _kill(descendant, signal.SIGTERM)


def _reap(control: int, pid: int) -> bool:
    """Bury the dead; if the command is among them, say how it died. True if no child is left."""
    try:
        while True:
            dead, status = os.waitpid(-1, os.WNOHANG)
            if dead == 0:
                return False
            if dead == pid:
                _say(control, b"X %d\n" % status)
    except ChildProcessError:
        return True


def _end_all(control: int, pid: int) -> None:
    """Kill every descendant until there is none. Orphans come to us (subreaper), so the rounds end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    deadline = time.monotonic() + _GIVE_UP_S
    while not _reap(control, pid) and time.monotonic() < deadline:
        for descendant in _descendants():
            _kill(descendant, signal.SIGKILL)
        time.sleep(0.001)


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it ended meanwhile, or is another user's now (rule 4)


def _descendants() -> list[int]:
    """All processes below this one, by the parents the kernel names."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name in parentheses may hold anything, also ")": the last one ends it.
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it ended meanwhile
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    queue = [os.getpid()]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]))
    os._exit(0)  # nothing to finalise: 2 ms
