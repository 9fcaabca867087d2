"""A person's own workflow: an async function with typed parameters, made known by `@orchestra.workflow`.

The parameters of the function are the job of its runs. A function with one parameter that is a msgspec struct takes
that struct's fields as its parameters. What it returns is the result of the run, as JSON.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

import msgspec

from orchestra.core.errors import UsageError

if TYPE_CHECKING:
    from orchestra.workflows.own.context import Context

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Definition(Generic[P, R]):
    """One workflow of a person's own."""

    def __init__(self, function: Callable[Concatenate[Context, P], Awaitable[R]]) -> None:
        name = getattr(function, "__name__", "")
        if not inspect.iscoroutinefunction(function):
            raise UsageError(f"@orchestra.workflow: {name or function!r} is no `async def` function")
        if not _NAME.fullmatch(name):
            raise UsageError(f"@orchestra.workflow: {name!r} is no name of a workflow: small letters, digits and _")
        self.name = name
        self.function = function
        self.__doc__ = function.__doc__
        hints = _hints(function)
        first, *parameters = inspect.signature(function).parameters.values() or (None,)
        if first is None or any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
            raise UsageError(f"@orchestra.workflow: {name} takes the context first, then named parameters")
        self._names = tuple(one.name for one in parameters)
        self.returns = hints.get("return")
        self._struct = _only_struct(parameters, hints)
        self.params: Any = self._struct or msgspec.defstruct(
            name.title().replace("_", ""),
            [_field(one, hints) for one in parameters],
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=True,
        )

    def __call__(self, ctx: Context, /, *args: P.args, **params: P.kwargs) -> Awaitable[R]:
        """The function itself."""
        return self.function(ctx, *args, **params)

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"

    def job(self, /, *args: Any, **params: Any) -> Any:
        """The job of a run with these parameters; UsageError says which is wrong."""
        if self._struct and len(args) == 1 and not params and isinstance(args[0], self._struct):
            return args[0]
        given = {**dict(zip(self._names, args, strict=False)), **params}
        if len(args) > len(self._names):
            raise UsageError(f"{self.name} takes {len(self._names)} parameters, not {len(args)}")
        try:
            return msgspec.convert(msgspec.to_builtins(given), self.params)
        except (msgspec.ValidationError, TypeError) as wrong:
            raise UsageError(f"{self.name}: {wrong}. Its parameters: {self.shown()}") from wrong

    def begin(self, ctx: Context, job: Any) -> Awaitable[R]:
        """The function at work on a job."""
        call: Callable[..., Awaitable[R]] = self.function
        if self._struct:
            return call(ctx, job)
        return call(ctx, **{name: getattr(job, name) for name in self._names})

    def shown(self) -> str:
        """The parameters, for a person."""
        fields = msgspec.structs.fields(self.params)
        return ", ".join(f"{one.name}: {_type_name(one.type)}" for one in fields) or "none"


DEFINED: dict[str, Definition[..., Any]] = {}  # every workflow this process has defined, by name


def workflow(function: Callable[Concatenate[Context, P], Awaitable[R]]) -> Definition[P, R]:
    """Make an async function a durable workflow; its name is the function's."""
    made = Definition(function)
    DEFINED[made.name] = made
    return made


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):  # the types are local to a function: the values are taken as they come
        return {}


def _only_struct(parameters: list[inspect.Parameter], hints: dict[str, Any]) -> Any:
    """The struct that is the job, if the only parameter is one."""
    if len(parameters) != 1:
        return None
    hint = hints.get(parameters[0].name)
    return hint if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else None


def _field(parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    hint = hints.get(parameter.name, Any)
    if parameter.default is inspect.Parameter.empty:
        return (parameter.name, hint)
    default = parameter.default
    if isinstance(default, list | dict | set):  # msgspec wants a new one for each
        return (parameter.name, hint, msgspec.field(default_factory=lambda: type(default)(default)))
    return (parameter.name, hint, default)


def _type_name(kind: Any) -> str:
    return getattr(kind, "__name__", "") if isinstance(kind, type) else str(kind).replace("typing.", "")
