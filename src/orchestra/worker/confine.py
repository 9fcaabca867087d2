"""Confine: tier "landlock", the weaker containment for machines where user namespaces are forbidden (MS-1.5).

Used by the spawner between fork and exec, in a `python -I -S` process: it imports nothing of orchestra and only what a
bare interpreter has loaded anyway. What this tier does not hold is in `NOT_HELD`; the user who enables it is informed.

Rules
1. `restrict` confines the calling process and all its descendants for ever, or raises OSError. The caller then execs or
   exits; it never continues unconfined.
2. Capabilities are dropped first (then root is only the owner of root's files), then no_new_privs, then Landlock, then
   the filter of system calls, which could refuse the steps before it.
3. Landlock must be able to restrict signals and abstract sockets (ABI 6, Linux 6.12). An older one is refused.
4. A path to read that does not exist is skipped. A path to write must exist.
5. The command cannot create devices or sockets anywhere, also where it may write.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

ABI_NEEDED = 6

NOT_HELD = (
    "What a command writes is written at once, for real: nothing of it can be thrown away or looked at first.",
    "Where it may write, it may also change .git (hooks, config) and files with a second name outside (hard links).",
    "It can change the mode, owner, times and attributes of any file of your user whose path it knows.",
    "It can find out whether a file exists anywhere, and how large and old it is; it cannot read it.",
    "It sees all processes of the machine with their arguments, the mounts, the host's name and its network addresses.",
    "It can change the priority and processor affinity of your other processes; it cannot signal or read them.",
    "It shares /tmp and /dev/shm with you, but may not use them; its temporary files lie in a folder made for it.",
    "The number of processes is counted together with all others of your user; root is not counted.",
    "There is no network at all, not even for allowed domains or on loopback, and no unix sockets: servers and Python's"
    " multiprocessing do not work.",
)

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_SOCK, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_ALL = (1 << 16) - 1
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = _ALL & ~(_MAKE_CHAR | _MAKE_SOCK | _MAKE_BLOCK | _IOCTL_DEV)
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE  # a rule on a file may name no other rights
_TCP = 1 | 2  # bind, connect
_SCOPED = 1 | 2  # abstract unix sockets, signals

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on all processors
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_SET_SECCOMP, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT = 22, 24, 38, 47
_CAPSET = {"x86_64": 126, "aarch64": 91}

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The version of Landlock that this kernel offers; 0: none, or switched off."""
    version: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    return max(0, version)


def is_enough(version: int) -> bool:
    """Whether a kernel with this version of Landlock can hold a process as this module promises."""
    return version >= ABI_NEEDED


def restrict(reads: list[bytes], writes: list[bytes], seccomp: bytes, online: bool = False) -> None:
    """Confine this process: it reads and executes only below `reads` and `writes`, and writes only below `writes`."""
    if not is_enough(abi()):
        raise OSError(errno.EOPNOTSUPP, f"Landlock {ABI_NEEDED} is needed, this kernel has {abi()}")
    rules = _ruleset(reads, writes, 0 if online else _TCP)
    _drop_capabilities()
    _prctl("no_new_privs", _SET_NO_NEW_PRIVS, 1)
    _check("landlock", _libc.syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)
    code = ctypes.create_string_buffer(seccomp, len(seccomp))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(seccomp) // 8, ctypes.addressof(code)))
    _prctl("seccomp", _SET_SECCOMP, 2, ctypes.addressof(program))


def _ruleset(reads: list[bytes], writes: list[bytes], network: int) -> int:
    attributes = struct.pack("=QQQ", _ALL, network, _SCOPED)
    size = ctypes.c_size_t(len(attributes))
    rules = _check("landlock ruleset", _libc.syscall(_CREATE_RULESET, attributes, size, 0))
    for path in reads:
        try:
            _allow(rules, path, _READ)
        except FileNotFoundError:
            pass  # rule 4
    for path in writes:
        _allow(rules, path, _WRITE)
    return rules


def _allow(rules: int, path: bytes, access: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_mode & 0o170000 != 0o040000:
            access &= _OF_A_FILE
        rule = struct.pack("=Qi", access, fd)
        _check("landlock rule", _libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, rule, 0))
    finally:
        os.close(fd)


def _drop_capabilities() -> None:
    capability = 0
    while _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1  # ends at the first number that does not exist; not being root ends it too: nothing to drop
    _prctl("ambient capabilities", _CAP_AMBIENT, 4)  # clear all
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
    _check("capset", _libc.syscall(_CAPSET[os.uname().machine], header, bytes(24)))


def _prctl(what: str, option: int, *arguments: int) -> None:
    words = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    _check(what, _libc.prctl(option, *words))


def _check(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
