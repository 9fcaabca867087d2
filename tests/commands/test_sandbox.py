"""What a sandbox is given: paths without links, and nothing of the run's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.commands.sandbox import Workshop
from orchestra.commands.tools import Tool, Toolbox
from orchestra.core.disk import Disk
from orchestra.core.errors import SandboxError
from orchestra.core.names import OWN
from orchestra.core.redact import Redactor
from orchestra.policy.policy import Policy

NOTHING = Policy(layers=())


def shop(tmp_path: Path, runs: str) -> Workshop:
    project = tmp_path / "project"
    project.mkdir()
    return Workshop(
        project,
        Toolbox("/usr/bin", project),
        disk=Disk(),
        redactor=Redactor([]),
        runs=project / runs,
        scratch=tmp_path / "scratch",
    )


def hidden(workshop: Workshop, policy: Policy = NOTHING) -> set[str]:
    sandbox = workshop.sandbox(policy, Tool(name="true", path="/usr/bin/true"), upper=None, layers=())
    return {str(Path(path).relative_to(workshop.workspace)) for path in sandbox.hides}


def test_the_runs_are_hidden_and_also_where_they_will_be(tmp_path: Path) -> None:
    assert hidden(shop(tmp_path, "state/runs")) == {*OWN, "state/runs"}


def test_what_a_link_leads_to_is_hidden_too(tmp_path: Path) -> None:
    workshop = shop(tmp_path, "state/runs")
    for folder in ("kept", "other/runs", "gone"):
        (workshop.workspace / folder).mkdir(parents=True)
    (workshop.workspace / ".runs").symlink_to("kept")
    (workshop.workspace / "state").symlink_to("other")
    (workshop.workspace / ".orchestra").symlink_to("gone")
    (workshop.workspace / "gone").rmdir()  # a link to what is not there yet
    assert hidden(workshop) == {*OWN, "kept", "gone", "state/runs", "other/runs"}


def test_a_folder_that_leads_elsewhere_since_the_run_began_is_refused(tmp_path: Path) -> None:
    workshop = shop(tmp_path, ".runs")
    data, other = tmp_path / "data", tmp_path / "other"
    for folder in (data / "in", other / "in"):
        folder.mkdir(parents=True)
    policy = Policy(layers=(), reads=(str(data / "in"), str(tmp_path / "not there")))
    hidden(workshop, policy)
    data.rename(tmp_path / "moved")
    data.symlink_to(other)
    with pytest.raises(SandboxError, match=f"leads to {other / 'in'}"):
        hidden(workshop, policy)
