"""Workspaces for the tests of the context."""

from __future__ import annotations

from pathlib import Path

from orchestra.context.workspace import gather
from orchestra.core.model import Gathered
from orchestra.core.shown import Search, Wanted

FILLER = (
    "def filler_{0}(argument):\n    # nothing of interest happens here, it only takes room\n    return argument\n\n\n"
)


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def filler(many: int, name: str = "") -> str:
    return "".join(FILLER.format(f"{name}{at}") for at in range(many))


def shown(root: Path, goal: str, total: int = 40_000, *, asked: tuple[Wanted, ...] = (), **more: object) -> Gathered:
    return gather(root, Search(hints=(goal,), wanted=asked, mayAsk=True), total, **more)  # type: ignore[arg-type]


def contents(gathered: Gathered) -> dict[str, str]:
    """Path -> content, of the files."""
    return {one.path: one.content for one in gathered.artifacts if one.path not in ("", ".")}


def note(gathered: Gathered) -> str:
    return next((one.content for one in gathered.artifacts if one.name == "about the files shown"), "")


def names(gathered: Gathered) -> str:
    return next(one.content for one in gathered.artifacts if one.path == ".")
