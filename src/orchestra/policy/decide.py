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
   forbid or ask look through them, through runners (`poetry run`), and through options before a sub-command: `timeout 5
   git -C . push` is `git push`. An option that is not known is read in both ways, with a value and without.
5. A policy narrows and never widens: `narrow` keeps the rules of both sides as layers, and every layer must agree; a
   task's own constraints can only tighten (S2-113).

The whitelist says what may start; the sandbox is what protects: python and git can do anything (MS-1.1).
"""

from __future__ import annotations

import difflib
import hashlib
import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeVar, assert_never

import msgspec
from msgspec import Struct

from orchestra.core.domains import Entry, common
from orchestra.core.work import Asker

ApprovalPolicy = Literal["always", "risk", "never"]
Decision = Literal["allow", "ask", "forbid"]
FsMode = Literal["read-only", "rw"]
Tier = Literal["strict", "landlock", "none"]
Readings = tuple[tuple[str, ...], ...]
DenialCode = Literal["", "TOOL_WHITELIST_VIOLATION", "RULE_FORBIDS"]

Number = TypeVar("Number", int, float)

BUILT_IN = "built in"
_STRICTNESS: dict[Decision, int] = {"allow": 0, "ask": 1, "forbid": 2}
_TIERS: dict[Tier, int] = {"none": 0, "landlock": 1, "strict": 2}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELLS = _names("sh bash dash zsh ash ksh mksh fish csh tcsh rbash busybox toybox pwsh")
WRAPPERS = SHELLS | _names(
    "env sudo su doas pkexec runuser setpriv xargs parallel nice ionice chrt taskset nohup timeout setsid stdbuf time"
    " watch strace ltrace gdb perf script expect unshare nsenter chroot bwrap firejail flock start-stop-daemon"
    " systemd-run ssh at batch crontab ld.so ld-linux.so ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 eval exec command"
)
# Sub-commands that run what comes after them; "": the program itself does.
RUNNERS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("npx", "pnpx", "bunx", "uvx"), frozenset({""})),
    **dict.fromkeys(("poetry", "pdm", "hatch", "rye", "pipenv", "pipx", "conda", "mamba", "uv"), _names("run")),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _names("exec x dlx run run-script")),
    "bundle": _names("exec"),
    "mise": _names("exec x"),
    "tox": _names("exec"),
}
# Whitelisted or not, worth saying: an argument of these starts other programs.
STARTERS = {
    "find": "find -exec and -delete act on what they find",
    "git": "git runs hooks, filters and aliases of the repository",
    "make": "make runs what the Makefile says",
    "tar": "tar --to-command and --checkpoint-action start programs",
}
# Options before the sub-command that take the next word as their value.
_VALUED: dict[str, frozenset[str]] = {
    "git": _names("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"),
    "npm": _names("--prefix -w --workspace --userconfig --globalconfig --registry --loglevel"),
    "pnpm": _names("-C --dir --filter -F --config-dir --registry --loglevel"),
    "poetry": _names("-C --directory -P --project"),
    "docker": _names("-H --host -c --context --config -l --log-level"),
}
# Options before the sub-command that take none.
_FLAGS: dict[str, frozenset[str]] = {
    "git": _names(
        "-p -P -v -h --paginate --no-pager --bare --version --help --html-path --man-path --info-path --exec-path"
        " --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --literal-pathspecs --glob-pathspecs"
        " --noglob-pathspecs --icase-pathspecs"
    ),
}
_ATTACHED = re.compile(r"-[A-Za-z]*?[Sc](?=[^\s=])|--[\w-]+=")  # `env -Sgit push`, `su -c'git push'`, `--call=git push`
_RENAMING = ("alias.", "include.", "includeif.")  # settings of git by which a word means another command
_SHELL = r"[\s;&|()'\"`$]+"
_MOST_PREFIX = 50  # words of a rule's prefix that can match a reading
_MOST_WORDS = 5_000  # of a wrapped command that are looked at
_TOOL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")


# -- patches ----------------------------------------------------------------------------------------------------------


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


# -- what a policy is -------------------------------------------------------------------------------------------------


class Example(Struct, frozen=True):
    """A command line that a rule says about itself, and where it stands."""

    text: str
    where: str = BUILT_IN


class Rule(Struct, frozen=True, kw_only=True):
    """Commands that begin with these words; each word may have alternatives."""

    prefix: tuple[tuple[str, ...], ...]
    decision: Decision
    reason: str = ""
    match: tuple[Example, ...] = ()
    not_match: tuple[Example, ...] = ()
    where: str = BUILT_IN

    def covers(self, argv: tuple[str, ...]) -> bool:
        if len(argv) < len(self.prefix):
            return False
        return all(word in words for word, words in zip(argv, self.prefix, strict=False))

    def __str__(self) -> str:
        return " ".join(words[0] if len(words) == 1 else f"({'|'.join(words)})" for words in self.prefix)


class Layer(Struct, frozen=True, kw_only=True):
    """What one side says about commands: a configuration, or a parent that narrows it."""

    whitelist: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    where: str = BUILT_IN  # of the whitelist


class Bounds(Struct, frozen=True, kw_only=True):
    """What one command and everything it starts may use."""

    memory_mb: int = 2048
    processes: int = 256
    file_mb: int = 1024
    disk_mb: int = 2048
    tmp_mb: int = 512


class Policy(Struct, frozen=True, kw_only=True):
    """Everything that is allowed. Paths are absolute, without links and `..`.

    A private /tmp and the task's own artifact folder are always there, so neither `/tmp` nor the runs folder is listed.
    """

    layers: tuple[Layer, ...]  # all of them must agree
    fs: FsMode = "read-only"
    domains: tuple[Entry, ...] = ()  # none: no network (S2-78)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    bounds: Bounds = Bounds()
    max_task_sec: float = 300
    max_total_sec: float = 1800
    max_retries: int = 2
    max_workers: int = 4
    tier: Tier = "strict"

    @property
    def net(self) -> Literal["allow", "deny"]:
        return "allow" if self.domains else "deny"

    @property
    def whitelist(self) -> tuple[str, ...]:
        """The tools every layer names, in the order of the first."""
        first, *others = self.layers or (Layer(),)
        return tuple(name for name in first.whitelist if all(name in other.whitelist for other in others))

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(rule for layer in self.layers for rule in layer.rules)


class TaskWishes(Struct, frozen=True, kw_only=True):
    """What a task asks for itself (S2-23 … S2-27); None: what the policy says."""

    max_duration_sec: float | None = None
    max_retries: int | None = None
    concurrency: int | None = None
    fs: FsMode | None = None
    net: Literal["allow", "deny"] | None = None


class Ruling(Struct, frozen=True, kw_only=True):
    """What the policy says to a command, by which rule of which line."""

    decision: Decision
    rule: str
    where: str  # "file:line", or BUILT_IN
    reason: str
    code: DenialCode = ""
    note: str = ""


# -- deciding ---------------------------------------------------------------------------------------------------------


def decide(argv: tuple[str, ...], policy: Policy, *, asker: Asker) -> Ruling:
    """Whether a command may run."""
    name = argv[0] if argv else ""
    if "\0" in "".join(argv):
        return _refused("spelling", "a word of the command has a NUL character")
    if asker == "person":
        name = name.rpartition("/")[2]  # a path is a person's right; rules are about the program
        if not name:
            return _refused("spelling", "there is no program to run")
    elif wrong := wrong_tool_name(name):
        return _refused("spelling", wrong)
    command = (name, *argv[1:])
    layers = policy.layers or (Layer(),)
    readings = tuple(_readings(command)) if any(layer.rules for layer in layers) else ()
    if _renames(command) or any(map(_renames, readings)):
        return _refused(
            "spelling", "git -c alias.… and -c include.… give commands other names; name the command itself"
        )
    rulings = [_by_layer(command, readings, layer, asker) for layer in layers]
    return max(rulings, key=lambda ruling: _STRICTNESS[ruling.decision]) if len(rulings) > 1 else rulings[0]


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


def _by_layer(argv: tuple[str, ...], readings: Readings, layer: Layer, asker: Asker) -> Ruling:
    matching = [rule for rule in layer.rules if _applies(rule, argv, readings)]
    if matching:
        rule = max(matching, key=lambda rule: _STRICTNESS[rule.decision])
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


def _applies(rule: Rule, argv: tuple[str, ...], readings: Readings) -> bool:
    """Whether a rule is about this command; one that forbids or asks is about its other readings too (rule 4)."""
    if rule.covers(argv):
        return True
    return rule.decision != "allow" and any(rule.covers(reading) for reading in readings)


def _readings(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Other commands that this one amounts to: without options before its first plain word, without a wrapper."""
    plain = [argv]
    if argv[1:2] == argv[:1]:
        plain.append(argv[1:])  # a plan drops the repetition (G2-2)
    plain += [reading for one in plain for reading in _without_options(one)]
    yield from plain[1:]
    if any(map(_runs, plain)):
        words = [word for text in argv[1:] for word in _words(text)]
        for start in range(min(len(words), _MOST_WORDS)):
            inner = (words[start].rpartition("/")[2], *words[start + 1 : start + _MOST_PREFIX])
            yield inner
            yield from _without_options(inner)


def _runs(argv: tuple[str, ...]) -> bool:
    known = RUNNERS.get(argv[0], frozenset())
    return argv[0] in WRAPPERS or "" in known or (len(argv) > 1 and argv[1] in known)


def _words(text: str) -> list[str]:
    """The words of `sh -c TEXT`; a plain argument is one word. A value may hang on its option."""
    attached = _ATTACHED.match(text)
    texts = (text, text[attached.end() :]) if attached else (text,)
    return [word for one in texts for word in (re.split(_SHELL, one) if re.search(r"[\s;&|()]", one) else [one])]


def _without_options(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command without the options before its first plain word, in every way they can be read."""
    valued, flags = _VALUED.get(argv[0], frozenset()), _FLAGS.get(argv[0], frozenset())
    reached = {1}
    for at in range(1, min(len(argv), _MOST_WORDS)):
        if at not in reached:
            continue
        word = argv[at]
        if not word.startswith("-"):
            if at > 1:
                yield (argv[0], *argv[at : at + _MOST_PREFIX])
        elif word in valued:
            reached.add(at + 2)
        else:
            reached |= {at + 1} if word in flags or "=" in word else {at + 1, at + 2}


def _renames(argv: tuple[str, ...]) -> bool:
    """Whether git is told another name for a command."""
    if argv[0] != "git":
        return False
    for option, value in zip(argv[1:], (*argv[2:], ""), strict=False):
        text = value if option in ("-c", "--config-env") else re.sub("^(-c|--config-env=)", "", option)
        if option.startswith("-") and text.lower().startswith(_RENAMING):
            return True
    return False


# -- the examples a rule carries --------------------------------------------------------------------------------------


class FailedExample(Struct, frozen=True, kw_only=True):
    """An example that is not what its rule says."""

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
    found = _applies(rule, argv, tuple(_readings(argv)))
    if found == wanted:
        return ""
    return f"the rule `{rule}` {'matches' if found else 'does not match'} it"


# -- narrowing --------------------------------------------------------------------------------------------------------


def narrow(parent: Policy, child: Policy) -> Policy:
    """What both allow: every field as tight as the tighter side (rule 5)."""
    ours, theirs = msgspec.structs.asdict(parent.bounds), msgspec.structs.asdict(child.bounds)
    return Policy(
        layers=tuple(dict.fromkeys((*parent.layers, *child.layers))),
        fs="rw" if parent.fs == child.fs == "rw" else "read-only",
        domains=_widest(both for one in parent.domains for other in child.domains for both in common(one, other)),
        reads=_common_paths(parent.reads, child.reads),
        writes=_common_paths(parent.writes, child.writes),
        bounds=Bounds(**{name: min(ours[name], theirs[name]) for name in ours}),
        max_task_sec=min(parent.max_task_sec, child.max_task_sec),
        max_total_sec=min(parent.max_total_sec, child.max_total_sec),
        max_retries=min(parent.max_retries, child.max_retries),
        max_workers=min(parent.max_workers, child.max_workers),
        tier=max(parent.tier, child.tier, key=lambda tier: _TIERS[tier]),
    )


def for_task(policy: Policy, constraints: TaskWishes) -> Policy:
    """The policy of one task: a wish beyond the policy is cut to it (S2-113), a wish below it holds."""
    return msgspec.structs.replace(
        policy,
        fs="read-only" if constraints.fs == "read-only" else policy.fs,
        domains=() if constraints.net == "deny" else policy.domains,
        max_task_sec=_cut(constraints.max_duration_sec, policy.max_task_sec, least=0.001),
        max_retries=_cut(constraints.max_retries, policy.max_retries, least=0),
        max_workers=_cut(constraints.concurrency, policy.max_workers, least=1),
    )


def _cut(wish: Number | None, limit: Number, *, least: Number) -> Number:
    """A wish within the limit; one that makes no sense (0 s, NaN) is the limit."""
    return min(wish, limit) if wish is not None and wish >= least else limit


def digest(policy: Policy) -> str:
    """What a policy amounts to, as one word for every task record. Line numbers and reasons do not count."""
    facts: dict[str, Any] = msgspec.to_builtins(policy)
    facts["layers"] = sorted({_canonical(layer) for layer in policy.layers})
    facts["domains"] = [str(entry) for entry in _widest(policy.domains)]
    facts["reads"], facts["writes"] = _outermost(policy.reads), _outermost(policy.writes)
    facts["max_task_sec"], facts["max_total_sec"] = float(policy.max_task_sec), float(policy.max_total_sec)
    return f"sha256:{hashlib.sha256(msgspec.json.encode(facts, order='sorted')).hexdigest()}"


def _canonical(layer: Layer) -> str:
    rules = sorted({(rule.decision, tuple(tuple(sorted(words)) for words in rule.prefix)) for rule in layer.rules})
    return msgspec.json.encode([sorted(set(layer.whitelist)), rules]).decode()


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it, by whole components: `/runs-evil` is not in `/runs`."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _common_paths(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    inner = [one for one in ours if any(within(one, other) for other in theirs)]
    return _outermost((*inner, *(one for one in theirs if any(within(one, other) for other in ours))))


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    every = sorted(set(paths))
    return tuple(path for path in every if not any(path != other and within(path, other) for other in every))


def _widest(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries in order, without those that another one covers."""
    every = sorted(set(entries), key=str)
    return tuple(one for one in every if not any(one != other and common(one, other) == (one,) for other in every))
