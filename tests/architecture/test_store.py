"""Only the store opens, lists, locks and creates runs; everything else asks it (core/store.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.test_layers import MODULES, imports, nodes

STORE = "orchestra.core.store"
# What keeps runs in files, below the store: the files of a run are opened here and nowhere else.
BELOW = {f"orchestra.core.{name}" for name in ("journal", "lock", "inbox", "adoption", "clockfile", "events", "lines")}
# What these modules offer to everyone: records, protocols, limits, pure functions. The rest is the store's alone.
OPEN = {
    "orchestra.core.journal": {"Journal", "OnEvent"},
    "orchestra.core.lock": set[str](),
    "orchestra.core.inbox": {"CANCEL", "MODELS", "Message", "free_name", "message"},
    "orchestra.core.adoption": {"Adoption", "Vouching"},
    "orchestra.core.clockfile": {"ClockReading"},
    "orchestra.core.events": {"Events"},
    "orchestra.core.lines": {"MOST_BYTES", "MOST_COST", "MOST_EVENTS", "objects", "weight"},
}
OTHERS = [module for module in MODULES if module != STORE and module not in BELOW]
# Names that must not come back in another module, whatever it imports.
GONE = {"read_events", "read_first", "read_journal", "read_run", "create_folder", "locked", "is_locked"}


def taken(module: str) -> Iterator[str]:
    """Every name of a module below the store that a module imports, and every such module imported as a whole."""
    for node in nodes(module):
        if isinstance(node, ast.ImportFrom) and node.module in OPEN:
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name not in OPEN[node.module])
        elif isinstance(node, ast.ImportFrom):
            yield from (name for alias in node.names if (name := f"{node.module}.{alias.name}") in OPEN)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in OPEN)


def names(module: str) -> Iterator[str]:
    """Every name that a module uses: its own functions, plain names and attributes."""
    for node in nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


@pytest.mark.parametrize("module", OTHERS)
def test_only_the_store_opens_runs(module: str) -> None:
    assert list(taken(module)) == []
    assert GONE & set(names(module)) == set()


def test_only_the_store_has_an_implementation_made() -> None:
    """One place chooses where runs are kept."""
    assert [module for module in OTHERS if "FileStore" in set(names(module))] == ["orchestra.workflows.project"]


def test_only_the_lock_and_named_others_call_flock() -> None:
    """`doctor` tries whether locks work at all, on a file of its own; the inbox is locked below the store.

    A session has a lock of its own, held during a turn.
    """
    found = {module for module in MODULES if "flock" in set(names(module))}
    assert found == {
        *("orchestra.core.lock", "orchestra.cli.verify"),
        "orchestra.workflows.evidence.sessions",
    }


def test_nothing_that_knows_runs_lists_a_folder_but_the_store() -> None:
    """What lists folders lists a workspace, an upper layer, a scratch folder or what is below one run."""
    listing = {"scandir", "iterdir", "listdir", "rglob"}
    about_runs = [m for m in OTHERS if m.split(".")[1:2] in (["core"], ["runs"], ["app"], ["handlers"])]
    found = {module for module in about_runs if listing & set(names(module))}
    assert found == {"orchestra.core.files"}


def test_the_store_knows_no_driver() -> None:
    """It is below the engine: a second store needs none of what drives a run."""
    above = {f"orchestra.core.{name}" for name in ("engine", "context", "ledger", "people", "tree", "fork", "cancel")}
    for module in (STORE, *BELOW):
        assert {name for name, _ in imports(module)} & above == set()
