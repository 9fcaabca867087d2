"""`orchestra models`: lists the available models with their prices; `models try` makes one call."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
from msgspec import UNSET, UnsetType

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.text import print_json, safe
from orchestra.core.cells import table
from orchestra.core.errors import ProviderError, UsageError
from orchestra.core.model import Constraints, Prompt, ProviderRequest, ProviderResponse
from orchestra.providers.offers import Offer, offers, reached
from orchestra.providers.spec import from_here

_SYSTEM = "Answer the user, briefly."


@click.group(invoke_without_command=True)
@click.option("--reach", is_flag=True, help="Ask each server which models it has; no model is called.")
@options.as_json
@options.project
@click.pass_context
def models(ctx: click.Context, reach: bool, as_json: bool, project: Path) -> int:
    """The available models, from the configuration and the environment, with context size and price.

    Nothing is contacted unless you give --reach; then the exit code is 6 if the default model is not reached. `*`
    marks the default.
    """
    if ctx.invoked_subcommand:
        return 0
    app = App(project)
    if reach:
        app.project.consent.require()  # --reach sends a key to each server
    listed = asyncio.run(_offers(app, reach=reach))
    code = 6 if reach and any(offer.default and not offer.ready for offer in listed) else 0
    if as_json:
        for offer in listed:
            print_json(offer)
        return code
    rows = [
        (
            f"{'*' if offer.default else ' '} {offer.name}",
            offer.model or "-",
            f"{offer.contextTokens // 1000}k" if offer.contextTokens else "-",
            f"{offer.inputUsd:g} / {offer.outputUsd:g}" if offer.inputUsd is not None else "-",
            "ready" if offer.ready else "not ready",
        )
        for offer in listed
    ]
    for line in table(("  provider", "model", "context", "$/M in / out", "state"), rows):
        click.echo(safe(line))
    for offer in listed:
        if offer.state != "ready":
            click.echo(f"{offer.name}: {safe(app.project.redactor.text(offer.state))}")
    if not any(offer.default for offer in listed):
        click.echo(f"no model is configured; {app.project.providers.ways}", err=True)
    return code


async def _offers(app: App, *, reach: bool) -> list[Offer]:
    providers = app.project.providers
    listed = offers(providers)
    if not reach:
        return listed
    return list(await asyncio.gather(*(reached(providers, offer) for offer in listed)))


@models.command(name="try")
@click.argument("words", nargs=-1, required=True, metavar="[NAME] PROMPT")
@click.option("--model", default="", envvar="ORCHESTRA_MODEL", metavar="NAME", help="Model name for the provider.")
@click.option("--max-tokens", type=click.IntRange(1), help="How long the reply may be.")
@click.option("--timeout", type=click.FloatRange(0.1, 86_400), default=120, show_default=True, help="Seconds.")
@options.project
def try_(words: tuple[str, ...], model: str, max_tokens: int | None, timeout: float, project: Path) -> int:
    """Make one call and stream the reply; its figures go to stderr.

    \b
    orchestra models try "Say hello in Korean."
    orchestra models try openai_compat:gpt-x "Say hello."
    """
    if len(words) > 2:
        raise UsageError('give a provider and one prompt: orchestra models try local "Say hello."')
    if not words[-1].strip():
        raise UsageError('the prompt is empty; say something: orchestra models try "Say hello."')
    app = App(project)
    app.project.consent.require()
    spec = from_here(words[0]) if len(words) == 2 else ""
    chosen = app.project.providers.routing(provider=spec, roles={}, model=model, budget=None)
    choice = app.project.providers.choose(chosen.default, model)
    provider = app.project.providers.make(choice)
    request = ProviderRequest(
        runId="",
        iteration=1,
        phase="plan",
        role="planner",
        prompt=Prompt(_SYSTEM, options.clean(words[-1])),
        contextArtifacts=(),
        constraints=Constraints(timeoutMs=int(timeout * 1000), patchFirst=False, maxOutputTokens=max_tokens or UNSET),
    )

    async def ask() -> ProviderResponse:
        try:
            return await provider.complete(request, _show)
        finally:
            await app.project.close()

    response = asyncio.run(ask())
    price = app.project.providers.price(choice)
    _figures(response, price.of(response.usage) if price else None)
    if not isinstance(response.error, UnsetType):
        message = app.project.redactor.text(response.error.message)
        raise ProviderError(response.error.code, message, retriable=response.error.retriable)
    return 0


def _show(text: str) -> None:
    sys.stdout.write("".join(c if c in "\n\t" else safe(c) for c in text))
    sys.stdout.flush()


def _figures(response: ProviderResponse, cost: float | None) -> None:
    if response.rawText and not response.rawText.endswith("\n"):
        click.echo()
    usage, seconds = response.usage, response.durationMs / 1000
    parts = [f"{response.finishReason} after {seconds:.1f} s"]
    if not isinstance(response.model, UnsetType):
        parts.append(response.model)
    if not isinstance(usage, UnsetType):
        cached = f" ({usage.cacheReadTokens} cached)" if usage.cacheReadTokens else ""
        parts.append(f"{usage.inputTokens or 0} tokens in{cached}, {usage.outputTokens or 0} out")
    known = cost if not isinstance(usage, UnsetType) else None
    own = response.costUsd if not isinstance(response.costUsd, UnsetType) else known
    parts.append("cost unknown" if own is None else f"${own:.4f}")
    click.echo(" · ".join(parts), err=True)
