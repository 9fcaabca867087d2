"""Whether a run is foreign: decided by its seals, a person's adoption (core/store.py) and the place of its folder.

A run is *foreign* if this user's key did not seal it and the user did not adopt it. A foreign run can be read like any
other, and is never driven (core/engine.py, rule 7).
"""

from __future__ import annotations

import os

from msgspec import Struct

from orchestra.core.events import Events
from orchestra.core.records import Event
from orchestra.core.run import RunFolder


class Standing(Struct, frozen=True):
    """A run as it was read, and whether it is foreign."""

    events: Events
    created: Event | None
    foreign: str  # why the run is foreign; empty if it is not
    workspace: str  # the folder it belongs to; empty if not recorded
    lines: int  # the lines that an adoption would cover
    sha256: str


def wrong_place(folder: RunFolder, created: Event) -> str:
    """Why the journal does not belong to its folder; empty if it does. An adoption does not help."""
    if created.runId != folder.id:
        return f"its journal is that of run {created.runId}"
    for path in (folder.path, folder.artifacts, folder.logs, folder.inbox, folder.scratch, folder.lock):
        if os.path.islink(path):
            what = "its folder" if path == folder.path else f"its {path.name}"
            return f"{what} is a link to {os.readlink(path)}"
    return ""


def elsewhere(workspace: str, project: str) -> str:
    """Why a run cannot be driven in this project: it belongs to another folder. Empty if it belongs here."""
    return f"it was made for {workspace}, and this is {project}" if workspace not in ("", project) else ""
