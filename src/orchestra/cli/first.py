"""What the program does to itself before it loads anything.

Rules
1. Nothing of the folder one stands in is imported: `python -m orchestra` puts that folder first among the places where
   Python looks for modules, and a project may hold a click.py. So nothing is imported here that Python has not loaded
   before: not even __future__. What ran before us cannot be helped: a package named orchestra, and the dozen modules
   that Python needs for `-m`. The program itself, and `python -P -m orchestra`, look nowhere in that folder.
2. No core dump holds a key. The limit of 0 holds for dumps that are files; a dump that is handed to another program is
   not limited (core(5)), so of this process none of its memory goes into one. Both are inherited by what it starts.
"""

import os
import sys


def leave_folder() -> None:
    """Rule 1. The folder stays if orchestra itself was found there, or Python's own packages are."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was removed
        here = ""
    kept = {os.path.realpath(folder) for folder in (*_site_folders(), f"{__file__}/../../..")}
    sys.path[:] = [
        entry for entry in sys.path if entry and (os.path.realpath(entry) != here or os.path.realpath(entry) in kept)
    ]


def _site_folders() -> list[str]:
    site = sys.modules.get("site")  # not there under `python -S`
    return list(site.getsitepackages()) if site else []


def dump_no_core() -> None:
    """Rule 2."""
    import resource  # after the folder was left

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/coredump_filter", "w", encoding="ascii") as file:
            file.write("0")
    except OSError:  # no /proc, or one that is only to be read
        pass
