"""Who vouches for a run: its journal read with this user's key, a person's adoption, and where its folder lies.

What is not vouched for is *foreign*: it is read like any other run, and never driven (core/engine.py, rule 7).
"""

from __future__ import annotations

import os

from msgspec import Struct

from orchestra.core.adoption import read_adoption
from orchestra.core.events import Events
from orchestra.core.journal import OnEvent, read_first, read_journal
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.core.seal import Seal


class Standing(Struct, frozen=True):
    """A run as it was read, and what is to be thought of it."""

    events: Events
    created: Event | None
    foreign: str  # why nobody vouches for it; empty if somebody does
    workspace: str  # the folder it belongs to; empty if it does not say
    lines: int  # what an adoption would cover
    sha256: str


def read_run(
    folder: RunFolder, seal: Seal | None, *, until: str = "", each: OnEvent | None = None, keep: bool = True
) -> Standing:
    """Read a run with this user's key, without owning it; the rest as in `read_journal`."""
    reading = read_journal(folder.events, seal, until=until, each=each, keep=keep)
    chain, events = reading.chain, reading.events
    lines, sha256 = chain.lines, chain.digest
    if adoption := read_adoption(folder, seal):
        chain.adopt(adoption)
    created = events[0] if events else None
    workspace = chain.workspace or (str(created.payload.get("workspace", "")) if created else "")
    misplaced = wrong_place(folder, created) if created else ""
    foreign = misplaced or (chain.why_foreign if chain.foreign else "")
    return Standing(events, created, foreign, workspace, lines, sha256)


def identity(folder: RunFolder) -> tuple[str, str]:
    """What a record beside the journal is sealed for: the run's id, and the seal of its first line.

    An id is used again once its run was removed; a word to the old run must be none to the new one.
    """
    created = read_first(folder.events)
    return folder.id, str(created.payload.get("seal", "")) if created is not None else ""


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
