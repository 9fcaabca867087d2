"""Who vouches for a run: what its journal and a person's adoption say (core/store.py), and where its folder lies.

What is not vouched for is *foreign*: it is read like any other run, and never driven (core/engine.py, rule 7).
"""

from __future__ import annotations

import os

from msgspec import Struct

from orchestra.core.events import Events
from orchestra.core.records import Event
from orchestra.core.run import RunFolder


class Standing(Struct, frozen=True):
    """A run as it was read, and what is to be thought of it."""

    events: Events
    created: Event | None
    foreign: str  # why nobody vouches for it; empty if somebody does
    workspace: str  # the folder it belongs to; empty if it does not say
    lines: int  # what an adoption would cover
    sha256: str


def wrong_place(folder: RunFolder, created: Event) -> str:
    """Why the journal cannot be that of its folder; empty if it can. No adoption cures this."""
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
