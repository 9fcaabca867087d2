"""What the ledger records can be read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestra.core.errors import DurabilityError
from orchestra.core.journal import read_journal
from tests.support.core import SEAL, open_ledger


@pytest.mark.parametrize(
    ("type", "payload", "why"),
    [
        ("QUESTION_RAISED", {"key": "a.1", "options": [1, 2]}, "of step a.1 was not recorded"),
        ("QUESTION_RAISED", {"key": "a.1", "default": 3}, "got `int` - at `$.default`"),
        ("RUN_FAILED", {"exitCode": "x"}, "RUN_FAILED was not recorded, because it could not be read again"),
    ],
)
def test_an_event_that_no_reader_would_take_is_not_written(
    tmp_path: Path, type: Any, payload: dict[str, Any], why: str
) -> None:
    ledger = open_ledger(tmp_path)
    before = ledger.folder.events.read_bytes()
    with pytest.raises(DurabilityError) as refused:
        (ledger.end if type == "RUN_FAILED" else ledger.record)(type, payload)
    assert why in str(refused.value) and "then: orchestra resume" in str(refused.value)
    assert ledger.folder.events.read_bytes() == before
    ledger.record("PHASE_STARTED", {"key": "b.1"}, "plan", 1)
    ledger.close()
    assert len(read_journal(ledger.folder.events, SEAL).events) == len(before.splitlines()) + 1
