"""What a model asks to see before it goes on: `NEED` of a planner, an ASK of a loop's developer or fixer. Pure.

    NEED                                        needed_input:
    - file: src/query.py:120-180                - file: src/query.py
    - search: order_by                          - search: order_by

    {"need": [{"file": "src/query.py:120-180"}, {"search": "order_by"}]}

Rules
1. A planner's reply asks if its first line is NEED; otherwise it is a plan. Lines of another form are ignored. A
   request without one line of the right form is refused.
2. A planner whose reply is JSON may be held to a schema by its provider, so it asks by an object with `need`.
3. A planner may ask `ROUNDS` times in a run, and then plans. What it asked for is shown to its later calls too.
4. An ASK is answered from the workspace only if every item has the form; otherwise it is a question to a person.
5. What may be shown is decided where files are read (context/): a request is only words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from orchestra.core.errors import ContractError
from orchestra.core.shown import Wanted, asks_for_more
from orchestra.core.text import count

WORD = "NEED"
KEY = "need"  # of the object that asks (rule 2)
ROUNDS = 3  # how often a planner may ask to see more before it plans
NO_ITEM = "empty_need"  # the reason of a request that asks for nothing
AGAIN = "need_again"  # the reason of a request after the last round
MOST = 20  # items of one request
_MOST_CONSTRAINED, _LONGEST_CONSTRAINED = 8, 200  # a small model that must follow a schema may never end a list
_LONGEST = 300  # characters of an item
_ITEM = re.compile(r"\s*[-*+]?\s*(file|search)\s*:\s*(.+?)\s*", re.IGNORECASE)
_LINES = re.compile(r"(.+?):(?:L?(\d+))(?:\s*[-–]\s*L?(\d+))?")


class Requests(Struct, frozen=True):
    """What a planner asked to see so far, and how often it may still ask (rule 3)."""

    wanted: tuple[Wanted, ...] = ()
    left: int = ROUNDS
    made: int = 0

    def with_more(self, wanted: tuple[Wanted, ...]) -> Requests:
        """The same after one more request."""
        return Requests(tuple(dict.fromkeys((*self.wanted, *wanted))), self.left - 1, self.made + 1)

    @property
    def told(self) -> str:
        """What the planner is told of its requests; empty if it made none."""
        if not self.wanted:
            return ""
        asked = "".join(f"- {item}\n" for item in self.wanted)
        left = f"You may ask {count(self.left, 'more time')}." if self.left else "You cannot ask again."
        return f"You asked to see:\n\n{asked}\nWhat could be shown is above. {left}"

    def refuse_another(self) -> None:
        """ContractError if no request is left."""
        if not self.left:
            raise ContractError(AGAIN, f"the planner asked for files {ROUNDS} times already; it must plan now")


def read_need(text: str) -> tuple[Wanted, ...] | None:
    """What a planner's reply asks for; None if it is a plan; ContractError if it asks for nothing (rule 1)."""
    if not asks_for_more(text, WORD):
        return None
    return _asked(
        map(_wanted, text.strip().splitlines()[1:]),
        f"the reply says {WORD} and no line has the form `- file: PATH[:A-B]` or `- search: TERM`",
    )


def read_need_object(value: Any) -> tuple[Wanted, ...] | None:
    """What a JSON value asks for; None if it is no request; ContractError if it asks for nothing (rule 2)."""
    if not isinstance(value, dict) or KEY not in value:
        return None
    items = value[KEY] if isinstance(value[KEY], list) else [value[KEY]]
    return _asked(
        map(_wanted, _as_lines(items)),
        f'the list "{KEY}" of the reply has no item of the form {{"file": "PATH[:A-B]"}} or {{"search": "TERM"}}',
    )


def need_schema() -> dict[str, Any]:
    """A JSON Schema for the object that asks (rule 2)."""
    text = {"type": "string", "minLength": 1, "maxLength": _LONGEST_CONSTRAINED}
    items = {"anyOf": [_object({kind: text}) for kind in ("file", "search")]}
    return _object({KEY: {"type": "array", "items": items, "minItems": 1, "maxItems": _MOST_CONSTRAINED}})


def read_needed(items: Iterable[str]) -> tuple[Wanted, ...] | None:
    """What an ASK wants to see, if the workspace can answer it; None if it is a question to a person (rule 4)."""
    found = [_wanted(item) for item in items]
    asked = tuple(dict.fromkeys(one for one in found if one is not None))
    return asked[:MOST] if asked and None not in found else None


def shortened(wanted: Iterable[Wanted]) -> str:
    """A request in one line, for people."""
    return ", ".join(one.search or one.place for one in wanted)


def _asked(items: Iterable[Wanted | None], otherwise: str) -> tuple[Wanted, ...]:
    found = tuple(dict.fromkeys(one for one in items if one is not None))
    if not found:
        raise ContractError(NO_ITEM, otherwise)
    return found[:MOST]


def _as_lines(items: list[Any]) -> Iterator[str]:
    """The items of a list as the lines of a request; a text stands for itself."""
    for item in items:
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from (f"{kind}: {value}" for kind, value in item.items() if isinstance(value, str) and value.strip())


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _wanted(line: str) -> Wanted | None:
    item = _ITEM.fullmatch(line)
    if item is None or len(line) > _LONGEST:
        return None
    kind, said = item[1].lower(), item[2].strip("`'\"")
    if not said:
        return None
    if kind == "search":
        return Wanted(search=said)
    lines = _LINES.fullmatch(said)
    if lines is None:
        return Wanted(file=said)
    first, last = int(lines[2]), int(lines[3] or lines[2])
    return Wanted(file=lines[1].strip("`'\""), lines=(max(1, min(first, last)), max(1, first, last)))
