"""Cuts a reply at its markers: headers, patch blocks, checks; fences and bare diffs where there are no patch markers.

Rules
1. A marker is a whole line at column 0; blanks and CR behind it do not count (T-8).
2. A result header inside a patch block is patch text.
3. A closing marker does not close while the hunk above it lacks lines by its own counts, the next line goes on like
   diff text, and another closing marker follows: then it is a context line that lost its leading blank.
4. A fence counts at column 0 only, whatever fence surrounds it: models wrap whole replies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from orchestra.core.model import PATCH_BEGIN, PATCH_END, RESULT_END, RESULT_START
from orchestra.patch.diff import ends_inside_hunk
from orchestra.patch.header import is_extended

CHECKS_START, CHECKS_END = "<<<AIO_CHECKS_START>>>", "<<<AIO_CHECKS_END>>>"  # S1-86

_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*(\w*)")
_SECTION = re.compile(r"#{1,6}[ \t]*PATCH[ \t]*:?[ \t]*$", re.IGNORECASE)
_CHANGE = re.compile(r"\+|-(?! )|@@|diff --git ")  # "- " may also be a list item in the prose below
_DIFF_TEXT = (" ", "+", "-", "@@", "\\", "diff --git ")

Block = tuple[str, ...]


class MarkedReply(msgspec.Struct, frozen=True):
    """A reply in pieces. `unclosed` is the closing marker that is missing; `open_end`: nothing marks the diff's end."""

    headers: tuple[Block, ...] = ()
    patches: tuple[Block, ...] = ()
    fences: tuple[Block, ...] = ()
    checks: Block = ()
    unclosed: str = ""
    open_end: bool = False


def cut(text: str) -> MarkedReply:
    """Cut a reply into its pieces; the fallbacks are used only if there is no patch block."""
    lines = text.removeprefix("\ufeff").split("\n")
    reply = _marked(lines)
    if reply.patches or reply.unclosed:
        return reply
    return _fallback(lines, reply)


def enclosed(diff: str) -> str:
    """A diff as a reply: its end is marked, whatever the counts of its last hunk say."""
    diff = diff.rstrip("\n")  # only newlines: a context line may be a single space
    return f"{PATCH_BEGIN}\n{diff}\n{PATCH_END}\n"


def _marked(lines: Sequence[str]) -> MarkedReply:
    headers: list[Block] = []
    patches: list[Block] = []
    checks: list[str] = []
    unclosed = ""
    index = 0
    while index < len(lines):
        mark = _mark(lines[index])
        index += 1
        if mark == RESULT_START:
            end = _find(lines, index, lambda line: _mark(line) in (RESULT_START, RESULT_END, PATCH_BEGIN))
            headers.append(tuple(lines[index:end]))
            closed = end < len(lines) and _mark(lines[end]) == RESULT_END
            unclosed = unclosed or ("" if closed else RESULT_END)
            index = end + closed
        elif mark == PATCH_BEGIN:
            end = _close(lines, index, lambda line: _mark(line) == PATCH_END)
            unclosed = unclosed or ("" if end < len(lines) else PATCH_END)
            patches.append(_unfenced(lines[index:end]))
            index = end + 1
        elif mark == CHECKS_START:
            end = _find(lines, index, lambda line: _mark(line) in (CHECKS_END, RESULT_START, PATCH_BEGIN))
            checks += lines[index:end]
            index = end
    return MarkedReply(headers=tuple(headers), patches=tuple(patches), checks=tuple(checks), unclosed=unclosed)


def _fallback(lines: Sequence[str], reply: MarkedReply) -> MarkedReply:
    """The diff of a reply without patch markers: fenced, under a heading, or bare."""
    for language in ("diff", "patch"):
        fences, unclosed = _fences(lines, language)
        if fences or unclosed:
            return msgspec.structs.replace(reply, fences=fences, unclosed=unclosed)
    section = _find(lines, 0, lambda line: bool(_SECTION.match(line.rstrip())))
    start = first_file(lines, section + 1)
    if start == len(lines):
        start = first_file(lines)
    if start == len(lines):
        return reply
    end = _end_of_bare_diff(lines, start)
    return msgspec.structs.replace(reply, fences=(tuple(lines[start:end]),), open_end=True)


def first_file(lines: Sequence[str], start: int = 0) -> int:
    """The first line that opens a file of a diff: `diff --git`, or `---` above `+++` with its mode and index lines.

    len(lines) if there is none.
    """
    for index in range(start, len(lines)):
        if lines[index].startswith("diff --git "):
            return index
        if [line[:4] for line in lines[index : index + 2]] == ["--- ", "+++ "]:
            while index > start and is_extended(lines[index - 1]):
                index -= 1
            return index
    return len(lines)


def _end_of_bare_diff(lines: Sequence[str], start: int) -> int:
    """The first fence or heading below which nothing looks like diff text; else the next marker, else the end."""
    end = _find(lines, start, lambda line: bool(_mark(line)))
    last = max((i for i in range(start, end) if _CHANGE.match(lines[i])), default=start)
    return min(end, _find(lines, last, lambda line: line.startswith(("```", "~~~", "#"))))


def _fences(lines: Sequence[str], language: str) -> tuple[tuple[Block, ...], str]:
    """The fenced blocks of one language, and the closing fence that is missing, if one is."""
    found: list[Block] = []
    index = 0
    while index < len(lines):
        fence = _FENCE.match(lines[index])
        index += 1
        if fence and fence[2].lower() == language:
            end = _close(lines, index, _closing(fence[1]))
            if end == len(lines):
                return tuple(found), fence[1]
            found.append(tuple(lines[index:end]))
            index = end + 1
    return tuple(found), ""


def _closing(fence: str) -> Callable[[str], bool]:
    pattern = re.compile(rf"{fence}{fence[0]}*\s*")
    return lambda line: bool(pattern.fullmatch(line))


def _close(lines: Sequence[str], start: int, closes: Callable[[str], bool]) -> int:
    """The line that closes what starts at `start`, or len(lines) (rule 3)."""
    end = _find(lines, start, closes)
    while end + 1 < len(lines) and lines[end + 1].startswith(_DIFF_TEXT):
        later = _find(lines, end + 1, lambda line: closes(line) or _mark(line) == PATCH_BEGIN)
        if later == len(lines) or not closes(lines[later]) or not ends_inside_hunk(lines[start:end]):
            break
        end = later
    return end


def _unfenced(block: Sequence[str]) -> Block:
    """A patch block without the fence around its diff."""
    text = [index for index, line in enumerate(block) if line.strip()]
    if len(text) >= 2 and _FENCE.match(block[text[0]]) and _FENCE.match(block[text[-1]]):
        return tuple(block[text[0] + 1 : text[-1]])
    return tuple(block)


def _mark(line: str) -> str:
    bare = line.rstrip()
    return bare if bare in (RESULT_START, RESULT_END, PATCH_BEGIN, PATCH_END, CHECKS_START, CHECKS_END) else ""


def _find(lines: Sequence[str], start: int, wanted: Callable[[str], bool]) -> int:
    return next((index for index in range(start, len(lines)) if wanted(lines[index])), len(lines))
