"""The replay provider: a recorded reply within the bounds of a reply is given again, and no other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from orchestra.core.model import ProviderFailure
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.providers.bounds import MOST_TEXT
from orchestra.providers.contract import request_digest
from orchestra.providers.replay import ReplayProvider
from tests.support.models import request


@pytest.mark.parametrize(("size", "is_given"), [(0, True), (MOST_TEXT, True), (MOST_TEXT + 1, False)])
def test_a_recorded_reply_may_be_as_long_as_a_reply_and_no_longer(tmp_path: Path, size: int, is_given: bool) -> None:
    folder = RunFolder(tmp_path)
    raw = folder.artifact("plan.raw.txt")
    raw.parent.mkdir()
    raw.write_bytes(b"x" * size)
    outcome = {
        "request": request_digest(request()),
        "raw": msgspec.to_builtins(folder.reference(raw, raw.read_bytes())),
    }
    payload = {"effect": "ModelCall", "key": "plan.1", "role": "planner", "outcome": outcome}
    recorded = Event("00000002", "r", "2026-01-01T00:00:00Z", "PHASE_COMPLETED", payload)
    heard: list[str] = []
    response = asyncio.run(ReplayProvider(folder, [recorded]).complete(request(), heard.append))
    if is_given:
        assert len(response.rawText) == size and heard == [response.rawText]
    else:
        assert isinstance(response.error, ProviderFailure) and heard == []
        assert "the raw reply of step plan.1" in response.error.message
