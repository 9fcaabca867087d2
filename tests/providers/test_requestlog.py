"""The log of requests, for who looks for what a model was sent: its lines, field by field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.core.model import ChatMessage
from orchestra.providers.requestlog import NAME, log_request
from tests.support.core import open_ledger
from tests.support.models import request

NONE = {"timeoutMs": 20_000, "schema": False, "stream": True}


class Bypassing:
    """A provider that begins a reply with an empty think block."""

    def bypasses_thinking(self, request: object) -> bool:
        return True


@pytest.mark.parametrize(
    ("constraints", "logged"),
    [
        ({}, NONE),
        ({"stream": False, "schema": {"type": "object"}}, {**NONE, "schema": True, "stream": False}),
        (
            {"maxOutputTokens": 77, "temperature": 0.0, "topP": 0.5},
            {**NONE, "maxOutputTokens": 77, "temperature": 0.0, "topP": 0.5},
        ),
    ],
)
def test_a_line_has_what_was_asked_for(tmp_path: Path, constraints: dict[str, Any], logged: dict[str, Any]) -> None:
    ledger = open_ledger(tmp_path / "run")
    asked = msgspec.structs.replace(request("가" * 201, **constraints), messages=(ChatMessage("user", "묻는다"),))
    for provider, agent in ((object(), ""), (Bypassing(), "builder")):
        one = msgspec.structs.replace(asked, agent=agent) if agent else asked
        log_request(ledger, "plan.1", one, provider=provider, name="it", model="m")
    ledger.close()
    lines = [json.loads(line) for line in (ledger.folder.logs / NAME).read_text(encoding="utf-8").splitlines()]
    assert [(line["agent"], line["thinkBypass"]) for line in lines] == [("", False), ("builder", True)]
    for line in lines:
        assert line["constraints"] == logged
        assert (line["key"], line["role"], line["provider"], line["model"]) == ("plan.1", "planner", "it", "m")
        assert (line["systemChars"], line["userChars"], line["userBegins"]) == (7, 201, "가" * 200)
        assert line["messages"] == [{"role": "user", "chars": 3, "tokens": 3}]
        assert line["context"] == [{"name": "calc.py", "chars": 19, "tokens": 7}]


def test_a_known_secret_is_masked_and_the_log_is_for_its_owner_only(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "run")
    log_request(ledger, "plan.1", request("s3cr3t-value-1234"), provider=None, name="it", model="m")
    ledger.close()
    path = ledger.folder.logs / NAME
    assert "***REDACTED***" in path.read_text() and "s3cr3t" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
