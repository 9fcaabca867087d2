"""Where the files of S3 lie, and which ids a path has. Pure, but for `project_hash`, which resolves a path.

    .claude/orchestrator/sessions/<hash>/            session.json, knowledge.yaml
        contracts/R1/                                explored.yaml, task-breakdown.yaml, state.json
            T1/                                      design-brief.yaml, design-contract.yaml
                T1-S1/                               test-contract.yaml, test-result.yaml
                    history/test-result-0001.yaml    results of earlier attempts

Paths are texts with `/`, relative to the project folder, as looks and patches take them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from orchestra.core.names import CONTRACTS
from orchestra.workflows.contracts import records
from orchestra.workflows.contracts.records import Contract
from orchestra.workflows.contracts.rules import Ids

EXPLORED, BREAKDOWN = "explored.yaml", "task-breakdown.yaml"
BRIEF, DESIGN = "design-brief.yaml", "design-contract.yaml"
TESTS, RESULT = "test-contract.yaml", "test-result.yaml"
STATE, SESSION, KNOWLEDGE = "state.json", "session.json", "knowledge.yaml"
HISTORY = "history"

# The documents by their level (how many ids their folder has) and name (S3-03 … S3-08).
DOCUMENTS: dict[int, dict[str, type[Contract]]] = {
    1: {EXPLORED: records.Explored, BREAKDOWN: records.TaskBreakdown},
    2: {BRIEF: records.DesignBrief, DESIGN: records.DesignContract},
    3: {TESTS: records.TestContract, RESULT: records.TestResult},
}
_REQUEST = re.compile(r"R([1-9][0-9]{0,8})")
_TASK = re.compile(r"T[1-9][0-9]{0,8}")
_SUBTASK = re.compile(r"(T[1-9][0-9]{0,8})-S[1-9][0-9]{0,8}")


def project_hash(project: Path) -> str:
    """The first 8 hex digits of the md5 of the resolved project path in UTF-8."""
    path = str(project.resolve()).encode("utf-8", "surrogateescape")
    return hashlib.md5(path, usedforsecurity=False).hexdigest()[:8]


class Places(Struct, frozen=True):
    """The paths of one project's contracts."""

    hash: str

    @property
    def session(self) -> str:
        """The folder of the project's session (S3-02)."""
        return f"{CONTRACTS}/sessions/{self.hash}"

    @property
    def contracts(self) -> str:
        """The folder of all requests (S3-02)."""
        return f"{self.session}/contracts"

    def request(self, request: str, name: str = "") -> str:
        """A request's folder, or a file in it."""
        return _joined(self.contracts, request, name)

    def task(self, request: str, task: str, name: str = "") -> str:
        """A task's folder, or a file in it."""
        return _joined(self.contracts, request, task, name)

    def subtask(self, request: str, subtask: str, name: str = "") -> str:
        """A subtask's folder, or a file in it; the folder's name has the task's id too (S3-12)."""
        return _joined(self.contracts, request, task_of(subtask), subtask, name)

    def earlier_result(self, request: str, subtask: str, number: int) -> str:
        """The result of an earlier attempt (G3-5)."""
        return self.subtask(request, subtask, f"{HISTORY}/test-result-{number:04}.yaml")


def task_of(subtask: str) -> str:
    """The task of a subtask: T1 of T1-S2 (S3-11)."""
    return subtask.partition("-")[0]


def request_number(name: str) -> int | None:
    """The number of a request id; None if the text is none."""
    found = _REQUEST.fullmatch(name)
    return int(found[1]) if found else None


def next_request(names: Iterable[str]) -> str:
    """The id after the highest of these names of requests (S3-09); other names do not count."""
    return f"R{max((number for name in names if (number := request_number(name))), default=0) + 1}"


def ids_of(parts: tuple[str, ...]) -> Ids | None:
    """The ids of a folder below the contracts (`R1/T1/T1-S1`); None if it is no folder of S3 (S3-09 … S3-12)."""
    if not 1 <= len(parts) <= 3 or not _REQUEST.fullmatch(parts[0]):
        return None
    if len(parts) > 1 and not _TASK.fullmatch(parts[1]):
        return None
    if len(parts) > 2 and not ((found := _SUBTASK.fullmatch(parts[2])) and found[1] == parts[1]):
        return None
    return Ids(*parts)


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part)
