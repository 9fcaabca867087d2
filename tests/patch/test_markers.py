"""Where a reply is cut: at whole lines, and never in the middle of what a hunk still owes."""

from __future__ import annotations

import pytest

from orchestra.patch.markers import cut, enclosed, first_file

NAMES = ("--- a/f", "+++ b/f")


@pytest.mark.parametrize(
    ("lines", "start", "found"),
    [
        ((*NAMES, "@@ @@", "-a", "old mode 100644"), 0, 0),
        (("Sure:", "old mode 100644", "new mode 100755", *NAMES), 0, 1),
        (("old mode 100644", "### PATCH", *NAMES), 1, 2),
        (("old mode 100644", "new mode 100755", *NAMES), 1, 1),
        (("x", "diff --git a/f b/f", *NAMES), 0, 1),
        (("x", *NAMES), 2, 3),
        (("--- a/f",), 0, 1),
        ((), 0, 0),
    ],
)
def test_the_first_file_begins_at_its_mode_lines_but_not_before_the_start(
    lines: tuple[str, ...], start: int, found: int
) -> None:
    assert first_file(lines, start) == found


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (["```diff", "```"], ()),
        (["```diff", "-a", "```"], ("-a",)),
        (["", "~~~", "-a", "~~~", ""], ("-a",)),
        (["```"], ("```",)),
        (["```diff", "-a"], ("```diff", "-a")),
        (["-a", "```"], ("-a", "```")),
    ],
)
def test_a_patch_block_is_read_without_the_fence_around_it(block: list[str], text: tuple[str, ...]) -> None:
    assert cut("\n".join(["[PATCH_BEGIN]", *block, "[PATCH_END]"])).patches == (text,)


OPEN = ("@@ -1,2 +1,2 @@", "-a", "+b")  # one line is still to come


@pytest.mark.parametrize(
    ("below", "size"),
    [
        (("[PATCH_END]", " c", "[PATCH_END]"), 5),  # the first one is the context line that was still to come
        (("[PATCH_END]", " c"), 3),
        (("[PATCH_END]", "c", "[PATCH_END]"), 3),
        (("[PATCH_END]", " c", "[PATCH_BEGIN]", "[PATCH_END]"), 3),
        (("[PATCH_END]",), 3),
        ((" c", "[PATCH_END]", " d", "[PATCH_END]"), 4),  # nothing was still to come
    ],
)
def test_a_closing_marker_is_a_lost_line_only_where_the_hunk_lacks_one_and_goes_on(
    below: tuple[str, ...], size: int
) -> None:
    lines = ("[PATCH_BEGIN]", *OPEN, *below)
    assert cut("\n".join(lines)).patches[0] == lines[1 : 1 + size]


DIFF = ("diff --git a/f b/f", *NAMES, "@@ -1 +1 @@", "-a", "+b")


def test_a_diff_below_the_heading_counts_from_its_first_line() -> None:
    reply = cut("\n".join(["I would run `diff --git a/x b/x`:", "--- a/old", "+++ b/old", "### PATCH", *DIFF]))
    assert (reply.fences, reply.open_end) == ((DIFF,), True)


def test_beside_a_patch_block_no_other_diff_counts() -> None:
    reply = cut("\n".join(["```diff", "-x", "```", "[PATCH_BEGIN]", *DIFF, "[PATCH_END]"]))
    assert (reply.patches, reply.fences, reply.unclosed) == ((DIFF,), (), "")
    unclosed = cut("\n".join(["```diff", "-x", "```", "<<<AIO_RESULT_START>>>", "type: PATCH"]))
    assert (unclosed.patches, unclosed.fences, unclosed.unclosed) == ((), (), "<<<AIO_RESULT_END>>>")


def test_a_diff_is_enclosed_to_its_last_blank() -> None:
    assert cut(enclosed("\n".join((*DIFF, " ")) + "\n\n")).patches == ((*DIFF, " "),)
