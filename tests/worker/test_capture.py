"""What people and models are shown of a command's output."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestra.core.disk import Disk
from orchestra.core.redact import Redactor
from orchestra.core.text import clean_output
from orchestra.worker.capture import Capture, NewestLine, Store, Tap, shared_excerpt
from orchestra.worker.task import Captured

REDACTOR = Redactor()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("한글 👍 é\n", "한글 👍 é\n"),
        ("\x1b[1;31mred\x1b[0m \x1b[38:5:1mx\x1b[m", "red x"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("\x1b(B\x1b=\x1bMx", "x"),
        ("dos\r\nline\r50%\r", "dos\nline\\x0d50%\\x0d"),
        ("bell\x07 nul\x00 del\x7f c1\x9b31m", "bell\\x07 nul\\x00 del\\x7f c1\\x9b31m"),
        ("a\u202eevil\u2066b\u200bc\ufeff", "a\\u202eevil\\u2066b\\u200bc\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("half \x1b[3", "half \\x1b[3"),
    ],
)
def test_what_a_command_printed_is_shown_without_its_colours_and_otherwise_whole(raw: str, shown: str) -> None:
    assert clean_output(raw) == shown


@given(st.text())
def test_clean_output_is_valid_and_stays_as_it_is(text: str) -> None:
    once = clean_output(text)
    assert clean_output(once) == once
    assert once.encode("utf-8").decode("utf-8") == once


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=6), st.integers(0, 64))
def test_any_bytes_in_any_pieces_are_counted_and_quoted(data: bytes, cuts: list[int], limit: int) -> None:
    store = Store(Path("/dev/null"), limit=1000, disk=Disk())
    try:
        whole, pieces = (Capture(store, REDACTOR, excerpt_limit=limit) for _ in range(2))
        whole.feed(data)
        edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        for start, end in pairwise(edges):
            pieces.feed(data[start:end])
        captured = pieces.close()
        assert captured.bytes == len(data)
        assert captured.excerpt == whole.close().excerpt
        captured.excerpt.encode("utf-8")
    finally:
        store.abandon()


def test_the_excerpt_never_cuts_a_character(tmp_path: Path) -> None:
    store = Store(tmp_path / "a.txt", limit=1000, disk=Disk())
    capture = Capture(store, REDACTOR, excerpt_limit=20)
    capture.feed("가나다라마바사아자차".encode())
    assert capture.close() == Captured(bytes=30, kept=30, excerpt="가나다\n[… 10 bytes left out …]\n아자차")
    assert store.close().bytes == 30


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("가나다라마바", "가나다라마바"), ("가나다라마바사", "가나다\n[… cut: 21 bytes in all …]\n마바사")],
)
def test_a_quote_of_so_many_characters_is_cut_only_if_there_are_more(tmp_path: Path, text: str, quoted: str) -> None:
    store = Store(tmp_path / "a.txt", limit=1000, disk=Disk())
    capture = Capture(store, REDACTOR, excerpt_limit=20, characters=6)
    capture.feed(text.encode())
    assert capture.close().excerpt == quoted
    store.close()


def test_streams_that_share_an_artifact_are_quoted_in_the_order_of_arrival(tmp_path: Path) -> None:
    store = Store(tmp_path / "a.txt", limit=1000, disk=Disk())
    out, err = (Capture(store, REDACTOR, excerpt_limit=20) for _ in range(2))
    err.feed(b"\x1b[32mall tests passed\x1b[0m\n")
    out.feed(b"error: the types are wrong\n")
    out.close(), err.close()
    path = store.close().path
    assert shared_excerpt(path, 1000, REDACTOR) == "all tests passed\nerror: the types are wrong\n"
    assert shared_excerpt(path, 20, REDACTOR).endswith("\n[… 33 bytes left out …]\nare wrong\n")


@pytest.mark.parametrize(("limit", "kept"), [(6, 6), (5, 5), (0, 0)])
def test_output_is_truncated_only_if_some_of_it_was_not_kept(tmp_path: Path, limit: int, kept: int) -> None:
    store = Store(tmp_path / "a.txt", limit=limit, disk=Disk())
    capture = Capture(store, REDACTOR, excerpt_limit=20)
    capture.feed("가나".encode())
    assert capture.close() == Captured(bytes=6, kept=kept, truncated=kept < 6, excerpt="가나")
    store.close()
    written = (tmp_path / "a.txt").read_bytes()
    assert written.startswith("가나".encode()[:kept]) and (b"more bytes of output" in written) == (kept < 6)


def test_the_newest_whole_line_of_any_stream_is_told_once(tmp_path: Path) -> None:
    ready: list[bool] = []
    newest = NewestLine(REDACTOR, lambda: ready.append(True))
    store = Store(tmp_path / "a.txt", limit=1000, disk=Disk())
    out, err = (Capture(store, REDACTOR, excerpt_limit=20, newest=newest) for _ in range(2))
    out.feed("첫 ".encode())
    assert newest.take() is None and not ready
    for stream, text, line in (
        (out, "줄\n둘", "첫 줄"),
        (err, "e\n\n", "e"),
        (out, "째\n셋째\n", "셋째"),
        (err, "\n", None),
    ):
        stream.feed(text.encode())
        assert newest.take() == line and newest.take() is None
    assert len(ready) == 3
    store.abandon()


def test_a_line_that_comes_in_parts_is_told_whole(tmp_path: Path) -> None:
    newest = NewestLine(REDACTOR, lambda: None)
    store = Store(tmp_path / "a.txt", limit=1000, disk=Disk())
    stream = Capture(store, REDACTOR, excerpt_limit=20)
    for data, line in ((b"a", None), (b"\n", "a"), (b"b\nc", "b"), (b"d\n", "cd"), (b"x\ny\n", "y"), (b"\nz", None)):
        newest.add(stream, data)
        assert newest.take() == line
    store.abandon()


def test_a_tap_passes_bytes_on_and_counts_them() -> None:
    heard: list[bytes] = []
    tap = Tap(heard.append)
    tap.feed("가".encode())
    tap.feed(b"x")
    assert heard == ["가".encode(), b"x"] and tap.close() == Captured(bytes=4)
