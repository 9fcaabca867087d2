"""A small project, scripts of replies for it, and the real program to run on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestra.app import App
from orchestra.core.errors import OrchestraError
from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from orchestra.workflows.all import ALL
from tests.support import warm
from tests.support.runs import read_events, verify

PROGRAM = str(Path(sys.executable).with_name("orchestra"))
PLAN = "1. add() in calc.py must add. 2. Nothing else changes."
RIGHT = "    return a + b\n"


def patch(old: str, new: str, *, summary: str = "change", path: str = "calc.py") -> str:
    """A canonical PATCH reply that replaces add()'s body line."""
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n"
    return reply(f"{head} def add(a, b):\n-    return {old}\n+    return {new}\n", summary=summary)


def reply(diff: str, *, summary: str = "change") -> str:
    """A canonical PATCH reply around a diff (S1 §5.2)."""
    head = f"<<<AIO_RESULT_START>>>\ntype: PATCH\nsummary: {summary}\n<<<AIO_RESULT_END>>>\n\n"
    return f"{head}[PATCH_BEGIN]\n{diff}[PATCH_END]\n"


def ask(question: str, *, reason: str = "two ways are possible") -> str:
    """A canonical ASK reply (S1 §5.3)."""
    head = f"<<<AIO_RESULT_START>>>\ntype: ASK\nquestion: {question}\nreason: {reason}\n"
    return f"{head}needed_input:\n- the decision\n<<<AIO_RESULT_END>>>\n"


def new_file(path: str, *lines: str) -> str:
    """The diff that creates a file."""
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return head + f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)


def gone_file(path: str, *lines: str, mode: str = "100644") -> str:
    """The diff that deletes a file."""
    head = f"diff --git a/{path} b/{path}\ndeleted file mode {mode}\n--- a/{path}\n+++ /dev/null\n"
    return head + f"@@ -1,{len(lines)} +0,0 @@\n" + "".join(f"-{line}\n" for line in lines)


NOOP = "<<<AIO_RESULT_START>>>\ntype: NOOP\nreason: 이미 목표 상태임\n<<<AIO_RESULT_END>>>\n"
WRONG_PATCH = patch("a - b", "a * b", summary="first try")
RIGHT_PATCH = patch("a - b", "a + b", summary="더하기")
FIX_PATCH = patch("a * b", "a + b", summary="덧셈을 고친다")


def role(name: str, text: str, **more: Any) -> dict[str, Any]:
    """A scripted reply for one role."""
    return {"match": {"role": name}, "text": text, **more}


def agree(path: Path) -> None:
    """The person agrees to what the project's configuration asks for, as `orchestra trust --yes` would."""
    try:
        App(path).project.consent.agree("tester")
    except OrchestraError:
        pass  # it is wrong, which is what the test is about


class Project:
    """A folder with a wrong add(), a check that notices, and a script."""

    def __init__(self, path: Path, *replies: dict[str, Any]) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        (path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        self.script = path.parent / f"{path.name}.replies.json"  # as YAML it takes ten times as long to read
        self.write_script(*(replies or STANDARD))
        self.check = "grep -q 'a + b' calc.py"

    def write_script(self, *replies: dict[str, Any]) -> None:
        self.script.write_text(json.dumps({"replies": list(replies)}, ensure_ascii=False), encoding="utf-8")

    def configure(self, text: str) -> None:
        """Write the configuration, and agree to it."""
        (self.path / "orchestra.config.yaml").write_text(text, encoding="utf-8")
        agree(self.path)

    def run(
        self, *arguments: str, env: dict[str, str] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run the real program here, headless."""
        return warm.run(PROGRAM, arguments, self.path, {**os.environ, **(env or {})}, timeout)

    def loop(
        self, *more: str, goal: str = "make add() add", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a loop on the script, headless, as JSON."""
        arguments = [
            "loop",
            goal,
            "--check",
            self.check,
            "--provider",
            f"scripted:{self.script}",
            "--no-input",
            "--json",
        ]
        return self.run(*arguments, *more, env=env)

    @property
    def runs(self) -> list[RunFolder]:
        root = self.path / ".runs" / "workflows"
        return [RunFolder(path) for path in sorted(root.iterdir()) if path.is_dir()] if root.exists() else []

    @property
    def folder(self) -> RunFolder:
        [folder] = self.runs
        return folder

    def events(self) -> list[Event]:
        return read_events(self.folder.events)

    def events_of(self, run_id: str) -> list[Event]:
        return read_events(self.path / ".runs" / "workflows" / run_id / "events.ndjson")

    def types(self) -> list[str]:
        return [event.type for event in self.events()]

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.folder.state.read_text())
        return state

    def calc(self) -> str:
        return (self.path / "calc.py").read_text()


KNOWN = {workflow.name: workflow for workflow in ALL}.get  # what `verify` looks workflows up in

STANDARD = (role("planner", PLAN), role("developer", WRONG_PATCH), role("fixer", FIX_PATCH))


def records(output: str) -> list[dict[str, Any]]:
    """The NDJSON of a --json command."""
    return [json.loads(line) for line in output.splitlines()]


def conforms(project: Project) -> None:
    """Every run of the project is what the specification says, by `verify`."""
    for folder in project.runs:
        assert [str(f) for f in verify(folder.path, KNOWN)] == []


def sleeping(project: Path, before: str = "pass") -> str:
    """A check that sleeps for ten minutes and can be told from every other process (`processes`)."""
    return f'python -c "import signal, time; {before}; time.sleep(600)  # {project}"'


def processes(project: Path) -> list[str]:
    """The processes of a `sleeping` check that exist on this machine, in sandboxes too; not orchestra itself."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(word.endswith(f"# {project}") and "time.sleep(600)" in word for word in words) and PROGRAM not in words:
            found.append(" ".join(words))
    return found


def until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
