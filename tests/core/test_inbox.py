"""A person's word: durable, first come first served, from any process."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.core import inbox
from orchestra.core.disk import Disk
from orchestra.core.errors import UsageError
from orchestra.core.run import RunFolder
from tests.support.core import REDACTOR, SEAL, CountingDisk

WITH: Any = {"disk": Disk(), "redactor": REDACTOR, "seal": SEAL}


def test_a_message_arrives_whole_and_for_its_owner_only(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    said = inbox.message("answer", "민수", text="더해라")
    inbox.deliver(folder, "question-0001-1", said, **WITH)
    got = inbox.read(folder, "question-0001-1", SEAL)
    assert got is not None and (got.text, got.by, got.at) == (said.text, said.by, said.at)
    [file] = list(folder.inbox.iterdir())
    assert os.stat(file).st_mode & 0o077 == 0


def test_the_first_answer_wins_and_the_second_is_refused_by_name(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    inbox.deliver(folder, "approval-0001", inbox.message("approve", "minsu"), **WITH)
    with pytest.raises(UsageError, match=r"approval-0001 was already answered \(approve by minsu"):
        inbox.deliver(folder, "approval-0001", inbox.message("reject", "jiwoo", text="no"), **WITH)
    said = inbox.read(folder, "approval-0001", SEAL)
    assert said is not None and said.by == "minsu"


def test_a_word_is_on_the_disk_before_it_counts_and_so_is_its_name(tmp_path: Path) -> None:
    """A person who was thanked is not asked again after a power cut: only the order of operations can show it."""
    disk = CountingDisk()
    folder = RunFolder(tmp_path)
    for request in ("first", "second"):
        inbox.deliver(folder, request, inbox.message("answer", "minsu", text="y"), **{**WITH, "disk": disk})
    done = [f"{kind} {name.replace(f'.{os.getpid()}', '')}" for kind, name in disk.operations]
    assert done == [
        f"sync {tmp_path.name}",  # the inbox is made once
        *("append .first.tmp", "sync .first.tmp", "link first.json", "sync inbox"),
        *("append .second.tmp", "sync .second.tmp", "link second.json", "sync inbox"),
    ]


def _answer(path: str, name: str) -> bool:
    try:
        inbox.deliver(RunFolder(Path(path)), "approval-0001", inbox.message("approve", name), **WITH)
    except UsageError:
        return False
    return True


def test_of_many_processes_exactly_one_wins(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        won = pool.starmap(_answer, [(str(tmp_path), f"p{n}") for n in range(12)])
    assert won.count(True) == 1
    assert [p.name for p in RunFolder(tmp_path).inbox.iterdir()] == ["approval-0001.json"]


def _unsealed(path: Path, folder: RunFolder) -> None:
    path.write_bytes(msgspec.json.encode(inbox.message("answer", "mallory", text="no")))


def _copied(path: Path, folder: RunFolder) -> None:
    other = RunFolder(folder.path / "other")
    other.path.mkdir()
    inbox.deliver(other, "q", inbox.message("answer", "minsu", text="for another run"), **WITH)
    (other.inbox / "q.json").rename(path)


def _of_another_request(path: Path, folder: RunFolder) -> None:
    inbox.deliver(folder, "p", inbox.message("answer", "minsu", text="to another question"), **WITH)
    (folder.inbox / "p.json").rename(path)


def _changed(path: Path, folder: RunFolder) -> None:
    inbox.deliver(folder, "q", inbox.message("answer", "minsu", text="더해라"), **WITH)
    path.write_bytes(path.read_bytes().replace("더해라".encode(), "빼라".encode()))


def _sealed_in_korean(path: Path, folder: RunFolder) -> None:
    said = inbox.message("answer", "mallory", text="no")
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(said, seal="봉인")))


@pytest.mark.parametrize(
    "forge",
    [
        lambda path, folder: path.write_text("{"),
        lambda path, folder: path.write_bytes(b"\xff\xfe"),
        lambda path, folder: os.mkfifo(path),
        lambda path, folder: path.symlink_to("/dev/zero"),
        lambda path, folder: path.mkdir(),
        _unsealed,
        _sealed_in_korean,
        _copied,
        _of_another_request,
        _changed,
    ],
)
def test_what_this_user_did_not_seal_is_no_answer_and_refuses_nobody(
    tmp_path: Path, forge: Callable[[Path, RunFolder], object]
) -> None:
    folder = RunFolder(tmp_path)
    folder.inbox.mkdir()
    forge(folder.inbox / "q.json", folder)
    assert inbox.read(folder, "q", SEAL) is None
    inbox.deliver(folder, "q", inbox.message("answer", "minsu", text="더해라"), **WITH)
    said = inbox.read(folder, "q", SEAL)
    assert said is not None and said.text == "더해라"
    assert (folder.inbox / "q.refused.json").exists() or (folder.inbox / "q.refused.json").is_symlink()


def test_a_secret_in_an_answer_is_masked_on_its_way_in(tmp_path: Path) -> None:
    said = inbox.message("answer", "민수", text="use s3cr3t-value-1234")
    inbox.deliver(RunFolder(tmp_path), "q", said, **WITH)
    assert "s3cr3t" not in (RunFolder(tmp_path).inbox / "q.json").read_text()


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("colour", "colour"),
        ("승인", "승인"),
        ("cancel", "%cancel"),
        ("Models", "%Models"),
        ("approval-0001", "%approval-0001"),
        ("Approval-x", "%Approval-x"),
        ("colour.refused", "%colour.refused"),
    ],
)
def test_a_request_of_ones_own_never_has_the_name_of_orchestras(asked: str, name: str) -> None:
    assert inbox.free_name(asked) == name


def test_only_what_is_no_answer_is_moved_out_of_the_way_of_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    inbox.deliver(folder, "answered", inbox.message("answer", "민수", text="네"), **WITH)
    (folder.inbox / "strange.json").write_text("{}")
    (folder.inbox / "dangling.json").symlink_to("nowhere")
    requests = ("answered", "strange", "dangling", "nothing")
    assert inbox.refuse_strangers(folder, requests, disk=Disk(), seal=SEAL) == ["strange.json", "dangling.json"]
    left = sorted(path.name for path in folder.inbox.iterdir() if path.suffix == ".json")
    assert left == ["answered.json", "dangling.refused.json", "strange.refused.json"]
    assert inbox.refuse_strangers(folder, requests, disk=Disk(), seal=SEAL) == []
