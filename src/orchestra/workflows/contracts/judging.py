"""Judgements of models: what kind of failure a test's is, and whether the design is kept (GATE-4).

Rules
1. The QA engineer is asked only if a test failed, and replies with a test-result document. Of it only category and
   reason of each failed test are taken: everything else is from the run (G3-8).
2. A reply that cannot be read after its repairs counts as implementation_error: the cheapest class to be wrong about.
3. GATE-4 is judged by a command of the project where one is configured, else by the architect (`DECISION:` lines).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from orchestra.core.command import RunCommand
from orchestra.core.context import Context
from orchestra.core.errors import ContractError, StepFailed
from orchestra.core.looks import Looked, file_name
from orchestra.core.text import brief as shortened
from orchestra.core.work import ModelReply
from orchestra.workflows.contracts import documents
from orchestra.workflows.contracts.asking import call
from orchestra.workflows.contracts.effects import Settle
from orchestra.workflows.contracts.gates import Passing
from orchestra.workflows.contracts.records import FailureClass
from orchestra.workflows.contracts.rules import Ids
from orchestra.workflows.contracts.shapes import CLASSIFY, JUDGE_DESIGN, Brief, Text, Work, labels
from orchestra.workflows.contracts.testruns import Class, TestRun
from orchestra.workflows.replies import Opinion, read_decision


async def classify(
    here: Context, work: Work, ids: Ids, contract: Looked, run: TestRun, failures: Mapping[str, str]
) -> dict[str, Class]:
    """The class of each failure (rule 1)."""
    lines = "\n".join(f"- {case}: {why}" for case, why in failures.items())
    sources: dict[str, Text] = {
        "test-contract.yaml": contract,
        "failed test cases": lines,
        "output of the test command": run.output,
    }
    asked = Brief(work, CLASSIFY, sources, ids.subtask_id)
    try:
        return await call(here, asked, read_classes)
    except StepFailed as failed:
        if failed.code != ContractError.code:
            raise
        return {}  # rule 2


def read_classes(reply: ModelReply) -> dict[str, Class]:
    """The classes in a reply; ContractError if it has none."""
    found = documents.plain_reply(reply.text, "test-result reply")
    try:
        rows = msgspec.convert(found, _Classified).failed_tests
    except msgspec.ValidationError as error:
        raise ContractError("failed_tests", f"failed_tests: {error}. Each needs id, category and reason.") from error
    if not rows:
        raise ContractError("failed_tests", "failed_tests is empty: tests failed, and each needs a category.")
    return {row.id: Class(row.category, row.reason) for row in rows}


class _Row(Struct, frozen=True):
    id: str
    category: FailureClass
    reason: str = ""


class _Classified(Struct, frozen=True):
    failed_tests: tuple[_Row, ...] = ()


async def judge_design(here: Context, work: Work, target: str, design: Looked, changed: Sequence[str]) -> str:
    """GATE-4: why the implementation breaks the design; empty if it keeps it (rule 3)."""
    if not work.job.designCheck:
        return ""
    if work.job.designCommand:
        opinion = await _by_command(here, work)
    else:
        sources: dict[str, Text] = {"design-contract.yaml": design, "changed files": "\n".join(changed)}
        opinion = await call(here, Brief(work, JUDGE_DESIGN, sources, target), read_decision)
    kept = opinion.decision == "pass"
    passing = Passing("GATE-4", "passed" if kept else "failed", shortened(opinion.grounds, 1_000))
    at = here.at("evaluate", 1, labels("gate", target))
    await at.perform("gate-4", Settle(msgspec.to_builtins(passing)))
    return "" if kept else f"The implementation breaks the design. {opinion.grounds}"


async def _by_command(here: Context, work: Work) -> Opinion:
    command = RunCommand(
        argv=work.job.designCommand,
        timeoutMs=work.job.testTimeoutMs,
        artifact=f"evaluate/{file_name(here.peek_key('design-check'))}.txt",
        asker=work.job.asker,
        keeps="layer",
    )
    outcome = await here.perform("design-check", command)
    if outcome.status == "pass":
        return Opinion("pass", f"`{outcome.command}` passed")
    return Opinion("fixable", f"`{outcome.command}`: {outcome.error or outcome.output[-1_500:]}")
