"""Run folders that somebody with no good will left in a project: no key made them, and nothing in them can be trusted.

Each maker gets an empty folder, the run's, and fills it. `line` makes a line of a journal that is well-formed but for
what a case changes.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestra.core.records import EVENT_TYPES

Maker = Callable[[Path], None]
RUN = "2026-01-01_001_loop_x"
TS = "2026-01-01T00:00:00Z"
SHA = "sha256:" + "0" * 64
ESCAPES = "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202e뒤집힌\x7f\x00"
REF = {"path": "artifacts/execute/iter-0001.patch", "bytes": 3, "sha256": SHA}
REPLY = {"text": "t", "raw": REF, "finishReason": "stop", "durationMs": 1, "provider": "scripted"}


def line(number: int, type: str, payload: Any, **more: Any) -> dict[str, Any]:
    """An event."""
    return {"id": f"{number:08d}", "runId": RUN, "ts": TS, "type": type, "payload": payload, **more}


def written(path: Path, *events: dict[str, Any]) -> Path:
    """A file of these events, one a line."""
    path.write_bytes(b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in events))
    return path


def created(**payload: Any) -> dict[str, Any]:
    """How every run begins."""
    facts = {"workflow": "loop", "goal": "목표", "params": {"checks": []}, "maxFixIterations": 3}
    return line(1, "RUN_CREATED", {**facts, **payload})


def journal(*events: Any) -> Maker:
    """A folder with this journal."""

    def make(folder: Path) -> None:
        (folder / "events.ndjson").write_bytes(b"".join(json.dumps(event).encode() + b"\n" for event in events))

    return make


def after(type: str, payload: Any, **more: Any) -> Maker:
    """A journal of two events."""
    return journal(created(), line(2, type, payload, **more))


def step(payload: dict[str, Any], type: str = "PHASE_COMPLETED", **more: Any) -> Maker:
    """A journal in which a step began and this came of it."""
    begun = line(2, "PHASE_STARTED", {"key": "execute.1", "effect": "ModelCall", "role": "developer", "agent": "d"})
    begun |= {"phase": "execute", "iteration": 1}
    return journal(created(), begun, line(3, type, {"key": "execute.1", **payload}, phase="execute", **more))


def graph(*events: dict[str, Any], params: Any = None) -> Maker:
    """A task graph's journal."""
    whole = {"intent": "일", "policy": {}, "prompts": {}, "config": {}}
    return journal(created(workflow="dag", params=whole if params is None else params), *events)


def adopted(plan: Any) -> dict[str, Any]:
    """The event that says what the tasks are."""
    return line(
        2, "PHASE_COMPLETED", {"key": "adopt.1", "effect": "AdoptPlan", "outcome": {"plan": plan}}, phase="plan"
    )


def task(name: str, *earlier: str, **more: Any) -> dict[str, Any]:
    """A task of a plan."""
    inputs: dict[str, Any] = {"args": [], "env": {}, "files": []}
    limits = {"max_duration_sec": 1.0, "max_retries": 0}
    facts = {"task_id": name, "label": name, "intent": name, "tools": ["echo"], "depends_on": list(earlier)}
    return {**facts, "inputs": inputs, "constraints": limits, **more}


def plan(*tasks: dict[str, Any]) -> dict[str, Any]:
    """A plan of these tasks."""
    return {"plan_id": "p", "tasks": list(tasks), "dag": {"nodes": [], "edges": []}}


# -- things that are no files -----------------------------------------------------------------------------------------


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(20 << 30)


def folder(path: Path) -> None:
    path.mkdir()


def nowhere(path: Path) -> None:
    path.symlink_to("/nonexistent/거기")


def itself(path: Path) -> None:
    path.symlink_to(path.name)


def sealed_door(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's name is short
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


ODD: dict[str, Maker] = {
    "a named pipe": pipe,
    "a link to /dev/zero": device,
    "20 GiB of nothing": sparse,
    "a folder": folder,
    "a link to nowhere": nowhere,
    "a link to itself": itself,
    "a socket": sealed_door,
}


def in_place_of(name: str, odd: Maker, rest: Maker) -> Maker:
    """A run folder in which something odd stands where this file should be."""

    def make(run: Path) -> None:
        rest(run)
        path = run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        odd(path)

    return make


def with_file(name: str, data: bytes, rest: Maker) -> Maker:
    """A run folder with this file in it."""

    def make(run: Path) -> None:
        rest(run)
        path = run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return make


def raw(data: bytes) -> Maker:
    """A journal of these bytes."""
    return with_file("events.ndjson", data, lambda run: None)


# -- the cases --------------------------------------------------------------------------------------------------------

APPROVAL = {"key": "gate.1", "approvalId": "a1", "digest": SHA, "summary": "바꾼다", "patch": REF, "files": []}
PLAN_WAITS = {**APPROVAL, "subject": "plan", "patch": {**REF, "path": "artifacts/plan/p.json"}}
ENDED = journal(created(), line(2, "RUN_COMPLETED", {"exitCode": 0}))
TYPES = (*(type for type in EVENT_TYPES if type != "RUN_CREATED"), "RUN_CREATED")
_EXECUTED = {"key": "a/run.1", "effect": "RunCommand"}

# Journals that cannot be read to their end: every view says so, with the line.
DAMAGED: dict[str, Maker] = {
    **{f"the journal is {name}": in_place_of("events.ndjson", odd, lambda run: None) for name, odd in ODD.items()},
    "zeros with a line end": raw(b"\0" * 1000 + b"\n" + b"{}\n"),
    "empty lines": raw(b"\n\n\n"),
    "not UTF-8": raw(b'{"id":"\xff"}\n{}\n'),
    "UTF-16": raw("\ufeff{}\n{}\n".encode("utf-16")),
    "a list": raw(b"[]\n[]\n"),
    "nested deeply": raw(b'{"payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n{}\n"),
    "half a pair of surrogates": raw(b'{"id":"\\ud800"}\n{}\n'),
    "a number beyond all numbers": raw(b'{"id":1e999}\n{}\n'),
    "it begins in the middle": journal(line(1, "PHASE_STARTED", {})),
    "a day that is none": journal({**created(), "ts": "2026-99-99T99:99:99Z"}),
    "digits of another script": journal({**created(), "ts": "٢٠٢٦-01-01T00:00:00Z"}),
    "a line end in a time": journal({**created(), "ts": f"{TS}\n"}),
    "the payload is a list": journal({**created(), "payload": []}),
    "the iteration is a text": after("PHASE_STARTED", {}, iteration="x"),
    "the key is a number": after("PHASE_STARTED", {"key": 5}),
    "the key is a list": after("PHASE_STARTED", {"key": ["a"], "childRunId": "x", "workflow": "loop"}),
    "the outcome is a list": step({"effect": "ModelCall", "outcome": [1]}),
    "the outcome is a text": after("PATCH_PRODUCED", {"outcome": "x"}),
    "the files are a text": after("APPROVAL_REQUESTED", {**APPROVAL, "files": "abc"}),
    "the files are numbers": after("PATCH_APPLIED", {"outcome": {"before": [], "after": [1, 2]}}),
    "the error is a text": after("RUN_FAILED", {"error": "broken"}),
    "the message of the error is a list": after("RUN_FAILED", {"error": {"message": []}}),
    "the error of a provider is none": step({"effect": "ModelCall", "error": {"reason": "provider"}}, "PHASE_FAILED"),
    "the reply is a number": step({"effect": "ModelCall", "outcome": {**REPLY, "text": 5}}),
    "the tokens are texts": step({"effect": "ModelCall", "outcome": {**REPLY, "usage": {"inputTokens": "x"}}}),
    "the goal is a number": journal(created(goal=7)),
    "the parameters are a list": journal(created(params=[])),
    "the parent is a list": journal(created(parentRunId=[1])),
    "the child is a number": after("PHASE_STARTED", {"key": "a", "childRunId": 5}),
    "the models are a text": journal(created(models="x")),
    "the number of fixes is a text": journal(created(maxFixIterations="many")),
    "the attempt is a text": after("PHASE_STARTED", {"task": "a", "attempt": "x"}, phase="execute"),
    "the duration is a text": step({"effect": "RunCommand", "outcome": {"exitCode": 0, "durationMs": "x"}}),
}

# Runs of which something can be shown, and something may be refused; nothing goes wrong.
STRANGE: dict[str, Maker] = {
    "nothing but types": journal(created(), *(line(n, name, {}) for n, name in enumerate(TYPES, start=2))),
    "nothing but types, in a graph": graph(*(line(n, name, {}) for n, name in enumerate(TYPES, start=2))),
    "empty outcomes": journal(
        created(), *(line(n, name, {"outcome": {}, "error": {}}) for n, name in enumerate(TYPES, start=2))
    ),
    "steps of a kind nobody knows": step({"effect": "Mine", "outcome": {"exitCode": [], "files": 3}}),
    "it is its own parent": journal(created(parentRunId=RUN)),
    "a child that is elsewhere": after("PHASE_STARTED", {"key": "c", "workflow": "loop", "childRunId": "../../x"}),
    "a child with a path": after("PHASE_STARTED", {"key": "c", "workflow": "loop", "childRunId": "/etc"}),
    "a child of no workflow": after("PHASE_STARTED", {"key": "c", "workflow": "\x1b", "childRunId": "x"}),
    "it is its own child": after("PHASE_STARTED", {"key": "c", "workflow": "loop", "childRunId": RUN}),
    "escapes everywhere": journal(
        created(goal=ESCAPES, workspace=ESCAPES, parentRunId=ESCAPES),
        line(2, "PHASE_STARTED", {"key": ESCAPES, "task": ESCAPES}, phase="execute"),
        line(3, "QUESTION_RAISED", {"question": ESCAPES, "questionId": ESCAPES, "reason": ESCAPES}),
        line(4, "APPROVAL_REQUESTED", {"approvalId": ESCAPES, "summary": ESCAPES, "digest": ESCAPES, "patch": REF}),
        {**line(5, "RUN_FAILED", {"error": {"message": ESCAPES, "stack": ESCAPES}}), "id": ESCAPES, "runId": ESCAPES},
    ),
    "a workflow nobody knows": journal(created(workflow=ESCAPES)),
    "absurd numbers": journal(
        created(maxFixIterations=-5),
        line(2, "PHASE_STARTED", {"key": "c", "effect": "RunCommand"}, phase="evaluate", iteration=-(10**15)),
        line(
            3, "PHASE_COMPLETED", {"key": "c", "outcome": {"exitCode": 10**15, "durationMs": 1e308}}, phase="evaluate"
        ),
    ),
    "absurd costs": step(
        {"effect": "ModelCall", "outcome": {**REPLY, "costUsd": 1e308, "lostUsd": -1e308, "asked": -9}}
    ),
    "ids twice and backwards": journal(created(), *(line(1, "PHASE_STARTED", {"key": "a"}) for _ in range(300))),
    "a reply of nothing": step({"effect": "ModelCall", "outcome": {"model": "m"}}),
    "a reply without its call": after("PHASE_COMPLETED", {"key": "x", "effect": "ModelCall", "outcome": REPLY}),
    "an approval of nothing": after("APPROVAL_REQUESTED", {}),
    "a question of nothing": after("QUESTION_RAISED", {}),
    "a patch outside": after("APPROVAL_REQUESTED", {**APPROVAL, "patch": {**REF, "path": "/etc/passwd"}}),
    "a patch above": after("APPROVAL_REQUESTED", {**APPROVAL, "patch": {**REF, "path": "../../../../calc.py"}}),
    "a patch that is a folder": after("APPROVAL_REQUESTED", {**APPROVAL, "patch": {**REF, "path": "."}}),
    "a file that is named wrongly": after("PHASE_COMPLETED", {"more": {**REF, "bytes": "x"}}),
    "a fork of nothing": journal(created(forkedFrom={"runId": "../x"})),
    "a fork with odd children": journal(created(forkedFrom={"runId": RUN, "events": -1, "children": {"c": "../x"}})),
    "a fork with a child elsewhere": journal(
        created(forkedFrom={"runId": RUN, "events": 10**9, "made": ESCAPES, "children": {"c": {"runId": "../../x"}}})
    ),
    "models that are none": journal(created(models={"roles": [1]})),
    "a policy that is none": journal(created(policy={"tier": 5})),
    "somebody vouches": journal(created(vouches={"lines": "x"}, seal="0" * 32, prev="")),
    "a torn end": raw(json.dumps(created()).encode() + b'\n{"id":"000'),
    "a graph without a job": graph(params={"intent": "x"}),
    "a graph without a plan": graph(adopted({})),
    "a plan that is a circle": graph(adopted(plan(task("a", "b"), task("b", "a"), task("c", "nothing")))),
    "a task that goes back": graph(
        adopted(plan(task("a"))),
        line(3, "PHASE_STARTED", _EXECUTED, phase="execute"),
        line(4, "PHASE_COMPLETED", {**_EXECUTED, "outcome": {"exitCode": 0}}, phase="execute"),
        line(5, "PHASE_STARTED", _EXECUTED, phase="execute"),
    ),
    "a task with strange results": graph(
        adopted(plan(task("a", label=ESCAPES, intent=ESCAPES))),
        line(3, "PHASE_STARTED", {"key": f"{ESCAPES}/run.1", "effect": "RunCommand"}, phase="execute"),
        line(
            4,
            "PHASE_FAILED",
            {
                "key": f"{ESCAPES}/run.1",
                "effect": "RunCommand",
                "error": {},
                "outcome": {"untaken": [{}], "denials": [{}]},
            },
            phase="execute",
        ),
    ),
    "the plan it waits with is a pipe": in_place_of(
        "artifacts/plan/p.json", pipe, after("APPROVAL_REQUESTED", PLAN_WAITS)
    ),
    "the plan it waits with is none": with_file(
        "artifacts/plan/p.json", b'{"tasks": 3}', after("APPROVAL_REQUESTED", PLAN_WAITS)
    ),
    "the plan it waits with is a circle": with_file(
        "artifacts/plan/p.json",
        json.dumps(plan(task("a", "b"), task("b", "a", intent=ESCAPES), task("c", "nothing"))).encode(),
        after("APPROVAL_REQUESTED", PLAN_WAITS),
    ),
    "the patch it waits with is a pipe": in_place_of(str(REF["path"]), pipe, after("APPROVAL_REQUESTED", APPROVAL)),
    "the patch it waits with is in a link": in_place_of(
        "artifacts",
        lambda path: path.symlink_to("/etc"),
        after("APPROVAL_REQUESTED", {**APPROVAL, "patch": {"path": "artifacts/passwd"}}),
    ),
    "the patch it waits with obeys": with_file(
        str(REF["path"]), f"--- a\n+++ b\n{ESCAPES}\n".encode(), after("APPROVAL_REQUESTED", APPROVAL)
    ),
    "the report obeys": with_file("report.md", f"# {ESCAPES}\n".encode(), ENDED),
    "the report is no UTF-8": with_file("report.md", b"\xff\xfe\n", ENDED),
    "the state is nested deeply": with_file("state.json", b"[" * 100_000, ENDED),
    "the state is of another run": with_file("state.json", b'{"runId": 5}', ENDED),
    "an answer that is none": with_file("inbox/a1.json", b"[" * 100_000, after("APPROVAL_REQUESTED", APPROVAL)),
    "an adoption that is none": with_file("adopted.json", b"[" * 100_000, ENDED),
    **{
        f"{name} is {kind}": in_place_of(name, odd, rest)
        for name, rest in (
            ("report.md", ENDED),
            ("state.json", ENDED),
            ("lock", ENDED),
            ("adopted.json", ENDED),
            ("inbox", after("APPROVAL_REQUESTED", APPROVAL)),
            ("inbox/a1.json", after("APPROVAL_REQUESTED", APPROVAL)),
            ("inbox/cancel.json", after("APPROVAL_REQUESTED", APPROVAL)),
            ("tasks.jsonl", graph(adopted(plan(task("a"))))),
            ("plan.json", graph(adopted(plan(task("a"))))),
            ("artifacts", step({"effect": "ModelCall", "outcome": REPLY})),
            (str(REF["path"]), step({"effect": "ModelCall", "outcome": REPLY})),
            (
                "artifacts/x.prompt.json",
                journal(created(), line(2, "PHASE_STARTED", {"key": "k", "effect": "ModelCall", "artifact": "x"})),
            ),
            (
                "artifacts/x.asked.json",
                journal(created(), line(2, "PHASE_STARTED", {"key": "k", "effect": "ModelCall", "artifact": "x"})),
            ),
        )
        for kind, odd in list(ODD.items())[:4]  # the rest are refused where these are (core/files.py)
    },
}
