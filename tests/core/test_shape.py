"""Payloads are held against the records of core/reading.py."""

from __future__ import annotations

from typing import Any

import msgspec

from orchestra.core import effects, shape, work
from orchestra.core.effects import Effect
from orchestra.core.reading import Request, RunCreated, RunEnded, StepEvent, StepOutcome, outcome_of
from orchestra.core.records import Event


def _event(**payload: Any) -> Event:
    return Event("1", "r", "2026-01-01T00:00:00Z", "PHASE_COMPLETED", payload)


def test_the_outcome_of_every_effect_of_the_core_is_known() -> None:
    named = {
        name
        for module in (effects, work)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Effect) and kind is not Effect
    }
    for name in named:
        event = _event(effect=name, outcome={"text": "말"})
        assert outcome_of(event) == StepOutcome(text="말")
        assert shape.misfit(event, 2) == ""
        assert "text" in shape.misfit(_event(effect=name, outcome={"text": 5}), 2)


def test_the_outcome_of_a_flow_s_own_step_is_its_own_affair() -> None:
    event = _event(effect="Mine", outcome={"text": 5})
    assert shape.misfit(event, 2) == ""
    assert outcome_of(event) == StepOutcome()


def test_a_field_has_one_type_in_every_record() -> None:
    types: dict[str, Any] = {}
    for kind in (RunCreated, StepEvent, Request, RunEnded):
        for field in msgspec.structs.fields(kind):
            assert types.setdefault(field.encode_name, field.type) == field.type, field.name
    assert set(types) <= set(shape.PAYLOAD)


def test_a_field_of_any_record_that_does_not_fit_is_named() -> None:
    for wrong in (
        {"attempt": "two"},
        {"goal": 5},
        {"reasons": "because"},
        {"error": {"message": 1}},
        {"exitCode": "1"},
        {"deadline": "soon"},
        {"retryAt": "2026-13-01T00:00:00Z"},
        {"waitedMs": "long"},
    ):
        assert next(iter(wrong)) in shape.misfit(_event(**wrong), 2)
