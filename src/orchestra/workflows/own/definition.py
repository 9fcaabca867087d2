"""A person's own workflow: an async function with typed parameters, made known by `@orchestra.workflow`.

The function's parameters are the job of its runs. If its only parameter is a msgspec struct, the struct's fields are
the parameters. The function's return value is the result of the run, as JSON.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

import msgspec

from orchestra.core.errors import UsageError
from orchestra.core.plain import fitted, no_json

if TYPE_CHECKING:
    from orchestra.workflows.own.context import Context

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Definition(Generic[P, R]):
    """One workflow of a person's own."""

    def __init__(
        self, function: Callable[Concatenate[Context, P], Awaitable[R]], local: Mapping[str, Any] | None = None
    ) -> None:
        """`local`: names that the parameters' types may use in addition to those of the function's module."""
        name = getattr(function, "__name__", "")
        if not inspect.iscoroutinefunction(function):
            raise UsageError(f"@orchestra.workflow: {name or function!r} is no `async def` function")
        if not _NAME.fullmatch(name):
            raise UsageError(f"@orchestra.workflow: {name!r} is no name of a workflow: small letters, digits and _")
        self.name = name
        self.function = function
        self.__doc__ = function.__doc__
        hints = hints_of(function, local)
        first, *parameters = inspect.signature(function).parameters.values() or (None,)
        if first is None or any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
            raise UsageError(f"@orchestra.workflow: {name} takes the context first, then named parameters")
        self.names = tuple(one.name for one in parameters)
        self.returns = hints.get("return")
        self._struct = _only_struct(parameters, hints)
        self.params: Any = self._struct or msgspec.defstruct(
            name.title().replace("_", ""),
            [_field(one, hints) for one in parameters],
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=True,
        )
        try:
            msgspec.json.schema(self.params)
        except (TypeError, NameError) as wrong:
            types = "text, numbers, lists, dicts or structs"
            raise UsageError(
                f"@orchestra.workflow: the parameters of {name} must be {types} ({self.shown()})"
            ) from wrong

    def __call__(self, ctx: Context, /, *args: P.args, **params: P.kwargs) -> Awaitable[R]:
        """Call the function itself."""
        return self.function(ctx, *args, **params)

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"

    def job(self, /, *args: Any, **params: Any) -> Any:
        """The job of a run with these parameters; UsageError names a wrong one."""
        if self._struct and len(args) == 1 and not params and isinstance(args[0], self._struct):
            if unfit := no_json(msgspec.to_builtins(args[0])):
                raise UsageError(f"{self.name}: {unfit}. Its parameters: {self.shown()}")
            return args[0]
        given = {**dict(zip(self.names, args, strict=False)), **params}
        if len(args) > len(self.names):
            raise UsageError(f"{self.name} takes {len(self.names)} parameters, not {len(args)}")
        fields = [one.encode_name for one in msgspec.structs.fields(self.params)]
        if unknown := [name for name in given if name not in fields]:
            raise UsageError(f"{self.name} has no parameter {unknown[0]!r}. Its parameters: {self.shown()}")
        try:
            return fitted(given, self.params)
        except ValueError as wrong:
            raise UsageError(f"{self.name}: {wrong}. Its parameters: {self.shown()}") from wrong

    def begin(self, ctx: Context, job: Any) -> Awaitable[R]:
        """Call the function with a job's parameters."""
        call: Callable[..., Awaitable[R]] = self.function
        if self._struct:
            return call(ctx, job)
        return call(ctx, **{name: getattr(job, name) for name in self.names})

    def shown(self) -> str:
        """The parameters, for a person."""
        fields = msgspec.structs.fields(self.params)
        return ", ".join(f"{one.name}: {_type_name(one.type)}" for one in fields) or "none"


DEFINED: dict[str, Definition[..., Any]] = {}  # every workflow this process has defined, by name


def workflow(function: Callable[Concatenate[Context, P], Awaitable[R]]) -> Definition[P, R]:
    """Make an async function a durable workflow; its name is the function's."""
    made = Definition(function, sys._getframe(1).f_locals)
    DEFINED[made.name] = made
    return made


def refuse_another(own: Definition[..., Any]) -> None:
    """UsageError if a later workflow of this process has taken the name: a run is resumed by its workflow's name."""
    other = DEFINED.get(own.name, own)
    if other is not own and not _same_code(own.function, other.function):
        places = (f"{one.function.__module__}.{one.function.__qualname__}" for one in (own, other))
        raise UsageError(f"two workflows of this program are named {own.name}: {' and '.join(places)}. Rename one")


def _same_code(one: Any, other: Any) -> bool:
    """Whether two functions are one, of a file that was loaded twice: as the program and as a module."""
    same = one.__code__ == other.__code__ and one.__code__.co_filename == other.__code__.co_filename
    return same and one.__closure__ is None  # else each has values of its own


def hints_of(function: Callable[..., Any], local: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The types in a function's signature, by parameter, without those that cannot be looked up."""
    found: dict[str, Any] = {}
    names = getattr(inspect.unwrap(function), "__globals__", {})
    for name, hint in getattr(function, "__annotations__", {}).items():
        try:
            one = types.SimpleNamespace(__annotations__={name: hint})
            found |= typing.get_type_hints(one, names, dict(local or {}), include_extras=True)
        except (NameError, TypeError, AttributeError, SyntaxError):
            continue  # a type imported for type checkers only: the value is not converted
    return found


def _only_struct(parameters: list[inspect.Parameter], hints: dict[str, Any]) -> Any:
    """The type of the only parameter, if it is a struct; else None."""
    if len(parameters) != 1:
        return None
    hint = hints.get(parameters[0].name)
    return hint if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else None


def _field(parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    hint = hints.get(parameter.name, Any)
    hint = Any if hint is object else hint
    if parameter.default is inspect.Parameter.empty:
        return (parameter.name, hint)
    default = parameter.default
    if isinstance(default, list | dict | set):  # each job needs a new one
        return (parameter.name, hint, msgspec.field(default_factory=lambda: type(default)(default)))
    return (parameter.name, hint, default)


def _type_name(kind: Any) -> str:
    return getattr(kind, "__name__", "") if isinstance(kind, type) else str(kind).replace("typing.", "")
