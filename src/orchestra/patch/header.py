"""The header of one file in a diff: which file, what happens to it, which modes.

Rules
1. The `diff --git` line, the `---`/`+++` lines and the `rename` lines must name the same file for the same side.
2. `/dev/null` and `new file mode` / `deleted file mode` must not contradict each other.
3. Two different names without `rename from` / `rename to` are a contradiction, not a rename.
4. Without a `diff --git` line, one name alone (the other side is /dev/null) cannot prove what `a/` and `b/` are. They
   are prefixes where git would write them, unless another file of the diff has none: then the name is unclear.

A header that breaks a rule gives a sentence with the reason; between two names none is chosen.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from orchestra.patch.paths import Pair, read_git_line, read_name, strip_prefixes

Kind = Literal["modify", "create", "delete", "rename"]

_MODE = re.compile(r"(old mode|new mode|new file mode|deleted file mode) (\d+)\s*$")
_INDEX = re.compile(r"index [0-9a-zA-Z]+\.\.[0-9a-zA-Z]+(?: (\d+))?\s*$")
_MOVE = re.compile(r"(rename|copy) (from|to) (.+)$")
_SIMILARITY = re.compile(r"(?:dis)?similarity index \d+%\s*$")
_EXTENDED = re.compile("|".join(f"(?:{pattern.pattern})" for pattern in (_MODE, _INDEX, _MOVE, _SIMILARITY)))


def is_extended(line: str) -> bool:
    """Whether this is one of the lines git writes between `diff --git` and `---`."""
    return bool(_EXTENDED.match(line))


def is_move(line: str) -> bool:
    """Whether this line names one side of a rename or copy."""
    return bool(_MOVE.match(line))


class Header(msgspec.Struct, frozen=True):
    """A header without contradictions."""

    kind: Kind
    old: str | None
    new: str | None
    mode: str | None
    modes: tuple[str, ...]
    binary: bool


class OpenHeader:
    """A header being read, line by line."""

    def __init__(self, git_line: str | None = None) -> None:
        self.named = False  # whether `---` and `+++` have been seen
        self.binary = False
        self._has_git_line = git_line is not None
        self._git = read_git_line(git_line) if git_line is not None else None
        self._unreadable: str | None = None
        self._sides: Pair = (None, None)
        self._modes: list[tuple[str, str]] = []
        self._moves: dict[str, str] = {}

    def name(self, minus: str, plus: str) -> None:
        """Take the names of the `---` and `+++` lines."""
        self.named = True
        self._sides = (self._side(minus), self._side(plus))

    def add(self, line: str) -> None:
        """Read an extended header line; an unknown line is ignored."""
        if mode := _MODE.match(line):
            self._modes.append((mode[1], mode[2]))
        elif index := _INDEX.match(line):
            self._modes += [("index", index[1])] if index[1] else []
        elif move := _MOVE.match(line):
            self._moves[f"{move[1]} {move[2]}"] = read_name(move[3]) or ""
        elif line.startswith("GIT binary patch") or (line.startswith("Binary files ") and line.endswith(" differ")):
            self.binary = True

    def guess(self) -> str:
        """A name for messages about a header with contradictions."""
        names = (*self._sides, *(self._git or ()), *self._moves.values())
        return next((name for name in names if name), "")

    @property
    def unprefixed(self) -> bool:
        """Whether both sides are named, and without `a/` and `b/`."""
        return None not in self._sides and strip_prefixes(self._sides) == self._sides

    def close(self, *, prefixed: bool) -> Header | str:
        """The whole header, or a sentence with the reason why it is wrong. `prefixed`: no file lacks `a/` and `b/`."""
        modes = dict(self._modes)
        if self._unreadable is not None:
            return f"the file name {self._unreadable} cannot be read (broken escapes, or not UTF-8)"
        if any(word.startswith("copy") for word in self._moves):
            return "it is a copy; write the copy as a new file instead"
        if unclear := self._unclear(prefixed=prefixed):
            return unclear
        names = self._names()
        if isinstance(names, str):
            return names
        old, new = names
        create, delete = "new file mode" in modes, "deleted file mode" in modes
        if self.named:
            gone = (self._sides[0] is None, self._sides[1] is None)
            if gone == (True, True):
                return "both sides are /dev/null"
            if (create and not gone[0]) or (delete and not gone[1]):
                return "its mode line and its ---/+++ lines disagree on whether the file is created or deleted"
            create, delete = gone
        if create and delete:
            return "it is both created and deleted"
        kind: Kind = "create" if create else "delete" if delete else "rename" if self._moves else "modify"
        return Header(
            kind=kind,
            old=None if create else old,
            new=None if delete else new,
            mode=modes.get("new file mode") or modes.get("new mode"),
            modes=tuple(mode for _, mode in self._modes),
            binary=self.binary,
        )

    def _side(self, text: str) -> str | None:
        name = read_name(text)
        if not name:
            self._unreadable = text
        return None if name == "/dev/null" else name

    def _unclear(self, *, prefixed: bool) -> str:
        """The sentence for a name that is unclear by rule 4, or an empty string."""
        name, mark = (self._sides[1], "b/") if self._sides[0] is None else (self._sides[0], "a/")
        if self._has_git_line or None not in self._sides or name is None:
            return ""
        if not name.startswith(("a/", "b/")) or (name.startswith(mark) and prefixed):
            return ""
        bare = name[2:]
        return (
            f"{name} may be the file {bare} or a file in a folder {name[:1]}; say which by a line "
            f"`diff --git a/{bare} b/{bare}` or `diff --git a/{name} b/{name}` above it"
        )

    def _names(self) -> Pair | str:
        """The name of each side, if all header lines agree; else a sentence with the reason."""
        git: Pair = (None, None)
        sides = self._sides
        if self._git:
            raw: Pair = (_real(self._git[0]), _real(self._git[1]))
            git = strip_prefixes(raw)
            # The git line has both names, so it shows whether `b/` is a prefix or a folder (paths.py, rule 2).
            sides = strip_prefixes(sides) if git != raw or None in raw else sides
        else:
            sides = strip_prefixes(sides)
        moved: Pair = (self._moves.get("rename from"), self._moves.get("rename to"))
        if (moved[0] is None) != (moved[1] is None):
            return "a rename needs both `rename from` and `rename to`"
        found = [{name for name in (git[i], sides[i], moved[i]) if name is not None} for i in (0, 1)]
        if not self._moves:  # one file: both sides name it
            found = [found[0] | found[1]] * 2
        if any(len(names) > 1 for names in found):
            said = ", ".join(sorted({repr(name) for names in found for name in names}))
            return f"its header lines disagree on the path: {said}. A rename needs `rename from` and `rename to` lines"
        old, new = ("".join(names) for names in found)  # at most one each; a prefix alone names nothing
        if not old or not new:
            return "its header names no file"
        return old, new


def _real(name: str) -> str | None:
    return None if name in ("/dev/null", "a/dev/null", "b/dev/null") else name
