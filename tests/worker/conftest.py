"""What tests of the worker share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worker.overlay import Make, places


@pytest.fixture
def make() -> Iterator[Make]:
    with places() as make:
        yield make
