"""Calling a model: everything around a provider that must exist once. Handler of `ModelCall`.

Rules
1. Raw first (D-05): see rawfiles.py. After a crash, a whole raw file without its outcome event is taken as the reply
   and not paid for again (S1-121). An intent without one is called again, and the audit says "possibly paid twice".
2. Time limit, usage, cost and budget are here, for all providers. Retries are the context's (they are
   steps with names).
3. What goes into a prompt is redacted (C-12).
4. A provider that misbehaves (a finish reason of failure without its error) is held to the contract here (S1-38,
   S1-39).
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct, UnsetType

from orchestra.core.calls import PastCall, past_calls
from orchestra.core.context import Step
from orchestra.core.errors import BudgetReached, StepFailed
from orchestra.core.ledger import Ledger
from orchestra.core.model import ContextArtifact, Provider, ProviderFailure, ProviderRequest, ProviderResponse, Usage
from orchestra.core.records import ArtifactRef, Phase, Role, utf8
from orchestra.core.run import digest
from orchestra.core.work import ModelCall, ModelReply
from orchestra.providers.rawfiles import CallFiles, Sidecar

Gather = Callable[[tuple[str, ...]], tuple[ContextArtifact, ...]]
OnStream = Callable[[str, str], None]  # step key, text
GRACE_SECONDS = 1.0
_ATTEMPT = re.compile(r"(\.attempt-\d+)?\.raw\.txt$")


@runtime_checkable
class Remembers(Protocol):
    """A provider whose answers depend on what it answered before, across processes."""

    def remember(self, call: PastCall) -> None: ...


@runtime_checkable
class Serves(Protocol):
    """A provider that has only some roles' answers, and knows which."""

    def serves(self, role: Role, phase: Phase, agent: str = "") -> bool: ...


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
        self._attempts: dict[str, list[ArtifactRef]] = {}  # artifact -> the raw files of its recorded attempts
        for call in past_calls(ledger.events):
            if call.raw is not None:
                artifact = _ATTEMPT.sub("", call.raw.path).removeprefix("artifacts/")
                self._attempts.setdefault(artifact, []).append(call.raw)
        self._route = route
        self._gather = gather
        self._on_stream = on_stream
        self._budget_usd = budget_usd

    def guard(self, effect: ModelCall) -> None:
        """Refuse the next call, before it looks begun: no such provider, or the budget is spent."""
        self._route(effect)
        if self._budget_usd is None:
            return
        spent = sum(call.costUsd for call in past_calls(self._ledger.events))
        if spent >= self._budget_usd:
            run = self._ledger.folder.id
            raise BudgetReached(
                f"run {run}: ${spent:.4f} of ${self._budget_usd:.4f} spent. "
                f"To go on: orchestra resume {run} --max-budget-usd {2 * max(spent, self._budget_usd):g}"
            )

    async def __call__(self, effect: ModelCall, step: Step) -> ModelReply:
        """Have the reply: from disk if an earlier process got it whole, else from the provider."""
        attempts = self._attempts.setdefault(effect.artifact, [])
        files = CallFiles(effect.artifact, effect.document, step.ledger, earlier=attempts)
        found = files.whole(step.key) if step.redo else None
        recovered = found is not None
        text, sidecar = found or await self._call(effect, step, files)
        data = utf8(text)
        raw = ArtifactRef(
            path=str(files.target(sidecar).relative_to(step.ledger.folder.path)), bytes=len(data), sha256=digest(data)
        )
        attempts.append(raw)
        if recovered:
            self._remember(effect, sidecar, raw, step)
        reply = _reply(text, sidecar, raw, step, recovered=recovered)
        return msgspec.structs.replace(reply, document=files.write_document(text))

    def _remember(self, effect: ModelCall, sidecar: Sidecar, raw: ArtifactRef, step: Step) -> None:
        """Tell a provider that keeps count of a reply it gave in an earlier life."""
        provider = self._route(effect).provider
        if isinstance(provider, Remembers):
            error, source = sidecar.response.error, sidecar.response.source
            call = PastCall(
                key=step.key,
                role=effect.role,
                raw=raw,
                error=None if isinstance(error, UnsetType) else error,
                request=sidecar.request,
                source="" if isinstance(source, UnsetType) else source,
            )
            provider.remember(call)

    async def _call(self, effect: ModelCall, step: Step, files: CallFiles) -> tuple[str, Sidecar]:
        route = self._route(effect)
        request = await self._request(effect, step)
        response = await self._ask(route.provider, request, files, step)
        text = utf8(response.rawText).decode()
        sidecar = Sidecar(
            key=step.key,
            response=response,
            provider=route.name,
            model=route.model,
            request=request_digest(request),
            files=tuple(a.path for a in request.contextArtifacts if a.path not in ("", ".")),
            costUsd=route.price.of(response.usage),
        )
        files.complete(text, sidecar)
        return text, sidecar

    async def _request(self, effect: ModelCall, step: Step) -> ProviderRequest:
        mask = step.ledger.redactor.text
        # In a thread: a big workspace takes a while to read, and other branches need not wait for it.
        found = await asyncio.to_thread(self._gather, effect.hints) if effect.files else ()
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

    async def _ask(
        self, provider: Provider, request: ProviderRequest, files: CallFiles, step: Step
    ) -> ProviderResponse:
        began = time.monotonic()
        stream = files.begin(request)

        def arrived(text: str) -> None:
            stream.add(text)
            self._on_stream(step.key, text)

        try:
            # A provider keeps the limit itself and says TIMEOUT (S1-38); this is the net under one that does not.
            async with asyncio.timeout(request.constraints.timeoutMs / 1000 + GRACE_SECONDS):
                return _held_to_contract(await provider.complete(request, arrived))
        except TimeoutError:
            return late(request, stream.text, time.monotonic() - began)
        finally:
            stream.close()


def _held_to_contract(response: ProviderResponse) -> ProviderResponse:
    """A failure says why: one without its error gets one (rule 4)."""
    if response.finishReason in ("stop", "length") or not isinstance(response.error, UnsetType):
        return response
    what = "timed out" if response.finishReason == "timeout" else "failed"
    failure = ProviderFailure(
        code="TIMEOUT" if response.finishReason == "timeout" else "UNKNOWN",
        message=f"the provider {what} and did not say why",
        retriable=True,
    )
    return msgspec.structs.replace(response, error=failure)


def late(request: ProviderRequest, text: str, seconds: float) -> ProviderResponse:
    """The response of a call that ran out of time, with what had arrived (S1-38)."""
    message = f"no complete reply within {request.constraints.timeoutMs} ms (raise loop.timeout_ms)"
    failure = ProviderFailure(code="TIMEOUT", message=message, retriable=True)
    return ProviderResponse(rawText=text, finishReason="timeout", durationMs=int(seconds * 1000), error=failure)


def _reply(text: str, sidecar: Sidecar, raw: ArtifactRef, step: Step, *, recovered: bool) -> ModelReply:
    response = sidecar.response
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
        source=response.source,
        recovered=recovered,
    )
    if isinstance(response.error, UnsetType):
        return reply
    raise StepFailed(
        step.key,
        response.error.code,
        response.error.message,
        reason="provider",
        retriable=response.error.retriable,
        details={"outcome": msgspec.to_builtins(reply)},
    )


def request_digest(request: ProviderRequest) -> str:
    """The identity of a request, whichever run makes it."""
    anonymous = msgspec.structs.replace(request, runId="")
    return "sha256:" + hashlib.sha256(msgspec.json.encode(anonymous, order="deterministic")).hexdigest()
