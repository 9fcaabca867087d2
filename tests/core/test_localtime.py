"""Times and durations for people, and names of runs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from orchestra.core.localtime import local, local_time, localised, took
from orchestra.core.run import slug
from orchestra.core.tree import child_id


@pytest.fixture(autouse=True)
def seoul(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Seoul")
        time.tzset()
        yield
    time.tzset()


def test_a_moment_is_shown_in_the_persons_zone_with_its_name() -> None:
    assert local("2026-11-16T16:13:21.123Z") == "2026-11-17 01:13:21 KST"
    assert local_time("2026-11-16T16:13:21Z") == "01:13:21 KST"
    assert local("yesterday") == "yesterday" and local("") == ""


def test_only_a_reports_own_moments_are_put_into_the_zone() -> None:
    moment = "2026-11-16T16:13:21.123Z"
    assert localised(f"- started {moment}, completed {moment}, duration 1 s").count("KST") == 2
    assert localised(f"| 2026-11-16T16:13:21Z | 1 | it printed {moment} |").endswith(f"it printed {moment} |")
    for line in (f"it printed {moment}", f"    | {moment} |"):
        assert localised(line) == line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.44, "0.4 s"),
        (9.9, "9.9 s"),
        (10, "10 s"),
        (12.9, "12 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (7800, "2 h 10 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert took(seconds) == text


@pytest.mark.parametrize(
    ("goal", "name"),
    [
        ("Fix the Parser!", "fix-the-parser"),
        ("받침에 맞게, 인사하기", "받침에-맞게-인사하기"),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", "한글"),  # NFD becomes NFC
        ("Crème brûlée", "creme-brulee"),
        ("日本語とかな", "日本語とかな"),
        ("../../etc/passwd\0", "etc-passwd"),
        ("\u202eевил\u200b", "run"),
        ("", "run"),
        (f"{'a' * 35} bbbb", f"{'a' * 35}-bbbb"),  # 40 bytes, the most there may be
        (f"{'a' * 35} bbbbb", "a" * 35),
    ],
)
def test_a_goal_becomes_a_name_on_every_file_system(goal: str, name: str) -> None:
    assert slug(goal) == name


def test_names_are_bounded_in_bytes_and_no_character_is_torn() -> None:
    for text in ("가" * 500, "가나다라 " * 100, "a" * 500, "ab가" * 300):
        name = slug(text)
        assert 0 < len(name.encode()) <= 40 and not name.endswith("-")
    parent = f"2026-11-16_001_contracts_{slug('가' * 100)}"
    child = parent
    for _ in range(5):
        child = child_id(child, "evidence", "조사하기 " * 20)
        assert len(child.encode()) <= 120
