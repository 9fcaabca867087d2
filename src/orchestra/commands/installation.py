"""What kind of installation a folder is, judged by the files in it; and how such files are read. Nothing is run."""

from __future__ import annotations

import os
import re
from glob import glob

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")  # the host's folders in every sandbox


class Lost(Exception):
    """A program cannot be used; the message has the reason."""


def is_environment(root: str) -> bool:
    """Whether a folder is a virtual environment, or a place for global node packages."""
    return os.path.isfile(f"{root}/pyvenv.cfg") or os.path.isdir(f"{root}/lib/node_modules")


def is_interpreter(root: str) -> bool:
    """Whether a folder is an installation of Python, node, Rust, Go or Java, or a conda environment."""
    return (
        os.path.isdir(f"{root}/lib/rustlib")
        or bool(glob(f"{plain(root)}/lib*/python3*/os.py"))
        or os.path.isdir(f"{root}/conda-meta")
        or os.path.isfile(f"{root}/lib/jvm.cfg")
        or os.path.isdir(f"{root}/pkg/tool")
        or (os.path.isfile(f"{root}/bin/node") and os.path.isdir(f"{root}/lib/node_modules"))
    )


def setting(root: str, *keys: str) -> str:
    """The value of the first of these keys in a virtual environment's pyvenv.cfg; empty if there is none."""
    said = text(f"{root}/pyvenv.cfg")
    for key in keys:
        if found := re.search(rf"^{key} *= *(.*?) *$", said, re.MULTILINE):
            return found.group(1)
    return ""


def plain(path: str) -> str:
    """The path with glob's special characters escaped."""
    return re.sub(r"([*?[])", r"[\1]", path)


def head(path: str, size: int) -> bytes:
    """The first bytes of a file; none if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError:
        return b""


def text(path: str, size: int = 4096) -> str:
    """The beginning of a regular file as text; empty if there is none."""
    return head(path, size).decode("utf-8", "replace") if os.path.isfile(path) else ""
