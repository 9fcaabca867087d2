"""A diff in the normal form: every file has its `diff --git` line (S1-89).

Rules
1. A file named only by `---` and `+++` gets the header git would write. Its mode, index and rename lines stay, and so
   does every other line of the diff.
2. The normal form means the same as the original diff; an unclear diff is refused, not decided here.
3. The result lists what was repaired, in words for people.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from orchestra.core.work import Refusal
from orchestra.patch.diff import FileChange, read_sections
from orchestra.patch.header import is_extended
from orchestra.patch.unified import git_line, side_lines

_MODE_LINES = {"create": "new file mode", "delete": "deleted file mode"}


class Normal(msgspec.Struct, frozen=True):
    """A diff in the normal form, and what was repaired for that (mostly nothing)."""

    diff: str
    repaired: tuple[str, ...] = ()


def normal_form(diff: str) -> Normal:
    """The diff with every header in full. An unreadable diff is returned unchanged; its reader refuses it."""
    read = read_sections(diff)
    if isinstance(read, Refusal):
        return Normal(diff)
    bare = [section for section in read.files if section.bare is not None]
    if not bare:
        return Normal(diff)
    lines: list[str] = []
    done = 0
    for section in bare:
        assert section.bare is not None
        start, stop = section.bare
        lines += read.lines[done:start]
        lines += _header(section.change, read.lines[start:stop])
        done = stop
    lines += read.lines[done:]
    paths = ", ".join(section.change.path for section in bare)
    repaired = f"the `diff --git` line was missing and was added: {paths}"
    return Normal("".join(f"{line}\n" for line in lines), (repaired,))


def _header(change: FileChange, bare: Sequence[str]) -> list[str]:
    """The full header, made of the present header lines."""
    extended = [line for line in bare if is_extended(line)]
    word = _MODE_LINES.get(change.kind)
    if word is not None and not any(line.startswith(word) for line in extended):
        extended.insert(0, f"{word} 100644")  # git's default for a file without a mode
    sides = side_lines(change.old, change.new) if bare[-1].startswith("+++ ") else []
    return [git_line(change.old, change.new), *extended, *sides]
