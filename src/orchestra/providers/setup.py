"""What a provider is made of: the choice, and what its factory gets.

Each kind has a module of its name with `make(setup)`; `anthropic`, `openai_compat` and `claude_code` also have
`destination(setup)`. Only choose.py loads these modules, when one is used.

Rules
1. Keys come from the environment, by the name the configuration gives. The usual variables' keys go to the usual
   servers only, never to an address that an entry names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, UnsetType

from orchestra.config.sections import Kind, ProviderSection
from orchestra.core.errors import UsageError
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.providers.patience import Limits
from orchestra.providers.prices import Known, known
from orchestra.providers.program import Converse

WAYS = (
    "three ways to a model:\n"
    "  (1) install the claude CLI and log in: npm install -g @anthropic-ai/claude-code\n"
    "  (2) set OPENAI_BASE_URL (any OpenAI-compatible server), OPENAI_API_KEY or ANTHROPIC_API_KEY\n"
    "  (3) --provider local, a small model on this machine; orchestra models says how to install it\n"
    "To see orchestra work without any model: make demo, in orchestra's own folder"
)
MAX_OUTPUT = {"claude_code": 32_000, "anthropic": 16_384, "openai_compat": 16_384, "local": 1024}  # tokens of a reply


class Choice(Struct, frozen=True, kw_only=True):
    """A provider spec resolved to its kind, model and endpoint."""

    spec: str
    kind: Kind
    entry: ProviderSection
    argument: str = ""  # a file or a run
    model: str = ""

    @property
    def known(self) -> Known | None:
        """The built-in figures of the model; None if there are none."""
        return known(self.model) if self.kind not in ("scripted", "replay", "local") else None

    @property
    def context_tokens(self) -> int | UnsetType:
        """The size of the model's context, if it is known."""
        return self.entry.context_tokens or (self.known.context_tokens if self.known else UNSET)


class ProviderSetup(Struct, frozen=True, kw_only=True):
    """What the factory of a provider gets."""

    choice: Choice
    environ: Mapping[str, str]
    base: Path  # the project's folder: names of files are relative to it
    trace_header: str  # the header that carries the run's id; empty: none
    programs: Callable[[], Converse]  # returns what runs a provider that is a program
    find: Callable[[str], RunFolder]  # finds a run of the project
    events: Callable[[RunFolder], Iterable[Event]]  # the events of a run

    @property
    def limits(self) -> Limits:
        """The timeouts of the provider's calls."""
        return Limits(self.choice.entry.first_byte_sec, self.choice.entry.idle_sec)

    @property
    def max_output_tokens(self) -> int:
        """The most tokens of one reply."""
        return self.choice.entry.max_output_tokens or MAX_OUTPUT.get(self.choice.kind, 0)

    def url(self, variable: str, usual: str) -> tuple[str, str]:
        """The server's address, and the setting or variable that has it; empty for the usual one."""
        if url := self.choice.entry.base_url:
            origin = f"providers.{self.choice.spec}.base_url"
        else:
            url, origin = self.environ.get(variable, ""), variable
        if not url:
            return usual, ""
        if wrong := wrong_url(url):
            raise UsageError(f"{origin}: {wrong}")
        return url.rstrip("/"), origin

    def key(self, variable: str) -> tuple[str, str]:
        """The key, and the variable that has it (rule 1); both empty if there is none."""
        entry = self.choice.entry
        name = entry.key_env or ("" if entry.base_url else variable)
        key = self.environ.get(name, "").strip() if name else ""
        if entry.key_env and not key:
            raise UsageError(f"provider {self.choice.spec}: its key is to be in the variable {name}, which is not set")
        if not key.isascii() or not key.isprintable():
            raise UsageError(f"the key in {name} holds characters no key has; was it pasted whole?")
        return key, name


def wrong_url(url: str) -> str:
    """Why a text is not a server's address; empty if it is one."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        fine = False
    if not fine:
        return f"{url!r} is no address; write e.g. http://127.0.0.1:8080/v1"
    if parts.query or parts.fragment:
        return f"{url!r} has a query or a fragment; give the part before it"
    if "@" in parts.netloc:
        return "an address must not hold a password; name the variable with the key: key_env"
    return ""
