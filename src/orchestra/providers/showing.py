"""What one model call is shown of the workspace: how many bytes fit, what goes in, and the line a person sees of it.

Rules
1. No more goes in than the model can read, and never more than `context.bytes` of the configuration.
2. Each call that shows files has one line for a person, just before its request; not a retry with the same request.
3. A withheld file is reported once: a person may think that the model has seen it.
4. What a person sees is masked like the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import UnsetType

from orchestra.core.faces import Face, Notice
from orchestra.core.ledger import Ledger
from orchestra.core.model import Gathered, ProviderRequest
from orchestra.core.records import now, utf8
from orchestra.core.sent import Sent, parts_of
from orchestra.core.shown import Receipt, Search
from orchestra.core.work import ModelCall
from orchestra.providers.contract import Recalls, Route, request_digest

View = Callable[[Search | None, int], Gathered]  # None: no files are wanted; bytes at most
CONTEXT_BYTES = 200_000  # of workspace files in a prompt, where the model can read as much
SPARE_TOKENS = 512  # added by a chat format


class Showing:
    """What the calls of one run are shown."""

    def __init__(self, view: View, ledger: Ledger, face: Face, *, most: int = CONTEXT_BYTES) -> None:
        """`most` is the configured limit of bytes (rule 1)."""
        self._view = view
        self._ledger = ledger
        self._face = face
        self._most = most
        self._told: set[str] = set()

    async def gathered(self, effect: ModelCall, total: int) -> Gathered:
        """The project's rules and files for a call, in so many bytes."""
        # In a thread: a big workspace takes a while to read, and other branches need not wait for it.
        return await asyncio.to_thread(self._view, _search(effect) if effect.files else None, total)

    def bytes(self, effect: ModelCall, key: str, route: Route, max_output: int) -> int:
        """How many bytes of files this call is shown at most (rule 1)."""
        if isinstance(route.provider, Recalls):
            return route.provider.context_of(key) or self._most
        limit = route.provider.capabilities.maxContextTokens
        if isinstance(limit, UnsetType):
            return self._most
        said = (message.content for message in effect.history)
        texts = (effect.prompt.system, *said, effect.prompt.user, *(note.content for note in effect.notes))
        rest = limit - min(max_output or limit // 4, limit // 2) - SPARE_TOKENS
        used = sum(len(utf8(text)) for text in texts)
        return max(1, min(self._most, route.bytes_per_token * rest - used))

    def tell(self, effect: ModelCall, request: ProviderRequest, found: Gathered) -> None:
        """Report what a request shows (rule 2), and each withheld file (rule 3)."""
        if effect.files:
            self._once(f"{effect.artifact} {request_digest(request)}", found.receipt.line, progress=True)
        for withheld in found.withheld:
            self._once(str(withheld), str(withheld))

    def _once(self, name: str, text: str, *, progress: bool = False) -> None:
        if name not in self._told:
            self._told.add(name)
            masked = self._ledger.redactor.text(text)
            self._face.tell(Notice(self._ledger.folder.id, masked, progress=progress))


def sent_record(key: str, route: Route, request: ProviderRequest, found: Gathered) -> Sent:
    """The record of a request that is about to be made."""
    return Sent(
        key=key,
        at=now(),
        provider=route.name,
        model=route.model,
        to=route.to,
        parts=parts_of(request, found),
        withheld=found.withheld,
        receipt=found.receipt if found.receipt != Receipt(method="none") else None,
    )


def shown_files(found: Gathered) -> tuple[str, ...]:
    """The workspace files of which at least one line is shown."""
    outlined = {file.path for file in found.receipt.files}.difference(file.path for file in found.receipt.contents)
    return tuple(a.path for a in found.artifacts if a.path not in ("", ".") and a.path not in outlined)


def _search(effect: ModelCall) -> Search:
    return Search(
        hints=effect.hints,
        traces=() if isinstance(effect.traces, UnsetType) else effect.traces,
        wanted=() if isinstance(effect.wanted, UnsetType) else effect.wanted,
        mayAsk=effect.mayAsk is True,
        inJson=not isinstance(effect.constraints.schema, UnsetType),
    )
