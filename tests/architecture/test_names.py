"""A class has a name of its own wherever two could be taken for each other."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.architecture.test_layers import MODULES, imports, tree

# Both are names of a specification: S1's constraints of a request, S2's of a task.
ALLOWED = {"Constraints", "Context"}  # the context of a flow, and that of a person's own workflow, which wraps it


def test_no_module_meets_two_public_classes_of_one_name() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        for node in tree(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(module)
    twice = {name: modules for name, modules in homes.items() if len(modules) > 1 and name not in ALLOWED}
    met = [
        f"{module} meets {name} of {' and '.join(sorted(both))}"
        for module in MODULES
        for name, modules in twice.items()
        if len(both := modules & ({imported for imported, _ in imports(module)} | {module})) > 1
    ]
    assert met == []
