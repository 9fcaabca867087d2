"""What went into a model call of the evidence loop, for its receipt (core/shown.py: Conversation). Pure.

Rules
1. A receipt is made from the same values as the prompt, just before the call, and recorded with the call's intent.
2. It has names and sizes, no texts: the prompt's file has the texts.
3. What ContextGuard took from the conversation is summed up by tag, so that a receipt stays small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from orchestra.core.shown import Conversation, Omitted, Piece
from orchestra.core.text import brief, estimated_tokens
from orchestra.core.work import ModelCall
from orchestra.workflows.evidence.memory import PER_MESSAGE, Message, label_of, tag_of
from orchestra.workflows.evidence.prompting import shown_of
from orchestra.workflows.evidence.shapes import Evidence, Job, Loop

_COMMAND = 80  # characters of a command


def receipt(job: Job, loop: Loop, call: ModelCall, evidence: Sequence[Evidence]) -> Conversation:
    """The receipt of a call that shows this evidence."""
    messages = tuple(_message(Message(one.role, one.content)) for one in call.history)
    texts = estimated_tokens(call.prompt.system) + estimated_tokens(call.prompt.user)
    return Conversation(
        messages=messages,
        evidence=tuple(
            Piece(brief(one.command, _COMMAND), estimated_tokens(shown.text), shown.kept, len(one.text), one.step)
            for one, shown in shown_of(evidence, job)
        ),
        leftOut=(*loop.dropped, *_not_shown(loop, evidence)),
        tokens=texts + sum(one.tokens for one in messages),
    )


def _message(message: Message) -> Piece:
    return Piece(label_of(message), _tokens(message), len(message.content), len(message.content))


def _not_shown(loop: Loop, shown: Sequence[Evidence]) -> list[Omitted]:
    """The evidence of the run that a prompt does not have, and why."""
    steps, same = {one.step for one in shown}, {(one.command, one.text) for one in shown}
    most = f"only {len(shown)} pieces are shown"
    return [
        Omitted(
            name=brief(one.command, _COMMAND),
            why="the same command with the same output is shown" if (one.command, one.text) in same else most,
            tokens=estimated_tokens(one.text),
            step=one.step,
        )
        for one in loop.evidence
        if one.step not in steps
    ]


def dropped(
    before: Sequence[Message], after: Sequence[Message], earlier: Sequence[Omitted] = ()
) -> tuple[Omitted, ...]:
    """What compactions took from a conversation, by tag (rule 3); `earlier` is what those before this one took."""
    counts = Counter({one.name: one.count for one in earlier})
    tokens = Counter({one.name: one.tokens for one in earlier})
    for sign, messages in ((1, before), (-1, after)):
        for one in messages:
            if one.role != "system":  # compaction documents, which replace each other
                name = tag_of(one) or one.role
                counts[name] += sign
                tokens[name] += sign * _tokens(one)
    return tuple(
        Omitted(name, f"{'summed up' if counts[name] else 'shortened'} by ContextGuard", lost, counts[name])
        for name, lost in tokens.items()
        if lost > 0
    )


def _tokens(message: Message) -> int:
    return estimated_tokens(message.content) + PER_MESSAGE
