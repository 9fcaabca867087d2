"""Replies that models of several workflows give: a change of files (S1 §5), and an evaluator's decision. Pure."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from orchestra.core.errors import ContractError
from orchestra.core.work import ModelReply, Refusal
from orchestra.patch.diff import parse_diff
from orchestra.patch.result import Ask, Noop, Patch, Unparsable, parse_result
from orchestra.patch.safety import check

Decision = Literal["pass", "fixable", "blocked"]


class Opinion(Struct, frozen=True):
    """A judgement, from the evaluator's reply or from exit codes."""

    decision: Decision
    grounds: str
    question: str = ""


_DECISION = re.compile(r"^[\s>*_`#-]*DECISION\s*:\s*[*_`]*\s*(PASS|FIX|ASK)\b[*_`.\s]*$", re.MULTILINE)
_QUESTION = re.compile(r"^[\s>*_`#-]*QUESTION\s*:\s*(.+)$", re.MULTILINE)
_MEANING: dict[str, Decision] = {"PASS": "pass", "FIX": "fixable", "ASK": "blocked"}


def read_decision(reply: ModelReply) -> Opinion:
    """The decision in the evaluator's reply; ContractError unless there is exactly one (F1-07)."""
    found: list[str] = _DECISION.findall(reply.text)
    if len(found) != 1:
        what = "no DECISION line" if not found else f"{len(found)} DECISION lines ({', '.join(found)})"
        raise ContractError(
            "no_decision", f"the evaluator's reply has {what}; it must say DECISION: PASS, FIX or ASK once"
        )
    question = _QUESTION.search(reply.text)
    grounds = _QUESTION.sub("", _DECISION.sub("", reply.text)).strip()
    return Opinion(_MEANING[found[0]], grounds, question.group(1).strip() if question else "")


def read_result(text: str) -> Patch | Ask | Noop:
    """A developer's or fixer's reply as one of the three forms (S1-79); ContractError if its patch is never allowed.

    Whether the patch fits the files is checked later. A reply that was cut at the length limit needs its closing
    marker too, even if a part of it would apply (G1-7).
    """
    result = parse_result(text)
    if isinstance(result, Unparsable):
        raise ContractError(result.reason, result.message)
    if isinstance(result, Patch):
        changes = parse_diff(result.diff)
        refused = changes if isinstance(changes, Refusal) else check(changes)
        if refused is not None:
            raise ContractError(refused.reason, refused.message)
    return result


def noop_reason(text: str) -> str:
    """Why a writer's reply changes nothing; empty if it is a patch or a question."""
    result = parse_result(text) if "NOOP" in text.upper() else None
    return result.reason or "no reason given" if isinstance(result, Noop) else ""
