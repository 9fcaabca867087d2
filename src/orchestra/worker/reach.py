"""Reach: which folder the user that commands run as cannot enter. Reads file modes only; starts no process."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path


def explained(error: str, workspace: Path, run_as: int | None) -> str:
    """The reason why a sandbox was refused; it names the closed folder if that is the cause."""
    closed = closed_folder(workspace, run_as) if run_as is not None else None
    if closed is None:
        return f"{error}. Look: orchestra doctor"
    mode = stat.S_IMODE(closed.stat().st_mode)
    opened = shlex.join(("chmod", "o+rx" if closed == workspace else "o+x", str(closed)))
    return (
        f"the sandbox cannot be set up: {closed} (mode {mode:04o}) is closed to user {run_as} (sandbox.run_as), who"
        f" must reach {workspace}. Open it ({opened}), move the project, or change sandbox.run_as"
    )


def closed_folder(workspace: Path, uid: int) -> Path | None:
    """The first folder on the path to the workspace (included) that the user cannot enter, judged by file modes."""
    for folder in (*reversed(workspace.parents), workspace):
        found = os.stat(folder)
        shift = 6 if found.st_uid == uid else 3 if found.st_gid == uid else 0  # the user's group has the same number
        needed = 0o5 if folder == workspace else 0o1
        if uid != 0 and (found.st_mode >> shift) & needed != needed:
            return folder
    return None
