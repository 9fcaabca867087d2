"""Code of the spawner's forked children: limits, user, exec; and the subreaper for tiers without a pid namespace.

Part of the spawner, not of orchestra: loaded by path into its bare interpreter, imports nothing of orchestra.

A keeper stands between the spawner and a command that has no pid namespace (tiers "landlock" and "none"): a subreaper,
so that whatever the command leaves behind becomes its child, wherever that moved to.

Rules
1. It reports `"child-pid"` (its own: killing its tree ends the command), then `"refused"`, `"errno"` or
   `"wait-status"`.
2. When the command ends, the spawner closes the order pipe or dies, or SIGTERM arrives, everything below is killed
   and reaped. The keeper exits only when it has no child left, or none that it is allowed to kill.
3. The command sets its limits and confines itself before it execs; if that fails it does not run.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # built in, but typeshed has no stub
import _socket as socket
import ctypes
import errno
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CODES = 7  # the descriptor for the exit codes of a pipe's programs, as pipeline.py names it to the shell
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_NS_GET_USERNS, _NEWUSER, _NEWNET = 0xB701, 0x10000000, 0x40000000
_IP_FREEBIND, _IPV6_FREEBIND = 15, 78
_GIVE_UP_S = 10.0  # stop waiting for a process that we may not kill (another user's)
# Changed by Python, by the spawner, or by whoever started orchestra (`nohup`, a shell's background job).
CHANGED = (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP, signal.SIGQUIT
)  # fmt: skip


def limit(pairs: list[tuple[int, int]]) -> None:
    """Set resource limits of this process; a limit is never raised."""
    for what, most in pairs:
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def become(uid: int, gid: int) -> None:
    """Switch to another user permanently, and drop all our groups."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def give(fds: dict[int, int]) -> None:
    """Duplicate descriptors to the wanted numbers; all others close on exec."""
    for target, source in fds.items():
        os.dup2(source, target, inheritable=True)
    for number in CHANGED:
        signal.signal(number, signal.SIG_DFL)


def close_all_but(kept: set[int]) -> None:
    """Close every inherited descriptor but these."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # the listing's own


def listeners(pid: int, ports: list[int]) -> list[Any]:
    """Sockets that listen on loopback in the network namespace of the process (MS-5.1), for each port two if possible.

    The second one is for ::1, which many programs try first for `localhost`.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    net = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    # The user namespace that owns the network namespace; it may differ from the process's present one.
    owner = _check(libc.ioctl(net, _NS_GET_USERNS))
    _check(libc.setns(owner, _NEWUSER))
    _check(libc.setns(net, _NEWNET))
    made = []
    for port in ports:
        made.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        # bwrap may not have brought loopback up yet, and bwrap fails if another process does.
        made[-1].setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        made[-1].bind(("127.0.0.1", port))
        made[-1].listen(128)
        try:
            second = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
            second.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            second.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
            second.bind(("::1", port))
            second.listen(128)
            made.append(second)
        except OSError:
            pass  # this machine has no such addresses
    return made


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def keep(request: dict[str, Any], fds: dict[str, int], confine: Any, tree: Callable[[int], list[int]]) -> None:
    """Run one command to the end of its last descendant."""
    libc = ctypes.CDLL(None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.write(fds["status"], b'{ "child-pid": %d }\n' % os.getpid())
    pid = os.fork()
    if pid == 0:
        number = errno.EIO
        try:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            _run(request, fds, confine)
        except OSError as error:
            number = error.errno or errno.EIO
        finally:
            os.write(fds["status"], b'{ "errno": %d }\n' % number)
            os._exit(127)
    try:
        for name in ("stdin", "stdout", "stderr", "block", "codes"):
            if fds[name] >= 0:
                os.close(fds[name])
        null = os.open(os.devnull, os.O_RDWR)
        for stdio in (0, 1, 2):
            os.dup2(null, stdio)
        _wait(pid, fds["order"])
    finally:
        _end_all(pid, fds["status"], tree)


def _run(request: dict[str, Any], fds: dict[str, int], confine: Any) -> None:
    os.setsid()
    os.read(fds["block"], 1)
    given = {0: fds["stdin"], 1: fds["stdout"], 2: fds["stderr"]}
    give(given if fds["codes"] < 0 else {**given, CODES: fds["codes"]})
    limit(request["rlimits"])
    if request["uid"] is not None:
        become(request["uid"], request["gid"])
    os.chdir(request["cwd"])
    if confine:
        try:
            confine.restrict(*request["confine"])
        except OSError as error:
            os.write(fds["status"], b'{ "refused": %d }\n' % (error.errno or errno.EIO))
            os._exit(127)
    os.execve(request["argv"][0], request["argv"], request["env"])


def _wait(pid: int, order: int) -> None:
    """Wait until the command ends or the order pipe closes; orphans that ended are reaped every second."""
    poll = select.poll()
    poll.register(order, select.POLLIN)
    ended = os.pidfd_open(pid)
    poll.register(ended, select.POLLIN)
    while not poll.poll(1000):
        for orphan in _dead():
            if orphan != pid:
                os.waitpid(orphan, 0)


def _dead() -> list[int]:
    """Children that ended and were not reaped."""
    me = os.getpid()
    found = []
    with open(f"/proc/{me}/task/{me}/children", "rb") as file:
        for child in map(int, file.read().split()):
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                found.append(child)
    return found


def _end_all(pid: int, status: int, tree: Callable[[int], list[int]]) -> None:
    """Kill every descendant until none is left. Orphans become our children (subreaper), so the rounds end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    deadline = time.monotonic() + _GIVE_UP_S
    while time.monotonic() < deadline:
        try:
            while (dead := os.waitpid(-1, os.WNOHANG))[0]:
                if dead[0] == pid:
                    os.write(status, b'{ "wait-status": %d }\n' % dead[1])
        except ChildProcessError:
            return
        for descendant in tree(os.getpid()):
            tell(descendant, signal.SIGKILL)
        time.sleep(0.001)


def tell(pid: int, number: int) -> None:
    """Send a signal to a process, if it still exists."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # the process ended meanwhile, or belongs to another user now


def tell_fd(fd: int, number: int) -> None:
    """Send a signal by process descriptor: the pid may belong to another process by now."""
    try:
        signal.pidfd_send_signal(fd, number)
    except (ProcessLookupError, PermissionError):
        pass


def bury(pid: int) -> None:
    """Reap a process if it is our child and has ended."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # its own parent reaped it


def hurry(pid: int) -> None:
    """Give a process a high scheduling priority.

    The kernel kills a namespace from within its dying pid 1. In a fork bomb of root, which no kernel limit holds, pid 1
    waited seconds for the processor, and the bomb grew to 28,000 processes meanwhile.
    """
    try:
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
    except OSError:
        pass  # not root: the kernel's limit on processes holds


def remove(folder: bytes) -> None:
    """Delete the folder that was prepared for sandboxes; it is ours and small."""
    for path, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            full = os.path.join(path, name)
            try:
                os.unlink(full) if name in files or os.path.islink(full) else os.rmdir(full)
            except OSError:
                pass  # orchestra tries too
    os.rmdir(folder)
