"""The parts of a run's id."""

from __future__ import annotations

import pytest

from orchestra.core.run import kind_part, name_part


@pytest.mark.parametrize(
    ("run_id", "kind", "name"),
    [
        ("2026-11-18_001_loop_make-add-add", "loop", "make-add-add"),
        ("2026-11-18_002_my_own_flow_x", "my_own_flow", "x"),
        ("20261118_093000_계약_결제", "계약", "결제"),
        ("20261118_093000_ab12", "", "ab12"),
    ],
)
def test_a_workflows_name_may_have_the_sign_that_separates_the_parts(run_id: str, kind: str, name: str) -> None:
    assert (kind_part(run_id), name_part(run_id)) == (kind, name)
