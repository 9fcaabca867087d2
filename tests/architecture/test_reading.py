"""Events are read once, as types: outside the core nobody looks into a payload (core/reading.py)."""

from __future__ import annotations

import ast

from tests.architecture.test_layers import MODULES, layer, nodes

# What has a payload of its own, or passes an event's on as it is.
ALLOWED = {
    "orchestra.cli.runs": 1,  # `inbox --json` prints a request as it was recorded
    "orchestra.workflows.dag.history": 1,  # of a line of tasks.jsonl, which is the graph's own record
}


def test_payloads_are_read_in_the_core_only() -> None:
    found: dict[str, int] = {}
    for module in MODULES:
        if layer(module) != "core":
            reads = [n for n in nodes(module) if isinstance(n, ast.Attribute) and n.attr == "payload"]
            found |= {module: len(reads)} if reads else {}
    assert found == ALLOWED
