"""The JSON protocols of the evidence loop: main's planning, the worker's action, main's decision. Pure.

Rules
1. A reply is one JSON object. Think blocks, a fence and prose around it are left out; two objects are a mistake.
2. Every reply is checked against its record (S5-42, S5-52). A wrong reply raises ContractError with one sentence for
   the model that wrote it, and `repair` makes the next request of it (S5-43, S5-53).
3. A worker's reply of more than WORKER_TOKENS estimated tokens is refused, whatever it says (S5-44, S5-45).
4. What a provider that can constrain a reply is given is narrower, and depends on the state: see offered.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from orchestra.core.errors import ContractError
from orchestra.core.text import brief, estimated_tokens
from orchestra.core.thinking import split_thinking
from orchestra.workflows.evidence.memory import untagged

WORKER_TOKENS = 256  # of a worker's reply, estimated, without think blocks
WORKER_REPAIRS = 6
MAIN_REPAIRS = 2  # of planning, of a decision and of a final answer, each
REASON_CHARACTERS = 120

_FENCE = re.compile(r"^\s*```[A-Za-z]*[ \t]*\n(.*?)\n?```\s*$", re.DOTALL)
_MOST_OBJECTS = 20  # places of a reply at which an object is looked for

T = TypeVar("T")


# -- what is said -----------------------------------------------------------------------------------------------------


class Planning(Struct, frozen=True):
    """What main makes of the request, and where the loop goes first (S5-02, S5-09)."""

    next: Literal["collect_evidence", "main_decision", "final_report"]
    reason: str
    evidence_goals: tuple[str, ...] = ()
    guidance: str = ""
    answer_hint: str = ""


class ToolArguments(Struct, frozen=True):
    """The command line of a tool call."""

    cmd: str


class CallTool(Struct, frozen=True, tag_field="action", tag="call_tool"):
    """Run a command line in the sandbox (S5-34)."""

    args: ToolArguments
    reason: str
    tool: Literal["shell"] = "shell"


class AskUser(Struct, frozen=True, tag_field="action", tag="ask"):
    """Ask the user a question that is answered by YES or NO (S5-39)."""

    question: str


class Finalize(Struct, frozen=True, tag_field="action", tag="finalize"):
    """Hand over to main (S5-41)."""


Action = CallTool | AskUser | Finalize  # S5-33: exactly these


class Decision(Struct, frozen=True):
    """Whether the evidence is enough (S5-49)."""

    decision: Literal["finalize", "continue"]
    answer: str = ""
    guidance: str = ""
    summary_evidence: tuple[str, ...] = ()
    needed_evidence: tuple[str, ...] = ()
    forced_synthesis_enable_think: bool | UnsetType = UNSET  # S5-57


FALLBACK_PLANNING = Planning("collect_evidence", "planning failed; evidence is gathered first")  # S5-32
FALLBACK_DECISION = Decision(
    "continue", guidance="Gather one more piece of evidence that answers the goal directly, then finalize."
)  # S5-55


# -- reading ----------------------------------------------------------------------------------------------------------


def read_planning(text: str) -> Planning:
    """Main's planning in a reply; ContractError if there is none."""
    planning: Planning = _read(text, Planning)
    if not planning.reason.strip():
        raise ContractError("planning", "`reason` is empty; say in one sentence why this is the next step")
    return planning


def read_action(text: str) -> Action:
    """The worker's next action in a reply; ContractError if there is none, or if the reply is too long (rule 3)."""
    said = without_thoughts(text)
    if (tokens := estimated_tokens(said)) > WORKER_TOKENS:
        raise ContractError(
            "too_long",
            f"the reply has about {tokens} tokens; at most {WORKER_TOKENS} are allowed: one short JSON object",
        )
    action: Action = _read(text, Action)
    match action:
        case CallTool(args=ToolArguments(cmd), reason=reason):
            if not cmd.strip():
                raise ContractError("action", "`args.cmd` is empty; write the command line to run")
            if not reason.strip() or len(reason) > REASON_CHARACTERS:
                what = "is empty" if not reason.strip() else f"has {len(reason)} characters"
                raise ContractError(
                    "action", f"`reason` {what}; it is one sentence of at most {REASON_CHARACTERS} characters"
                )
        case AskUser(question=question) if not question.strip():
            raise ContractError("action", "`question` is empty; ask one question that YES or NO answers")
    return action


def read_decision(text: str) -> Decision:
    """Main's decision in a reply; ContractError if there is none."""
    decision: Decision = _read(text, Decision)
    return decision


def read_answer(text: str) -> str:
    """A final answer in plain text; ContractError if it is empty or JSON (S5-59, S5-60)."""
    answer = untagged(without_thoughts(text)).strip()
    if not answer:
        raise ContractError("answer", "the reply is empty; write the answer as plain text")
    if is_json(answer):
        raise ContractError("json_answer", "the reply is JSON; write the same answer as plain text for a person")
    return answer


def is_json(text: str) -> bool:
    """Whether a text is JSON rather than prose: an object or a list, fenced or not, also one that breaks off."""
    fenced = _FENCE.match(text)
    inner = (fenced[1] if fenced else text).strip()
    if inner[:1] not in ("{", "["):
        return False
    try:
        return isinstance(json.loads(inner), dict | list)
    except ValueError:
        return bool(re.match(r'\{\s*"[^"\n]{1,80}"\s*:|\[\s*[{"]', inner))
    except RecursionError:
        return True


def without_thoughts(text: str) -> str:
    """A reply without its think blocks (core/thinking.py)."""
    return split_thinking(text)[1]


def repair(problem: str, *, plain: bool = False) -> str:
    """What is added to the prompt after a reply that could not be used (rule 2). `plain`: text is wanted, not JSON."""
    wanted = "plain text for a person, no JSON" if plain else "one JSON object and nothing else"
    return f"Your last reply could not be used: {brief(problem, 600).rstrip('.')}. Answer again, with {wanted}."


def _read(text: str, kind: Any) -> Any:
    """The one object of this kind in a reply (rule 1)."""
    found = list(_objects(without_thoughts(text).removeprefix("\ufeff").strip()))
    if not found:
        raise ContractError("no_json", "the reply holds no complete JSON object")
    problems: list[str] = []
    fits: list[Any] = []
    for candidate in found:
        try:
            fits.append(msgspec.convert(candidate, kind))
        except msgspec.ValidationError as wrong:
            problems.append(str(wrong))
    if any(one != fits[0] for one in fits):
        raise ContractError("two_objects", f"the reply holds {len(fits)} JSON objects; write only the one that counts")
    if not fits:
        raise ContractError("schema", problems[0])
    return fits[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Every complete JSON object of a text, from left to right; none that lies inside another."""
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(_MOST_OBJECTS):
        at = text.find("{", at)
        if at < 0:
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        if isinstance(value, dict):
            yield value
