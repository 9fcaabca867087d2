"""A session is one process's during a turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.core.disk import Disk
from orchestra.core.errors import RunLocked
from orchestra.core.redact import Redactor
from orchestra.workflows.evidence.sessions import Sessions


def test_a_session_that_is_held_is_refused_by_name_and_free_afterwards(tmp_path: Path) -> None:
    first, second = (Sessions(tmp_path, Disk(), Redactor([])) for _ in range(2))
    with first.hold("s1"):
        with pytest.raises(RunLocked, match="session s1 is in use"), second.hold("s1"):
            pass
        with second.hold("s2"):
            pass
    with second.hold("s1"):
        pass
