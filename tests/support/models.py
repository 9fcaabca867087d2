"""Live providers for tests, on loopback: adapters over our model server, the real claude CLI, the embedded model."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestra.app import App
from orchestra.core.model import (
    Constraints,
    ContextArtifact,
    OnToken,
    Prompt,
    Provider,
    ProviderCapabilities,
    ProviderFailure,
    ProviderRequest,
    ProviderResponse,
)

CLAUDE = Path(sys.prefix) / "claude" / "node_modules" / ".bin" / "claude"
KEY = "sk-test-0123456789abcdef"
USUAL: Mapping[str, str] = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
needs_claude = pytest.mark.skipif(not CLAUDE.exists(), reason="the claude CLI is not installed (make test-setup, npm)")


def request(user: str = "# Goal\n\nadd", *, timeout: float = 20, **constraints: Any) -> ProviderRequest:
    """A plain request, with one file as context."""
    return ProviderRequest(
        runId="2026-01-31_001_loop_x",
        iteration=1,
        phase="plan",
        role="planner",
        prompt=Prompt(system="계획을 세워라", user=user),
        contextArtifacts=(ContextArtifact("calc.py", "calc.py", "def add(a, b): ...\n"),),
        constraints=Constraints(timeoutMs=int(timeout * 1000), patchFirst=False, **constraints),
        callId="0b6c0a7e-0000-5000-8000-000000000001",
    )


class Line:
    """An App on an empty folder, whose provider is asked directly."""

    def __init__(
        self,
        folder: Path,
        spec: str,
        url: str = "",
        *,
        model: str = "wire-model",
        keys: Mapping[str, str] = USUAL,
        **entry: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"    {name}: {value}\n" for name, value in {"kind": spec, **entry}.items())
        (folder / "orchestra.config.yaml").write_text(f"providers:\n  it:\n{lines}")
        environ = {**os.environ, "PATH": f"{CLAUDE.parent}:{os.environ['PATH']}"}
        environ |= keys
        if url:
            environ |= {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url}
        self.app = App(folder, environ=environ)
        self.provider: Provider = self.app.project.providers.make(self.app.project.providers.choose("it", model))

    @property
    def capabilities(self) -> ProviderCapabilities:
        return self.provider.capabilities

    async def complete(self, asked: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        """As a provider, that leaves no process when it has answered."""
        try:
            return await self.provider.complete(asked, on_token)
        finally:
            await self.app.project.close()

    def ask(self, asked: ProviderRequest | None = None) -> tuple[ProviderResponse, str]:
        """The response, and what was streamed."""
        return asyncio.run(self.ask_async(asked))

    async def ask_async(self, asked: ProviderRequest | None = None) -> tuple[ProviderResponse, str]:
        tokens: list[str] = []
        return await self.complete(asked or request(), tokens.append), "".join(tokens)


def failure(response: ProviderResponse) -> ProviderFailure:
    """The error of a response that must have one."""
    assert isinstance(response.error, ProviderFailure), response
    return response.error
