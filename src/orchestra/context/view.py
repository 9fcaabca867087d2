"""What the models of a run are shown of its project: the files that are found for a call, and the project's rules.

Rules
1. A tree of runs has one view: the files a person opened, the hidden globs and the rules are the root run's.
2. Rules come before the files, and take at most a tenth of a call's bytes (context/rules.py). A call without files gets
   the rules of the project's root.
3. Rules that a glob hides are not told.
4. A run that works in a folder of the project is shown that folder, and the rules of the folders above it hold in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from orchestra.context.rules import Rules, RulesFile, room_for, told
from orchestra.context.workspace import gather
from orchestra.core.globs import Globs
from orchestra.core.model import Gathered
from orchestra.core.shown import Opened, Receipt, Search


class View:
    """What the models of one tree of runs are shown."""

    def __init__(
        self,
        root: Path,
        *,
        rules: Rules,
        opened: tuple[Opened, ...] = (),
        hidden: tuple[str, ...] = (),
        memory: Path | None = None,
        mask: Callable[[str], str] = str,
        below: str = "",
    ) -> None:
        """`opened` are files that a person opened, `hidden` globs; `memory` is where counts are kept between calls.

        `root` is shown. `below` is its path in the project, if it is a folder of it (rule 4): rules and globs are named
        from the project, everything else from `root`.
        """
        self._root = root
        self._below = f"{below}/" if below else ""
        self._opened = opened
        self._hidden = hidden
        self._memory = memory
        self._mask = mask
        is_hidden = Globs(hidden)
        told_here = (file for file in rules.files if self._concerns(file))
        self._rules = tuple(file for file in told_here if not is_hidden(file.path))  # rule 3

    def _concerns(self, file: RulesFile) -> bool:
        """Whether rules hold in the folder that is shown, or in a folder of it (rule 4)."""
        folder = f"{file.folder}/" if file.folder else ""
        return self._below.startswith(folder) or folder.startswith(self._below)

    def __call__(self, search: Search | None, total: int, *, contents: int | None = None) -> Gathered:
        """What a call is shown, in `total` bytes at most; None: the call wants no files (rule 2).

        `contents` bounds the bytes of file contents alone.
        """
        room = room_for(self._rules, total)
        found = self._files(search, total - room, contents) if search is not None else Gathered()
        about = (self._below + path for path in ("", *self._about(search, found.receipt)))
        rules = told(self._rules, about, room)
        receipt = msgspec.structs.replace(
            found.receipt, rules=rules.paths, leftOut=(*rules.left, *found.receipt.leftOut)
        )
        return Gathered((*rules.artifacts, *found.artifacts), found.withheld, receipt, found.everything)

    def _files(self, search: Search, total: int, contents: int | None) -> Gathered:
        return gather(
            self._root,
            search,
            total,
            opened=self._opened,
            hidden=self._hidden,
            memory=self._memory,
            mask=self._mask,
            contents=contents,
            below=self._below.rstrip("/"),
        )

    def _about(self, search: Search | None, receipt: Receipt) -> Iterable[str]:
        """The files that a call is about: shown, asked for, or named in a text, also if they do not exist yet."""
        if search is None:
            return
        yield from (file.path for file in receipt.contents)
        yield from (file.path for file in receipt.files if file.how != "found")
        yield from (wanted.file for wanted in search.wanted)
        text = "\n".join((*search.hints, *search.traces))
        inner = (file.path.removeprefix(self._below) for file in self._rules if file.path.startswith(self._below))
        yield from (path for path in inner if "/" in path and _names_folder(text, path.rpartition("/")[0]))


def _names_folder(text: str, folder: str) -> bool:
    """Whether a text names a path in this folder."""
    return re.search(rf"(?<![\w.-]){re.escape(folder)}/\w", text) is not None
