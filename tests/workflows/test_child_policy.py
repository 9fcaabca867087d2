"""A child run is bound by its parent's policy too: narrower down the chain, never wider (U-26)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestra.policy.policy import Layer
from tests.support.children import WIDE, run
from tests.support.graph import task
from tests.support.runs import read_events


@pytest.mark.parametrize(("whitelist", "state"), [(("echo", "ls"), "RUN_COMPLETED"), (("ls",), "RUN_FAILED")])
def test_a_child_cannot_use_a_tool_its_parent_may_not(tmp_path: Path, whitelist: tuple[str, ...], state: str) -> None:
    handed = msgspec.structs.replace(WIDE, layers=(Layer(whitelist=whitelist),))
    child = run(tmp_path / "p", handed, WIDE, task("a", tool="echo", inputs={"args": ["hi"]}))
    last = read_events(child.events)[-1]
    assert last.type == state
    assert last.payload["exitCode"] == (0 if state == "RUN_COMPLETED" else 5)


def test_every_task_names_the_policy_it_ran_under(tmp_path: Path) -> None:
    names = []
    for folder, most in (("p", 100.0), ("q", 50.0)):
        handed = msgspec.structs.replace(WIDE, max_task_sec=most)
        child = run(tmp_path / folder, handed, WIDE, task("a", tool="echo"))
        starts = [event for event in read_events(child.events) if "process" in event.payload]
        names.append(starts[0].payload["policy"])
    assert names[0] != names[1] and all(name.startswith("sha256:") for name in names)


def test_a_child_cannot_write_or_run_longer_than_its_parent_may(tmp_path: Path) -> None:
    own = msgspec.structs.replace(WIDE, fs="rw", layers=(Layer(whitelist=("python",)),))
    handed = msgspec.structs.replace(own, fs="read-only", max_task_sec=0.5)
    code = "import pathlib, time; pathlib.Path('new').write_text('x'); time.sleep(30)"
    wanted = task("a", tool="python", inputs={"args": ["-c", code]}, constraints={"max_retries": 0})
    child = run(tmp_path / "p", handed, own, wanted)
    [failed] = [event for event in read_events(child.events) if event.type == "PHASE_FAILED"]
    assert failed.payload["error"]["code"] == "TIMEOUT" and "changes" not in failed.payload["outcome"]
    assert not (tmp_path / "p" / "new").exists()
