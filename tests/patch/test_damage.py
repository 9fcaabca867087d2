"""Patches of this repository's own commits, damaged in every way of damage.py: nearly all right, hardly one wrong."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from .damage import KINDS, Case, cases, samples, table

ROOT = Path(__file__).parents[2]
OLDEST = 100  # commits: they stay the same when the history grows
SAMPLES = 45
LEAST = 1000  # damaged patches
RIGHT, WRONG = 0.92, 0.004


@pytest.fixture(scope="module")
def damaged() -> list[Case]:
    count = subprocess.run(
        ("git", "-C", str(ROOT), "rev-list", "--no-merges", "--count", "HEAD"),
        capture_output=True,
        text=True,
        check=False,
    )
    if count.returncode or int(count.stdout) < OLDEST or not (ROOT / ".git").exists():
        pytest.skip("the repository's history is not here: no .git, or a shallow clone")
    return list(cases(samples(ROOT, count=SAMPLES, seed="damage", oldest=OLDEST), seed="damage"))


def test_of_a_thousand_damaged_patches_nearly_all_are_right_and_hardly_one_is_wrong(damaged: list[Case]) -> None:
    ends = Counter(case.outcome for case in damaged)
    assert len(damaged) >= LEAST
    assert len({case.kind for case in damaged}) == len(KINDS) >= 20
    assert ends["right"] >= RIGHT * len(damaged), table(damaged)
    assert ends["wrong"] <= WRONG * len(damaged), table(damaged)


def test_what_repairs_need_no_guess_are_all_right(damaged: list[Case]) -> None:
    """Damage that takes nothing away that a reader needs."""
    harmless = {"wrong counts", "no counts", "no index line", "no a/ and b/", "CRLF patch", "CRLF files"}
    harmless |= {"fence and prose", "blank context emptied", "trailing blanks added", "trailing blanks stripped"}
    assert [case for case in damaged if case.kind in harmless and case.outcome != "right"] == []


def test_a_shifted_indentation_is_never_moved_back_unasked(damaged: list[Case]) -> None:
    """What is applied all the same was not moved: it is a new file, or the shift left its context as it was."""
    shifted = [case for case in damaged if case.kind == "indentation shifted"]
    assert sum(case.outcome in ("asked", "refused") for case in shifted) >= 0.9 * len(shifted)
    assert all("indented by" in case.detail for case in shifted if case.outcome == "asked")
    assert {case.kind for case in damaged if case.outcome == "asked"} == {"indentation shifted"}
