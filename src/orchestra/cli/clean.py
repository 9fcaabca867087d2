"""The command `clean`: shows which old runs it would remove, asks, and removes them (with runs/clean.py)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from orchestra.app import App
from orchestra.cli import options
from orchestra.cli.asking import YES, can_ask, said
from orchestra.cli.text import print_json, safe
from orchestra.core.cells import table
from orchestra.core.errors import RunLocked, UsageError
from orchestra.core.localtime import local_minute
from orchestra.core.text import count
from orchestra.runs.clean import Cleaning, Leftover, Sweep, Tree, finish, look, remove


@click.command()
@click.option(
    "--keep", default=10, show_default=True, type=click.IntRange(min=0), help="How many stay, of those that ended last."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options.no_input("Never ask: without --yes nothing is removed (exit 2).")
@options.as_json
@options.project
def clean(keep: int, dry_run: bool, yes: bool, no_input: bool, as_json: bool, project: Path) -> int:
    """Remove the folders of this project's old runs, of all workflows, but the newest that have ended.

    A run that has not ended stays. So does a run from which another run that stays was forked, or which it replays.
    Child runs are removed with their parent. What the runs changed in the project is not touched.

    \b
    orchestra clean --dry-run              # what would be removed?
    orchestra clean --keep 3 --yes         # in a script
    """
    app = App(project)
    cleaning = Cleaning(app.project, app.runs, app.terms)
    sweep = look(cleaning, keep)
    if as_json and dry_run:
        for record in _records(sweep):
            print_json(record)
    elif not as_json:
        click.echo("\n".join(_lines(sweep)))
    if dry_run or not (sweep.going or sweep.leftovers):
        return 0
    if not yes:
        if as_json or not can_ask(no_input=no_input):
            raise UsageError("nothing was removed: nobody can be asked here. Add --yes, or --dry-run to only see it")
        if said("remove them? [y/N]") not in YES:
            click.echo("nothing was removed", err=True)
            return 0
        shown = {tree.id for tree in sweep.going}
        sweep = look(cleaning, keep)  # again, because runs may have been forked while the person was asked
        sweep = msgspec.structs.replace(sweep, going=tuple(tree for tree in sweep.going if tree.id in shown))
    return _sweep(cleaning, sweep, as_json=as_json)


def _sweep(cleaning: Cleaning, sweep: Sweep, *, as_json: bool) -> int:
    """Remove the runs. What cannot be removed is reported, and the others are still removed."""
    code, removed = 0, 0
    cut_off = [(partial(_leftover, one), partial(finish, cleaning, one)) for one in sweep.leftovers]
    for told, act in (*cut_off, *((partial(_record, one), partial(remove, cleaning, one)) for one in sweep.going)):
        record = told() if as_json else {}  # before the removal, because it has the size
        try:
            stuck = act()
        except RunLocked as error:
            click.echo(f"orchestra: {error}", err=True)
            code = code or error.exit_code
            continue
        except FileNotFoundError:
            continue  # another clean removed it
        except OSError as error:
            stuck = (f"{error.filename}: {error.strerror}",)
        for name in stuck:
            click.echo(f"orchestra: cannot be removed: {safe(name)}", err=True)
        if stuck:
            code = 1
        else:
            removed += 1
            if as_json:
                print_json({"type": "removed", **record})
    if not as_json:
        click.echo(f"removed {count(removed, 'run')}")
    return code


def _lines(sweep: Sweep) -> Iterator[str]:
    sizes = {tree.id: tree.size for tree in sweep.going}
    if sweep.going:
        rows = [_row(tree, sizes[tree.id]) for tree in sweep.going]
        # ids are not cut, because people copy them
        yield from table(("ended", "status", "size", "run"), rows, whole=True)
        yield f"{count(len(rows), 'run')} to remove, {_bytes(sum(sizes.values()))}"
    else:
        yield "no run to remove"
    if sweep.leftovers:
        yield f"{count(len(sweep.leftovers), 'folder')} to finish removing: an earlier clean was cut off"
    if sweep.newest:
        yield f"{count(sweep.newest, 'run')} kept for having ended last (--keep)"
    if sweep.open:
        yield f"{count(sweep.open, 'run')} still unfinished (orchestra cancel RUN ends one)"
    for one in sweep.staying:
        yield f"{safe(one.run_id)} is kept: {safe(one.why)}"


def _row(tree: Tree, size: int) -> tuple[str, str, str, str]:
    more = f" and {count(len(tree.runs) - 1, 'child run')}" if len(tree.runs) > 1 else ""
    return local_minute(tree.ended), tree.root.status, _bytes(size), safe(tree.id) + more


def _records(sweep: Sweep) -> Iterator[dict[str, Any]]:
    """What would be removed and what would stay, as JSON records."""
    yield from ({"type": "would_remove", **_leftover(one)} for one in sweep.leftovers)
    yield from ({"type": "would_remove", **_record(tree)} for tree in sweep.going)
    yield from ({"type": "stays", "runId": one.run_id, "why": one.why} for one in sweep.staying)


def _record(tree: Tree) -> dict[str, Any]:
    return {
        "runId": tree.id,
        "workflow": tree.root.workflow,
        "status": tree.root.status,
        "endedAt": tree.ended,
        "bytes": tree.size,
        "dir": str(tree.root.folder.path),
        "children": [run.folder.id for run in tree.runs[1:]],
    }


def _leftover(leftover: Leftover) -> dict[str, Any]:
    return {
        "runId": leftover.run_id,
        "dir": str(leftover.path),
        "children": [run.folder.id for tree in leftover.trees for run in tree.runs],
    }


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
