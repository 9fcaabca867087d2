"""The table of what a payload holds knows every effect of the core."""

from __future__ import annotations

from orchestra.core import effects, shape, work
from orchestra.core.effects import Effect
from orchestra.core.records import Event


def test_the_outcome_of_every_effect_of_the_core_is_known() -> None:
    named = {
        name
        for module in (effects, work)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Effect) and kind is not Effect
    }
    for name in named:
        event = Event("1", "r", "2026-01-01T00:00:00Z", "PHASE_COMPLETED", {"effect": name, "outcome": {"text": "말"}})
        assert shape.outcome_of(event) == {"text": "말"}
        assert shape.misfit(event, 2) == ""
        broken = Event("1", "r", "2026-01-01T00:00:00Z", "PHASE_COMPLETED", {"effect": name, "outcome": {"text": 5}})
        assert "text" in shape.misfit(broken, 2)


def test_the_outcome_of_a_flow_s_own_step_is_its_own_affair() -> None:
    event = Event("1", "r", "2026-01-01T00:00:00Z", "PHASE_COMPLETED", {"effect": "Mine", "outcome": {"text": 5}})
    assert shape.misfit(event, 2) == ""
    assert shape.outcome_of(event) == {}
