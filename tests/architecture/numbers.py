"""The code in numbers: sizes, imports, types, excepts. `python -m tests.architecture.numbers` prints the table.

The same figures as the review of the floor plan measured (docs/design/0007), so that a change can be held against it.
Pure: it reads the source and nothing else.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

SOURCE = Path(__file__).parents[2] / "src" / "orchestra"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(Struct, frozen=True):
    """One source file, read."""

    name: str
    lines: int
    ignores: int  # `type: ignore`
    tree: ast.Module


class Numbers(Struct, frozen=True):
    """The table."""

    files: int
    lines: int
    flat: int  # modules beside the packages
    module: tuple[int, int, int]  # lines: median, p90, most
    function: tuple[int, int, int]
    cycles: int
    lazy: int  # imports in functions
    any: int
    ignores: int
    broad: int  # excepts that catch everything
    excepts: int
    parameters: int  # functions with more than six
    app: int  # modules of ours that app imports
    chain: int  # the longest way of imports
    payloads: int  # places outside core that read a payload by a string
    own_bases: tuple[str, ...]  # classes that inherit from a class of ours, but errors, structs and faces


@cache
def modules(root: Path = SOURCE) -> tuple[Module, ...]:
    """Every module below a source folder. Read once for all that ask in a process: nobody changes a tree."""
    found: list[Module] = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = ".".join((root.name, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        found.append(Module(name, len(text.splitlines()), text.count("type: ignore"), ast.parse(text)))
    return tuple(found)


def measure(found: Sequence[Module]) -> Numbers:
    """All numbers of these modules."""
    graph = imports(found)
    functions = [node for module in found for node in ast.walk(module.tree) if isinstance(node, Function)]
    handlers = [node for module in found for node in ast.walk(module.tree) if isinstance(node, ast.ExceptHandler)]
    sizes = [(node.end_lineno or 0) - node.lineno + 1 for node in functions]
    names = [node for module in found for node in ast.walk(module.tree) if isinstance(node, ast.Name)]
    top = next((module.name for module in found if module.name.endswith(".app")), "")
    return Numbers(
        files=len(found),
        lines=sum(module.lines for module in found),
        flat=sum(module.name.count(".") == 1 and module.name in _flat(found) for module in found),
        module=_spread([module.lines for module in found]),
        function=_spread(sizes),
        cycles=len(cycles(graph)),
        lazy=sum(len(_lazy(module)) for module in found),
        any=sum(node.id == "Any" for node in names),
        ignores=sum(module.ignores for module in found),
        broad=sum(_catches_all(node) for node in handlers),
        excepts=len(handlers),
        parameters=sum(_parameters(node) > 6 for node in functions),
        app=len(graph.get(top, ())),
        chain=_longest(graph),
        payloads=sum(len(_payloads(module)) for module in found if ".core." not in module.name),
        own_bases=tuple(sorted(_own_bases(found))),
    )


def imports(found: Sequence[Module]) -> dict[str, set[str]]:
    """Which modules each imports, those in functions too."""
    known = {module.name for module in found}
    return {module.name: {name for name in _imported(module.tree) if name in known} - {module.name} for module in found}


def cycles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Ways of imports that lead back to where they began."""
    found: list[tuple[str, ...]] = []
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        if name in way:
            found.append((*way[way.index(name) :], name))
        elif name not in done:
            for target in graph[name]:
                visit(target, (*way, name))
            done.add(name)

    for name in graph:
        visit(name, ())
    return found


def _flat(found: Sequence[Module]) -> set[str]:
    """Modules that are files beside the packages, and not these packages themselves."""
    packages = {module.name.rpartition(".")[0] for module in found}
    return {module.name for module in found} - packages


def _imported(tree: ast.AST) -> Iterator[str]:
    guarded = {inner for node in ast.walk(tree) if _is_for_types(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if node in guarded:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _lazy(module: Module) -> list[ast.stmt]:
    bodies = (node.body for node in ast.walk(module.tree) if isinstance(node, Function))
    return [node for body in bodies for node in body if isinstance(node, ast.Import | ast.ImportFrom)]


def _catches_all(node: ast.ExceptHandler) -> bool:
    names = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} if node.type else {"BaseException"}
    return bool(names & {"Exception", "BaseException"})


def _parameters(node: Function) -> int:
    arguments = node.args
    return len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])


def _payloads(module: Module) -> list[ast.AST]:
    """Places that read a payload by a string: `payload["x"]`, `payload.get("x")`."""
    return [node for node in ast.walk(module.tree) if _reads_payload(node)]


def _reads_payload(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_payload(node.value) and isinstance(node.slice, ast.Constant)
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
    return called and _is_payload(node.func.value)  # type: ignore[attr-defined]  # `called` has seen to it


def _is_payload(node: ast.AST) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) == "payload"


def _own_bases(found: Sequence[Module]) -> Iterator[str]:
    classes = {node.name: node for module in found for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)}

    def allowed(name: str) -> bool:
        """Whether a class is a struct, an error, a protocol or a face, as far as its bases say."""
        node = classes.get(name)
        if node is None:
            return name in ("Struct", "Exception", "BaseException", "Protocol", "Generic", "NamedTuple")
        return name.endswith("Face") or any(allowed(_base(base)) for base in node.bases)

    for name, node in classes.items():
        if any(_base(base) in classes for base in node.bases) and not allowed(name):
            yield name


def _base(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _base(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _longest(graph: dict[str, set[str]]) -> int:
    known: dict[str, int] = {}

    def depth(name: str, way: tuple[str, ...]) -> int:
        if name not in known:
            known[name] = 1 + max((depth(one, (*way, name)) for one in graph[name] if one not in way), default=0)
        return known[name]

    return max(depth(name, ()) for name in graph)


def _spread(values: list[int]) -> tuple[int, int, int]:
    ordered = sorted(values)
    return round(statistics.median(ordered)), ordered[int(len(ordered) * 0.9)], ordered[-1]


if __name__ == "__main__":
    root = Path(sys.argv[1]) if sys.argv[1:] else SOURCE
    measured = measure(modules(root))
    for field in Numbers.__struct_fields__:
        print(f"{field:<12} {getattr(measured, field)}")
