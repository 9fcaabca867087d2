"""Taking applied patches back, exactly: from what each kept of the files before, and the hashes in the journal. Pure.

Rules
1. Before a patch is written, the lines that it replaces are kept in a file of the run (`Undo`, D-04). The event that
   records the patch names that file. Together with the patched file they give the old file, to the byte.
2. Several patches are taken back together, the last first. For each path the journal has the hash before the first
   patch and after the last. On disk it must have one of the two: the last, or the first if an earlier attempt was cut
   short. Otherwise the file changed since: every such file is named, and nothing is changed.
3. Where one patch does not begin with the file that the patch before it left, something else changed the file between
   them. Then its old text cannot be had without that change, and nothing is taken back.
4. A text is used only if it has the hash that was recorded for it.
5. A file that is as it was before all patches is left alone.
6. What patches changed in the end (`net_change`) is found the same way, from the files now. Patches of others that came
   later are undone first, in memory. A file that somebody else changed since cannot be known: it is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from orchestra.core.work import PatchFile, Refusal
from orchestra.patch.locate import Image
from orchestra.patch.prepared import Prepared, PreparedFile, prepared, sha256
from orchestra.patch.text import FileText
from orchestra.patch.unified import Edit, Names, inverse, render, replaced
from orchestra.patch.writer import targets_of
from orchestra.patch.written import edits_between

_ORDER = {"create": 0, "modify": 1, "delete": 2}  # so that a renamed text is always under one of its names


class UndoFile(Struct, frozen=True):
    """One file of a patch: the edits that turn the patched file into the old one."""

    path: str
    back: tuple[Edit, ...]


class Undo(Struct, frozen=True):
    """What an applied patch kept of the files before it, and the folders that it made."""

    files: tuple[UndoFile, ...]
    made: tuple[str, ...] = ()


class AppliedPatch(Struct, frozen=True):
    """A patch that was applied: its files, by their paths here, and what it kept; None: nothing was kept."""

    files: tuple[PatchFile, ...]
    undo: Undo | None


class NetFile(Struct, frozen=True):
    """A file before the first patch and after the last; None: the file did not exist."""

    path: str
    before: bytes | None
    after: bytes | None
    before_mode: int | None
    after_mode: int | None


class Net(Struct, frozen=True):
    """What patches changed in the end. `unknown` are the files whose texts of then cannot be had any more."""

    files: tuple[NetFile, ...]
    unknown: tuple[str, ...] = ()


class _State(Struct, frozen=True):
    """A path's state: the hash of its text, None for no file, and its mode, of which the x bit counts."""

    digest: str | None
    mode: int

    def is_like(self, other: _State) -> bool:
        same = self.digest == other.digest
        return same and (self.digest is None or self.mode & 0o100 == other.mode & 0o100)


class _Unknown:
    """A text that an attempt which was cut short has restored already, so that what it was is not there any more."""


_Text = bytes | None | _Unknown
_GONE = _Unknown()


def undo_of(patch: Prepared, made: Iterable[str]) -> bytes:
    """The file that a patch keeps of what it changes (rule 1)."""
    return msgspec.json.encode(Undo(tuple(UndoFile(part.file.path, part.back) for part in patch.files), tuple(made)))


def paths_of(patches: Iterable[AppliedPatch]) -> tuple[str, ...]:
    """Every path that the patches touched."""
    return tuple(dict.fromkeys(target.path for patch in patches for f in patch.files for target in targets_of(f)))


def folders_made(patches: Iterable[AppliedPatch]) -> frozenset[str]:
    """The folders that the patches made: they are removed when they are empty again."""
    return frozenset(folder for patch in patches for folder in (patch.undo.made if patch.undo else ()))


def taken_back(patches: Sequence[AppliedPatch], images: Mapping[str, Image | None]) -> Prepared | Refusal:
    """What restores the files, from the patches in the order of application and the files as they are now."""
    chains = _chains(patches)
    if isinstance(chains, Refusal):
        return chains
    now = {path: _state(images[path]) for path in chains}
    changed = [path for path, (first, last) in chains.items() if _changed(now[path], first, last)]
    if changed:
        what = f"{', '.join(changed)} changed since the run's patches were applied"
        return Refusal("conflict", f"{what}", changed[0])
    todo = [p for p, (first, last) in chains.items() if not (now[p].is_like(first) or first.is_like(last))]
    done = {path for path, (_, last) in chains.items() if not now[path].is_like(last)}
    texts = _texts(patches, {path: _GONE if path in done else _data(images[path]) for path in chains})
    if isinstance(texts, Refusal):
        return texts
    files: list[PreparedFile] = []
    for path in todo:
        text, (first, last) = texts[path], chains[path]
        if isinstance(text, _Unknown) or _hash(text) != first.digest:
            return _lost(path)
        files.append(_prepared(path, first, last, old=_data(images[path]), new=text))
    return prepared(sorted(files, key=lambda part: _ORDER[part.file.change]))


def left_changed(patches: Iterable[AppliedPatch]) -> tuple[str, ...]:
    """The paths that these patches left in another state than they found them in."""
    return tuple(path for path, (first, last) in _ends(patches).items() if not first.is_like(last))


def still_changed(patches: Iterable[AppliedPatch], images: Mapping[str, Image | None]) -> tuple[str, ...]:
    """The same, without the paths that are as the patches found them by now, whoever restored them."""
    ends = _ends(patches).items()
    return tuple(p for p, (first, last) in ends if not (first.is_like(last) or _state(images.get(p)).is_like(first)))


def unlike(
    kept: Iterable[AppliedPatch], dropped: Iterable[AppliedPatch], images: Mapping[str, Image | None]
) -> tuple[str, ...]:
    """The paths that are not as `kept` left them, or as `dropped` found them where no kept patch touched them."""
    expected = {path: first for path, (first, _) in _ends(dropped).items()}
    expected |= {path: last for path, (_, last) in _ends(kept).items()}
    return tuple(path for path, state in expected.items() if not _state(images.get(path)).is_like(state))


def net_change(
    patches: Sequence[AppliedPatch], later: Sequence[AppliedPatch], images: Mapping[str, Image | None]
) -> Net:
    """What the patches changed in the end (rule 6). `later` are the patches of others that came after them."""
    ends = _ends(patches)
    changed = [path for path, (first, last) in ends.items() if not first.is_like(last)]
    texts: dict[str, _Text] = {path: _data(images.get(path)) for path in (*ends, *paths_of(later))}
    for patch in reversed(later):
        _take_from(texts, patch)
    after = {path: _known(texts[path], ends[path][1]) for path in changed}
    for patch in reversed(patches):
        _take_from(texts, patch)
    before = {path: _known(texts[path], ends[path][0]) for path in changed}
    files: list[NetFile] = []
    unknown: list[str] = []
    for path in changed:
        old, new, (first, last) = before[path], after[path], ends[path]
        if isinstance(old, _Unknown) or isinstance(new, _Unknown):
            unknown.append(path)
        else:
            modes = (None if old is None else first.mode, None if new is None else last.mode)
            files.append(NetFile(path, old, new, *modes))
    return Net(tuple(files), tuple(unknown))


def _ends(patches: Iterable[AppliedPatch]) -> dict[str, tuple[_State, _State]]:
    """For each path its state before the first patch and after the last."""
    ends: dict[str, tuple[_State, _State]] = {}
    for target in (target for patch in patches for file in patch.files for target in targets_of(file)):
        before, after = _State(target.before, target.before_mode), _State(target.after, target.mode)
        ends[target.path] = ends.get(target.path, (before, before))[0], after
    return ends


def _take_from(texts: dict[str, _Text], patch: AppliedPatch) -> None:
    """Undo one patch in memory. What cannot be undone is unknown from then on."""
    kept = {file.path: file.back for file in patch.undo.files} if patch.undo else None
    for file in reversed(patch.files):
        now = texts[file.path]
        if isinstance(now, _Unknown) or _hash(now) != file.after:
            text: _Text | Refusal = _GONE
        else:
            text = _before(file, now, kept)
        if file.oldPath is not None:
            texts[file.path] = _GONE if isinstance(now, _Unknown) else None
        texts[file.oldPath or file.path] = _GONE if isinstance(text, Refusal) else text


def _known(text: _Text, state: _State) -> _Text:
    """The text, if it is the one of this state (rule 4)."""
    return text if isinstance(text, _Unknown) or _hash(text) == state.digest else _GONE


def _chains(patches: Sequence[AppliedPatch]) -> dict[str, tuple[_State, _State]] | Refusal:
    """For each path its state before the first patch and after the last; a refusal if the chain breaks (rule 3)."""
    chains: dict[str, tuple[_State, _State]] = {}
    for target in (target for patch in patches for file in patch.files for target in targets_of(file)):
        before, after = _State(target.before, target.before_mode), _State(target.after, target.mode)
        first, last = chains.get(target.path, (before, before))
        if not last.is_like(before):
            why = f"{target.path} was changed by something else between two patches of the run"
            return Refusal("conflict", f"{why}", target.path)
        chains[target.path] = first, after
    return chains


def _changed(now: _State, first: _State, last: _State) -> bool:
    """Whether a file is neither as the patches left it nor as it was; not if the patches changed nothing in the end."""
    return not (now.is_like(first) or now.is_like(last) or first.is_like(last))


def _texts(patches: Sequence[AppliedPatch], texts: dict[str, _Text]) -> dict[str, _Text] | Refusal:
    """The text of each path before the first patch: the patches are undone from the last to the first."""
    for patch in reversed(patches):
        kept = {file.path: file.back for file in patch.undo.files} if patch.undo else None
        for file in reversed(patch.files):
            text = _before(file, texts[file.path], kept)
            if isinstance(text, Refusal):
                return text
            if file.oldPath is not None:
                texts[file.path] = None
            texts[file.oldPath or file.path] = text
    return texts


def _before(file: PatchFile, now: _Text, kept: Mapping[str, tuple[Edit, ...]] | None) -> _Text | Refusal:
    """The text of a file before one patch."""
    if file.before is None:
        return None
    after = b"" if file.change == "delete" else now
    if isinstance(after, _Unknown):
        return _GONE
    if kept is None or file.path not in kept:
        why = (
            f"{file.path}: the run kept no record of its text before the patch: the change was there already (undo the"
            " run that made it), or the run is of an older version"
        )
        return Refusal("conflict", why, file.path)
    text = replaced(kept[file.path], FileText(after or b"").lines)
    # A path that all patches together left as it was may have changed since. Its text is not needed, nor used (rule 4).
    return text if _hash(text) == file.before else _GONE


def _prepared(path: str, first: _State, last: _State, *, old: bytes | None, new: bytes | None) -> PreparedFile:
    lines = FileText(old or b"").lines
    edits = edits_between(lines, FileText(new or b"").lines)
    names = Names(
        None if old is None else path,
        None if new is None else path,
        None if old is None else _git_mode(last.mode),
        None if new is None else _git_mode(first.mode),
    )
    file = PatchFile(
        path=path,
        change="create" if old is None else "delete" if new is None else "modify",
        before=last.digest,
        after=first.digest,
        added=sum(len(edit.lines) for edit in edits),
        removed=sum(edit.stop - edit.start for edit in edits),
        mode=None if new is None else first.mode,
        beforeMode=None if old is None else last.mode,
    )
    return PreparedFile(file, new, render(names, edits, lines), length=len(lines), back=inverse(edits, lines))


def _lost(path: str) -> Refusal:
    return Refusal("conflict", f"what {path} was before cannot be worked out", path)


def _state(image: Image | None) -> _State:
    return _State(None, 0) if image is None else _State(sha256(image.data), image.mode)


def _data(image: Image | None) -> bytes | None:
    return None if image is None else image.data


def _hash(data: bytes | None) -> str | None:
    return None if data is None else sha256(data)


def _git_mode(mode: int) -> str:
    return "100755" if mode & 0o100 else "100644"
