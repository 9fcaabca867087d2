"""Small faults in implemented lines of Python: does a test notice? Pure: a text in, changed texts out.

Rules
1. A handful of faults that people make: a moved boundary, a negated condition, `and` for `or`, another sign, a number
   off by one, a returned None. Only in functions, and only in the given lines. Texts, annotations and defaults stay.
2. At most one fault a line; where there are more lines than wanted faults, the faults are spread evenly. The choice
   depends on the text only: the same lines give the same faults.
3. Each mutant is a module that can be compiled. A text that cannot be parsed has none.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Iterator

from msgspec import Struct

_BOUNDARIES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
_MOST_TEXT = 512 * 1024


class Mutant(Struct, frozen=True):
    """One fault in a file."""

    path: str
    line: int
    old: str
    new: str
    text: str  # the whole file with the fault

    @property
    def said(self) -> str:
        """The fault in one line."""
        return f"{self.path}:{self.line}: {self.old} → {self.new}"


def mutants(path: str, text: str, lines: Collection[int], most: int = 5) -> tuple[Mutant, ...]:
    """At most `most` faults in these lines of a Python file; none in any other file."""
    if not path.endswith(".py") or len(text) > _MOST_TEXT or most < 1:
        return ()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    first: dict[int, Mutant] = {}
    data = text.encode()
    starts = _line_starts(data)
    for piece, new in sorted(_changes(tree), key=_subtlest):
        if piece.lineno in lines and piece.lineno not in first and (made := _mutant(path, data, starts, piece, new)):
            first[piece.lineno] = made
    found = [first[line] for line in sorted(first)]
    step = max(1.0, len(found) / most)
    return tuple(found[int(number * step)] for number in range(min(most, len(found))))


def _mutant(path: str, data: bytes, starts: list[int], piece: ast.expr, new: str) -> Mutant | None:
    assert piece.end_lineno is not None and piece.end_col_offset is not None
    at = starts[piece.lineno - 1] + piece.col_offset
    end = starts[piece.end_lineno - 1] + piece.end_col_offset
    old = data[at:end].decode()
    changed = data[:at] + new.encode() + data[end:]
    try:
        ast.parse(changed)  # rule 3
    except (SyntaxError, ValueError):
        return None
    return Mutant(path, piece.lineno, " ".join(old.split()), new, changed.decode())


def _line_starts(data: bytes) -> list[int]:
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """What may be changed."""
    for node in _in_functions(tree):
        match node:
            case ast.Compare(ops=[op], left=left, comparators=comparators) if type(op) in _BOUNDARIES:
                yield node, _written(ast.Compare(left, [_BOUNDARIES[type(op)]()], comparators))
            case ast.BoolOp(op=op, values=values):
                yield node, _written(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield node, _written(operand)
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _SIGNS and not _is_text(left, right):
                yield node, _written(ast.BinOp(left, _SIGNS[type(op)](), right))
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Constant):
                yield test, _written(ast.UnaryOp(ast.Not(), test))
            case ast.Constant(value=bool() as value):
                yield node, str(not value)
            case ast.Constant(value=int() as number):
                yield node, str(number + 1)
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield value, "None"


def _subtlest(change: tuple[ast.expr, str]) -> int:
    """The order in which the faults of a line are chosen: a missing result is noticed by almost every test."""
    return 2 if change[1] == "None" else 1 if change[1].startswith("(not ") else 0


def _in_functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node of functions' bodies: not their annotations, defaults and decorators, nor texts (rule 1)."""
    queue: deque[tuple[ast.AST, bool]] = deque([(tree, False)])
    while queue:
        node, inside = queue.popleft()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            queue += [(statement, True) for statement in node.body]
            continue
        if isinstance(node, ast.JoinedStr | ast.Assert):
            continue
        if inside:
            yield node
        annotation = node.annotation if isinstance(node, ast.AnnAssign) else None
        queue += [(child, inside) for child in ast.iter_child_nodes(node) if child is not annotation]


def _is_text(*nodes: ast.expr) -> bool:
    return any(isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str) for node in nodes)


def _written(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"
