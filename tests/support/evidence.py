"""Scripts for the evidence loop, and a project to ask about."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from orchestra.core.records import Event
from tests.support.project import Project, records
from tests.support.runs import read_events

ANSWER = "add()는 뺀다: calc.py:2"


def planning(next: str = "collect_evidence", **more: Any) -> dict[str, Any]:
    """Main's planning."""
    return main({"next": next, "reason": "look first", **more}, "plan")


def tool(line: str, **more: Any) -> dict[str, Any]:
    """A command line of the worker."""
    said = {"action": "call_tool", "tool": "shell", "args": {"cmd": line}, "reason": "찾는다"}
    return worker(said, **more)


def ask(question: str) -> dict[str, Any]:
    return worker({"action": "ask", "question": question})


def finalize() -> dict[str, Any]:
    return worker({"action": "finalize"})


def worker(said: Any, **more: Any) -> dict[str, Any]:
    """A reply of the worker: an object, or text as it is."""
    match = {"agent": "worker", "role": "planner", "phase": "execute", **more.pop("match", {})}
    return {"match": match, "text": _text(said), **more}


def main(said: Any, phase: str, **more: Any) -> dict[str, Any]:
    """A reply of main."""
    role = "evaluator" if phase == "evaluate" else "planner"
    return {
        "match": {"agent": "main", "role": role, "phase": phase, **more.pop("match", {})},
        "text": _text(said),
        **more,
    }


def decision(said: str = "finalize", **more: Any) -> dict[str, Any]:
    return main({"decision": said, **more}, "evaluate")


def _text(said: Any) -> str:
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)


GREP = "grep -n return calc.py | head -3"
USUAL = (planning(), tool(GREP), finalize(), decision(answer=ANSWER))


def ask_agent(
    project: Project, *more: str, goal: str = "add()는 무엇을 하나?", session: str = "s1", command: str = "agent:run"
) -> subprocess.CompletedProcess[str]:
    """Run one turn, headless, on the project's script."""
    said = ("--goal", goal) if command == "agent:run" else ("--message", goal)
    return project.run(
        command, "--session", session, *said, "--provider", f"scripted:{project.script}", "--no-input", *more
    )


def runs_of(project: Project) -> list[Path]:
    """The folders of the evidence runs whose first event is written, the oldest first."""
    begun = {path.parent: path.read_text().partition("\n") for path in project.path.glob("runs/*/events.ndjson")}
    found = {folder: json.loads(first)["ts"] for folder, (first, ended, _) in begun.items() if ended}
    return sorted(found, key=lambda folder: found[folder])


def events_of(project: Project) -> list[Event]:
    """The events of the newest evidence run."""
    return read_events(runs_of(project)[-1] / "events.ndjson")


def natives(project: Project) -> list[str]:
    """The S5 names of the newest run's events."""
    return [event.payload["native"] for event in events_of(project) if "native" in event.payload]


def states(project: Project) -> list[str]:
    """The states that the newest run went through, each once in a row."""
    found = [event.payload["state"] for event in events_of(project) if "state" in event.payload]
    return [state for number, state in enumerate(found) if not number or found[number - 1] != state]


def result(project: Project) -> dict[str, Any]:
    """The result of the newest run."""
    said: dict[str, Any] = events_of(project)[-1].payload["result"]
    return said


def session(project: Project, name: str = "s1") -> dict[str, Any]:
    """A session's file."""
    said: dict[str, Any] = json.loads((project.path / ".orchestra" / "sessions" / f"{name}.json").read_text())
    return said


def said(project: Project, name: str = "s1") -> list[str]:
    return [message["content"] for message in session(project, name)["messages"]]


def requests(project: Project, stem: str) -> list[dict[str, Any]]:
    """The requests of the newest run whose artifact begins so, as they were sent."""
    folder = runs_of(project)[-1] / "artifacts"
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{stem}*.prompt.json"))]


def done(output: str) -> dict[str, Any]:
    return records(output)[-1]
