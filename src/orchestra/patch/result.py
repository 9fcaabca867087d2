"""A developer's or fixer's reply -> exactly one of PATCH, ASK, NOOP, or a sentence with the reason (S1-79, S1-98).

Rules
1. Total: any string gives a typed result; nothing raises.
2. A marker is a whole line at column 0 (T-8). Inside a diff every line has a prefix, so a patch may edit these markers.
3. A header is read line by line, it is no YAML (T-7): `key: rest of the line`; a list follows an empty value.
4. One result per reply. Two headers, an unknown type or a patch beside ASK or NOOP is refused, not decided (S1-99).
5. A block with a beginning and no end is truncated, even if its first part would apply (G1-7).
6. Checks are claims: a broken checks block is dropped, and the patch is still used (G1-13).

7. A patch is returned in the normal form: where files are named by `---` and `+++` alone, their `diff --git` lines are
   added, and `repaired` lists that (S1-89, S1-97). If that leaves two readings, the reply is refused.

Where the patch is looked for: `[PATCH_BEGIN]`, else fenced `diff`, else fenced `patch`, else a `### PATCH` section,
else from the first `diff --git` line or pair of `---` and `+++` lines (S1-97). Only the first three have an end, so
a reply whose finishReason is `length` must not be passed here. The diff itself is checked by diff.py and
safety.py, not here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from orchestra.core.work import Refusal
from orchestra.patch.diff import ends_inside_hunk, parse_diff
from orchestra.patch.markers import MarkedReply, cut, first_file
from orchestra.patch.normal import normal_form

UnparsableReason = Literal["not_found", "invalid_format", "ambiguous", "no_question", "truncated"]
CheckStatus = Literal["pass", "fail", "not_run"]

_KEYS = ("type", "summary", "question", "reason", "needed_input")
_KEY = re.compile(rf"({'|'.join(_KEYS)})\s*:(.*)", re.IGNORECASE | re.DOTALL)
_ITEM = re.compile(r"\s*[-*•]\s+(.*)", re.DOTALL)
_CHECK_KEY = re.compile(r"\s*(-?)\s*(command|status|exitCode)\s*:(.*)", re.DOTALL)
# S1-95: these words in the place of a question are the contract violation the specification names.
_NO_QUESTION = {
    "",
    "-",
    "n/a",
    "none",
    "없음",
    "진행 불가",
    "진행불가",
    "cannot proceed",
    "can't proceed",
    "unable to proceed",
    "blocked",
}


class Check(msgspec.Struct, frozen=True):
    """A check that the model claims to have run; shown, but never used as the evaluation (G1-13)."""

    command: str
    status: CheckStatus
    exitCode: int | None = None


class Patch(msgspec.Struct, frozen=True, tag="PATCH", tag_field="type"):
    """The reply changes files: a diff in the normal form, not yet checked. `repaired`: what was repaired for that."""

    summary: str
    diff: str
    checks: tuple[Check, ...] = ()
    repaired: tuple[str, ...] = ()


class Ask(msgspec.Struct, frozen=True, tag="ASK", tag_field="type"):
    """The reply needs an answer from a person first."""

    question: str
    reason: str
    needed_input: tuple[str, ...]


class Noop(msgspec.Struct, frozen=True, tag="NOOP", tag_field="type"):
    """The reply states that the goal is already met."""

    reason: str


class Unparsable(msgspec.Struct, frozen=True, tag="UNPARSABLE", tag_field="type"):
    """The reply is none of the three; `message` is the reason, worded for the next prompt."""

    reason: UnparsableReason
    message: str


Result = Patch | Ask | Noop | Unparsable


def parse_result(text: str) -> Result:
    """Read a whole reply. Deterministic and total."""
    reply = cut(text)
    if len(reply.headers) > 1:
        return Unparsable("ambiguous", f"the reply has {len(reply.headers)} result headers; send exactly one")  # S1-99
    if reply.unclosed:
        return Unparsable(
            "truncated",
            f"the line {reply.unclosed} is missing: the reply seems cut off; send it whole, shorter if need be",
        )
    fields = _fields(reply.headers[0]) if reply.headers else {"type": ["PATCH"]}  # S1-80: PATCH is the default
    if isinstance(fields, Unparsable):
        return fields
    kind = _text(fields, "type").upper()
    if kind == "PATCH":
        return _patch(reply, _line(fields, "summary"))
    if kind not in ("ASK", "NOOP"):
        return Unparsable("invalid_format", f"the result type is {kind[:40]!r}; it must be PATCH, ASK or NOOP")  # S1-99
    if reply.patches:
        return Unparsable(
            "ambiguous", f"the header has type {kind}, but a patch follows; send either the patch or the {kind}"
        )
    return _ask(fields) if kind == "ASK" else Noop(_text(fields, "reason"))


def _ask(fields: dict[str, list[str]]) -> Ask | Unparsable:
    question = _text(fields, "question")
    if question.strip(" .!。").lower() in _NO_QUESTION:
        return Unparsable(
            "no_question", "type ASK needs `question:` with one concrete question a person can answer"
        )  # S1-95
    return Ask(question, _text(fields, "reason"), _items(fields.get("needed_input", [])))


def _fields(header: Sequence[str]) -> dict[str, list[str]] | Unparsable:
    """Key -> its lines. A line without a known key at its start continues the value above it."""
    fields: dict[str, list[str]] = {}
    key = ""
    for line in header:
        found = _KEY.match(line)
        if found:
            key = found[1].lower()
            if key in fields:
                return Unparsable("ambiguous", f"the result header has `{key}:` twice; send it once")
            fields[key] = [found[2].strip()]
        elif key and line.strip():
            fields[key].append(line.strip())
    if "type" not in fields:
        return Unparsable("invalid_format", "the result header has no `type:` line; it must say PATCH, ASK or NOOP")
    return fields


def _text(fields: dict[str, list[str]], key: str) -> str:
    return "\n".join(line for line in fields.get(key, []) if line)


def _line(fields: dict[str, list[str]], key: str) -> str:
    return " ".join(line for line in fields.get(key, []) if line)  # S1-84: one line


def _items(lines: Sequence[str]) -> tuple[str, ...]:
    """A list's items; also the value behind the key, for models that write it on one line."""
    items: list[str] = []
    for line in lines:
        found = _ITEM.match(line)
        if found or not items:
            items.append(found[1].strip() if found else line)
        else:
            items[-1] = f"{items[-1]} {line}".strip()  # an item's second line
    return tuple(item for item in items if item and item != "[]")


def _patch(reply: MarkedReply, summary: str) -> Patch | Unparsable:
    blocks = reply.patches or reply.fences
    if not blocks:
        return Unparsable(
            "not_found",
            "no result in the reply: want a <<<AIO_RESULT_START>>> header and, for a PATCH, "
            "the diff between the lines [PATCH_BEGIN] and [PATCH_END]",
        )
    for block in blocks:
        if not any(line.strip() for line in block):
            return Unparsable("invalid_format", "the patch is empty; if nothing has to change, send type NOOP")
        if first_file(block) == len(block):
            return Unparsable(
                "invalid_format",
                "the patch names no file: want `diff --git a/PATH b/PATH`, `--- a/PATH` and `+++ b/PATH` lines",
            )
    if reply.open_end and ends_inside_hunk(blocks[-1]):
        return Unparsable("truncated", "the diff ends in the middle of a hunk; send the whole patch again")
    if len(blocks) > 1 and not _disjoint(blocks):
        return Unparsable("ambiguous", f"the reply has {len(blocks)} diffs that touch the same file; send one patch")
    diff = "\n".join("\n".join(block) for block in blocks)
    normal = normal_form(f"{diff}\n")
    return Patch(summary, normal.diff, _checks(reply), normal.repaired)


def _disjoint(blocks: Sequence[Sequence[str]]) -> bool:
    """Whether no file is in two blocks, so that the blocks can be joined without a decision."""
    seen: set[str] = set()
    for block in blocks:
        changes = parse_diff("\n".join(block))
        if isinstance(changes, Refusal):
            return False
        paths = {path for change in changes for path in change.paths}
        if paths & seen:
            return False
        seen |= paths
    return True


def _checks(reply: MarkedReply) -> tuple[Check, ...]:
    """The claimed checks (S1-87, S1-88). A claim that cannot be read completely is dropped (rule 6)."""
    claims: list[dict[str, str]] = []
    for line in reply.checks:
        found = _CHECK_KEY.match(line)
        if found and (found[1] or not claims):
            claims.append({})
        if found:
            claims[-1].setdefault(found[2], found[3].strip())
    checks: list[Check] = []
    for claim in claims:
        code = claim.get("exitCode", "")
        exit_code = int(code) if re.fullmatch(r"-?[0-9]{1,9}", code) else None
        match claim.get("status"), claim.get("command"):
            case ("pass" | "fail" | "not_run") as status, str(command) if command:
                checks.append(Check(command, status, exit_code))
    return tuple(checks)
