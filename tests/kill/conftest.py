"""What every file of kill tests asks of its `zygote`: the end that no kill may change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kill.harness import Operations, Zygote


@pytest.fixture(scope="module")
def unkilled(zygote: Zygote, request: pytest.FixtureRequest) -> tuple[Any, Operations]:
    """How a case ends that nobody cuts short, as the file's own `Ending`; and its disk operations."""
    work, operations = zygote.undisturbed()
    return request.module.Ending(work), operations
