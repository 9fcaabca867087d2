"""Two runs of one team side by side."""

from __future__ import annotations

from pathlib import Path

from orchestra.core.run import RunFolder
from orchestra.workflows.team.comparing import ComparedFile, ComparedRun, Comparison, compared, diff, file_line, rows


def folder(path: Path, **files: str) -> RunFolder:
    path.mkdir()
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")
    return RunFolder(path)


def test_a_file_is_in_both_runs_or_in_one_and_its_lines_are_counted(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", same="가\n", mine="x\n", other="1\n2\n3\n")
    two = folder(tmp_path / "two", same="가\n", yours="y\n", other="1\n둘\n3\n4\n")
    found = compared(("same", "mine", "yours", "other"), one, two)
    assert found == (
        ComparedFile("same", "same"),
        ComparedFile("mine", "only in the first"),
        ComparedFile("yours", "only in the second"),
        ComparedFile("other", "different", removed=1, added=2),
    )
    assert [file_line(file) for file in found[2:]] == ["yours: only in the second", "other: different (-1 +2 lines)"]
    changed = ["-2", "+둘", " 3", "+4"]
    assert diff("other", (one, ()), (two, ())) == ["--- one/other", "+++ two/other", "@@ -1,3 +1,4 @@", " 1", *changed]
    assert diff("mine", (one, ()), (two, ()))[2:] == ["@@ -1 +0,0 @@", "-x"]


def test_the_numbers_of_both_runs_stand_side_by_side() -> None:
    one = ComparedRun("r1", "completed", 1, 0.5, 2, 3.25, 4, 5, 6, 7, 8)
    two = ComparedRun("r2", "failed", 10, 0.25, 20, 30.0, 40, 50, 60, 70, 80)
    assert list(rows(Comparison("t", "블로그", (one, two), ()))) == [
        *(("status", "completed", "failed"), ("model calls", "1", "10"), ("cost", "$0.5000", "$0.2500")),
        *(("tokens", "2", "20"), ("time, waits included", "3.2 s", "30.0 s"), ("review rounds", "4", "40")),
        *(("findings open", "5", "50"), ("findings closed", "6", "60"), ("decisions", "7", "70")),
        ("failed attempts", "8", "80"),
    ]
