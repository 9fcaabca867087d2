"""How much of what a commit changes is shown to a model, for cases of local clones. No model is called.

    python benchmarks/context/recall.py --clones DIR [--choose] [NAME ...]

DIR has the clones, as `OWNER+NAME/repo` or `OWNER+NAME` (bare or with `.git`). `--choose` writes `cases.json` anew by
the rule in clones.py. A hunk is shown if all its lines are; an insertion's are the lines before and after it. Each
figure is the mean of the cases. The sizes bound the bytes of file contents, as `orchestra context --bytes` does: the
list of names, the note and outlines are beside them. `asked`: after one round of asking, in which half of eight search
terms are wrong. `korean`: of the goal only the words that look like code are left, each with a particle.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent))

from clones import Case, Clone

from orchestra.context.workspace import gather
from orchestra.core.shown import Receipt, Search, Wanted

CASES = Path(__file__).with_name("cases.json")
# The weights and bounds were chosen on these. All others were measured after the last change of method.
TUNED = (
    "celery/celery",
    "vuejs/core",
    "BurntSushi/ripgrep",
    "Textualize/rich",
    "caddyserver/caddy",
    "square/okhttp",
    "clap-rs/clap",
)
SIZES = (200_000, 50_000)
TERMS, WRONG = 8, 4
PARTICLES = ("를", "을", "가", "는", "에서", "의", "로")
_CODE_LIKE = re.compile(r"`[^`\n]{2,80}`|\b\w*[a-z][A-Z]\w*|\b\w+_\w+|\b\w+\(\)|\b[a-z]+\.[a-z]\w+\b")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,60}")
_COMMON = frozenset(
    [
        "self",
        "this",
        "that",
        "return",
        "import",
        "from",
        "class",
        "function",
        "const",
        "true",
        "false",
        "none",
        "null",
        "else",
        "elif",
        "while",
        "break",
        "continue",
        "with",
        "async",
        "await",
        "static",
        "public",
        "private",
        "protected",
        "final",
        "void",
        "string",
        "bool",
        "boolean",
        "type",
        "struct",
        "impl",
        "enum",
        "interface",
        "package",
        "func",
        "range",
        "nil",
        "error",
        "throw",
        "throws",
        "catch",
        "except",
        "finally",
        "raise",
        "yield",
        "super",
        "extends",
        "implements",
        "export",
        "default",
        "case",
        "switch",
        "lambda",
        "pass",
        "assert",
        "print",
        "char",
        "long",
        "double",
        "float",
        "uint",
        "usize",
        "unsigned",
        "match",
        "where",
        "into",
        "then",
    ]
)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clones", type=Path, required=True)
    options.add_argument("--choose", action="store_true")
    options.add_argument("--verbose", action="store_true")
    options.add_argument("names", nargs="*")
    given = options.parse_args()
    clones = {one.name.replace("+", "/"): one for one in sorted(given.clones.iterdir()) if one.is_dir()}
    if given.choose:
        chosen = {name: list(_clone(clones[name]).cases()) for name in given.names or clones}
        CASES.write_text(_written(chosen))
        return 0
    cases = msgspec.json.decode(CASES.read_bytes(), type=dict[str, list[Case]])
    rows = {name: _measure(_clone(clones[name]), cases[name], given.verbose) for name in given.names or cases}
    for row in table(rows):
        print(row)
    return 0


def _written(chosen: dict[str, list[Case]]) -> str:
    """The cases as JSON, one a line."""
    blocks = (
        f'"{name}": [\n' + ",\n".join(msgspec.json.encode(case).decode() for case in cases) + "\n]"
        for name, cases in chosen.items()
    )
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _clone(folder: Path) -> Clone:
    return Clone(next(path for path in (folder / "repo", folder / ".git", folder) if (path / "HEAD").is_file()))


def _measure(clone: Clone, cases: list[Case], verbose: bool) -> list[dict[str, float]]:
    """The recall of each case, by variant."""
    out: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            tree = clone.tree(case, Path(folder))
            row: dict[str, float] = {}
            began = time.monotonic()
            for name, search in _variants(clone.goal(case), case, tree):
                for size in SIZES:
                    receipt = gather(tree, search, size + size // 4 + 2_000, contents=size).receipt
                    assert receipt.bytes <= size
                    row[f"{name} {size // 1000}"] = recall(receipt, case)
            if verbose:
                print(
                    case.commit[:10],
                    {k: round(v, 2) for k, v in row.items()},
                    f"{time.monotonic() - began:.1f}s",
                    flush=True,
                )
            out.append(row)
    return out


def _variants(goal: str, case: Case, tree: Path) -> Iterator[tuple[str, Search]]:
    asked = tuple(Wanted(search=term) for term in _half_wrong(case, tree))
    korean = _korean(goal)
    yield "goal", Search(hints=(goal,))
    yield "goal, asked", Search(hints=(goal,), wanted=asked)
    yield "korean", Search(hints=(korean,))
    yield "korean, asked", Search(hints=(korean,), wanted=asked)


def recall(receipt: Receipt, case: Case) -> float:
    """The part of a case's hunks that is shown."""
    shown = {one.path: None if isinstance(one.lines, msgspec.UnsetType) else one.lines for one in receipt.files}
    seen = [_is_shown(shown.get(path, ()), hunk) for path, hunks in case.hunks.items() for hunk in hunks]
    return mean(seen)


def _is_shown(shown: tuple[tuple[int, int], ...] | None, hunk: tuple[int, int]) -> bool:
    return shown is None or any(first <= hunk[0] and hunk[1] <= last for first, last in shown)


def _half_wrong(case: Case, tree: Path) -> list[str]:
    """Search terms of a model that is half wrong: from beside the change, and from anywhere in the repository."""
    chance = random.Random(case.commit)
    near: set[str] = set()
    for path, hunks in case.hunks.items():
        lines = (tree / path).read_text("utf-8", "replace").split("\n")
        for first, last in hunks:
            near |= _identifiers("\n".join(lines[max(0, first - 4) : last + 3]))
    files = sorted(path for path in tree.rglob("*") if path.suffix in (".py", ".go", ".ts", ".js", ".rs", ".java"))
    far: set[str] = set()
    for file in chance.sample(files, min(12, len(files))):
        far |= _identifiers(file.read_text("utf-8", "replace")) if file.is_file() else set()
    right = chance.sample(sorted(near), min(TERMS - WRONG, len(near)))
    wrong = chance.sample(sorted(far - near), min(WRONG, len(far - near)))
    return [*right, *wrong]


def _identifiers(text: str) -> set[str]:
    return {word for word in _IDENTIFIER.findall(text) if word.lower() not in _COMMON}


def _korean(goal: str) -> str:
    """A Korean goal about the same code."""
    chance = random.Random(goal)
    words = [word.strip("`") for word in _CODE_LIKE.findall(goal)]
    return " ".join(f"{word}{chance.choice(PARTICLES)} 고쳐야 한다." for word in words) or "잘못된 동작을 고쳐라."


def table(rows: dict[str, list[dict[str, float]]]) -> Iterator[str]:
    """The means of every repository, of those that were tuned on, and of those that were not."""
    variants = list(next(iter(rows.values()))[0])
    yield "| repository | cases | " + " | ".join(variants) + " |"
    yield "|---|--:|" + "--:|" * len(variants)
    for name, cases in rows.items():
        yield _row(name + (" (tuned)" if name in TUNED else ""), cases, variants)
    for name, is_tuned in (("**tuned on**", True), ("**held out**", False)):
        if some := [case for repository, cases in rows.items() if (repository in TUNED) is is_tuned for case in cases]:
            yield _row(name, some, variants)


def _row(name: str, cases: list[dict[str, float]], variants: list[str]) -> str:
    means = (f"{mean(case[variant] for case in cases):.2f}" for variant in variants)
    return f"| {name} | {len(cases)} | " + " | ".join(means) + " |"


if __name__ == "__main__":
    sys.exit(main())
