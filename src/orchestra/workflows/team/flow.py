"""What a team's run does (S4): linear code over a durable context.

    phase 1 ─▶ phase 2 ─▶ … ─▶ report
      solo:  draft
      turns: drafts in parallel ─▶ updates ─▶ [reviews one by one ─▶ revisions one by one] at most twice
      loop, contracts: a child run builds in a copy of the project, its result comes as a patch, then draft

Rules
1. Phases run one after another (S4-39). A phase ends with a look at its files: from then on they are a person's to
   edit, and later agents are shown what the files hold (docs/design/0011-teams.md).
2. Every call is made in an edition of what the agent is shown. So `rerun --stale` makes exactly those calls again that
   depend on an edited file or definition.
3. Turn 3 always follows the first reviews (S4-49). A second round comes only if something changed and a finding that
   blocks is open; it looks only at what changed (S4-51 … S4-53).
4. An agent that fails ends the run after the other drafts of its turn (G4-8). Later phases do not start.
"""

from __future__ import annotations

from functools import partial

import msgspec

from orchestra.core.context import Context, Verdict
from orchestra.core.errors import ProviderError, end_of_run
from orchestra.core.records import ErrorInfo
from orchestra.workflows.team.asking import AgentFailed, write
from orchestra.workflows.team.board import Board, Result
from orchestra.workflows.team.building import build
from orchestra.workflows.team.definitions import DECISIONS, Definition, Phase
from orchestra.workflows.team.effects import Settled, SettlePhase
from orchestra.workflows.team.reviewing import review_rounds
from orchestra.workflows.team.shapes import DRAFT, SETTLE, UPDATE, Action, Brief, Job, Text, Work, labels


async def team(ctx: Context, job: Job) -> Verdict:
    """Run a team's phases."""
    work = Work(job)
    board = await bring_in(ctx, work)
    for phase in work.definition.team.phases:
        name = f"phase{phase.number}"
        try:
            done = await ctx.fan_out({name: partial(run_phase, work, phase, board)})  # a scope for the phase
        except AgentFailed as failed:
            return failure(work, failed)
        board = done[name]
    return await conclude(ctx, board)


async def bring_in(ctx: Context, work: Work) -> Board:
    """The board with the files of the input run, which are written into this run's artifacts (S4-57).

    A file that this team makes itself, and decisions.json, are shown but not written: the team writes its own.
    """
    board, here = Board(), ctx.at("execute", 1)
    for given in work.job.given:
        text: Text = given.text
        if not work.definition.owner(given.path) and given.path != DECISIONS:
            text = await here.look(_place(given.path), given.path, given.text, inside="run")
        board = board.with_file(given.path, text)
    return board


async def run_phase(work: Work, phase: Phase, board: Board, ctx: Context) -> Board:
    """One phase, from its first draft to the look at its files (rule 1)."""
    done = Settled(phase.number)
    if phase.builds:
        board = await build(ctx, work, phase, board)
    before, board = board, await draft(ctx, work, phase, board)
    if phase.mode == "turns":
        board = await update(ctx, work, phase, before, board)
        board, done = await review_rounds(ctx, work, phase, board)
    await settle(ctx, done)
    return await look_at_files(ctx, work.definition, phase, board.settled(done))


# -- turn 1 -----------------------------------------------------------------------------------------------------------


async def draft(ctx: Context, work: Work, phase: Phase, board: Board) -> Board:
    """Each agent writes its files, independently of the others (S4-42, S4-43). One without a file only reviews."""
    shown = {name: board.shown(work.definition, name) for name in phase.agents if work.definition.artifacts_of(name)}
    return await _together(ctx, work, phase, board, DRAFT, shown)


async def update(ctx: Context, work: Work, phase: Phase, before: Board, board: Board) -> Board:
    """One update of each agent whose declared input another agent made or changed in this turn (S4-82, S4-83)."""
    shown: dict[str, dict[str, Text]] = {}
    for name in phase.agents:
        own, inputs = work.definition.artifacts_of(name), work.definition.late(phase, name)
        late = board.only(path for path in inputs if board.text(path) != before.text(path))
        if own and late:
            shown[name] = {**late, **board.only(own)}
    return await _together(ctx, work, phase, board, UPDATE, shown)


async def _together(
    ctx: Context, work: Work, phase: Phase, board: Board, action: Action, shown: dict[str, dict[str, Text]]
) -> Board:
    """The board after these agents wrote their files, at most `workers` at a time."""

    async def one(name: str, here: Context) -> Board:
        files = work.definition.artifacts_of(name)
        brief = Brief(work, work.definition.agent(name), action, phase, files, shown[name])
        return Board().after(name, await write(here, action.native, brief))

    made = await ctx.fan_out({name: partial(one, name) for name in shown}, limit=work.job.workers)
    return board.joined(made.values())


# -- the end of a phase -----------------------------------------------------------------------------------------------


async def settle(ctx: Context, done: Settled) -> None:
    """Record the end of a phase: its rounds, findings and decisions."""
    here = ctx.at(SETTLE.phase, max(done.rounds, 1), labels(SETTLE, done.phase, "", "", done.rounds))
    inputs = {"rounds": done.rounds, "findings": done.findings, "decisions": done.decisions}
    await (await here.edition("settled", inputs)).perform("settle", SettlePhase(done))


async def look_at_files(ctx: Context, definition: Definition, phase: Phase, board: Board) -> Board:
    """The board with the files of a phase as they are in the run's folder, edited or not (rule 1).

    Files of an agent that writes them again in a later phase are looked at there: a run looks at a file in one place.
    """
    here = ctx.at("execute", 1, labels(SETTLE, phase.number, "", "", 0))
    later = {name for other in definition.team.phases if other.number > phase.number for name in other.agents}
    for name in (name for name in phase.agents if name not in later):
        for path in definition.artifacts_of(name):
            if path != DECISIONS and path in board.files:
                seen = await here.look(_place(path), path, board.text(path), inside="run")
                board = board.with_file(path, seen)
    return board


def _place(path: str) -> str:
    return f"{path.rpartition('/')[2]}-file"


# -- the end of the run -----------------------------------------------------------------------------------------------


def failure(work: Work, failed: AgentFailed) -> Verdict:
    """The end of a run with an agent that failed for good (rule 4): exit code 6 only if no provider was reached."""
    ended = end_of_run(failed.failed)
    code = ended.exit_code if isinstance(ended, ProviderError) and not work.replies else 1
    what = f"agent {failed.agent} failed in phase {failed.phase} ({failed.native}): {failed}"
    after = "Later phases did not start; what the others made is kept. orchestra retry goes on at this agent"
    return Verdict(status="failed", error=ErrorInfo(failed.failed.code, f"{what}. {after}"), exit_code=code)


async def conclude(ctx: Context, board: Board) -> Verdict:
    """The end of a run: decisions.json, then the result."""
    if text := board.decisions_file:
        seen = await ctx.at("execute", 1).look(_place(DECISIONS), DECISIONS, text, inside="run")
        board = board.with_file(DECISIONS, seen)
    return Verdict(status="completed", result=msgspec.to_builtins(Result.of(board)))
