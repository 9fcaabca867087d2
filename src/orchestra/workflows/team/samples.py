"""The sample teams that `orchestra init --team` writes (S4-93 … S4-97): text files beside this module, in `sample/`.

Rules
1. A file that is there already is never changed; it is reported.
2. The files go where the configuration's `team:` section has them, inside the project. A link on the way to another
   place is refused.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from orchestra.config.sections import TeamSection
from orchestra.core.errors import UsageError

FOLDERS = ("orchestrators", "agents", "tasks")


class Written(Struct, frozen=True):
    """What `write_sample` did: the paths of new files, and of those that were there."""

    new: tuple[str, ...]
    there: tuple[str, ...]


def sample_files() -> Iterator[tuple[str, str, str]]:
    """The sample's files: the key of `team:` each belongs to, its name and its text."""
    sample = importlib.resources.files(__package__).joinpath("sample")
    yield "rules", "", sample.joinpath("orchestrator.md").read_text(encoding="utf-8")
    for folder in FOLDERS:
        for file in sorted(sample.joinpath(folder).iterdir(), key=lambda file: file.name):
            yield folder, file.name, file.read_text(encoding="utf-8")


def write_sample(root: Path, section: TeamSection) -> Written:
    """Write the sample into a project's folder."""
    new: list[str] = []
    there: list[str] = []
    for key, name, text in sample_files():
        path = "/".join(filter(None, (getattr(section, key).removeprefix("./").removesuffix("/"), name)))
        target = root / path
        if not target.parent.resolve().is_relative_to(root.resolve()):
            raise UsageError(f"{target.parent} leads out of the project; remove the link, or change `team.{key}`")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
        except (FileExistsError, NotADirectoryError) as taken:
            if target.parent.is_dir():
                there.append(path)
                continue
            raise UsageError(f"{target.parent} is no folder; move it away, or change `team.{key}`") from taken
        else:
            new.append(path)
    return Written(tuple(new), tuple(there))
