"""Counts are kept outside the project, and any doubt about them means counting anew."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from orchestra.context.counts import FOLDER, MOST_ALL, MOST_BYTES, NAME, Counts, countable, counts_of
from orchestra.context.walk import Found, walk

from .support import write

OLD = 1_000_000_000_000_000_000


def aged(root: Path) -> Path:
    """The same files, not changed lately."""
    for path in root.rglob("*"):
        os.utime(path, ns=(OLD, OLD))
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return aged(write(tmp_path / "project", {f"src/m{at}.py": f"def name_{at}(): shared\n" for at in range(40)}))


def counts(root: Path, memory: Path | None) -> Counts:
    made = Counts(root, memory)
    made.bring_up_to_date(walk(root).files)
    return made


def where(made: Counts, root: Path, term: str) -> dict[str, int]:
    return dict(made.occurrences(term, made.numbers(one.path for one in walk(root).files)))


def table(memory: Path) -> Path:
    (file,) = memory.iterdir()
    return file


def test_kept_counts_are_the_same_as_fresh_ones(root: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    fresh = counts(root, memory)
    kept = counts(root, memory)
    for term in ("shar", "name3", "nam", "m7", "src", "nowhere"):
        assert where(kept, root, term) == where(fresh, root, term) == where(counts(root, None), root, term)
    for term in (NAME + "name3", NAME + "m7", FOLDER + "src"):  # of paths only
        assert where(kept, root, term) == where(fresh, root, term)
    assert where(kept, root, FOLDER + "src") == {f"src/m{at}.py": 1 for at in range(40)}
    assert where(kept, root, "shar") == {f"src/m{at}.py": 1 for at in range(40)}


def test_kept_counts_are_used(root: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    counts(root, memory)
    (root / "src/m3.py").write_text("def name_3(): others\n")  # the same size
    os.utime(root / "src/m3.py", ns=(OLD, OLD))
    assert "src/m3.py" in where(counts(root, memory), root, "shar")


@pytest.mark.parametrize("change", ["size", "time"])
def test_a_changed_file_is_counted_anew(root: Path, tmp_path: Path, change: str) -> None:
    memory = tmp_path / "memory"
    counts(root, memory)
    (root / "src/m3.py").write_text("def name_3(): others\n" + "\n" * (change == "size"))
    if change == "size":
        os.utime(root / "src/m3.py", ns=(OLD, OLD))
    made = counts(root, memory)
    assert "src/m3.py" not in where(made, root, "shar") and where(made, root, "oth") == {"src/m3.py": 1}


def test_a_file_changed_within_the_last_seconds_is_not_trusted(root: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    now = (root / "new.py").stat().st_mtime_ns if (root / "new.py").exists() else None
    assert now is None
    (root / "new.py").write_text("before\n")
    stamp = (root / "new.py").stat().st_mtime_ns
    counts(root, memory)
    (root / "new.py").write_text("behind\n")  # in the same instant, for the clock of a file system
    os.utime(root / "new.py", ns=(stamp, stamp))
    assert where(counts(root, memory), root, "behind") == {"new.py": 1}


def test_a_removed_file_is_gone(root: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    counts(root, memory)
    (root / "src/m3.py").unlink()
    assert where(counts(root, memory), root, "name3") == {}


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_table_is_counted_anew_or_harmless(root: Path, tmp_path: Path, seed: int) -> None:
    memory = tmp_path / "memory"
    counts(root, memory)
    chance = random.Random(seed)
    data = bytearray(table(memory).read_bytes())
    if seed % 3 == 0:
        del data[chance.randrange(len(data)) :]
    elif seed % 3 == 1:
        data += bytes(chance.randrange(256) for _ in range(50))
    else:
        data[: chance.randrange(4, 40)] = bytes(chance.randrange(256) for _ in range(20))
    table(memory).write_bytes(bytes(data))
    assert where(counts(root, memory), root, "shar") == {f"src/m{at}.py": 1 for at in range(40)}


def test_a_table_that_others_can_write_to_is_not_trusted(root: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    counts(root, memory)
    before = table(memory).stat().st_ino
    table(memory).chmod(0o666)
    counts(root, memory)
    assert table(memory).stat().st_ino != before  # written anew


def test_a_link_in_the_place_of_the_table_is_not_followed(root: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    counts(root, memory)
    target = tmp_path / "target"
    os.replace(table(memory), target)
    before = target.read_bytes()
    (memory / "x").symlink_to(target)
    os.replace(memory / "x", memory / Counts(root, memory)._memory.name)  # type: ignore[union-attr]
    counts(root, memory)
    assert not table(memory).is_symlink() and target.read_bytes() == before


def test_a_cache_that_cannot_be_written_is_none(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert where(counts(root, tmp_path / "file" / "memory"), root, "name3") == {"src/m3.py": 1}


def test_many_at_once_leave_a_whole_table(root: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    threads = [threading.Thread(target=counts, args=(root, memory)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(memory.iterdir())) == 1
    assert where(counts(root, memory), root, "name3") == {"src/m3.py": 1}


def test_versions_of_files_that_are_gone_are_not_kept_without_end(tmp_path: Path) -> None:
    root = write(tmp_path / "project", {"a.py": "shared\n"})
    made = Counts(root, None)
    numbers: list[int] = []
    for time in range(1_003):
        made.bring_up_to_date([Found("a.py", 7, OLD + time)])
        numbers += made.numbers(["a.py"])
    assert numbers == [*range(1_002), 0]  # the table is begun anew


def test_files_that_come_and_go_do_not_fill_the_table(tmp_path: Path) -> None:
    made = Counts(write(tmp_path / "project", {"a.py": "shared\n"}), None)
    numbers: list[int] = []
    for _ in range(1_002):
        made.bring_up_to_date([Found("a.py", 7, OLD)])
        numbers += made.numbers(["a.py"])
        made.bring_up_to_date([])
    assert numbers == [*range(1_001), 0]


def test_a_table_is_written_when_more_than_twenty_files_were_counted(tmp_path: Path) -> None:
    root = write(tmp_path / "project", {f"{at}.py": "shared\n" for at in range(21)})
    memory = tmp_path / "memory"
    files = [Found(f"{at}.py", 7, OLD) for at in range(21)]
    made = Counts(root, memory)
    made.bring_up_to_date(files[:20])
    assert not memory.exists()
    made.bring_up_to_date(files)
    first = table(memory).stat()
    made.bring_up_to_date([one._replace(mtime=OLD + 1) for one in files[:20]] + files[20:])
    assert table(memory).stat() == first


def test_a_file_of_exactly_the_most_bytes_is_counted_by_its_text(tmp_path: Path) -> None:
    made = Counts(write(tmp_path, {"a.py": "inside\n", "b.py": "inside\n"}), None)
    made.bring_up_to_date([Found("a.py", MOST_BYTES, OLD), Found("b.py", MOST_BYTES + 1, OLD)])
    assert made.occurrences("insid", made.numbers(["a.py", "b.py"])) == [("a.py", 1)]


def test_files_are_counted_up_to_exactly_the_bytes_of_all_together() -> None:
    most = MOST_ALL // MOST_BYTES
    files = [Found(f"{at}.py", MOST_BYTES, OLD) for at in range(most + 1)]
    assert countable(files) == files[:most]
    assert countable([*files[: most - 1], Found("x.py", MOST_BYTES - 1, OLD), Found("y.py", 1, OLD)])[-1].path == "y.py"


def test_the_counts_of_two_projects_are_remembered(tmp_path: Path) -> None:
    first, second, third = (counts_of(tmp_path / name, None) for name in "abc")
    assert counts_of(tmp_path / "b", None) is second and counts_of(tmp_path / "c", None) is third
    assert counts_of(tmp_path / "a", None) is not first


def test_a_table_without_any_term_is_kept_too(tmp_path: Path) -> None:
    files = [Found(f"{at}", 0, OLD) for at in range(21)]
    root = write(tmp_path / "project", {one.path: "" for one in files})
    made = Counts(root, tmp_path / "memory")
    made.bring_up_to_date(files)
    assert Counts(root, tmp_path / "memory").numbers(["7", "none"]) == {7: "7"}
