"""Probe: proves that a tier of containment holds on this machine, by trying to break it (MS-1.6).

Rules
1. One launch, through the launcher that commands use and with the same options. Inside, attempts.py tries forbidden
   things against canaries that were made here, and ordinary things that must work; afterwards the canaries are checked.
2. `held` is true only if each attempt was refused, no canary was touched *and* the ordinary things worked.
3. A tier that cannot be set up does not hold: the proof contains the reason and the remedy for this machine.
4. A proof is valid as long as `fingerprint()` is the same; callers store it under the fingerprint (machine.py).
5. What a tier does not promise is not tried; it is listed in `weak`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from orchestra.worker import attempts
from orchestra.worker.canaries import canaries
from orchestra.worker.host import weak_points
from orchestra.worker.launcher import Launcher
from orchestra.worker.machine import REPORT, machine, remedy
from orchestra.worker.task import CommandResult, Tier

_WORKS: Final = (
    "read the workspace", "write temporary files", "start a program", "start a thread", "use devices",
    "talk over a socket pair",
)  # fmt: skip
_WORKS_IN_STRICT: Final = ("write the workspace",)  # into a layer that is discarded
# These need namespaces (confine.NOT_HELD); tier "landlock" does not promise them.
_HELD_BY_NAMESPACES: Final = ("see a process outside", "see the home folder", "see network interfaces")
_OUTSIDE: Final = ("the canary file", "the workspace", "the listeners")  # checked outside the sandbox, afterwards


class Finding(msgspec.Struct, frozen=True):
    """One attempt, its expected and its actual outcome."""

    name: str
    expected: str  # "refused", "done", "untouched"
    happened: str
    ok: bool


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the tier holds on this machine, and the attempts that show it."""

    tier: Tier
    held: bool
    findings: tuple[Finding, ...] = ()
    bwrap: str = ""
    kernel: str = ""
    landlock_abi: int = 0
    weak: tuple[str, ...] = ()  # what the tier does not hold, by design
    reason: str = ""  # why the tier does not hold
    remedy: str = ""  # what the user can do about that


async def prove(launcher: Launcher, tier: Tier, *, run_as: int | None = None, near: Path | None = None) -> Proof:
    """Try to break out of the tier. The canaries lie in a new folder in `near`, or among temporary files."""
    here = machine()
    facts = Proof(
        tier=tier, held=False, bwrap=here.bwrap, kernel=here.kernel, landlock_abi=here.landlock_abi,
    )  # fmt: skip
    if tier == "none":
        return msgspec.structs.replace(facts, reason="tier none contains nothing", remedy=remedy(tier, "", here))
    with canaries(near) as place:
        sandbox = place.sandbox(tier, run_as)
        facts = msgspec.structs.replace(facts, weak=weak_points(sandbox))
        out = place.folder / "out"
        result = await launcher.launch(place.command(tier, run_as), sandbox, out, None)
        said = _said(out, result)
        if said is None:
            reason = result.error or _ended(result)
            return msgspec.structs.replace(facts, reason=reason, remedy=remedy(tier, reason, here))
        findings = judge(tier, said, place.touched())
    wrong = [finding for finding in findings if not finding.ok]
    if wrong:
        reason = "; ".join(f"{f.name}: {f.happened} (expected: {f.expected})" for f in wrong)
        return msgspec.structs.replace(facts, findings=findings, reason=reason, remedy=REPORT)
    return msgspec.structs.replace(facts, findings=findings, held=True)


def judge(tier: Tier, said: dict[str, str], touched: dict[str, str]) -> tuple[Finding, ...]:
    """Pure: compare each attempt's outcome with the expected one. An attempt without an outcome counts as failed."""
    works = _WORKS + (_WORKS_IN_STRICT if tier == "strict" else ())
    not_promised = _HELD_BY_NAMESPACES if tier == "landlock" else ()
    findings = []
    for name in attempts.names():
        happened = said.get(name, "no result")
        expected = "done" if name in works else "refused"
        if name not in not_promised:
            findings.append(Finding(name, expected, happened, happened.partition(":")[0] == expected))
    for name in _OUTSIDE:
        happened = touched.get(name, "untouched")
        findings.append(Finding(name, "untouched", happened, happened == "untouched"))
    return tuple(findings)


def _said(out: Path, result: CommandResult) -> dict[str, str] | None:
    if result.exitCode != 0:
        return None
    try:
        return msgspec.json.decode(out.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return None


def _ended(result: CommandResult) -> str:
    how = f"exit code {result.exitCode}" if result.exitCode is not None else f"signal {result.signal}"
    return f"the attempts did not finish ({how}): {result.stderr.excerpt or result.stdout.excerpt}".strip()
