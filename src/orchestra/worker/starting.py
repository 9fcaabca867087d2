"""What the spawner is sent to start a command, and why a command cannot be started at all.

A containment that is not available is a refusal here; nothing falls back to a weaker one (U-23).
"""

from __future__ import annotations

import marshal
import os
import resource
import sys
import tempfile

from orchestra.worker import host, seccomp
from orchestra.worker.host import Prepared
from orchestra.worker.pipeline import needs_shell, stages_of, started_argv
from orchestra.worker.task import MOST_PORTS, Command, CommandResult, Limits, Sandbox
from orchestra.worker.wrap import HOME, refusal, wrap


def problem(command: Command, sandbox: Sandbox, *, proxied: bool) -> CommandResult | None:
    """The result for a command that cannot be started here at all; None if it can."""
    programs = [stage.argv for stage in stages_of(command)]
    words = [word for argv in programs for word in argv]
    strings = "".join((*words, command.cwd, *command.env, *command.env.values()))
    if not all(argv and argv[0] for argv in programs):
        return CommandResult(error="cannot start: the command is empty")
    if "\0" in strings or "" in command.env or "=" in "".join(command.env):
        problem = "cannot start: an argument or variable holds a NUL character, or a variable's name is not one"
        return CommandResult(error=problem)
    for argv in programs:
        if not os.path.isabs(argv[0]):
            return CommandResult(error=f"cannot start: {argv[0]!r} is not an absolute path")
    if not os.path.isdir(command.cwd if sandbox.tier != "strict" else sandbox.workspace):
        return CommandResult(error=f"cannot start: the working folder {command.cwd!r} does not exist")
    refused = _refusal(sandbox, proxied=proxied)
    return CommandResult(error=refused, refused=True) if refused else None


def _refusal(sandbox: Sandbox, *, proxied: bool) -> str | None:
    """Which part of the containment is not available; None if all of it is."""
    if sys.platform != "linux":
        return "commands run only on Linux: there is no sandbox for this system yet"
    if sandbox.domains and (sandbox.tier != "strict" or not proxied):
        return f"the sandbox cannot be set up: tier {sandbox.tier} without our proxy has no way to reach domains"
    if sandbox.loopback and sandbox.tier == "landlock":
        return "the sandbox cannot be set up: tier landlock has no way to reach ports of this machine"
    if len(sandbox.loopback) > MOST_PORTS:
        return f"the sandbox cannot be set up: at most {MOST_PORTS} ports of this machine can be reached"
    if sandbox.run_as is not None and os.geteuid() not in (0, sandbox.run_as):
        return f"the sandbox cannot be set up: only root can run commands as user {sandbox.run_as}"
    if sandbox.tier == "strict":
        return host.NO_BWRAP if host.find_bwrap() is None else refusal(sandbox)
    return None


def make_scratch(sandbox: Sandbox, prepared: Prepared) -> str:
    """A folder for the temporary files of tier landlock, which has no private /tmp."""
    path = tempfile.mkdtemp(dir=prepared.folder)
    os.chown(path, *host.user(sandbox))
    return path


def start_request(command: Command, sandbox: Sandbox, prepared: Prepared, scratch: str) -> tuple[int, int]:
    """A descriptor with the request for spawner.py, and the request's length.

    bwrap's options follow the request; the descriptor's position is at their start.
    """
    uid, gid = host.user(sandbox)
    if sandbox.upper:
        _make_upper(sandbox, uid, gid)
    body: dict[str, object] = {
        "tier": sandbox.tier,
        "argv": [os.fsencode(part) for part in started_argv(command)],
        "codes": needs_shell(command),
        "uid": uid if uid != os.geteuid() else None,
        "gid": gid,
        "rlimits": _rlimits(sandbox.limits),
        "limits": _watched(sandbox.limits),
        "timeout": command.timeout_ms / 1000,
        "grace": command.grace_ms / 1000,
        "upper": os.fsencode(f"{sandbox.upper}/up") if sandbox.upper else None,
        "writes": [os.fsencode(source) for source, _ in sandbox.writes],
    }
    options = b""
    if sandbox.tier == "strict":
        bwrap = host.find_bwrap()
        assert bwrap is not None  # `problem` checked that
        body["program"] = os.fsencode(bwrap.path)
        body["seccomp"] = seccomp.program()
        options = b"\0".join((*wrap(command, sandbox, host.facts(sandbox, prepared)), b""))
    else:
        body |= _without_bwrap(command, sandbox, scratch)
    request = marshal.dumps(body)
    return _memory(request, options), len(request)


def _without_bwrap(command: Command, sandbox: Sandbox, scratch: str) -> dict[str, object]:
    """The part of the request by which the spawner starts a command itself: tiers landlock and none."""
    body: dict[str, object] = {}
    env = command.env
    if sandbox.tier == "landlock":
        code = seccomp.program(network=sandbox.online)
        body["confine"] = (*host.confinement(sandbox, scratch), code, sandbox.online)
        home = {"HOME": scratch} if env.get("HOME") == HOME else {}
        env = env | home | {"TMPDIR": scratch}
    body["cwd"] = os.fsencode(command.cwd)
    body["env"] = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
    return body


def _make_upper(sandbox: Sandbox, uid: int, gid: int) -> None:
    """Make the folders of the layer. The command sees the layer's mode as the mode of the workspace."""
    for name in ("up", "work"):
        path = f"{sandbox.upper}/{name}"
        if not os.path.isdir(path):
            os.makedirs(path, 0o755)
            os.chmod(path, os.stat(sandbox.workspace).st_mode & 0o777 | 0o700)
            os.chown(path, uid, gid)


def _rlimits(limits: Limits) -> list[tuple[int, int]]:
    """The limits of one process. Not RLIMIT_AS: node, Go, GHC reserve terabytes of addresses that they never touch."""
    return [
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CORE, 0),
        # For a bomb that is faster than the watchdog; far above its limit, so that the watchdog normally acts first.
        (resource.RLIMIT_DATA, 4 * limits.memory_bytes),
    ]


def _watched(limits: Limits) -> dict[str, int]:
    """The limits that the spawner's watchdog enforces on all processes of the command together."""
    return {
        "memory": limits.memory_bytes,
        "processes": limits.processes,
        "disk": limits.disk_bytes,
        "files": limits.files,
    }


def _memory(first: bytes, second: bytes) -> int:
    """A descriptor in memory with both parts; its position is at the second."""
    fd = os.memfd_create("orchestra", os.MFD_CLOEXEC)
    data, written = first + second, 0
    while written < len(data):
        written += os.pwrite(fd, data[written:], written)
    os.lseek(fd, len(first), os.SEEK_SET)
    return fd
