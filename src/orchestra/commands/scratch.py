"""Where commands write before anything of it counts: a folder for each run, outside the workspace.

Rules
1. Outside, because an overlay's upper layer may not lie in its lower one; and what a command wrote is hostile until it
   has been looked at (worker/layer.py).
2. It is no truth: a run whose scratch is gone goes on, without the caches that were in it.
3. It is removed when the run ends.
4. `layers.json` may name only paths inside this scratch folder; anything else in it is ignored. No configuration opens
   the folder to commands (config/borders.py); a command that reached it all the same would gain no other folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from orchestra.config.borders import scratch_places
from orchestra.context.workspace import Leftovers, keepable, missed, only_built
from orchestra.core.errors import SandboxError
from orchestra.core.run import digest
from orchestra.policy.policy import within
from orchestra.worker.kept import prune
from orchestra.worker.layer import changes
from orchestra.worker.removal import discard


class Scratch:
    """The scratch folder of one run."""

    def __init__(self, root: Path, run_id: str, workspace: Path) -> None:
        self._folder = root / f"{run_id}-{digest(os.fsencode(workspace))[7:19]}"  # run ids are a project's own
        self._workspace = workspace

    def fresh(self, name: str, *, mode: int = 0o711) -> Path:
        """An empty folder of this name, whatever an earlier life left there."""
        folder = self._folder / name
        try:
            os.mkdir(folder, mode)  # under most names there is nothing
        except OSError:
            discard(folder)
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o711)
            os.mkdir(folder, mode)
        return folder

    def clear(self, name: str) -> None:
        """No folder of this name, whatever an earlier life left there."""
        if os.path.lexists(f"{self._folder}/{name}"):
            discard(self._folder / name)

    def remember(self, name: str, layers: tuple[Path, ...]) -> None:
        """Which private layers (build output, caches) there are after a command: its own and those it saw."""
        if layers:
            folder = self._folder / name
            folder.mkdir(exist_ok=True, mode=0o711)
            (folder / "layers.json").write_bytes(msgspec.json.encode([str(layer) for layer in layers]))

    def layers(self, name: str) -> tuple[Path, ...]:
        """The layers a command left and saw, in this life or an earlier one; none if they are gone (rule 2)."""
        try:
            named = msgspec.json.decode((self._folder / name / "layers.json").read_bytes(), type=list[str])
        except (OSError, msgspec.DecodeError):
            return ()
        own = os.path.realpath(self._folder)
        return tuple(Path(layer) for layer in named if _is_folder_in(own, layer))

    def used(self, name: str, *, state: str) -> tuple[Path, tuple[str, ...]]:
        """The folder of this name as the last command left it, fit to be written on: its build output stays, no more.

        For another state of the workspace it begins anew: what other code left must not decide about this one. Also the
        names that are gone and may be missed.
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
        """The run is over."""
        discard(self._folder)


def scratch_root(workspace: Path, environ: Mapping[str, str], *, open_way: bool = False) -> Path:
    """A folder of the person's own for all scratch folders, outside this workspace (rule 1).

    `open_way`: commands run as another user, who must be able to get there.
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
    """Rule 4; `layer` has no link in it and is not the whole."""
    return "\0" not in layer and os.path.realpath(layer) == layer != own and within(layer, own) and os.path.isdir(layer)


def _is_own(folder: Path) -> bool:
    """A real folder, ours, in which nobody else may put anything: not one that another laid out for us in /tmp."""
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _is_open(folder: Path) -> bool:
    """Whether everybody may pass through."""
    return bool(folder.stat().st_mode & stat.S_IXOTH)
