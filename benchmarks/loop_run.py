"""A run folder as a very long loop leaves it: the real table, real payload shapes, a thousand rounds of fixing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from durable import LazyDisk, new_ledger
from msgspec import UNSET, UnsetType

from orchestra.core.command import CommandOutcome
from orchestra.core.ledger import Ledger
from orchestra.core.model import Usage
from orchestra.core.records import ArtifactRef, EventType, Phase
from orchestra.core.run import RunFolder
from orchestra.core.work import ModelReply
from orchestra.workflows.loop.states import TABLE

_DIGEST = "sha256:" + "0" * 64
_OUTPUT = "1 failed\n" * 20
_REPLY = "The check fails because the total is taken before the discount.\n" * 5


def write_loop_run(project: Path, events: int) -> str:
    """Write `.runs/workflows/<id>/` with about this many events; returns the run's id."""
    folder = RunFolder(project / ".runs" / "workflows" / "2026-01-01_001_loop_long")
    folder.path.mkdir(parents=True)
    ledger = new_ledger(folder, TABLE, LazyDisk())
    ledger.open()
    facts = {"goal": "make the tests pass", "approval": "never", "maxFixIterations": 3, "params": {}}
    ledger.record("RUN_CREATED", {"workflow": "loop", **facts})
    _call(ledger, "plan", 1)
    iteration = 1
    while len(ledger.events) + 10 <= events:
        _round(ledger, "execute" if iteration == 1 else "fix", iteration)
        iteration += 1
    ledger.close()
    return folder.id


def _round(ledger: Ledger, phase: Phase, iteration: int) -> None:
    """Patch, approval by policy, apply, a failing check, the evaluator's word."""
    _call(ledger, phase, iteration)
    file = {"path": "src/total.py", "added": 3, "removed": 2}
    patch = {"files": [file], "added": 3, "removed": 2, "patch": _file(f"patches/iter-{iteration:04d}.diff")}
    _outcome(ledger, "PATCH_PRODUCED", "propose", iteration, patch)
    _outcome(ledger, "APPROVAL_GRANTED", "approve", iteration, {"by": "policy", "digest": _DIGEST})
    _outcome(ledger, "PATCH_APPLIED", "apply", iteration, {"before": [file], "after": [file]})
    check = CommandOutcome("pytest -q", exitCode=1, status="fail", durationMs=812, timedOut=False, output=_OUTPUT)
    _step(ledger, "check", "RunCommand", "evaluate", iteration, msgspec.to_builtins(check))
    _call(ledger, "evaluate", iteration)
    judged = {"decision": "fixable", "grounds": "one test fails", "artifact": _file(f"evaluate/iter-{iteration:04d}")}
    _outcome(ledger, "EVALUATION_FAILED_FIXABLE", "judge", iteration, judged)


def _call(ledger: Ledger, phase: Phase, iteration: int) -> None:
    raw = ArtifactRef(f"artifacts/{phase}/iter-{iteration:04d}.raw.txt", 321, _DIGEST)
    reply = ModelReply(_REPLY, raw, "stop", durationMs=4321, provider="scripted", usage=Usage(900, 90))
    _step(ledger, phase, "ModelCall", phase, iteration, msgspec.to_builtins(reply))


def _step(ledger: Ledger, name: str, effect: str, phase: Phase, iteration: int, outcome: dict[str, Any]) -> None:
    begun = {"key": f"{name}.{iteration}", "effect": effect, "intent": _DIGEST, "role": "fixer"}
    ledger.record("PHASE_STARTED", begun, phase=phase, iteration=iteration)
    _outcome(ledger, "PHASE_COMPLETED", name, iteration, outcome, effect=effect, phase=phase)


def _outcome(
    ledger: Ledger,
    type: EventType,
    name: str,
    iteration: int,
    outcome: dict[str, Any],
    *,
    effect: str = "",
    phase: Phase | UnsetType = UNSET,
) -> None:
    payload = {"key": f"{name}.{iteration}", "effect": effect, "outcome": outcome}
    ledger.record(type, payload, phase=phase, iteration=iteration)


def _file(path: str) -> dict[str, Any]:
    return {"path": f"artifacts/{path}", "bytes": 321, "sha256": _DIGEST}
