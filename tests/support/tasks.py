"""A project for task graphs, driven by the real program on scripted replies and real sandboxes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from orchestra.core.records import Event
from orchestra.core.run import RunFolder
from tests.support.project import Project
from tests.support.runs import read_events

SUMMARY = "모두 끝났습니다."
QUICK = {"retries": {"max": 1, "backoff_base_sec": 0.05}}


def python(code: str) -> dict[str, Any]:
    """Inputs of a `python` task."""
    return {"args": ["-c", code]}


def step(name: str, *after: str, tool: str = "python", code: str = "", **more: Any) -> dict[str, Any]:
    """A task as a planner writes it."""
    inputs = {"inputs": python(code)} if tool == "python" and "inputs" not in more else {}
    return {"task_id": name, "intent": f"{name} 하기", "tools": [tool], "depends_on": list(after), **inputs, **more}


class Tasks(Project):
    """A folder in which `orchestra dag` runs."""

    def __init__(self, path: Path, *plan: dict[str, Any], config: dict[str, Any] | None = None) -> None:
        text = json.dumps(plan, ensure_ascii=False)
        planner = {"match": {"phase": "plan"}, "text": text, "usage": {"inputTokens": 100, "outputTokens": 20}}
        super().__init__(path, planner, {"match": {"agent": "summarizer"}, "text": SUMMARY})
        self.settings(config or {})

    def settings(self, config: dict[str, Any]) -> None:
        """Write the configuration, and agree to it."""
        self.configure(yaml.safe_dump({**QUICK, **config}, allow_unicode=True))

    def dag(self, *more: str, intent: str = "라이선스를 조사해줘", **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the graph on the script, headless, as JSON."""
        words = ["dag", intent, "--provider", f"scripted:{self.script}", "--no-input", "--json"]
        return self.run(*words, *more, **options)

    @property
    def runs(self) -> list[RunFolder]:
        root = self.path / "runs"
        return [RunFolder(path) for path in sorted(root.iterdir()) if path.is_dir()] if root.exists() else []

    def read(self, name: str) -> str:
        """A file of the only run."""
        return (self.folder.path / name).read_text(encoding="utf-8")

    def json(self, name: str) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.read(name))
        return data

    def lines(self, name: str = "tasks.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read(name).splitlines()]

    def tasks(self) -> dict[str, dict[str, Any]]:
        """The last record of each task of the plan."""
        return {line["label"]: line for line in self.lines() if line["level"] == 3}

    def messages(self, sender: str, receiver: str) -> list[dict[str, Any]]:
        lines = self.lines("messages.jsonl")
        return [line["message"] for line in lines if (line["from"], line["to"]) == (sender, receiver)]

    def output(self, label: str, name: str = "stdout.txt") -> str:
        return self.read(f"artifacts/{label}/{name}")

    def started(self) -> list[Event]:
        """The starts of commands, as the journal has them."""
        if not self.folder.events.exists():
            return []  # the run is only being made
        return [e for e in read_events(self.folder.events) if e.type == "PHASE_STARTED" and "task" in e.payload]
