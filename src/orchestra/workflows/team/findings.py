"""Findings: what reviews say, item by item, and what of it is still open (beyond S4: reviews that converge). Pure.

    - [R1] high: the estimate lacks the cost of storage evidence: "about 10 dollars a month"
    - [R2] medium: this needs a queue evidence: "direct calls" conflicts: [A3]
    - [R1] closed: storage is in the estimate now

Rules
1. A finding is an item of a review: id, severity, text, and the quotation that proves it. Without one it is advisory:
   recorded and shown, but no reason for another round.
2. A review without any item is one open finding of medium severity. `No changes` is no finding; in a later round it
   closes such a finding of the same reviewer.
3. A finding belongs to its reviewer and its target. The same id in a later review of both is the same finding.
4. `closed` closes the finding of this id about the same target; the reviewer's own if several have the id.
5. `conflicts: [ID]` names a finding of the same phase that wants the opposite.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from orchestra.core.text import brief
from orchestra.core.thinking import split_thinking
from orchestra.workflows.team.definitions import Review
from orchestra.workflows.team.replies import is_unchanged

Severity = Literal["high", "medium", "low"]
WHOLE = "review"  # the id of a finding that is a whole review (rule 2)
_ITEM = re.compile(
    r"\s*(?:[-*]|\d+[.)]) +\**\[([^\][\s]{1,40})\]\** *\**(high|medium|low|closed)\b[ *]*:?[ *]*(.*)", re.IGNORECASE
)
_EVIDENCE = re.compile(r"""\bevidence *: *(?:"([^"]*)"|“([^”]*)”|'([^']*)'|(.*))""", re.IGNORECASE | re.DOTALL)
_CONFLICTS = re.compile(r"\bconflicts *: *((?:\[[^\][]*\][ ,]*)+)", re.IGNORECASE)
_MOST_WHOLE = 300  # characters of a review that is one finding


class ReviewFinding(Struct, frozen=True, omit_defaults=True):
    """One finding of a reviewer about an artifact."""

    id: str
    severity: Severity
    text: str
    reviewer: str
    target: str
    evidence: str = ""
    conflicts: tuple[str, ...] = ()
    round: int = 1  # the round that raised it
    closed: str = ""  # why it is closed; empty: it is open

    @property
    def is_open(self) -> bool:
        return not self.closed

    @property
    def is_advisory(self) -> bool:
        """Whether it has no evidence (rule 1)."""
        return not self.evidence and self.id != WHOLE

    @property
    def blocks(self) -> bool:
        """Whether the finding is a reason for another round of reviews."""
        return self.is_open and not self.is_advisory and self.severity != "low"

    @property
    def name(self) -> str:
        """The finding as people and prompts name it."""
        return f"{self.reviewer}/{self.id}"


class Closing(Struct, frozen=True):
    """An item that closes a finding."""

    id: str
    text: str
    own: bool = False  # only a finding of the reviewer itself


class Conflict(Struct, frozen=True):
    """Two findings that cannot both be followed."""

    id: str
    sides: tuple[ReviewFinding, ReviewFinding]


def read_review(text: str, review: Review, round: int) -> tuple[ReviewFinding | Closing, ...]:
    """The items of a review."""
    said = split_thinking(text)[1].strip()
    found = tuple(_items(said, review, round))
    if not found and is_unchanged(said):
        return (Closing(WHOLE, "the reviewer finds nothing more", own=True),) if round > 1 else ()
    if found:
        return found
    return (
        ReviewFinding(WHOLE, "medium", brief(said, _MOST_WHOLE), review.reviewer, review.target, round=round),
    )  # rule 2


def finds_nothing(text: str) -> bool:
    """Whether a review is the agreed phrase: there is nothing to find."""
    return is_unchanged(split_thinking(text)[1].strip())


def _items(text: str, review: Review, round: int) -> Iterator[ReviewFinding | Closing]:
    for name, kind, said in _joined(text):
        if kind == "closed":
            yield Closing(name, said or "closed")
            continue
        proof = _EVIDENCE.search(said)
        against = _CONFLICTS.search(said)
        evidence = next(filter(None, proof.groups()), "") if proof else ""
        plain = _CONFLICTS.sub("", _EVIDENCE.sub("", said)).strip(" ;,\n")
        yield ReviewFinding(
            id=name,
            severity=cast(Severity, kind),
            text=plain or said,
            reviewer=review.reviewer,
            target=review.target,
            evidence=_CONFLICTS.sub("", evidence).strip(),
            conflicts=tuple(re.findall(r"[^\s,\][]+", against[1])) if against else (),
            round=round,
        )


def _joined(text: str) -> Iterator[tuple[str, str, str]]:
    """Id, kind and text of each item. Indented lines below an item belong to it."""
    now: list[str] = []
    for line in text.splitlines():
        if found := _ITEM.fullmatch(line):
            if now:
                yield now[0], now[1], now[2].strip()
            now = [found[1], found[2].lower(), found[3]]
        elif now and line.startswith((" ", "\t")) and line.strip():
            now[2] += f" {line.strip()}"
        elif now:
            yield now[0], now[1], now[2].strip()
            now = []
    if now:
        yield now[0], now[1], now[2].strip()


def merged(
    known: Sequence[ReviewFinding], items: Iterable[ReviewFinding | Closing], review: Review
) -> tuple[ReviewFinding, ...]:
    """All findings after a review: new ones added, repeated ones replaced, closed ones marked (rules 3 and 4)."""
    found = list(known)
    for item in items:
        if isinstance(item, Closing):
            if (place := _closes(found, item, review)) is not None:
                found[place] = replace(found[place], closed=item.text)
            continue
        same = [n for n, one in enumerate(found) if (one.name, one.target) == (item.name, item.target)]
        if same:
            found[same[0]] = replace(item, round=found[same[0]].round)
        else:
            found.append(item)
    return tuple(found)


def _closes(found: Sequence[ReviewFinding], item: Closing, review: Review) -> int | None:
    """The place of the finding that an item closes; None if there is none."""
    alike = [n for n, one in enumerate(found) if one.id == item.id and one.target == review.target and one.is_open]
    own = [n for n in alike if found[n].reviewer == review.reviewer]
    return next(iter(own or ([] if item.own else alike)), None)


def conflicts(found: Sequence[ReviewFinding], decided: Iterable[Conflict] = ()) -> tuple[Conflict, ...]:
    """The conflicts between open findings that were not decided before (rule 5), each once."""
    before = list(decided)
    seen = {frozenset((one.sides[0].name, one.sides[1].name)) for one in before}
    new: list[Conflict] = []
    for one in (finding for finding in found if finding.is_open):
        for other in (_named(found, one, name) for name in one.conflicts):
            if other is None or (pair := frozenset((one.name, other.name))) in seen:
                continue
            seen.add(pair)
            new.append(Conflict(f"C{len(before) + len(new) + 1}", (one, other)))
    return tuple(new)


def _named(found: Sequence[ReviewFinding], of: ReviewFinding, name: str) -> ReviewFinding | None:
    """The open finding that another one names as its opposite; one of another reviewer if several have the id."""
    alike = [one for one in found if one is not of and name in (one.id, one.name) and one.is_open]
    others = [one for one in alike if one.reviewer != of.reviewer]
    return next(iter(others or alike), None)


def listed(found: Iterable[ReviewFinding]) -> str:
    """Findings as items, in the form they are read in."""
    return "\n".join(_line(one) for one in found)


def _line(one: ReviewFinding) -> str:
    proof = f' evidence: "{one.evidence}"' if one.evidence else ""
    against = f" conflicts: {' '.join(f'[{name}]' for name in one.conflicts)}" if one.conflicts else ""
    return f"- [{one.id}] {one.severity}: {one.text}{proof}{against} (of {one.reviewer}, about {one.target})"
