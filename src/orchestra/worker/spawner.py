"""The spawner: a small process beside orchestra that starts all commands, watches them and leaves none behind.

Started once as `python -I -S spawner.py FD FOLDER` with an empty environment; one per orchestra process, for many
commands at once. It is a program of its own: it imports nothing of orchestra, has no secret and reads no
output. Why a process: a start from here costs the same however large orchestra is; it has one thread, so a
parent-death signal comes when the process dies, not a thread (MS-3.4); and it keeps time when orchestra is busy.

Rules
1. FD is a SEQPACKET socket; a message is a marshalled tuple `(name, number, …)`, with descriptors. The spawner gets
   start, listen, go, term, kill; it sends held, listener, end. End-of-file, or SIGTERM, ends everything: every command
   is killed, FOLDER is removed, it exits.
2. A command exists, contained and blocked, before `held` is sent; it runs only after `go`. If the spawner dies the
   command stays blocked: it holds the write end of its own pipe, so it never reads end-of-file.
3. A command inherits the descriptors 0, 1, 2 and nothing else. They are pipes; the spawner keeps no copy of them. The
   shell that connects the programs of a pipe has one more, for their exit codes, and closes it for them (pipeline.py).
4. `end` is sent when no process of the command exists. Tier strict: its pid namespace is gone, or, if it leaves no
   layer that must be unmounted first, has only bwrap's own pid 1. Else: its keeper, a subreaper that the spawner
   forks for it, has killed everything below itself.
5. Limits are enforced here. Time from `go`: TERM to all, the grace, KILL. Usage every 100 ms (usage.py): KILL.
6. Only bwrap's report `exit-code` is the command's (MS-3.5): any other end of bwrap is a failed set-up.

This stays one file, longer than others here. Nothing of a package can be imported (`-I -S`), so each part is a file
beside it that is loaded and executed at every start (`_beside`: usage.py, keeper.py); one more part would make every
start slower. What is left here is one object, the state of all commands.
"""

from __future__ import annotations

# Not `signal` and `socket`: they import enum and re, and the start takes 25 ms instead of 15 (a bare Python: 10).
import _signal as signal  # type: ignore[import-not-found]  # built in, but typeshed has no stub
import _socket as socket
import ctypes
import errno
import marshal
import os
import resource
import select
import sys
import time
from _frozen_importlib_external import SourceFileLoader  # loaded in every Python; `importlib` is not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_CHILD_SUBREAPER = 36
_RESERVED = 16  # descriptors below are free for what a command gets: no dup2 can hit a source
ARGS, SECCOMP, STATUS, BLOCK = 3, 4, 5, 6  # as wrap.py names them to bwrap
_NEVER = float("inf")
_PASSED = socket.CMSG_SPACE(4 * 8)  # room for descriptors that come with a message
_GIVE_UP_S = 10.0  # stop waiting for a process that we may not kill (another user's)
_ENDINGS = (b"exit-code", b"wait-status", b"errno", b"refused")  # names in the reports of bwrap and of the keeper
_libc = ctypes.CDLL(None, use_errno=True)


def _beside(name: str) -> Any:
    """Load a file beside this one by its path; not by import, so that no folder of ours is on the module path."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    module = type(sys)(name)
    exec(SourceFileLoader(name, path).get_code(name) or "", module.__dict__)  # compiled, if it was: a fifth of the time
    return module


usage, keeper = _beside("usage"), _beside("keeper")


class Child:
    """One command, from its request to its end."""

    def __init__(self, number: int, request: dict[str, Any]) -> None:
        self.number = number
        self.request = request
        self.outer = 0  # bwrap, or the keeper
        self.inner = 0  # the pid that orchestra journals: pid 1 of the namespace, or the keeper
        self.inner_fd = -1
        self.status = -1  # read end: reports of bwrap or the keeper
        self.release = -1  # write end: one byte releases the command
        self.order = -1  # write end: when it is closed, the keeper ends everything
        self.said = b""
        self.gone = False  # the outer process was reaped
        self.over = False  # `end` was sent
        self.meter: Any = None
        self.started = 0.0
        self.deadline = 0.0  # then TERM, or KILL if TERM was sent already
        self.told = False
        self.next_look = 0.0
        self.end: dict[str, Any] = {"timed_out": False, "limit": None, "killed": False, "ran": False}


class Spawner:
    """The loop and all present commands."""

    def __init__(self, control: int, folder: bytes) -> None:
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, control)
        self._control.setblocking(False)
        self._folder = folder
        self._children: dict[int, Child] = {}
        self._helpers: set[int] = set()  # processes that make listeners
        self._poll = select.poll()
        self._unsent: list[bytes] = []
        self._readers: dict[int, Child] = {}  # status pipes and pidfds
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)  # stdin of a command without input
        self._filters: dict[bytes, int] = {}  # of system calls: in memory, once for all commands
        self._due = _NEVER  # the next time to check limits, or earlier
        self._woken, wake = os.pipe()
        for fd in (self._woken, wake):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._poll.register(self._woken, select.POLLIN)
        self._poll.register(control, select.POLLIN)

    def serve(self) -> None:
        """Serve until orchestra closes the socket."""
        while True:
            for fd, event in self._poll.poll(self._patience()):
                if fd == self._woken:
                    os.read(fd, 4096)
                    self._reap()
                elif fd == self._control.fileno():
                    if event & select.POLLOUT:
                        self._flush()
                    if event & ~select.POLLOUT and not self._hear():
                        return
                elif fd in self._readers:
                    self._notice(fd, self._readers[fd])
            if time.monotonic() >= self._due:
                self._keep_limits()

    def close(self) -> None:
        """Kill every command, wait until no child is left, remove FOLDER."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        deadline = time.monotonic() + _GIVE_UP_S
        for child in self._children.values():
            self._kill(child)
        while time.monotonic() < deadline:
            try:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
                for orphan in self._orphans():
                    keeper.tell(orphan, signal.SIGKILL)
            except ChildProcessError:
                break
            time.sleep(0.001)
        keeper.remove(self._folder)

    def _hear(self) -> bool:
        try:
            data, parts, _, _ = self._control.recvmsg(4096, _PASSED, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        fds = [int.from_bytes(part[i : i + 4], sys.byteorder) for _, _, part in parts for i in range(0, len(part), 4)]
        word, number, *rest = marshal.loads(data)
        if word == "start":
            self._begin(number, fds, *rest)
            return True
        child = self._children.get(number)
        if child is None:
            return True  # the command ended before this message arrived
        match word:
            case "listen":
                self._listen(child, *rest)
            case "go":
                self._go(child)
            case "term":
                self._terminate(child)
            case "kill":
                self._kill(child)
        return True

    def _say(self, *message: Any) -> None:
        self._unsent.append(marshal.dumps(message))
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                self._control.send(self._unsent[0])
                del self._unsent[0]
        except BlockingIOError:
            pass  # orchestra reads slowly: send the rest later
        except OSError:
            self._unsent.clear()  # orchestra is gone; the next read reports that too
        self._poll.modify(self._control.fileno(), select.POLLIN | (select.POLLOUT if self._unsent else 0))

    def _begin(self, number: int, fds: list[int], size: int) -> None:
        paper, stdout, stderr, *rest = fds
        child = Child(number, marshal.loads(os.pread(paper, size, 0)))
        codes = rest.pop() if child.request["codes"] else -1
        self._children[number] = child
        child.status, status = os.pipe()
        waits, child.release = os.pipe()
        block = os.open(f"/proc/self/fd/{waits}", os.O_RDWR | os.O_CLOEXEC)  # rule 2
        os.close(waits)
        os.set_blocking(child.status, False)
        streams = [rest[0] if rest else self._null, stdout, stderr]
        try:
            if child.request["tier"] == "strict":
                fds.append(self._filter(child.request["seccomp"]))
                child.outer = self._start_bwrap(child, [*streams, paper, fds[-1], codes], status, block)
            else:
                child.outer = self._fork_keeper(child, [*streams, codes], status, block)
        except OSError as error:
            child.end["errno"] = error.errno or errno.EIO
        finally:
            for fd in (*fds, status, block):
                os.close(fd)
        if child.outer:
            self._watch(child.status, child)
        else:
            self._finish(child)

    def _filter(self, program: bytes) -> int:
        """A new descriptor to read the filter from."""
        if program not in self._filters:
            self._filters[program] = os.memfd_create("filter", os.MFD_CLOEXEC)
            os.write(self._filters[program], program)
        return os.open(f"/proc/self/fd/{self._filters[program]}", os.O_RDONLY | os.O_CLOEXEC)

    def _start_bwrap(self, child: Child, fds: list[int], status: int, block: int) -> int:
        stdin, stdout, stderr, arguments, seccomp, codes = fds
        request = child.request
        given = {0: stdin, 1: stdout, 2: stderr, ARGS: arguments, SECCOMP: seccomp, STATUS: status, BLOCK: block}
        given |= {keeper.CODES: codes} if codes >= 0 else {}
        argv = [b"bwrap", b"--args", b"%d" % ARGS, b"--", *request["argv"]]
        if request["uid"] is None:
            actions = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in given.items()]
            return os.posix_spawn(
                request["program"], argv, {}, file_actions=actions, setsigdef=keeper.CHANGED, setsigmask=[], setsid=True
            )
        if (pid := os.fork()) == 0:  # posix_spawn cannot switch the user
            try:
                os.setsid()
                # Not NPROC: outside of the sandbox that would count all processes of the user.
                keeper.limit([pair for pair in request["rlimits"] if pair[0] != resource.RLIMIT_NPROC])
                keeper.become(request["uid"], request["gid"])
                keeper.give(given)
                os.execve(request["program"], argv, {})
            except OSError as error:
                os.write(2, b"bwrap: cannot be started as another user: %s\n" % os.strerror(error.errno or 0).encode())
            os._exit(127)
        return pid

    def _fork_keeper(self, child: Child, fds: list[int], status: int, block: int) -> int:
        ordered, child.order = os.pipe()
        # Opened here, because this process is not confined, and only if it is needed.
        confine = _beside("confine") if child.request["tier"] == "landlock" else None
        if (pid := os.fork()) == 0:
            try:
                signal.set_wakeup_fd(-1)
                names = dict(zip(("stdin", "stdout", "stderr", "codes"), fds, strict=True))
                names |= {"status": status, "block": block, "order": ordered}
                keeper.close_all_but({0, 1, 2, *names.values()})
                keeper.keep(child.request, names, confine, usage.tree)
            finally:
                os._exit(0)
        os.close(ordered)
        return pid

    def _held(self, child: Child, pid: int) -> None:
        child.inner = pid
        started = usage.start_time(pid)
        if child.request["tier"] == "strict":
            try:
                child.inner_fd = os.pidfd_open(pid)
            except ProcessLookupError:
                return  # it ended at once: bwrap reports why
            self._watch(child.inner_fd, child)
            try:
                self._limit(child)
            except ProcessLookupError:
                return
            except OSError as error:
                child.end["refused"] = error.errno
                self._kill(child)
                return
        self._poll.unregister(child.status)  # later reports before `go` can wait, unless it ends (`_reap`)
        self._say("held", child.number, pid, started)

    def _limit(self, child: Child) -> None:
        for what, limit in child.request["rlimits"]:
            try:
                resource.prlimit(child.inner, what, (limit, limit))
            except PermissionError:
                # Another user's process, and our root lacks CAP_SYS_RESOURCE: it limited itself (`_start_bwrap`), but
                # for the number of processes, which only the watchdog limits then.
                if child.request["uid"] is None:
                    raise

    def _listen(self, child: Child, *ports: int) -> None:
        """Make listeners in the command's network namespace, by a process that joins it; orchestra accepts on them."""
        pid = os.fork()
        if pid:
            self._helpers.add(pid)
            return
        message: tuple[Any, ...] = ("listener", child.number, 0)
        passed: list[tuple[int, int, bytes]] = []
        try:
            made = keeper.listeners(child.inner, list(ports))
            numbers = b"".join(listener.fileno().to_bytes(4, sys.byteorder) for listener in made)
            passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)]
        except OSError as error:
            message = ("listener", child.number, error.errno or errno.EIO)
        try:
            room = select.poll()  # the socket stays non-blocking: the parent shares that flag
            room.register(self._control.fileno(), select.POLLOUT)
            room.poll()
            self._control.sendmsg([marshal.dumps(message)], passed)
        finally:
            os._exit(0)

    def _go(self, child: Child) -> None:
        request = child.request
        child.started = time.monotonic()
        child.deadline = child.started + request["timeout"]
        child.next_look = child.started + usage.TICK_S
        self._due = min(self._due, child.deadline, child.next_look)
        try:
            child.meter = usage.Meter(child.inner, request["upper"], request["writes"], request["limits"])
        except OSError as error:
            child.end["errno"] = error.errno  # a folder for its writes is missing
            self._kill(child)
            return
        self._poll.register(child.status, select.POLLIN)
        try:
            os.write(child.release, b"g")
        except BrokenPipeError:
            pass  # the set-up failed: bwrap reports why

    def _terminate(self, child: Child) -> None:
        """Send TERM to all processes and start the grace period; before `go`, or the second time, send KILL."""
        if not child.started or child.told:
            self._kill(child)
            return
        child.told = True
        child.deadline = time.monotonic() + child.request["grace"]
        self._due = min(self._due, child.deadline)
        for pid in usage.tree(child.inner, child.request["limits"]["processes"]):
            keeper.tell(pid, signal.SIGTERM)

    def _kill(self, child: Child) -> None:
        if child.gone:
            return
        child.end["killed"] = True
        child.deadline = 0.0
        if child.order >= 0:
            os.close(child.order)
            child.order = -1
            return
        keeper.tell(child.outer, signal.SIGKILL)  # first, so that it cannot report how the command ended
        if child.inner_fd >= 0:
            keeper.hurry(child.inner)
            keeper.tell_fd(child.inner_fd, signal.SIGKILL)  # pid 1: the kernel kills the whole namespace

    def _keep_limits(self) -> None:
        now = time.monotonic()
        self._due = _NEVER
        for child in list(self._children.values()):
            if not child.started or child.gone or child.over:
                continue
            if child.deadline and now >= child.deadline:
                child.end["timed_out"] |= not child.told
                self._terminate(child)
            if now >= child.next_look and not child.end["killed"]:
                exceeded = child.meter.exceeded()
                if exceeded:
                    child.end["limit"] = exceeded
                    self._kill(child)
                child.next_look = time.monotonic() + usage.TICK_S
            if not child.end["killed"]:
                self._due = min(self._due, child.deadline, child.next_look)

    def _patience(self) -> int | None:
        return None if self._due == _NEVER else max(0, int((self._due - time.monotonic()) * 1000) + 1)

    def _notice(self, fd: int, child: Child) -> None:
        if fd == child.inner_fd:
            self._unwatch(fd)
            child.inner_fd = -1
            self._finish(child)
            return
        try:
            data = os.read(fd, 4096)
        except BlockingIOError:
            return
        if not data:
            self._unwatch(fd)
            child.status = -1
            self._finish(child)
            return
        *words, child.said = (child.said + data).replace(b",", b"\n").split(b"\n")
        for word in words:  # `{ "child-pid": 7`, then names of namespaces; `{ "exit-code": 0 }`
            name, _, value = word.lstrip(b'{ "').partition(b'": ')
            if name == b"child-pid":
                self._held(child, int(value.rstrip(b" }")))
            elif name in _ENDINGS:
                child.end[name.decode()] = int(value.rstrip(b" }"))
                self._ended(child, name)

    def _ended(self, child: Child, how: bytes) -> None:
        """The command ended, or will not begin: end the processes it left."""
        if child.inner_fd >= 0:
            keeper.tell_fd(child.inner_fd, signal.SIGKILL)
        if how == b"exit-code" and not child.request["upper"] and not usage.children(child.inner):
            child.end["empty"] = True  # every process it started is below pid 1, and none is left
            self._end(child)
            self._unwatch(child.status)  # only bwrap's own end is missing, and bwrap is our child
            child.status = -1
            if child.inner_fd >= 0:
                self._unwatch(child.inner_fd)
                child.inner_fd = -1

    def _reap(self) -> None:
        outers = {child.outer: child for child in self._children.values()}
        try:
            while (dead := os.waitpid(-1, os.WNOHANG))[0]:
                self._helpers.discard(dead[0])
                child = outers.get(dead[0])
                if child:
                    child.gone = True
                    child.end["outer"] = dead[1]
                    if child.status >= 0:
                        self._poll.register(child.status, select.POLLIN)
                    if child.inner_fd >= 0:
                        keeper.tell_fd(child.inner_fd, signal.SIGKILL)
        except ChildProcessError:
            pass  # no child is left
        for child in list(self._children.values()):
            self._finish(child)

    def _orphans(self) -> list[int]:
        """Children of no known command: they became ours because their keeper died."""
        known = {pid for child in self._children.values() for pid in (child.outer, child.inner)} | self._helpers
        me = os.getpid()
        try:
            with open(f"/proc/{me}/task/{me}/children", "rb") as file:
                return [pid for pid in map(int, file.read().split()) if pid not in known]
        except OSError:
            return []

    def _finish(self, child: Child) -> None:
        """Forget the command, if no process of it is left (rule 4) and its last report was read."""
        if child.outer and (not child.gone or child.inner_fd >= 0 or child.status >= 0):
            return
        orphans = self._orphans() if child.end.get("outer") else []
        if orphans:  # its keeper was killed, or bwrap before it reported its child
            for orphan in orphans:
                keeper.tell(orphan, signal.SIGKILL)
            return  # called again when they are reaped
        if child.inner != child.outer:
            keeper.bury(child.inner)  # it is our child if bwrap ended before it
        for fd in (child.status, child.release, child.order):
            if fd >= 0:
                os.close(fd)
        del self._children[child.number]
        self._end(child)

    def _end(self, child: Child) -> None:
        """Send `end`, once."""
        if child.over:
            return
        child.over = True
        if child.started:
            child.end["seconds"] = time.monotonic() - child.started
        self._say("end", child.number, child.end)

    def _watch(self, fd: int, child: Child) -> None:
        self._readers[fd] = child
        self._poll.register(fd, select.POLLIN)

    def _unwatch(self, fd: int) -> None:
        self._poll.unregister(fd)
        del self._readers[fd]
        os.close(fd)


def main(control: int, folder: bytes) -> None:
    """Serve until the socket is closed or SIGTERM arrives."""
    while (spare := os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)) < _RESERVED:
        pass
    own = os.dup(control)
    os.close(spare)
    os.dup2(0, control, inheritable=False)  # its number stays taken
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    spawner = Spawner(own, folder)
    try:
        spawner.serve()
    finally:
        spawner.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), os.fsencode(sys.argv[2]))
    os._exit(0)  # nothing to finalise: 2 ms
