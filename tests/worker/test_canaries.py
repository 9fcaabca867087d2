"""The canaries of the probe: which Python looks at them."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from orchestra.worker import canaries


@pytest.mark.parametrize(
    ("run_as", "closed", "system", "ours"),
    [
        (None, True, True, True),  # commands run as ourselves
        (65534, False, True, True),
        (65534, True, True, False),  # another user cannot reach our Python
        (65534, True, False, True),  # and there is no other one
    ],
)
def test_another_user_who_cannot_reach_our_python_uses_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_as: int | None, closed: bool, system: bool, ours: bool
) -> None:
    tmp_path.chmod(0o700)
    python = tmp_path / "python" if closed else Path(os.path.realpath("/usr/bin/env"))
    theirs = "/usr/bin/env" if system else str(tmp_path / "none")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(canaries, "_SYSTEM", theirs)
    assert canaries._interpreter(run_as) == (str(python) if ours else theirs)


def test_a_listener_that_was_reached_is_found(tmp_path: Path) -> None:
    with canaries.canaries(tmp_path) as ours:
        assert ours.touched() == {}
        with socket.socket(socket.AF_UNIX) as caller:
            folder = os.open(ours.workspace, os.O_PATH)  # its path may be too long for a socket's
            caller.connect(f"/proc/self/fd/{folder}/socket")
            os.close(folder)
            assert ours.touched() == {"the listeners": "1 were reached"}
        assert ours.touched() == {}
