"""The library's door (orchestra/__init__.py): its names, their types, and what loading it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

import orchestra
from tests.docs.blocks import ROOT, blocks

NAMES = [
    "CommandOutcome",
    "Context",
    "Looked",
    "OrchestraError",
    "Outcome",
    "PatchOutcome",
    "ProviderError",
    "Refused",
    "Retry",
    "StepFailed",
    "resume",
    "run",
    "workflow",
    "__version__",
]
VERBS = ["step", "model", "command", "patch", "ask", "call", "fan_out", "look", "edition", "tree_hash"]
VERBS += ["inside", "sleep", "now", "new_id"]


def test_the_names_are_these_and_each_is_documented() -> None:
    assert orchestra.__all__ == NAMES == [name for name in NAMES if hasattr(orchestra, name)]
    assert set(dir(orchestra)) >= set(NAMES)
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"`orchestra.{name}`" in page, name
    for verb in VERBS:
        assert f"`{verb}(" in page and inspect.getdoc(getattr(orchestra.Context, verb)), verb
    public = [name for name in vars(orchestra.Context) if not name.startswith("_")]
    assert sorted(public) == sorted([*VERBS, "inputs", "run_id"])
    for name in NAMES[:-1]:
        assert inspect.getdoc(getattr(orchestra, name)), name
    with pytest.raises(AttributeError, match="it has CommandOutcome, Context"):
        getattr(orchestra, "nothing")  # noqa: B009


def test_import_orchestra_loads_nothing_but_itself() -> None:
    code = "import sys; before = set(sys.modules); import orchestra; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names] == [
        "orchestra"
    ]


def _signatures() -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    owners = [(f"Context.{verb}", getattr(orchestra.Context, verb)) for verb in VERBS]
    owners += [("run", orchestra.run), ("resume", orchestra.resume), ("workflow", orchestra.workflow)]
    for name, function in owners:
        found += [(name, one) for one in typing.get_overloads(function) or [function]]
    return found


@pytest.mark.parametrize(("name", "function"), _signatures(), ids=[name for name, _ in _signatures()])
def test_no_public_signature_has_any(name: str, function: Any) -> None:
    module = sys.modules[function.__module__]
    hints = typing.get_type_hints(function, {**vars(module), "Context": orchestra.Context})
    for place, hint in hints.items():
        assert Any not in _parts(hint), f"{name}: {place}: {hint}"


def _parts(hint: Any) -> list[Any]:
    if isinstance(hint, list):
        return [part for one in hint for part in _parts(one)]
    return [hint, *(part for one in typing.get_args(hint) for part in _parts(one))]


def test_no_field_of_a_public_record_has_any() -> None:
    for record in (orchestra.Outcome, orchestra.PatchOutcome, orchestra.Retry, orchestra.CommandOutcome):
        for name, hint in typing.get_type_hints(record).items():
            assert Any not in _parts(hint), f"{record.__name__}.{name}"


RIGHT = """\
import functools
import msgspec
import orchestra


class Page(msgspec.Struct, frozen=True):
    text: str


def load(url: str, times: int) -> Page:
    return Page(url * times)


async def size(page: Page) -> int:
    return len(page.text)


@orchestra.workflow
async def child(ctx: orchestra.Context, a: int, b: str = "") -> Page:
    return Page(b * a)


async def branch(name: str, ctx: orchestra.Context) -> int:
    return await ctx.step("size", size, Page(name))


@orchestra.workflow
async def parent(ctx: orchestra.Context, topic: str) -> dict[str, int]:
    page = await ctx.step("load", load, topic, 2)
    reveal_type(page)
    reveal_type(await ctx.step("size", size, page))
    reveal_type(await ctx.call("child", child, a=1, b="x"))
    reveal_type(await ctx.call("named", "child", a=1))
    reveal_type(await ctx.model("m", page.text))
    reveal_type((await ctx.command("ls")).exitCode)
    reveal_type(await ctx.ask("q", "?", options=("a", "b")))
    return await ctx.fan_out({name: functools.partial(branch, name) for name in ("a", "b")})


reveal_type(orchestra.run(parent, topic="x").result)
reveal_type(orchestra.run("parent", topic="x").result)
reveal_type(orchestra.resume("last", child).result)
reveal_type(orchestra.resume("last").result)
"""
REVEALED = [
    "user.Page",
    "int",
    "user.Page",
    "object",
    "str",
    "int | None",
    "str",
    "dict[str, int] | None",
    "object",
    "user.Page | None",
    "object",
]
WRONG = (
    'await ctx.step("load", load, 1, 2)',
    'await ctx.step("load", load, "a")',
    'await ctx.call("c", child, a="one")',
    'await ctx.call("c", child, c=1)',
    'await ctx.model("m", 3)',
    "await ctx.command(1)",
    'await ctx.ask("q", "?", options=(1,))',
    'page: int = await ctx.step("load", load, "a", 1)',
    "orchestra.run(parent).result + 1",
    'orchestra.run(parent, topic="x", provider=3)',
)


def test_mypy_strict_sees_real_types_in_a_user_s_program(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "user.py").write_text(RIGHT)
    wrong = "".join(f"    {line}\n" for line in WRONG)
    head = (
        "import orchestra\nfrom user import child, load, parent\n\n\nasync def wrong(ctx: orchestra.Context) -> None:\n"
    )
    (tmp_path / "wrong.py").write_text(head + wrong)
    for block in (block for block in blocks("docs/library.md") if block.file.endswith(".py")):
        with (tmp_path / block.file).open("a", encoding="utf-8") as file:
            file.write(f"\n\n{block.body}")
    files = sorted(path.name for path in tmp_path.glob("*.py"))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--cache-dir",
        str(cache / "mypy"),
        *files,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    revealed = [line.partition('type is "')[2].rstrip('"') for line in lines if "Revealed type" in line]
    assert [text.replace("builtins.", "").replace("Union[", "") for text in revealed] == REVEALED, done.stdout
    errors = {int(line.split(":")[1]) for line in lines if line.startswith("wrong.py") and " error: " in line}
    assert [line for line in lines if " error: " in line and not line.startswith("wrong.py")] == []
    assert [text for number, text in enumerate(WRONG, start=6) if number not in errors] == []
