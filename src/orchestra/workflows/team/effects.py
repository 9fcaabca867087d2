"""The effect of a team's run: the end of a phase, with what its reviews found and how conflicts were decided."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from orchestra.core.context import Handlers, Step
from orchestra.core.effects import Effect
from orchestra.workflows.team.decisions import Decision
from orchestra.workflows.team.findings import ReviewFinding


class Settled(Struct, frozen=True, omit_defaults=True):
    """The outcome of a phase."""

    phase: int
    rounds: int = 0  # of reviews that were really done (S4-54); 0: a phase without turns
    findings: tuple[ReviewFinding, ...] = ()
    decisions: tuple[Decision, ...] = ()


class SettlePhase(Effect[Settled], frozen=True):
    """Record the end of a phase."""

    settled: Settled

    acts: ClassVar[bool] = False
    outcome: ClassVar[Any] = Settled


async def settle(effect: SettlePhase, step: Step) -> Settled:
    """Handler of SettlePhase."""
    return effect.settled


HANDLERS: Handlers = {SettlePhase: settle}
