"""What failures and designs teach: carried into the prompts of later tasks and subtasks (section 5/S3).

Rules
1. When a subtask passes after it failed, the cause becomes a pitfall, and later implementers are told. When a task is
   complete, its invariants become decisions; the newest few are told to the next architect.
2. What a prompt was told is recorded in its edition. So knowledge that came later, or by an edit elsewhere, causes no
   new call.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestra.core.context import Context
from orchestra.core.errors import ContractError
from orchestra.workflows.contracts import documents
from orchestra.workflows.contracts.asking import remembered
from orchestra.workflows.contracts.storage import Knowledge, KnownDecision, Pitfall

MOST_DECISIONS = 5
MOST_PITFALLS = 10
_TOLD = "known"  # what the call of an edition was told (rule 2)


class Known:
    """The decisions and pitfalls recorded up to one moment of a run: the same on every replay."""

    def __init__(self, before: str = "") -> None:
        """`before` is the text of knowledge.yaml when the request began; one that cannot be read counts as none."""
        try:
            found = documents.read(before, Knowledge, "knowledge.yaml") if before else None
        except ContractError:
            found = None
        self.decisions = [one.text for one in found.decisions] if found else []
        self.pitfalls = [one.text for one in found.pitfalls] if found else []
        self.patterns = found.patterns if found else ()

    def __bool__(self) -> bool:
        return bool(self.decisions or self.pitfalls or self.patterns)

    def learn_decisions(self, rules: Iterable[str]) -> None:
        """Take over the invariants of a completed task."""
        self.decisions += [rule for rule in dict.fromkeys(rules) if rule not in self.decisions]

    def learn_pitfall(self, text: str) -> None:
        """Take over the cause of a failure that was repaired."""
        if text and text not in self.pitfalls:
            self.pitfalls.append(text)

    async def decisions_for(self, here: Context) -> str:
        """The earlier decisions for the architect of this edition."""
        return listed(await remembered(here, _TOLD, self.decisions[-MOST_DECISIONS:]))

    async def pitfalls_for(self, here: Context) -> str:
        """The earlier pitfalls for the implementer of this edition."""
        return listed(await remembered(here, _TOLD, self.pitfalls[-MOST_PITFALLS:]))

    def as_record(self, at: str) -> Knowledge:
        """The record of knowledge.yaml."""
        return Knowledge(
            patterns=self.patterns,
            decisions=tuple(KnownDecision(id=f"D{n}", text=text) for n, text in enumerate(self.decisions, 1)),
            pitfalls=tuple(Pitfall(id=f"P{n}", text=text) for n, text in enumerate(self.pitfalls, 1)),
            updated_at=at,
        )


def listed(texts: Iterable[str]) -> str:
    """The texts as a list, for a prompt."""
    return "\n".join(f"- {one}" for one in texts)
