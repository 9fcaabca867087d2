"""A team's run with twenty agents in three phases, against its ideal schedule: nothing but the latency of its calls.

Every call takes LATENCY_MS. A phase has its drafts at once, then one review and one revision of each agent, one after
another (S4-43, S4-45, S4-50). The ideal schedule waits that long and does nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from statistics import median

from measure import Row, Timed, interleaved, scratch, time_text

from orchestra.app import App
from orchestra.providers.choose import Models
from orchestra.workflows.team.workflow import TEAM, job_of_files

AGENTS, PHASES, LATENCY_MS, ROUNDS = 20, 3, 50, 3
NAMES = [f"agent-{number:02d}" for number in range(AGENTS)]
ENVIRON = {**os.environ, "ORCHESTRA_KEY": "the key of the benchmarks"}
SAID = {
    "execute": "# {name} 초안\n" + "한 줄\n" * 40,
    "evaluate": '- [F] low: a remark evidence: "초안"',
    "fix": "# {name} 확정\n" + "한 줄\n" * 40,
}


def bench() -> list[Row]:
    with scratch("teams") as folder:
        script = _write(folder)
        used: list[float] = []
        times = interleaved(ROUNDS, _team(folder, script, used), _ideal)
    ours, ideal = (time_text(times.median(side)) for side in range(2))
    worked = median(used)
    return [
        Row(f"{AGENTS} agents in {PHASES} phases, against the ideal schedule", ours, ideal, times.ratio(0, 1), 1.3),
        Row("  of it, processor time", time_text(worked), ideal, worked / times.median(1)),
    ]


def _write(project: Path) -> Path:
    """The files of the team, and its script."""
    for folder in ("orchestrators", "agents", "tasks"):
        (project / folder).mkdir()
    everybody = ", ".join(f"`{name}`" for name in NAMES)
    team = [
        *("# Orchestrator: crowd", "", "## Team", "", "| Agent | Role |", "|---|---|"),
        *(f"| `{name}` | writes |" for name in NAMES),
        *("", "## Phases", "", "| Phase | Agents | Mode |", "|---|---|---|"),
        *(f"| {number} | {everybody} | turns |" for number in range(1, PHASES + 1)),
        *("", "## Artifacts", "", "| Artifact | Owner |", "|---|---|"),
        *(f"| `{name}.md` | `{name}` |" for name in NAMES),
    ]
    (project / "orchestrators" / "crowd.md").write_text("\n".join(team))
    (project / "tasks" / "work.md").write_text(
        "## Orchestrators\n\n|a|b|\n|-|-|\n|1|`crowd`|\n\n## Direction\n\nWork.\n"
    )
    for number, name in enumerate(NAMES):
        text = f"## Role\n\nWrites.\n\n## Outputs\n\nFile: `artifacts/{name}.md`\n\n## Prompt\n\n```\nWrite.\n```\n"
        reviews = f"\n## Cross review\n\n- `artifacts/{NAMES[number - 1]}.md`\n"
        (project / "agents" / f"{name}.md").write_text(text + reviews)
    (project / "orchestra.config.yaml").write_text(f"version: '1.0'\nconcurrency: {{max_workers: {AGENTS}}}\n")
    replies = [
        {
            "match": {"agent": name, "phase": phase},
            "text": text.format(name=name),
            "repeat": True,
            "delayMs": LATENCY_MS,
        }
        for name in NAMES
        for phase, text in SAID.items()
    ]
    (project / "replies.json").write_text(json.dumps({"replies": replies}))
    return project / "replies.json"


def _team(project: Path, script: Path, used: list[float]) -> Timed:
    def timed() -> float:
        start, worked = time.perf_counter(), time.process_time()
        app = App(project, environ=ENVIRON)
        job = job_of_files(app.project, "crowd", "work")
        end = asyncio.run(app.drive(app.start(TEAM.name, job, Models(default=f"scripted:{script}"))))
        assert end.status == "completed", end
        used.append(time.process_time() - worked)
        return time.perf_counter() - start

    return timed


def _ideal() -> float:
    async def schedule() -> None:
        for _ in range(PHASES):
            await asyncio.gather(*(asyncio.sleep(LATENCY_MS / 1000) for _ in NAMES))
            for _ in range(2 * AGENTS):
                await asyncio.sleep(LATENCY_MS / 1000)

    start = time.perf_counter()
    asyncio.run(schedule())
    return time.perf_counter() - start
