"""`make mutants`: small faults put into the sources, one at a time, and whether a test notices. A sample, not all.

    .venv/bin/python tests/mutants.py [--seed TEXT] [--count 80] [--only PREFIX] [--tests PATH …] [--jobs 2]

What it does
1. Every place of src where one of the operators below applies is a possible fault: in functions only, never in a text.
2. A seed samples them by area (the packages below src/orchestra) and, within an area, by operator in turn.
3. One run of the suite, on a copy with a probe at each sampled place, tells which tests reach it, and how long each
   takes. It is kept in the temporary folder for the same sources and sample.
4. Each fault is put into a copy of its own, and the tests that reach it are run until one fails: those of the module
   first, then those of its package, quick ones before slow ones, and of another parametrised test one case before the
   rest.
   As many as take `--limit` seconds by step 3: so a busy machine does not change which tests are asked.
   Two faults at a time (`--jobs`). Nothing is written to the checkout.

A fault that survives is a test that is missing, or changes nothing that anybody could notice: a person reads each.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/orchestra")
SEED = "6fd85ffde5d9e775e2869fd7bfb95d396c33f0fe"  # the commit before the work that this sample first judged
# The share of each package in a sample; all others, and the modules beside them, share the rest. Not the faces.
SHARES = {"core": 25, "workflows": 15, "patch": 12, "providers": 10, "worker": 6}
OTHERS = 12
FACES = ("cli",)
LIMIT_S = 240.0  # of tests for one fault, as they were measured
SLOWER = 4  # a machine that is so much slower than when they were measured is waited for
HANGS_S = 60.0  # a test that takes so long, and SLOWER times as long as it was measured, hangs: it noticed
# How much dearer a second of a test is that is not of the fault's module: of its package, of another.
FARTHER = (1, 4, 16)

BOUNDARIES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
EMPTY = {"str": "''", "bytes": "b''", "int": "0", "float": "0.0", "bool": "False", "tuple": "()", "list": "[]",
         "dict": "{}", "set": "set()", "frozenset": "frozenset()"}  # fmt: skip
PROBE = """
try:
    import builtins as _probe_builtins, os as _probe_os
    _probe_key = ({number}, _probe_os.environ.get("PYTEST_CURRENT_TEST", "?"))
    if _probe_key not in _probe_builtins.__dict__.setdefault("_probed", set()):
        _probe_builtins.__dict__["_probed"].add(_probe_key)
        _probe_file = _probe_os.open({path!r}, _probe_os.O_WRONLY | _probe_os.O_CREAT | _probe_os.O_APPEND, 0o666)
        _probe_os.write(_probe_file, (_probe_key[1] + "\\n").encode())
        _probe_os.close(_probe_file)
except OSError:
    pass
"""


class Test(NamedTuple):
    """A test that passes, and how long it takes."""

    name: str
    seconds: float


class Fault(NamedTuple):
    """One change: this piece of this file becomes that. `at` and `end` are offsets in its bytes."""

    path: str
    line: int
    at: int
    end: int
    operator: str
    old: str
    new: str

    @property
    def area(self) -> str:
        first = Path(self.path).relative_to(PACKAGE).parts[0]
        return first if first in SHARES else "others"


# -- where a fault can be ---------------------------------------------------------------------------------------------


def faults_of(path: Path) -> Iterator[Fault]:
    """All that one module offers."""
    data = (ROOT / path).read_bytes()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, function in _inside_functions(ast.parse(data)):
        for piece, operator, new in _changes(node, function):
            assert piece.end_lineno is not None and piece.end_col_offset is not None
            at = starts[piece.lineno - 1] + piece.col_offset
            end = starts[piece.end_lineno - 1] + piece.end_col_offset
            yield Fault(str(path), piece.lineno, at, end, operator, data[at:end].decode(), new)


def _inside_functions(tree: ast.AST, function: ast.AST | None = None) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Every node of a function's body, and the function: not its annotations, defaults and decorators, nor a text."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.JoinedStr | ast.Assert):
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in child.body:
                yield statement, child
                yield from _inside_functions(statement, child)
            continue
        if function is not None:
            yield child, function
        yield from _inside_functions(child, function)


def _changes(node: ast.AST, function: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """What may become of a node: the piece that is replaced, the operator, and the new text."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Constant):
            yield test, "negated condition", f"({ast.unparse(ast.UnaryOp(ast.Not(), test))})"
    match node:
        case ast.Compare(ops=[op], left=left, comparators=comparators) if type(op) in BOUNDARIES:
            moved = ast.Compare(left, [BOUNDARIES[type(op)]()], comparators)
            yield node, "boundary", f"({ast.unparse(moved)})"
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield node, "and/or", f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, "dropped not", f"({ast.unparse(operand)})"
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
            yield node, "removed call", "pass"
        case ast.Return(value=ast.expr() as value) if (empty := _empty(function)) and ast.unparse(value) != empty:
            yield node, "emptied return", f"return {empty}"
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            yield node, "int + 1", str(number + 1)


def _empty(function: ast.AST) -> str:
    """The emptiest value that a function may return, by what it says it returns."""
    said = getattr(function, "returns", None)
    words = ast.unparse(said) if said is not None else ""
    if words in ("", "None", "NoReturn") or "Iterator" in words:
        return ""
    return "None" if "None" in words.split(" | ") else EMPTY.get(words.partition("[")[0], "None")


def apply(tree: Path, fault: Fault) -> None:
    """Put the fault into a copy of the checkout; all else of the file stays, to the last byte."""
    path = tree / fault.path
    data = path.read_bytes()
    path.write_bytes(data[: fault.at] + fault.new.encode() + data[fault.end :])


# -- which are tried --------------------------------------------------------------------------------------------------


def sample(seed: str, count: int, only: str) -> list[Fault]:
    """By area and, within it, by operator in turn; the same for the same sources and seed."""
    chance = random.Random(seed)
    paths = sorted(path.relative_to(ROOT) for path in (ROOT / PACKAGE).rglob("*.py"))
    found: dict[str, dict[str, list[Fault]]] = defaultdict(lambda: defaultdict(list))
    for path in paths:
        if path.relative_to(PACKAGE).parts[0] not in FACES and str(path).startswith(str(PACKAGE / only)):
            for fault in faults_of(path):
                found[fault.area][fault.operator].append(fault)
    shares = {area: {**SHARES, "others": OTHERS}[area] for area in sorted(found)}
    chosen: list[Fault] = []
    for area, share in shares.items():
        piles = [chance.sample(pile, len(pile)) for _, pile in sorted(found[area].items())]
        chance.shuffle(piles)
        wanted = max(1, round(count * share / sum(shares.values())))
        turns = (pile[turn] for turn in range(max(map(len, piles))) for pile in piles if turn < len(pile))
        chosen += [fault for fault, _ in zip(turns, range(wanted), strict=False)]
    return chosen


# -- which tests reach them -------------------------------------------------------------------------------------------


def copy_tree(target: Path, source: Path = ROOT) -> Path:
    """The checkout as it is now, with what Python compiled of it; it is run by the same virtual environment."""
    away = shutil.ignore_patterns(".venv", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
    shutil.copytree(source, target, symlinks=True, ignore=away)
    (target / ".venv").symlink_to(ROOT / ".venv")
    target.chmod(0o755)  # some tests run as another user
    return target


def reach(faults: Sequence[Fault], tests: Sequence[str]) -> list[list[Test]]:
    """Per fault the tests that reach it. Kept for the same sources and sample."""
    files = sorted((*(ROOT / PACKAGE).rglob("*.py"), *(ROOT / "tests").rglob("*.py")))
    state = hashlib.sha256(b"".join(path.read_bytes() for path in files) + repr((faults, tests)).encode()).hexdigest()
    kept = Path(tempfile.gettempdir(), f"orchestra-mutants-{state[:16]}.json")
    if not kept.exists():
        with tempfile.TemporaryDirectory(prefix="orchestra-probes-", ignore_cleanup_errors=True) as name:
            Path(name).chmod(0o777)
            kept.write_text(json.dumps(_probe(Path(name), faults, tests)))
    return [[Test(*test) for test in found] for found in json.loads(kept.read_text())]


def _probe(folder: Path, faults: Sequence[Fault], tests: Sequence[str]) -> list[list[Test]]:
    tree = copy_tree(folder / "tree")
    places = sorted({(fault.path, fault.line) for fault in faults})
    for path in {fault.path for fault in faults}:
        parsed = ast.parse((tree / path).read_bytes())
        mine = {line: number for number, (where, line) in enumerate(places) if where == path}
        probes = {n: ast.parse(PROBE.format(number=m, path=f"{folder}/hits-{m}")) for n, m in mine.items()}
        _insert(parsed, probes)
        assert not probes, f"{path}: no statement holds line {min(probes)}"
        (tree / path).write_text(ast.unparse(ast.fix_missing_locations(parsed)))
    pytest(tree, [*tests, f"--junitxml={folder}/times.xml", "-p", "no:cacheprovider"], None, quiet=False)
    seconds: dict[str, float] = {}  # of each test that passed
    for case in xml.etree.ElementTree.parse(folder / "times.xml").getroot().iter("testcase"):
        if not any(case.findall(kind) for kind in ("failure", "error", "skipped")):
            name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            seconds[name] = float(case.get("time", 0))
    found: list[list[Test]] = []
    for fault in faults:
        hits = folder / f"hits-{places.index((fault.path, fault.line))}"
        told = hits.read_text().splitlines() if hits.exists() else []
        names = {line.rpartition(" (")[0] for line in told} & seconds.keys()
        if told:  # what is made once in a process serves later tests, too, and not every process knows its test
            near = 0 if names else 1
            names |= {name for name in seconds if _distance(fault, name) <= near}
        found.append([Test(name, seconds[name]) for name in sorted(names)])
    return found


def asked_of(fault: Fault, tests: Sequence[Test], limit: float) -> list[Test]:
    """The tests that are asked about a fault, in their order: as many as take `limit` seconds."""
    cases: Counter[str] = Counter()  # of each parametrised test, those that were seen
    ordered = []
    for test in sorted(tests, key=lambda test: (test.seconds, test.name)):
        whole, distance = test.name.partition("[")[0], _distance(fault, test.name)
        ordered.append((distance > 0 and cases[whole] > 0, (test.seconds + 0.01) * FARTHER[distance], test))
        cases[whole] += 1
    found: list[Test] = []
    for _, _, test in sorted(ordered):
        limit -= test.seconds
        if limit > 0 or not found:
            found.append(test)
    return found


def _distance(fault: Fault, test: str) -> int:
    """0: a test of the fault's module, by the names of both; 1: of its package; 2: another."""
    module = Path(fault.path).relative_to(PACKAGE)
    file = Path(test.partition("::")[0]).relative_to("tests")
    if file.parent == module.parent and file.stem == f"test_{module.stem}":
        return 0
    return 1 if file.parts[0] == module.parts[0] else 2


def _insert(tree: ast.AST, probes: dict[int, ast.Module]) -> None:
    """Put each probe before the innermost statement that holds its line."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                setattr(node, field, [one for statement in statements for one in _with_probes(statement, probes)])


def _with_probes(statement: ast.stmt, probes: dict[int, ast.Module]) -> Iterator[ast.stmt]:
    blocks = [statement, *getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    fields = ("body", "orelse", "finalbody")
    inner = [
        one for block in blocks for field in fields for one in getattr(block, field, []) if isinstance(one, ast.stmt)
    ]
    held = {line for one in inner for line in range(one.lineno, (one.end_lineno or 0) + 1)}
    for line in range(statement.lineno, (statement.end_lineno or 0) + 1):
        if line in probes and line not in held:
            yield from probes.pop(line).body
    yield statement


# -- whether they notice ----------------------------------------------------------------------------------------------


def pytest(tree: Path, arguments: Sequence[str], limit: float | None, *, quiet: bool = True) -> int | None:
    """Run tests of a copy; the exit code, or None when the time was over."""
    env = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": ""}  # of a copy, so it is kept
    words = [sys.executable, "-m", "pytest", "-q", *arguments]
    out = subprocess.DEVNULL if quiet else None
    with subprocess.Popen(words, cwd=tree, env=env, stdout=out, stderr=out, start_new_session=True) as running:
        try:
            return running.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGTERM)
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
            return None


def judge(compiled: Path, fault: Fault, reaching: Sequence[Test], limit: float) -> str:
    """killed, survived, or why it is neither; in a copy of a tree that is compiled."""
    if not reaching:
        return "survived: no test reaches it"
    asked = asked_of(fault, reaching, limit)
    with tempfile.TemporaryDirectory(prefix="orchestra-mutant-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        tree = copy_tree(Path(folder, "tree"), compiled)
        apply(tree, fault)
        listed = Path(folder, "tests.txt")
        listed.write_text("\n".join(test.name for test in asked))
        began = time.monotonic()
        hangs = max(HANGS_S, SLOWER * max(test.seconds for test in asked))
        alone = ("-n0", "-x", "-p", "no:cacheprovider", "-o", f"timeout={hangs:.0f}", f"--basetemp={folder}/run")
        code = pytest(tree, [*alone, f"@{listed}"], SLOWER * (limit + HANGS_S))
        took = f"{time.monotonic() - began:.0f} s, {len(asked)} of {len(reaching)} tests that reach it"
        return f"{'survived' if code == 0 else 'survived so far' if code is None else 'killed'} ({took})"


def main() -> int:
    parser = argparse.ArgumentParser(description="Put faults into the sources and see whether tests notice.")
    parser.add_argument("--seed", default=SEED)
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--only", default="", help="a package or module below src/orchestra")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="the tests that are looked at")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds of tests for one fault")
    parser.add_argument("--jobs", type=int, default=2, help="faults that are tried at the same time")
    asked = parser.parse_args()
    faults = sample(asked.seed, asked.count, asked.only)
    print(f"{len(faults)} faults, seed {asked.seed}: first a run of the tests, to see which of them reach each")
    hits = reach(faults, asked.tests)
    ended: dict[str, list[bool]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="orchestra-compiled-") as folder, ThreadPoolExecutor(asked.jobs) as pool:
        tree = copy_tree(Path(folder, "tree"))
        pytest(tree, ["-n0", "--collect-only", "-p", "no:cacheprovider", *asked.tests], None)  # compiles the tests
        judged = pool.map(lambda fault, tests: judge(tree, fault, tests, asked.limit), faults, hits)
        for fault, said in zip(faults, judged, strict=True):
            old, new = (" ".join(text.split())[:60] for text in (fault.old, fault.new))
            print(f"{said:60} {fault.path}:{fault.line} {fault.operator}: {old}  ->  {new}", flush=True)
            ended[fault.area].append(said.startswith("killed"))
    print("\n| area | faults | killed |\n|---|---|---|")
    for area, killed in {**ended, "all": [one for some in ended.values() for one in some]}.items():
        print(f"| {area} | {len(killed)} | {sum(killed)} ({100 * sum(killed) // len(killed)} %) |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
