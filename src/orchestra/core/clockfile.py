"""A reading of a tree's clock in the folder of the run at its top, the file `.clock` (S2-50). Used through the store.

Rules
1. Only the process that holds the claim of that run writes it, now and then (commands/clock.py), and removes it before
   the run ends. So the time of a step that a kill cut off, which the journal cannot have, is not lost.
2. It is sealed for exactly this run, like an answer (core/seal.py). A file that is damaged, of another key or of
   another run is as good as none. An older reading of the same run is genuine, and so is a missing file: a reading adds
   to what the journal has (core/worked.py), and never takes from it.
3. It is written over the one before, without a sync: it survives `kill -9`, and not always a power cut. Then the
   journal's figure counts. All readings have the same length. A file that is not a valid reading is removed
   when the root is driven (handlers.py).
4. These writes are not operations of the disk that `ORCHESTRA_CHAOS` counts: a clock decides when they are made.

The name is hidden: a workflow may have any other file here, and none that begins with a dot (patch/looked.py).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from orchestra.core.disk import Disk
from orchestra.core.errors import DurabilityError, OddFile
from orchestra.core.files import read_bounded
from orchestra.core.inbox import identity
from orchestra.core.records import Time
from orchestra.core.run import RunFolder
from orchestra.core.seal import Seal

_LENGTH = 192


class ClockReading(Struct, frozen=True):
    """`.clock`: how long a tree of runs had worked at a moment."""

    ms: Annotated[int, Meta(ge=0)]
    at: Time
    seal: str = ""


def keep_reading(folder: RunFolder, reading: ClockReading, *, disk: Disk, seal: Seal) -> None:
    """Write a reading in place of the one before it (rule 3)."""
    closed = seal.closes(reading, *identity(folder))
    disk.uncounted().overwrite(folder.clock, msgspec.json.encode(closed).ljust(_LENGTH))


def read_reading(folder: RunFolder, seal: Seal | None) -> ClockReading | None:
    """The newest reading that this user's process left; None if there is none (rule 2)."""
    try:
        found = msgspec.json.decode(read_bounded(folder.clock, _LENGTH), type=ClockReading)
    except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if seal is not None and seal.holds(found, *identity(folder)) else None


def remove_reading(folder: RunFolder, disk: Disk) -> None:
    """Remove the reading, or what is in its place, if it can be removed."""
    if os.path.lexists(folder.clock):
        with suppress(OSError, DurabilityError):  # a folder, say: the run goes on, and ends, without a reading
            disk.uncounted().unlink(str(folder.clock))
