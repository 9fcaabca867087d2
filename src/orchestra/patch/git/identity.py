"""Who the user is, for a commit: by the environment or the user's own git configuration, never the repository's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from orchestra.core.errors import UsageError
from orchestra.core.records import utf8

_ODD = str.maketrans("", "", "<>\n\0")


class Identity(Struct, frozen=True):
    """A name and an address, as a commit has them."""

    name: str
    email: str


def identity(environ: Mapping[str, str]) -> Identity:
    """The user's name and address; UsageError if they are nowhere to be found."""
    named = {key: value for path in _files(environ) for key, value in _user(path)}
    name = environ.get("GIT_AUTHOR_NAME") or environ.get("GIT_COMMITTER_NAME") or named.get("name", "")
    email = (
        environ.get("GIT_AUTHOR_EMAIL")
        or environ.get("GIT_COMMITTER_EMAIL")
        or named.get("email", "")
        or environ.get("EMAIL", "")
    )
    found = Identity(_plain(name), _plain(email))
    if not found.name or not found.email:
        what = "name" if not found.name else "email"
        raise UsageError(
            f"a commit needs your {what}, and only your own settings count, not the repository's:"
            f' git config --global user.{what} "…"'
        )
    return found


def _plain(text: str) -> str:
    """The text as a commit can have it: valid Unicode, without the marks that end it there."""
    return utf8(text).decode().translate(_ODD).strip()


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    """The user's own configuration files, the weakest first."""
    if environ.get("GIT_CONFIG_NOSYSTEM", "0") in ("", "0", "false"):
        yield Path("/etc/gitconfig")
    if "GIT_CONFIG_GLOBAL" in environ:
        yield Path(environ["GIT_CONFIG_GLOBAL"])
        return
    home = environ.get("HOME", "")
    if config := environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else ""):
        yield Path(config) / "git" / "config"
    if home:
        yield Path(home) / ".gitconfig"


def _user(path: Path) -> Iterator[tuple[str, str]]:
    """The section `user` of a configuration file, with the files that it includes."""
    from dulwich.config import ConfigFile

    if not os.path.isfile(path):
        return
    try:
        config = ConfigFile.from_path(path)
    except (ValueError, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    for name in (b"name", b"email"):
        try:
            yield name.decode(), config.get((b"user",), name).decode("utf-8", "replace")
        except KeyError:
            continue
