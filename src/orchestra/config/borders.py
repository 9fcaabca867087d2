"""Borders: which folders of the host a configuration may open to tools. Checked on real paths, when it is loaded.

Rules (MS-4.1, F2-09)
1. Paths are compared by whole components after links are resolved: `./runs-evil` is not `./runs`.
2. Nothing opens `/`, the home folder or a folder above it, for reading or writing: with a remote model, reading is
   exfiltration. Nor folders with sockets and devices: a read-only view does not stop a connection.
3. Nothing is written for real in the workspace (an `rw` task's changes become a patch), where runs are kept, in system
   folders or where programs are found. `./runs` is the exception by name: a task gets its own folder below it.
4. Nothing opens the scratch folders, whose contents orchestra itself trusts, and nothing writes to orchestra's own
   installation: a command that can change them needs no way out of the sandbox any more.
5. Nothing that is opened lies in a folder that is written for real: a command could put a link in its place.

Entries are checked and never corrected: a wrong one is refused with its cure.
"""

from __future__ import annotations

import os
import pwd
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from orchestra.core.names import OWN
from orchestra.policy.policy import within

OURS = (*OWN, ".git")
_LIVE = ("/proc", "/sys", "/dev", "/run", "/var/run")
_SYSTEM = ("/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/sbin", "/usr", "/var/lib")


class Place(Struct, frozen=True):
    """The folders around a configuration: its own (the workspace), its runs, the person's home and PATH; real paths."""

    base: str
    runs: str
    home: str = ""  # what `~` means
    homes: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()  # where commands write before a change is accepted

    @classmethod
    def of(cls, base: Path, runs: str, environ: Mapping[str, str]) -> Place:
        home = environ.get("HOME", "")
        folders = [folder for folder in environ.get("PATH", "").split(":") if folder.startswith("/")]
        return cls(
            base=os.path.realpath(base),
            runs=os.path.realpath(base / runs),
            home=os.path.realpath(home) if home.startswith("/") else "",
            homes=homes(environ),
            path=tuple(dict.fromkeys(map(os.path.realpath, folders))),
            scratch=scratch_places(environ),
        )

    def named(self, entry: str) -> str:
        """The path an entry names: relative ones from the configuration's folder (G2-10), `~/` from home."""
        if self.home and (entry == "~" or entry.startswith("~/")):
            entry = self.home + entry[1:]
        return os.path.normpath(os.path.join(self.base, entry))

    def real(self, entry: str) -> str:
        """The path an entry names, with links resolved."""
        return os.path.realpath(self.named(entry))

    def narrowed(self, entry: str) -> bool:
        """Whether an entry is the folder of runs, or `./runs` as S2 calls it: a task has its own folder there."""
        return self.real(entry) in (self.runs, f"{self.base}/runs")

    def private(self, entry: str) -> bool:
        """Whether an entry is /tmp: every command has an empty one of its own (MS-0.1)."""
        return self.real(entry) == os.path.realpath("/tmp")


def homes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The person's home folders, by the environment and by the system: both may have keys."""
    try:
        known = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        known = ""  # a user id without a name, as in containers
    found = (os.path.realpath(home) for home in (environ.get("HOME", ""), known) if home.startswith("/"))
    return tuple(dict.fromkeys(home for home in found if home != "/"))


def scratch_places(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where the scratch folders of all runs may lie, best first."""
    home = environ.get("HOME", "")
    cache = environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home.startswith("/") else "")
    shared = f"orchestra-{os.geteuid()}"  # in folders that other users share
    places = ((cache, "orchestra"), (tempfile.gettempdir(), shared), ("/var/tmp", shared))
    return tuple(os.path.join(os.path.realpath(place), name) for place, name in places if place.startswith("/"))


def _installation() -> tuple[str, ...]:
    """The folders that orchestra, its dependencies and its interpreter are loaded from."""
    places = (os.path.dirname(__file__), sys.prefix, sys.base_prefix, *filter(os.path.isabs, sys.path))
    return tuple(dict.fromkeys(map(os.path.realpath, places)))


def wrong_read(entry: str, place: Place) -> str:
    """Why tools may not read this, with the cure; or an empty string."""
    if wrong := _wrong_text(entry):
        return wrong
    real = place.real(entry)
    if real == place.base or place.private(entry):
        return ""  # tools always work on the workspace, wherever it is
    if wrong := _too_much(real, place) or _live(real) or _scratch(real, place):
        return wrong
    if within(real, "/etc"):
        return "a command has an /etc of its own (users, hosts, certificates); copy what is needed into the project"
    if within(place.base, real):
        return "the workspace lies in it; name the folders beside the workspace one by one"
    return ""


def wrong_write(entry: str, place: Place) -> str:
    """Why tools may not write there, with the cure; or an empty string."""
    if wrong := _wrong_text(entry):
        return wrong
    real = place.real(entry)
    if place.narrowed(entry) or place.private(entry):
        return ""  # rule 3: narrowed to the task's own folder
    if wrong := _too_much(real, place) or _live(real):
        return wrong
    if _touch(place.runs, real):
        return "runs are kept there: name the runs folder itself (./runs), each task gets its own folder in it"
    if _touch(real, place.base):
        return "the workspace is not written directly: leave it out; with `default_fs_mode: rw` changes become a patch"
    if any(_touch(real, folder) for folder in _SYSTEM):
        return "it is a folder of the system; name a folder of your own"
    if wrong := _scratch(real, place):
        return wrong
    for folder in place.path:
        if _touch(folder, real):
            return f"programs are found there ({folder} is on PATH); name another folder"
    for folder in _installation():
        if _touch(folder, real):
            return f"orchestra itself runs from there ({folder}); name another folder"
    if not os.path.isdir(real):
        return f"there is no folder {real}; make it, or take the line out"
    return ""


def wrong_nesting(entry: str, writes: Iterable[str], place: Place) -> str:
    """Rule 5: why this cannot be opened besides these folders to write; or an empty string."""
    if _wrong_text(entry):
        return ""  # that is reported already
    for write in writes:
        if place.private(write) or place.narrowed(write) or place.real(write) == place.real(entry):
            continue
        if within(place.real(entry), place.real(write)):
            return f"it lies in {write!r}, which commands write to: they could put a link in its place"
    return ""


def wrong_runs(runs: str, place: Place) -> str:
    """Why runs cannot be kept there; or an empty string."""
    if wrong := _wrong_text(runs):
        return wrong
    if within(place.base, place.runs) or any(within(place.runs, f"{place.base}/{ours}") for ours in OURS):
        return "runs need a folder of their own, e.g. ./runs"
    return _too_much(place.runs, place) or _live(place.runs)


def wrong_target(target: str, place: Place) -> str:
    """Why a name cannot be mapped to this program; or an empty string."""
    if wrong := _wrong_text(target):
        return wrong
    path = place.named(target)
    if not os.path.exists(path):
        return f"there is no {path}; make it, or take the line out"
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return f"{path} is not a program; name an executable file"
    return ""


def _wrong_text(entry: str) -> str:
    if not entry.strip():
        return "it is empty; name a folder, e.g. ./"
    if "\0" in entry or "\n" in entry:
        return "it has characters that no path has"
    return ""


def _too_much(real: str, place: Place) -> str:
    if real == "/":
        return "it is everything there is; name the folders that are needed"
    if any(within(home, real) for home in place.homes):
        return "your home folder is in it, with your keys; name the folders that are needed"
    return ""


def _live(real: str) -> str:
    if any(within(real, folder) for folder in map(os.path.realpath, _LIVE)):
        return "sockets, devices and other processes are there; it cannot be opened to tools"
    return ""


def _scratch(real: str, place: Place) -> str:
    for folder in place.scratch:
        if _touch(folder, real):
            return f"orchestra keeps there what commands wrote ({folder}); name the folders that are needed"
    return ""


def _touch(one: str, other: str) -> bool:
    """Whether one of two folders is in the other, or they are the same."""
    return within(one, other) or within(other, one)
