"""Handler of `RunCommand`: a workflow's check as a task of the worker."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from orchestra.core.context import Step
from orchestra.core.records import ArtifactRef
from orchestra.core.redact import Redactor, names_secret
from orchestra.core.work import CommandOutcome, RunCommand
from orchestra.worker.launcher import launch
from orchestra.worker.task import Command, CommandResult


class CommandRunner:
    """Runs commands in one workspace.

    A check runs what a model wrote, so it sees the person's environment without the secrets in it, and nothing of
    orchestra's own.
    """

    def __init__(self, workspace: Path, environ: Mapping[str, str], redactor: Redactor) -> None:
        self._workspace = workspace
        kept = {n: v for n, v in environ.items() if not _private(n, v, redactor)}
        # Python takes a .pyc for fresh if size and second agree: after a quick patch it would test the old code.
        self._env = {"PYTHONDONTWRITEBYTECODE": "1", **kept}

    async def __call__(self, effect: RunCommand, step: Step) -> CommandOutcome:
        """Run it to its end; a command that fails, hangs or does not start is an outcome like any other."""
        ledger = step.ledger
        command = Command(argv=effect.argv, cwd=str(self._workspace), env=self._env, timeout_ms=effect.timeoutMs)
        path = ledger.folder.artifact(effect.artifact)
        result = await launch(command, path, redactor=ledger.redactor, disk=ledger.disk)
        return _outcome(effect, result, ledger.folder.path)


def _private(name: str, value: str, redactor: Redactor) -> bool:
    """A variable no check may see: named like a secret, holding one, a door to one, or orchestra's own."""
    if name.startswith("ORCHESTRA_") or name in ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO"):
        return True
    return names_secret(name) or redactor.text(value) != value


def _outcome(effect: RunCommand, result: CommandResult, run: Path) -> CommandOutcome:
    artifact = result.artifact
    error = result.error or ("" if result.signal is None else f"ended by signal {result.signal}")
    ref = ArtifactRef(str(Path(artifact.path).relative_to(run)), artifact.bytes, artifact.sha256) if artifact else None
    return CommandOutcome(
        command=shlex.join(effect.argv),
        exitCode=result.exitCode,
        status="not_run" if result.error else "pass" if result.exitCode == 0 and not result.timedOut else "fail",
        durationMs=result.durationMs,
        timedOut=result.timedOut,
        output="\n".join(part for part in (result.stdout.excerpt.rstrip(), result.stderr.excerpt.rstrip()) if part),
        artifact=ref,
        error=error,
    )
