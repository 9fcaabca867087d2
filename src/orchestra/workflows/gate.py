"""The gate, for flows: `pass_gate` proposes, approves and applies a patch; `take_back` restores what patches changed;
`run_command` runs a model's command.

The patch may be a model's, or the changes of a command. A command may need a person's grant first. This is linear code
over a durable context, like every flow; the handlers of the effects are in patch/gatekeeper.py.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from orchestra.core.command import NOT_GRANTED, CommandOutcome, RunCommand
from orchestra.core.context import Context
from orchestra.core.errors import PolicyError, Refused, StepFailed
from orchestra.core.names import shortened
from orchestra.core.scope import Scope
from orchestra.core.shown import ShownLines
from orchestra.core.work import (
    Applied,
    ApplyPatch,
    Approval,
    Approve,
    AutoApprove,
    PatchFile,
    PatchProposal,
    ProposePatch,
    ProposeTakeBack,
    Refusal,
    RefusePatch,
    Reply,
    Since,
    TakeBack,
)
from orchestra.policy.binding import stricter
from orchestra.policy.decide import reasons_to_ask
from orchestra.policy.policy import ApprovalPolicy


class Passage(Struct, frozen=True):
    """The result at the gate: the patch was applied, could not be applied (`done.refusal`), or was rejected."""

    proposal: PatchProposal
    approval: Approval | None = None
    done: Applied | None = None
    files: tuple[PatchFile, ...] = ()  # the granted files


class Ticket(Struct, frozen=True):
    """A change at the gate: the name of its patch file, its approval id, the approval mode, a summary.

    `shown` is what the writer of the patch had seen (`ModelReply.shown`); None: not judged. `scope` has the files that
    the patch may change; None: any.
    """

    artifact: str
    approval_id: str
    policy: ApprovalPolicy
    summary: str
    shown: ShownLines | None = None
    scope: Scope | None = None


async def pass_gate(ctx: Context, reply: Reply, ticket: Ticket) -> Passage:
    """Apply a change to the files, if it is granted. Every grant is recorded, also the policy's own (S1-75)."""
    shown = UNSET if ticket.shown is None else ticket.shown
    proposal = await ctx.perform("patch", ProposePatch(reply, ticket.artifact, shown))
    outside = ticket.scope.refusal(proposal.files) if ticket.scope else None
    refusal = proposal.refusal or outside or _unasked(proposal, stricter(ticket.policy, proposal.approval))
    if refusal is not None:
        refused = await ctx.perform("apply", RefusePatch(refusal, proposal.digest))
        return Passage(proposal, done=refused)
    approval = await _approve(ctx, proposal, ticket)
    if not approval.granted:
        return Passage(proposal, approval)
    files = tuple(f for f in proposal.files if not approval.accepted or f.path in approval.accepted)
    done = await ctx.perform("apply", ApplyPatch(reply, proposal.digest, files))
    return Passage(proposal, approval, done, files)


async def take_back(ctx: Context, runs: tuple[str, ...], artifact: str, since: Since | UnsetType = UNSET) -> Passage:
    """Restore the files that the patches of these runs, and of the runs below, have changed: exactly or not at all.

    If a file changed since, `done.refusal` names it and nothing is changed. Without `done` nothing was to be restored.
    No person is asked: every byte was in the project before. `artifact` is the name of the file with the diff.
    `since` is an event of the first run: only what was applied after it is restored.
    """
    proposal = await ctx.perform("patch", ProposeTakeBack(runs, artifact, since))
    if proposal.refusal is not None:
        refused = await ctx.perform("apply", RefusePatch(proposal.refusal, proposal.digest))
        return Passage(proposal, done=refused)
    if not proposal.files:
        return Passage(proposal)
    approval = await ctx.perform("approve", AutoApprove(proposal.digest, "take back"))
    done = await ctx.perform("apply", TakeBack(runs, proposal.digest, proposal.files, since))
    return Passage(proposal, approval, done, proposal.files)


def _unasked(proposal: PatchProposal, policy: ApprovalPolicy) -> Refusal | None:
    """A refusal for a patch that contains guesses, if the policy never asks a person; else None."""
    if not proposal.doubts or policy != "never":
        return None
    return Refusal("context_mismatch", f"{'; '.join(proposal.doubts)}. Write the patch again with the file's own lines")


async def _approve(ctx: Context, proposal: PatchProposal, ticket: Ticket) -> Approval:
    """Get a person's decision, or record the policy's grant."""
    policy = stricter(ticket.policy, proposal.approval)
    reasons = reasons_to_ask(policy, proposal.risks, proposal.guarded)
    if not reasons:
        return await ctx.perform("approve", AutoApprove(proposal.digest, policy))
    request = Approve(
        approvalId=ticket.approval_id,
        digest=proposal.digest,
        policy=policy,
        reasons=reasons,
        summary=ticket.summary,
        patch=proposal.patch,
        files=proposal.files,
        masked=proposal.masked,
    )
    return await ctx.perform("approve", request)


async def run_command(ctx: Context, name: str, command: RunCommand) -> CommandOutcome:
    """Run a model's command. If a rule requires it, a person must grant exactly this argv; else Refused is raised."""
    try:
        return await ctx.perform(name, command)
    except StepFailed as failed:
        if failed.code == PolicyError.code:
            raise Refused(str(failed)) from failed
        if failed.code != NOT_GRANTED:
            raise
        request = _granting(command, failed)
    approval = await ctx.perform(f"{name}-grant", request)
    if not approval.granted:
        raise Refused(f"a person refused `{request.summary}`: {approval.reason or 'no reason given'}")
    return await ctx.perform(name, command)


def _granting(command: RunCommand, failed: StepFailed) -> Approve:
    digest = command.grant()
    words = command.line  # has no bare parenthesis
    return Approve(
        approvalId=f"approval-{shortened(failed.key.replace('/', '~'))}",
        digest=digest,
        policy="rule",
        reasons=(str(failed), "it runs with network") if command.net else (str(failed),),
        summary=f"{words} (with network)" if command.net else words,
        patch=None,
        files=(),
        subject="command",
        commands=(digest,),
    )
