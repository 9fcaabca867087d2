"""The files of one model call: the raw reply, its sidecar, the prompt, and the readable copy.

Rules
1. The reply is written to `<artifact>.raw.txt.part` as it arrives and is renamed only when it is complete and synced.
   So `<artifact>.raw.txt` is always a whole, good reply, even if it is all that is left of the run (D-05, S1-120).
   A call that is made again begins a new file: a process that reads along keeps the old one and notices.
2. Usage, finish reason and cost are in the sidecar `<artifact>.raw.json`, written just before the rename.
3. One name per phase and iteration, and the last good reply has it (G1-8). A failed call's text (an error, a time-out)
   is named `<artifact>.attempt-K.raw.txt` at once; an earlier good reply is set aside under such a name when a later
   attempt begins.
4. A call that a kill interrupted is counted before it is made again, until its reply is renamed: each may be paid
   (core/calls.py, rule 2).
5. Raw files keep the exact bytes, for the owner only; everything else here is redacted (C-12).
6. The prompt of an earlier attempt is kept as `<artifact>.attempt-K.prompt.json` if it was another one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, UnsetType

from orchestra.core.calls import Asked, PastCall, asked_file, calls_in, read_asked
from orchestra.core.disk import PRIVATE
from orchestra.core.errors import OddFile
from orchestra.core.files import read_bounded
from orchestra.core.ledger import Ledger
from orchestra.core.model import Destination, ProviderRequest, ProviderResponse, Withheld
from orchestra.core.records import ArtifactRef, utf8
from orchestra.core.run import digest
from orchestra.core.sent import Sent, is_another, with_history
from orchestra.core.shown import Lines
from orchestra.providers.bounds import MOST_TEXT

_COMPARED = 1 << 16
UNKNOWN = "unknown"  # the provider's name, if only the raw file of a reply is left


class Sidecar(Struct, frozen=True, omit_defaults=True):
    """`<artifact>.raw.json`: the response without its text (empty here), and the provider and model."""

    key: str
    response: ProviderResponse
    provider: str = UNKNOWN
    model: str = ""
    request: str = ""
    files: tuple[str, ...] = ()
    parts: dict[str, tuple[Lines, ...]] = {}
    costUsd: float | None = 0.0
    contextBytes: int = 0
    asked: int = 1
    lostUsd: float | None = None
    to: Destination = Destination()
    withheld: tuple[Withheld, ...] = ()


class CallFiles:
    """The files of one attempt at one call. `earlier`: the recorded raw files of the attempts before it."""

    def __init__(self, artifact: str, document: str, ledger: Ledger, *, earlier: Sequence[ArtifactRef]) -> None:
        self._artifact = artifact
        self._ledger = ledger
        self._disk = ledger.disk
        self._earlier = earlier
        self._stem = ledger.folder.artifact(artifact)
        self._document = ledger.folder.artifact(document) if document else None
        self._good = Path(f"{self._stem}.raw.txt")
        self._failed = self._aside(len(earlier) + 1)
        self._part = Path(f"{self._stem}.raw.txt.part")
        self._asked = asked_file(ledger.folder, artifact)

    def whole(self, key: str) -> tuple[bytes, Sidecar] | None:
        """The complete reply that an earlier process stored for *this* attempt; None if there is none."""
        failed = _read_sidecar(self._failed, key)
        if failed is not None and self._failed.exists():
            return read_bounded(self._failed, MOST_TEXT), failed
        if not self._good.exists() or self._is_earlier(self._good):
            return None
        # Without its sidecar (S1-120: only the raw file is left) the name proves that the reply is whole and good.
        bare = Sidecar(key, ProviderResponse(rawText="", finishReason="stop", durationMs=0))
        return read_bounded(self._good, MOST_TEXT), _read_sidecar(self._good, key) or bare

    def cut_off(self, key: str) -> Asked:
        """How often this call was interrupted and may have been paid (rule 4); called before it is made again."""
        return read_asked(self._ledger.folder, self._artifact, key)

    def ask_again(self, key: str, lost: float | None) -> int:
        """Record one more request of this call, and the possible cost of the earlier ones; return the new count."""
        times = self.cut_off(key).times + 1
        self._disk.publish(self._asked, msgspec.json.encode(Asked(key, times, lost)), durable=True)
        return times

    def begin(self, request: ProviderRequest, sent: Sent) -> Stream:
        """Prepare for a new reply: rename the good one before it, store the prompt, open the stream.

        The prompt's file records what leaves the machine (core/sent.py).
        """
        self._good.parent.mkdir(parents=True, exist_ok=True)
        for number, ref in enumerate(self._earlier, start=1):
            if ref.path.endswith(self._good.name) and self._good.exists() and not self._aside(number).exists():
                self._disk.replace(str(self._good), str(self._aside(number)))
        path = Path(f"{self._stem}.prompt.json")
        prompt = self._ledger.redactor.data(with_history(path, request, sent))
        aside = Path(f"{self._stem}.attempt-{len(self._earlier)}.prompt.json")
        if self._earlier and not aside.exists() and is_another(path, prompt):  # rule 6
            self._disk.link(str(path), str(aside))
        self._disk.publish(path, prompt, durable=False)
        return Stream(self._part, self._ledger)

    def complete(self, data: bytes, sidecar: Sidecar) -> None:
        """Store the complete reply: the sidecar first, then rename the raw file."""
        if not _holds(self._part, data):  # the provider did not stream, or its final text differs
            self._remove(self._part)
            self._disk.write(str(self._part), data, durable=True)
        else:
            self._disk.sync_file(self._part)
        target = self.target(sidecar)
        masked = self._ledger.redactor.record(msgspec.to_builtins(sidecar))
        self._disk.publish(target.with_suffix(".json"), msgspec.json.encode(masked), durable=True)
        self._disk.replace(str(self._part), str(target))
        self._remove(self._asked)
        self._disk.sync_folder(target.parent)

    def target(self, sidecar: Sidecar) -> Path:
        """The name a reply gets (rule 3)."""
        return self._good if isinstance(sidecar.response.error, UnsetType) else self._failed

    def write_document(self, redacted: str) -> ArtifactRef | None:
        """Write the readable copy, if one is wanted (S1-103); return its reference."""
        if self._document is None:
            return None
        data = utf8(redacted)
        self._disk.publish(self._document, data, durable=True)  # D-04: the event names it
        return self._ledger.folder.reference(self._document, data)

    def settle(self, calls: Sequence[PastCall]) -> None:
        """Clean up after the last call of this artifact; `calls` are all its calls."""
        self._remove(self._part)
        if not any(call.raw is None and call.asked > 1 for call in calls):  # else the file is their only record
            self._remove(self._asked)
        for number in range(len(calls), 0, -1):
            if self._aside(number).exists() and not self._good.exists():
                # G1-8; the event names the attempt, and both names are one file
                self._disk.link(str(self._aside(number)), str(self._good))

    def _remove(self, path: Path) -> None:
        if path.exists():
            self._disk.unlink(str(path))

    def _is_earlier(self, path: Path) -> bool:
        """Whether the file of this name is a recorded reply that was not renamed yet."""
        sha256 = digest(read_bounded(path, MOST_TEXT))
        return any(
            ref.sha256 == sha256 and ref.path.endswith(path.name) and not self._aside(number).exists()
            for number, ref in enumerate(self._earlier, start=1)
        )

    def _aside(self, number: int) -> Path:
        return Path(f"{self._stem}.attempt-{number}.raw.txt")


class Stream:
    """The reply as it arrives; it is kept in its file only, not in memory."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self.size = 0  # bytes
        self._path = path
        self._disk = ledger.disk
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, PRIVATE)
        except FileExistsError:  # of a call that a kill cut off (rule 1)
            self._disk.unlink(str(path))
            self._fd = os.open(path, flags, PRIVATE)

    def add(self, text: str) -> None:
        data = utf8(text)
        self.size += len(data)
        self._disk.append(self._fd, data)

    @property
    def text(self) -> str:
        return self._path.read_bytes().decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self._fd)


def settle(ledger: Ledger) -> None:
    """Before a run ends: remove incomplete files; if no attempt was good, the last one gets the artifact's name.

    Only files that the journal names as a call's: a task's own files may have any name.
    """
    artifacts: dict[str, list[PastCall]] = {}
    for call in calls_in(ledger.folder, ledger.events):
        artifacts.setdefault(call.artifact, []).append(call)
    for artifact, calls in artifacts.items():
        CallFiles(artifact, "", ledger, earlier=()).settle(calls)


def _read_sidecar(raw: Path, key: str) -> Sidecar | None:
    try:
        sidecar = msgspec.json.decode(read_bounded(raw.with_suffix(".json"), MOST_TEXT), type=Sidecar)
    except (OSError, OddFile, msgspec.DecodeError):
        return None
    return sidecar if sidecar.key == key else None


def _holds(path: Path, data: bytes) -> bool:
    """Whether a file has exactly these bytes, compared without loading it whole."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != len(data):
            return False
        return all(file.read(_COMPARED) == data[at : at + _COMPARED] for at in range(0, len(data), _COMPARED))
