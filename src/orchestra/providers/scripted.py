"""The scripted provider: replies from a file (U-07). Demos, tests and `chaos` use it to run without a model.

    replies:
      - match: {role: planner}            # all given fields must fit; none given: fits anything
        text: "1. fix add()"
      - match: {phase: execute, contains: "add"}
        error: {code: RATE_LIMIT, message: "slow down", retriable: true}
      - text: "DECISION: PASS"
        repeat: true                      # never used up

Rules
1. The first unused reply whose match fits is used, once. None left is BAD_REQUEST, naming the request.
2. The run's journal shows which replies are used (`remember`), so a resumed run continues where it was.
3. A script is a plain file, of at most 16 MiB.
4. `delayMs` is how long the whole reply takes, `chunk` how many characters arrive at a time.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.config.yamlfile import read_text, read_yaml
from orchestra.core.calls import PastCall
from orchestra.core.errors import UsageError
from orchestra.core.files import MIB
from orchestra.core.model import (
    FinishReason,
    OnToken,
    ProviderCapabilities,
    ProviderFailure,
    ProviderRequest,
    ProviderResponse,
    Usage,
    unasked,
)
from orchestra.core.records import Phase, Role, utf8
from orchestra.core.run import digest
from orchestra.providers.contract import late
from orchestra.providers.setup import ProviderSetup

_MOST_SCRIPT = 16 * MIB  # all replies of a run


class Match(Struct, frozen=True, forbid_unknown_fields=True):
    """Which requests a reply is for."""

    role: Role | None = None
    phase: Phase | None = None
    agent: str | None = None
    iteration: int | None = None
    contains: str | None = None

    def fits(self, request: ProviderRequest) -> bool:
        """Whether every given field fits this request."""
        wanted = {"role": self.role, "phase": self.phase, "agent": self.agent, "iteration": self.iteration}
        if any(value is not None and getattr(request, name) != value for name, value in wanted.items()):
            return False
        if self.contains is None:
            return True
        said = [message.content for message in request.history]
        said += (artifact.content for artifact in request.contextArtifacts)
        return self.contains in "\n".join((request.prompt.system, request.prompt.user, *said))


class ScriptedReply(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file."""

    match: Match = Match()
    text: str = ""
    error: ProviderFailure | None = None
    finishReason: FinishReason | None = None
    usage: Usage | UnsetType = UNSET
    delayMs: int = 0
    chunk: int = 0
    repeat: bool = False

    def gave(self, raw_sha256: str, error: ProviderFailure | None) -> bool:
        """Whether a recorded reply can have come from this entry."""
        return self.error == error and digest(utf8(self.text)) == raw_sha256


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    replies: tuple[ScriptedReply, ...]


def _is_prose(text: str) -> bool:
    return bool(text.strip()) and not text.lstrip().startswith(("[", "{", "```"))


class ScriptedProvider:
    """Answers from a script."""

    def __init__(self, script: Script, *, name: str) -> None:
        self._replies = script.replies
        self._used: set[int] = set()
        self._name = name

    @property
    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities(name="scripted", supportsPatchFirst=True, supportsStreaming=True)

    def remember(self, call: PastCall) -> None:
        """Mark one reply of an earlier process as used (rule 2); found by its bytes if only its raw file is left."""
        if call.source.isdigit():
            self._used.add(int(call.source) - 1)
            return
        for index, reply in enumerate(self._replies):
            if index not in self._used and call.raw is not None and reply.gave(call.raw.sha256, call.error):
                self._used.add(index)
                return

    def serves(self, role: Role, phase: Phase, agent: str = "") -> bool:
        """Whether the script has a reply for this role: named by role or phase, or a DECISION for an evaluator.

        For an agent: a reply that names it, or prose whose match fits (a plan's JSON is not a summary).
        """
        if agent:
            return any(
                reply.match.role in (None, role)
                and reply.match.phase in (None, phase)
                and (reply.match.agent == agent or (reply.match.agent is None and _is_prose(reply.text)))
                for reply in self._replies
            )
        return any(
            role == reply.match.role
            or (reply.match.role is None and phase == reply.match.phase)
            or (reply.match.role is None and reply.match.phase is None and "DECISION:" in reply.text)
            for reply in self._replies
            if reply.match.agent in (None, role)  # not a reply for another workflow's agent
        )

    async def complete(self, request: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        """Give the next fitting reply (rule 1)."""
        began = time.monotonic()
        index = self._next(request)
        if index is None:
            return unasked(
                "BAD_REQUEST",
                f"{self._name}: no unused reply fits role={request.role} phase={request.phase} "
                f"iteration={request.iteration} agent={request.agent or '-'}; add one, or mark one repeat: true",
            )
        reply = self._replies[index]
        self._used.add(index)
        said: list[str] = []

        def arrived(text: str) -> None:
            said.append(text)
            on_token(text)

        try:
            async with asyncio.timeout(request.constraints.timeoutMs / 1000):
                await _say(reply, arrived)
        except TimeoutError:
            return msgspec.structs.replace(
                late(request, "".join(said), time.monotonic() - began), source=str(index + 1)
            )
        return ProviderResponse(
            rawText=reply.text,
            finishReason=reply.finishReason or ("error" if reply.error else "stop"),
            durationMs=int((time.monotonic() - began) * 1000),
            usage=reply.usage,
            error=reply.error or UNSET,
            source=str(index + 1),
        )

    def _next(self, request: ProviderRequest) -> int | None:
        fitting = (
            i for i, r in enumerate(self._replies) if (r.repeat or i not in self._used) and r.match.fits(request)
        )
        return next(fitting, None)


async def _say(reply: ScriptedReply, on_token: OnToken) -> None:
    size = reply.chunk or len(reply.text) or 1
    pieces = [reply.text[i : i + size] for i in range(0, len(reply.text), size)] or [""]
    for piece in pieces:
        if reply.delayMs:
            await asyncio.sleep(reply.delayMs / 1000 / len(pieces))
        if piece:
            on_token(piece)


def make(setup: ProviderSetup) -> ScriptedProvider:
    """The provider of a script file."""
    file = setup.choice.argument
    if not file:
        raise UsageError("provider scripted needs a file: --provider scripted:FILE")
    return ScriptedProvider(load_script(setup.base / file), name=file)


def load_script(path: Path) -> Script:
    """Read a script file, YAML or JSON; every mistake is named with its place."""
    import yaml  # imported here: only runs with a YAML script need the parser

    try:
        text = read_text(path, _MOST_SCRIPT, name=f"the script {path}")
    except UsageError as error:
        raise UsageError(f"{error}. Give --provider scripted:FILE") from error
    try:
        data: Any = msgspec.json.decode(text) if path.suffix == ".json" else yaml.safe_load(text)
        return msgspec.convert(data, Script)
    except msgspec.ValidationError as error:
        where = _mistakes(path) if path.suffix != ".json" else f" {error}"
        raise UsageError(f"the script {path} is not valid:{where}") from error
    except (msgspec.DecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"the script {path} is not valid: {error}") from error


def _mistakes(path: Path) -> str:
    """All mistakes of a YAML script, each with its line."""
    _, _, mistakes = read_yaml(path, Script, most=_MOST_SCRIPT)
    return "".join(f"\n{path}:{mistake.line}: {mistake.text}" for mistake in sorted(mistakes))
