"""Every workflow that comes with orchestra. To add one, make its folder and add its line here."""

from __future__ import annotations

from orchestra.workflows.commit.workflow import COMMIT
from orchestra.workflows.contracts.workflow import CONTRACTS
from orchestra.workflows.dag.workflow import DAG
from orchestra.workflows.description import Workflow
from orchestra.workflows.evidence.workflow import EVIDENCE
from orchestra.workflows.loop.workflow import LOOP
from orchestra.workflows.team.workflow import TEAM
from orchestra.workflows.undo.workflow import UNDO
from orchestra.workflows.worktree.workflow import WORKTREE

ALL: tuple[Workflow, ...] = (LOOP, DAG, CONTRACTS, EVIDENCE, TEAM, UNDO, COMMIT, WORKTREE)
