"""Calling a model in the evidence loop: who is asked in which state, repairs, ContextGuard before every call.

Rules
1. Before every model call ContextGuard looks at the conversation (S5-03). It is recorded and leads back to the call.
2. A reply that cannot be used is asked for again, at most `repairs` times. Only the first attempt streams.
3. Each call's intent has a receipt of what went in (core/shown.py): the messages and the pieces of evidence with their
   sizes, what ContextGuard took out, and the evidence that is not shown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from orchestra.core.context import Context, Labels
from orchestra.core.errors import ContractError, StepFailed
from orchestra.core.model import ChatMessage, Constraints, Prompt
from orchestra.core.records import Phase, Role
from orchestra.core.text import estimated_tokens
from orchestra.core.work import ModelCall, ModelReply
from orchestra.workflows.evidence import protocol
from orchestra.workflows.evidence.effects import Compact
from orchestra.workflows.evidence.memory import compacted, is_too_long, signature, tokens_of, told
from orchestra.workflows.evidence.receipts import dropped, receipt
from orchestra.workflows.evidence.shapes import Evidence, Job, Loop, State

T = TypeVar("T")
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
    schema: dict[str, Any] | UnsetType
    repairs: int


PLANNING = Asked(
    "PlanIntent", "main", "planner", "plan", "planning", "planning-start", "planning-result",
    protocol.PLANNING_SCHEMA, protocol.MAIN_REPAIRS,
)  # fmt: skip
ACTION = Asked(
    "AcquireEvidence", "worker", "planner", "execute", "worker", "worker-start", "worker-action",
    protocol.ACTION_SCHEMA, protocol.WORKER_REPAIRS,
)  # fmt: skip
DECISION = Asked(
    "AssessSufficiency", "main", "evaluator", "evaluate", "decision", "main-start", "main-decision",
    protocol.DECISION_SCHEMA, protocol.MAIN_REPAIRS,
)  # fmt: skip
ANSWER = Asked(
    "AssessSufficiency", "main", "planner", "execute", "answer", "main-start", "main-answer",
    UNSET, protocol.MAIN_REPAIRS,
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
    prompt: Callable[[Loop], Prompt],
    read: Callable[[str], T],
    evidence: tuple[Evidence, ...] = (),
) -> Told:
    """Call a model until its reply can be used (rule 2); None as reply if it never can. `evidence` is shown to it."""
    loop = await guard(ctx, job, loop, asked, prompt(loop))
    problem = ""
    for attempt in range(1 + asked.repairs):
        wanted = ModelCall(
            role=asked.role,
            agent=asked.agent,
            prompt=_repaired(prompt(loop), problem),
            notes=(),
            constraints=_constraints(job, loop, asked, first=attempt == 0),
            artifact=f"{asked.phase}/{asked.name}-{ctx.peek_key(asked.name).rpartition('.')[2]:0>4}",
            files=False,
            messages=tuple(ChatMessage(one.role, one.content) for one in told(loop.messages)),
        )
        here = _labelled(ctx, job, loop, asked, wanted, evidence)
        try:
            said = await here.perform(asked.name, wanted, accept=partial(_read, read), retry=job.retry)
            return Told(replace(loop, replies=loop.replies + 1), said)
        except StepFailed as failed:
            if failed.code != ContractError.code:
                return Told(replace(loop, failure=failed), None)
            loop = replace(loop, replies=loop.replies + 1)
            problem = protocol.repair(str(failed), plain=isinstance(asked.schema, UnsetType))
    return Told(loop, None)


def _repaired(prompt: Prompt, problem: str) -> Prompt:
    return replace(prompt, user=f"{prompt.user}\n\n{problem}") if problem else prompt


def _read(read: Callable[[str], T], reply: ModelReply) -> T:
    return read(reply.text)


def _labelled(
    ctx: Context, job: Job, loop: Loop, asked: Asked, wanted: ModelCall, evidence: tuple[Evidence, ...]
) -> Context:
    """The context of a call, with its receipt (rule 3)."""
    shown = msgspec.to_builtins(receipt(job, loop, wanted, evidence))
    common = {"state": asked.state, "step": loop.step}
    began = {**common, "native": asked.began, "conversation": shown}
    return ctx.at(asked.phase, 1, Labels(began, {**common, "native": asked.ended}))


def _constraints(job: Job, loop: Loop, asked: Asked, *, first: bool) -> Constraints:
    final, forced = isinstance(asked.schema, UnsetType), asked.state == "ForcedSynthesis"
    return Constraints(
        timeoutMs=job.timeoutMs,
        patchFirst=False,
        temperature=FREE if final else WARM,
        topP=0.95 if final else UNSET,
        schema=asked.schema,
        stream=job.stream and first,  # rule 2
        thinkBypass=not loop.think if forced and not isinstance(loop.think, UnsetType) else UNSET,  # S5-58
    )


async def guard(ctx: Context, job: Job, loop: Loop, asked: Asked, prompt: Prompt) -> Loop:
    """ContextGuard: make the conversation shorter if the next call would be too long (S5-63).

    The conversation counts with all its tool results; the evidence in the prompt is a part of them, and does not count
    again. After a compaction it is bounded by its own share (shapes.py, rule 3).
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
