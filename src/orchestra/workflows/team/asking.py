"""Calling an agent: one step of a team's work, with its repairs and its questions to a person.

Rules
1. A call is made in an edition of what the agent is shown (shapes.py, rule 2). Nothing else goes into its prompt but
   answers of a person and the reason why its last reply could not be used, which are steps of the same edition.
2. A technical failure is tried again once (S4-76). A reply that cannot be read goes back to the agent, at most REPAIRS
   times (C-09). After that the agent has failed: AgentFailed.
3. A question goes to a person with its options, default and impact (S4-72 … S4-74). The answer goes back to the agent
   in one more call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from orchestra.core.context import Context
from orchestra.core.errors import ContractError, OrchestraError, StepFailed
from orchestra.core.inbox import free_name
from orchestra.core.looks import file_name
from orchestra.core.model import Constraints
from orchestra.core.work import AskPerson, ModelCall, ModelReply
from orchestra.workflows.team.decisions import read_decisions
from orchestra.workflows.team.definitions import DECISIONS
from orchestra.workflows.team.replies import AgentReply, Question, read_reply
from orchestra.workflows.team.shapes import MOST_QUESTIONS, REPAIRS, Brief, labels

T = TypeVar("T")


class AgentFailed(OrchestraError):
    """An agent failed for good (rule 2). The failure of its step is in the journal."""

    code = "AGENT_FAILED"

    def __init__(self, brief: Brief, failed: StepFailed) -> None:
        super().__init__(str(failed))
        self.agent = brief.agent.name
        self.native = brief.action.native
        self.phase = brief.phase.number
        self.failed = failed


_FIRST = re.compile(r"@1(?=/)|\.1$")


async def write(ctx: Context, place: str, brief: Brief) -> AgentReply:
    """Have an agent write its files; its questions are answered before this returns (rule 3)."""
    here = await begin(ctx, place, brief)
    answers: list[tuple[str, str]] = []
    while True:
        may_ask = len(answers) < MOST_QUESTIONS
        reply = await call(here, brief, partial(_read_files, brief, may_ask), answers)
        if not reply.questions:
            return reply
        for question in reply.questions:
            answers.append((question.text, await _ask(here, brief, question)))


def _read_files(brief: Brief, may_ask: bool, text: str) -> AgentReply:
    reply = read_reply(text, brief.files, needed=brief.needed)
    if reply.questions and not may_ask:
        raise ContractError("agent_reply", "you have asked often enough: decide, and write your files")
    if DECISIONS in reply.files:
        read_decisions(reply.files[DECISIONS])
    return reply


async def begin(ctx: Context, place: str, brief: Brief) -> Context:
    """The context of a step of an agent (rule 1)."""
    action, target = brief.action, brief.files[0] if brief.files else ""
    named = labels(action, brief.phase.number, brief.agent.name, target, brief.round)
    return await ctx.at(action.phase, brief.round, named).edition(place, brief.inputs)


async def call(
    here: Context, brief: Brief, read: Callable[[str], T], answers: list[tuple[str, str]] | None = None
) -> T:
    """Call an agent until its reply can be read (rule 2)."""
    name, problem = brief.action.native, ""
    for attempt in range(1 + REPAIRS):
        wanted = ModelCall(
            role=brief.action.role,
            agent=brief.agent.name,
            prompt=brief.prompt(answers or (), problem),
            notes=(),
            constraints=Constraints(timeoutMs=brief.work.job.timeoutMs, patchFirst=False),
            artifact=f"{brief.action.phase}/{file_name(here.peek_key(name))}",
            files=False,
        )
        try:
            said = await here.perform(name, wanted, accept=partial(_read, read), retry=brief.work.job.retry)
        except StepFailed as failed:
            unreadable = failed.code == ContractError.code
            brief.work.replies += unreadable
            if not unreadable or attempt == REPAIRS:
                raise AgentFailed(brief, failed) from failed
            problem = str(failed)
        else:
            brief.work.replies += 1
            return said
    raise AssertionError("unreachable: the last repair returns or raises")


def _read(read: Callable[[str], T], reply: ModelReply) -> T:
    if reply.finishReason == "length":
        raise ContractError("agent_reply", "the reply was cut off before its end: write a shorter one")  # G1-7
    return read(reply.text)


async def _ask(here: Context, brief: Brief, question: Question) -> str:
    """A person's answer to an agent's question."""
    asked = AskPerson(
        questionId=question_name(here.peek_key("ask"), question.kind),
        question=question.text,
        reason=f"asked by {brief.agent.name} in phase {brief.phase.number}",
        needed_input=(),
        artifact=f"ask/{file_name(here.peek_key('ask'))}.md",
        kind="decision",
        options=question.options,
        default=question.default,
        impact=question.impact,
    )
    return (await _asking(here, brief).perform("ask", asked)).text


def _asking(here: Context, brief: Brief) -> Context:
    names = labels(brief.action, brief.phase.number, brief.agent.name, "", brief.round)
    return here.at("ask", brief.round, names)


def question_name(key: str, kind: str) -> str:
    """The name of a question: from the key of its step, so that no other question of the run has it."""
    scope, _, step = key.rpartition("/")
    number = step.rpartition(".")[2]
    where = _FIRST.sub("", f"{scope}/").rstrip("/").replace("/", "-")
    return free_name(f"{where}-{kind}" + (f"-{number}" if number != "1" else ""))
