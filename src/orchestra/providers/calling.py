"""Calling a model: everything around a provider that must exist once. Handler of `ModelCall`.

Rules
1. Raw first (D-05): see rawfiles.py. After a crash, a whole raw file without its outcome event is taken as the reply
   and not paid for again (S1-121). An intent without one is called again, and the audit reports "possibly twice"; what
   the interrupted request may have cost counts as spent, now and, with the reply, in every later process.
2. Time limit, usage, cost and budget (budget.py) are here, for all providers. Retries are the context's (they are
   steps with names). Usage that a provider does not report is estimated, and marked so.
3. What goes into a prompt is redacted (C-12). What is shown of the workspace, and how much, is showing.py's.
4. A reply that asks to see more (`ModelCall.asking`) is no document. A model that a schema binds can ask only where
   not everything is shown: a small one would ask for what it has.
5. A provider that breaks its contract (a failure without its error, a reply beyond its bounds) is corrected here
   (contract.py; S1-38, S1-39).
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UnsetType

from orchestra.core.calls import Asked, PastCall, past_calls
from orchestra.core.context import Step
from orchestra.core.errors import StepFailed
from orchestra.core.faces import Face, Token
from orchestra.core.ledger import Ledger
from orchestra.core.model import (
    ChatMessage,
    Constraints,
    ContextArtifact,
    Gathered,
    Provider,
    ProviderRequest,
    ProviderResponse,
)
from orchestra.core.records import ArtifactRef, utf8
from orchestra.core.run import digest
from orchestra.core.sent import Sent
from orchestra.core.shown import asks_for_more
from orchestra.core.work import ModelCall, ModelReply
from orchestra.providers.bounds import TooLong, bounds, cut
from orchestra.providers.budget import Budget
from orchestra.providers.contract import (
    Remembers,
    Route,
    cost_of,
    counted,
    held_to_contract,
    late,
    request_digest,
)
from orchestra.providers.prompting import context, most_tokens
from orchestra.providers.rawfiles import CallFiles, Sidecar
from orchestra.providers.requestlog import log_request
from orchestra.providers.showing import SPARE_TOKENS, Showing, sent_record, shown_files

GRACE_SECONDS = 1.0
_CALLS = uuid.UUID("6f0d0f0e-4c1b-5e0b-9d5e-0c7f1d9d6a11")  # of call ids
_ATTEMPT = re.compile(r"(\.attempt-\d+)?\.raw\.txt$")


class Caller:
    """Handler of ModelCall for one run."""

    def __init__(
        self,
        ledger: Ledger,
        route: Callable[[ModelCall], Route],
        *,
        showing: Showing,
        face: Face,
        budget: Budget,
        debug: bool = False,
    ) -> None:
        self._ledger = ledger
        self._attempts: dict[str, list[ArtifactRef]] = {}  # artifact -> the raw files of its recorded attempts
        self._budget = budget
        self._gathered: dict[str, Gathered] = {}  # step key -> what `guard` has read for it
        self._lost: dict[str, float | None] = {}  # step key -> what its interrupted requests may have cost, by `guard`
        self._debug = debug
        for call in past_calls(ledger.events):
            if call.raw is not None:
                artifact = _ATTEMPT.sub("", call.raw.path).removeprefix("artifacts/")
                self._attempts.setdefault(artifact, []).append(call.raw)
        self._route = route
        self._showing = showing
        self._face = face

    async def guard(self, effect: ModelCall, key: str, *, redo: bool) -> Mapping[str, Any] | None:
        """Refuse the next call before its intent is recorded: there is no such provider, or the budget is too small.

        The intent gets the amount that is reserved for the call, so that a later process can count it.
        """
        route = self._route(effect)
        if self._budget.cap is None and not redo:
            return None
        files = self._files(effect)
        if redo and files.whole(key):
            return None
        self._gathered[key] = await self._context(effect, key, route)
        shown = context((*self._gathered[key].artifacts, *_notes(effect)))
        said = (message.content for message in effect.history)
        tokens = sum(map(most_tokens, (effect.prompt.system, *said, effect.prompt.user, shown))) + SPARE_TOKENS
        most = route.price.at_most(tokens, self._max_output(effect, route)) if route.price else None
        if redo:
            self._lost[key] = _lost(files.cut_off(key), most)
            self._budget.cut_off(self._named(key), self._lost[key] or 0.0)
        await self._budget.set_aside(self._named(key), most or 0.0)
        return {"mostUsd": most} if most and self._budget.cap is not None else None

    def _named(self, key: str) -> str:
        """A step by a name of its own in the whole tree: keys are a run's own."""
        return self._budget.named(self._ledger.folder.id, key)

    def _files(self, effect: ModelCall) -> CallFiles:
        attempts = self._attempts.setdefault(effect.artifact, [])
        return CallFiles(effect.artifact, effect.document, self._ledger, earlier=attempts)

    def _max_output(self, effect: ModelCall, route: Route) -> int:
        return effect.constraints.maxOutputTokens or route.max_output

    async def __call__(self, effect: ModelCall, step: Step) -> ModelReply:
        """The reply: from disk if an earlier process stored it whole, else from the provider."""
        attempts = self._attempts.setdefault(effect.artifact, [])
        files = self._files(effect)
        found = files.whole(step.key) if step.redo else None
        recovered = found is not None
        data, sidecar = found or await self._call(effect, step, files)
        raw = ArtifactRef(
            path=str(files.target(sidecar).relative_to(step.ledger.folder.path)), bytes=len(data), sha256=digest(data)
        )
        attempts.append(raw)
        if recovered:  # paid by an earlier process that could not record it
            self._budget.cut_off(self._named(step.key), sidecar.lostUsd or 0.0)
            self._budget.settle(self._named(step.key), sidecar.costUsd or 0.0)
            self._remember(effect, sidecar, raw, step)
        reply = _reply(data, sidecar, raw, step, recovered=recovered)
        if effect.asking and asks_for_more(reply.text, effect.asking):
            return reply
        return msgspec.structs.replace(reply, document=files.write_document(reply.text))

    def _remember(self, effect: ModelCall, sidecar: Sidecar, raw: ArtifactRef, step: Step) -> None:
        """Report a reply that an earlier process got to a provider that counts its replies."""
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

    async def _call(self, effect: ModelCall, step: Step, files: CallFiles) -> tuple[bytes, Sidecar]:
        route = self._route(effect)
        cost: float | None = 0.0
        lost = self._lost.pop(step.key, None)
        asked = files.ask_again(step.key, lost) if step.redo else 1
        try:
            found = self._gathered.pop(step.key, None) or await self._context(effect, step.key, route)
            request = self._request(effect, step, route, found)
            sent = sent_record(step.key, route, request, found)
            self._showing.tell(effect, request, found)
            if self._debug:
                log_request(step.ledger, step.key, request, provider=route.provider, name=route.name, model=route.model)
            response = counted(await self._ask(effect, route.provider, request, sent, files, step), request, route)
            cost = cost_of(response, route)
        finally:
            self._budget.settle(self._named(step.key), cost or 0.0)
        data = utf8(response.rawText)
        response = msgspec.structs.replace(response, rawText="")  # the raw file has it; it may be long
        sidecar = Sidecar(
            key=step.key,
            response=response,
            provider=route.name,
            model=route.model if isinstance(response.model, UnsetType) else response.model,
            request=request_digest(request),
            files=shown_files(found),
            parts=found.receipt.parts,
            costUsd=cost,
            contextBytes=self._bytes(effect, step.key, route),
            asked=asked,
            lostUsd=lost,
            to=route.to,
            withheld=found.withheld,
        )
        files.complete(data, sidecar)
        return data, sidecar

    async def _context(self, effect: ModelCall, key: str, route: Route) -> Gathered:
        return await self._showing.gathered(effect, self._bytes(effect, key, route))

    def _bytes(self, effect: ModelCall, key: str, route: Route) -> int:
        return self._showing.bytes(effect, key, route, self._max_output(effect, route))

    def _request(self, effect: ModelCall, step: Step, route: Route, found: Gathered) -> ProviderRequest:
        mask = step.ledger.redactor.text
        constraints = _constraints(effect, found)
        if self._budget.cap is not None and (most := self._max_output(effect, route)):
            constraints = msgspec.structs.replace(constraints, maxOutputTokens=most)  # no more was set aside
        return ProviderRequest(
            runId=step.ledger.folder.id,
            iteration=step.iteration,
            phase=step.phase,
            role=effect.role,
            prompt=effect.prompt,
            contextArtifacts=tuple(
                ContextArtifact(name=a.name, path=a.path, content=mask(a.content))
                for a in (*found.artifacts, *_notes(effect))
            ),
            constraints=constraints,
            agent=effect.agent,
            callId=str(uuid.uuid5(_CALLS, f"{step.ledger.folder.id} {step.key}")),
            messages=effect.messages
            if isinstance(effect.messages, UnsetType)
            else tuple(ChatMessage(message.role, mask(message.content)) for message in effect.messages),
        )

    async def _ask(
        self, effect: ModelCall, provider: Provider, request: ProviderRequest, sent: Sent, files: CallFiles, step: Step
    ) -> ProviderResponse:
        began = time.monotonic()
        stream = files.begin(request, sent)
        most = bounds(request.constraints.maxOutputTokens)
        room, shown, tell = most.text, request.constraints.stream is not False, self._face.tell  # for every token

        def arrived(text: str) -> None:
            taken = cut(text, room - stream.size)
            stream.add(taken)
            if shown:  # S5-26
                tell(Token(request.runId, step.key, effect.role, effect.agent, taken))
            if taken != text:  # a live provider ends before that (reading.py); this is for all others
                raise TooLong(most.text_passed)

        try:
            # A provider keeps the limit itself and returns TIMEOUT (S1-38); this is for one that does not.
            async with asyncio.timeout(request.constraints.timeoutMs / 1000 + GRACE_SECONDS):
                return held_to_contract(await provider.complete(request, arrived), most)
        except TimeoutError:
            return late(request, stream.text, time.monotonic() - began)
        except TooLong as passed:
            failure, seconds = most.failure(str(passed)), time.monotonic() - began
            return ProviderResponse(
                rawText=stream.text, finishReason="error", durationMs=int(seconds * 1000), error=failure
            )
        finally:
            stream.close()


def _lost(cut_off: Asked, most: float | None) -> float | None:
    """What interrupted requests may have cost, if the next costs at most `most`; None if it is unknown."""
    if most is None:
        return cut_off.lostUsd
    if cut_off.lostUsd is None:
        return most * cut_off.times
    return cut_off.lostUsd + most  # of the last one, which was interrupted since


def _reply(data: bytes, sidecar: Sidecar, raw: ArtifactRef, step: Step, *, recovered: bool) -> ModelReply:
    response = sidecar.response
    failed = not isinstance(response.error, UnsetType)
    reply = ModelReply(
        # No flow reads half a reply; of a failed reply the raw file is kept.
        text="" if failed else step.ledger.redactor.data(data).decode("utf-8", "replace"),
        raw=raw,
        finishReason=response.finishReason,
        durationMs=response.durationMs,
        provider=sidecar.provider,
        model=sidecar.model,
        usage=response.usage,
        costUsd=sidecar.costUsd,
        files=sidecar.files,
        parts=sidecar.parts,
        request=sidecar.request,
        source=response.source,
        recovered=recovered,
        contextBytes=sidecar.contextBytes,
        asked=sidecar.asked,
        requests=response.requests,
        lostUsd=sidecar.lostUsd,
        to=sidecar.to,
        withheld=sidecar.withheld,
    )
    if isinstance(response.error, UnsetType):
        return reply
    raise StepFailed(
        step.key,
        response.error.code,
        response.error.message,
        reason="provider",
        retriable=response.error.retriable,
        retry_after=response.error.retryAfterSec,
        details={"outcome": msgspec.to_builtins(reply)},
    )


def _constraints(effect: ModelCall, found: Gathered) -> Constraints:
    """The constraints of a call. A reply with a schema may ask only where there is something to ask for (rule 4)."""
    schema, asking = effect.constraints.schema, effect.askSchema
    if found.everything or isinstance(schema, UnsetType) or isinstance(asking, UnsetType):
        return effect.constraints
    return msgspec.structs.replace(effect.constraints, schema={"anyOf": [schema, asking]})


def _notes(effect: ModelCall) -> tuple[ContextArtifact, ...]:
    return tuple(ContextArtifact(name=note.name, path="", content=note.content) for note in effect.notes)
