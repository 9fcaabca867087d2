"""Attempts: the program that probe.py runs inside a sandbox. It tries what must fail, and some things that must work.

Run as `python -I -S -c <this text> FACTS`: it imports nothing of orchestra and only fast modules.

Rules
1. It aims only at canaries, which the probe made and names in FACTS (JSON). Nothing here harms when it succeeds.
2. An attempt that raises OSError was refused; one that returns succeeded. A missing target raises OSError too.
3. It prints one JSON object: the attempt's name, and "refused: …" or "done" or "done: …". It judges nothing.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

_NEW_USER = 0x10000000
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_IO_URING_SETUP = 425
_AF_VSOCK, _AF_PACKET = 40, 17


class Attempts:
    """Each public method is an attempt; its name, with blanks, is the name of the finding."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self._libc = ctypes.CDLL(None, use_errno=True)

    def all(self) -> dict[str, str]:
        """Run all attempts, one after the other; name -> outcome."""
        return {name: _outcome(getattr(self, name.replace(" ", "_"))) for name in names()}

    # -- files

    def read_outside(self) -> None:
        with open(self._facts["canary"], "rb") as file:
            file.read()

    def write_outside(self) -> None:
        with open(self._facts["canary"], "ab") as file:
            file.write(b"x")

    def create_outside(self) -> None:
        with open(self._facts["canary"] + ".new", "xb"):
            pass

    def see_the_home_folder(self) -> None:
        os.lstat(self._facts["home"] or "/nowhere")

    def read_password_hashes(self) -> None:
        with open("/etc/shadow", "rb") as file:
            file.read()

    def write_kernel_settings(self) -> None:
        os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))

    # -- sockets

    def connect_by_tcp(self) -> None:
        self._connect(socket.AF_INET, ("127.0.0.1", self._facts["port"]))

    def connect_to_an_abstract_socket(self) -> None:
        self._connect(socket.AF_UNIX, "\0" + self._facts["abstract"])

    def connect_to_a_socket_outside(self) -> None:
        self._connect(socket.AF_UNIX, self._facts["socket"])

    def connect_to_a_socket_in_the_workspace(self) -> None:
        self._connect(socket.AF_UNIX, self._facts["socket inside"])

    def open_a_vsock_socket(self) -> None:
        socket.socket(_AF_VSOCK, socket.SOCK_STREAM).close()

    def open_a_packet_socket(self) -> None:
        socket.socket(_AF_PACKET, socket.SOCK_RAW).close()

    def see_network_interfaces(self) -> str:
        return _some({name for _, name in socket.if_nameindex()} - {"lo"})

    # -- processes

    def see_a_process_outside(self) -> None:
        if start_time(self._facts["pid"]) != self._facts["start"]:
            raise ProcessLookupError(errno.ESRCH, "another process")

    def signal_a_process_outside(self) -> None:
        self.see_a_process_outside()  # inside, the same pid may be a process of the sandbox
        os.kill(self._facts["pid"], 0)

    def read_an_environment_outside(self) -> str:
        names: set[str] = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    names |= {os.fsdecode(pair.partition(b"=")[0]) for pair in file.read().split(b"\0") if pair}
            except OSError:
                continue
        return _some(names - set(self._facts["names"]))

    def find_shared_memory_outside(self) -> None:
        self._check(self._libc.shmget(self._facts["shared memory"], 0, 0))

    def inherit_descriptors(self) -> str:
        fds = [int(name) for name in os.listdir("/proc/self/fd")]
        return _some({f"{fd} {os.readlink(f'/proc/self/fd/{fd}')}" for fd in fds if fd > 2 and _is_open(fd)})

    # -- the kernel

    def make_a_user_namespace(self) -> None:
        self._check(self._libc.unshare(_NEW_USER))

    def trace(self) -> None:
        self._check(self._libc.ptrace(0, 0, None, None))  # PTRACE_TRACEME

    def use_the_keyring(self) -> None:
        self._check(self._libc.syscall(_KEYCTL[os.uname().machine], 0, -5, 0))  # the id of the user's session keyring

    def use_io_uring(self) -> None:
        os.close(self._check(self._libc.syscall(_IO_URING_SETUP, 1, ctypes.create_string_buffer(120))))

    def have_capabilities(self) -> str:
        status = _status()
        return _some({f"{name} {status[name]}" for name in ("CapEff", "CapPrm", "CapAmb") if int(status[name], 16)})

    def gain_privileges_by_exec(self) -> None:
        if _status()["NoNewPrivs"] == "1":
            raise PermissionError(errno.EPERM, "no_new_privs")

    def dump_core(self) -> None:
        if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
            raise PermissionError(errno.EPERM, "RLIMIT_CORE is 0")

    def start_any_number_of_processes(self) -> None:
        if resource.getrlimit(resource.RLIMIT_NPROC)[1] != resource.RLIM_INFINITY:
            raise PermissionError(errno.EPERM, "RLIMIT_NPROC is set")

    # -- what must work

    def read_the_workspace(self) -> None:
        with open("hello", encoding="utf-8") as file:
            if file.read() != self._facts["hello"]:
                raise OSError(errno.EIO, "another text")

    def write_the_workspace(self) -> None:
        with open("written", "x+", encoding="utf-8") as file:
            file.write("x")

    def write_temporary_files(self) -> None:
        path = os.path.join(os.environ["TMPDIR"], "probe")
        with open(path, "x", encoding="utf-8") as file:
            file.write("x")
        os.remove(path)

    def start_a_program(self) -> None:
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], {})
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 7:
            raise ChildProcessError(errno.ECHILD, "another exit code")

    def start_a_thread(self) -> None:
        thread = threading.Thread(target=int)
        try:
            thread.start()
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, str(error)) from None
        thread.join()

    def use_devices(self) -> None:
        with open("/dev/null", "wb") as null, open("/dev/urandom", "rb") as random:
            null.write(random.read(8))

    def talk_over_a_socket_pair(self) -> None:
        one, other = socket.socketpair()
        with one, other:
            one.send(b"x")
            other.recv(1)

    # --

    def _connect(self, family: int, address: object) -> None:
        with socket.socket(family, socket.SOCK_STREAM) as client:
            client.settimeout(1.0)
            client.connect(address)  # type: ignore[arg-type]  # either family's kind of address

    def _check(self, result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result


def names() -> list[str]:
    """The names of all attempts."""
    return [name.replace("_", " ") for name in Attempts.__dict__ if not name.startswith("_") and name != "all"]


def start_time(pid: int) -> int:
    """When a process began, in ticks since the boot: pid and start time name one process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def _outcome(attempt: Callable[[], str | None]) -> str:
    try:
        said = attempt()
    except OSError as error:
        return f"refused: {errno.errorcode.get(error.errno or 0, str(error))}"
    return f"done: {said}" if said else "done"


def _some(found: set[str]) -> str:
    if not found:
        raise FileNotFoundError(errno.ENOENT, "none")
    return ", ".join(sorted(found))[:200]


def _status() -> dict[str, str]:
    with open("/proc/self/status", encoding="utf-8") as file:
        pairs = (line.partition(":") for line in file)
        return {name: value.strip() for name, _, value in pairs}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False  # the descriptor of the listing itself
    return True


if __name__ == "__main__":
    print(json.dumps(Attempts(json.loads(sys.argv[1])).all()))  # noqa: T201  # it is what it is for
