"""Reach: which folder keeps the user that commands run as from the workspace. Reads modes only; starts nothing."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path


def explained(error: str, workspace: Path, run_as: int | None) -> str:
    """Why a sandbox was refused here; with the folder that is closed, if it is that."""
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
    """The first folder on the way to the workspace, itself included, that a user cannot pass, as far as modes tell."""
    for folder in (*reversed(workspace.parents), workspace):
        found = os.stat(folder)
        shift = 6 if found.st_uid == uid else 3 if found.st_gid == uid else 0  # the group is the one with its number
        needed = 0o5 if folder == workspace else 0o1
        if uid != 0 and (found.st_mode >> shift) & needed != needed:
            return folder
    return None
