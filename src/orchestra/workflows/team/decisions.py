"""Decisions: conflicts between findings, how they were decided, and `artifacts/decisions.json` (S4-79 … S4-81). Pure.

Rules
1. The file has the decisions that agents wrote into it, with all that they wrote, then those of conflicts, then what
   stayed open. It is there if it has any of them, or if an agent writes it.
2. A conflict is decided by the phase's last agent, which compares both sides. What it leaves open, a person decides.
3. A decided conflict has the reasons of both sides. The finding that was not chosen is closed by the decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchestra.core.errors import ContractError
from orchestra.core.text import brief
from orchestra.core.thinking import split_thinking
from orchestra.workflows.team.findings import Conflict, ReviewFinding

_LINE = re.compile(
    r"\s*[-*] +\[(C\d+)\] *(?:chosen|선택) *: *\[?([^\s\]]+)\]?[ ,;.]*(?:(?:rationale|근거) *: *)?(.*)", re.I
)
_MOST_TITLE = 200


class Side(Struct, frozen=True):
    """One side of a conflict: the agent, its proposal, and the reason."""

    agent: str
    finding: str
    text: str
    evidence: str = ""


class Disagreement(Struct, frozen=True):
    """Both sides of a conflict, as recorded with its decision."""

    sides: tuple[Side, ...]


class Decision(Struct, frozen=True):
    """One entry of decisions.json (G4-9)."""

    id: str
    title: str
    options: tuple[str, ...] = ()
    chosen: str = ""
    rationale: str = ""
    conflict: Any = None  # a Disagreement; in a decision of an agent whatever it wrote


class Decisions(Struct, frozen=True):
    """artifacts/decisions.json."""

    decisions: tuple[Decision, ...] = ()


class Choice(Struct, frozen=True):
    """An agent's choice between the sides of a conflict."""

    finding: str
    rationale: str


def read_decisions(text: str) -> tuple[Decision, ...]:
    """The decisions in the file as an agent wrote it."""
    try:
        return msgspec.json.decode(text, type=Decisions).decisions
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        shape = '{"decisions": [{"id", "title", "options": [], "chosen", "rationale", "conflict": null}]}'
        raise ContractError("decisions", f"decisions.json is not of the form {shape}: {wrong}") from wrong


def decisions_text(written: str, decided: Iterable[Decision], findings: Iterable[ReviewFinding]) -> str:
    """The text of decisions.json (rule 1); empty if there is nothing to decide."""
    own = read_decisions(written) if written else ()
    known = {one.id for one in own}
    more = [one for one in (*decided, *map(_left_open, _open(findings))) if one.id not in known]
    if not more and not written:
        return ""
    whole: dict[str, Any] = msgspec.json.decode(written) if written else {}
    pairs = zip(msgspec.to_builtins(own), whole.get("decisions", ()), strict=True)
    whole["decisions"] = [*(filled | said for filled, said in pairs), *more]
    return f"{msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()}\n"


def _open(findings: Iterable[ReviewFinding]) -> Iterable[ReviewFinding]:
    return (one for one in findings if one.is_open and not one.is_advisory)


def _left_open(one: ReviewFinding) -> Decision:
    """The entry of a finding that stayed open."""
    proof = f' Evidence: "{one.evidence}"' if one.evidence else ""
    return Decision(
        id=f"open-{one.reviewer}-{one.id}-{one.target.rpartition('/')[2]}",
        title=brief(one.text, _MOST_TITLE),
        rationale=f"Left open: {one.severity}, of {one.reviewer} about {one.target}.{proof}",
    )


# -- conflicts --------------------------------------------------------------------------------------------------------


def read_choices(text: str, conflicts: Sequence[Conflict]) -> dict[str, Choice]:
    """An agent's choices by conflict: `- [C1] chosen: R2 rationale: TEXT`. What is not among the sides is left out."""
    found: dict[str, Choice] = {}
    known = {one.id: one for one in conflicts}
    for line in split_thinking(text)[1].splitlines():
        if (match := _LINE.fullmatch(line)) and (conflict := known.get(match[1].upper())):
            side = next((one for one in conflict.sides if match[2] in (one.name, one.id)), None)
            if side is not None and match[3].strip():
                found[conflict.id] = Choice(side.name, match[3].strip())
    return found


def option(side: ReviewFinding) -> str:
    """A side of a conflict as an option for a person."""
    return f"{side.name}: {brief(side.text, _MOST_TITLE)}"


def decided(phase: int, conflict: Conflict, choice: Choice) -> Decision:
    """The decision of a conflict, with the reasons of both sides (rule 3)."""
    one, other = conflict.sides
    chosen = next(side for side in conflict.sides if side.name == choice.finding)
    sides = tuple(Side(side.reviewer, side.id, side.text, side.evidence) for side in conflict.sides)
    return Decision(
        id=f"phase{phase}-{conflict.id}",
        title=f"{brief(one.text, 80)} / {brief(other.text, 80)}",
        options=(option(one), option(other)),
        chosen=option(chosen),
        rationale=choice.rationale,
        conflict=Disagreement(sides),
    )


def without_losers(found: Iterable[ReviewFinding], conflict: Conflict, choice: Choice) -> tuple[ReviewFinding, ...]:
    """The findings with the one that was not chosen closed (rule 3)."""
    losers = {(one.name, one.target) for one in conflict.sides if one.name != choice.finding}
    why = f"decided against ({conflict.id}): {choice.rationale}"
    return tuple(replace(one, closed=why) if (one.name, one.target) in losers else one for one in found)
