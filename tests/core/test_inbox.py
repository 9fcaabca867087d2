"""A person's word: durable, first come first served, from any process."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from orchestra.core import inbox
from orchestra.core.disk import Disk
from orchestra.core.errors import UsageError
from orchestra.core.run import RunFolder
from tests.support.core import REDACTOR

WITH: Any = {"disk": Disk(), "redactor": REDACTOR}


def test_a_message_arrives_whole_and_for_its_owner_only(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    said = inbox.message("answer", "민수", text="더해라")
    inbox.deliver(folder, "question-0001-1", said, **WITH)
    assert inbox.read(folder, "question-0001-1") == said
    [file] = list(folder.inbox.iterdir())
    assert os.stat(file).st_mode & 0o077 == 0


def test_the_first_answer_wins_and_the_second_is_refused_by_name(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    inbox.deliver(folder, "approval-0001", inbox.message("approve", "minsu"), **WITH)
    with pytest.raises(UsageError, match=r"approval-0001 was already answered \(approve by minsu"):
        inbox.deliver(
            folder, "approval-0001", inbox.message("reject", "jiwoo", text="no"), disk=Disk(), redactor=REDACTOR
        )
    said = inbox.read(folder, "approval-0001")
    assert said is not None and said.by == "minsu"


def _answer(path: str, name: str) -> bool:
    try:
        inbox.deliver(
            RunFolder(Path(path)), "approval-0001", inbox.message("approve", name), disk=Disk(), redactor=REDACTOR
        )
    except UsageError:
        return False
    return True


def test_of_many_processes_exactly_one_wins(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        won = pool.starmap(_answer, [(str(tmp_path), f"p{n}") for n in range(12)])
    assert won.count(True) == 1
    assert [p.name for p in RunFolder(tmp_path).inbox.iterdir()] == ["approval-0001.json"]


def test_a_damaged_message_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.inbox.mkdir()
    (folder.inbox / "q.json").write_text("{")
    with pytest.raises(UsageError, match=r"q\.json is damaged"):
        inbox.read(folder, "q")


def test_a_secret_in_an_answer_is_masked_on_its_way_in(tmp_path: Path) -> None:
    said = inbox.message("answer", "민수", text="use s3cr3t-value-1234")
    inbox.deliver(RunFolder(tmp_path), "q", said, **WITH)
    assert "s3cr3t" not in (RunFolder(tmp_path).inbox / "q.json").read_text()
