"""The table in core/effects.py: it names every effect, its events, and a file that handles it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestra.core import effects
from orchestra.core.effects import Effect

SOURCES = Path(effects.__file__).parents[1]
CLASSES = re.compile(r"^class (\w+)\(Effect\[", re.MULTILINE)
ROW = re.compile(r"^    (?P<effect>[A-Z]\w+) +(?P<intent>[A-Z_]+|-) +(?P<outcome>[A-Z_| ]+?) +(?P<file>[\w/]+\.py)$")


def rows() -> dict[str, re.Match[str]]:
    found = map(ROW.match, (effects.__doc__ or "").splitlines())
    return {row["effect"]: row for row in found if row}


def effect_classes() -> Iterator[tuple[str, type[Effect[Any]]]]:
    for path in sorted(SOURCES.rglob("*.py")):
        for name in CLASSES.findall(path.read_text(encoding="utf-8")):
            module = ".".join(("orchestra", *path.relative_to(SOURCES).with_suffix("").parts))
            yield name, getattr(importlib.import_module(module), name)


CLASS_OF = dict(effect_classes())


def test_the_table_has_a_row_for_every_effect_and_for_nothing_else() -> None:
    assert sorted(rows()) == sorted(CLASS_OF)


@pytest.mark.parametrize("name", CLASS_OF)
def test_a_row_has_the_intent_of_its_effect_and_a_file_that_handles_it(name: str) -> None:
    row = rows()[name]
    assert row["intent"] == (CLASS_OF[name].intent or "-")
    assert re.search(rf"\b{name}\b", (SOURCES / row["file"]).read_text(encoding="utf-8"))
