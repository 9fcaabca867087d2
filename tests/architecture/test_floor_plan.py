"""A workflow is a folder, and the rest of the program does not know it. The rules of the floor plan, executed."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from orchestra.workflows.all import ALL
from tests.architecture.numbers import SOURCE, cycles, imports, measure, modules
from tests.architecture.test_layers import LAYERS, MODULES, nodes

NAMES = {workflow.name for workflow in ALL}
FOLDERS = tuple(f"orchestra.workflows.{name}" for name in sorted(NAMES))
LIST = "orchestra.workflows.all"
# The modules of the command line that belong to a workflow: its verbs and what they share.
VERBS = {
    "orchestra.cli.loop",
    "orchestra.cli.dag",
    *(f"orchestra.cli.{name}" for name in ("graph", "inspect", "trace", "eval", "tool", "agent")),
    *(f"orchestra.cli.{name}" for name in ("evidence", "sessions", "turns", "conversation", "chat", "chatface")),
    *(f"orchestra.cli.{name}" for name in ("orchestrate", "compare", "team", "undo", "apply")),
    *(f"orchestra.cli.{name}" for name in ("contracts", "requests", "requesttrace")),
}
# Where a workflow's name may stand without being known as one: its verb's line in the command table, its section of
# the configuration.
TABLES = {
    "orchestra.cli.commands",
    *(f"orchestra.config.{name}" for name in ("sections", "consent", "overlay", "judge")),
}


@cache
def graph() -> dict[str, set[str]]:
    """Which modules each imports."""
    return imports(modules())


def strings(module: str) -> list[tuple[str, int]]:
    """Every text of a module that is no docstring."""
    documents = {id(_docstring(node)) for node in nodes(module)} - {id(None)}
    texts = (node for node in nodes(module) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [(str(node.value), node.lineno) for node in texts if id(node) not in documents]


def _docstring(node: ast.AST) -> ast.Constant | None:
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first.value
    return None


@pytest.mark.parametrize("module", MODULES)
def test_no_workflow_is_known_outside_its_folder_its_verbs_and_the_list(module: str) -> None:
    if module.startswith(FOLDERS) or module in VERBS | {LIST}:
        return
    known = {name for name in graph()[module] if name.startswith(FOLDERS)}
    assert known == set()
    if module not in TABLES:
        assert [(text, line) for text, line in strings(module) if text in NAMES] == []


def test_a_workflow_is_read_in_the_same_order_everywhere() -> None:
    for name in NAMES:
        files = {path.name for path in (SOURCE / "workflows" / name).glob("*.py")}
        assert {"shapes.py", "states.py", "flow.py", "workflow.py"} <= files


def test_core_knows_no_workflow_and_no_face() -> None:
    for module in (module for module in MODULES if module.startswith("orchestra.core")):
        assert {name for name in graph()[module] if not name.startswith("orchestra.core")} == set()


def test_the_floor_plan_in_numbers() -> None:
    found = measure(modules())
    assert found.flat <= 6
    assert len(LAYERS) <= 12
    assert cycles(graph()) == []  # imports in functions counted
    assert found.app <= 15
    assert found.function[2] <= 60
    assert found.module[1] <= 350
    assert found.own_bases == ()


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("where is an approval recorded", "runs/answers.py"),
        ("where is a tool looked up", "commands/tools.py"),
        ("where is a run removed", "runs/clean.py"),
        ("where is a provider chosen", "providers/choose.py"),
        ("where is a command's time kept", "commands/clock.py"),
    ],
)
def test_ls_answers_a_strangers_question(question: str, path: str) -> None:
    assert (SOURCE / path).is_file(), question
    assert path in Path(SOURCE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
