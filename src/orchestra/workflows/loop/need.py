"""What a model asks to see before it goes on: `NEED` of the planner, an ASK of the developer or fixer. Pure.

    NEED                                        needed_input:
    - file: src/query.py:120-180                - file: src/query.py
    - search: order_by                          - search: order_by

Rules
1. A planner's reply asks if its first line is NEED; otherwise it is a plan. Lines of another form are ignored. A
   request without one line of the right form is refused.
2. An ASK is answered from the workspace only if every item has the form; otherwise it is a question to a person.
3. What may be shown is decided where files are read (context/): a request is only words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from orchestra.core.errors import ContractError
from orchestra.core.shown import Wanted, asks_for_more

WORD = "NEED"
NO_ITEM = "empty_need"  # the reason of a request that asks for nothing
MOST = 20  # items of one request
_LONGEST = 300  # characters of an item
_ITEM = re.compile(r"\s*[-*+]?\s*(file|search)\s*:\s*(.+?)\s*", re.IGNORECASE)
_LINES = re.compile(r"(.+?):(?:L?(\d+))(?:\s*[-–]\s*L?(\d+))?")


def read_need(text: str) -> tuple[Wanted, ...] | None:
    """What a planner's reply asks for; None if it is a plan; ContractError if it asks for nothing (rule 1)."""
    if not asks_for_more(text, WORD):
        return None
    found = tuple(one for one in map(_wanted, text.strip().splitlines()[1:]) if one is not None)
    if not found:
        raise ContractError(
            NO_ITEM, f"the reply says {WORD} and no line has the form `- file: PATH[:A-B]` or `- search: TERM`"
        )
    return tuple(dict.fromkeys(found))[:MOST]


def read_needed(items: Iterable[str]) -> tuple[Wanted, ...] | None:
    """What an ASK wants to see, if the workspace can answer it; None if it is a question to a person (rule 2)."""
    found = [_wanted(item) for item in items]
    asked = tuple(dict.fromkeys(one for one in found if one is not None))
    return asked[:MOST] if asked and None not in found else None


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
