"""Whether a kill may have cut the apply of a patch short, from the events alone."""

from __future__ import annotations

from typing import Any

import pytest

from orchestra.core.cancel import may_be_applying
from orchestra.core.records import Event, EventType

ASKED: tuple[EventType, str, dict[str, Any]] = ("APPROVAL_REQUESTED", "patch.1", {"subject": "patch"})
COMMAND: tuple[EventType, str, dict[str, Any]] = ("APPROVAL_REQUESTED", "patch.1", {"subject": "command"})
GRANTED: tuple[EventType, str, dict[str, Any]] = ("APPROVAL_GRANTED", "patch.1", {})
APPLIED: tuple[EventType, str, dict[str, Any]] = ("PATCH_APPLIED", "apply.1", {})
ELSEWHERE: tuple[EventType, str, dict[str, Any]] = ("PATCH_APPLIED", "task/apply.1", {})


@pytest.mark.parametrize(
    ("events", "may"),
    [
        ((), False),
        ((ASKED,), False),
        ((ASKED, GRANTED), True),
        ((GRANTED,), True),  # a policy's grant
        ((ASKED, GRANTED, APPLIED), False),
        ((ASKED, GRANTED, ELSEWHERE), True),
        ((COMMAND, GRANTED), False),  # of a command, so no patch is applied
    ],
)
def test_a_granted_patch_may_be_being_applied_until_its_end_is_recorded(
    events: tuple[tuple[EventType, str, dict[str, Any]], ...], may: bool
) -> None:
    told = [
        Event(f"{number:08d}", "r", "2026-01-01T00:00:00Z", type, {"key": key, **more})
        for number, (type, key, more) in enumerate(events, start=1)
    ]
    assert may_be_applying(told) is may
