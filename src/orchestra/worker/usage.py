"""Usage: memory, disk and processes of all descendants of one process, read from /proc and from their folders.

Part of the spawner, not of orchestra: loaded by path into its bare interpreter, imports nothing of orchestra.

Rules
1. Only kernel figures count. Nothing that a command can write, rename or link decides where we look: of its tree only
   mount points directly below its root are read, which it cannot move.
2. Memory: resident pages, each shared page once, plus its tmpfs folders and unnamed memory files. The exact
   figure costs more; it is read only if the rough one, which counts shared pages several times, exceeds the limit.
3. Disk: its layer and its tmpfs folders, plus files that were deleted but are still open.
4. What cannot be counted counts as too much: paths longer than the kernel accepts at once; and, if the machine as
   a whole lost that much, folders and processes made unreadable, descriptors on their way through a socket, files that
   are only mapped.

Not counted: what the kernel itself holds for a command, e.g. the buffers of its sockets and pipes.
"""

from __future__ import annotations

import errno
import os
import time

TYPE_CHECKING = False  # `typing` and `collections.abc` cost a bare interpreter more than its start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TICK_S = 0.1  # between two measurements of a command
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TMPFS = ("", "/tmp", "/dev/shm")  # a layer that is discarded is in the root's
_MEMORY = ("/memfd:", "/dev/zero", "/SYSV")
_MEMORY_NAMES = tuple(name.encode() for name in _MEMORY)
_MANY = 4096  # processes that one measurement reads
_MANY_LINES = 200_000  # of mappings
_SLICE_S = 0.02  # time limit for walking folders in one measurement: the spawner watches other commands too


class Meter:
    """Measures one command repeatedly."""

    def __init__(self, root: int, upper: bytes | None, writes: list[bytes], limits: dict[str, int]) -> None:
        self._root = root
        self._limits = limits
        self._upper = upper
        self._layer = _Scan([upper], limits) if upper else None
        self._written = _Scan(writes, limits) if writes else None
        self._before: tuple[int, int] | None = None  # bytes and files in `writes` at the first measurement
        self._devices = {os.stat(path).st_dev for path in writes}
        self._shared = _recently.shared()

    def exceeded(self) -> str | None:
        """The name of the limit that the command exceeds; None if it exceeds none."""
        limits = self._limits
        below = tree(self._root, limits["processes"])
        # Counted as the kernel's own limit does, which does not bind root.
        if len(below) > limits["processes"] or sum(map(_threads, below)) > limits["processes"]:
            return "processes"
        held, files, tmpfs = _tmpfs(self._root)
        memory, disk, open_ = _nameless(
            below, lambda device: device not in tmpfs if self._upper else device in self._devices
        )
        disk += held
        if self._layer:
            self._layer.step()
            if self._layer.hidden:
                return self._layer.hidden
            disk, files = disk + self._layer.size, files + self._layer.files
        if self._written:
            done = self._written.step()
            if self._before is None:
                self._before = (self._written.size, self._written.files) if done else None
            else:
                disk, files = disk + self._written.size - self._before[0], files + self._written.files - self._before[1]
        if files > limits["files"]:
            return "files"
        if disk > limits["disk"]:
            return "disk"
        memory += held
        if memory + sum(map(_resident, below)) > limits["memory"] < memory + sum(map(_share, below)):
            return "memory"
        return self._hidden(below, memory, open_)

    def _hidden(self, below: list[int], memory: int, open_: set[int]) -> str | None:
        """Rule 4: the limit exceeded by hidden use; checked only if the machine lost more than the command may use."""
        limits = self._limits
        shared = _machines_shared() - self._shared > limits["memory"]
        if shared and (_hides(below) or memory + _mapped(below, open_) > limits["memory"]):
            return "memory"
        lost = any(scan.lost()[0] > limits["disk"] for scan in (self._layer, self._written) if scan)
        if lost and (_hides(below) or _mapped(below, open_, memory=False) > limits["disk"]):
            return "disk"
        return None


class _Scan:
    """Counts bytes and files in folders, one time slice per step. The figures are those of the last complete round, or
    of the present round where they are already higher."""

    def __init__(self, folders: list[bytes], limits: dict[str, int]) -> None:
        self._folders = folders
        self._limits = limits
        self._free = _free(folders[0])
        self._round: Iterator[int] | None = None
        self._partial = [0, 0]
        self._closed = False
        self.size = self.files = 0
        self.hidden: str | None = None

    def step(self) -> bool:
        """Continue counting for one time slice; return whether the round is finished."""
        end = time.monotonic() + _SLICE_S
        if self._round is None:
            self._round, self._partial, self._closed = self._entries(), [0, 0], False
        for size in self._round:
            self._partial[0] += size
            self._partial[1] += 1
            if time.monotonic() > end:
                self.size, self.files = max(self.size, self._partial[0]), max(self.files, self._partial[1])
                return False
        self._round = None
        self.size, self.files = self._partial
        if self._closed and self.hidden is None:
            size, files = self.lost()
            self.hidden = "disk" if size > self._limits["disk"] else "files" if files > self._limits["files"] else None
        return True

    def lost(self) -> tuple[int, int]:
        """Bytes and files by which the disk's free space shrank since the start, for any reason."""
        now = _free(self._folders[0])
        return self._free[0] - now[0], self._free[1] - now[1]

    def _entries(self) -> Iterator[int]:
        waiting = list(self._folders)
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        yield _blocks(entry)
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    self.hidden = "files"  # rule 4
                self._closed |= error.errno == errno.EACCES


def tree(root: int, most: int = _MANY) -> list[int]:
    """The descendants of a process, without itself: all, or slightly more than `most` of them.

    Bounded, because a fork bomb grows faster than it can be listed; an unbounded walk would never end.
    """
    found: list[int] = []
    waiting = [root]
    while waiting and len(found) <= most:
        pid = waiting.pop()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                    below = [int(number) for number in file.read().split()]
                found += below
                waiting += below
        except OSError:
            continue  # it ended meanwhile
    return found


def children(pid: int) -> bytes:
    """The pids of the children of a process with one thread, as text; empty if it ended."""
    return _first(f"/proc/{pid}/task/{pid}/children")


def start_time(pid: int) -> str:
    """When a process started, in ticks since boot; empty if there is no such process."""
    try:
        # The name in parentheses may contain anything, also ")": the last ")" ends it.
        return _first(f"/proc/{pid}/stat").rpartition(b")")[2].split()[19].decode()
    except IndexError:
        return ""


def _first(path: str) -> bytes:
    """The start of a file in /proc, read with three system calls (`open` makes seven); empty if the process ended."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _free(path: bytes) -> tuple[int, int]:
    found = os.statvfs(path)
    return found.f_bfree * found.f_frsize, found.f_ffree


def _blocks(entry: os.DirEntry[bytes]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except OSError:
        return 0  # the process ended meanwhile


def _tmpfs(root: int) -> tuple[int, int, set[int]]:
    """Bytes and files in the command's own tmpfs folders, and the devices of these.

    All zero while the command still has our root.
    """
    size = files = 0
    seen: set[int] = set()
    try:
        ours, theirs = os.stat("/"), os.stat(f"/proc/{root}/root")
        if (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino):
            return 0, 0, seen
        for folder in _TMPFS:
            path = f"/proc/{root}/root{folder}"
            device = os.stat(path).st_dev
            if device not in seen:
                seen.add(device)
                found = os.statvfs(path)
                size += (found.f_blocks - found.f_bfree) * found.f_frsize
                files += found.f_files - found.f_ffree
    except OSError:
        pass  # the command ended, or is not set up yet
    return size, files, seen


def _nameless(pids: list[int], counts: Callable[[int], bool]) -> tuple[int, int, set[int]]:
    """Bytes of memory files, bytes of deleted open files on a device that counts, and the inodes of both."""
    memory = disk = 0
    seen = set()
    for pid in pids:
        try:
            numbers = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for number in numbers:
            path = f"/proc/{pid}/fd/{number}"
            try:
                name = os.readlink(path)
                if not name.endswith(" (deleted)"):
                    continue
                found = os.stat(path)
            except OSError:
                continue
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                if name.startswith(_MEMORY):
                    memory += found.st_blocks * 512
                elif counts(found.st_dev):
                    disk += found.st_blocks * 512
    return memory, disk, {inode for _, inode in seen}


def _machines_shared() -> int:
    """Bytes of all memory files, shared mappings and tmpfs of the machine."""
    with open("/proc/meminfo", "rb") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith(b"Shmem:")), 0)


class _Recently:
    """The machine's figure, at most one tick old: many commands begin within a tick, and reading it costs more than
    everything else that is recorded when one begins."""

    def __init__(self) -> None:
        self._until = 0.0
        self._shared = 0

    def shared(self) -> int:
        now = time.monotonic()
        if now >= self._until:
            self._until, self._shared = now + TICK_S, _machines_shared()
        return self._shared


_recently = _Recently()


def _hides(pids: list[int]) -> bool:
    """Whether a process makes its descriptors unreadable to us, or has descriptors in transit through a socket."""
    for pid in pids:
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{number}").startswith("socket:"):
                    with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:
                        if any(line.startswith(b"scm_fds:") and int(line.split()[1]) for line in file):
                            return True
        except PermissionError:
            return True
        except OSError:
            continue  # it ended meanwhile
    return False


def _mapped(pids: list[int], open_: set[int], *, memory: bool = True) -> int:
    """Bytes of memory files, or of deleted files on disk, that are mapped but not open, by the size of the mappings."""
    reach: dict[int, int] = {}
    lines = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/maps", "rb") as file:
                for line in file:
                    lines += 1
                    if lines > _MANY_LINES:
                        return 1 << 62  # too many mappings to count: treated as over the limit
                    if line.endswith(b" (deleted)\n"):
                        where, _, offset, _, inode, name = line.split(maxsplit=5)
                        if name.startswith(_MEMORY_NAMES) == memory and int(inode) not in open_:
                            low, high = (int(number, 16) for number in where.split(b"-"))
                            reach[int(inode)] = max(reach.get(int(inode), 0), int(offset, 16) + high - low)
        except OSError:
            continue  # it ended meanwhile
    return sum(reach.values())


def _threads(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2
    except OSError:
        return 0


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _share(pid: int) -> int:
    """A process's own pages and its share of shared pages; files mapped from disk are not counted."""
    size = 0
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith((b"Pss_Anon:", b"Pss_Shmem:")):
                    size += int(line.split()[1]) * 1024
    except OSError:
        return _resident(pid)
    return size
