"""The names of a workspace's files for a model, within a bound: the folders that matter first. Pure.

Rules
1. A line is a folder and its files. Folders stand in the order of their best file, then of their paths; the files of a
   folder, too. So a bound cuts off what matters least, not the end of the alphabet.
2. Folders that there is no room for are listed with their numbers of files, as far as there is room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_MOST_NAMES = 60  # of one folder, before the other folders had their turn
_FOLDERS_SHARE = 0.2  # of the room: folders without their files


def listing(paths: Sequence[str], scores: Mapping[str, float], most: int, *, more: bool = False) -> str:
    """The names of files, as many as fit; `more`: some files were not looked at."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append(name)
    for folder, names in folders.items():
        names.sort(key=lambda name: (-scores.get(f"{folder}/{name}" if folder else name, 0.0), name))
    best = {
        folder: scores.get(f"{folder}/{names[0]}" if folder else names[0], 0.0) for folder, names in folders.items()
    }
    order = sorted(folders, key=lambda folder: (-best[folder], folder))
    rest = "… and more files that were not looked at: the project is too big\n" if more else ""
    room = most - len(rest.encode()) - 60  # the last line
    kept = int(_FOLDERS_SHARE * room)
    lines: list[str] = []
    unnamed: dict[str, int] = {}
    for folder in order:
        line, taken = _line(folder, folders[folder], room - kept)
        if not taken:
            unnamed[folder] = len(folders[folder])
            continue
        lines.append(line)
        room -= len(line.encode())
        if taken < len(folders[folder]):
            unnamed[folder] = len(folders[folder]) - taken
    room = max(room, 0)
    for folder in [*unnamed]:
        line = f"{folder or '.'}/ and {unnamed[folder]} more files\n"
        if len(line.encode()) <= room:
            lines.append(line)
            room -= len(line.encode())
            del unnamed[folder]
    if unnamed:
        rest = f"… and {sum(unnamed.values())} more files in {len(unnamed)} folders\n" + rest
    text = "".join(lines) + rest
    return text if len(text.encode()) <= most else ""


def _line(folder: str, names: Sequence[str], room: int) -> tuple[str, int]:
    """A folder with as many of its files as fit, and how many that are."""
    head = f"{folder}/: " if folder else "./: "
    size = len(head.encode()) + 1
    taken = 0
    for name in names[:_MOST_NAMES]:
        grows = len(name.encode()) + 2 * (taken > 0)
        if size + grows > room:
            break
        size += grows
        taken += 1
    return head + ", ".join(names[:taken]) + "\n", taken
