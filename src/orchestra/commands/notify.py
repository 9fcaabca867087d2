"""The person's own command for when a run waits for them or has ended (`notify:` in the configuration).

Rules
1. It needs consent like other code on the host (config/consent.py); no run starts without that.
2. It is not a file of the project, and it is not started in the project: a patch could have changed what it runs. Its
   program is found where the programs of providers are, outside the project.
3. It never blocks or fails a run: it is started and left alone (worker/apart.py). If it cannot be started, a notice
   says so.
4. What a run is about is in variables, masked, never in its arguments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from orchestra.commands.tools import NoTool, Toolbox
from orchestra.core.errors import UsageError
from orchestra.core.keyring import KEY
from orchestra.policy.policy import within
from orchestra.worker.apart import start_apart

_MOST = 4000  # characters of a goal in a variable


class Notify:
    """Starts the `notify:` command of one project."""

    def __init__(
        self,
        argv: tuple[str, ...],
        project: Path,
        *,
        programs: Callable[[], Toolbox],
        environ: Mapping[str, str],
        mask: Callable[[str], str],
    ) -> None:
        self._argv = argv
        self._project = project
        self._programs = programs
        self._environ = environ
        self._mask = mask

    def refuse(self) -> None:
        """UsageError if the command cannot be used (rule 2)."""
        for word in self._argv:
            if os.path.isabs(word) and self._is_inside(word):
                raise UsageError(f"notify: {word} lies in the project, where a patch reaches it: keep it elsewhere")
        if self._argv and "/" in self._argv[0] and not os.path.isabs(self._argv[0]):
            raise UsageError(f"notify: {self._argv[0]}: give the program's whole path, or its name")

    def _is_inside(self, path: str) -> bool:
        return within(os.path.realpath(path), str(self._project))

    def __call__(self, run_id: str, number: int, status: str, goal: str) -> str:
        """Start the command; returns why it could not be started, or an empty text."""
        if not self._argv:
            return ""
        name, *arguments = self._argv
        toolbox = self._programs()
        tool = toolbox.resolve_path(name) if "/" in name else toolbox.resolve(name)
        if isinstance(tool, NoTool) or self._is_inside(tool.path):
            return f"notify: {tool.reason if isinstance(tool, NoTool) else f'{name} lies in the project'}"
        home = self._environ.get("HOME", "")
        folder = home if os.path.isdir(home) and not self._is_inside(home) else "/"
        env = {name: value for name, value in self._environ.items() if name != KEY}
        env |= {
            "ORCHESTRA_RUN_ID": run_id,
            "ORCHESTRA_RUN_NUMBER": str(number or ""),
            "ORCHESTRA_RUN_STATUS": status,
            "ORCHESTRA_RUN_GOAL": self._mask(goal)[:_MOST].replace("\0", ""),
            "ORCHESTRA_PROJECT": str(self._project),
        }
        try:
            start_apart((tool.path, *arguments), folder=folder, env=env).leave()
        except (OSError, ValueError) as error:
            return f"notify: {name} could not be started: {error}"
        return ""
