"""What the program does before it loads other modules.

Rules
1. Nothing is imported from the current folder. `python -m orchestra` puts that folder first in Python's import path,
   and a project may have a click.py. So only modules that Python has loaded already are imported here, not even
   __future__. Imports before this code cannot be prevented: a package named orchestra, and the dozen modules that
   Python needs for `-m`. The program `orchestra`, and `python -P -m orchestra`, import nothing from that folder.
2. No core dump contains a key. The limit of 0 applies to dumps that are files. A dump that is piped to another program
   has no limit (core(5)), so this process also excludes all its memory from dumps. Child processes inherit both.
3. A standard input that is closed is an empty one: else the first file that is opened would get its number.
"""

import os
import sys


def leave_folder() -> None:
    """Remove the current folder from the import path (rule 1), unless orchestra or Python's packages are in it."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # the folder was removed
        here = ""
    kept = {os.path.realpath(folder) for folder in (*_site_folders(), f"{__file__}/../../..")}
    sys.path[:] = [
        entry for entry in sys.path if entry and (os.path.realpath(entry) != here or os.path.realpath(entry) in kept)
    ]


def _site_folders() -> list[str]:
    site = sys.modules.get("site")  # missing under `python -S`
    return list(site.getsitepackages()) if site else []


def dump_no_core() -> None:
    """Keep this process's memory out of core dumps (rule 2)."""
    import resource  # imported after the current folder was removed from the path

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/coredump_filter", "w", encoding="ascii") as file:
            file.write("0")
    except OSError:  # no /proc, or a read-only one
        pass


def open_input() -> None:
    """Open an empty standard input where it is closed, as some services start programs (rule 3)."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # as long as the process
