"""What a failed verification leads to. Pure.

Rules
1. A design violation leads to the task's design, else a test error to the subtask's tests, else the implementation is
   tried again (G3-3, G3-4). The action in the test result has only the spec's three words.
2. Retries are counted: implementations and rewritten tests per subtask, designs per task (G3-2). Past a limit a person
   is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from orchestra.workflows.contracts.records import Action, FailedTest

Route = Literal["complete", "implementation", "tests", "design"]
RETRY, REDESIGN, STOP = "retry", "redesign", "stop"  # the options of the question


class Problem(Struct, frozen=True):
    """Why something is done again, for the role that does it."""

    subtask: str
    text: str


def action_of(failed: Sequence[FailedTest], *, passed: bool) -> Action:
    """The recommended action (S3-119 … S3-121)."""
    if passed:
        return "complete"
    return "retry_design" if any(one.category == "design_violation" for one in failed) else "retry_implementation"


def route_of(failed: Sequence[FailedTest], *, passed: bool) -> Route:
    """Where a result leads (rule 1)."""
    if passed:
        return "complete"
    classes = {one.category for one in failed}
    if "design_violation" in classes:
        return "design"
    return "tests" if "test_error" in classes else "implementation"
