"""Checks a plan that a person wrote: strict JSON, no unknown keys. Pure.

A model's reply is read as far as possible (plan.py), because the model can be called again. A person's file must be
exact: anything that is not understood is refused, with its line, and nothing is run.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from orchestra.core.errors import UsageError
from orchestra.core.files import MIB, size
from orchestra.workflows.dag.plan import MOST_PLAN, unknown_keys
from orchestra.workflows.dag.shapes import Plan

_MOST_TEXT = MOST_PLAN + 8 * MIB  # with the indentation of a plan.json
_FORM = "a plan is a JSON array of tasks, or an object with `tasks` (a plan.json)"


def check_plan_file(text: str, name: str) -> None:
    """UsageError if the text is not exactly one plan, or has an unknown key. `name` is the file's."""
    if len(text) > _MOST_TEXT:
        raise UsageError(f"{name} has {size(len(text))}; a plan has at most {size(MOST_PLAN)}: make several runs of it")
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise UsageError(f"{name} is empty; {_FORM}")
    entries = _entries(_document(text, name), name)
    if wrong := unknown_keys(entries):
        lines = "".join(f"\n- {unknown.text}; {unknown.cure}" for unknown in wrong[:10])
        raise UsageError(f"{name} cannot be used:{lines}")


def _document(text: str, name: str) -> Any:
    def constant(word: str) -> NoReturn:
        raise UsageError(f"{name} is not valid JSON: {word} is no number")

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) < len(found):  # a duplicate key: the parser would silently use the second
            twice = next(key for key in made if sum(other == key for other, _ in found) > 1)
            raise UsageError(f"{name}: the key `{twice[:200]}` stands twice in one object")
        return made

    try:
        return json.loads(text, parse_constant=constant, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        raise UsageError(f"{name}:{error.lineno}:{error.colno}: {_said(error, text)}") from error
    except RecursionError:
        raise UsageError(f"{name} is not a plan: it is nested too deeply; {_FORM}") from None


def _said(error: json.JSONDecodeError, text: str) -> str:
    """One sentence about a JSON error."""
    before = text[: error.pos].rstrip()
    if error.msg == "Extra data":
        return f"something follows after the end of the plan; {_FORM}, and nothing else"
    if not text[error.pos :].strip():
        return "the file ends before the plan does; is a closing bracket missing?"
    if text[error.pos] in "]}" and before.endswith(","):
        return f"there is a comma before the closing {text[error.pos]}; take it out"
    if error.msg.startswith("Illegal trailing comma"):  # Python 3.13 and later point at the comma
        return "there is a comma before the closing bracket; take it out"
    return f"this is not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}"


def _entries(document: Any, name: str) -> list[Any]:
    entries = document.get("tasks") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise UsageError(f"{name} is not a plan: {_FORM}")
    if not entries:
        raise UsageError(f"{name} has no task; it needs at least one")
    if isinstance(document, dict) and (more := sorted(document.keys() - set(Plan.__struct_fields__))):
        raise UsageError(f"{name}: unknown key `{more[0][:200]}`; beside `tasks` there may be plan_id, dag, warnings")
    return entries
