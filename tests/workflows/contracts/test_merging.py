"""Merging the exploration and the breakdown: assumptions looked up, briefs made. Pure."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchestra.workflows.contracts.merging import (
    Judged,
    Terms,
    Verdict,
    brief_of,
    judge,
    must_replan,
    terms_of,
)
from orchestra.workflows.contracts.records import Explored, ExploredFile, PlannedSubtask, PlannedTask, ProjectManifest
from orchestra.workflows.contracts.rules import broken

EXPLORED = Explored(
    version=1,
    request_id="R1",
    created_at="2026-01-01T00:00:00Z",
    created_by="code-explore",
    project_manifest=ProjectManifest(claude_md=None, agents_md=None),
    explored_files=(ExploredFile(path="src/app/auth.py", summary="has LoginService"),),
    directory_structure={"src/app/": "the code"},
)


@pytest.mark.parametrize(
    ("text", "paths", "names"),
    [
        ("인증 관련 코드는 auth/ 디렉토리에 있을 것", ("auth/",), ()),
        ("Spring Security를 사용 중일 것", (), ()),
        ("AController 는 src/main/A.java 에 있을 것", ("src/main/A.java",), ("AController",)),
        ("`get_data` and money.amounts.parse() exist", (), ("get_data", "parse")),
        ("a file setup.py, no path: and/or, 1.5, e.g. this", ("setup.py",), ()),
        ("src/app/models and `src/db`", ("src/app/models", "src/db"), ()),
        ("`setup.py` 와 `--quiet` 가 있을 것", ("setup.py",), ()),  # a path is no name, and an option is neither
    ],
)
def test_paths_and_identifiers_of_an_assumption(text: str, paths: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert terms_of([text]) == Terms(paths, names)


@pytest.mark.parametrize(
    ("text", "found", "verdict"),
    [
        ("코드는 src/app/ 에 있을 것", Terms(), "holds"),  # explored
        ("코드는 src/ 에 있을 것", Terms(), "holds"),  # above an explored one
        ("코드는 app/ 에 있을 것", Terms(), "holds"),
        ("코드는 pp/ 에 있을 것", Terms(), "wrong"),
        ("LoginService 가 있을 것", Terms(), "holds"),  # in a summary
        ("tests/ 가 있을 것", Terms(("tests/",)), "holds"),  # in the workspace
        ("db/ 가 있을 것", Terms(), "wrong"),
        ("src/app/auth.py 에 LogoutService 가 있을 것", Terms(), "wrong"),
        ("코드가 깔끔할 것", Terms(), "unknown"),
    ],
)
def test_an_assumption_is_looked_up_in_explored_files_and_workspace(text: str, found: Terms, verdict: Verdict) -> None:
    assert judge(text, EXPLORED, found).verdict == verdict


@pytest.mark.parametrize(
    ("verdicts", "again"),
    [("w", True), ("wh", True), ("whh", False), ("uuu", False), ("", False), ("wuuu", True), ("hhw", False)],
)
def test_half_or_more_of_those_that_could_be_looked_up(verdicts: str, again: bool) -> None:
    words: dict[str, Verdict] = {"w": "wrong", "h": "holds", "u": "unknown"}
    assert must_replan(Judged("", words[one]) for one in verdicts) is again


@pytest.mark.spec("S3-38", "S3-46", "S3-48", "S3-49", "S3-50", "S3-52")
def test_a_brief_has_the_files_that_the_task_names_as_they_are_now() -> None:
    subtask = PlannedSubtask(
        id="T1-S1", name="로그인", description="src/app/auth.py 를 고치고 src/app/token.py 를 만든다"
    )
    task = PlannedTask(id="T1", name="인증", objective="로그인", subtasks=(subtask,))
    found = Terms(("src/app/auth.py",))
    brief = brief_of("R1", task, EXPLORED, found, ["T2 다른 작업"], "2026-01-01T00:00:00Z")
    assert [(ref.path, ref.status) for ref in brief.file_refs] == [
        ("src/app/auth.py", "to_modify"),
        ("src/app/token.py", "to_create"),
    ]
    other = replace(task, subtasks=(replace(subtask, description="src/app/token.py 를 만든다"),))
    refs = brief_of("R1", other, EXPLORED, found, [], "2026-01-01T00:00:00Z").file_refs
    assert [(ref.path, ref.status) for ref in refs] == [  # what was explored and is there comes along
        ("src/app/token.py", "to_create"),
        ("src/app/auth.py", "exists"),
    ]
    assert brief.subtask_order == ("T1-S1",) and brief.scope_out == ("T2 다른 작업",)
    assert list(broken(brief)) == []
