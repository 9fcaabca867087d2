"""Wrap: a command and a containment -> the options for bubblewrap. Pure.

decide (policy) → **wrap** (here) → run (launcher). Tier "strict" only: the others need no options.

Rules
1. Only these parts of the host are visible: the platform's own folders for reading, a prepared /etc, the
   workspace, and the paths that the sandbox names. Their parent folders exist and are otherwise empty.
2. The workspace is an overlay at its own path: what the command writes lands in a layer, never in the workspace.
3. Folders to read are overlays too: a read-only bind would leave a unix socket in them connectable, an overlay does not
   (MS-2.1). /usr is a plain bind: no socket of a user's lies there, and it is on the path of every start.
4. A mount is made after the mounts of its parent folders, of whatever kind: the order is the order of the paths.
5. The options go through a descriptor and the environment through options: bwrap's own argument list and environment,
   which the command can read in /proc/1, are empty (MS-3.1). bwrap adds PWD, the working folder, on its own.
"""

from __future__ import annotations

import msgspec

from orchestra.worker.task import Command, Sandbox

ARGS, SECCOMP, STATUS, BLOCK = 3, 4, 5, 6  # the descriptors bwrap is given (spawner.py)
HOME = "/tmp/home"  # exists inside; the caller sets the variable
_FIXED = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"),
    *("--disable-userns", "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--hostname", "sandbox"),
    *("--seccomp", str(SECCOMP), "--json-status-fd", str(STATUS), "--block-fd", str(BLOCK)),
)
_OURS = ("/proc", "/dev", "/etc", "/sys")  # made by us or absent: no host path below them is shown


class WrapFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of the host that `wrap` needs; host.py collects them."""

    platform: tuple[str, ...]  # /usr, and /bin, /lib … where they are folders of their own
    links: tuple[tuple[str, str], ...]  # (target, path) where they are links into /usr
    etc: str  # the prepared /etc
    empty: str  # an empty folder
    blank: str  # an empty file
    base: str | None = None  # has the mount points for `reads` in a workspace that is not visible but kept
    files: frozenset[str] = frozenset()  # those paths of the sandbox that are files
    absent: frozenset[str] = frozenset()  # those paths that cannot be shown: missing, a link, a socket
    aliases: tuple[tuple[str, str], ...] = ()  # (target, path) of links among `reads`: a tool finds itself by it
    mask: tuple[str, ...] = ()  # below /proc: system settings; more if the command is root to the kernel (MS-3.2)
    blanks: tuple[str, ...] = ()  # below /proc: files that only root may read; the command sees them empty
    names: tuple[tuple[str, str], ...] = ()  # (file, path in /etc) of the host's name resolution


def refusal(sandbox: Sandbox) -> str | None:
    """Why this sandbox cannot be made; None if it can."""
    for path in (sandbox.workspace, *sandbox.reads, *(where for _, where in sandbox.writes)):
        if path == "/" or any(within(path, ours) for ours in _OURS):
            return f"{path!r} cannot be shown in a sandbox: it has a {path} of its own"
    return None


def wrap(command: Command, sandbox: Sandbox, facts: WrapFacts) -> list[bytes]:
    """The options of bwrap, in order; the command itself comes after them on its argument list."""
    mounts = _system(sandbox, facts)
    mounts[sandbox.workspace] = _workspace(sandbox, facts)
    late: list[str] = []
    for path in sandbox.reads:
        if path not in facts.absent and path not in mounts and not _shown(path, sandbox, facts):
            mounts[path] = _read(path, facts)
    for target, path in facts.aliases:  # inside, the link leads to the sandbox's file, not the host's
        if not _shown(path, sandbox, facts) and not any(within(path, read) and path != read for read in sandbox.reads):
            mounts[path] = ["--symlink", target, path]
    for path in sandbox.hides:
        if path in facts.absent:
            continue
        if path in facts.files:
            mounts[path] = ["--ro-bind", facts.blank, path]
        else:
            mounts[path] = ["--tmpfs", path]
            late += ["--remount-ro", path]
    for source, where in sandbox.writes:
        mounts[where] = ["--bind", source, where]
    options = [*_FIXED] if sandbox.online else [*_FIXED, "--unshare-net"]
    for path in sorted(mounts, key=lambda path: path.split("/")):
        options += mounts[path]
    options += ["--dir", HOME, *late, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", command.cwd]
    for name, value in command.env.items():
        options += ["--setenv", name, value]
    return "\0".join(options).encode("utf-8", "surrogateescape").split(b"\0")  # no option holds a NUL


def within(path: str, folder: str) -> bool:
    """Whether the path is the folder or is inside it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _system(sandbox: Sandbox, facts: WrapFacts) -> dict[str, list[str]]:
    size = ["--size", str(sandbox.limits.tmp_bytes), "--tmpfs"]
    mounts = {path: ["--ro-bind", path, path] for path in facts.platform}
    mounts |= {path: ["--symlink", target, path] for target, path in facts.links}
    mounts["/etc"] = ["--ro-bind", facts.etc, "/etc"]
    for source, where in facts.names if sandbox.online else ():
        mounts["/etc"] += ["--ro-bind", source, where]
    mounts["/proc"] = ["--proc", "/proc"]
    for path in facts.mask:
        mounts["/proc"] += ["--ro-bind", path, path]
    for path in facts.blanks:
        mounts["/proc"] += ["--ro-bind", facts.blank, path]
    mounts["/dev"] = ["--dev", "/dev"]
    mounts["/run"] = ["--dir", "/run"]  # empty, and read-only in the end: no socket of a host daemon is there
    for path in ("/dev/shm", "/tmp"):
        mounts[path] = ["--perms", "1777", *size, path]
    return mounts


def _workspace(sandbox: Sandbox, facts: WrapFacts) -> list[str]:
    path, upper = sandbox.workspace, sandbox.upper
    if not sandbox.visible and upper is None:
        return ["--size", str(sandbox.limits.tmp_bytes), "--tmpfs", path]
    lowest = path if sandbox.visible else facts.base or facts.empty
    options = [part for layer in (lowest, *sandbox.layers) for part in ("--overlay-src", layer)]
    if upper is None:
        return [*options, "--tmp-overlay", path]
    return [*options, "--overlay", f"{upper}/up", f"{upper}/work", path]


def _shown(path: str, sandbox: Sandbox, facts: WrapFacts) -> bool:
    """Whether the path can be read already: below the platform's folders, or in the workspace and not hidden."""
    if any(within(path, folder) for folder in facts.platform):
        return True
    hidden = any(within(path, folder) and path != folder for folder in sandbox.hides)
    return sandbox.visible and within(path, sandbox.workspace) and not hidden


def _read(path: str, facts: WrapFacts) -> list[str]:
    if path in facts.files:
        return ["--ro-bind", path, path]
    return ["--overlay-src", facts.empty, "--overlay-src", path, "--ro-overlay", path]
