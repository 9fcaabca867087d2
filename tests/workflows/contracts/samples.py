"""The documents of S3, as its specification has them (explored.yaml: as the storage document describes it)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from orchestra.workflows.contracts import records

FOLDER = Path(__file__).parent / "samples"
KINDS: dict[str, type[Any]] = {
    "explored": records.Explored,
    "task-breakdown": records.TaskBreakdown,
    "design-brief": records.DesignBrief,
    "design-contract": records.DesignContract,
    "test-contract": records.TestContract,
    "test-result": records.TestResult,
}


def sample(name: str) -> str:
    """The text of a sample."""
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def values(name: str) -> dict[str, Any]:
    """A sample as plain values, to be changed."""
    loaded: dict[str, Any] = _typed(yaml.load(sample(name), Loader=yaml.BaseLoader))  # every scalar as text
    return loaded


def _typed(value: Any) -> Any:
    """Numbers and truth values again, as they are in the samples."""
    if isinstance(value, dict):
        return {key: _typed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_typed(one) for one in value]
    known = {"true": True, "false": False, "null": None, **{str(number): number for number in range(10)}}
    return known.get(value, value)


def text(data: Any) -> str:
    """Plain values as YAML."""
    return yaml.safe_dump(data, allow_unicode=True, sort_keys=False)
