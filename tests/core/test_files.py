"""Files that a record names are read within bounds, and below their own folder only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from orchestra.core.errors import OddFile
from orchestra.core.files import digest_below, ends_with, lines_below, read_below
from orchestra.core.records import ArtifactRef
from orchestra.core.run import RunFolder, digest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "밖.txt").write_bytes(b"secret")
    run = tmp_path / "run"
    (run / "artifacts").mkdir(parents=True)
    (run / "artifacts" / "ok.txt").write_bytes(b"one\ntwo")
    (run / "artifacts" / "link.txt").symlink_to(tmp_path / "밖.txt")
    (run / "away").symlink_to(tmp_path)
    os.mkfifo(run / "pipe")
    return run


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../밖.txt", "is not inside {folder}"),
        ("artifacts/../../밖.txt", "is not inside {folder}"),
        ("/etc/passwd", "is not inside {folder}"),
        ("", "is not inside {folder}"),
        ("artifacts", "is a folder, not a file"),
        ("artifacts/link.txt", "is a link, not a file"),
        ("away/밖.txt", "is not inside {folder}: a link, or no folder, is on the way"),
        ("artifacts/ok.txt/x", "is not inside {folder}: a link, or no folder, is on the way"),
        ("pipe", "is a named pipe, not a file"),
    ],
)
def test_what_is_not_a_file_of_the_folder_is_refused_by_name(folder: Path, name: str, why: str) -> None:
    with pytest.raises(OddFile) as refused:
        read_below(folder, name, 100)
    assert str(refused.value).startswith(f"{folder / name} {why.format(folder=folder)}")
    assert digest_below(folder, name, 6) == ""


def test_a_file_of_the_folder_is_read_up_to_its_bound(folder: Path) -> None:
    assert read_below(folder, "artifacts/ok.txt", 7) == b"one\ntwo"
    assert list(lines_below(folder, "artifacts/ok.txt", 7)) == [b"one\n", b"two"]
    with pytest.raises(OddFile, match="has 7 bytes; no such file has more than 6 bytes"):
        read_below(folder, "artifacts/ok.txt", 6)
    assert list(lines_below(folder, "artifacts/ok.txt", 7, longest=4)) == [b"one\n", b"two"]
    with pytest.raises(OddFile, match="has a line of more than 3 bytes"):
        list(lines_below(folder, "artifacts/ok.txt", 7, longest=3))
    with pytest.raises(FileNotFoundError) as gone:
        read_below(folder, "artifacts/gone.txt", 7)
    assert gone.value.filename == str(folder / "artifacts/gone.txt")


def test_only_the_end_of_a_file_is_compared(folder: Path) -> None:
    file = folder / "artifacts" / "ok.txt"
    assert ends_with(file, b"two")
    assert not ends_with(file, b"one\n")
    assert not ends_with(file, b"much longer than the file")
    assert not ends_with(folder / "pipe", b"")
    assert not ends_with(folder / "gone", b"")


def test_a_reply_that_a_later_attempt_moved_is_found_among_its_numbers(folder: Path) -> None:
    run = RunFolder(folder)
    ref = ArtifactRef("artifacts/plan.raw.txt", 5, digest(b"reply"))
    assert run.find(ref) is None
    (folder / "artifacts" / "plan.attempt-1.raw.txt").write_bytes(b"other")
    aside = folder / "artifacts" / "plan.attempt-9.raw.txt"
    aside.write_bytes(b"reply")
    assert run.find(ref) == aside
    assert run.find(ArtifactRef("../밖.txt", 6, digest(b"secret"))) is None
    assert run.find(ArtifactRef("artifacts/link.txt", 6, digest(b"secret"))) is None


@pytest.mark.parametrize(
    ("others", "number", "found"),
    [
        ((), 16, True),
        ((), 17, False),  # sixteen numbers in a row are missing: the search is over
        ((3,), 19, True),
        ((3,), 20, False),
        (range(10, 1000, 10), 1000, True),
        (range(10, 1010, 10), 1001, False),  # so many attempts no call has
    ],
)
def test_the_numbers_of_attempts_may_have_gaps_and_an_end(
    folder: Path, others: Iterable[int], number: int, found: bool
) -> None:
    for other in others:
        (folder / "artifacts" / f"plan.attempt-{other}.raw.txt").write_bytes(b"other")
    aside = folder / "artifacts" / f"plan.attempt-{number}.raw.txt"
    aside.write_bytes(b"reply")
    ref = ArtifactRef("artifacts/plan.raw.txt", 5, digest(b"reply"))
    assert RunFolder(folder).find(ref) == (aside if found else None)
