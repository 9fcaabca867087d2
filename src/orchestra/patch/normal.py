"""A diff in the normal form: every file has its `diff --git` line (S1-89).

Rules
1. A file named only by `---` and `+++` gets the header git would write: nothing else of the diff is touched.
2. The normal form says the same as the diff it was made of; what was unclear there is refused, not settled here.
3. Whoever asked for it is told what was repaired, in words for a person.
"""

from __future__ import annotations

import msgspec

from orchestra.patch.diff import FileChange, Refused, read_sections
from orchestra.patch.unified import Names, header_lines

_PLAIN, _EXECUTABLE = "100644", "100755"


class Normal(msgspec.Struct, frozen=True):
    """A diff, and what had to be repaired to have it in this form: nothing, mostly."""

    diff: str
    repaired: tuple[str, ...] = ()


def normal_form(diff: str) -> Normal:
    """The diff with every header in full. One that cannot be read is left as it is, for its reader to refuse."""
    read = read_sections(diff)
    if isinstance(read, Refused):
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
        lines += header_lines(_names(section.change), has_hunks=bool(section.change.hunks))
        done = stop
    lines += read.lines[done:]
    paths = ", ".join(section.change.path for section in bare)
    repaired = f"the `diff --git` line was missing and was added: {paths}"
    return Normal("".join(f"{line}\n" for line in lines), (repaired,))


def _names(change: FileChange) -> Names:
    """Names and modes for the header. Modes that the diff does not say are those of a plain file, or left out."""
    match change.kind:
        case "create":
            return Names(None, change.new, None, change.mode or _PLAIN)
        case "delete":
            return Names(change.old, None, next(iter(change.modes), _PLAIN), None)
        case _:
            other = _PLAIN if change.mode == _EXECUTABLE else _EXECUTABLE
            before = next((mode for mode in change.modes if mode != change.mode), other)
            return Names(change.old, change.new, before if change.mode else None, change.mode)
