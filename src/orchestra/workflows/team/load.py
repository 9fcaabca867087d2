"""Reads the definition of a team from a project's files, by names (S4-03 … S4-06).

    orchestrators/TEAM.md   agents/NAME.md, else .claude/agents/NAME.md   tasks/TASK.md   orchestrator.md

Rules
1. Everything wrong is found at once: all missing files and all faults of all files, in one message (S4-06).
2. A file is plain text of a limited size inside the project. Links are not followed, so no file of another place gets
   into a prompt.
3. Every agent of a phase is read, once. A file in `agents/` comes before one of the same name in `.claude/agents/`.
4. A team works on a task only if the task lists the team.
5. `orchestrator.md`, if it is there, holds the rules that every agent is given.
"""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from orchestra.config.sections import TeamSection
from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import read_below
from orchestra.workflows.team.check import wrong
from orchestra.workflows.team.definitions import Agent, Definition, Task, Team
from orchestra.workflows.team.readers import read_agent, read_task, read_team
from orchestra.workflows.team.sheet import NAME, NAME_FORM, Fault

CLAUDE_AGENTS = ".claude/agents"
MOST_BYTES = 262_144  # of one file
_CURE = "For a working sample: orchestra init --team. The format is in docs/teams.md"
Record = TypeVar("Record", Team, Agent, Task)


class Missing(Struct, frozen=True):
    """A file that is missing."""

    path: str
    what: str  # what it would be, and what to do


class Loaded(Struct, frozen=True):
    """A team's files as read: the faults in them, and a definition if there are none."""

    definition: Definition | None = None
    missing: tuple[Missing, ...] = ()
    faults: tuple[Fault, ...] = ()

    def required(self) -> Definition:
        """The definition; UsageError (exit 2) with everything that is wrong (rule 1)."""
        if self.definition is None:
            raise UsageError("\n".join(self.told()))
        return self.definition

    def told(self) -> list[str]:
        """What is missing and wrong, for people, line by line."""
        missing = [f"  {one.path}: {one.what}" for one in self.missing]
        return [*(("files are missing:", *missing, _CURE) if missing else ()), *map(str, self.faults)]


def load_team(root: Path, section: TeamSection, team: str, task: str = "") -> Loaded:
    """The definition of a team's work on a task, from a project's folder; without a task, of the team alone."""
    files = _Files(root, section)
    found = files.record(team, (files.teams,), read_team, "the team")
    about = files.record(task, (files.tasks,), read_task, "the task") if task else Task("", (team,), "")
    folders = (files.agents, CLAUDE_AGENTS)
    agents = [files.record(name, folders, read_agent, "an agent of the team") for name in _names(found)]
    rules = files.text(files.rules) or ""
    if about is not None and team not in about.teams:  # rule 4
        listed = ", ".join(about.teams) or "no team"
        expected = f"`{team}` in its table of orchestrators; it lists {listed}"
        files.faults.append(Fault(about.source, about.line, f"the task does not list the team `{team}`", expected))
    if found is None or about is None or files.missing or files.faults:
        return Loaded(missing=tuple(files.missing), faults=tuple(files.faults))
    definition = Definition(found, tuple(filter(None, agents)), about, rules)
    faults = tuple(wrong(definition))
    return Loaded(None if faults else definition, faults=faults)


def team_names(root: Path, section: TeamSection) -> list[str]:
    """The names of a project's team files."""
    files = _Files(root, section)
    return files.listed(files.teams)


def agent_names(root: Path, section: TeamSection) -> tuple[str, ...]:
    """The names of a project's agents: they may be given a model by name."""
    files = _Files(root, section)
    return tuple(dict.fromkeys((*files.listed(files.agents), *files.listed(CLAUDE_AGENTS))))


class _Files:
    """The files of one definition, while they are read; collects what is missing and wrong (rule 1)."""

    def __init__(self, root: Path, section: TeamSection) -> None:
        self._root = root
        self.teams, self.agents, self.tasks, self.rules = (
            text.removeprefix("./").removesuffix("/")
            for text in (section.orchestrators, section.agents, section.tasks, section.rules)
        )
        self.missing: list[Missing] = []
        self.faults: list[Fault] = []

    def record(
        self, name: str, folders: Sequence[str], read: Callable[[str, str, str], Record | list[Fault]], what: str
    ) -> Record | None:
        """The record of a name, from the first of these folders that has it; None if it is missing or wrong."""
        if not NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name of {what.partition(' of ')[0]}: {NAME_FORM}")
        paths = [f"{folder}/{name}.md" for folder in folders]
        for path in paths:
            faults = len(self.faults)
            text = self.text(path)
            if text is None and len(self.faults) == faults:
                continue
            record = read(text, name, path) if text is not None else []
            if isinstance(record, list):
                self.faults += record
                return None
            return record
        known = sorted({one for folder in folders for one in self.listed(folder)})
        near = difflib.get_close_matches(name, known, n=1)
        there = f"did you mean `{near[0]}`?" if near else f"choose one of: {', '.join(known)}" if known else "write it"
        self.missing.append(Missing(" or ".join(paths), f"{what}; {there}"))
        return None

    def text(self, path: str) -> str | None:
        """The text of a file; None if it is missing, or cannot be read, which is a fault (rule 2)."""
        try:
            data = read_below(self._root, path, MOST_BYTES)
        except OddFile as odd:
            self.faults.append(Fault(path, 1, f"it {odd.what}", "a plain file inside the project"))
            return None
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.faults.append(Fault(path, 1, f"it cannot be read ({error.strerror})", "a file you may read"))
            return None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            self.faults.append(Fault(path, line, "bytes that are no text", "UTF-8"))
            return None

    def listed(self, folder: str) -> list[str]:
        """The names of the definition files in a folder."""
        try:
            entries = os.listdir(self._root / folder)
        except OSError:
            return []
        names = (entry.removesuffix(".md") for entry in entries if entry.endswith(".md"))
        return sorted(name for name in names if NAME.fullmatch(name))


def _names(team: Team | None) -> Iterable[str]:
    """The agents of a team's phases, each once (rule 3)."""
    return dict.fromkeys(agent for phase in (team.phases if team else ()) for agent in phase.agents)
