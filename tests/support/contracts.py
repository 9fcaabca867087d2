"""A small package, requests for it, and the replies of every role that works on them (S3)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from orchestra.core.run import RunFolder
from tests.support.project import Project, new_file, reply

REQUEST = "계산기를 만들어줘"
CHECK = "python3 -m unittest -q"
HAPPY, ERROR = "happy_path", "error_case"


def says(agent: str, text: str | dict[str, Any], *, contains: str = "", role: str = "", **more: Any) -> dict[str, Any]:
    """A reply of a role; a dict is written as YAML, as contracts are."""
    said = text if isinstance(text, str) else yaml.safe_dump(text, allow_unicode=True, sort_keys=False)
    match = {"agent": agent, **({"role": role} if role else {}), **({"contains": contains} if contains else {})}
    return {"match": match, "text": said, **more}


EXPLORING = (
    says(
        "main", json.dumps({"next": "final_report", "reason": "작은 패키지"}), role="planner", contains="Programs that"
    ),
    says("main", "calc/ 에 코드가 있고 tests/ 에 unittest 테스트가 있다.", role="planner"),
)
EXPLORED = {
    "version": 1,
    "request_id": "R1",
    "created_by": "code-explore",
    "project_manifest": {"claude_md": None, "agents_md": None},
    "explored_files": [{"path": "calc/__init__.py", "summary": "빈 패키지"}],
    "directory_structure": {"calc/": "패키지", "tests/": "테스트"},
}


def breakdown(*tasks: tuple[str, ...], **more: Any) -> dict[str, Any]:
    """A task breakdown: each task is its id and the ids of its subtasks."""
    return {
        "version": 1,
        "request_id": "R1",
        "created_by": "planner",
        "original_request": REQUEST,
        "objective": "계산기",
        "tasks": [
            {
                "id": task,
                "name": f"{task} 작업",
                "objective": f"calc/{task.lower()}.py 를 만든다",
                "subtasks": [{"id": one, "name": f"{one} 이름", "description": "함수 하나"} for one in subtasks],
            }
            for task, *subtasks in tasks
        ],
        "assumptions": ["코드는 calc/ 에 있을 것"],
        "task_order": [task for task, *_ in tasks],
        **more,
    }


def design(task: str, *, rule: str = "순수 함수만 쓴다", **more: Any) -> dict[str, Any]:
    """A design contract with one interface."""
    return {
        "version": 1,
        "request_id": "R1",
        "task_id": task,
        "created_by": "architect",
        "task_name": f"{task} 작업",
        "invariants": [{"id": "INV-1", "rule": rule}],
        "interfaces": [
            {
                "name": f"calc.{task.lower()}.double",
                "input": {"type": "int", "fields": [{"name": "n", "type": "int"}]},
                "output": {"type": "int"},
                "contract": "두 배",
            }
        ],
        "boundaries": [{"from": "tests", "to": "calc", "allowed": True}],
        "file_refs": [{"entity": task, "path": f"calc/{task.lower()}.py", "status": "to_create"}],
        **more,
    }


def qa_contract(subtask: str, **more: Any) -> dict[str, Any]:
    """A test contract with one case."""
    case = {"id": "TC-1", "name": "두_배로_만든다", "target": "double", "given": "2", "when": "double(2)", "then": "4"}
    return {
        "version": 1,
        "request_id": "R1",
        "task_id": subtask.partition("-")[0],
        "subtask_id": subtask,
        "created_by": "qa-engineer",
        "subtask_name": f"{subtask} 이름",
        "test_cases": [{**case, "category": HAPPY}],
        "test_file_path": path_of_tests(subtask),
        **more,
    }


def path_of_tests(subtask: str) -> str:
    return f"tests/test_{subtask.replace('-', '_').lower()}.py"


def name_of(subtask: str) -> str:
    """The module of a subtask, as its tests import it."""
    return f"calc.{subtask.replace('-', '_').lower()}"


def qa_code(subtask: str, *lines: str, path: str = "") -> str:
    """The patch with the tests of a subtask."""
    body = lines or (f"        self.assertEqual({name_of(subtask)}.double(2), 4)",)
    text = ["import unittest", "", f"import {name_of(subtask)}", "", "", "class Case(unittest.TestCase):"]
    text += ["    def test_tc_1(self) -> None:", *body]
    return reply(new_file(path or path_of_tests(subtask), *text), summary=f"{subtask} 테스트")


def code_file(subtask: str) -> str:
    return f"{name_of(subtask).replace('.', '/')}.py"


def code(subtask: str, body: str = "2 * n", *, path: str = "") -> str:
    """The patch that implements a subtask."""
    lines = ("def double(n: int) -> int:", f"    return {body}")
    return reply(new_file(path or code_file(subtask), *lines), summary=f"{subtask} 구현")


def fix(subtask: str, old: str, new: str) -> str:
    """The patch that repairs the implementation of a subtask."""
    path = code_file(subtask)
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n"
    return reply(
        f"{head} def double(n: int) -> int:\n-    return {old}\n+    return {new}\n", summary=f"{subtask} 수정"
    )


def classified(subtask: str, category: str) -> dict[str, Any]:
    """What the QA engineer says about the failing case of a subtask."""
    row = {"id": "TC-1", "name": "두_배로_만든다", "reason": "2를 넣으면 4가 아니다", "category": category}
    return says("qa-engineer", {"failed_tests": [row]}, role="evaluator", contains=f"of subtask {subtask}")


def designed(task: str, *subtasks: str, **more: Any) -> dict[str, Any]:
    """The architect's reply for a task whose subtasks have a module each."""
    refs = [{"entity": one, "path": code_file(one), "status": "to_create"} for one in subtasks]
    return says("architect", design(task, file_refs=refs, **more), role="planner", contains=f"of task {task}")


def qa(subtask: str, *lines: str, **more: Any) -> tuple[dict[str, Any], ...]:
    """The QA engineer's replies before an implementation."""
    return (
        says("qa-engineer", qa_contract(subtask, **more), role="planner", contains=f"of subtask {subtask}"),
        says("qa-engineer", qa_code(subtask, *lines), role="developer", contains=f"of subtask {subtask}"),
    )


def implemented(subtask: str, text: str = "", *, role: str = "developer") -> dict[str, Any]:
    """The implementer's reply."""
    return says("implementer", text or code(subtask), role=role, contains=f"{subtask} 이름")


JUDGED = says("architect", "설계대로다.\nDECISION: PASS\n", role="evaluator", repeat=True)


def script(*tasks: tuple[str, ...]) -> list[dict[str, Any]]:
    """The replies for a request in which everything works at once."""
    replies = [*EXPLORING, says("code-explore", EXPLORED), says("planner", breakdown(*tasks))]
    for task, *subtasks in tasks:
        replies.append(designed(task, *subtasks))
        for one in subtasks:
            replies += [*qa(one), implemented(one)]
    return [*replies, JUDGED]


def furnish(path: Path) -> None:
    """A package with a test."""
    for name in ("calc", "tests"):
        (path / name).mkdir(parents=True, exist_ok=True)
        (path / name / "__init__.py").write_text("")
    test = "import unittest\n\n\nclass Old(unittest.TestCase):\n    def test_old(self) -> None:\n        pass\n"
    (path / "tests" / "test_old.py").write_text(test)


class ContractsProject(Project):
    """The package, and the replies of a request for it."""

    def __init__(self, path: Path, *replies: dict[str, Any]) -> None:
        super().__init__(path, *(replies or script(("T1", "T1-S1"))))
        (path / "calc.py").unlink()
        furnish(path)

    def contracts(self, *more: str, approval: str = "never", check: str = CHECK) -> subprocess.CompletedProcess[str]:
        """Start the request, headless, as JSON."""
        given = ["--provider", f"scripted:{self.script}", "--no-input", "--json", "--approval", approval]
        return self.run("contracts", REQUEST, "--check", check, *given, *more, timeout=120)

    @property
    def requests(self) -> list[RunFolder]:
        """The contracts runs, the oldest first."""
        return [RunFolder(path) for path in sorted((self.path / "runs").iterdir()) if "_contracts_" in path.name]

    @property
    def tree(self) -> Path:
        """The contracts of the newest request."""
        return sorted((self.path / ".claude" / "orchestrator" / "sessions").glob("*/contracts/R*"))[-1]

    def read(self, name: str) -> Any:
        """A contract of the request."""
        return yaml.safe_load((self.tree / name).read_text(encoding="utf-8"))

    def calls(self, run: str = "last") -> list[tuple[str, str, str]]:
        """Agent, role and phase of every call of a run's tree that it paid for."""
        shown = [json.loads(line) for line in self.run("audit", run, "--json").stdout.splitlines()]
        return [
            (one["agent"], one["role"], one["phase"]) for one in shown if one["type"] == "call" and not one.get("kept")
        ]

    def facts(self) -> dict[str, tuple[bytes, int]]:
        """The bytes and the time of every contract file."""
        return {
            str(path.relative_to(self.tree)): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in sorted(self.tree.rglob("*.yaml"))
        }
