"""Calling a model in the evidence loop: who is asked in which state, repairs, ContextGuard before every call.

Rules
1. Before every model call ContextGuard looks at the conversation (S5-03). It is recorded and leads back to the call.
2. A reply that cannot be used is asked for again, at most `repairs` times. Only the first attempt streams.
   A text that was cut at the model's length limit is used, and marked.
3. Each call's intent has a receipt of what went in (core/shown.py): the messages and the pieces of evidence with their
   sizes, what ContextGuard took out, and the evidence that is not shown.
4. If the server finds a call too long for its context, estimates or the configured size were wrong. From then on the
   loop takes the context for half as long: the conversation is compacted, and the call is made again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from orchestra.core.context import Context
from orchestra.core.errors import ContractError, StepFailed
from orchestra.core.model import ChatMessage, Constraints, Prompt
from orchestra.core.records import Phase, Role
from orchestra.core.scopes import Labels
from orchestra.core.text import estimated_tokens
from orchestra.core.work import ModelCall, ModelReply
from orchestra.workflows.evidence import offered, protocol
from orchestra.workflows.evidence.effects import Compact
from orchestra.workflows.evidence.memory import compacted, is_too_long, signature, tokens_of, told
from orchestra.workflows.evidence.receipts import dropped, receipt
from orchestra.workflows.evidence.shapes import Evidence, Job, Loop, State

T = TypeVar("T")
_TOO_LONG = re.compile(r"context.{0,20}(size|length|window)|too long|too many tokens", re.IGNORECASE)
_MOST_HALVED = 2
WARM, FREE = 0.7, 1.0  # sampling: of planning, actions and decisions; of answers


class Asked(Struct, frozen=True):
    """One kind of model call: who is asked, in which state, and how its reply is read."""

    state: State
    agent: str
    role: Role
    phase: Phase
    name: str  # of the step
    began: str  # the S5 event of its beginning, and of its end
    ended: str
    schema: Callable[[Job, Loop], dict[str, Any]] | None  # of what is offered now; None: plain text
    repairs: int


PLANNING = Asked(
    "PlanIntent", "main", "planner", "plan", "planning", "planning-start", "planning-result",
    offered.planning_schema, protocol.MAIN_REPAIRS,
)  # fmt: skip
ACTION = Asked(
    "AcquireEvidence", "worker", "planner", "execute", "worker", "worker-start", "worker-action",
    offered.action_schema, protocol.WORKER_REPAIRS,
)  # fmt: skip
DECISION = Asked(
    "AssessSufficiency", "main", "evaluator", "evaluate", "decision", "main-start", "main-decision",
    offered.decision_schema, protocol.MAIN_REPAIRS,
)  # fmt: skip
ANSWER = Asked(
    "AssessSufficiency", "main", "planner", "execute", "answer", "main-start", "main-answer",
    None, protocol.MAIN_REPAIRS,
)  # fmt: skip
FORCED = replace(ANSWER, state="ForcedSynthesis")


class Told(NamedTuple):
    """What came of a call: the loop after it, and the reply as read; None if no reply could be used."""

    loop: Loop
    said: Any


async def call(
    ctx: Context,
    job: Job,
    loop: Loop,
    asked: Asked,
    prompt: Callable[[Job, Loop], Prompt],
    read: Callable[[str], T],
    evidence: tuple[Evidence, ...] = (),
) -> Told:
    """Call a model until its reply can be used (rule 2); None as reply if it never can. `evidence` is shown to it."""
    job = _fitted(job, loop)
    loop = await guard(ctx, job, loop, asked, prompt(job, loop))
    problem, repairs = "", 0
    while repairs <= asked.repairs:
        wanted = _wanted(ctx, job, loop, asked, _repaired(prompt(job, loop), problem), first=not problem)
        here = _labelled(ctx, job, loop, asked, wanted, evidence)
        try:
            said = await here.perform(asked.name, wanted, accept=partial(_read, read), retry=job.retry)
            return Told(replace(loop, replies=loop.replies + 1), said)
        except StepFailed as failed:
            if failed.code == ContractError.code:
                repairs += 1
                loop = replace(loop, replies=loop.replies + 1)
                problem = protocol.repair(str(failed), plain=asked.schema is None)
            elif _is_overflow(failed) and loop.halved < _MOST_HALVED:  # rule 4
                loop = replace(loop, halved=loop.halved + 1)
                job = replace(job, contextTokens=job.contextTokens // 2)
                loop = await guard(ctx, job, loop, asked, prompt(job, loop))
            else:
                return Told(replace(loop, failure=failed), None)
    return Told(loop, None)


def _wanted(ctx: Context, job: Job, loop: Loop, asked: Asked, prompt: Prompt, *, first: bool) -> ModelCall:
    return ModelCall(
        role=asked.role,
        agent=asked.agent,
        prompt=prompt,
        notes=(),
        constraints=_constraints(job, loop, asked, first=first),
        artifact=f"{asked.phase}/{asked.name}-{ctx.peek_key(asked.name).rpartition('.')[2]:0>4}",
        files=False,
        messages=tuple(ChatMessage(one.role, one.content) for one in told(loop.messages)),
    )


def _fitted(job: Job, loop: Loop) -> Job:
    """The job with the context that its models really have, as far as that is known (rule 4)."""
    return replace(job, contextTokens=job.contextTokens >> loop.halved)


def _is_overflow(failed: StepFailed) -> bool:
    return failed.code == "BAD_REQUEST" and _TOO_LONG.search(str(failed)) is not None


def _repaired(prompt: Prompt, problem: str) -> Prompt:
    return replace(prompt, user=f"{prompt.user}\n\n{problem}") if problem else prompt


def _read(read: Callable[[str], T], reply: ModelReply) -> T | str:
    """The reply as read. If it was cut, the error names the cause, and a text is marked (rule 2)."""
    cut = reply.finishReason == "length"
    try:
        said = read(reply.text)
    except ContractError as wrong:
        if cut:
            raise ContractError("cut", "the reply was cut at its length limit; write a much shorter one") from wrong
        raise
    return f"{said} […]" if cut and isinstance(said, str) else said


def _labelled(
    ctx: Context, job: Job, loop: Loop, asked: Asked, wanted: ModelCall, evidence: tuple[Evidence, ...]
) -> Context:
    """The context of a call, with its receipt (rule 3)."""
    shown = msgspec.to_builtins(receipt(job, loop, wanted, evidence))
    step = loop.step + (asked.state == ACTION.state)  # the action that is asked for is the next step
    common = {"state": asked.state, "step": step}
    began = {**common, "native": asked.began, "conversation": shown}
    return ctx.at(asked.phase, 1, Labels(began, {**common, "native": asked.ended}))


def _constraints(job: Job, loop: Loop, asked: Asked, *, first: bool) -> Constraints:
    final, forced = asked.schema is None, asked.state == "ForcedSynthesis"
    return Constraints(
        timeoutMs=job.timeoutMs,
        patchFirst=False,
        temperature=FREE if final else WARM,
        topP=0.95 if final else UNSET,
        schema=asked.schema(job, loop) if asked.schema else UNSET,
        stream=job.stream and first,  # rule 2
        thinkBypass=not loop.think if forced and not isinstance(loop.think, UnsetType) else UNSET,  # S5-58
    )


async def guard(ctx: Context, job: Job, loop: Loop, asked: Asked, prompt: Prompt) -> Loop:
    """ContextGuard: make the conversation shorter if the next call would be too long (S5-63).

    The conversation counts with all its tool results; the evidence in the prompt is a part of them, and does not count
    again. After a compaction it is bounded by its own share (prompting.py, rule 3).
    """
    user = sum(estimated_tokens(part) for part in _without_evidence(prompt.user))
    beside = estimated_tokens(prompt.system) + user
    too_long = is_too_long(loop.messages, job.contextTokens, beside=beside)
    if not too_long or signature(loop.messages) == loop.compacted:
        return loop
    labels = {"state": "ContextGuard", "phase": "context-guard", "step": loop.step}  # S5-64
    here = ctx.at(
        asked.phase,
        1,
        Labels({**labels, "native": "compaction-start"}, {**labels, "native": "compaction-complete"}),
    )
    made = compacted(loop.messages, job.contextTokens, goal=job.goal, step=loop.step, beside=beside)
    kept = await here.perform("compaction", Compact(made.messages, tokens_of(loop.messages), made.after))
    taken = dropped(loop.messages, kept.messages, loop.dropped)
    return replace(loop, messages=kept.messages, compacted=signature(kept.messages), dropped=taken)


def _without_evidence(text: str) -> list[str]:
    """A prompt's text without its blocks of evidence."""
    first, *rest = text.split("<evidence ")
    return [first, *(part.partition("</evidence>")[2] for part in rest)]
