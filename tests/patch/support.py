"""What the patch tests share: correct diffs made by difflib, and the pure steps in a row."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from orchestra.core.disk import Disk
from orchestra.core.work import Refusal
from orchestra.patch.apply import AppliedFiles, apply, read_images
from orchestra.patch.diff import FileChange, parse_diff
from orchestra.patch.locate import Image, Prepared, compute
from orchestra.patch.result import Patch, parse_result
from orchestra.patch.safety import check


def lines_of(text: str) -> list[str]:
    """Lines with their line feeds; only a line feed ends a line."""
    parts = text.split("\n")
    last = parts.pop()
    return [f"{part}\n" for part in parts] + ([last] if last else [])


def make_diff(path: str, old: str | None, new: str | None, *, context: int = 3) -> str:
    """The diff git would print, for one file."""
    out = [f"diff --git a/{path} b/{path}"]
    if old is None:
        out.append("new file mode 100644")
    if new is None:
        out.append("deleted file mode 100644")
    names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
    body = list(difflib.unified_diff(lines_of(old or ""), lines_of(new or ""), *names, n=context, lineterm="\n"))
    for line in body:
        out.append(line.removesuffix("\n"))
        if not line.endswith("\n"):
            out.append("\\ No newline at end of file")
    return "\n".join(out) + "\n"


def canonical(diff: str, summary: str = "what it does") -> str:
    """A reply in the normal form of S1 §5.2."""
    head = f"<<<AIO_RESULT_START>>>\ntype: PATCH\nsummary: {summary}\n<<<AIO_RESULT_END>>>\n"
    return f"{head}\n[PATCH_BEGIN]\n{diff.removesuffix(chr(10))}\n[PATCH_END]\n"


def changes_of(diff: str) -> tuple[FileChange, ...]:
    changes = parse_diff(diff)
    assert not isinstance(changes, Refusal), changes.message
    return changes


def prepare(diff: str, files: Mapping[str, bytes | str]) -> Prepared | Refusal:
    """Parse, check and locate a diff over files held in memory."""
    changes = parse_diff(diff)
    if isinstance(changes, Refusal):
        return changes
    refused = check(changes)
    if refused:
        return refused
    data = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    touched = {path for change in changes for path in change.paths}
    return compute(changes, {path: Image(data[path], 0o644) if path in data else None for path in touched})


def patched(diff: str, old: bytes | str, path: str = "f.txt") -> bytes | Refusal:
    """What one file becomes."""
    done = prepare(diff, {path: old})
    if isinstance(done, Refusal):
        return done
    assert done.files[0].data is not None
    return done.files[0].data


def prepare_in(root: Path, diff: str) -> Prepared:
    """Prepare a diff over a real folder; it must not be refused."""
    changes = changes_of(diff)
    assert check(changes) is None
    images = read_images(root, changes)
    assert not isinstance(images, Refusal), images.message
    done = compute(changes, images)
    assert not isinstance(done, Refusal), done.message
    return done


def apply_in(root: Path, diff: str) -> AppliedFiles | Refusal:
    return apply(root, prepare_in(root, diff), disk=Disk(), scratch=root.parent / "scratch")


def patch_of(text: str) -> Patch:
    result = parse_result(text)
    assert isinstance(result, Patch), result
    return result


def snapshot(root: Path) -> dict[str, tuple[str, bytes]]:
    """Every path below a folder: kind and mode, content."""
    found: dict[str, tuple[str, bytes]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()).encode())
        elif path.is_dir():
            found[name] = ("folder", b"")
        else:
            found[name] = (f"file {path.stat().st_mode & 0o777:o}", path.read_bytes())
    return found
