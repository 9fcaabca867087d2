"""The replay provider: a recorded reply within the bounds of a reply is given again, and no other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from orchestra.core.model import Form, ProviderFailure
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.providers.bounds import MOST_TEXT
from orchestra.providers.contract import request_digest
from orchestra.providers.replay import ReplayProvider
from tests.support.models import request


def answered(path: Path, key: str, text: str, asked: str) -> Event:
    """The event of a call that was answered with this text; its raw reply is in the run's folder."""
    folder = RunFolder(path)
    raw = folder.artifact(f"{key}.raw.txt")
    raw.parent.mkdir(exist_ok=True)
    raw.write_text(text)
    outcome = {"request": asked, "raw": msgspec.to_builtins(folder.reference(raw, raw.read_bytes()))}
    payload = {"effect": "ModelCall", "key": key, "role": "planner", "outcome": outcome}
    return Event("00000002", "r", "2026-01-01T00:00:00Z", "PHASE_COMPLETED", payload)


@pytest.mark.parametrize(("size", "is_given"), [(0, True), (MOST_TEXT, True), (MOST_TEXT + 1, False)])
def test_a_recorded_reply_may_be_as_long_as_a_reply_and_no_longer(tmp_path: Path, size: int, is_given: bool) -> None:
    recorded = answered(tmp_path, "plan.1", "x" * size, request_digest(request()))
    heard: list[str] = []
    response = asyncio.run(ReplayProvider(RunFolder(tmp_path), [recorded]).complete(request(), heard.append))
    if is_given:
        assert len(response.rawText) == size and heard == [response.rawText]
    else:
        assert isinstance(response.error, ProviderFailure) and heard == []
        assert "the raw reply of step plan.1" in response.error.message


def test_a_run_recorded_before_forms_of_replies_answers_requests_that_name_one(tmp_path: Path) -> None:
    """The digest is that of the code before `form`. The same words ask for the same reply and share the replies."""
    held = "sha256:ff7cd034405c59d5987eafd12c4c96bab8cd7d79e5b51d0968aaeb289e21b175"
    forms = get_args(Form)
    assert {request_digest(request()), *(request_digest(request(form=form)) for form in forms)} == {held}
    recorded = [answered(tmp_path, f"plan.{number}", f"{form}의 답", held) for number, form in enumerate(forms)]
    provider = ReplayProvider(RunFolder(tmp_path), recorded)
    given = [asyncio.run(provider.complete(request(form=form), lambda token: None)) for form in forms]
    assert [one.rawText for one in given] == [f"{form}의 답" for form in forms]
    spent = asyncio.run(provider.complete(request(form=forms[0]), lambda token: None))
    assert isinstance(spent.error, ProviderFailure) and "has no recorded reply to this request" in spent.error.message
