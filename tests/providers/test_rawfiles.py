"""The files of model calls, and nobody else's: what a task leaves is its own, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestra.core.calls import PastCall
from orchestra.core.model import Prompt
from orchestra.core.records import ArtifactRef
from orchestra.core.run import RunFolder, digest
from orchestra.core.sent import Sent
from orchestra.providers.rawfiles import CallFiles
from tests.providers.test_contract import REQUEST
from tests.support.core import OPEN_TABLE, new_ledger
from tests.support.tasks import Tasks, step

NAMES = ("survey.asked.json", "half.raw.txt.part", "x.attempt-one.raw.txt", "y.attempt-1.raw.txt")


@pytest.mark.parametrize("name", NAMES)
def test_a_task_may_leave_files_that_are_called_like_those_of_a_call(tmp_path: Path, name: str) -> None:
    code = f"import os; open(os.environ['ORCHESTRA_ARTIFACTS'] + '/{name}', 'w').write('mine')"
    project = Tasks(tmp_path / "p", step("survey", code=code))
    done = project.dag("--approval", "never")
    assert done.returncode == 0, done.stderr
    left = {path.name: path.read_text() for path in (project.folder.artifacts / "survey" / "files").iterdir()}
    assert left == {name: "mine"}
    checked = project.run("verify", project.folder.id)
    assert checked.returncode == 0, checked.stdout


def test_before_a_run_ends_only_what_is_the_only_record_of_a_call_stays(tmp_path: Path) -> None:
    ledger = new_ledger(RunFolder(tmp_path), OPEN_TABLE)
    raw = ArtifactRef("artifacts/plan.raw.txt", 1, "sha256:" + "0" * 64)
    place = tmp_path / "artifacts"
    place.mkdir()
    files = CallFiles("plan", "", ledger, earlier=())

    def left(*calls: PastCall, attempts: int = 0, good: bool = False) -> dict[str, str]:
        for old in place.iterdir():
            old.unlink()
        for name in ("plan.asked.json", "plan.raw.txt.part", *(["plan.raw.txt"] if good else [])):
            (place / name).write_text(name)
        for number in range(1, attempts + 1):
            (place / f"plan.attempt-{number}.raw.txt").write_text(f"시도 {number}")
        files.settle(calls)
        return {path.name: path.read_text() for path in place.iterdir() if ".attempt-" not in path.name}

    asked = {"plan.asked.json": "plan.asked.json"}
    once, twice = (PastCall(key="plan.1", role="planner", asked=times) for times in (1, 2))
    told = PastCall(key="plan.2", role="planner", asked=2, raw=raw)
    assert left(once) == left(told) == {} and left(twice) == left(once, twice) == asked
    assert left(told, told, attempts=2) == {"plan.raw.txt": "시도 2"}
    assert left(told, told, told, attempts=2) == {"plan.raw.txt": "시도 2"}
    assert left(told, attempts=2) == {"plan.raw.txt": "시도 1"}
    assert left(told, attempts=1, good=True) == {"plan.raw.txt": "plan.raw.txt"}


def test_a_reply_that_is_stored_and_not_recorded_is_this_attempts_unless_it_is_the_recorded_one(tmp_path: Path) -> None:
    ledger = new_ledger(RunFolder(tmp_path), OPEN_TABLE)
    good = tmp_path / "artifacts/plan.raw.txt"
    good.parent.mkdir()
    good.write_text("둘째")
    for told, path, whole in (
        ("첫째", "artifacts/plan.raw.txt", True),
        ("둘째", "artifacts/other.raw.txt", True),
        ("둘째", "artifacts/plan.raw.txt", False),
    ):
        earlier = (ArtifactRef(path, 1, digest(told.encode())),)
        found = CallFiles("plan", "", ledger, earlier=earlier).whole("plan.1")
        assert (found[0].decode() if found else None) == ("둘째" if whole else None)
    (tmp_path / "artifacts/plan.attempt-1.raw.txt").write_text("둘째")  # the recorded one has been renamed
    assert CallFiles("plan", "", ledger, earlier=earlier).whole("plan.1") is not None


def test_a_failed_reply_and_its_prompt_get_names_of_their_own_before_the_next_attempt_and_keep_them(
    tmp_path: Path,
) -> None:
    ledger = new_ledger(RunFolder(tmp_path), OPEN_TABLE)
    raw = ArtifactRef("artifacts/plan.raw.txt", 1, "sha256:" + "0" * 64)
    place = tmp_path / "artifacts"

    def begin(goal: str, *earlier: ArtifactRef) -> None:
        request = msgspec.structs.replace(REQUEST, prompt=Prompt("", goal))
        CallFiles("plan", "", ledger, earlier=earlier).begin(request, Sent("plan.1"))

    begin("첫째")
    (place / "plan.raw.txt").write_text("첫째")
    for again in ("둘째", "셋째"):  # killed before the second attempt is recorded: it is made once more
        begin(again, raw)
        assert (place / "plan.attempt-1.raw.txt").read_text() == "첫째"
        assert "첫째" in (place / "plan.attempt-1.prompt.json").read_text()
        assert again in (place / "plan.prompt.json").read_text()
        (place / "plan.raw.txt").write_text(again)
