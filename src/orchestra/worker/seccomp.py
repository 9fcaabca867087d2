"""Seccomp: which system calls a command may make, as a classic BPF program for bwrap's `--seccomp` or seccomp(2). Pure.

Rules
1. The architecture comes first: a call through another entry (32-bit `int 0x80`) kills the process, the x32 numbers do
   not exist (MS-3.11).
2. A call newer than this table does not exist (ENOSYS): a call that was not reviewed is not allowed by accident.
3. `clone3` does not exist: its flags lie in memory, where a filter cannot look; libc then uses `clone`. The same for
   `openat2`. The kernel's own error is used where programs have a fallback (EAFNOSUPPORT, EPROTONOSUPPORT), EPERM
   everywhere else.
4. Socket families are allowed by list: a network namespace does not hold AF_VSOCK (MS-3.3), and most families are only
   attack surface. AF_UNIX stays: Python's forkserver needs it (MS-3.8).
5. `network=False` is for tier "landlock", which has no network namespace: no socket at all but connected
   stream pairs (a datagram pair can still be sent to any address), no System V or POSIX queues, no other process's
   limits, no pidfds.
6. Only whole words of arguments are compared, never what they point to (it may change after the check).
7. No memory that the watchdog cannot count: System V segments and semaphores are allowed (PostgreSQL needs one), but
   small; message queues are not; a process cannot make its figures in /proc unreadable to the watchdog (usage.py).

The command inherits the filter and cannot drop it; it may add filters of its own.
"""

from __future__ import annotations

import errno
import os
import struct
from functools import lru_cache
from typing import Final, NamedTuple

# name, number on x86_64, number on aarch64; "-": there is none.
_REFUSED: Final = """
  # into other processes
  ptrace 101 117            process_vm_readv 310 270  process_vm_writev 311 271  kcmp 312 272
  pidfd_getfd 438 438
  # the tree of mounts, other namespaces
  setns 308 268             chroot 161 51             pivot_root 155 41         mount 165 40
  umount2 166 39            open_tree 428 428         move_mount 429 429        fsopen 430 430
  fsconfig 431 431          fsmount 432 432           fspick 433 433            mount_setattr 442 442
  open_tree_attr 467 467    name_to_handle_at 303 264 open_by_handle_at 304 265
  # the kernel's keyring, which no namespace divides
  keyctl 250 219            add_key 248 217           request_key 249 218
  # memory of the kernel's own, up to gigabytes
  msgget 68 186
  # large, often broken parts of the kernel that a build or a test does not need
  bpf 321 280               perf_event_open 298 241   userfaultfd 323 282       io_uring_setup 425 425
  io_uring_enter 426 426    io_uring_register 427 427 memfd_secret 447 447      modify_ldt 154 -
  fanotify_init 300 262     fanotify_mark 301 263     lookup_dcookie 212 18     uselib 134 -
  # the machine
  kexec_load 246 104        kexec_file_load 320 294   init_module 175 105       finit_module 313 273
  delete_module 176 106     create_module 174 -       query_module 178 -        get_kernel_syms 177 -
  reboot 169 142            swapon 167 224            swapoff 168 225           settimeofday 164 170
  clock_settime 227 112     adjtimex 159 171          clock_adjtime 305 266     quotactl 179 60
  quotactl_fd 443 443       acct 163 89               syslog 103 116            sethostname 170 161
  setdomainname 171 162     vhangup 153 58            nfsservctl 180 42         iopl 172 -
  ioperm 173 -              _sysctl 156 -             sysfs 139 -
"""
_MISSING: Final = "clone3 435 435  openat2 437 437  statmount 457 457  listmount 458 458"  # rule 3
_REFUSED_WITHOUT_NAMESPACES: Final = """
  shmat 30 196              shmctl 31 195
  semop 65 193              semtimedop 220 192        semctl 66 191             msgsnd 69 189
  msgrcv 70 188             msgctl 71 187             mq_open 240 180           mq_unlink 241 181
  pidfd_open 434 434        connect 42 203            bind 49 200
"""
_LOOKED_AT: Final = """
  clone 56 220              unshare 272 97            socket 41 198             socketpair 53 199
  ioctl 16 29               personality 135 92        open 2 -                  openat 257 56
  creat 85 -                chmod 90 -                fchmod 91 52              fchmodat 268 53
  fchmodat2 452 452         mknod 133 -               mknodat 259 33            prlimit64 302 261
  setpriority 141 140       fcntl 72 25               prctl 157 167             shmget 29 194
  semget 64 190
"""
NEWEST: Final = 469  # file_setattr, Linux 6.17: the last call that was reviewed for this table (rule 2)

_ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH_*

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000  # the process, not the thread
_ERRNO: Final = 0x00050000
_WORD: Final = 0xFFFFFFFF

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; and for unshare NEWTIME, which in clone is a signal.
_NEW_NAMESPACE: Final = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_NEW_TIME: Final = 0x80
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DGRAM, _SEQPACKET = 1, 2, 5
_TCP, _UDP = 6, 17
_TYPE: Final = 0xF  # of a socket; the rest are flags
_IOCTLS: Final = (0x5412, 0x541C, 0x541D, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD
_PERSONALITIES: Final = (0, 0x8, 0x20000, 0x20008, _WORD)  # Linux, 32-bit, old version number, a query
_SET_ID: Final = 0o6000  # set-uid and set-gid; for folders too, because a filter cannot see what a path is
_LEASES: Final = (1024, 1040)  # F_SETLEASE, F_SETDELEG: the next program to open the host's file would have to wait
_SET_DUMPABLE: Final = 4
_LARGE_SEGMENT, _LARGE_SET = 0xFFFFC000, 0xFFFFFFE0  # bits of sizes from 16 KiB on, of numbers from 32 on
_CREATES: Final = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE's own bit: only then is there a mode
_FORMAT, _CHARACTER, _BLOCK = 0o170000, 0o020000, 0o060000


class Is(NamedTuple):
    """The argument, masked, is one of the values."""

    argument: int
    values: tuple[int, ...]
    mask: int = _WORD


class Has(NamedTuple):
    """The argument has at least one of the bits, in its low word or in its high one."""

    argument: int
    bits: int
    high: bool = False


class Clause(NamedTuple):
    """If all tests hold, `action` is taken."""

    tests: tuple[Is | Has, ...]
    action: int


def program(*, network: bool = True, machine: str | None = None) -> bytes:
    """The filter for this machine's processor, or the one named.

    Raises ValueError for a processor whose calls are not in the table: the sandbox is not available there.
    """
    return _program(network, machine or os.uname().machine)


def numbers(machine: str) -> dict[str, int]:
    """The number of every call that is named here and exists on the machine."""
    column, _ = _architecture(machine)
    found = {}
    for text in (_REFUSED, _MISSING, _REFUSED_WITHOUT_NAMESPACES, _LOOKED_AT):
        found.update(_numbers(text, column))
    return found


@lru_cache(maxsize=4)
def _program(network: bool, machine: str) -> bytes:
    column, architecture = _architecture(machine)
    looked_at = _numbers(_LOOKED_AT, column)
    refused = _numbers(_REFUSED + ("" if network else _REFUSED_WITHOUT_NAMESPACES), column)
    calls = {looked_at[name]: _body(clauses) for name, clauses in _clauses(network).items() if name in looked_at}
    no, missing = [_return(_ERRNO | errno.EPERM)], [_return(_ERRNO | errno.ENOSYS)]
    calls |= dict.fromkeys(refused.values(), no) | dict.fromkeys(_numbers(_MISSING, column).values(), missing)
    head = [_load(4), _jump(0x15, architecture, 1, 0), _return(_KILL), _load(0)]  # seccomp_data.arch, .nr
    return b"".join([*head, *_search(_ranges(calls))])


def _clauses(network: bool) -> dict[str, tuple[Clause, ...]]:
    """Calls that depend on their arguments: the first clause that holds decides; if none does, the call is allowed."""
    return _always() | (_online() if network else _offline())


def _always() -> dict[str, tuple[Clause, ...]]:
    no = _ERRNO | errno.EPERM
    set_id = {  # with a set-uid or set-gid file of ours, others could act as us
        "openat": (Clause((Has(2, _CREATES), Has(3, _SET_ID)), no),),
        "open": (Clause((Has(1, _CREATES), Has(2, _SET_ID)), no),),
        "creat": (Clause((Has(1, _SET_ID),), no),),
        "chmod": (Clause((Has(1, _SET_ID),), no),),
        "fchmod": (Clause((Has(1, _SET_ID),), no),),
        "fchmodat": (Clause((Has(2, _SET_ID),), no),),
        "fchmodat2": (Clause((Has(2, _SET_ID),), no),),
        "mknod": (Clause((Has(1, _SET_ID),), no), Clause((Is(1, (_CHARACTER, _BLOCK), _FORMAT),), no)),
        "mknodat": (Clause((Has(2, _SET_ID),), no), Clause((Is(2, (_CHARACTER, _BLOCK), _FORMAT),), no)),
    }
    return {
        **set_id,
        "ioctl": (Clause((Is(1, _IOCTLS),), no),),
        "clone": (Clause((Has(0, _NEW_NAMESPACE),), no),),
        "unshare": (Clause((Has(0, _NEW_NAMESPACE | _NEW_TIME),), no),),
        "personality": (Clause((Is(0, _PERSONALITIES),), _ALLOW), Clause((), no)),
        "fcntl": (Clause((Is(1, _LEASES),), no),),
        "prctl": (Clause((Is(0, (_SET_DUMPABLE,)), Is(1, (0,))), no),),
    }


def _offline() -> dict[str, tuple[Clause, ...]]:
    no, no_family = _ERRNO | errno.EPERM, Clause((), _ERRNO | errno.EAFNOSUPPORT)
    pair = Clause((Is(0, (_UNIX,)), Is(1, (_STREAM, _SEQPACKET), _TYPE)), _ALLOW)
    own = Clause((Is(0, (0,)),), _ALLOW)
    return {
        "shmget": (Clause((), no),),
        "semget": (Clause((), no),),
        "socket": (no_family,),
        "socketpair": (pair, no_family),
        "prlimit64": (own, Clause((), no)),
        "setpriority": (Clause((Is(0, (0,)), Is(1, (0,))), _ALLOW), Clause((), no)),
    }


def _online() -> dict[str, tuple[Clause, ...]]:
    no_family = Clause((), _ERRNO | errno.EAFNOSUPPORT)
    internet = Is(0, (_INET, _INET6))
    ordinary = (Is(1, (_STREAM, _DGRAM), _TYPE), Is(2, (0, _TCP, _UDP)))
    too_large = _ERRNO | errno.EINVAL  # the kernel's own error for that
    return {
        "shmget": (Clause((Has(1, _LARGE_SEGMENT),), too_large), Clause((Has(1, _WORD, high=True),), too_large)),
        "semget": (Clause((Has(1, _LARGE_SET),), too_large),),
        "socket": (
            Clause((Is(0, (_UNIX,)),), _ALLOW),
            Clause((internet, *ordinary), _ALLOW),
            Clause((internet,), _ERRNO | errno.EPROTONOSUPPORT),  # MPTCP, SCTP, raw: programs fall back to TCP
            Clause((Is(0, (_NETLINK,)), Is(2, (0,))), _ALLOW),  # NETLINK_ROUTE: libc asks it for addresses
            no_family,
        ),
        "socketpair": (Clause((Is(0, (_UNIX,)),), _ALLOW), no_family),
    }


# -- the assembler: struct sock_filter is code, jump if true, jump if false, k -----------------------------------------


def _instruction(code: int, k: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, k)


def _load(offset: int) -> bytes:
    return _instruction(0x20, offset)  # LD W ABS: a word of struct seccomp_data


def _jump(code: int, k: int, if_true: int, if_false: int) -> bytes:
    return _instruction(code, k, if_true, if_false)  # 0x15 ==, 0x25 >, 0x35 >=, 0x45 &


def _return(action: int) -> bytes:
    return _instruction(0x06, action)


def _ranges(calls: dict[int, list[bytes]]) -> list[tuple[int, list[bytes]]]:
    """All call numbers in order, as (first number of a range, instructions for the range)."""
    allow, unknown = [_return(_ALLOW)], [_return(_ERRNO | errno.ENOSYS)]
    found = [(0, calls.get(0, allow))]
    for number in range(1, NEWEST + 1):
        code = calls.get(number, allow)
        if code is not found[-1][1]:
            found.append((number, code))
    return [*found, (NEWEST + 1, unknown)]  # rule 2; and the x32 numbers, which begin far above (rule 1)


def _search(ranges: list[tuple[int, list[bytes]]]) -> list[bytes]:
    """Find the accumulator's range by binary search: the kernel runs a new filter once for every existing call.

    Every path through the code returns, so overwriting the accumulator affects only the present call.
    """
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    low, high = _search(ranges[:middle]), _search(ranges[middle:])
    if len(low) < 256:
        return [_jump(0x35, ranges[middle][0], len(low), 0), *low, *high]
    return [_jump(0x35, ranges[middle][0], 0, 1), _instruction(0x05, len(low)), *low, *high]  # a far jump


def _body(clauses: tuple[Clause, ...]) -> list[bytes]:
    return [*(part for clause in clauses for part in _clause(clause)), _return(_ALLOW)]


def _clause(clause: Clause) -> list[bytes]:
    code: list[bytes] = [_return(clause.action)]
    for test in reversed(clause.tests):
        code = [*_test(test, len(code)), *code]
    return code


def _test(test: Is | Has, rest: int) -> list[bytes]:
    """Fall through if the test holds, else jump over the rest of the clause."""
    load = [_load(16 + 8 * test.argument)]  # seccomp_data.args, the low word: the kernel reads no more of most
    if isinstance(test, Has):
        return [_load(20 + 8 * test.argument) if test.high else load[0], _jump(0x45, test.bits, 0, rest)]
    if test.mask != _WORD:
        load.append(_instruction(0x54, test.mask))  # AND
    last = len(test.values) - 1
    return load + [_jump(0x15, v, last - i, rest if i == last else 0) for i, v in enumerate(test.values)]


def _architecture(machine: str) -> tuple[int, int]:
    try:
        return _ARCHITECTURES[machine]
    except KeyError:
        known = " and ".join(_ARCHITECTURES)
        raise ValueError(f"no system call filter for {machine!r} processors (only {known})") from None


def _numbers(text: str, column: int) -> dict[str, int]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    words = " ".join(lines).split()
    rows = zip(words[0::3], words[1::3], words[2::3], strict=True)
    return {name: int(pair[column]) for name, *pair in rows if pair[column] != "-"}
