"""Edits -> the canonical unified diff that is shown to a person and bound by the approval (D-11).

Rules
1. It shows exactly what will change, with correct counts and three lines of context: git can apply it unchanged.
2. It is made from the edits, not by comparing files: lines that an edit leaves unchanged are left out.
3. It is text for people: bytes that are no UTF-8 are shown as \\xNN. The hashes beside it bind the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from orchestra.patch.paths import quote

CONTEXT = 3


class Edit(msgspec.Struct, frozen=True):
    """Lines [start, stop) of the old file become `lines`; all lines with their endings."""

    start: int
    stop: int
    lines: tuple[bytes, ...]


class Names(msgspec.Struct, frozen=True):
    """The header's facts: names and git modes of both sides, None for no file."""

    old: str | None
    new: str | None
    old_mode: str | None
    new_mode: str | None


def trim(edits: Sequence[Edit], old: Sequence[bytes]) -> list[Edit]:
    """The edits without unchanged lines; edits that change nothing are dropped."""
    trimmed: list[Edit] = []
    for edit in edits:
        before, after = list(old[edit.start : edit.stop]), list(edit.lines)
        head = _common(before, after)
        before, after = before[head:], after[head:]
        tail = _common(before[::-1], after[::-1])
        stop = edit.stop - tail
        if before or after:
            trimmed.append(Edit(edit.start + head, stop, tuple(after[: len(after) - tail])))
    return trimmed


def _common(left: Sequence[bytes], right: Sequence[bytes]) -> int:
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    return count


def replaced(edits: Sequence[Edit], old: Sequence[bytes]) -> bytes:
    """The new file."""
    parts: list[bytes] = []
    done = 0
    for edit in edits:
        parts += old[done : edit.start]
        parts += edit.lines
        done = edit.stop
    return b"".join([*parts, *old[done:]])


def inverse(edits: Sequence[Edit], old: Sequence[bytes]) -> tuple[Edit, ...]:
    """The edits of the new file that give the old one again."""
    back: list[Edit] = []
    shift = 0
    for edit in edits:
        start = edit.start + shift
        back.append(Edit(start, start + len(edit.lines), tuple(old[edit.start : edit.stop])))
        shift += len(edit.lines) - (edit.stop - edit.start)
    return tuple(back)


def render(names: Names, edits: Sequence[Edit], old: Sequence[bytes], *, errors: str = "backslashreplace") -> str:
    """The whole diff of one file, ending with a line feed. `errors` is for bytes that are no UTF-8 (rule 3)."""
    return "".join(f"{line}\n" for line in [*_header(names, has_hunks=bool(edits)), *_hunks(edits, old, errors)])


def in_full(new: Sequence[bytes], back: Sequence[Edit]) -> str:
    """The whole new file, each line with its mark: kept, added or removed. `back` gives the old file again."""
    lines: list[str] = []
    done = 0
    for edit in back:
        for op, part in ((" ", new[done : edit.start]), ("-", edit.lines), ("+", new[edit.start : edit.stop])):
            lines += [text for line in part for text in _shown(op, line, "backslashreplace")]
        done = edit.stop
    lines += [text for line in new[done:] for text in _shown(" ", line, "backslashreplace")]
    return "".join(f"{line}\n" for line in lines)


def git_line(old: str | None, new: str | None) -> str:
    """The first line of a file's part of a diff; None for no file on that side."""
    left, right = old or new or "", new or old or ""
    return f"diff --git {quote(f'a/{left}')} {quote(f'b/{right}')}"


def side_lines(old: str | None, new: str | None) -> list[str]:
    """The `---` and `+++` lines above the hunks."""
    return [f"--- {_side('a', old)}", f"+++ {_side('b', new)}"]


def _header(names: Names, *, has_hunks: bool) -> list[str]:
    lines = [git_line(names.old, names.new)]
    if names.old is None:
        lines.append(f"new file mode {names.new_mode}")
    elif names.new is None:
        lines.append(f"deleted file mode {names.old_mode}")
    elif names.old_mode != names.new_mode:
        lines += [f"old mode {names.old_mode}", f"new mode {names.new_mode}"]
    if names.old is not None and names.new is not None and names.old != names.new:
        lines += [f"rename from {quote(names.old)}", f"rename to {quote(names.new)}"]
    return lines + (side_lines(names.old, names.new) if has_hunks else [])


def _side(prefix: str, name: str | None) -> str:
    if name is None:
        return "/dev/null"
    written = quote(f"{prefix}/{name}")
    return f"{written}\t" if " " in name and not written.startswith('"') else written  # git's end mark after blanks


def _hunks(edits: Sequence[Edit], old: Sequence[bytes], errors: str) -> list[str]:
    lines: list[str] = []
    shift = 0  # how many lines the new file is ahead of the old one so far
    for group in _groups(edits):
        first, last = max(group[0].start - CONTEXT, 0), min(group[-1].stop + CONTEXT, len(old))
        body: list[str] = []
        done = first
        for edit in group:
            body += [line for context in old[done : edit.start] for line in _shown(" ", context, errors)]
            body += [line for gone in old[edit.start : edit.stop] for line in _shown("-", gone, errors)]
            body += [line for added in edit.lines for line in _shown("+", added, errors)]
            done = edit.stop
        body += [line for context in old[done:last] for line in _shown(" ", context, errors)]
        count = last - first
        grown = sum(len(edit.lines) - (edit.stop - edit.start) for edit in group)
        lines.append(f"@@ -{_range(first, count)} +{_range(first + shift, count + grown)} @@")
        lines += body
        shift += grown
    return lines


def _groups(edits: Sequence[Edit]) -> list[list[Edit]]:
    """Edits whose context would touch share a hunk."""
    groups: list[list[Edit]] = []
    for edit in edits:
        if groups and edit.start - groups[-1][-1].stop <= 2 * CONTEXT:
            groups[-1].append(edit)
        else:
            groups.append([edit])
    return groups


def _range(first: int, count: int) -> str:
    start = first + 1 if count else first  # an empty side is counted from the line before it
    return f"{start}" if count == 1 else f"{start},{count}"


def _shown(op: str, line: bytes, errors: str) -> list[str]:
    text = line.removesuffix(b"\n").decode("utf-8", errors)
    return [f"{op}{text}"] if line.endswith(b"\n") else [f"{op}{text}", "\\ No newline at end of file"]
