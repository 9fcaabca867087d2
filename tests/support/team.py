"""A small team of agents in Markdown, and scripted replies for it: phase 1 one agent, phase 2 two, phase 3 one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from orchestra.core.run import RunFolder
from tests.support.project import Project

TEAM, TASK = "planning-team", "blog-project"
FAST = "version: '1.0'\nretries: {max: 2, backoff_base_sec: 0.01}\n"
ROWS = (
    ("planner", "project-vision.md", (), ""),
    ("research", "market-analysis.md", ("project-vision.md",), "tech-architecture.md"),
    ("tech-architect", "tech-architecture.md", ("project-vision.md",), "market-analysis.md"),
    ("integrator", "final-summary.md", ("market-analysis.md", "tech-architecture.md"), ""),
)
PHASES = ((1, ("planner",), "solo"), (2, ("research", "tech-architect"), "turns"), (3, ("integrator",), "solo"))
VISION, MARKET, TECH, SUMMARY = "# 비전\n블로그를 만든다.", "# Market\nmany", "# Tech\none server", "# Summary\ndone"


def agent_file(name: str, output: str, inputs: Iterable[str] = (), reviews: str = "", prompt: str = "") -> str:
    """The Markdown of an agent."""
    lines = [f"# Agent: {name}", "", "## Role", "", f"The role of {name}.", "", "## Inputs", ""]
    lines += [f"- `artifacts/{path}`" for path in inputs]
    lines += ["", "## Outputs", "", f"File: `artifacts/{output}`", ""]
    if reviews:
        lines += ["## Cross review", "", f"- `artifacts/{reviews}`", "- Is it feasible?", ""]
    lines += ["## Prompt", "", "```", prompt or f"Write as {name}.", "```", ""]
    return "\n".join(lines)


def team_file(name: str, rows: Iterable[tuple[str, str, Any, str]], phases: Iterable[tuple[int, Any, str]]) -> str:
    """The Markdown of a team."""
    rows = list(rows)
    lines = [f"# Orchestrator: {name}", "", "A team.", "", "## Team", "", "| Agent | Role |", "|---|---|"]
    lines += [f"| `{agent}` | {agent} |" for agent, *_ in rows]
    lines += ["", "## Phases", "", "| Phase | Agents | Mode |", "|---|---|---|"]
    lines += [f"| {number} | {', '.join(f'`{one}`' for one in agents)} | {mode} |" for number, agents, mode in phases]
    lines += ["", "## Artifacts", "", "| Artifact | Owner | About |", "|---|---|---|"]
    lines += [f"| `{output}` | `{agent}` | a file |" for agent, output, *_ in rows if output]
    return "\n".join((*lines, ""))


def task_file(*teams: str, direction: str = "블로그를 만든다. 빠르고 단순하게.") -> str:
    """The Markdown of a task."""
    rows = [f"| {number} | `{team}` | x |" for number, team in enumerate(teams, 1)]
    head = ["# Task", "", "## Orchestrators", "", "| Step | Orchestrator | About |", "|---|---|---|"]
    return "\n".join((*head, *rows, "", "## Direction", "", direction, ""))


def write_team(
    path: Path,
    rows: Iterable[tuple[str, str, Any, str]] = ROWS,
    phases: Iterable[tuple[int, Any, str]] = PHASES,
    *,
    team: str = TEAM,
    task: str = TASK,
    teams: Iterable[str] = (TEAM, "dev-team"),
) -> None:
    """Write the files of a team."""
    rows = list(rows)
    for folder in ("orchestrators", "agents", "tasks"):
        (path / folder).mkdir(exist_ok=True)
    (path / "orchestrator.md").write_text("# Rules\n\nBe brief.\n", encoding="utf-8")
    (path / "orchestrators" / f"{team}.md").write_text(team_file(team, rows, phases), encoding="utf-8")
    (path / "tasks" / f"{task}.md").write_text(task_file(*teams), encoding="utf-8")
    for name, output, inputs, reviews in rows:
        text = agent_file(name, output or "none.md", inputs, reviews)
        (path / "agents" / f"{name}.md").write_text(text, encoding="utf-8")


def says(agent: str, text: str, phase: str = "", **more: Any) -> dict[str, Any]:
    """A scripted reply of an agent; `phase` is execute (a draft), evaluate (a review) or fix (a revision)."""
    return {"match": {"agent": agent, **({"phase": phase} if phase else {})}, "text": text, **more}


def finding(name: str, severity: str = "medium", text: str = "too short", evidence: str = "many", **more: str) -> str:
    """An item of a review."""
    proof = f' evidence: "{evidence}"' if evidence else ""
    against = f" conflicts: [{more['conflicts']}]" if more else ""
    return f"- [{name}] {severity}: {text}{proof}{against}"


STANDARD = (
    says("planner", VISION),
    says("research", MARKET, "execute"),
    says("tech-architect", TECH, "execute"),
    says("research", finding("R1", text="서버가 하나뿐이다", evidence="one server"), "evaluate"),
    says("tech-architect", finding("T1", "low"), "evaluate"),
    says("research", "No changes", "fix"),
    says("tech-architect", f"{TECH}, two in reserve", "fix"),
    says("research", "- [R1] closed: two in reserve", "evaluate"),
    says("integrator", SUMMARY),
)


class TeamProject(Project):
    """A project with a team and a script for it."""

    def __init__(self, path: Path, *replies: dict[str, Any], **more: Any) -> None:
        super().__init__(path, *(replies or STANDARD))
        write_team(path, **more)
        self.configure(FAST)

    def orchestrate(
        self, *more: str, team: str = TEAM, task: str = TASK, **how: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run the team on its script, headless, as JSON."""
        given = ("--provider", f"scripted:{self.script}", "--no-input", "--json")
        return self.run("orchestrate", team, task, *given, *more, **how)

    def other_script(self, *replies: dict[str, Any]) -> str:
        """A provider with another script: of a new file, no reply is used yet."""
        self.script = self.script.with_name(f"{len(list(self.script.parent.glob('*.yaml')))}.yaml")
        self.write_script(*replies)
        return f"scripted:{self.script}"

    @property
    def teams(self) -> list[RunFolder]:
        """The runs of teams, by id."""
        return [RunFolder(path) for path in sorted((self.path / "runs").glob("2*")) if path.is_dir()]

    def meta(self, run: RunFolder | None = None) -> dict[str, Any]:
        """run-meta.json of a run; of the newest one without it."""
        found: dict[str, Any] = json.loads(((run or self.teams[-1]).path / "run-meta.json").read_text())
        return found

    def artifact(self, name: str, run: RunFolder | None = None) -> str:
        """The text of a deliverable."""
        return ((run or self.teams[-1]).artifacts / name).read_text(encoding="utf-8")

    def log(self, agent: str, run: RunFolder | None = None) -> list[dict[str, Any]]:
        """The log of an agent."""
        text = ((run or self.teams[-1]).logs / f"{agent}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def calls(self, run: str = "last") -> list[dict[str, Any]]:
        """The model calls of a run, as `audit --json` prints them."""
        lines = self.run("audit", run, "--json").stdout.splitlines()
        return [record for record in map(json.loads, lines) if record.get("type") == "call"]
