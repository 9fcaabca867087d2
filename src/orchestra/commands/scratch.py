"""Scratch folders: where the commands of a run write, outside the workspace, before anything of it is taken over.

Rules
1. The folder is outside the workspace, because an overlay's upper layer must not lie in its lower layer. Its contents
   are hostile until they have been checked (worker/layer.py).
2. The folder is a cache. A run whose scratch folder is missing goes on without it.
3. The folder is removed when the run ends.
4. `layers.json` may name only paths inside this scratch folder; anything else in it is ignored. No configuration opens
   the folder to commands (config/borders.py). So a command that reached the folder all the same would gain no other
   folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from orchestra.config.borders import scratch_places
from orchestra.context.leftovers import Leftovers, keepable, missed, only_built
from orchestra.core.errors import SandboxError
from orchestra.core.run import digest
from orchestra.policy.policy import within
from orchestra.worker.kept import prune
from orchestra.worker.layer import changes
from orchestra.worker.removal import discard


class Scratch:
    """The scratch folder of one run."""

    def __init__(self, root: Path, run_id: str, project: Path, workspace: Path | None = None) -> None:
        """`workspace` is the folder that the run's commands see, if it is not the whole project."""
        # two projects may have the same run id
        self._folder = root / f"{run_id}-{digest(os.fsencode(project))[7:19]}"
        self._workspace = workspace or project

    def fresh(self, name: str, *, mode: int = 0o711) -> Path:
        """Make an empty folder of this name. What an earlier process left there is deleted."""
        folder = self._folder / name
        try:
            os.mkdir(folder, mode)  # mostly there is no such folder yet
        except OSError:
            discard(folder)
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o711)
            os.mkdir(folder, mode)
        return folder

    def clear(self, name: str) -> None:
        """Delete the folder of this name, if an earlier process left one."""
        if os.path.lexists(f"{self._folder}/{name}"):
            discard(self._folder / name)

    def remember(self, name: str, layers: tuple[Path, ...]) -> None:
        """Record the private layers (build output, caches) after a command: its own and those below it."""
        if layers:
            folder = self._folder / name
            folder.mkdir(exist_ok=True, mode=0o711)
            (folder / "layers.json").write_bytes(msgspec.json.encode([str(layer) for layer in layers]))

    def layers(self, name: str) -> tuple[Path, ...]:
        """The layers that `remember` recorded for a command, in any process of the run; none if missing (rule 2)."""
        try:
            named = msgspec.json.decode((self._folder / name / "layers.json").read_bytes(), type=list[str])
        except (OSError, msgspec.DecodeError):
            return ()
        own = os.path.realpath(self._folder)
        return tuple(Path(layer) for layer in named if _is_folder_in(own, layer))

    def used(self, name: str, *, state: str) -> tuple[Path, tuple[str, ...]]:
        """The folder of this name, ready for the next command, with only the build output of earlier commands.

        For another `state` of the workspace the folder is emptied: build output of other code must not decide about
        this code. Also returns the names of removed files that a later command may need.
        """
        folder = self._folder / name
        upper, mark = folder / "up", folder / "state"
        if not mark.is_file() or mark.read_text() != state:
            self.fresh(name)
            mark.write_text(state)
        gone: tuple[str, ...] = ()
        if upper.is_dir():
            upper.chmod(0o755)  # a command may have closed its workspace, even to itself
            harvest = changes(upper, self._workspace, ignored=Leftovers(self._workspace))
            kept = only_built(keepable(harvest.kept, self._workspace), upper)
            gone = missed(harvest.kept, kept, upper)
            prune(upper, msgspec.structs.replace(harvest, kept=kept))
            discard(folder / "work")
        return folder, gone

    def remove(self) -> None:
        """Delete the folder, because the run has ended. Most runs of a tree have none."""
        if os.path.lexists(self._folder):
            discard(self._folder)


def scratch_root(workspace: Path, environ: Mapping[str, str], *, open_way: bool = False) -> Path:
    """The user's folder for all scratch folders, outside this workspace (rule 1).

    `open_way`: commands run as another user, and that user must be able to enter the folder.
    """
    for root in map(Path, scratch_places(environ)):
        if not within(str(root), os.path.realpath(workspace)):
            try:
                root.mkdir(parents=True, exist_ok=True, mode=0o711)
            except OSError:
                continue
            way = (root, *root.parents) if open_way else ()
            if os.access(root, os.W_OK | os.X_OK) and _is_own(root) and all(map(_is_open, way)):
                return root
    raise SandboxError(
        f"there is no folder outside {workspace} for what commands write; set XDG_CACHE_HOME to one you may write to"
    )


def _is_folder_in(own: str, layer: str) -> bool:
    """Whether `layer` is a folder inside `own`, without links in its path (rule 4)."""
    return "\0" not in layer and os.path.realpath(layer) == layer != own and within(layer, own) and os.path.isdir(layer)


def _is_own(folder: Path) -> bool:
    """Whether only this user can write to the folder. In /tmp another user may have made one of this name."""
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _is_open(folder: Path) -> bool:
    """Whether every user may enter the folder."""
    return bool(folder.stat().st_mode & stat.S_IXOTH)
