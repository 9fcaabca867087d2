"""What a workflow's signature says: its name, its parameters, its result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import pytest

import orchestra
from orchestra.core.errors import UsageError
from orchestra.workflows.own.definition import DEFINED, Definition, refuse_another
from tests.support.project import Project

if TYPE_CHECKING:
    from nowhere import Elsewhere  # type: ignore[import-not-found]


class Address(msgspec.Struct, frozen=True):
    street: str
    number: Annotated[int, msgspec.Meta(ge=1)] = 1


@orchestra.workflow
async def sending(ctx: orchestra.Context, address: Address) -> Address:
    return address


@orchestra.workflow
async def many_kinds(
    ctx: orchestra.Context,
    a: int,
    *,
    b: tuple[str, ...] = (),
    c: dict[str, list[int]] = {},  # noqa: B006
    d: Literal["x", "y"] = "x",
    e: object = None,
    f: frozenset[int] = frozenset(),
    g: Address | None = None,
) -> list[object]:
    c["more"] = [a]
    return [a, b, c, d, e, sorted(f), g]


def test_a_struct_as_the_only_parameter_takes_its_fields_or_itself(tmp_path: Path) -> None:
    path = Project(tmp_path / "p").path
    assert orchestra.run(sending, project=path, street="종로", number=3).result == Address("종로", 3)
    assert sending.job(Address("x")) == Address("x")
    for params in ({"street": 1}, {"street": "x", "number": 0}, {"street": "x", "city": "y"}, {}):
        with pytest.raises(UsageError, match="street: str"):
            orchestra.run(sending, project=path, **params)


def test_each_parameter_has_the_type_of_its_annotation(tmp_path: Path) -> None:
    path = Project(tmp_path / "p").path
    for _ in range(2):  # the default of the second run is not what the first made of it
        outcome = orchestra.run(many_kinds, project=path, a=1, b=["가"], f={3, 1}, g={"street": "s"})
        assert outcome.result == [1, ["가"], {"more": [1]}, "x", None, [1, 3], {"street": "s", "number": 1}]
    for params in ({"a": "1"}, {"a": 1, "d": "z"}, {"a": 1, "g": {}}, {"a": 1, "h": 2}):
        with pytest.raises(UsageError, match="many_kinds"):
            orchestra.run(many_kinds, project=path, **params)


def test_types_that_are_local_or_for_type_checkers_only_do_not_hide_the_others() -> None:
    class Local(msgspec.Struct, frozen=True):
        n: int

    @orchestra.workflow
    async def local_types(ctx: Elsewhere, local: Local) -> list[Elsewhere]:
        return []

    assert local_types.job(n=3) == Local(3)
    with pytest.raises(UsageError):
        local_types.job(n="x")


@pytest.mark.parametrize("name", ["Essay", "_essay", "a" * 41, "글"])
def test_a_name_has_small_letters_digits_and_underscores(name: str) -> None:
    async def function(ctx: orchestra.Context) -> None: ...

    function.__name__ = name
    with pytest.raises(UsageError, match="small letters, digits and _"):
        orchestra.workflow(function)


def _refused(function: Any) -> str:
    with pytest.raises(UsageError) as refused:
        Definition(function)
    return str(refused.value)


def test_what_cannot_be_a_workflow_is_refused_when_it_is_defined() -> None:
    def plain(ctx: orchestra.Context) -> None: ...
    async def nothing() -> None: ...
    async def starred(ctx: orchestra.Context, *names: str) -> None: ...
    async def path(ctx: orchestra.Context, where: Path) -> None: ...

    assert "no `async def` function" in _refused(plain)
    assert "takes the context first" in _refused(nothing)
    assert "takes the context first" in _refused(starred)
    assert "where: Path" in _refused(path)


def test_a_workflow_called_inside_another_is_part_of_its_run(tmp_path: Path) -> None:
    @orchestra.workflow
    async def inner(ctx: orchestra.Context, n: int) -> int:
        return await ctx.step("inner", abs, n)

    @orchestra.workflow
    async def outer(ctx: orchestra.Context) -> int:
        return await inner(ctx, n=-3)

    project = Project(tmp_path / "p")
    assert orchestra.run(outer, project=project.path).result == 3
    assert len(project.runs) == 1
    assert repr(inner) == "<workflow inner>"


def test_a_default_that_can_be_changed_is_another_one_for_each_job() -> None:
    async def kinds(ctx: Any, a: list[int] = [1], b: dict[str, int] = {"x": 1}, c: int = 2, d: object = ()) -> None:  # noqa: B006
        """Three ways to have a default."""

    made = Definition(kinds, {})
    first, second = made.job(), made.job()
    assert (first.a, first.b, first.c, first.d) == ([1], {"x": 1}, 2, ())
    first.a.append(9)
    first.b.clear()
    assert (second.a, second.b) == ([1], {"x": 1}) == (made.job().a, made.job().b)


def _loaded(code: str, file: str = "flow.py") -> Definition[..., Any]:
    """The workflow `named` of a file with this code."""
    names: dict[str, Any] = {}
    exec(compile(f"async def named(ctx): {code}", file, "exec"), names)
    return Definition(names["named"])


def test_a_name_is_of_one_workflow_unless_its_file_was_loaded_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def inside(text: str) -> Definition[..., Any]:
        async def named(ctx: Any) -> str:
            return text

        return Definition(named)

    first = _loaded("return 1")
    monkeypatch.delitem(DEFINED, "named", raising=False)
    refuse_another(first)
    for fine in (first, _loaded("return 1")):
        monkeypatch.setitem(DEFINED, "named", fine)
        refuse_another(first)
    for other in (_loaded("return 2"), _loaded("return 1", "other.py"), inside("x")):
        monkeypatch.setitem(DEFINED, "named", other)
        with pytest.raises(UsageError, match="two workflows of this program are named named"):
            refuse_another(first)
    mine = inside("y")  # the same code, and not the same text
    with pytest.raises(UsageError, match="Rename one"):
        refuse_another(mine)
