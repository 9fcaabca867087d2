"""The `claude` CLI as a pure text function: no tools, no files, no session left behind, the prompt by stdin (S2-53).

    request ──▶ claude -p … (in a sandbox of its own) ──▶ its stream of Messages events ──▶ response

Rules
1. The CLI sees an empty folder, a home made for this call, and the network; nothing of the project and nothing of the
   user's home. A model that follows a hostile prompt finds nothing to read or change (C-13).
2. One call is one paid request. The CLI's own retries and fall-backs are off. After an empty reply, or one cut at its
   limit, the CLI would continue by itself: a budget that any request uses up stops it (MM-2.1). With a login the CLI
   tells the model of that budget, so there it is ended at the end of such a reply, and when a second reply begins.
   One thing cannot be switched off: after a status 400 or 404 the CLI makes a second request (without a beta
   header; without a stream). No service bills the refused one. If the second is answered with a stream, the CLI's
   output does not show the first; in all other cases both are counted.
3. Tokens and cost are those of the CLI's report. `is_error` decides, never the exit code or `subtype`.
4. A key comes from the environment and is passed by the environment. Without a key the CLI gets a copy of the user's
   login. If the CLI renews it, the renewed login is copied back, however the call ends, if it still is a login.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import MIB, read_bounded
from orchestra.core.model import Destination, OnToken, ProviderCapabilities, ProviderRequest, ProviderResponse
from orchestra.providers.bounds import bounds
from orchestra.providers.claude_stream import CliReader, judge
from orchestra.providers.patience import Limits, Patience
from orchestra.providers.program import Converse, Talk
from orchestra.providers.prompting import one_text, system_text
from orchestra.providers.reading import UNREADABLE
from orchestra.providers.setup import WAYS, ProviderSetup

LOGIN = ".claude/.credentials.json"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_OTHER_LOGINS = (
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
)
_SYSTEM = "system.md"  # a file in its home: the system prompt is too long and too private for an argument
_HANDED_ON = ("ANTHROPIC_", "CLAUDE_CODE_")
_CLOUDS = {"CLAUDE_CODE_USE_BEDROCK": ("AWS_",), "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "CLOUD_ML_REGION")}
_NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
_SETTLED = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_RETRY": "1",
    "CLAUDE_CODE_DISABLE_THINKING": "1",
    "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
}
_ARGUMENTS = (
    *("-p", "--tools", "", "--max-turns", "1", "--no-session-persistence", "--strict-mcp-config"),
    *("--output-format", "stream-json", "--verbose", "--include-partial-messages"),
)
_NO_MORE = ("--max-budget-usd", "0.0000001")


class ClaudeCode:
    """Answers from the claude CLI."""

    def __init__(
        self,
        converse: Converse,
        environ: Mapping[str, str],
        *,
        model: str,
        program: str = "claude",
        limits: Limits,
        max_output_tokens: int = 0,
        context_tokens: int | UnsetType = UNSET,
        trace_header: str = "",
    ) -> None:
        self._converse = converse
        self._environ = environ
        self._model = model
        self._program = program
        self._limits = limits
        self._max_tokens = max_output_tokens
        self._context_tokens = context_tokens
        self._trace_header = trace_header

    @property
    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities(
            name="claude_code",
            supportsPatchFirst=True,
            supportsStreaming=True,
            supportsToolCalls=False,
            maxContextTokens=self._context_tokens,
        )

    async def complete(self, request: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        """Make one request with the CLI."""
        began = time.monotonic()
        keyed = self._has(KEYS)
        server = self._environ.get("ANTHROPIC_BASE_URL", "")
        reader = CliReader(
            bounds(self._limit(request)),
            stops_itself=keyed,
            server=f" (ANTHROPIC_BASE_URL is {server})" if server else "",
        )
        patience = Patience(request.constraints.timeoutMs / 1000, self._limits)

        def heard(data: bytes) -> bool:
            for text in reader.feed(data):
                on_token(text)
            patience.heard(reader.reply.news)
            return reader.enough

        login = self._login()
        talk = Talk(
            run=request.runId,
            arguments=self._arguments(keyed),
            env=self._environment(request),
            stdin=one_text(request).encode("utf-8", "replace"),
            timeout_ms=request.constraints.timeoutMs,
            on_bytes=heard,
            home={_SYSTEM: system_text(request).encode("utf-8", "replace"), **({LOGIN: login} if login else {})},
            back=(LOGIN,) if login else (),
            on_back=lambda _, renewed: self._put_back(login, renewed),
        )
        try:
            async with patience:
                ended = await self._converse(self._program, talk)
            judge(reader, ended)
        except TimeoutError:
            reader.reply.fail("TIMEOUT", f"{self._program}: {patience.why}", retriable=True)
        return reader.reply.response(time.monotonic() - began)

    def _arguments(self, keyed: bool) -> tuple[str, ...]:
        # With a key, `--bare` ignores the user's set-up. It would also ignore a login, so it is not used with one.
        plain = ("--bare", *_NO_MORE) if keyed else ("--setting-sources", "")
        return (*_ARGUMENTS, *plain, "--model", self._model, "--system-prompt-file", f"{{home}}/{_SYSTEM}")

    def _environment(self, request: ProviderRequest) -> dict[str, str]:
        clouds = tuple(prefix for name, prefixes in _CLOUDS.items() if self._environ.get(name) for prefix in prefixes)
        given = {
            name: value
            for name, value in self._environ.items()
            if name.startswith(_HANDED_ON + clouds) or name.upper() in _NETWORK
        }
        given |= _SETTLED | {"API_TIMEOUT_MS": str(request.constraints.timeoutMs)}
        if limit := self._limit(request):
            given["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(limit)
        if self._trace_header and request.runId:  # S2-87
            own = given.get("ANTHROPIC_CUSTOM_HEADERS", "")
            given["ANTHROPIC_CUSTOM_HEADERS"] = f"{own}\n{self._trace_header}: {request.runId}".strip()
        return given

    def _limit(self, request: ProviderRequest) -> int:
        return request.constraints.maxOutputTokens or self._max_tokens

    def _has(self, names: tuple[str, ...]) -> bool:
        return any(self._environ.get(name) for name in names)

    def _login(self) -> bytes:
        """The user's login file, if the call uses it (rule 4); else empty."""
        if self._has(KEYS + _OTHER_LOGINS):
            return b""
        try:
            return _read_login(login_file(self._environ))
        except (OSError, OddFile):
            return b""

    def _put_back(self, before: bytes, after: bytes) -> None:
        path = login_file(self._environ)
        try:
            if after == before or not _is_login(after) or _read_login(path) != before:
                return  # unchanged, not a login, or renewed by another process meanwhile
            part = path.with_name(f"{path.name}.orchestra")
            part.unlink(missing_ok=True)
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(after)
            part.replace(path)
        except (OSError, OddFile):
            pass  # the folder is not writable: the user must log in again some day


def make(setup: ProviderSetup) -> ClaudeCode:
    """The provider of the CLI on PATH; UsageError if it is missing or not logged in."""
    choice, environ, program = setup.choice, setup.environ, setup.choice.entry.program or "claude"
    if not shutil.which(program, path=environ.get("PATH")):
        raise UsageError(f"provider claude_code: there is no program {program!r} on PATH; {WAYS}")
    if not logged_in(environ):
        raise UsageError(f"provider claude_code is not logged in: run `claude` and /login, or set {KEYS[0]}")
    return ClaudeCode(
        setup.programs(),
        environ,
        model=choice.model,
        program=program,
        limits=setup.limits,
        max_output_tokens=setup.max_output_tokens,
        context_tokens=choice.context_tokens,
        trace_header=setup.trace_header,
    )


def destination(setup: ProviderSetup) -> Destination:
    """The program, and the address of its server if the environment names one."""
    address, program = setup.environ.get("ANTHROPIC_BASE_URL", ""), f"program {setup.choice.entry.program or 'claude'}"
    return Destination(f"{program}, ANTHROPIC_BASE_URL {address}" if address else program, leaves=True)


def login_file(environ: Mapping[str, str]) -> Path:
    """The path of the CLI's login file."""
    folder = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(environ.get("HOME", "/"), ".claude")
    return Path(folder, Path(LOGIN).name)


def _read_login(path: Path) -> bytes:
    return read_bounded(path, MIB, follow=True)


class _Tokens(Struct):
    accessToken: str
    refreshToken: str


class _Login(Struct):
    claudeAiOauth: _Tokens


def _is_login(data: bytes) -> bool:
    try:
        login = msgspec.json.decode(data, type=_Login)
    except UNREADABLE:
        return False
    return bool(login.claudeAiOauth.accessToken and login.claudeAiOauth.refreshToken)


def logged_in(environ: Mapping[str, str]) -> bool:
    """Whether the CLI has a key or a login. Whether the server accepts it is known only after a call."""
    return any(environ.get(name) for name in KEYS + _OTHER_LOGINS) or login_file(environ).is_file()
