"""A run's folder: its name and the paths of its files. Whether the files exist is not known here.

.runs/workflows/<runId>/            (S1-100; other workflows: <paths.runs>/<runId>/, D-06)
  events.ndjson                     the journal, from which all else is derived
  state.json                        the newest snapshot, rebuilt from the journal whenever it is missing or behind
  artifacts/<phase>/iter-NNNN.*     prompts, replies, patches; *.raw.txt are exact bytes, owner-only (C-12)
  logs/*.log                        JSON lines for people, derived from the journal
  inbox/                            messages to the run (answers, cancels), each sealed by its sender
  rules.json                        the project's own rules (AGENTS.md) as they were when the run began
  adopted.json                      a person vouches for a run that this user's key did not make
  report.md                         what happened, written before the run ends (C-26)
  lock, scratch/                    held by the driver; unfinished files of an apply
  .clock                            how long the tree had worked a moment ago; gone when the run has ended
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import msgspec

from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import digest_below, lines_below, read_below
from orchestra.core.records import ArtifactRef

EVENTS = "events.ndjson"
REMOVED = ".removed"
MOST_ARTIFACT = 1 << 30
_MOST_ATTEMPTS, _GAP = 1000, 16  # attempts of one call; missing numbers in a row before the search ends
_SLUG = re.compile("[^a-z0-9\uac00-\ud7a3\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff]+")  # Latin, Hangul, kana, Han
_LOOKED_AT = 1000  # characters of a text that a name is made of
_ACCENTS = re.compile("[\u0300-\u036f]")


class RunFolder:
    """Paths of one run."""

    __slots__ = ("id", "path")  # there may be very many folders

    def __init__(self, path: Path, run_id: str = "") -> None:
        self.path = path
        self.id = run_id or path.name

    @property
    def events(self) -> Path:
        return self.path / EVENTS

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def inbox(self) -> Path:
        return self.path / "inbox"

    @property
    def scratch(self) -> Path:
        return self.path / "scratch"

    @property
    def report(self) -> Path:
        return self.path / "report.md"

    @property
    def adopted(self) -> Path:
        return self.path / "adopted.json"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def clock(self) -> Path:
        return self.path / ".clock"

    @property
    def removed(self) -> Path:
        """The folder's hidden path while the run is being removed."""
        return self.path.with_name(f".{self.path.name}{REMOVED}")

    def artifact(self, stem: str) -> Path:
        """The file of an artifact named relative to `artifacts/`."""
        return self.artifacts / stem

    def reference(self, path: Path, data: bytes) -> ArtifactRef:
        """The reference to a file of this run, for an event (D-04)."""
        return ArtifactRef(path=str(path.relative_to(self.path)), bytes=len(data), sha256=digest(data))

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a file, by its path in this run's folder; OddFile if it is not a file or too large."""
        return read_below(self.path, name, most)

    def lines(self, name: str, most: int) -> Iterator[bytes]:
        """The lines of a file, as `read` finds it."""
        return lines_below(self.path, name, most)

    def recorded(self, said: object, most: int) -> bytes:
        """The bytes of the file that an event names; UsageError if the file has changed since."""
        try:
            ref = msgspec.convert(said, ArtifactRef, from_attributes=True)
        except msgspec.ValidationError:
            raise UsageError(f"run {self.id} does not say where that file is; look into {self.artifacts}") from None
        for name in (ref.path, *self._set_aside(ref.path)):
            try:
                data = self.read(name, min(most, ref.bytes))
            except (OSError, OddFile):
                continue
            if digest(data) == ref.sha256:
                return data
        raise UsageError(
            f"{self.path / ref.path} is gone, or is not what the run recorded: it is not shown. "
            f"What is wrong with the run: orchestra verify {self.id}"
        )

    def find(self, ref: ArtifactRef) -> Path | None:
        """The file that an event names, also if a later attempt renamed it (G1-8); None if missing or changed."""
        if ref.bytes > MOST_ARTIFACT:
            return None
        for name in (ref.path, *self._set_aside(ref.path)):
            if digest_below(self.path, name, ref.bytes) == ref.sha256:
                return self.path / name
        return None

    def _set_aside(self, name: str) -> Iterator[str]:
        """The numbered names that a raw reply may have been renamed to; there are few gaps."""
        stem, missing, number = name.removesuffix(".raw.txt"), 0, 0
        while stem != name and missing < _GAP and number < _MOST_ATTEMPTS:
            number += 1
            aside = f"{stem}.attempt-{number}.raw.txt"
            missing = 0 if os.path.lexists(self.path / aside) else missing + 1
            if not missing:
                yield aside


def digest(data: bytes) -> str:
    """The digest of bytes, as it is written everywhere: `sha256:<hex>` (G2-8)."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def slug(text: str, *, most: int = 40) -> str:
    """A kebab-case name from free text (G4-2), at most `most` bytes long: a name on every file system (core/names.py).

    It has Latin letters without accents, digits, and the letters of Korean, Japanese and Chinese, in the Unicode form
    NFC. A text without any of these becomes `run`.
    """
    plain = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text[:_LOOKED_AT].lower())))
    words = _SLUG.sub("-", plain.lower()).strip("-")
    if len(data := words.encode()) > most:
        begun = data[:most].decode("utf-8", "ignore")
        words = begun.rsplit("-", 1)[0].strip("-") or begun
    return words or "run"


def name_part(run_id: str) -> str:
    """The last part of `{date}_{seq}_{workflow}_{name}`: a slug has no `_`, and a workflow's name may."""
    return run_id.rpartition("_")[2]


def kind_part(run_id: str) -> str:
    """The part of `{date}_{seq}_{workflow}_{name}` before the name: a workflow, or what stands in its place."""
    return run_id.split("_", 2)[-1].rpartition("_")[0]


def is_id(name: str) -> bool:
    """Whether this may be a run's id: a folder name that is not hidden."""
    return name == os.path.basename(name) and not name.startswith(".") and "\0" not in name and name != ""
