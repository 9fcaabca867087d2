"""Imports point one way, flows are pure, nothing is hidden in a function body. U-20 … U-22 and U-25 as tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.numbers import modules

ROOT = Path(__file__).parents[2] / "src" / "orchestra"
MODULES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}

# What each layer may import, besides itself: faces -> app -> runs -> workflows -> what does the work -> core.
LAYERS: dict[str, set[str]] = {
    "core": set(),
    "patch": {"core"},
    "policy": {"core"},
    "worker": {"core"},
    "config": {"core", "policy"},
    "context": {"core"},
    "providers": {"core", "config"},
    "commands": {"core", "patch", "policy", "worker", "config", "context", "providers"},
    "workflows": {"core", "patch", "policy", "config", "context", "providers", "commands", "worker"},
    "runs": {"core", "patch", "policy", "config", "providers", "worker", "workflows"},
    "app": {"core", "patch", "policy", "config", "context", "providers", "commands", "worker", "workflows", "runs"},
    "cli": {"core", "policy", "config", "providers", "commands", "workflows", "runs", "app"},
}
# The modules that lie beside the packages, and the layer each belongs to.
FLAT = {
    "__init__": "app",
    "app": "app",
    "handlers": "app",
    "library": "app",
    "schemas": "app",
    "__main__": "cli",
}
# A flow may not touch the world; it performs effects.
IMPURE = {
    "os",
    "io",
    "pathlib",
    "socket",
    "subprocess",
    "time",
    "datetime",
    "random",
    "uuid",
    "asyncio",
    "tempfile",
    "shutil",
}
IMPURE |= {"threading", "urllib", "http", "secrets", "glob", "fcntl", "signal", "sys", "httpx2", "httpx"}


def layer(module: str) -> str:
    name = [*module.split("."), "__init__"][1]
    return FLAT.get(name, name)


@cache
def _trees() -> dict[str, ast.Module]:
    return {module.name: module.tree for module in modules()}


def tree(module: str) -> ast.Module:
    """The module as a tree."""
    return _trees()[module]


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    """Every node of a module."""
    return tuple(ast.walk(tree(module)))


@cache
def imports(module: str, *, everywhere: bool = True) -> tuple[tuple[str, int], ...]:
    """Every module that a module imports, by absolute name; `everywhere` counts imports in functions too."""
    return tuple(_imported(module, nodes(module) if everywhere else tree(module).body))


def _imported(module: str, among: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    guarded = {n for node in nodes(module) if _type_checking(node) for n in ast.walk(node)}
    for node in among:
        if node in guarded:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            yield from (
                (f"{node.module}.{a.name}", node.lineno) for a in node.names if f"{node.module}.{a.name}" in MODULES
            )


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    mine = layer(module)
    wrong = [
        f"{MODULES[module].name}:{line} imports {name}"
        for name, line in imports(module)
        if name.startswith("orchestra.") and layer(name) != mine and layer(name) not in LAYERS[mine]
    ]
    assert wrong == []


def test_there_is_no_import_cycle() -> None:
    graph = {module: {name for name, _ in imports(module) if name in MODULES and name != module} for module in MODULES}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"cycle: {' -> '.join((*path, module))}"
        if module not in done:
            for target in graph[module]:
                visit(target, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("module", [m for m in MODULES if m.endswith((".flow", ".states", ".shapes"))])
def test_flows_and_tables_touch_nothing(module: str) -> None:
    touched = [f"{name} (line {line})" for name, line in imports(module) if name.split(".")[0] in IMPURE]
    assert touched == []
    calls = [n for n in nodes(module) if isinstance(n, ast.Call)]
    assert [
        c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id in ("open", "print", "input", "eval")
    ] == []


def test_nothing_outside_the_worker_starts_a_process() -> None:
    starters = {"subprocess", "multiprocessing", "pty"}
    found = [m for m in MODULES if layer(m) != "worker" and any(n.split(".")[0] in starters for n, _ in imports(m))]
    assert found == []  # D-09: one door


def test_imports_inside_functions_are_only_for_start_up_time() -> None:
    """A lazy import may save start-up time on a rare path; it may never hide a cycle."""
    allowed = {
        "yaml",
        "difflib",
        "importlib",
        "importlib.resources",
        "importlib.metadata",
        "fcntl",
        "tempfile",
        "msgspec",
        "ahocorasick_rs",
        "ctypes",
    }
    allowed |= {"orchestra", "orchestra.cli.program", "json"}
    allowed |= {"click.shell_completion"}
    allowed |= {f"dulwich.{name}" for name in ("config", "errors", "index", "object_store", "objects")}
    wrong = []
    for module in MODULES:
        top = set(imports(module, everywhere=False))
        for name, line in set(imports(module)) - top:
            if layer(module) != "cli" and name not in allowed:
                wrong.append(f"{module}:{line} {name}")
    assert wrong == []


def test_a_provider_is_loaded_only_when_it_is_used() -> None:
    code = "import sys, orchestra.app, orchestra.cli.loop; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())
    live = {f"orchestra.providers.{name}" for name in ("http", "openai_compat", "anthropic", "claude_code", "local")}
    assert "orchestra.app" in loaded
    # prompt_toolkit is loaded for the first prompt: the face of a terminal is there without it
    rare = {"httpx2", "xllamacpp", "orchestra.providers.scripted", "prompt_toolkit", "orchestra.cli.editor"}
    assert "orchestra.cli.terminal" in loaded and loaded & (live | rare) == set()


def test_everything_is_caught_in_named_places_only() -> None:
    """`except Exception` is for the engine, a face's top level, and callbacks that must hand an error on."""
    named = {"orchestra.core.engine", "orchestra.cli.program", "orchestra.core.journal", "orchestra.core.context"}
    named |= {"orchestra.core.rehearsal"}  # a flow that is replayed without its effects may raise anything
    named |= {"orchestra.core.branches", "orchestra.worker.launcher", "orchestra.worker.streams"}
    named |= {"orchestra.core.projections"}
    named |= {"orchestra.cli.tui.talk", "orchestra.cli.tui.threads"}  # the terminal UI's top level; a thread's error
    named |= {"orchestra.workflows.own.effects", "orchestra.workflows.own.load"}  # a person's code may raise anything
    named |= {"orchestra.core.rehearsal"}  # it replays a person's code
    found = {
        module
        for module in MODULES
        for node in nodes(module)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or _names(node.type) & {"Exception", "BaseException"})
    }
    assert found <= named


def _names(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


@pytest.mark.parametrize("module", MODULES)
def test_modules_and_functions_stay_readable(module: str) -> None:
    text = MODULES[module].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 500, "split it (U-25: at most 500 lines)"
    for node in nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or 0) - node.lineno + 1
            assert size <= 62, f"{node.name} has {size} lines (U-25: at most 60)"
    assert ast.get_docstring(tree(module)) or not text.strip(), "a file opens with what it is"
