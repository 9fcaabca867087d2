"""Checks the arguments of a verb of the context, before anything is recorded.

Rules
1. A wrong argument raises UsageError with the verb, the line of the workflow, and what to do. Nothing was written for
   that step, and the run is not over: with a corrected workflow it is resumed.
2. What the journal could not give back is wrong: another type, a number that JSON does not have, half a character.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any, get_args

import msgspec

from orchestra.core.context import Context as Run
from orchestra.core.errors import UsageError
from orchestra.core.plain import no_json
from orchestra.core.records import Role
from orchestra.core.retry import Retry
from orchestra.core.text import brief
from orchestra.workflows.own.definition import Definition

_ROLES: tuple[str, ...] = get_args(Role)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LONGEST_S = 100 * 366 * 86_400.0  # a later moment has no date


class Verb:
    """One call of a verb; each method refuses arguments of one kind (rule 1)."""

    def __init__(self, run: Run, verb: str, *names: object) -> None:
        """`names` is the name of the step, if the verb takes one."""
        self._run_id = run.run_id
        self._verb = verb
        self._names = names
        for name in names:
            self._text("the name of the step", name)

    def refused(self, why: str) -> UsageError:
        """The error for a wrong argument."""
        shown = ", ".join(brief(repr(name), 60) for name in self._names)
        what = f"ctx.{self._verb}({shown}){_place()}: {why}"
        return UsageError(
            f"{what}. Nothing of this step was recorded; correct the workflow, then: orchestra resume {self._run_id}"
        )

    def texts(self, **values: object) -> None:
        """Each must be text."""
        for name, value in values.items():
            self._text(name, value)

    def items(self, name: str, values: Iterable[object]) -> None:
        """Each of these must be text."""
        for number, value in enumerate(values):
            self._text(f"{name}[{number}]", value)

    def _text(self, name: str, value: object) -> None:
        if not isinstance(value, str):
            raise self.refused(f"{name} must be text, not {type(value).__name__}")
        if not value.isascii() and (why := no_json(value)):
            raise self.refused(f"{name}: {why}")

    def seconds(self, name: str, value: object, *, above_zero: bool = True) -> None:
        """A finite number of seconds."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refused(f"{name} must be a number of seconds, not {type(value).__name__}")
        if not math.isfinite(value) or value > _LONGEST_S or (above_zero and value <= 0):
            raise self.refused(f"{name} must be a number of seconds{' above 0' * above_zero}, not {value}")

    def flag(self, name: str, value: object) -> None:
        """True or False."""
        if not isinstance(value, bool):
            raise self.refused(f"{name} must be True or False, not {type(value).__name__}")

    def retry(self, value: object) -> None:
        """A Retry, with numbers that can be waited for."""
        if not isinstance(value, Retry):
            raise self.refused(f"retry must be orchestra.Retry(times=…, base_sec=…), not {type(value).__name__}")
        if isinstance(value.times, bool) or not isinstance(value.times, int) or value.times < 0:
            raise self.refused(f"retry: times must be a whole number, 0 or more, not {value.times!r}")
        self.seconds("retry: base_sec", value.base_sec, above_zero=False)
        if value.base_sec < 0:
            raise self.refused(f"retry: base_sec must not be below 0, and is {value.base_sec}")

    def role(self, value: object) -> None:
        """One of the roles."""
        if value not in _ROLES:
            raise self.refused(f"there is no role {value!r}; there are {', '.join(_ROLES)}")

    def function(self, value: object) -> None:
        """Something that can be called."""
        if inspect.iscoroutine(value):
            value.close()
            raise self.refused("the function is called already: pass the function, and its arguments after it")
        if not callable(value):
            raise self.refused(f"the second argument must be a function, not {type(value).__name__}")

    def options(self, options: object, default: object) -> tuple[str, ...]:
        """The options of a question, all of them text; a default must be one of them."""
        if isinstance(options, str | bytes | set | frozenset) or not isinstance(options, Collection):
            raise self.refused(f'options must be a tuple of texts, ("yes", "no"), not {type(options).__name__}')
        given: tuple[Any, ...] = tuple(options)
        self.items("options", given)
        if default is not None:
            self.texts(default=default)
            if given and default not in given:
                raise self.refused(f"the default {default!r} is none of the options: {brief(', '.join(given), 300)}")
        return given

    def workflow(self, value: object) -> None:
        """A workflow, or the name of one."""
        if not isinstance(value, Definition):
            if inspect.isfunction(value):
                raise self.refused(f"{value.__name__} is no workflow: write @orchestra.workflow above it")
            self.texts(workflow=value)

    def plain(self, values: Mapping[str, object]) -> None:
        """Values that can be recorded as JSON."""
        for name, value in values.items():
            try:
                why = no_json(msgspec.to_builtins(value, str_keys=True), name)
            except (TypeError, ValueError) as wrong:
                why = f"{name}: it cannot be recorded as JSON ({wrong})"
            if why:
                raise self.refused(why)

    def branches(self, values: object, limit: object) -> None:
        """Branches by name, and how many run at once."""
        if not isinstance(values, Mapping):
            raise self.refused(f'branches must be a dict, {{"name": function}}, not {type(values).__name__}')
        for name, function in values.items():
            self._text("the name of a branch", name)
            if not callable(function):
                raise self.refused(f"branch {name!r} must be a function that takes a context")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise self.refused(f"limit must be a whole number, 1 or more (0: all branches at once), not {limit!r}")


def _place() -> str:
    """The line of the person's code that called the verb, as a part of a message."""
    frame = sys._getframe(1)
    while frame is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE + os.sep):
        frame = frame.f_back  # type: ignore[assignment]
    return f" ({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})" if frame is not None else ""
