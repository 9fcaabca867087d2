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
    GrantRevision,
    PatchFile,
    PatchProposal,
    ProposePatch,
    ProposeTakeBack,
    Refusal,
    RefusePatch,
    Reply,
    ReviewPatch,
    Since,
    TakeBack,
)
from orchestra.policy.binding import stricter
from orchestra.policy.decide import reasons_to_ask
from orchestra.policy.policy import ApprovalPolicy


class Passage(Struct, frozen=True):
    """The result at the gate: the patch was applied, could not be applied (`done.refusal`), or was rejected.

    `proposal` is the patch that was decided on: a person's own version of it, if they sent one.
    """

    proposal: PatchProposal
    approval: Approval | None = None
    done: Applied | None = None
    files: tuple[PatchFile, ...] = ()  # the granted files


class Ticket(Struct, frozen=True):
    """A change at the gate: the name of its patch file, its approval id, the approval mode, a summary.

    `shown` is what the writer of the patch had seen (`ModelReply.shown`); None: not judged. `scope` has the files that
    the patch may change; None: any. `granted` says where these changes were granted before (in a copy of the project):
    then a person is asked again only about guesses, and about files that orchestra obeys. `rejected` has the digests of
    patches that a person has rejected before. `risks` are those of the patches that this change is the sum of.
    """

    artifact: str
    approval_id: str
    policy: ApprovalPolicy
    summary: str
    shown: ShownLines | None = None
    scope: Scope | None = None
    granted: str = ""
    rejected: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()


async def pass_gate(ctx: Context, reply: Reply, ticket: Ticket) -> Passage:
    """Apply a change to the files, if it is granted. Every grant is recorded, also the policy's own (S1-75)."""
    shown = UNSET if ticket.shown is None else ticket.shown
    proposal = await ctx.perform("patch", ProposePatch(reply, ticket.artifact, shown))
    refusal = _refusal(proposal, ticket) or _unasked(proposal, ticket)
    if refusal is not None:
        refused = await ctx.perform("apply", RefusePatch(refusal, proposal.digest))
        return Passage(proposal, done=refused)
    approval = await _approve(ctx, proposal, ticket)
    if isinstance(approval, PatchProposal):
        return await _pass_revised(ctx, proposal, approval, ticket)
    if not approval.granted:
        return Passage(proposal, approval)
    # older runs: the grant of a whole patch names the files that it is for
    files = tuple(f for f in proposal.files if not approval.accepted or f.path in approval.accepted)
    done = await ctx.perform("apply", ApplyPatch(reply, proposal.digest, files))
    return Passage(proposal, approval, done, files)


async def _pass_revised(ctx: Context, made: PatchProposal, own: PatchProposal, ticket: Ticket) -> Passage:
    """Apply a person's own version of a patch. The grant names the version's own digest (D-11)."""
    assert own.revision is not None
    paths = tuple(file.path for file in own.files)
    left_out = {file.path for file in made.files} - set(paths)
    accepted = paths if left_out else ()
    grant = GrantRevision(ticket.approval_id, own.digest, own.revision.by, own.revision.reason, accepted)
    approval = await ctx.perform("grant", grant)
    if refusal := _refusal(own, ticket):
        refused = await ctx.perform("apply", RefusePatch(refusal, own.digest))
        return Passage(own, approval, refused)
    done = await ctx.perform("apply", ApplyPatch(own.revision.reply, own.digest, own.files))
    return Passage(own, approval, done, own.files)


def _refusal(proposal: PatchProposal, ticket: Ticket) -> Refusal | None:
    """Why a patch cannot be applied, whoever would grant it."""
    return proposal.refusal or (ticket.scope.refusal(proposal.files) if ticket.scope else None)


async def take_back(
    ctx: Context,
    runs: tuple[str, ...],
    artifact: str,
    *,
    below: str | UnsetType = UNSET,
    since: Since | UnsetType = UNSET,
) -> Passage:
    """Restore the files that the patches of these runs, and of the runs below, have changed: exactly or not at all.

    With `below`, also those of this run's own steps whose keys begin so, and of their child runs.
    If a file changed since, `done.refusal` names it and nothing is changed. Without `done` nothing was to be restored.
    No person is asked: every byte was in the project before. `artifact` is the name of the file with the diff.
    `since` is an event of the first run: only what was applied after it is restored.
    """
    proposal = await ctx.perform("patch", ProposeTakeBack(runs, artifact, below, since))
    if proposal.refusal is not None:
        refused = await ctx.perform("apply", RefusePatch(proposal.refusal, proposal.digest))
        return Passage(proposal, done=refused)
    if not proposal.files:
        return Passage(proposal)
    approval = await ctx.perform("approve", AutoApprove(proposal.digest, "take back"))
    done = await ctx.perform("apply", TakeBack(runs, proposal.digest, proposal.files, below, since))
    return Passage(proposal, approval, done, proposal.files)


def _unasked(proposal: PatchProposal, ticket: Ticket) -> Refusal | None:
    """A refusal for a patch that contains guesses, if the policy never asks a person; else None."""
    if not proposal.doubts or ticket.granted or stricter(ticket.policy, proposal.approval) != "never":
        return None
    return Refusal("context_mismatch", f"{'; '.join(proposal.doubts)}. Write the patch again with the file's own lines")


async def _approve(ctx: Context, proposal: PatchProposal, ticket: Ticket) -> Approval | PatchProposal:
    """Get a person's decision, which may be their own version of the patch; or record the policy's grant."""
    policy = stricter(ticket.policy, proposal.approval)
    unexpected = ticket.scope.unexpected(proposal.files) if ticket.scope else ()
    risks = tuple(dict.fromkeys((*proposal.risks, *ticket.risks)))
    reasons = reasons_to_ask(policy, risks, (*proposal.guarded, *unexpected))
    if ticket.granted:
        reasons = (*proposal.guarded, *unexpected, *proposal.doubts)
    if not reasons:
        return await ctx.perform("approve", AutoApprove(proposal.digest, ticket.granted or policy))
    again = ("it is the same patch that you rejected",) if proposal.digest in ticket.rejected else ()
    request = ReviewPatch(
        approvalId=ticket.approval_id,
        digest=proposal.digest,
        policy=policy,
        reasons=(*reasons, *again),
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
