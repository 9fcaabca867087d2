"""The keyring: where this user's secret key is kept, and how it is made.

Rules
1. The key is outside every project: in `$XDG_STATE_HOME/orchestra/key` (`~/.local/state/orchestra/key`), made on first
   use, readable by its owner only. `ORCHESTRA_KEY` (the secret itself) or `ORCHESTRA_KEY_FILE` replaces it, for example
   to share a key between two machines.
2. A key inside the project is not used, neither to check nor to write. A key file of another user, one that others can
   read, or one that is not a regular file, is refused with the remedy.
3. Two processes that make the key at the same time get the same one: the first file name stays.
4. Reading makes no key. Without a key every run is foreign.
"""

from __future__ import annotations

import os
import pwd
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from orchestra.core.disk import Disk
from orchestra.core.errors import UsageError
from orchestra.core.files import read_bounded
from orchestra.core.seal import Seal

KEY, KEY_FILE = "ORCHESTRA_KEY", "ORCHESTRA_KEY_FILE"
_LEAST = 16  # the least characters of a secret in ORCHESTRA_KEY
_MOST = 4096


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder with orchestra's data about a user: the key, and the consents."""
    state = environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state) / "orchestra"
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            home = ""
    if not home.startswith("/"):
        raise UsageError(f"there is no home folder to keep a key in: set HOME, XDG_STATE_HOME, or {KEY_FILE}")
    return Path(home) / ".local" / "state" / "orchestra"


def within_project(path: Path, project: str) -> bool:
    """Whether a private file of the user is inside the project, where models and commands could reach it."""
    root = os.path.realpath(project).rstrip("/")
    places = (os.path.abspath(path), os.path.realpath(path))
    return any(place == root or place.startswith(f"{root}/") for place in places)


class Keyring:
    """The key of the person who runs this process, for work in one project."""

    def __init__(self, environ: Mapping[str, str], project: Path, disk: Disk) -> None:
        self._environ = environ
        self._project = project
        self._disk = disk
        self._seal: Seal | None = None

    @property
    def secret(self) -> str:
        """The secret in the environment, so that it can be masked; empty if there is none."""
        return self._environ.get(KEY, "")

    @property
    def seal(self) -> Seal:
        """The seal for writing; the key is made if there is none (rule 1)."""
        self._seal = self.known or Seal(self._made())
        return self._seal

    @property
    def known(self) -> Seal | None:
        """The seal for reading; None if this user has no key yet (rule 4)."""
        if self._seal is None and (found := self._found()) is not None:
            self._seal = Seal(found)
        return self._seal

    @property
    def file(self) -> Path:
        """The path of the key, also if it does not exist yet."""
        given = self._environ.get(KEY_FILE, "")
        return Path(os.path.abspath(given)) if given else state_folder(self._environ) / "key"

    def _found(self) -> bytes | None:
        if self.secret:
            if len(self.secret) < _LEAST:
                raise UsageError(f"{KEY} has fewer than {_LEAST} characters; a key that can be guessed proves nothing")
            return self.secret.encode("utf-8", "surrogateescape")
        path = self.file
        if within_project(path, str(self._project)):
            return None
        try:
            held = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            if self._environ.get(KEY_FILE):
                raise UsageError(f"{KEY_FILE}: there is no {path}; copy the key there, or unset the variable") from None
            return None
        except OSError as error:
            raise UsageError(f"your key {path} cannot be read: {error.strerror}") from error
        if held.st_uid not in (os.geteuid(), 0):
            raise UsageError(f"your key {path} belongs to another user (uid {held.st_uid}); remove it, or name another")
        if stat.S_ISREG(held.st_mode) and held.st_mode & 0o077:
            raise UsageError(f"your key {path} is open to other users: chmod 600 {path}")
        secret = read_bounded(path, _MOST, follow=True).strip()
        if len(secret) < _LEAST:
            raise UsageError(f"your key {path} is damaged (too short). Restore it, or remove it: runs are then adopted")
        return secret

    def _made(self) -> bytes:
        path = self.file
        if within_project(path, str(self._project)):  # rule 2
            raise UsageError(
                f"your key {path} lies in the project, where patches and commands reach it: keep it elsewhere "
                f"(set XDG_STATE_HOME, or {KEY_FILE})"
            )
        secret = secrets.token_hex(32).encode()
        temporary = Path(f"{path}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                self._disk.write(str(temporary), secret + b"\n", durable=True)
                self._disk.link(str(temporary), str(path))
            finally:
                temporary.unlink(missing_ok=True)
            self._disk.sync_folder(path.parent)
        except FileExistsError:
            pass  # rule 3
        except OSError as error:
            raise UsageError(
                f"the key that your runs are vouched for with cannot be kept in {path.parent}: {error.strerror}. "
                f"Make that folder writable, or set XDG_STATE_HOME or {KEY_FILE}"
            ) from error
        found = self._found()
        assert found is not None
        return found
