"""The workspace as a model sees it: a ranked list of names, the best files and parts of files, and a receipt of it.

Rules
1. Reads only, and only regular text files inside the workspace (reading.py). No process is started.
2. A file that was opened, asked for, named, or is in the output of a failing check always goes in: whole, or its parts
   that matter. What does not fit is in the receipt.
3. The rest of the room is filled by words (ranking.py). Where no word is found it is not filled: the list of names, the
   README and outlines are shown, and the note says so.
4. A file that is a secret by its name (core/secretfiles.py) is listed and never shown, even if a text names it. Only a
   person opens such a file, by `--context FILE`.
5. The same workspace and search give the same bytes: no time, no chance, no order of a hash.
6. All contents together have at most `total` bytes; with a bound for file contents alone, these have at most so many,
   and everything else is beside them.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from orchestra.context.about import NAME, Facts, about
from orchestra.context.counts import MOST_BYTES, countable, counts_of
from orchestra.context.kinds import WEIGHTS, kind_of, weights
from orchestra.context.listing import listing
from orchestra.context.mentions import Named, Names
from orchestra.context.packing import Candidate, Must, Room, pack_found, pack_musts
from orchestra.context.ranking import Ranked, Sought, question, rank
from orchestra.context.reading import EMPTY, MOST_READ, Mask, covered, text_of, why_unreadable
from orchestra.context.sheets import Sheet
from orchestra.context.walk import Found, Walked, walk
from orchestra.context.wanted import answers
from orchestra.context.words import words_in
from orchestra.core.globs import Globs
from orchestra.core.model import ContextArtifact, Gathered, Withheld
from orchestra.core.secretfiles import secret_by_name
from orchestra.core.shown import How, LeftOut, Opened, Receipt, Search, Shown
from orchestra.core.text import estimated_tokens

METHOD = "bm25-parts-3"
_LISTING, _NOTE, _OUTLINES = 0.10, 0.03, 0.04  # of all bytes
_LEAST = 400  # bytes of the note
_OUTLINED = 8  # files
_BIG = 400  # lines of a file that is worth an outline
_CANDIDATES = 60
_SMALL = 0.6  # of the room: if all texts of a project have no more bytes, documents and what tools wrote go in too
_OTHERS = 300  # files, read to know that
_ORDER: dict[How, int] = {"opened": 0, "asked": 1, "named": 2, "found": 3}  # of a receipt
_MENTIONED = re.compile(r"[\w./~+@-]{0,200}[A-Za-z0-9_]")  # a word that may be a path; Korean particles stay behind


def gather(
    root: Path,
    search: Search,
    total: int,
    *,
    opened: tuple[Opened, ...] = (),
    hidden: tuple[str, ...] = (),
    memory: Path | None = None,
    mask: Mask = str,
    contents: int | None = None,
    below: str = "",
) -> Gathered:
    """What a model is shown of the workspace, `total` bytes at most, and the receipt.

    `opened` are the files a person opened, `hidden` the globs of files a person hid. Counts are kept in the folder
    `memory`. `mask` masks secrets. `contents` bounds the bytes of file contents alone. `below` is the workspace's path
    in its project, if it is a folder of it: globs and names of secrets start from the project.
    """
    began = time.monotonic()
    view = _View(root, search, opened=opened, hidden=hidden, memory=memory, mask=mask, below=below)
    room = view.packed(total, contents)
    artifacts = view.artifacts(room, total)
    receipt = view.receipt(room, int(1000 * (time.monotonic() - began)))
    return Gathered(artifacts, tuple(view.withheld), receipt, view.everything)


class _View:
    """One question to a workspace, and everything that was found out for it."""

    def __init__(
        self,
        root: Path,
        search: Search,
        *,
        opened: tuple[Opened, ...],
        hidden: tuple[str, ...],
        memory: Path | None,
        mask: Mask,
        below: str,
    ) -> None:
        self._root, self._search, self._opened, self._mask = root, search, opened, mask
        self._below = below
        self._hides = Globs(hidden, below=below)
        self._said = [word for hint in search.hints for word in words_in(hint)]
        walked = walk(root)
        self._files = {one.path: one for one in walked.files if not self._hides(one.path)}
        self._more = walked.more
        names = Names(self._files, os.path.realpath(root))
        self._ranked = self._rank(walked, memory)
        self._answers = answers(root, search.wanted, frozenset(self._files), names, self._hides, self._secret)
        self._traced = names.named_in(search.traces)
        self._named = names.named_in(search.hints[:1])
        self._told = names.named_in(search.hints[1:])
        self.withheld: list[Withheld] = []
        self._outlines: list[tuple[str, str]] = []
        self._sheets: dict[str, Sheet] = {}
        self.everything = False

    def _rank(self, walked: Walked, memory: Path | None) -> Ranked:
        counts = counts_of(self._root, memory)
        with counts.lock:
            counts.bring_up_to_date(countable(walked.files))
            return rank(counts, list(self._files), question(self._search), self._said)

    def _secret(self, path: str) -> str:
        """The kind of secret that a file is by its path in the project; empty if it is none."""
        return secret_by_name(f"{self._below}/{path}" if self._below else path)

    # -- filling the room ---------------------------------------------------------------------------------------------

    def packed(self, total: int, contents: int | None) -> Room:
        """The files and parts of files that are shown."""
        rest = total - int((_LISTING + _NOTE) * total) - min(_LEAST, total // 4)
        room = Room(rest if contents is None else min(contents, total))
        beside = max(0, min(rest - room.left, int(_OUTLINES * total)))
        sought = Sought(self._ranked.worth)
        pack_musts(room, list(self._musts(room)), sought)
        for sheet in self._sheets.values():
            if sheet.how == "opened" and not sheet.shown:  # it may have grown since it was opened
                why = f"its {sheet.size} bytes do not fit into what this model can read"
                self.withheld.append(Withheld(sheet.path, why))
        taken = {sheet.path for sheet in room.sheets}
        if self._fits(room, taken):
            self._pack_everything(room, taken)
        elif self._matches(taken):
            kept = int(_OUTLINES * room.left) if contents is None else 0
            room.left -= kept
            found = [
                Candidate(hit.path, hit.score, self._ranked.weights[kind_of(hit.path)])
                for hit in self._ranked.hits[: 2 * _CANDIDATES]
                if hit.path not in taken and not self._secret(hit.path)
            ]
            pack_found(room, found[:_CANDIDATES], sought, self._read)
            self._tell_left_out(room, found)
            self._outline([one.path for one in found if one.path in self._sheets], kept + beside, room.total)
        else:
            self._pack_overview(room)
        for hit in self._ranked.hits:
            if hit.path in self._sheets:
                self._sheets[hit.path].score = hit.score
                self._sheets[hit.path].reason = self._sheets[hit.path].reason or f"words: {', '.join(hit.words)}"
        return room

    def _musts(self, room: Room) -> Iterator[Must]:
        """The files that must go in, in their order (rule 2); a file that cannot is recorded with the reason."""
        seen: set[str] = set()
        for one in self._opened:
            if why := why_unreadable(self._root, one.path):
                self.withheld.append(Withheld(one.path, why))
            elif (sheet := self._read(one.path)) is None:
                self.withheld.append(Withheld(one.path, "it is no text"))
            else:
                sheet.how, sheet.reason, sheet.exact = "opened", "opened by you", one.lines is not None
                seen.add(one.path)
                yield Must(sheet, (one.lines,) if one.lines else (), only=one.lines is not None)
        self.withheld += self._secrets(seen)
        asked = [(path, (one.lines,) if one.lines else ()) for one, path in self._answers.files]
        groups: list[tuple[str, str, list[Named]]] = [
            ("named", "in the output of a failing check", self._traced),
            ("asked", "asked for by the model", [Named(path, lines) for path, lines in asked]),
            ("named", "named in the goal", self._named),
            ("named", "named in a plan or a note", self._told),
        ]
        for how, reason, named in groups:
            for path, lines in named:
                if path in seen or self._secret(path):
                    continue
                if (sheet := self._read(path)) is None:
                    if text_of(self._root, path) != EMPTY:
                        self.withheld.append(Withheld(path, "it is no text"))
                    continue
                seen.add(path)
                sheet.how, sheet.reason = ("asked" if how == "asked" else "named"), reason
                yield Must(sheet, self._lines_of(path, lines))

    def _lines_of(self, path: str, lines: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        """All lines of a file that matter, whatever named them."""
        others = [n.lines for n in (*self._traced, *self._named, *self._told) if n.path == path]
        asked = [(one.lines,) for one, file in self._answers.files if file == path and one.lines]
        return tuple(dict.fromkeys((*lines, *(line for group in (*asked, *others) for line in group))))

    def _secrets(self, opened: set[str]) -> Iterator[Withheld]:
        """The files that a hint mentions and that are secrets by their name, also those that `.gitignore` hides."""
        words = {word.removeprefix("./") for hint in self._search.hints for word in _MENTIONED.findall(hint)}
        by_git = {word for word in words if self._secret(word) and not why_unreadable(self._root, word)}
        named = {one.path for one in (*self._named, *self._told, *self._traced)}
        named |= {path for path in self._files if path.rpartition("/")[2] in words}
        for path in sorted((by_git | named).difference(opened)):
            if (why := self._secret(path)) and not self._hides(path):
                yield Withheld(path, f"a secret by its name: {why}", f"to show it: --context {shlex.quote(path)}")

    def _fits(self, room: Room, taken: set[str]) -> bool:
        """Whether all source, tests and settings of the project fit into the room, so that nothing needs choosing."""
        rest = (one for one in self._files.values() if one.path not in taken and _is_shown_whole(one))
        return not self._more and sum(one.size for one in rest) <= room.left

    def _matches(self, taken: set[str]) -> bool:
        """Whether words of the question were found: in a README alone they are not, unless the question is about it."""
        lifted = weights(self._said)
        kinds = {kind_of(hit.path) for hit in self._ranked.hits}
        return bool(taken) or any(lifted[kind] >= WEIGHTS["test"] for kind in kinds)

    def _pack_everything(self, room: Room, taken: set[str]) -> None:
        scores = {hit.path: hit.score for hit in self._ranked.hits}
        order = sorted(
            self._files.values(), key=lambda one: (not _is_shown_whole(one), -scores.get(one.path, 0.0), one)
        )
        small = self._texts_of_others() <= _SMALL * room.total - (room.total - room.left)
        self.everything = True
        for one in order:
            if one.path in taken or self._secret(one.path) or one.size > MOST_BYTES:
                self.everything = self.everything and one.path in taken
                continue
            wanted = small or _is_shown_whole(one) or one.path in scores or one.path.upper().startswith("README")
            sheet = self._read(one.path) if wanted else None
            if sheet is not None and room.add(sheet, sheet.everything):
                sheet.reason = "" if one.path in scores else "the whole project fits"
            elif sheet is not None or not wanted:
                self.everything = False
        self.everything &= all(sheet.is_whole for sheet in room.sheets)

    def _texts_of_others(self) -> int:
        """The bytes of all texts of a project, but very many bytes if too many files would have to be read for that."""
        others = [one for one in self._files.values() if not _is_shown_whole(one)]
        if len(others) > _OTHERS or sum(min(one.size, MOST_READ) for one in others) > _OTHERS * MOST_BYTES // 8:
            return sys.maxsize
        texts = sum(one.size for one in others if self._read(one.path) is not None)
        return texts + sum(one.size for one in self._files.values() if _is_shown_whole(one))

    def _pack_overview(self, room: Room) -> None:
        """No word was found: the README, and outlines of the biggest source files of each folder (rule 3)."""
        readme = [path for path in self._files if path.upper().startswith("README") and not self._secret(path)]
        for path in readme[:1]:
            if (sheet := self._read(path)) is not None:
                pack_musts(room, [Must(sheet, ())], Sought({}))
                sheet.reason = "no word was found; about the project"
        source = [one for one in self._files.values() if kind_of(one.path) == "source" and one.size <= MOST_BYTES]
        folders: dict[str, list[Found]] = {}
        for one in sorted(source, key=lambda one: (-one.size, one.path)):
            folders.setdefault(one.path.rpartition("/")[0], []).append(one)
        size = {folder: sum(one.size for one in files) for folder, files in folders.items()}
        turns = [  # the biggest file of every folder, then the second ones
            (turn, -size[folder], one.path) for folder, files in folders.items() for turn, one in enumerate(files)
        ]
        left = min(room.left, int(0.3 * room.total))
        biggest = [path for _, _, path in sorted(turns)[: 4 * _OUTLINED]]
        self._outline(biggest, left, room.total, least=1, most=4 * _OUTLINED)

    def _outline(self, paths: list[str], left: int, total: int, *, least: int = _BIG, most: int = _OUTLINED) -> None:
        """Outlines of the files that are not shown whole, as far as there is room."""
        for path in paths:
            sheet = self._read(path)
            if len(self._outlines) == most or sheet is None or sheet.is_whole or len(sheet.lines) < least:
                continue
            found = sheet.structure.definitions
            text = f"{path}\n" + "".join(f"{one.line}: {one.text}\n" for one in found)
            size = len(text.encode())
            if found and size <= min(left, max(total // 20, 4_000)):
                self._outlines.append((path, text))
                left -= size

    def _tell_left_out(self, room: Room, found: list[Candidate]) -> None:
        """The files that were found and that there was no room for, if their words count much."""
        taken = {sheet.path for sheet in room.sheets}
        worth = [one for one in found if one.path not in taken and one.score >= found[0].score / 2]
        room.left_out += (LeftOut(one.path, "there is no room for it") for one in worth[:5])

    def _read(self, path: str) -> Sheet | None:
        """The file, with private keys covered; None if it is no text."""
        if path not in self._sheets:
            text = text_of(self._root, path)
            if text is None or (text.text == "" and path not in {one.path for one in self._opened}):
                return None
            self._sheets[path] = Sheet(path, covered(text.text, self._mask), whole=text.whole)
        return self._sheets[path]

    # -- the result ---------------------------------------------------------------------------------------------------

    def artifacts(self, room: Room, total: int) -> tuple[ContextArtifact, ...]:
        """The list of names, the note, the outlines and the files, by path."""
        facts = Facts(
            search=self._search,
            sheets=room.sheets,
            everything=self.everything,
            outlined=[path for path, _ in self._outlines if path not in {sheet.path for sheet in room.sheets}],
            found=self._ranked.found
            if self._matches({sheet.path for sheet in room.sheets if sheet.how != "found"})
            else {},
            files_with=self._ranked.files,
            missing=self._ranked.missing,
            refused=self._answers.refused,
            withheld=[one.path for one in self.withheld],
            more=self._more,
        )
        note, outlines = about(facts), "\n".join(text for _, text in self._outlines)
        files = [sheet.artifact() for sheet in sorted(room.sheets, key=lambda sheet: sheet.path)]
        left = total - sum(len(one.content.encode()) for one in files) - len(outlines.encode())
        note = note if len(note.encode()) <= left else ""
        scores = {hit.path: hit.score for hit in self._ranked.hits}
        most = min(left - len(note.encode()), max(int(_LISTING * total), 200))
        tree = listing(list(self._files), scores, most, more=self._more)
        out = [ContextArtifact(name="files of the workspace", path=".", content=tree)]
        if note:
            out.append(ContextArtifact(name=NAME, path="", content=note))
        if outlines:
            out.append(ContextArtifact(name="definitions in big files, with line numbers", path="", content=outlines))
        return (*out, *files)

    def receipt(self, room: Room, duration: int) -> Receipt:
        """What was shown, and why."""
        order = sorted(room.sheets, key=lambda sheet: (_ORDER[sheet.how], -sheet.score, sheet.path))
        shown = [sheet.receipt() for sheet in order]
        contents = sum(one.bytes for one in shown)
        partly = {sheet.path for sheet in room.sheets}
        shown += (
            Shown(path, "found", "outline", len(text.encode()), estimated_tokens(text), lines=())
            for path, text in self._outlines
            if path not in partly
        )
        return Receipt(
            method=METHOD,
            files=tuple(shown),
            bytes=contents,
            terms=self._ranked.found,
            notFound=self._ranked.missing,
            leftOut=tuple(room.left_out),
            refused=self._answers.told,
            durationMs=duration,
        )


def _is_shown_whole(one: Found) -> bool:
    """Whether a file of a small project is worth showing without a word of the goal in it."""
    return kind_of(one.path) in ("source", "test", "settings")
