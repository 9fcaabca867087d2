"""What the models of a run are shown of its project: the files that are found for a call, and the project's rules.

Rules
1. A tree of runs has one view: the files a person opened, the hidden globs and the rules are the root run's.
2. Rules come before the files, and take at most a tenth of a call's bytes (context/rules.py). A call without files gets
   the rules of the project's root.
3. Rules that a glob hides are not told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from orchestra.context.globs import Globs
from orchestra.context.rules import Rules, RulesFile, room_for, told
from orchestra.context.workspace import gather
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
    ) -> None:
        """`opened` are files that a person opened, `hidden` globs; `memory` is where counts are kept between calls."""
        self._root = root
        self._opened = opened
        self._hidden = hidden
        self._memory = memory
        self._mask = mask
        is_hidden = Globs(hidden)
        self._rules = tuple(file for file in rules.files if not is_hidden(file.path))  # rule 3

    def __call__(self, search: Search | None, total: int, *, contents: int | None = None) -> Gathered:
        """What a call is shown, in `total` bytes at most; None: the call wants no files (rule 2).

        `contents` bounds the bytes of file contents alone.
        """
        room = room_for(self._rules, total)
        found = self._files(search, total - room, contents) if search is not None else Gathered()
        rules = told(self._rules, self._about(search, found.receipt), room)
        receipt = msgspec.structs.replace(
            found.receipt, rules=rules.paths, leftOut=(*rules.left, *found.receipt.leftOut)
        )
        return Gathered((*rules.artifacts, *found.artifacts), found.withheld, receipt)

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
        )

    def _about(self, search: Search | None, receipt: Receipt) -> Iterable[str]:
        """The files that a call is about: shown, asked for, or named in a text, also if they do not exist yet."""
        if search is None:
            return
        yield from (file.path for file in receipt.contents)
        yield from (file.path for file in receipt.files if file.how != "found")
        yield from (wanted.file for wanted in search.wanted)
        text = "\n".join((*search.hints, *search.traces))
        yield from (file.path for file in self._rules if file.folder and _names_folder(text, file))


def _names_folder(text: str, file: RulesFile) -> bool:
    """Whether a text names a path in the folder of these rules."""
    return re.search(rf"(?<![\w.-]){re.escape(file.folder)}/\w", text) is not None
