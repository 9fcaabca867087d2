"""What a call was shown: whole files, parts of files, and files of which only the outline is shown."""

from __future__ import annotations

from orchestra.core.shown import Receipt, Shown


def test_whole_files_parts_and_outlines_are_told_apart() -> None:
    files = (
        Shown("whole.py", "named", "", 10, 3, 1.0),
        Shown("part.py", "found", "", 10, 3, 1.0, ((3, 5),)),
        Shown("outline.py", "found", "", 0, 0, lines=()),
    )
    receipt = Receipt("m", files, 20)
    assert receipt.parts == {"part.py": ((3, 5),)}
    assert [file.path for file in receipt.contents] == ["whole.py", "part.py"]
