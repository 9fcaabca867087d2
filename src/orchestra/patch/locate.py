"""File changes + the files as they are -> post-images, all in memory, all or nothing (MS-6.4, MS-6.5).

Rules
1. Every hunk is found in the old image (find.py), independent of the other hunks; hunks must not overlap or touch.
2. Bytes that the patch does not change stay as they are: CRLF, byte order mark, trailing blanks, a missing
   final newline. Added lines take the line ending in use around them, unless the hunk matched line endings and all.
3. "\\ No newline at end of file" counts only at the end of the file; without it, the file's own end is kept.
4. A change that changes nothing is refused: "applied" means that a file changed (T-2). A hunk that seems applied
   already is refused with that hint; it is never taken for a success.
5. A create needs a path without a file, a delete needs the file's whole text, a rename needs a free name.

Pure: `images` holds every touched path, read by apply.read_images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from orchestra.core.secretfiles import secret_by_name
from orchestra.core.work import PatchFile, Refusal
from orchestra.patch.diff import FileChange, Hunk, Line
from orchestra.patch.explain import applied_already, mismatch, several, withheld
from orchestra.patch.find import find
from orchestra.patch.match import Nowhere, Place, Several
from orchestra.patch.prepared import Prepared, PreparedFile, prepared, sha256
from orchestra.patch.text import BOM, KEYS, FileText
from orchestra.patch.unified import Edit, Names, inverse, render, replaced, trim

# The types that `compute` returns, re-exported for callers of this module.
__all__ = ["Image", "Prepared", "PreparedFile", "compute"]


class Image(msgspec.Struct, frozen=True):
    """A regular file: its bytes and permission bits."""

    data: bytes
    mode: int


def compute(changes: Sequence[FileChange], images: Mapping[str, Image | None]) -> Prepared | Refusal:
    """Compute the new text of every touched file. The first refusal refuses the whole patch (D-12)."""
    files: list[PreparedFile] = []
    for change in changes:
        file = _file(change, images)
        if isinstance(file, Refusal):
            return file
        files.append(file)
    return prepared(files)


def _file(change: FileChange, images: Mapping[str, Image | None]) -> PreparedFile | Refusal:
    old = images[change.old] if change.old is not None else None
    taken = images[change.new] if change.new is not None and change.new != change.old else None
    if taken is not None:
        return _taken(change, taken)
    if change.kind == "create":
        return _create(change)
    if old is None:
        if change.kind == "modify" and _is_unmarked_create(change):
            return _create(change)
        return Refusal(
            "context_mismatch",
            f"{change.old} does not exist. To create a file, write `new file mode 100644` and `--- /dev/null`",
            change.old or "",
        )
    if b"\0" in old.data:
        return Refusal("unsafe", f"{change.old} is a binary file; text patches do not apply to it", change.path)
    return _delete(change, old) if change.kind == "delete" else _modify(change, old)


def _taken(change: FileChange, image: Image) -> Refusal:
    if change.kind == "rename":
        return Refusal("conflict", f"{change.old} cannot become {change.new}: that file exists already", change.path)
    made = _create(change)
    same = isinstance(made, PreparedFile) and made.data == image.data
    same = same and not secret_by_name(change.path)  # for a secret no correct guess is confirmed
    how = "with exactly this text" if same else "with other text; change it with hunks instead of creating it"
    return Refusal("conflict", f"{change.path} cannot be created: it exists already, {how}", change.path)


def _is_unmarked_create(change: FileChange) -> bool:
    """Whether the change can only be a new file, though its header does not mark it: `@@ -0,0 +1,n @@`, all added."""
    return (
        len(change.hunks) == 1 and change.hunks[0].start == 0 and all(line.op == "+" for line in change.hunks[0].lines)
    )


def _create(change: FileChange) -> PreparedFile | Refusal:
    if len(change.hunks) > 1:
        return Refusal("invalid_patch", f"{change.path} is new, so it has one hunk; the patch has several", change.path)
    lines: list[bytes] = []
    for line in _body(change.hunks, "+"):
        if line.op != "+":
            said = f"{change.path} is new, so every line starts with `+`; this one does not: {line.text[:80]!r}"
            return Refusal("invalid_patch", said, change.path)
        lines.append(line.text.encode() + (b"\n" if line.newline else b""))
    if any(not line.endswith(b"\n") for line in lines[:-1]):
        return Refusal("invalid_patch", f"{change.path}: only the last line may lack its newline", change.path)
    mode = 0o755 if change.mode == "100755" else 0o644
    names = Names(None, change.path, None, _git_mode(mode))
    return _prepare(
        msgspec.structs.replace(change, kind="create", old=None), names, [Edit(0, 0, tuple(lines))], old=None, mode=mode
    )


def _delete(change: FileChange, image: Image) -> PreparedFile | Refusal:
    key = KEYS["trailing blanks"]
    file = FileText(image.data)
    said, real = [key(line.text) for line in _body(change.hunks, "-") if line.op == "-"], file.keys("trailing blanks")
    other = [line for line in _body(change.hunks, "-") if line.op != "-"]
    if other or said != real:
        line = next(
            (i for i, pair in enumerate(zip(said, real, strict=False)) if pair[0] != pair[1]), min(len(said), len(real))
        )
        there = f"line {line + 1} is {real[line][:80]!r}" if line < len(real) else f"the file has {len(real)} lines"
        message = withheld(change.path, change.paths) or (
            f"{change.path} is deleted only if the patch removes its whole text; {there}"
        )
        return Refusal("context_mismatch", message, change.path)
    names = Names(change.path, None, _git_mode(image.mode), None)
    return _prepare(change, names, [Edit(0, len(file.lines), ())], old=image, mode=None)


def _body(hunks: Sequence[Hunk], op: str) -> list[Line]:
    """The lines of a create or delete. An empty line without prefix counts inside them, and not below them."""
    lines = [line for hunk in hunks for line in _hard(hunk)]
    return [Line("+" if op == "+" else "-", "") if line.op == " " and not line.text else line for line in lines]


def _hard(hunk: Hunk) -> list[Line]:
    lines = list(hunk.lines)
    for _ in range(hunk.soft):
        if lines[-1].text.strip():
            break  # text without its prefix must not be dropped
        lines.pop()
    return lines


def _modify(change: FileChange, image: Image) -> PreparedFile | Refusal:
    file = FileText(image.data)
    edits: list[Edit] = []
    doubts: list[str] = []
    for number, hunk in enumerate(change.hunks, 1):
        if not hunk.changes:
            continue  # context only: no change
        found = find(hunk, file)
        if isinstance(found, Nowhere | Several):
            return _refusal(change, number, hunk, found=found, file=file)
        new = [edit for place in found for edit in _edits(place, file)]
        if _touching(edits, new):
            return Refusal("conflict", f"{change.path}: hunk {number} touches the place of another hunk", change.path)
        edits += new
        doubts += [f"{change.path}, hunk {number}: {place.doubt}" for place in found if place.doubt]
    edits = trim(sorted(edits, key=lambda edit: (edit.start, edit.stop)), file.lines)
    mode = _mode(image.mode, change.mode)
    if not edits and mode == image.mode and change.kind == "modify":
        return Refusal("invalid_patch", f"{change.path}: the patch changes nothing in the file as it is", change.path)
    names = Names(change.old, change.new, _git_mode(image.mode), _git_mode(mode))
    done = _prepare(change, names, edits, old=image, mode=mode)
    return msgspec.structs.replace(done, doubts=tuple(doubts))


def _refusal(change: FileChange, number: int, hunk: Hunk, *, found: Nowhere | Several, file: FileText) -> Refusal:
    path, where = change.path, f"{change.path}, hunk {number}"
    if secret := withheld(where, change.paths):
        return Refusal("context_mismatch", secret, path)
    if isinstance(found, Several):
        return Refusal("context_mismatch", several(where, found.starts), path)
    message = mismatch(where, hunk, file=file, note=found.note) + applied_already(hunk, file)
    return Refusal("context_mismatch", message, path)


def _edits(place: Place, file: FileText) -> list[Edit]:
    """The runs of changed lines of a hunk, as edits of the file's lines."""
    edits: list[Edit] = []
    index = begin = place.start
    added: list[bytes] = []
    for line in (*place.lines, Line(" ", "")):
        if line.op == " ":
            if added or index > begin:
                edits.append(Edit(begin, index, tuple(added)))
                added = []
            index += 1
            begin = index
        elif line.op == "-":
            index += 1
        else:
            added.append(_bytes(line, file, index, literal=place.literal))
    return _at_the_start(place, _at_the_end(place, edits, file), file)


def _bytes(line: Line, file: FileText, index: int, *, literal: bool) -> bytes:
    """An added line with its ending (rule 2)."""
    if literal:
        return f"{line.text}\n".encode()
    return line.text.removesuffix("\r").removeprefix(BOM).encode() + file.ending(max(index - 1, 0))


def _at_the_end(place: Place, edits: list[Edit], file: FileText) -> list[Edit]:
    """Rule 3: what an edit of the file's last line does to the final newline."""
    size = len(file.lines)
    if not edits or edits[-1].stop != size or not edits[-1].lines:
        return edits
    edit = edits[-1]
    lines = list(edit.lines)
    last = [line for line in place.lines if line.op == "+"][-1]
    told = any(not line.newline for line in place.lines)
    if not last.newline and place.literal:
        lines[-1] = lines[-1].removesuffix(b"\n")  # a CR before it is text
    elif not last.newline or not (told or file.ends_with_newline):
        lines[-1] = lines[-1].removesuffix(b"\n").removesuffix(b"\r")
    start = edit.start
    if start == size and not file.ends_with_newline:
        start -= 1  # lines are added below a line without newline: that line needs one now
        lines.insert(0, file.lines[start] + file.ending(start))
    return [*edits[:-1], Edit(start, edit.stop, tuple(lines))]


def _at_the_start(place: Place, edits: list[Edit], file: FileText) -> list[Edit]:
    """Rule 2: the byte order mark stays first, unless the patch's own lines contain it."""
    mark = BOM.encode()
    if place.literal or not edits or edits[0].start > 0 or not file.lines or not file.lines[0].startswith(mark):
        return edits
    lines, stop = list(edits[0].lines), edits[0].stop
    if stop == 0 or not lines:  # the file gets another first line: move the mark to it
        lines += [line.removeprefix(mark) for line in file.lines[stop : stop + 1]]
        stop = min(stop + 1, len(file.lines))
    if lines:
        lines[0] = mark + lines[0]
    return [Edit(0, stop, tuple(lines)), *edits[1:]]


def _touching(edits: Sequence[Edit], new: Sequence[Edit]) -> bool:
    """Whether two hunks change the same line, or both add lines in one gap, so that their order would be a guess."""
    for a in edits:
        for b in new:
            if a.start < b.stop and b.start < a.stop:
                return True
            inserts = a.start == a.stop or b.start == b.stop
            if inserts and a.lines and b.lines and (a.stop == b.start or b.stop == a.start):
                return True
    return False


def _mode(mode: int, wanted: str | None) -> int:
    """The permission bits after the patch: only the x bits change, and only if the patch has a mode."""
    if wanted == "100755":
        return mode | (mode & 0o444) >> 2
    return mode & ~0o111 if wanted == "100644" else mode


def _git_mode(mode: int) -> str:
    return "100755" if mode & 0o100 else "100644"


def _prepare(
    change: FileChange, names: Names, edits: Sequence[Edit], *, old: Image | None, mode: int | None
) -> PreparedFile:
    lines = FileText(old.data).lines if old else []
    edits = trim(edits, lines)
    data = None if change.kind == "delete" else replaced(edits, lines)
    file = PatchFile(
        path=change.path,
        change=change.kind,
        before=None if old is None else sha256(old.data),
        after=None if data is None else sha256(data),
        added=sum(len(edit.lines) for edit in edits),
        removed=sum(edit.stop - edit.start for edit in edits),
        mode=mode,
        beforeMode=None if old is None else old.mode,
        oldPath=change.old if change.kind == "rename" else None,
    )
    places = tuple((edit.start, edit.stop) for edit in edits)
    back = inverse(edits, lines)
    return PreparedFile(file, data, render(names, edits, lines), replaced=places, length=len(lines), back=back)
