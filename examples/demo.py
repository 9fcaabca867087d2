"""`make demo`: the real program on a small project with a failing test. No network, no key, no model.

    python examples/demo.py [DIR]     DIR: where to put it (default: the next free demo/N; it must not exist yet)

What it shows is what `orchestra` itself prints; this script only makes the project and says what it does. The replies
come from demo-replies.yaml beside it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = Path(sys.executable).parent  # of the environment that runs this: `orchestra` and `python3` are there
GOAL = "greet people in Korean too"
CHECK = "python3 -m unittest -q"
IGNORED = shutil.ignore_patterns("__pycache__", ".runs", ".mypy_cache", ".ruff_cache", ".pytest_cache")


def main(arguments: Sequence[str]) -> int:
    """Make the project, run the loop on it, show what it did; 0 if the run completed."""
    folder = new_folder(arguments, __doc__ or "")
    if folder is None:
        return 2
    project, yours = folder / "greeting", folder / "yours"
    for copy in (project, yours):
        shutil.copytree(HERE / "greeting", copy, ignore=IGNORED)
    shutil.copy(HERE / "demo-replies.yaml", folder)

    head(f"A small project with a failing test: {project}")
    say("It greets in English; its tests want Korean too.\n")
    run(project, shlex.split(CHECK))

    head("Have it fixed: plan, patch, checks, fix, until the checks pass")
    say("The replies come from a file, and the first patch in it is wrong.\n")
    code = run(project, ["orchestra", "loop", GOAL, "--check", CHECK, "--approval", "never"])

    head("What it changed: both patches as one")
    run(project, ["orchestra", "diff", "last"])

    head("Every model call it made")
    run(project, ["orchestra", "audit", "last"])

    runs = sorted((project / ".runs" / "workflows").glob("*"))
    if code or len(runs) != 1:
        say(f"\nThe demo did not go as it should (exit code {code}). Look: {project}")
        return code or 1
    sum_up(runs[0], project, yours)
    return 0


def new_folder(arguments: Sequence[str], usage: str) -> Path | None:
    """The folder for a demo; None if there cannot be one, which is then said."""
    if len(arguments) > 1 or any(word.startswith("-") for word in arguments):
        say(usage)
    elif not (PROGRAMS / "orchestra").exists():
        say(f"There is no orchestra beside {sys.executable}. Set it up first: make setup")
    elif arguments and os.path.lexists(arguments[0]):
        say(f"{arguments[0]} exists already. Give a folder that does not, or none: then it is the next free demo/N")
    else:
        return make_folder(Path(arguments[0]) if arguments else None)
    return None


def make_folder(wanted: Path | None) -> Path:
    """A folder nobody used before: running the demo again disturbs nothing."""
    if wanted is not None:
        wanted.mkdir(parents=True)
        return wanted.resolve()
    demos = HERE.parent / "demo"
    number = 1
    while True:
        try:
            demos.mkdir(exist_ok=True)
            (demos / str(number)).mkdir()
            return demos / str(number)
        except FileExistsError:
            number += 1
        except OSError:  # the clone is read-only
            return Path(tempfile.mkdtemp(prefix="orchestra-demo-"))


def run(project: Path, command: Sequence[str]) -> int:
    """Run a command in the project as a person would: same terminal, live output."""
    say(f"$ {shlex.join(command)}")
    path = f"{PROGRAMS}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    found = shutil.which(command[0], path=path) or command[0]
    env = {**os.environ, "PATH": path}
    done = subprocess.run([found, *command[1:]], cwd=project, env=env, stderr=subprocess.STDOUT, check=False)
    return done.returncode


def sum_up(folder: Path, project: Path, yours: Path) -> None:
    """What happened, where it is, what to try next."""
    events = [json.loads(line) for line in (folder / "events.ndjson").read_text(encoding="utf-8").splitlines()]
    types = [event["type"] for event in events]
    head("What happened")
    say(
        f"The goal is reached: {types.count('PATCH_APPLIED')} patches were applied, "
        f"{types.count('EVALUATION_FAILED_FIXABLE')} failed its checks and was fixed.\n"
        f"Every step of it ({len(events)} events) is in plain files in the run folder:\n"
        f"  {folder}"
    )
    head_of_what_next()
    goal, check = shlex.quote(GOAL), shlex.quote(CHECK)
    say(
        f"cd {shlex.quote(str(project))}\n"
        f"orchestra show last                    # the run, step by step\n"
        f"orchestra verify .runs/workflows/*     # is the run folder what the specification says?\n"
        f"\n"
        f"cd {shlex.quote(str(yours))}   # the same project, untouched: now you decide\n"
        f"orchestra loop {goal} --check {check}\n"
        f"\n"
        f"It shows each patch and waits: y applies it, r TEXT rejects it and says why, ? lists more, Ctrl-C stops.\n"
        f"After Ctrl-C, or a kill -9, go on with: orchestra resume last\n"
        f"More: docs/tutorial.md"
    )


def head_of_what_next() -> None:
    """Commands to paste follow; `orchestra` must be found for them."""
    head("What to try next (copy and paste)")
    if shutil.which("orchestra") != str(PROGRAMS / "orchestra"):
        say(f"export PATH={shlex.quote(str(PROGRAMS))}:$PATH")


def head(text: str) -> None:
    """A heading, bold where someone sees it."""
    bold = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    say(f"\n\033[1m== {text}\033[0m" if bold else f"\n== {text}")


def say(text: str) -> None:
    """A line, out before the next command writes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
