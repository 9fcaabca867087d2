"""The files of one model call: raw reply, what came with it, the prompt, and the readable copy.

Rules
1. The reply streams to `<artifact>.raw.txt.part` as it arrives and gets its name only when it is complete and synced.
   So `<artifact>.raw.txt` is always a whole, good reply, even if it is all that is left of the run (D-05, S1-120).
2. What came with it (usage, finish reason, cost) is in `<artifact>.raw.json`, made just before the name is given.
3. One name per phase and iteration, and the last good reply has it (G1-8). A failed call's text (an error, a time-out)
   is named `<artifact>.attempt-K.raw.txt` at once; an earlier good reply is set aside under such a name when a later
   attempt begins.
4. A call that a kill cut off is counted before it is made again, until its reply has a name: each may have been paid.
5. Raw files keep the exact bytes, for the owner only; everything else here is redacted (C-12).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, UnsetType

from orchestra.core.disk import PRIVATE
from orchestra.core.ledger import Ledger
from orchestra.core.model import ProviderRequest, ProviderResponse
from orchestra.core.records import ArtifactRef, utf8
from orchestra.core.run import digest

UNKNOWN = "unknown"  # the provider of a reply of which only the raw file is left


class Sidecar(Struct, frozen=True, omit_defaults=True):
    """`<artifact>.raw.json`: all of the response but its text, and where it came from."""

    key: str
    response: ProviderResponse
    provider: str = UNKNOWN
    model: str = ""
    request: str = ""
    files: tuple[str, ...] = ()
    costUsd: float | None = 0.0
    contextBytes: int = 0
    asked: int = 1


class _Asked(Struct, frozen=True):
    """`<artifact>.asked.json`: how often a call was made that no reply is recorded of."""

    key: str
    times: int


class CallFiles:
    """The files of one attempt at one call. `earlier`: the recorded raw files of the attempts before it."""

    def __init__(self, artifact: str, document: str, ledger: Ledger, *, earlier: Sequence[ArtifactRef]) -> None:
        self._ledger = ledger
        self._disk = ledger.disk
        self._earlier = earlier
        self._stem = ledger.folder.artifact(artifact)
        self._document = ledger.folder.artifact(document) if document else None
        self._good = Path(f"{self._stem}.raw.txt")
        self._failed = self._aside(len(earlier) + 1)
        self._part = Path(f"{self._stem}.raw.txt.part")
        self._asked = Path(f"{self._stem}.asked.json")

    def whole(self, key: str) -> tuple[str, Sidecar] | None:
        """The complete reply an earlier process left for *this* attempt, if it did."""
        failed = _read_sidecar(self._failed, key)
        if failed is not None and self._failed.exists():
            return _text(self._failed), failed
        if not self._good.exists() or self._is_earlier(self._good):
            return None
        # Without its sidecar (S1-120: only the raw file is left) it was still named because it was whole and good.
        bare = Sidecar(key, ProviderResponse(rawText="", finishReason="stop", durationMs=0))
        text = _text(self._good)
        return text, _read_sidecar(self._good, key) or bare

    def cut_off(self, key: str) -> int:
        """How often this call, which is about to be made again, was cut off (rule 4)."""
        try:
            asked = msgspec.json.decode(self._asked.read_bytes(), type=_Asked)
        except (OSError, msgspec.DecodeError):
            return 1
        return asked.times if asked.key == key else 1

    def ask_again(self, key: str) -> int:
        """Count the call that is about to be made again; how often that is with it."""
        times = self.cut_off(key) + 1
        self._disk.publish(self._asked, msgspec.json.encode(_Asked(key, times)), durable=True)
        return times

    def begin(self, request: ProviderRequest) -> Stream:
        """Make way for a new reply: set the good one before it aside, keep the prompt, open the stream."""
        self._good.parent.mkdir(parents=True, exist_ok=True)
        for number, ref in enumerate(self._earlier, start=1):
            if ref.path.endswith(self._good.name) and self._good.exists() and not self._aside(number).exists():
                self._disk.replace(str(self._good), str(self._aside(number)))
        prompt = msgspec.json.format(msgspec.json.encode(request))
        self._disk.publish(Path(f"{self._stem}.prompt.json"), self._ledger.redactor.data(prompt), durable=False)
        return Stream(self._part, self._ledger)

    def complete(self, text: str, sidecar: Sidecar) -> None:
        """Name the reply: sidecar first, then the raw bytes."""
        data = utf8(text)
        if self._part.read_bytes() != data:  # the provider did not stream, or corrected itself
            self._disk.write(str(self._part), data, durable=True)
        else:
            self._disk.sync_file(self._part)
        target = self.target(sidecar)
        bare = msgspec.structs.replace(sidecar, response=msgspec.structs.replace(sidecar.response, rawText=""))
        masked = self._ledger.redactor.record(msgspec.to_builtins(bare))
        self._disk.publish(target.with_suffix(".json"), msgspec.json.encode(masked), durable=True)
        self._disk.replace(str(self._part), str(target))
        self._asked.unlink(missing_ok=True)
        self._disk.sync_folder(target.parent)

    def target(self, sidecar: Sidecar) -> Path:
        """The name a reply gets (rule 3)."""
        return self._good if isinstance(sidecar.response.error, UnsetType) else self._failed

    def write_document(self, text: str) -> ArtifactRef | None:
        """The readable copy, where one was asked for (S1-103)."""
        if self._document is None:
            return None
        data = utf8(self._ledger.redactor.text(text))
        self._disk.publish(self._document, data, durable=True)  # D-04: the event names it
        return self._ledger.folder.reference(self._document, data)

    def _is_earlier(self, path: Path) -> bool:
        """Whether this name still holds a reply that is recorded: it was not set aside yet."""
        sha256 = digest(path.read_bytes())
        return any(
            ref.sha256 == sha256 and ref.path.endswith(path.name) and not self._aside(number).exists()
            for number, ref in enumerate(self._earlier, start=1)
        )

    def _aside(self, number: int) -> Path:
        return Path(f"{self._stem}.attempt-{number}.raw.txt")


class Stream:
    """The reply as it arrives."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
        self._disk = ledger.disk
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self._disk.append(self._fd, utf8(text))

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def close(self) -> None:
        os.close(self._fd)


def settle(ledger: Ledger) -> None:
    """Before a run ends: remove what never became whole; the last attempt gets the name if none was good."""
    artifacts = ledger.folder.artifacts
    for left in (*artifacts.rglob("*.raw.txt.part"), *artifacts.rglob("*.asked.json")):
        left.unlink()
    for attempt in sorted(artifacts.rglob("*.attempt-*.raw.txt"), key=_attempt_number, reverse=True):
        good = attempt.with_name(attempt.name.rpartition(".attempt-")[0] + ".raw.txt")
        if not good.exists():
            ledger.disk.link(str(attempt), str(good))  # G1-8; the event names the attempt, and both names are one file


def _attempt_number(path: Path) -> int:
    return int(path.name.rpartition(".attempt-")[2].partition(".")[0])


def _read_sidecar(raw: Path, key: str) -> Sidecar | None:
    try:
        sidecar = msgspec.json.decode(raw.with_suffix(".json").read_bytes(), type=Sidecar)
    except (OSError, msgspec.DecodeError):
        return None
    return sidecar if sidecar.key == key else None


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")
