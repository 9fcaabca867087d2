"""logs/llm-requests.log: a summary of every request to a model, if `DEBUG_LLM_REQUESTS=true` (S5-72 … S5-74)."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import UnsetType

from orchestra.core.disk import PRIVATE
from orchestra.core.ledger import Ledger
from orchestra.core.model import ProviderRequest
from orchestra.core.records import utc
from orchestra.core.text import estimated_tokens

NAME = "llm-requests.log"


@runtime_checkable
class Bypasses(Protocol):
    """A provider that can begin a reply with an empty think block, and reports whether it will."""

    def bypasses_thinking(self, request: ProviderRequest) -> bool: ...


def log_request(ledger: Ledger, key: str, request: ProviderRequest, *, provider: object, name: str, model: str) -> None:
    """Append one line to the log."""
    record = {
        "ts": utc(datetime.now(UTC)),
        "key": key,
        "role": request.role,
        "agent": "" if isinstance(request.agent, UnsetType) else request.agent,
        "provider": name,
        "model": model,
        "systemChars": len(request.prompt.system),
        "userChars": len(request.prompt.user),
        "userBegins": request.prompt.user[:200],
        "messages": [
            {"role": m.role, "chars": len(m.content), "tokens": estimated_tokens(m.content)} for m in request.history
        ],
        "context": [
            {"name": a.name, "chars": len(a.content), "tokens": estimated_tokens(a.content)}
            for a in request.contextArtifacts
        ],
        "constraints": {
            "timeoutMs": request.constraints.timeoutMs,
            "schema": not isinstance(request.constraints.schema, UnsetType),
            "stream": request.constraints.stream is not False,
            **{
                name: value
                for name in ("maxOutputTokens", "temperature", "topP")
                if not isinstance(value := getattr(request.constraints, name), UnsetType)
            },
        },
        "thinkBypass": isinstance(provider, Bypasses) and provider.bypasses_thinking(request),
    }
    line = ledger.redactor.data(msgspec.json.encode(record)) + b"\n"
    ledger.folder.logs.mkdir(exist_ok=True)
    fd = os.open(ledger.folder.logs / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE)
    try:
        ledger.disk.append(fd, line)
    finally:
        os.close(fd)
