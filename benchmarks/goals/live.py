"""Twenty goals on a real small model, end to end: what becomes of each. Run by hand.

    python benchmarks/goals/live.py [--way embedded|server] [--of goals|unseen] [--goals N,N …] [--steps N] [--keep D]

`embedded` is `--provider local`. `server` is llama.cpp's OpenAI-compatible server in a process of its own, with a key,
through `openai_compat` and `constrain: true`. The goals are about a small project (goals.json has its files) and about
this repository, as of HEAD. Prompts and schemas were made with goals.json at hand; unseen.json has another project and
other goals, and nothing is to be changed because of them. Questions are answered with yes. What is counted comes from
the journals of the runs. Targets: every run completes, main finalizes 12 of 20 after an executed command, at most 2
answers are the fixed text. If one is missed, the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from orchestra.core.errors import ContractError

HERE = Path(__file__).resolve().parent
PROGRAM = Path(sys.executable).with_name("orchestra")
MAX_STEPS = 3
MOST_ANSWERS = 4  # of one run
LONGEST = 900  # seconds of one command: longer is a hang
LEAST_FINALIZED, MOST_FIXED = 12, 2  # of twenty goals
REPLIES = ("planning-result", "worker-action", "main-decision", "main-answer")
CONFIG = "providers: {openai_compat: {constrain: true, context_tokens: 8192, max_output_tokens: 1024}}\n"


class Wanted(Struct, frozen=True):
    """Which goals are run, and how many steps each has."""

    of: str  # the file without its ending
    numbers: frozenset[int]  # empty: all
    steps: int


class Ran(Struct, frozen=True):
    """One goal, run to its end."""

    goal: str
    code: int
    seconds: float
    commands: tuple[str, ...]  # those that were executed, with their exit codes
    steps: int
    repairs: int  # replies that broke the protocol
    retries: int  # calls that failed for a technical reason, such as a timeout on a busy machine
    forced: bool
    fixed: bool  # the answer is the fixed text
    finalized: bool  # main's own decision, after an executed command
    chosen: bool  # it might have continued: steps were left
    questions: int
    answer: str

    @property
    def row(self) -> str:
        marks = ("yes" if one else "" for one in (self.finalized, self.chosen, self.forced, self.fixed))
        counts = (len(self.commands), self.steps, self.repairs, self.retries)
        figures = (self.goal, *counts, *marks, self.questions, round(self.seconds))
        return f"| {' | '.join(map(str, figures))} |"


HEAD = (
    "| goal | commands | steps | repairs | retries | finalized | with steps left | forced | fixed text"
    " | questions | seconds |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


@contextmanager
def _server(way: str) -> Iterator[dict[str, str]]:
    """The variables that lead to a server of our own, if one is needed; it ends afterwards."""
    if way == "embedded":
        yield {}
        return
    key = secrets.token_hex(16)
    server = subprocess.Popen(
        [sys.executable, HERE / "server.py"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "SERVER_KEY": key},
    )  # fmt: skip
    assert server.stdin and server.stdout
    with server, server.stdin:  # it ends when its input does
        yield {"OPENAI_BASE_URL": f"{server.stdout.readline().strip()}/v1", "OPENAI_API_KEY": key}


def _projects(folder: Path, files: Mapping[str, str]) -> dict[str, Path]:
    """The sample with these files, and a copy of this repository."""
    sample, repository = folder / "sample", folder / "repository"
    for name, text in files.items():
        path = sample / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    packed = folder / "head.tar"
    subprocess.run(["git", "archive", "-o", packed, "HEAD"], cwd=HERE.parent.parent, check=True)
    with tarfile.open(packed) as archive:
        archive.extractall(repository, filter="data")
    for project in (sample, repository):
        (project / "orchestra.config.yaml").write_text(CONFIG)
    return {"sample": sample, "repository": repository}


def run_goal(project: Path, goal: str, provider: str, env: Mapping[str, str], max_steps: int = MAX_STEPS) -> Ran:
    """Run one goal; answer its questions until it ends."""

    def orchestra(*arguments: str) -> subprocess.CompletedProcess[str]:
        said = [str(PROGRAM), *arguments, "--no-input", "--json"]
        return subprocess.run(said, cwd=project, env=env, text=True, capture_output=True, timeout=LONGEST)

    began, session = time.monotonic(), f"g{time.monotonic_ns()}"
    steps = ("--max-steps", str(max_steps))
    ran = orchestra("agent:run", "--session", session, "--goal", goal, "--provider", provider, *steps)
    for _ in range(MOST_ANSWERS):
        if ran.returncode != 3:
            break
        ran = orchestra("answer", "last", "yes")
    seconds = time.monotonic() - began
    if ran.returncode or "Traceback" in ran.stderr:
        print(ran.stderr[-2000:], file=sys.stderr)
    done = json.loads(ran.stdout.splitlines()[-1])
    lines = (project / "runs" / done["runId"] / "events.ndjson").read_text("utf-8").splitlines()
    return _read(goal, ran.returncode, seconds, [json.loads(line) for line in lines], max_steps)


def _read(goal: str, code: int, seconds: float, events: Sequence[Mapping[str, Any]], max_steps: int) -> Ran:
    """What a journal shows of a run."""
    said = [(event["type"], event["payload"]) for event in events]
    ended = [(kind, body, body.get("native")) for kind, body in said if kind in ("PHASE_COMPLETED", "PHASE_FAILED")]
    commands = tuple(
        f"{body['outcome']['command']} -> {body['outcome']['exitCodes']}"
        for kind, body, native in ended
        if kind == "PHASE_COMPLETED" and native == "tool-result" and body["outcome"].get("exitCodes")
    )
    decided = [
        body["outcome"]["text"] for kind, body, native in ended if (kind, native) == ("PHASE_COMPLETED", REPLIES[2])
    ]
    failures = [body["error"]["code"] for kind, body, native in ended if kind == "PHASE_FAILED" and native in REPLIES]
    forced = any(body.get("state") == "ForcedSynthesis" for _, body in said)
    answer = said[-1][1].get("result", {}).get("answer", "")
    fixed = answer.startswith("No model could write an answer to:")
    finalized = bool(decided and commands) and json.loads(decided[-1])["decision"] == "finalize" and not forced
    steps = max((body.get("step", 0) for _, body in said), default=0)
    return Ran(
        goal=goal,
        code=code,
        seconds=seconds,
        commands=commands,
        steps=steps,
        repairs=failures.count(ContractError.code),
        retries=len(failures) - failures.count(ContractError.code),
        forced=forced,
        fixed=fixed,
        finalized=finalized and not fixed,
        chosen=finalized and not fixed and steps < max_steps,
        questions=sum(kind == "QUESTION_RAISED" for kind, _ in said),
        answer=answer,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=("embedded", "server"), action="append")
    parser.add_argument("--of", choices=("goals", "unseen"), default="goals")
    parser.add_argument("--goals", default="")
    parser.add_argument("--steps", type=int, default=MAX_STEPS)
    parser.add_argument("--keep", type=Path)
    typed = parser.parse_args()
    wanted = Wanted(typed.of, frozenset(int(number) for number in typed.goals.split(",") if number), typed.steps)
    fine = True
    for way in typed.way or ("embedded", "server"):
        with _place(typed.keep, way) as folder, _server(way) as variables:
            fine &= _all(way, folder, variables, wanted)
    return 0 if fine else 1


@contextmanager
def _place(keep: Path | None, way: str) -> Iterator[Path]:
    if keep is not None:
        yield keep / way
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _all(way: str, folder: Path, variables: Mapping[str, str], wanted: Wanted) -> bool:
    """Every goal, one way; whether the targets hold."""
    env = {**os.environ, "HOME": str(folder), "ORCHESTRA_KEY": "the key of the benchmarks", **variables}
    found = json.loads((HERE / f"{wanted.of}.json").read_text("utf-8"))
    projects, provider = _projects(folder, found["files"]), "local" if way == "embedded" else "openai_compat"
    goals = [(project, goal) for project in projects for goal in found[project]]
    print(f"\n{way}, {wanted.of}, at most {wanted.steps} steps\n\n{HEAD}", flush=True)
    ran: list[Ran] = []
    for number, (project, goal) in enumerate(goals, start=1):
        if wanted.numbers and number not in wanted.numbers:
            continue
        ran.append(run_goal(projects[project], goal, provider, env, wanted.steps))
        print(ran[-1].row, flush=True)
        print(f"    {ran[-1].commands}\n    {ran[-1].answer!r}", file=sys.stderr, flush=True)
    finalized, fixed = sum(one.finalized for one in ran), sum(one.fixed for one in ran)
    figures = {
        "completed": sum(not one.code for one in ran),
        "finalized by main after a command": finalized,
        "of them with steps left": sum(one.chosen for one in ran),
        "fixed texts": fixed,
        "forced syntheses": sum(one.forced for one in ran),
        "repairs": sum(one.repairs for one in ran),
        "retries": sum(one.retries for one in ran),
        "questions": sum(one.questions for one in ran),
    }
    print(f"\n{len(ran)} goals: {', '.join(f'{value} {name}' for name, value in figures.items())}")
    return not any(one.code for one in ran) and finalized >= LEAST_FINALIZED * len(ran) / 20 and fixed <= MOST_FIXED


if __name__ == "__main__":
    sys.exit(main())
