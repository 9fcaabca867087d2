"""Reads a planner's reply as a plan, or reports exactly what is wrong (S2-57 … S2-61, S2-95 … S2-106). Pure.

Rules
1. A plan is strict JSON. It is searched in this order: the whole reply, a fenced block, the first array, the first
   object (F2-08). A plan is used completely or not at all (S2-61).
2. Every task is checked before any runs: its form, its tool and command (S2-59, S2-52), its inputs, its dependencies.
   The graph has no cycle (S2-105).
3. A task's constraints can only be tighter than the policy (S2-113). A value that had to be reduced gives a warning,
   which is kept with the plan.
4. Error messages are written for a planner: they go into the next prompt.
5. An unknown key gives a warning, because it has no effect. In a person's own file it is refused (planfile.py).
6. A plan is one event, and every view of its run reads it. So its tasks and its size are limited (docs/tasks.md).
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchestra.core.collector import uncollected
from orchestra.core.command import Asker, InputFile
from orchestra.core.errors import ContractError
from orchestra.core.files import MIB, size
from orchestra.core.lines import objects
from orchestra.core.order import Order
from orchestra.core.records import utf8
from orchestra.core.redact import MASK
from orchestra.core.text import and_more, some
from orchestra.policy.decide import decide
from orchestra.policy.inputs import check_inputs
from orchestra.policy.policy import Policy, TaskWishes, for_task
from orchestra.workflows.dag.shapes import Constraints, Dag, Inputs, Plan, PlannedTask, SandboxMode, Task

MOST_TASKS = 20_000
MOST_PLAN = 16 * MIB  # as JSON; 20,000 tasks with four dependencies each have 15
_MOST_COST = 88 * MIB  # in memory; the same plan takes 80
_SECOND = 10  # a second plan may have a tenth of these limits, because a run keeps both
_TRIES = 50  # brackets in prose that are tried before the plan
_BRACKET = re.compile(r"[\[{](?P<json>\s*[\[{\"])?")  # and what follows it, if that looks like JSON
_FENCE = re.compile(r"^(?:```|~~~).*$", re.MULTILINE)
_MISSING = re.compile(r"Object missing required field (`\w+`)")
_LABEL = re.compile(r"\w[\w-]{0,63}")
_REASONS = 10  # problems in one message
_SHOWN_RING = 20  # tasks of a cycle in a message


class _WantedSandbox(Struct, frozen=True):
    fs: Literal["read-only", "rw"] | None = None
    net: Literal["allow", "deny"] | None = None


class _WantedConstraints(Struct, frozen=True):
    max_duration_sec: float | None = None
    max_retries: int | None = None
    concurrency: int | None = None
    sandbox: _WantedSandbox = _WantedSandbox()


class _WantedFile(Struct, frozen=True):
    path: str
    content: str


class _WantedInputs(Struct, frozen=True):
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    files: tuple[_WantedFile, ...] = ()


class _Wanted(Struct, frozen=True):
    """A task as a planner writes it."""

    task_id: str
    intent: str
    tools: tuple[str, ...]
    label: str = ""  # set only in a plan.json, whose tasks were read before
    depends_on: tuple[str, ...] | None = None
    parent_id: str | None = None
    inputs: _WantedInputs = _WantedInputs()
    constraints: _WantedConstraints = _WantedConstraints()


@uncollected()
def read_plan(
    text: str, run_id: str, policy: Policy, *, scope: str = "", asker: Asker = "model", source: str = "the plan"
) -> Plan:
    """The plan in a text; ContractError if there is none. `scope` makes the ids of a second plan different."""
    problems: list[str] = []
    share = 1 if not scope else _SECOND
    entries = _entries(_document(text), MOST_TASKS // share)
    warnings = [f"{wrong.text} is ignored; {wrong.cure}" for wrong in unknown_keys(entries)]
    wanted = _tasks(entries, source)
    if asker == "model":  # a person's `echo echo` is not repaired
        wanted = tuple(_without_repetition(task, warnings) for task in wanted)
    labels = _labels(wanted, problems)
    problems += [problem for task in wanted for problem in _malformed(task, asker)]
    denied = [problem for task in wanted for problem in _denied(task, policy, asker)]
    ids = {name: task_uuid(run_id, scope + label) for name, label in labels.items()}
    after = {task.task_id: _dependencies(task, ids, problems) for task in wanted}
    if not problems:
        problems += _cycle(after)
    if problems or denied:
        reasons = [*denied, *problems]
        shown = "\n".join(f"- {line}" for line in reasons[:_REASONS]) + and_more(reasons, _REASONS, "\n- ")
        raise ContractError("policy" if denied else "plan", f"{source} cannot be used:\n{shown}")
    tasks = tuple(
        PlannedTask(
            task_id=ids[task.task_id],
            label=scope + labels[task.task_id],
            intent=utf8(task.intent).decode().strip(),
            tools=task.tools,
            depends_on=tuple(ids[name] for name in after[task.task_id]),
            inputs=Inputs(task.inputs.args, task.inputs.env, _files(task)),
            constraints=_constraints(task, policy, warnings),
        )
        for task in wanted
    )
    return _bounded(make_plan(task_uuid(run_id, f"{scope}~plan"), tasks, tuple(warnings)), source, share)


def _bounded(plan: Plan, source: str, share: int) -> Plan:
    """The plan; ContractError if it is too large (rule 6)."""
    data = msgspec.json.encode(plan)
    if len(data) > MOST_PLAN // share or objects(data) + len(data) > _MOST_COST // share:
        raise ContractError(
            "plan",
            f"{source} has {size(len(data))} and {len(plan.tasks):,} tasks; a plan has at most "
            f"{size(MOST_PLAN // share)}, less if it is of very many small values: make several runs of it, or hand "
            "over less with each task",
        )
    return plan


def task_uuid(run_id: str, label: str) -> str:
    """UUIDv5 of a label within its run: the same on every replay (C-03)."""
    # Computed by hand: `str(uuid.uuid5(…))` takes three times as long, and a plan may have 20,000 tasks.
    digest = hashlib.sha1(_namespace(run_id) + utf8(label), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


@lru_cache(maxsize=1)
def _namespace(run_id: str) -> bytes:
    return uuid.uuid5(uuid.NAMESPACE_OID, run_id).bytes


def make_plan(plan_id: str, tasks: tuple[PlannedTask, ...], warnings: tuple[str, ...] = ()) -> Plan:
    """A plan of these tasks, with its graph (S2-103, S2-104)."""
    edges = tuple((earlier, task.task_id) for task in tasks for earlier in task.depends_on)
    return Plan(plan_id, tasks, Dag(tuple(task.task_id for task in tasks), edges), warnings)


# -- finding the JSON -------------------------------------------------------------------------------------------------


def json_values(text: str) -> list[Any]:
    """The JSON values of a reply that may be its answer (rule 1); ContractError if the JSON is broken."""
    return list(_candidates(text.removeprefix("\ufeff").strip()))


def _document(text: str) -> Any:
    found = json_values(text)
    plans = [candidate for candidate in found if _is_plan(candidate)]
    if len(plans) > 1:
        raise ContractError("two_plans", "the reply holds more than one list of tasks; answer with one array alone")
    others = [candidate for candidate in found if isinstance(candidate, list)]  # for the error message
    if plans or others:
        return (plans or others)[0]
    raise ContractError(
        "no_json", "the reply holds no JSON array of tasks; answer with the array alone, no explanation"
    )


def _is_plan(candidate: Any) -> bool:
    if isinstance(candidate, dict):
        return "tasks" in candidate
    return isinstance(candidate, list) and any(isinstance(entry, dict) for entry in candidate)


def _candidates(text: str) -> Iterator[Any]:
    """The JSON values that may be the plan (rule 1): the whole text, fenced blocks, or values in prose."""
    fences = list(_FENCE.finditer(text))
    blocks = [text[one.end() : other.start()] for one, other in itertools.pairwise(fences)]
    for parts in ([text], blocks):
        found = list(_decoded(parts))
        if found:
            yield from found
            return
    yield from _in_prose(text)


def _decoded(parts: list[str]) -> Iterator[Any]:
    for part in parts:
        try:
            yield msgspec.json.decode(part)
        except (msgspec.DecodeError, RecursionError):
            continue


def _in_prose(text: str) -> Iterator[Any]:
    """Every complete JSON value in prose, from left to right. Nothing inside broken JSON is used."""
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(_TRIES):
        bracket = _BRACKET.search(text, at)
        if bracket is None:
            return
        try:
            value, at = decoder.raw_decode(text, bracket.start())
            yield value
        except (ValueError, RecursionError):
            if bracket["json"]:
                raise ContractError(
                    "no_json", "the JSON of the reply breaks off or has a mistake; answer with the whole array alone"
                ) from None
            at = bracket.start() + 1


def _entries(document: Any, most: int) -> list[Any]:
    entries = document["tasks"] if isinstance(document, dict) else document
    if not isinstance(entries, list) or not entries:
        raise ContractError("plan", "the plan has no task; it needs at least one")
    if len(entries) > most:
        raise ContractError(
            "plan", f"the plan has {len(entries):,} tasks; at most {most:,} are run: make several runs of it"
        )
    return entries


def _tasks(entries: list[Any], source: str) -> tuple[_Wanted, ...]:
    tasks: list[_Wanted] = []
    problems: list[str] = []
    for number, entry in enumerate(entries, start=1):
        try:
            tasks.append(msgspec.convert(_forgiven(entry), _Wanted))
        except msgspec.ValidationError as error:
            why = _MISSING.sub(r"\1 is missing", str(error))
            problems.append(f"- task {number}: {why}")
    if problems:
        raise ContractError("plan", f"{source} cannot be used:\n" + "\n".join(problems[:_REASONS]))
    return tuple(tasks)


def _forgiven(entry: Any) -> Any:
    """A task with common variants corrected: one tool as a string, `null` for an empty value."""
    if not isinstance(entry, dict):
        return entry
    if None in entry.values():
        entry = {key: value for key, value in entry.items() if value is not None or key == "task_id"}
    if isinstance(entry.get("tools"), str):
        entry = {**entry, "tools": [entry["tools"]]}
    return entry


class UnknownKey(Struct, frozen=True):
    """A key in a task that has no meaning."""

    text: str  # the key, and the tasks that have it
    cure: str


_KEYS: dict[str, dict[str, None]] = {
    place: dict.fromkeys(name for kind in kinds for name in kind.__struct_fields__)
    for place, kinds in {
        "": (_Wanted, Task),  # the other fields of S2's task record are allowed too
        "inputs": (_WantedInputs,),
        "inputs.files": (_WantedFile,),
        "constraints": (_WantedConstraints,),
        "constraints.sandbox": (_WantedSandbox,),
    }.items()
}


def unknown_keys(entries: list[Any]) -> list[UnknownKey]:
    """The unknown keys, each once, with the tasks that have it and the most similar known key (rule 5)."""
    found: dict[tuple[str, str], list[str]] = {}
    for number, entry in enumerate(entries, start=1):
        for place, key in _unknown(entry, ""):
            name = entry.get("task_id")
            found.setdefault((place, key), []).append(repr(name) if isinstance(name, str) and name else str(number))
    return [_explained(place, key, tasks) for (place, key), tasks in found.items()]


def _unknown(part: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(part, list) and place == "inputs.files":
        yield from (found for file in part for found in _unknown(file, place))
    if not isinstance(part, dict):
        return
    known = _KEYS[place]
    for key, value in part.items():
        if key not in known:
            yield place, key
        elif isinstance(value, dict | list) and (inner := f"{place}.{key}".lstrip(".")) in _KEYS:
            yield from _unknown(value, inner)


def _explained(place: str, key: str, tasks: list[str]) -> UnknownKey:
    known = tuple(_KEYS[place]) if place else _Wanted.__struct_fields__
    near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.5)
    cure = f"did you mean `{near[0]}`?" if near else f"known keys there: {', '.join(known)}"
    named = some(tasks, 3)
    return UnknownKey(f"unknown key `{f'{place}.{key}'.lstrip('.')[:200]}` of task {named}", cure)


# -- checking ---------------------------------------------------------------------------------------------------------


def _labels(tasks: tuple[_Wanted, ...], problems: list[str]) -> dict[str, str]:
    """A label for every task id, usable as a folder name and a key. Duplicate ids are a problem (S2-58)."""
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for number, task in enumerate(tasks, start=1):
        name = task.label or task.task_id
        if not task.task_id.strip():
            problems.append(f"task {number}: task_id is empty")
        elif task.task_id in labels:
            problems.append(f"task_id {task.task_id!r} is used twice; each task needs its own")
        else:
            label = name if _LABEL.fullmatch(name) else f"task-{number:03d}"
            if label.casefold() in taken:
                label = next(x for n in itertools.count(number) if (x := f"{label[:50]}-{n}").casefold() not in taken)
            taken.add(label.casefold())
            labels[task.task_id] = label
    return labels


def _malformed(task: _Wanted, asker: Asker) -> Iterator[str]:
    if not task.intent.strip():
        yield f"task {task.task_id!r}: intent is empty"
    if len(task.tools) != 1:
        yield f"task {task.task_id!r}: one tool per task, not {len(task.tools)}; split it into several tasks"  # G2-2
    texts = (*task.inputs.args, *task.inputs.env.values(), *(file.content for file in task.inputs.files))
    if asker == "model" and any(MASK in text for text in texts):  # a masked argument would run instead of the real one
        yield f"task {task.task_id!r}: its inputs hold a secret, which is masked; name a variable instead (sandbox.env)"


def _denied(task: _Wanted, policy: Policy, asker: Asker) -> Iterator[str]:
    """Why the policy denies a task: its tool, its command, or inputs outside the workspace (S2-59, rule 2)."""
    inputs = task.inputs
    for tool in task.tools:
        ruling = decide((tool, *inputs.args), policy, asker=asker)
        if ruling.decision == "forbid":
            by = f" (rule `{ruling.rule}`, {ruling.where})" if ruling.code == "RULE_FORBIDS" else ""
            yield f"task {task.task_id!r}: {ruling.reason}{by}"
    files = [(file.path, file.content) for file in inputs.files]
    for violation in check_inputs(inputs.args, inputs.env, files):
        yield f"task {task.task_id!r}: {violation.where}: {violation.reason}"


def _dependencies(task: _Wanted, ids: Mapping[str, str], problems: list[str]) -> tuple[str, ...]:
    """The dependencies of a task: `depends_on`, or if that is missing its `parent_id` (G2-3)."""
    named = task.depends_on if task.depends_on is not None else (task.parent_id,) if task.parent_id else ()
    problems += [
        f"task {task.task_id!r} depends on {name!r}, which is not in the plan" for name in named if name not in ids
    ]
    return tuple(dict.fromkeys(named))


def _cycle(after: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The tasks of a cycle, named in order (S2-105); nothing if there is none."""
    order = sorted_out(after)
    left = {name: [d for d in earlier if d not in order] for name, earlier in after.items() if name not in order}
    if not left:
        return []
    seen: dict[str, int] = {}
    name = next(iter(left))
    while name not in seen:
        seen[name] = len(seen)
        name = left[name][0]
    ring = [*list(seen)[seen[name] :], name][::-1]
    if len(ring) > _SHOWN_RING:
        ring[_SHOWN_RING - 1 : -1] = ["…"]
    return [f"the tasks depend on each other in a circle: {' → '.join(ring)}"]


def sorted_out(after: Mapping[str, tuple[str, ...]]) -> dict[str, None]:
    """The names in the order of their dependencies (S2-08), without those in a cycle or after one."""
    order, found = Order(after), dict[str, None]()
    while order.ready:
        name = order.ready.popleft()
        found[name] = None
        order.done(name)
    return found


# -- taking over ------------------------------------------------------------------------------------------------------


def _without_repetition(task: _Wanted, warnings: list[str]) -> _Wanted:
    """The task without a repeated tool name: `echo` with args `echo Hello` is `echo Hello` (G2-2)."""
    args = task.inputs.args
    if task.label or not args or args[0] not in task.tools[:1]:
        return task
    warnings.append(f"task {task.task_id!r}: its args repeat the tool's name; dropped")
    return msgspec.structs.replace(task, inputs=msgspec.structs.replace(task.inputs, args=args[1:]))


def _files(task: _Wanted) -> tuple[InputFile, ...]:
    return tuple(InputFile(file.path, file.content) for file in task.inputs.files)


def _constraints(task: _Wanted, policy: Policy, warnings: list[str]) -> Constraints:
    wanted, box = task.constraints, task.constraints.sandbox
    given = for_task(
        policy,
        TaskWishes(
            max_duration_sec=wanted.max_duration_sec,
            max_retries=wanted.max_retries,
            concurrency=wanted.concurrency,
            fs=box.fs,
            net=box.net,
        ),
    )
    where = f"task {task.task_id!r}"
    if (wanted.max_duration_sec or 0) > given.max_task_sec:
        warnings.append(f"{where}: max_duration_sec is cut to the policy's {given.max_task_sec:g}")  # S2-113
    if (wanted.max_retries or 0) > given.max_retries:
        warnings.append(f"{where}: max_retries is cut to the policy's {given.max_retries}")
    if box.fs == "rw" and given.fs != "rw":
        warnings.append(f"{where}: what it writes is thrown away (policies.default_fs_mode is read-only)")
    if box.net == "allow" and given.net != "allow":  # G2-11
        warnings.append(f"{where}: it gets no network (policies.allow_network and security.net.allow_domains)")
    return Constraints(
        max_duration_sec=given.max_task_sec,
        max_retries=given.max_retries,
        concurrency=max(1, wanted.concurrency or 1),
        sandbox=SandboxMode(given.fs, "allow" if box.net == "allow" and given.net == "allow" else "deny"),
    )
