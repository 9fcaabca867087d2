"""The gate asks about changes of lines that the model was not shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, Struct

from orchestra.app import App
from orchestra.core.context import Context, Verdict
from orchestra.core.effects import digest_of
from orchestra.core.engine import RunEnd
from orchestra.core.reading import Request
from orchestra.core.records import ArtifactRef
from orchestra.core.run import digest
from orchestra.core.shown import ShownLines
from orchestra.core.work import Approve, ModelReply, PatchFile, ProposePatch, Reply, ReviewPatch
from orchestra.policy.policy import ApprovalPolicy
from orchestra.providers.choose import Models
from orchestra.workflows.description import Workflow
from orchestra.workflows.gate import Ticket, pass_gate
from tests.support.project import RIGHT_PATCH, Project
from tests.support.runs import read_events

RAW = ArtifactRef("artifacts/execute/iter-0001.raw.txt", len(RIGHT_PATCH.encode()), digest(RIGHT_PATCH.encode()))
PART = "changes line 2 of calc.py, which the model was not shown"
FILE = "changes calc.py, which the model was not shown"


class Order(Struct):
    asks: ApprovalPolicy
    shown: ShownLines | None


class Older(Struct):
    """ProposePatch before it had `shown`."""

    reply: Reply
    artifact: str


async def flow(ctx: Context, order: Order) -> Verdict:
    ticket = Ticket("execute/iter-0001.patch", "approval-0001", order.asks, "add", order.shown)
    passage = await pass_gate(ctx.at("execute", 1), Reply(RIGHT_PATCH, RAW), ticket)
    return Verdict(status="completed", result={"risks": passage.proposal.risks})


def at_the_gate(project: Project, policy: ApprovalPolicy, shown: ShownLines | None) -> tuple[RunEnd, tuple[str, ...]]:
    """How the run ended, and why a person was asked."""
    gate = Workflow(name="gate", params=Order, flow=flow, goal=lambda order: "g")
    app = App(project.path, more=(gate,))
    folder = app.start("gate", Order(policy, shown), Models(), typed=("approval",))
    end = asyncio.run(app.drive(folder))
    asked = [Request.of(e) for e in read_events(folder.events) if e.type == "APPROVAL_REQUESTED"]
    return end, asked[0].reasons if asked else ()


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        (ShownLines(whole=("calc.py",)), ""),
        (ShownLines(parts={"calc.py": ((1, 2),)}), ""),
        (None, ""),  # not judged
        (ShownLines(parts={"calc.py": ((1, 1),)}), PART),
        (ShownLines(whole=("other.py",)), FILE),
    ],
)
def test_a_change_that_the_model_could_not_see_is_a_risk(tmp_path: Path, shown: ShownLines | None, reason: str) -> None:
    end, reasons = at_the_gate(Project(tmp_path / "p"), "risk", shown)
    assert (end.status, end.exit_code) == (("awaiting_approval", 3) if reason else ("completed", 0))
    assert reasons == ((reason,) if reason else ())


def test_who_asks_always_is_told_it_too_and_who_never_asks_goes_on(tmp_path: Path) -> None:
    blind = ShownLines()
    _, reasons = at_the_gate(Project(tmp_path / "always"), "always", blind)
    assert FILE in reasons
    end, _ = at_the_gate(Project(tmp_path / "never"), "never", blind)
    assert end.result == {"risks": (FILE,)}


def test_a_proposal_that_an_older_version_recorded_is_no_drift() -> None:
    reply = Reply(RIGHT_PATCH, RAW)
    older = digest_of(["ProposePatch", Older(reply, "a.patch")])
    assert ProposePatch(reply, "a.patch").identity() == older
    assert ProposePatch(reply, "a.patch", ShownLines(("calc.py",), {"x": ((1, 2),)})).identity() == older


def test_what_a_reply_was_shown_follows_from_its_record() -> None:
    facts: dict[str, Any] = {"text": "", "raw": RAW, "finishReason": "stop", "durationMs": 1, "provider": "p"}
    seen = ModelReply(**facts, files=("a.py", "b.py"), parts={"b.py": ((3, 4),)}, contextBytes=1000, usage=UNSET)
    assert seen.shown == ShownLines(("a.py",), {"b.py": ((3, 4),)})
    assert ModelReply(**facts, contextBytes=1000).shown == ShownLines()
    assert ModelReply(**facts).shown is None  # only the raw file was left: nothing is claimed about it


def test_an_older_run_that_waits_for_an_approval_can_go_on() -> None:
    """A patch was asked about with Approve; a run that still waits recorded its digest."""
    file = PatchFile("calc.py", "modify", RAW.sha256, RAW.sha256, 1, 1)
    given: dict[str, Any] = {"approvalId": "a", "digest": RAW.sha256, "policy": "always", "reasons": ("x",)}
    given |= {"summary": "더하기", "patch": RAW, "files": (file,)}
    assert ReviewPatch(**given).identity() == Approve(**given).identity()
    assert ReviewPatch(**given).public() == Approve(**given).public()
