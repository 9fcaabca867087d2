"""Which model answers for whom: from flags, configuration and environment to a provider.

    --role, roles:  ─▶ by agent name, then by role ─┐
    --provider, providers.default ─▶ the default   ─┴─▶ spec ─▶ Choice (kind, model, endpoint) ─▶ provider

Rules
1. A spec is `KIND[:ARG]` or `NAME[:MODEL]`, NAME being an entry of `providers:`. ARG is a model; for `scripted` and
   `local` a file, for `replay` a run.
2. Nothing configured: what the environment offers, in the order of `WAYS`. Nothing offered: a message with the three
   shortest ways to a model.
3. Keys come from the environment, by the name the configuration gives. The usual variables' keys go to the usual
   servers only, never to an address that an entry names.
4. A kind's module is loaded when it is used, here and nowhere else: a provider nobody uses costs nothing.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, assert_never, get_args, runtime_checkable
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.config.judge import Judgement
from orchestra.config.sections import KINDS, Config, Kind, ProviderSection
from orchestra.core.errors import UsageError
from orchestra.core.model import Destination, Provider, ProviderRequest
from orchestra.core.records import Event, Role
from orchestra.core.run import RunFolder
from orchestra.providers.calling import Route
from orchestra.providers.prices import Known, Price, known
from orchestra.providers.prompting import estimated_tokens

WAYS = (
    "three ways to a model: (1) install the claude CLI and log in: npm install -g @anthropic-ai/claude-code; "
    "(2) set OPENAI_BASE_URL (any OpenAI-compatible server) or OPENAI_API_KEY, or ANTHROPIC_API_KEY; "
    "(3) --provider local, a small model on this machine. Look: orchestra models. To see orchestra work without any "
    "model: make demo"
)
OPENAI_URL, ANTHROPIC_URL = "https://api.openai.com/v1", "https://api.anthropic.com"
MAX_OUTPUT = {"claude_code": 32_000, "anthropic": 16_384, "openai_compat": 16_384, "local": 1024}
ROLES: tuple[Role, ...] = get_args(Role)
_FILES = ("scripted", "local")  # kinds whose argument is a file


class Models(Struct, frozen=True, omit_defaults=True):
    """Which provider answers: by agent name, then by role, then the default (D-13). Frozen in RUN_CREATED."""

    default: str = ""
    roles: dict[str, str] = {}
    model: str = ""
    maxBudgetUsd: float | None = None
    typedBudget: bool = False  # a person typed it: what the file says now does not lower it

    def spec(self, agent: str, role: str) -> str:
        return self.roles.get(agent) or self.roles.get(role) or self.default


@runtime_checkable
class Lists(Protocol):
    """A provider whose server can say which models it has; OSError if it does not answer."""

    async def models(self) -> list[str]: ...


class Choice(Struct, frozen=True, kw_only=True):
    """A provider spec resolved to its kind, model and endpoint."""

    spec: str
    kind: Kind
    entry: ProviderSection
    argument: str = ""  # a file or a run
    model: str = ""

    @property
    def known(self) -> Known | None:
        return known(self.model) if self.kind not in ("scripted", "replay", "local") else None


class Offer(Struct, frozen=True, kw_only=True):
    """One line of `orchestra models`."""

    name: str
    kind: str
    model: str = ""
    contextTokens: int = 0
    inputUsd: float | None = None  # per million tokens
    outputUsd: float | None = None
    default: bool = False
    ready: bool = False
    state: str = ""
    models: tuple[str, ...] = ()  # what the server says it has, if it was asked


class LeadsNowhere(UsageError):
    """A spec that names nobody. `entry` is the one of `providers:` where that is wrong; empty if the spec itself is."""

    def __init__(self, why: str, entry: str, *, cure: str = "") -> None:
        super().__init__(f"{why}{cure}")
        self.why = why
        self.entry = entry


class Providers:
    """The providers of one project."""

    ways = WAYS

    def __init__(
        self,
        config: Config,
        base: Path,
        environ: Mapping[str, str],
        *,
        find: Callable[[str], RunFolder],
        events: Callable[[RunFolder], Iterable[Event]],
        programs: Callable[[], Any],
    ) -> None:
        """`find` and `events` give a run and its events; `programs` gives what runs a provider that is a program."""
        self._config = config
        self._base = base
        self._environ = environ
        self._find = find
        self._events = events
        self._programs = programs

    # -- deciding -----------------------------------------------------------------------------------------------------

    def routing(self, *, provider: str, roles: Mapping[str, str], model: str, budget: float | None) -> Models:
        """Flags over configuration over environment."""
        configured = "default" if "default" in self._config.providers else ""
        return Models(
            default=provider or configured or self.usual(),
            roles={**self._config.roles, **roles},
            model=model,
            maxBudgetUsd=budget or self._config.budget.max_usd,
            typedBudget=bool(budget),
        )

    def usual(self) -> str:
        """What the environment offers (rule 2); empty if nothing."""
        claude = importlib.import_module("orchestra.providers.claude_code")
        if shutil.which("claude", path=self._environ.get("PATH")) and claude.logged_in(self._environ):
            return self._config.llm.backend  # S2-53
        if self._environ.get("OPENAI_BASE_URL") or self._environ.get("OPENAI_API_KEY"):
            return "openai_compat"
        return "anthropic" if self._environ.get("ANTHROPIC_API_KEY") else ""

    def settled(self, models: Models) -> Models:
        """Specs that mean the same from anywhere: files and runs by their whole names, names for other names resolved.

        An entry of the file keeps its name: what it says, its server too, is read again when the run goes on.
        """

        def lasting(spec: str) -> str:
            if not spec:
                return spec
            choice = self.choose(spec)
            if choice.spec.partition(":")[0] in self._config.providers:
                return choice.spec
            if choice.kind in _FILES and choice.argument:
                return f"{choice.kind}:{self._base / choice.argument}"
            if choice.kind == "replay" and choice.argument:
                return f"replay:{self._find(choice.argument).id}"
            return choice.spec

        roles = {name: lasting(spec) for name, spec in models.roles.items()}
        return msgspec.structs.replace(models, default=lasting(models.default), roles=roles)

    def choice_for(self, models: Models, agent: str, role: str) -> Choice:
        """Who answers. `--model` is for the default; a role's own provider has it only if nobody names another."""
        spec = models.spec(agent, role)
        if spec == models.default:
            return self.choose(spec, models.model)
        choice = self.choose(spec)
        return choice if choice.model else self.choose(spec, models.model)

    def choose(self, spec: str, model: str = "") -> Choice:
        """Understand a spec; `model` is for one that names none itself."""
        passed: list[str] = []  # the entries on the way
        while True:
            name, _, argument = spec.partition(":")
            entry = self._config.providers.get(name)
            if not isinstance(entry, str):
                break
            if name in passed:
                first = next(n for n in self._config.providers if n in passed[passed.index(name) :])
                raise LeadsNowhere(f"the entry {first!r} of providers leads back to itself", first)
            passed.append(name)
            target, _, usual = entry.partition(":")
            spec = f"{target}:{argument or usual}" if argument or usual else target
            if target == name and name in KINDS:  # a kind under its own name: `claude_code: claude_code:opus`
                argument, entry = argument or usual, None
                break
        if entry is None and name not in KINDS:
            last = passed[-1] if passed else ""
            if not name:
                raise LeadsNowhere("no model is configured", last, cure=f"; {WAYS}")
            raise LeadsNowhere(_unknown(name, self._config), last, cure=f". {WAYS}")
        entry = entry or ProviderSection()
        kind: Kind = entry.kind or name  # type: ignore[assignment]  # config/settings.py saw that it is one
        if kind in (*_FILES, "replay"):
            argument = argument or entry.file
            return Choice(spec=spec, kind=kind, entry=entry, argument=argument, model=model or entry.model)
        return Choice(spec=spec, kind=kind, entry=entry, model=argument or model or entry.model or self._model(kind))

    def _model(self, kind: Kind) -> str:
        return self._config.llm.model if kind in ("claude_code", "anthropic") else self._environ.get("OPENAI_MODEL", "")

    def price(self, choice: Choice) -> Price | None:
        """What the choice's model costs; None if nobody knows."""
        if choice.model in self._config.budget.prices:
            own = self._config.budget.prices[choice.model]
            return Price(own.input, own.output, own.cache_read, own.cache_write)
        if choice.kind == "local":
            return Price()
        return choice.known.price if choice.known else None

    def context_tokens(self, choice: Choice) -> int | UnsetType:
        """How much the choice's model can read, if that is known."""
        return choice.entry.context_tokens or (choice.known.context_tokens if choice.known else UNSET)

    def route(self, choice: Choice, provider: Provider) -> Route:
        """Where a call goes, and what it may cost."""
        asks = choice.kind not in ("scripted", "replay")
        free = None if asks else Price()  # what answers without a model costs nothing

        def price_of(model: str) -> Price | None:
            return self.price(msgspec.structs.replace(choice, model=model)) or free

        return Route(
            provider=provider,
            name=choice.spec,
            model=choice.model,
            price=self.price(choice) or free,
            max_output=choice.entry.max_output_tokens or MAX_OUTPUT.get(choice.kind, 0),
            estimates=asks,
            bytes_per_token=1 if choice.kind == "local" else 3,
            price_of=price_of,
            to=self._destination(choice),
        )

    def _destination(self, choice: Choice) -> Destination:
        """Who gets what is sent: said in the run, because the address is read anew whenever it goes on."""
        match choice.kind:
            case "scripted" | "replay" | "local":
                return Destination(choice.kind, leaves=False)
            case "claude_code":
                address = self._environ.get("ANTHROPIC_BASE_URL", "")
                program = f"program {choice.entry.program or 'claude'}"
                return Destination(f"{program}, ANTHROPIC_BASE_URL {address}" if address else program, leaves=True)
            case "anthropic":
                url, _ = self._url(choice, "ANTHROPIC_BASE_URL", ANTHROPIC_URL)
            case "openai_compat":
                url, _ = self._url(choice, "OPENAI_BASE_URL", OPENAI_URL)
            case unreachable:
                assert_never(unreachable)
        return Destination(url, leaves=not importlib.import_module("orchestra.providers.http").is_here(url))

    def mistakes(self, wrong_role: Callable[[str], str]) -> Iterator[Judgement]:
        """What a start would refuse of the file if it came to use it, whatever the environment holds.

        An alias of a broken entry is not reported again; only the broken entry is.
        """
        specs = {("providers", name): name for name in self._config.providers}
        specs |= {("roles", name): spec for name, spec in self._config.roles.items() if spec}
        for keys, spec in specs.items():
            try:
                self.choose(spec)
            except LeadsNowhere as wrong:
                if wrong.entry == (keys[1] if keys[0] == "providers" else ""):
                    yield keys, wrong.why
        for name, entry in self._config.providers.items():
            if isinstance(entry, ProviderSection) and entry.base_url and (why := wrong_url(entry.base_url)):
                yield ("providers", name, "base_url"), why
        for name in self._config.roles:
            if why := wrong_role(name):
                yield ("roles", name), why

    # -- telling ------------------------------------------------------------------------------------------------------

    def offers(self) -> list[Offer]:
        """Everybody who is configured, and every kind the environment could offer."""
        usual = "default" if "default" in self._config.providers else self.usual()
        names = [*self._config.providers, *(k for k in KINDS if k not in ("scripted", "replay"))]
        return [self._offer(name, usual) for name in dict.fromkeys(names)]

    def _offer(self, name: str, usual: str) -> Offer:
        try:
            choice = self.choose(name)
        except UsageError as error:
            return Offer(name=name, kind="", state=str(error))
        return self.offer(choice, name, default=name == usual)

    def offer(self, choice: Choice, name: str, *, default: bool = False) -> Offer:
        """What is known of a choice without contacting anybody."""
        price, context, model, problem = self.price(choice), self.context_tokens(choice), choice.model, ""
        try:
            can = self.make(choice).capabilities
            context, model = can.maxContextTokens, model or (can.version or "" if choice.kind == "local" else "")
        except UsageError as error:
            problem = str(error).partition(f"; {WAYS}")[0].removeprefix("provider ")
            problem = problem.removeprefix(choice.kind).removeprefix(name).lstrip(": ")
        return Offer(
            name=name,
            kind=choice.kind,
            model=model,
            contextTokens=0 if isinstance(context, UnsetType) else context,
            inputUsd=price.input if price else None,
            outputUsd=price.output if price else None,
            default=default,
            ready=not problem,
            state=problem or "ready",
        )

    async def reached(self, offer: Offer) -> Offer:
        """The same, with what its server says when asked for its models. No model is called."""
        provider: Any = self.make(self.choose(offer.name)) if offer.ready else None
        if not isinstance(provider, Lists):
            return offer
        try:
            models = tuple(await provider.models())
        except OSError as error:
            return msgspec.structs.replace(offer, ready=False, state=f"not reached: {error}")
        shown = ", ".join(models[:5]) + (f" and {len(models) - 5} more" if len(models) > 5 else "")
        return msgspec.structs.replace(offer, models=models, state=f"reached; has {shown or 'no model'}")

    # -- making -------------------------------------------------------------------------------------------------------

    def make(self, choice: Choice) -> Provider:
        """The provider; whatever is wrong with its configuration is said now."""
        module = importlib.import_module(f"orchestra.providers.{choice.kind}")  # rule 4
        provider: Provider = getattr(self, f"_{choice.kind}")(module, choice)
        return provider

    def _scripted(self, module: Any, choice: Choice) -> Any:
        if not choice.argument:
            raise UsageError("provider scripted needs a file: --provider scripted:FILE")
        return module.ScriptedProvider(module.load_script(self._base / choice.argument), name=choice.argument)

    def _replay(self, module: Any, choice: Choice) -> Any:
        if not choice.argument:
            raise UsageError("provider replay needs a run: --provider replay:RUN")
        source = self._find(choice.argument)
        return module.ReplayProvider(source, self._events(source))

    def _local(self, module: Any, choice: Choice) -> Any:
        entry = choice.entry
        file = str(self._base / choice.argument) if choice.argument else ""
        return module.Local(
            module.find_weights(file),
            limits=self._limits(choice),
            context_tokens=entry.context_tokens or module.CONTEXT_TOKENS,
            max_output_tokens=entry.max_output_tokens or MAX_OUTPUT["local"],
        )

    def _claude_code(self, module: Any, choice: Choice) -> Any:
        program = choice.entry.program or "claude"
        if not shutil.which(program, path=self._environ.get("PATH")):
            raise UsageError(f"provider claude_code: there is no program {program!r} on PATH; {WAYS}")
        if not module.logged_in(self._environ):
            raise UsageError(f"provider claude_code is not logged in: run `claude` and /login, or set {module.KEYS[0]}")
        return module.ClaudeCode(
            self._programs(),
            self._environ,
            model=choice.model,
            program=program,
            limits=self._limits(choice),
            max_output_tokens=choice.entry.max_output_tokens or MAX_OUTPUT["claude_code"],
            context_tokens=self.context_tokens(choice),
            trace_header=self._config.telemetry.trace_id_header,
        )

    def _anthropic(self, module: Any, choice: Choice) -> Any:
        url, url_from = self._url(choice, "ANTHROPIC_BASE_URL", ANTHROPIC_URL)
        key, key_from = self._key(choice, "ANTHROPIC_API_KEY")
        token = "" if key or choice.entry.base_url else self._environ.get("ANTHROPIC_AUTH_TOKEN", "")
        if not (key or token) and url == ANTHROPIC_URL:
            raise UsageError(f"provider anthropic needs a key: set ANTHROPIC_API_KEY; {WAYS}")
        headers = {"authorization": f"Bearer {token}"} if token else {"x-api-key": key} if key else {}
        headers["anthropic-version"] = module.VERSION
        key_from = "ANTHROPIC_AUTH_TOKEN" if token else key_from
        return module.Anthropic(
            self._http(choice, url, headers, secret=key or token, url_from=url_from, key_from=key_from),
            model=choice.model,
            max_output_tokens=choice.entry.max_output_tokens or MAX_OUTPUT["anthropic"],
            context_tokens=self.context_tokens(choice),
        )

    def _openai_compat(self, module: Any, choice: Choice) -> Any:
        url, url_from = self._url(choice, "OPENAI_BASE_URL", OPENAI_URL)
        key, key_from = self._key(choice, "OPENAI_API_KEY")
        if not key and url == OPENAI_URL:
            raise UsageError(
                f"provider openai_compat needs a server or a key: set OPENAI_BASE_URL or OPENAI_API_KEY; {WAYS}"
            )
        headers = {"authorization": f"Bearer {key}"} if key else {}
        entry = choice.entry
        return module.OpenAICompat(
            self._http(choice, url, headers, secret=key, url_from=url_from, key_from=key_from),
            module.Wishes(
                model=choice.model,
                max_output_tokens=entry.max_output_tokens or 0,
                limit_name="max_completion_tokens" if url == OPENAI_URL else "max_tokens",
                context_tokens=self.context_tokens(choice),
                constrain=entry.constrain,
                think_bypass=entry.think_bypass,
                extra=entry.extra,
            ),
        )

    def _http(self, choice: Choice, url: str, headers: dict[str, str], **more: str) -> Any:
        http = importlib.import_module("orchestra.providers.http")
        endpoint = http.Endpoint(
            base_url=url,
            headers=headers,
            trace_header=self._config.telemetry.trace_id_header,
            idempotent=choice.kind == "openai_compat",
            connect_sec=choice.entry.connect_sec,
            limits=self._limits(choice),
            **more,
        )
        return http.Http(endpoint)

    def _limits(self, choice: Choice) -> Any:
        patience = importlib.import_module("orchestra.providers.patience")
        return patience.Limits(choice.entry.first_byte_sec, choice.entry.idle_sec)

    def _url(self, choice: Choice, variable: str, usual: str) -> tuple[str, str]:
        """The server's address, and where it is from."""
        entry = choice.entry.base_url
        url, origin = (entry, f"providers.{choice.spec}.base_url") if entry else (self._environ.get(variable), variable)
        if not url:
            return usual, ""
        if wrong := wrong_url(url):
            raise UsageError(f"{origin}: {wrong}")
        return url.rstrip("/"), origin

    def _key(self, choice: Choice, variable: str) -> tuple[str, str]:
        """The key, and where it is from (rule 3)."""
        name = choice.entry.key_env or ("" if choice.entry.base_url else variable)
        key = self._environ.get(name, "").strip() if name else ""
        if choice.entry.key_env and not key:
            raise UsageError(f"provider {choice.spec}: its key is to be in the variable {name}, which is not set")
        if not key.isascii() or not key.isprintable():
            raise UsageError(f"the key in {name} holds characters no key has; was it pasted whole?")
        return key, name

    @functools.cached_property
    def secrets(self) -> tuple[str, ...]:
        """Values of variables that entries name as keys, whatever those variables are called."""
        entries = (entry for entry in self._config.providers.values() if isinstance(entry, ProviderSection))
        return tuple(filter(None, (self._environ.get(entry.key_env, "") for entry in entries)))


def token_counts(request: ProviderRequest) -> list[tuple[str, int, int]]:
    """What goes into a prompt: name, tokens (estimated), characters."""
    texts = {"(system)": request.prompt.system, "(user)": request.prompt.user}
    texts |= {artifact.name: artifact.content for artifact in request.contextArtifacts}
    return [(name, estimated_tokens(text), len(text)) for name, text in texts.items()]


def wrong_url(url: str) -> str:
    """Why this is no address of a server; empty if it is one."""
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


def _unknown(name: str, config: Config) -> str:
    names = (*KINDS, *config.providers)
    near = difflib.get_close_matches(name, names, n=1)
    return f"there is no provider {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
