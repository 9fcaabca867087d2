"""Turns 2 and 3: agents review each other's files one after another, conflicts are decided, files are revised.

Rules
1. Reviews run one after another (S4-45), and so do revisions (S4-50). A reviewer sees the findings before its own, so
   that it can name the one it contradicts.
2. In the second round a reviewer sees only what changed in its target, and the open findings about it. A target that
   did not change is not reviewed again.
3. An agent that received no review has nothing to revise. In the second round, neither has one without open findings,
   or whose reviewers found nothing more.
4. A conflict is decided before the revisions: by the phase's last agent, or by a person where that agent leaves it open
   (S4-80, S4-81).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestra.core.context import Context
from orchestra.core.errors import ContractError
from orchestra.core.looks import file_name
from orchestra.core.thinking import split_thinking
from orchestra.core.work import AskPerson
from orchestra.workflows.team.asking import begin, call, question_name, write
from orchestra.workflows.team.board import Board
from orchestra.workflows.team.decisions import Choice, Decision, decided, option, read_choices, without_losers
from orchestra.workflows.team.definitions import MOST_ROUNDS, Phase, Review, stem
from orchestra.workflows.team.effects import Settled
from orchestra.workflows.team.findings import (
    Conflict,
    ReviewFinding,
    conflicts,
    finds_nothing,
    listed,
    merged,
    read_review,
)
from orchestra.workflows.team.shapes import DECIDE, REVIEW, REVISE, Brief, Text, Work, changes, labels, received


class Rounds(Struct, frozen=True):
    """The reviews of one phase so far."""

    board: Board
    before: Board  # as it was before the last revisions
    round: int = 0
    findings: tuple[ReviewFinding, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    decisions: tuple[Decision, ...] = ()

    def changed(self, path: str) -> bool:
        """Whether the last revisions changed a file (G4-7)."""
        return self.board.text(path) != self.before.text(path)

    def open_about(self, *paths: str) -> tuple[ReviewFinding, ...]:
        """The open findings about these files."""
        return tuple(one for one in self.findings if one.is_open and one.target in paths)


async def review_rounds(ctx: Context, work: Work, phase: Phase, board: Board) -> tuple[Board, Settled]:
    """Review and revise, at most MOST_ROUNDS times (S4-51); the board after it, and the outcome of the phase."""
    plan = [one for one in work.definition.reviews(phase) if one.target in board.files]
    now, due = Rounds(board, board), plan
    while due and now.round < MOST_ROUNDS:
        now = replace(now, round=now.round + 1)
        texts: list[tuple[Review, str]] = []
        for review in due:
            text = await review_file(ctx, work, phase, now, review)
            texts.append((review, text))
            now = replace(now, findings=merged(now.findings, read_review(text, review, now.round), review))
        now = await decide_conflicts(ctx, work, phase, now)
        now = await revise(ctx, work, phase, now, texts)
        if not any(one.blocks for one in now.findings):
            break
        due = [one for one in plan if now.changed(one.target)]  # nothing changed: no second round (S4-52)
    return now.board, Settled(phase.number, now.round, now.findings, now.decisions)


# -- turn 2 -----------------------------------------------------------------------------------------------------------


async def review_file(ctx: Context, work: Work, phase: Phase, now: Rounds, review: Review) -> str:
    """An agent's review of another one's file (S4-44)."""
    agent = work.definition.agent(review.reviewer)
    brief = Brief(work, agent, REVIEW, phase, (review.target,), _for_reviewer(work, now, review), now.round)
    place = f"{review.reviewer}-{stem(review.target)}-review"
    return await call(await begin(ctx, place, brief), brief, _not_empty)


def _for_reviewer(work: Work, now: Rounds, review: Review) -> dict[str, Text]:
    """What a reviewer is shown (rules 1 and 2)."""
    target = review.target
    if now.round > 1:
        diff = changes(target, now.before.text(target), now.board.text(target))
        return {f"changes of {target}": diff, **_found("open findings", now.open_about(target))}
    own = now.board.only(work.definition.artifacts_of(review.reviewer))
    others = tuple(one for one in now.findings if one.reviewer != review.reviewer)
    return {target: now.board.files[target], **own, **_found("findings of other reviewers", others)}


def _found(heading: str, findings: Sequence[ReviewFinding]) -> dict[str, Text]:
    return {heading: listed(findings)} if findings else {}


def _not_empty(text: str) -> str:
    if not split_thinking(text)[1].strip():
        raise ContractError("agent_reply", "the review is empty; if there is nothing to find, reply: No changes")
    return text


# -- conflicts --------------------------------------------------------------------------------------------------------


async def decide_conflicts(ctx: Context, work: Work, phase: Phase, now: Rounds) -> Rounds:
    """Decide the new conflicts of a round (rule 4)."""
    new = conflicts(now.findings, now.conflicts)
    if not new:
        return now
    shown: dict[str, Text] = {f"conflict {one.id}": listed(one.sides) for one in new}
    targets = dict.fromkeys(side.target for one in new for side in one.sides)
    agent = work.definition.agent(phase.agents[-1])
    brief = Brief(work, agent, DECIDE, phase, (), {**shown, **now.board.only(targets)}, now.round)
    here = await begin(ctx, "conflicts", brief)
    choices = read_choices(await call(here, brief, _not_empty), new)
    for one in new:
        choice = choices.get(one.id) or await _ask(here, brief, one)
        now = replace(
            now,
            conflicts=(*now.conflicts, one),
            decisions=(*now.decisions, decided(phase.number, one, choice)),
            findings=without_losers(now.findings, one, choice),
        )
    return now


async def _ask(here: Context, brief: Brief, conflict: Conflict) -> Choice:
    """A person's decision of a conflict (S4-81)."""
    one, other = conflict.sides
    key = here.peek_key("ask")
    asked = AskPerson(
        questionId=question_name(key, conflict.id),
        question=f"{one.reviewer} and {other.reviewer} contradict each other. Which finding is to be followed?",
        reason=listed(conflict.sides),
        needed_input=(),
        artifact=f"ask/{file_name(key)}.md",
        kind="decision",
        options=(option(one), option(other)),
        default=option(one),
        impact=f"{one.target} and {other.target} are revised by it; the other finding is closed.",
    )
    names = labels(DECIDE, brief.phase.number, brief.agent.name, "", brief.round)
    answer = await here.at("ask", brief.round, names).perform("ask", asked)
    chosen = one if answer.text == option(one) else other
    return Choice(chosen.name, f"decided by {answer.by}" + (" (the default)" if answer.provisional else ""))


# -- turn 3 -----------------------------------------------------------------------------------------------------------


async def revise(ctx: Context, work: Work, phase: Phase, now: Rounds, texts: Sequence[tuple[Review, str]]) -> Rounds:
    """Each agent works the reviews that it received into its files, one after another (S4-49, S4-50)."""
    before, board = now.board, now.board
    for name in phase.agents:
        files = work.definition.artifacts_of(name)
        own = [(review.reviewer, text) for review, text in texts if review.author == name]
        if now.round > 1:
            own = [(reviewer, text) for reviewer, text in own if not finds_nothing(text)]
        if not own or (now.round > 1 and not now.open_about(*files)):  # rule 3
            continue
        sources: dict[str, Text] = {**board.only(files), "reviews": received(own)}
        if now.decisions:
            sources["decisions"] = "\n".join(f"- {one.chosen} ({one.rationale})" for one in now.decisions)
        brief = Brief(work, work.definition.agent(name), REVISE, phase, files, sources, now.round)
        board = board.after(name, await write(ctx, f"{name}-revise", brief))
    return replace(now, before=before, board=board)
