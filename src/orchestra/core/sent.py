"""Records of what was sent to models: one per request, written before the request is made, and read back per run.

Rules
1. A request is recorded with its prompt (`sent` in `<artifact>.prompt.json`) before it is made. So failed and cut-off
   requests are recorded too. After a kill there may be a record of a request that was not made.
2. The file of a prompt is written anew for each request of its artifact; it keeps the records of the earlier ones.
3. Sizes are of what was sent: masked, in UTF-8. Of a file that was sent whole the range of bytes is recorded, of
   another one the lines that were sent.
4. Older runs have no such records. For them, the last prompt of each artifact is complete, and of earlier ones only the
   names of files are known. An unknown value is None.
5. A fork has the calls of its source in its journal, but made none of them.
6. With a request its receipt (core/shown.py) is recorded: why each file was shown, and what was left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from orchestra.core.calls import PastCall, past_calls
from orchestra.core.errors import OddFile
from orchestra.core.files import read_bounded
from orchestra.core.model import ContextArtifact, Destination, Gathered, ProviderRequest, Withheld
from orchestra.core.records import Event, utf8
from orchestra.core.run import RunFolder
from orchestra.core.shown import Lines, Receipt

_MOST = 1 << 26  # bytes of a prompt's file: enough for hundreds of long prompts


class Part(Struct, frozen=True, omit_defaults=True):
    """A piece of a request: a workspace file, a note (plan, check results, listing), or the prompt's own text."""

    kind: Literal["file", "note", "prompt"]
    name: str
    bytes: int | None = None
    start: int | None = None  # of a whole file: the range that was shown, in bytes, without the end
    end: int | None = None
    lines: tuple[Lines, ...] = ()  # of a file that was shown in parts: the lines that were shown


class Sent(Struct, frozen=True, omit_defaults=True):
    """One request, as it went out."""

    key: str
    at: str = ""
    provider: str = ""
    model: str = ""
    to: Destination = Destination()
    parts: tuple[Part, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    receipt: Receipt | None = None  # None: an older run, or no workspace file was to be shown


class Dispatch(Struct, frozen=True):
    """One request of a run: its call, its parts and its server. `number` counts the requests of one call."""

    runId: str
    call: PastCall
    number: int
    sent: Sent


class _Kept(Struct):
    sent: tuple[Sent, ...] = ()


def parts_of(request: ProviderRequest, gathered: Gathered) -> tuple[Part, ...]:
    """The parts of a request; `gathered` has its files as they are on disk, before masking."""
    sizes = {artifact.path: len(utf8(artifact.content)) for artifact in gathered.artifacts if _is_file(artifact)}
    partly = gathered.receipt.parts
    prompt = (("system prompt", request.prompt.system), ("user prompt", request.prompt.user))
    history = ((f"message {n} ({m.role})", m.content) for n, m in enumerate(request.history, 1))
    return (
        *(Part("prompt", name, len(utf8(text))) for name, text in (prompt[0], *history, prompt[1])),
        *(_part(artifact, sizes, partly) for artifact in request.contextArtifacts),
    )


def recorded_for(prompt: Path, key: str) -> Sent | None:
    """The record of the last request that was made for a step; None if there is none."""
    return next((sent for sent in reversed(_recorded(prompt)) if sent.key == key), None)


def with_history(prompt: Path, request: ProviderRequest, sent: Sent) -> bytes:
    """The contents of a prompt's file: the request, and its record after the earlier ones (rule 2)."""
    history = (*_recorded(prompt), sent)
    return msgspec.json.format(msgspec.json.encode({**msgspec.to_builtins(request), "sent": history}))


def is_another(prompt: Path, data: bytes) -> bool:
    """Whether a prompt's file has another request than the new contents, apart from its records."""
    try:
        old, new = (msgspec.json.decode(one, type=ProviderRequest) for one in (read_bounded(prompt, _MOST), data))
    except (OSError, OddFile, msgspec.DecodeError):
        return False
    return (old.prompt, old.history, old.contextArtifacts) != (new.prompt, new.history, new.contextArtifacts)


def prompt_of(folder: RunFolder, call: PastCall) -> Path:
    """The file with the prompt of a call: set aside, if a later attempt had another one."""
    last = Path(f"{folder.artifact(call.artifact)}.prompt.json")
    aside = last.parent.glob(f"{last.name.removesuffix('.prompt.json')}.attempt-*.prompt.json")
    earlier = sorted(aside, key=lambda path: (len(path.name), path.name))
    return next((path for path in earlier if recorded_for(path, call.key)), last)


def dispatches(folder: RunFolder, events: Sequence[Event]) -> Iterator[Dispatch]:
    """Every request this run made, in the order of its calls."""
    calls = [call for call in past_calls(events) if not call.kept]
    last = {call.artifact: call.key for call in calls}
    for call in calls:
        prompt = Path(f"{folder.artifact(call.artifact)}.prompt.json")
        made = [sent for sent in _recorded(prompt) if sent.key == call.key]
        if not made:
            made = [_before_records(prompt, call, is_last=last[call.artifact] == call.key)]
        for number, sent in enumerate(made, start=1):
            yield Dispatch(folder.id, call, number, sent)


def source_of(events: Sequence[Event]) -> str:
    """The id of the run that a fork took calls over from; empty if there is none."""
    return str(events[0].payload["forkedFrom"]["runId"]) if _inherited(events) else ""


def _inherited(events: Sequence[Event]) -> set[str]:
    """The keys of calls that a fork took over (rule 5)."""
    return {call.key for call in past_calls(events) if call.kept}


def _before_records(prompt: Path, call: PastCall, *, is_last: bool) -> Sent:
    """What is known of a call without a record (rule 4)."""
    parts = tuple(Part("file", path) for path in call.files)
    try:
        if is_last:
            parts = parts_of(msgspec.json.decode(read_bounded(prompt, _MOST), type=ProviderRequest), Gathered())
    except (OSError, OddFile, msgspec.DecodeError):
        pass  # only the names in the journal are known
    return Sent(call.key, provider=call.provider, model=call.model, to=call.to, parts=parts)


def _recorded(prompt: Path) -> tuple[Sent, ...]:
    try:
        return msgspec.json.decode(read_bounded(prompt, _MOST), type=_Kept).sent
    except (OSError, OddFile, msgspec.DecodeError):
        return ()


def _part(artifact: ContextArtifact, sizes: dict[str, int], partly: dict[str, tuple[Lines, ...]]) -> Part:
    size = len(utf8(artifact.content))
    if not _is_file(artifact):
        return Part("note", artifact.name, size)
    if artifact.path in partly:
        return Part("file", artifact.path, size, lines=partly[artifact.path])
    whole = sizes.get(artifact.path)
    return Part("file", artifact.path, size, None if whole is None else 0, whole)


def _is_file(artifact: ContextArtifact) -> bool:
    return artifact.path not in ("", ".")
