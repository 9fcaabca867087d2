"""The person's own programs, on the person's terminal: an editor for a patch, a pager for a long one.

Rules
1. Which program it is, only the person's environment says (VISUAL, EDITOR, PAGER), never a file of the project.
2. The text to be edited lies in a file that only the person can read, and is removed afterwards.

worker/personal.py starts them, and says why they are not contained.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestra.core.errors import UsageError
from orchestra.core.files import MIB
from orchestra.worker.personal import on_terminal

_MOST = 4 * MIB


async def edit(text: str, name: str, environ: Mapping[str, str] = os.environ) -> str:
    """The text as the person's editor leaves it; UsageError if there is no editor, or it fails. `name`: the file's."""
    words = _words(environ, ("VISUAL", "EDITOR"), ("vi",))
    with tempfile.TemporaryDirectory(prefix="orchestra-edit-") as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        code = await _run((*words, str(path)), environ, cure="set VISUAL or EDITOR")
        if code != 0:
            raise UsageError(f"the editor ({words[0]}) ended with exit code {code}: nothing was changed")
        data = path.read_bytes()[: _MOST + 1]
    if len(data) > _MOST:
        raise UsageError(f"the edited text is longer than {_MOST // MIB} MiB: nothing was changed")
    return data.decode("utf-8", "replace")


async def page(text: str, environ: Mapping[str, str] = os.environ) -> None:
    """Show a text in the person's pager; UsageError if there is none, or it cannot be started."""
    words = _words(environ, ("PAGER",), ("less", "-R"))
    await _run(words, {"LESS": "FRX", **environ}, text.encode("utf-8", "replace"), cure="set PAGER")


def _words(environ: Mapping[str, str], names: Sequence[str], otherwise: tuple[str, ...]) -> tuple[str, ...]:
    """The command that the first of these variables has."""
    for name in names:
        if environ.get(name, "").strip():
            try:
                return tuple(shlex.split(environ[name]))
            except ValueError as error:
                raise UsageError(f"{name} cannot be split into words: {error}") from error
    return otherwise


async def _run(words: Sequence[str], environ: Mapping[str, str], given: bytes | None = None, *, cure: str) -> int:
    try:
        return await on_terminal(words, environ, given)
    except OSError as error:
        raise UsageError(f"{words[0]} cannot be started: {error.strerror}; {cure}") from error
