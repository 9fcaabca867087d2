"""Test code, by the QA engineer: a patch that may change tests only, through the gate.

Rules
1. A patch out of scope, one that does not apply, one that a person rejects, and a reply without the test file go back
   to the QA engineer, with the reason, a few times.
2. A question of the QA engineer goes to a person.
"""

from __future__ import annotations

from msgspec import Struct

from orchestra.core.context import Context
from orchestra.core.errors import StepFailed
from orchestra.core.inbox import free_name
from orchestra.core.looks import Looked, file_name
from orchestra.core.shown import ShownLines
from orchestra.core.work import Applied, Approval, AskPerson, ModelReply, Reply
from orchestra.patch.result import Ask, Noop, Patch
from orchestra.workflows.contracts.asking import call
from orchestra.workflows.contracts.effects import LookUp
from orchestra.workflows.contracts.gates import qa_scope
from orchestra.workflows.contracts.merging import Terms
from orchestra.workflows.contracts.records import TestContract
from orchestra.workflows.contracts.rules import Ids
from orchestra.workflows.contracts.shapes import MOST_QUESTIONS, REPAIRS, TEST_CODE, Brief, Text, Work, labels
from orchestra.workflows.gate import Passage, Ticket, pass_gate
from orchestra.workflows.replies import read_result

NOT_WRITTEN = "TESTS_NOT_WRITTEN"


class Written(Struct, frozen=True):
    """The QA engineer's reply, and the file with its exact text."""

    result: Patch | Ask | Noop
    reply: Reply
    shown: ShownLines | None


async def write_tests(
    here: Context, work: Work, ids: Ids, contract: TestContract, file: Looked, design: Looked
) -> tuple[str, ...]:
    """Have the test code written; returns the test file, which is there then (GATE-1)."""
    sources: dict[str, Text] = {"test-contract.yaml": file, "design-contract.yaml": design}
    problem = ""
    answers: tuple[tuple[str, str], ...] = ()
    for _ in range(1 + REPAIRS + MOST_QUESTIONS):
        told = {"what was wrong with your last reply": problem} if problem else {}
        written = await call(here, Brief(work, TEST_CODE, sources, ids.subtask_id, told), _read, answers=answers)
        if isinstance(written.result, Ask):
            answers = (*answers, (written.result.question, await _ask(here, ids, written.result)))
            continue
        problem = await _apply(here, work, contract, written) if isinstance(written.result, Patch) else ""
        found = await here.perform("test-file", LookUp(Terms((contract.test_file_path,))))
        if not problem and found.paths:
            return found.paths
        problem = problem or f"{contract.test_file_path} was not written. Write it."
    raise StepFailed(here.peek_key("test-code"), NOT_WRITTEN, f"the tests could not be written: {problem}")


def _read(reply: ModelReply) -> Written:
    return Written(read_result(reply.text), Reply(reply.text, reply.raw), reply.shown)


async def _apply(here: Context, work: Work, contract: TestContract, written: Written) -> str:
    """Apply the patch through the gate; why it was not applied, if it was not (rule 1)."""
    key = file_name(here.peek_key("patch"))
    ticket = Ticket(
        artifact=f"execute/{key}.patch",
        approval_id=free_name(f"approval-{key}"),
        policy=work.approval(here.changes),
        summary=written.result.summary if isinstance(written.result, Patch) else "",
        shown=written.shown,
        scope=qa_scope(contract),
    )
    match await pass_gate(here, written.reply, ticket):
        case Passage(done=Applied(refusal=None)):
            return ""
        case Passage(done=Applied(refusal=refusal)) if refusal is not None:
            return f"The patch was not applied ({refusal.reason}): {refusal.message}"
        case Passage(approval=Approval(reason=reason, end=end)):
            if end:
                raise StepFailed(here.peek_key("test-code"), NOT_WRITTEN, f"a person ended it: {reason}")
            return f"A person rejected the patch. Reason: {reason or 'none given'}"
    raise AssertionError("a passage ends applied or rejected")


async def _ask(here: Context, ids: Ids, asked: Ask) -> str:
    key = here.peek_key("question")
    question = AskPerson(
        questionId=free_name(file_name(key)),
        question=asked.question,
        reason=asked.reason,
        needed_input=asked.needed_input,
        artifact=f"ask/{file_name(key)}.md",
    )
    return (await here.at("ask", 1, labels("test-code", ids.subtask_id)).perform("question", question)).text
