"""Which provider and model answer for a role: from flags, configuration and environment to a provider.

    --role, roles:  ─▶ by agent name, then by role ─┐
    --provider, providers.default ─▶ the default   ─┴─▶ spec ─▶ Choice (kind, model, endpoint) ─▶ provider

Rules
1. A spec is `KIND[:ARG]` or `NAME[:MODEL]`, NAME being an entry of `providers:`. ARG is a model; for `scripted` and
   `local` a file, for `replay` a run.
2. If nothing is configured, the environment decides, in the order of `WAYS`. If it offers nothing, the message lists
   the three shortest ways to a model.
3. A kind's module is loaded when it is used, here and nowhere else: a provider that is not used costs nothing. Each
   such module makes its own provider (setup.py).
"""

from __future__ import annotations

import difflib
import functools
import importlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from orchestra.config.judge import Judgement
from orchestra.config.sections import KINDS, Config, Kind, ProviderSection
from orchestra.core.errors import UsageError
from orchestra.core.model import Destination, Provider
from orchestra.core.records import Event, Role
from orchestra.core.run import RunFolder
from orchestra.core.text import some
from orchestra.providers.contract import Route, Weak
from orchestra.providers.prices import Price
from orchestra.providers.program import Converse
from orchestra.providers.setup import WAYS, Choice, ProviderSetup, wrong_url
from orchestra.providers.spec import FILES

ROLES: tuple[Role, ...] = get_args(Role)
_WITHOUT_MODEL = ("scripted", "replay")  # kinds whose calls cost nothing


class Models(Struct, frozen=True, omit_defaults=True):
    """Which provider answers: by agent name, then by role, then the default (D-13). Frozen in RUN_CREATED."""

    default: str = ""
    roles: dict[str, str] = {}
    model: str = ""
    maxBudgetUsd: float | None = None
    typedBudget: bool = False  # a person typed the budget: the file does not lower it later
    maxTimeSec: float | None = None  # how long the run and the runs below it may work
    typedTime: bool = False  # the same of that

    def spec(self, agent: str, role: str) -> str:
        return self.roles.get(agent) or self.roles.get(role) or self.default


class WrongSpec(UsageError):
    """A spec without a provider. `entry` is the wrong entry of `providers:`; empty if the spec itself is wrong."""

    def __init__(self, why: str, entry: str, *, cure: str = "") -> None:
        super().__init__(f"{why}{cure}")
        self.why = why
        self.entry = entry


class NoModel(WrongSpec):
    """Nothing is configured that could answer."""

    in_one_line = (
        "no model is configured: log in with the claude CLI, set OPENAI_BASE_URL, OPENAI_API_KEY or ANTHROPIC_API_KEY,"
        " or begin with --provider local; orchestra models says what there is"
    )


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
        programs: Callable[[], Converse],
    ) -> None:
        """`find` and `events` give a run and its events; `programs` returns what runs a provider that is a program."""
        self._config = config
        self._base = base
        self._environ = environ
        self._find = find
        self._events = events
        self._programs = programs

    # -- deciding -----------------------------------------------------------------------------------------------------

    def routing(
        self, *, provider: str, roles: Mapping[str, str], model: str, budget: float | None, seconds: float | None = None
    ) -> Models:
        """The providers of a run, and what it may spend.

        Flags come before the configuration, the configuration before the environment.
        """
        return Models(
            default=provider or self.default(),
            roles={**self._config.roles, **roles},
            model=model,
            maxBudgetUsd=budget or self._config.budget.max_usd,
            typedBudget=bool(budget),
            maxTimeSec=seconds or self._config.budget.max_sec,
            typedTime=bool(seconds),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the entries of `providers:`."""
        return tuple(self._config.providers)

    def default(self) -> str:
        """The spec that is used if no flag names one: the file's default, else what the environment offers."""
        return "default" if "default" in self._config.providers else self._offered()

    def _offered(self) -> str:
        """What the environment offers (rule 2); empty if nothing."""
        found = shutil.which("claude", path=self._environ.get("PATH"))
        if found and _module("claude_code").logged_in(self._environ):
            return self._config.llm.backend  # S2-53
        if self._environ.get("OPENAI_BASE_URL") or self._environ.get("OPENAI_API_KEY"):
            return "openai_compat"
        return "anthropic" if self._environ.get("ANTHROPIC_API_KEY") else ""

    def settled(self, models: Models) -> Models:
        """The specs in a form that is valid in any folder: whole paths, whole run ids, aliases resolved.

        An entry of the file keeps its name: the entry, its server too, is read again when the run goes on. A script or
        a model's file that cannot be used is refused now (UsageError), not at the first call.
        """

        def lasting(spec: str) -> str:
            if not spec:
                return spec
            choice = self.choose(spec)
            if choice.spec.partition(":")[0] in self._config.providers:
                return choice.spec
            if choice.kind in FILES and choice.argument:
                self.make(choice)
                return f"{choice.kind}:{self._base / choice.argument}"
            if choice.kind == "replay" and choice.argument:
                return f"replay:{self._find(choice.argument).id}"
            return choice.spec

        roles = {name: lasting(spec) for name, spec in models.roles.items()}
        return msgspec.structs.replace(models, default=lasting(models.default), roles=roles)

    def choice_for(self, models: Models, agent: str, role: str) -> Choice:
        """The choice for an agent or role. `--model` is for the default, and for a provider that names no model."""
        spec = models.spec(agent, role)
        if spec == models.default:
            return self.choose(spec, models.model)
        choice = self.choose(spec)
        return choice if choice.model else self.choose(spec, models.model)

    def choose(self, spec: str, model: str = "") -> Choice:
        """Resolve a spec; `model` is used if the spec names none."""
        passed: list[str] = []  # the aliases that were followed
        while True:
            name, _, argument = spec.partition(":")
            entry = self._config.providers.get(name)
            if not isinstance(entry, str):
                break
            if name in passed:
                first = next(n for n in self._config.providers if n in passed[passed.index(name) :])
                raise WrongSpec(f"the entry {first!r} of providers leads back to itself", first)
            passed.append(name)
            target, _, usual = entry.partition(":")
            spec = f"{target}:{argument or usual}" if argument or usual else target
            if target == name and name in KINDS:  # a kind under its own name: `claude_code: claude_code:opus`
                argument, entry = argument or usual, None
                break
        if entry is None and name not in KINDS:
            last = passed[-1] if passed else ""
            if not name:
                raise NoModel("no model is configured", last, cure=f"; {WAYS}")
            raise WrongSpec(_unknown(name, self._config), last)
        entry = entry or ProviderSection()
        kind: Kind = entry.kind or name  # type: ignore[assignment]  # config/judge.py checked it
        if kind in (*FILES, "replay"):
            argument = argument or entry.file
            return Choice(spec=spec, kind=kind, entry=entry, argument=argument, model=model or entry.model)
        return Choice(spec=spec, kind=kind, entry=entry, model=argument or model or entry.model or self._model(kind))

    def _model(self, kind: Kind) -> str:
        return self._config.llm.model if kind in ("claude_code", "anthropic") else self._environ.get("OPENAI_MODEL", "")

    def price(self, choice: Choice) -> Price | None:
        """The price of the choice's model; None if it is unknown."""
        if choice.model in self._config.budget.prices:
            own = self._config.budget.prices[choice.model]
            return Price(own.input, own.output, own.cache_read, own.cache_write)
        if choice.kind == "local":
            return Price()
        return choice.known.price if choice.known else None

    def limits(self, choice: Choice) -> tuple[Price | None, int]:
        """The price of a call, None if unknown, and the tokens of its reply at most."""
        free = Price() if choice.kind in _WITHOUT_MODEL else None
        return self.price(choice) or free, self._setup(choice).max_output_tokens

    def route(self, choice: Choice, provider: Provider) -> Route:
        """Where a call goes, and what it may cost."""
        price, longest = self.limits(choice)

        def price_of(model: str) -> Price | None:
            return self.limits(msgspec.structs.replace(choice, model=model))[0]

        return Route(
            provider=provider,
            name=choice.spec,
            model=choice.model,
            price=price,
            max_output=longest,
            estimates=choice.kind not in _WITHOUT_MODEL,
            bytes_per_token=1 if choice.kind == "local" else 3,
            price_of=price_of,
            to=self._destination(choice),
        )

    def _destination(self, choice: Choice) -> Destination:
        """Where prompts are sent. It is recorded in the run: the address is read again whenever the run goes on."""
        if choice.kind in ("scripted", "replay", "local"):
            return Destination(choice.kind, leaves=False)
        destination: Destination = _module(choice.kind).destination(self._setup(choice))
        return destination

    def mistakes(self, wrong_role: Callable[[str], str]) -> Iterator[Judgement]:
        """Mistakes of the file that would refuse a start once their entry is used, in any environment.

        An alias of a broken entry is not reported again; only the broken entry is.
        """
        specs = {("providers", name): name for name in self._config.providers}
        specs |= {("roles", name): spec for name, spec in self._config.roles.items() if spec}
        for keys, spec in specs.items():
            try:
                self.choose(spec)
            except WrongSpec as wrong:
                if wrong.entry == (keys[1] if keys[0] == "providers" else ""):
                    yield keys, wrong.why
        for name, entry in self._config.providers.items():
            if isinstance(entry, ProviderSection) and entry.base_url and (why := wrong_url(entry.base_url)):
                yield ("providers", name, "base_url"), why
        for name in self._config.roles:
            if why := wrong_role(name):
                yield ("roles", name), why

    # -- making -------------------------------------------------------------------------------------------------------

    def make(self, choice: Choice) -> Provider:
        """Make the provider; UsageError names what is wrong with its configuration."""
        provider: Provider = _module(choice.kind).make(self._setup(choice))
        return provider

    def _setup(self, choice: Choice) -> ProviderSetup:
        return ProviderSetup(
            choice=choice,
            environ=self._environ,
            base=self._base,
            trace_header=self._config.telemetry.trace_id_header,
            programs=self._programs,
            find=self._find,
            events=self._events,
        )

    def warnings(self, models: Models) -> tuple[str, ...]:
        """What to expect of the providers that answer for a run, where little can be expected."""
        said: list[str] = []
        for spec in filter(None, dict.fromkeys((models.default, *models.roles.values()))):
            try:
                provider = self.make(self.choose(spec))
            except UsageError:  # who uses it is told
                continue
            if isinstance(provider, Weak) and provider.warning:
                said.append(provider.warning)
        return tuple(dict.fromkeys(said))

    @functools.cached_property
    def secrets(self) -> tuple[str, ...]:
        """The values of all variables that entries name as keys."""
        entries = (entry for entry in self._config.providers.values() if isinstance(entry, ProviderSection))
        return tuple(filter(None, (self._environ.get(entry.key_env, "") for entry in entries)))


def _module(kind: Kind) -> Any:
    """The module of a provider's kind, loaded now (rule 3)."""
    return importlib.import_module(f"orchestra.providers.{kind}")


def _unknown(name: str, config: Config) -> str:
    names = (*KINDS, *config.providers)
    near = difflib.get_close_matches(name, names, n=1)
    return f"there is no provider {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"there are {some(names)}")
