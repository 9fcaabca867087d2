"""Policy: pure decisions, with their reasons. Nothing here reads or does anything.

Two questions: when does a patch need a person (G1-2: `reasons_to_ask`), and may a command run (`decide`).

Rules of `decide`
1. The strictest matching rule wins: forbid over ask over allow; without one, a whitelisted tool is allowed and
   anything else forbidden (S2-11, S2-52). A rule that says allow or ask admits what it names, and only that: it is a
   narrower line of the whitelist.
2. What a person typed needs no whitelist and is not asked about again; rules that forbid hold for it too.
3. One spelling per tool: a model names a tool exactly as the policy does. Paths, other cases, look-alikes, version
   suffixes are refused, with the spelling that is meant.
4. Programs that start other programs (WRAPPERS) are tools like any other, so they are refused unless named. Rules that
   forbid or ask look through them, through runners (`poetry run`), and through options before a sub-command
   (readings.py).
"""

from __future__ import annotations

import difflib
import re
import shlex
import unicodedata
from collections.abc import Iterable
from typing import Literal, assert_never

from msgspec import Struct

from orchestra.core.command import Asker
from orchestra.policy.policy import BUILT_IN, ApprovalPolicy, Decision, Layer, Policy, Rule
from orchestra.policy.readings import SHELLS, WRAPPERS, Readings, readings, renames

DenialCode = Literal["", "TOOL_WHITELIST_VIOLATION", "RULE_FORBIDS"]

STRICTNESS: dict[Decision, int] = {"allow": 0, "ask": 1, "forbid": 2}
# Tools whose arguments start other programs; a ruling notes it, whether they are whitelisted or not.
STARTERS = {
    "find": "find -exec and -delete act on what they find",
    "git": "git runs hooks, filters and aliases of the repository",
    "make": "make runs what the Makefile says",
    "tar": "tar --to-command and --checkpoint-action start programs",
}
_TOOL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")


class Ruling(Struct, frozen=True, kw_only=True):
    """The decision on a command, and the rule and the line that made it."""

    decision: Decision
    rule: str
    where: str  # "file:line", or BUILT_IN
    reason: str
    code: DenialCode = ""
    note: str = ""


def reasons_to_ask(policy: ApprovalPolicy, found: tuple[str, ...], guarded: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Why a person must see this patch first; none: the policy itself grants it (G1-2).

    `found` are risks; `guarded` is what counts under every policy, because it would change what orchestra itself does.
    """
    match policy:
        case "never":
            return guarded
        case "risk":
            return (*guarded, *found)
        case "always":
            return ("policy: every patch is approved by a person", *guarded, *found)
        case unreachable:
            assert_never(unreachable)


def decide(argv: tuple[str, ...], policy: Policy, *, asker: Asker) -> Ruling:
    """Whether a command may run."""
    name = argv[0] if argv else ""
    if "\0" in "".join(argv):
        return _refused("spelling", "a word of the command has a NUL character")
    if asker == "person":
        name = name.rpartition("/")[2]  # a person may type a path; rules are about the program's name
        if not name:
            return _refused("spelling", "there is no program to run")
    elif wrong := wrong_tool_name(name):
        return _refused("spelling", wrong)
    command = (name, *argv[1:])
    layers = policy.layers or (Layer(),)
    others = tuple(readings(command)) if any(layer.rules for layer in layers) else ()
    if renames(command) or any(map(renames, others)):
        return _refused(
            "spelling", "git -c alias.… and -c include.… give commands other names; name the command itself"
        )
    rulings = [_by_layer(command, others, layer, asker) for layer in layers]
    return max(rulings, key=lambda ruling: STRICTNESS[ruling.decision])


def wrong_tool_name(name: str) -> str:
    """Why this cannot be the name of a tool (rule 3), or an empty string."""
    if not name:
        return "the tool's name is empty"
    if "/" in name or "\\" in name or name in (".", ".."):
        return f"{name[:64]!r} is a path; name the tool, and map the name under `tools:` if it lies somewhere special"
    if name.startswith("-"):
        return f"{name[:64]!r} begins with '-'"
    if not name.isascii():
        meant = unicodedata.normalize("NFKC", name).casefold()
        hint = f"; {meant!r} is another name" if meant.isascii() and meant.isprintable() else ""
        return f"{name[:64]!r} is not plain ASCII{hint}"
    if not _TOOL_NAME.fullmatch(name) or name.endswith("."):
        return f"{name[:64]!r} is no name of a tool: letters, digits and ._+- only, not ending with a dot"
    return ""


def _by_layer(argv: tuple[str, ...], others: Readings, layer: Layer, asker: Asker) -> Ruling:
    matching = [rule for rule in layer.rules if _applies(rule, argv, others)]
    if matching:
        rule = max(matching, key=lambda rule: STRICTNESS[rule.decision])
        return _by_rule(rule, argv[0], asker)
    if asker == "person":
        return _allowed("typed by a person", BUILT_IN, "what a person typed needs no whitelist", argv[0])
    if argv[0] in layer.whitelist:
        return _allowed("whitelist_tools", layer.where, f"{argv[0]} is whitelisted", argv[0])
    return _not_listed(argv[0], layer)


def _by_rule(rule: Rule, name: str, asker: Asker) -> Ruling:
    reason = rule.reason or f"the rule says {rule.decision}"
    if rule.decision == "forbid":
        return Ruling(decision="forbid", rule=str(rule), where=rule.where, reason=reason, code="RULE_FORBIDS")
    if rule.decision == "ask" and asker == "model":
        return Ruling(decision="ask", rule=str(rule), where=rule.where, reason=reason, note=_note(name))
    if rule.decision == "ask":
        reason = f"typed by a person; `ask` does not apply{f' ({rule.reason})' if rule.reason else ''}"
    return _allowed(str(rule), rule.where, reason, name)


def _allowed(rule: str, where: str, reason: str, name: str) -> Ruling:
    return Ruling(decision="allow", rule=rule, where=where, reason=reason, note=_note(name))


def _note(name: str) -> str:
    if name in WRAPPERS:
        return f"{name} starts any other program: only the sandbox holds it"
    return STARTERS.get(name, "")


def _refused(rule: str, reason: str, where: str = BUILT_IN) -> Ruling:
    return Ruling(decision="forbid", rule=rule, where=where, reason=reason, code="TOOL_WHITELIST_VIOLATION")


def _not_listed(name: str, layer: Layer) -> Ruling:
    """Default: forbidden, with the name that may have been meant (rule 3)."""
    if name in WRAPPERS:
        kind = "a shell" if name in SHELLS else "a program that starts other programs"
        return _refused("wrappers", f"{name} is {kind}: it runs only if whitelist_tools names it")
    reason = f"{name} is not in whitelist_tools"
    plain = re.sub(r"[\d.]+$", "", name).lower()
    near = [plain] if plain in layer.whitelist else difflib.get_close_matches(name.lower(), layer.whitelist, n=1)
    if near:
        reason += f"; it has {near[0]}, which is the one spelling of that tool"
    return _refused("whitelist_tools", reason, layer.where)


def _applies(rule: Rule, argv: tuple[str, ...], others: Readings) -> bool:
    """Whether a rule is about this command; one that forbids or asks is about its other readings too (rule 4)."""
    if rule.covers(argv):
        return True
    return rule.decision != "allow" and any(rule.covers(reading) for reading in others)


class FailedExample(Struct, frozen=True, kw_only=True):
    """An example that contradicts its rule."""

    where: str
    text: str
    rule: str
    reason: str


def failed_examples(rules: Iterable[Rule]) -> tuple[FailedExample, ...]:
    """Every `match` that its rule does not match, every `not_match` that it does."""
    return tuple(
        FailedExample(where=example.where, text=example.text, rule=str(rule), reason=reason)
        for rule in rules
        for wanted, examples in ((True, rule.match), (False, rule.not_match))
        for example in examples
        if (reason := _failure(rule, example.text, wanted=wanted))
    )


def _failure(rule: Rule, text: str, *, wanted: bool) -> str:
    try:
        argv = tuple(shlex.split(text))
    except ValueError as error:
        return f"it cannot be split into words: {error}"
    if not argv:
        return "it is empty"
    found = _applies(rule, argv, tuple(readings(argv)))
    if found == wanted:
        return ""
    return f"the rule `{rule}` {'matches' if found else 'does not match'} it"
