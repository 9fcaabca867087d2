"""Adoption: a person vouches for a run that this user's key did not make, or that was made for another folder.

Rules
1. An adoption is a record in the run's folder, `adopted.json`, sealed like an answer (core/seal.py). It has the number
   of lines of the journal, their digest, and the folder the run belongs to from now on.
2. It covers exactly those lines. The next line that is written repeats it (core/chain.py, rule 3); then the file is no
   longer needed.
3. It covers history only. Answers in the inbox of a foreign run do not count; the person is asked again.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from orchestra.core.disk import Disk
from orchestra.core.errors import OddFile
from orchestra.core.files import read_bounded
from orchestra.core.run import RunFolder
from orchestra.core.seal import Seal

_MOST = 65_536


class Vouching(Struct, frozen=True):
    """The journal's record of an adoption: who adopted which lines."""

    lines: int
    workspace: str
    by: str
    at: str


class Adoption(Struct, frozen=True, kw_only=True):
    """`adopted.json`."""

    lines: int  # the number of lines of the journal
    sha256: str  # of the foreign lines (core/chain.py)
    workspace: str
    by: str
    at: str
    seal: str = ""

    @property
    def vouching(self) -> Vouching:
        return Vouching(self.lines, self.workspace, self.by, self.at)


def keep_adoption(folder: RunFolder, adoption: Adoption, *, disk: Disk, seal: Seal) -> None:
    """Write the adoption, durably."""
    data = msgspec.json.format(msgspec.json.encode(seal.closes(adoption, folder.id))) + b"\n"
    disk.publish(folder.adopted, data, durable=True)


def read_adoption(folder: RunFolder, seal: Seal | None) -> Adoption | None:
    """This user's adoption of the run; None if there is none, or if another key sealed it."""
    try:
        adoption = msgspec.json.decode(read_bounded(folder.adopted, _MOST), type=Adoption)
    except (OSError, OddFile, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return adoption if seal is not None and seal.holds(adoption, folder.id) else None
