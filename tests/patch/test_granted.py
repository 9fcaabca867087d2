"""A granted patch that a kill cut short, and whose rest cannot be written any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.core.run import digest
from orchestra.core.work import PatchFile, Refusal
from orchestra.patch.granted import Granted
from orchestra.patch.prepared import Prepared
from tests.support.core import open_ledger


@pytest.mark.parametrize(
    ("first", "said"), [("new\n", "written before a kill: 가.txt"), ("old\n", "nothing was written")]
)
def test_what_was_written_before_a_kill_is_named_when_another_file_was_edited(
    tmp_path: Path, first: str, said: str
) -> None:
    def prepare(undone: set[str]) -> Prepared | Refusal:
        raise AssertionError("nothing may be written")

    work = tmp_path / "work"
    work.mkdir()
    (work / "가.txt").write_text(first)
    (work / "나.txt").write_text("mine\n")
    before, after = (digest(text.encode()) for text in ("old\n", "new\n"))
    files = tuple(PatchFile(name, "modify", before, after, 1, 1) for name in ("가.txt", "나.txt"))
    ledger = open_ledger(tmp_path / "run")
    applied = Granted(work, files, "sha256:0", ledger).bring(prepare)
    ledger.close()
    assert applied.refusal is not None and applied.refusal.path == "나.txt"
    assert applied.refusal.message.startswith(f"나.txt changed on disk since the patch was computed; {said}. ")
    assert (work / "가.txt").read_text() == first
