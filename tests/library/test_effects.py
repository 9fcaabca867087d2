"""Functions of a person's own workflow: a plain one is called in a thread, once, and what it raises is told."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from orchestra.core.context import Context
from orchestra.core.errors import StepFailed
from orchestra.workflows.own.effects import CallFunction, call_function, place_of
from tests.support.core import live

LANGUAGE = contextvars.ContextVar("LANGUAGE", default="")


def called(folder: Path, effect: CallFunction) -> Any:
    async def flow(ctx: Context) -> Any:
        LANGUAGE.set("한국어")
        async with asyncio.timeout(30):  # a function that is never called would be waited for without end
            return (await ctx.perform("f", effect)).result

    return live(folder, flow, {CallFunction: call_function})


def test_a_plain_function_has_a_thread_of_its_own_and_the_variables_of_the_flow(tmp_path: Path) -> None:
    heard: list[str] = []

    def tells(word: str) -> list[str]:
        heard.append(word)
        return [word, LANGUAGE.get(), threading.current_thread().name]

    told = called(tmp_path / "run", CallFunction(tells, ("안녕",)))
    assert told == ["안녕", "한국어", "step tells"]
    assert called(tmp_path / "run", CallFunction(tells, ("안녕",))) == told
    assert heard == ["안녕"]  # the second time it came from its record


def test_what_a_function_raises_is_told_with_its_place(tmp_path: Path) -> None:
    def breaks() -> None:
        raise ZeroDivisionError("나눗셈")

    with pytest.raises(StepFailed, match=r"breaks: ZeroDivisionError: 나눗셈 \(test_effects.py:\d+\)"):
        called(tmp_path / "run", CallFunction(breaks, ()))


def test_the_place_of_an_error_is_the_innermost_line_of_it() -> None:
    assert place_of(ValueError("never raised")) == ""
    try:
        json.loads("{")
    except ValueError as error:
        assert place_of(error).startswith(" (decoder.py:")
    try:
        raise ValueError("여기")
    except ValueError as error:
        assert place_of(error).startswith(" (test_effects.py:")


class Opaque:
    """What is no JSON."""


def test_a_call_is_the_same_for_the_same_function_and_arguments() -> None:
    def identity(*arguments: object) -> str:
        return CallFunction(len, arguments).identity()

    assert identity("가", 1) == identity("가", 1) != identity("가", 2)
    assert identity(Opaque()) == identity(Opaque())  # by its type
    assert len({identity(one) for one in (Opaque(), None, lambda: 0, "<Opaque of mine>", "\ud800")}) == 5
    assert CallFunction(functools.partial(int, base=2), ()).name == "int"
    assert CallFunction(Opaque(), ()).name == "Opaque"  # type: ignore[arg-type]
