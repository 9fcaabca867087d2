"""Calling a model: everything around a provider that must exist once. Handler of `ModelCall`.

Rules
1. Raw first (D-05): the reply streams to `<artifact>.raw.txt.part` as it arrives and gets its name
   `<artifact>.raw.txt` only when it is complete and synced. So a raw file that exists is whole; what came with it
   (usage, finish reason, error) is in `<artifact>.raw.json`, made just before.
2. After a crash, a whole raw file without its outcome event is taken as the reply and not paid for again (S1-121). An
   intent without one is called again, and the audit says "possibly paid twice".
3. One name per phase and iteration: the last attempt has it, earlier ones are set aside as `.attempt-K.raw.txt` (G1-8).
4. Time limit, error mapping, usage, cost and budget are here, for all providers. Retries are the context's (they are
   steps with names).
5. What goes into a prompt is redacted; raw files keep the exact bytes, for the owner only (C-12).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct, UnsetType

from orchestra.core.context import Step
from orchestra.core.disk import PRIVATE
from orchestra.core.effects import ModelCall, ModelReply
from orchestra.core.errors import BudgetReached, StepFailed
from orchestra.core.ledger import Ledger
from orchestra.core.model import (
    ContextArtifact,
    Provider,
    ProviderFailure,
    ProviderRequest,
    ProviderResponse,
    Usage,
)
from orchestra.core.records import ArtifactRef, Event, Phase, Role, utf8
from orchestra.core.run import digest

Gather = Callable[[tuple[str, ...]], tuple[ContextArtifact, ...]]
OnStream = Callable[[str, str], None]  # step key, text


@runtime_checkable
class Remembers(Protocol):
    """A provider whose answers depend on what it answered before, across processes."""

    def remember(self, raw_sha256: str, error: ProviderFailure | None) -> None: ...


@runtime_checkable
class Serves(Protocol):
    """A provider that has only some roles' answers, and knows which."""

    def serves(self, role: Role, phase: Phase) -> bool: ...


class Price(Struct, frozen=True):
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0

    def of(self, usage: Usage | UnsetType) -> float:
        """What these tokens cost; 0 where unknown (G4-10)."""
        if isinstance(usage, UnsetType):
            return 0.0
        return ((usage.inputTokens or 0) * self.input + (usage.outputTokens or 0) * self.output) / 1_000_000


class Route(Struct, frozen=True):
    """Where a call goes."""

    provider: Provider
    name: str
    model: str = ""
    price: Price = Price()


class Sidecar(Struct, frozen=True, omit_defaults=True):
    """`<artifact>.raw.json`: all of the response but its text, and where it came from."""

    key: str
    response: ProviderResponse
    provider: str
    model: str
    request: str
    files: tuple[str, ...] = ()
    costUsd: float = 0.0


class Caller:
    """Handler of ModelCall for one run."""

    def __init__(
        self,
        ledger: Ledger,
        route: Callable[[ModelCall], Route],
        *,
        gather: Gather,
        on_stream: OnStream,
        budget_usd: float | None,
    ) -> None:
        self._ledger = ledger
        self._used: dict[str, list[str]] = {}  # raw file name -> digests of the recorded attempts that had it
        for call in past_calls(ledger.events):
            if call.raw is not None:
                self._used.setdefault(call.raw.path, []).append(call.raw.sha256)
        self._route = route
        self._gather = gather
        self._on_stream = on_stream
        self._budget_usd = budget_usd

    async def __call__(self, effect: ModelCall, step: Step) -> ModelReply:
        """Have the reply: from disk if an earlier process got it whole, else from the provider."""
        name = f"artifacts/{effect.artifact}.raw.txt"
        files = _Files(effect, step.ledger, earlier=self._used.setdefault(name, []))
        route = self._route(effect)
        if step.redo and (found := files.whole()) is not None:
            text, sidecar = found
            files.write_document(text)
            if isinstance(route.provider, Remembers):
                route.provider.remember(digest(utf8(text)), _none(sidecar.response.error))
            return self._reply(text, sidecar, step, name, recovered=True)
        files.set_aside()
        request = self._request(effect, step)
        files.keep_prompt(request)
        response = await self._ask(route.provider, request, files, step)
        text = utf8(response.rawText).decode()
        shown = tuple(a.path for a in request.contextArtifacts if a.path not in ("", "."))
        cost = route.price.of(response.usage)
        sidecar = Sidecar(step.key, response, route.name, route.model, request_digest(request), shown, cost)
        files.complete(text, sidecar)
        return self._reply(text, sidecar, step, name, recovered=False)

    def _request(self, effect: ModelCall, step: Step) -> ProviderRequest:
        mask = step.ledger.redactor.text
        found = self._gather(effect.hints) if effect.files else ()
        notes = (ContextArtifact(name=n.name, path="", content=n.content) for n in effect.notes)
        return ProviderRequest(
            runId=step.ledger.folder.id,
            iteration=step.iteration,
            phase=step.phase,
            role=effect.role,
            prompt=effect.prompt,
            contextArtifacts=tuple(
                ContextArtifact(name=a.name, path=a.path, content=mask(a.content)) for a in (*found, *notes)
            ),
            constraints=effect.constraints,
            agent=effect.agent,
        )

    async def _ask(self, provider: Provider, request: ProviderRequest, files: _Files, step: Step) -> ProviderResponse:
        began = time.monotonic()
        stream = files.open_part()

        def arrived(text: str) -> None:
            stream.add(text)
            self._on_stream(step.key, text)

        try:
            async with asyncio.timeout(request.constraints.timeoutMs / 1000):
                return await provider.complete(request, arrived)
        except TimeoutError:
            failure = ProviderFailure(
                code="TIMEOUT",  # S1-38
                message=f"no complete reply within {request.constraints.timeoutMs} ms (raise loop.timeout_ms)",
                retriable=True,
            )
            elapsed = int((time.monotonic() - began) * 1000)
            return ProviderResponse(rawText=stream.text, finishReason="timeout", durationMs=elapsed, error=failure)
        finally:
            stream.close()

    def _reply(self, text: str, sidecar: Sidecar, step: Step, name: str, *, recovered: bool) -> ModelReply:
        response = sidecar.response
        data = utf8(text)
        raw = ArtifactRef(path=name, bytes=len(data), sha256=digest(data))
        self._used[name].append(raw.sha256)
        reply = ModelReply(
            text=step.ledger.redactor.text(text),
            raw=raw,
            finishReason=response.finishReason,
            durationMs=response.durationMs,
            provider=sidecar.provider,
            model=sidecar.model,
            usage=response.usage,
            costUsd=sidecar.costUsd,
            files=sidecar.files,
            request=sidecar.request,
            recovered=recovered,
        )
        if not isinstance(response.error, UnsetType):
            failure = response.error
            raise StepFailed(
                step.key,
                failure.code,
                failure.message,
                reason="provider",
                retriable=failure.retriable,
                details={"outcome": msgspec.to_builtins(reply)},
            )
        return reply

    def guard(self, effect: ModelCall) -> None:
        """Refuse the next call, before it looks begun, once the budget is spent."""
        ledger = self._ledger
        if self._budget_usd is None:
            return
        spent = sum(call.costUsd for call in past_calls(ledger.events))
        if spent >= self._budget_usd:
            raise BudgetReached(
                f"run {ledger.folder.id}: ${spent:.4f} of ${self._budget_usd:.4f} spent. "
                f"To go on: orchestra resume {ledger.folder.id} --max-budget-usd {self._budget_usd * 2 or 1:g}"
            )


class _Files:
    """The files of one call."""

    def __init__(self, effect: ModelCall, ledger: Ledger, *, earlier: list[str]) -> None:
        self._ledger = ledger
        self._disk = ledger.disk
        self._earlier = earlier
        stem = ledger.folder.artifact(effect.artifact)
        self._raw = Path(f"{stem}.raw.txt")
        self._part = Path(f"{stem}.raw.txt.part")
        self._sidecar = Path(f"{stem}.raw.json")
        self._prompt = Path(f"{stem}.prompt.json")
        self._stem = stem
        self._document = ledger.folder.artifact(effect.document) if effect.document else None

    def whole(self) -> tuple[str, Sidecar] | None:
        """The complete reply an earlier process left for *this* attempt, if it did (rule 2)."""
        if not self._raw.exists():
            return None
        data = self._raw.read_bytes()
        number = len(self._earlier)
        if number and not self._attempt(number).exists() and digest(data) == self._earlier[-1]:
            return None  # the name is still the attempt before: it was not set aside yet
        text = data.decode("utf-8", errors="replace")
        try:
            return text, msgspec.json.decode(self._sidecar.read_bytes(), type=Sidecar)
        except (OSError, msgspec.DecodeError):
            # Only the raw file is left (S1-120): it was named because it was whole.
            response = ProviderResponse(rawText="", finishReason="stop", durationMs=0)
            return text, Sidecar("", response, "unknown", "", "")

    def set_aside(self) -> None:
        """Give the attempt before this one its own name (rule 3)."""
        number = len(self._earlier)
        if number and self._raw.exists() and not self._attempt(number).exists():
            self._disk.replace(str(self._raw), str(self._attempt(number)))

    def open_part(self) -> _Stream:
        self._raw.parent.mkdir(parents=True, exist_ok=True)
        return _Stream(self._part, self._ledger)

    def keep_prompt(self, request: ProviderRequest) -> None:
        """What the model was asked, for whoever asks later; redacted like everything but the raw reply."""
        data = msgspec.json.format(msgspec.json.encode(request))
        self._disk.publish(self._prompt, self._ledger.redactor.data(data), durable=False)

    def complete(self, text: str, sidecar: Sidecar) -> None:
        """Name the reply (rule 1): sidecar first, then the raw bytes, then the readable copy."""
        data = utf8(text)
        if self._part.read_bytes() != data:  # the provider did not stream, or corrected itself
            self._disk.write(str(self._part), data, durable=True)
        else:
            self._sync_part()
        bare = msgspec.structs.replace(sidecar, response=msgspec.structs.replace(sidecar.response, rawText=""))
        self._disk.publish(self._sidecar, msgspec.json.encode(bare), durable=True)
        self._disk.replace(str(self._part), str(self._raw))
        self._disk.sync_folder(self._raw.parent)
        self.write_document(text)

    def write_document(self, text: str) -> None:
        """The readable copy (S1-103); a projection, so no sync."""
        if self._document is not None:
            self._disk.publish(self._document, utf8(self._ledger.redactor.text(text)), durable=False)

    def _sync_part(self) -> None:
        fd = os.open(self._part, os.O_RDONLY)
        try:
            self._disk.sync(fd)
        finally:
            os.close(fd)

    def _attempt(self, number: int) -> Path:
        return Path(f"{self._stem}.attempt-{number}.raw.txt")


class _Stream:
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


class PastCall(Struct, frozen=True):
    """One recorded model call, as the audit and the budget read it."""

    key: str
    role: str
    agent: str
    phase: str
    status: str  # ok, failed, open
    provider: str
    model: str
    usage: Usage
    costUsd: float
    twice: bool
    raw: ArtifactRef | None
    error: ProviderFailure | None


def past_calls(events: list[Event]) -> list[PastCall]:
    """Every model call of a journal in order, paid or not."""
    intents: dict[str, Event] = {}
    calls: dict[str, PastCall] = {}
    for event in events:
        if event.payload.get("effect") != "ModelCall":
            continue
        key = event.payload["key"]
        if event.type == "PHASE_STARTED":
            intents[key] = event
        calls[key] = _past_call(intents[key], event)
    return list(calls.values())


def _past_call(intent: Event, event: Event) -> PastCall:
    outcome = event.payload.get("outcome")
    reply = msgspec.convert(outcome, ModelReply) if outcome else None
    error = event.payload.get("error")
    failure = msgspec.convert(error, ProviderFailure) if error and error.get("reason") == "provider" else None
    status = "open" if event.type == "PHASE_STARTED" else "failed" if error else "ok"
    return PastCall(
        key=intent.payload["key"],
        role=intent.payload["role"],
        agent=intent.payload["agent"],
        phase=str(intent.phase),
        status=status,
        provider=reply.provider if reply else "",
        model=reply.model if reply else "",
        usage=reply.usage if reply and not isinstance(reply.usage, UnsetType) else Usage(),
        costUsd=reply.costUsd if reply else 0.0,
        twice=bool(event.payload.get("redone")) and not (reply and reply.recovered),
        raw=reply.raw if reply else None,
        error=failure,
    )


def request_digest(request: ProviderRequest) -> str:
    """The identity of a request, whichever run makes it."""
    anonymous = msgspec.structs.replace(request, runId="")
    return "sha256:" + hashlib.sha256(msgspec.json.encode(anonymous, order="deterministic")).hexdigest()


def _none(error: ProviderFailure | UnsetType) -> ProviderFailure | None:
    return None if isinstance(error, UnsetType) else error
