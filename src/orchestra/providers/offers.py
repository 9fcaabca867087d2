"""Offers: what `orchestra models` prints of each provider. Only `reached` contacts a server; no model is called."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct, UnsetType

from orchestra.config.sections import KINDS
from orchestra.core.errors import UsageError
from orchestra.core.text import some
from orchestra.providers.choose import Providers
from orchestra.providers.setup import WAYS, Choice


class Offer(Struct, frozen=True, kw_only=True):
    """One line of `orchestra models`."""

    name: str
    kind: str
    model: str = ""
    contextTokens: int = 0
    inputUsd: float | None = None  # per million tokens
    outputUsd: float | None = None
    default: bool = False
    ready: bool = False
    state: str = ""
    models: tuple[str, ...] = ()  # the server's own list, if it was requested


@runtime_checkable
class Lists(Protocol):
    """A provider whose server can list its models; OSError if the server does not answer."""

    async def models(self) -> list[str]: ...


def offers(providers: Providers) -> list[Offer]:
    """Every configured provider, and every kind that the environment could offer."""
    usual = providers.default()
    names = [*providers.names, *(k for k in KINDS if k not in ("scripted", "replay"))]
    return [_offer(providers, name, usual) for name in dict.fromkeys(names)]


def _offer(providers: Providers, name: str, usual: str) -> Offer:
    try:
        choice = providers.choose(name)
    except UsageError as error:
        return Offer(name=name, kind="", state=str(error))
    return offer(providers, choice, name, default=name == usual)


def offer(providers: Providers, choice: Choice, name: str, *, default: bool = False) -> Offer:
    """What is known of a choice without contacting a server."""
    price, context, model, problem = providers.price(choice), choice.context_tokens, choice.model, ""
    try:
        can = providers.make(choice).capabilities
        context, model = can.maxContextTokens, model or (can.version or "" if choice.kind == "local" else "")
    except UsageError as error:
        problem = str(error).partition(f"; {WAYS}")[0].removeprefix("provider ")
        problem = problem.removeprefix(choice.kind).removeprefix(name).lstrip(": ")
    return Offer(
        name=name,
        kind=choice.kind,
        model=model,
        contextTokens=0 if isinstance(context, UnsetType) else context,
        inputUsd=price.input if price else None,
        outputUsd=price.output if price else None,
        default=default,
        ready=not problem,
        state=problem or "ready",
    )


async def reached(providers: Providers, offer: Offer) -> Offer:
    """The offer, with the list of models that its server returned."""
    provider: Any = providers.make(providers.choose(offer.name)) if offer.ready else None
    if not isinstance(provider, Lists):
        return offer
    try:
        models = tuple(await provider.models())
    except OSError as error:
        return msgspec.structs.replace(offer, ready=False, state=f"not reached: {error}")
    shown = some(models, 5)
    return msgspec.structs.replace(offer, models=models, state=f"reached; has {shown or 'no model'}")
