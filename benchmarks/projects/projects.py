"""Public projects, set up as a user does, with their own change as the model's reply: does "completed" mean something?

    .venv/bin/python benchmarks/projects/projects.py CLONES [NAME...] [--by-hand] [--keep]

CLONES holds a git clone (bare or not) of each project of public_projects.py, in a folder of its name. A program that a
person starts; it needs the clients pip and npm with their registries, and measures nothing, so `make bench` leaves it
out. README.md of benchmarks/ has the protocol.

Rules
1. Each setup is a fresh clone at `base` with the tests of `gold`. Each try begins with these files again, without runs.
2. The model's reply is the rest of `gold`, as the developer's patch; a plan that names nothing; no evaluator.
3. orchestra is the real program as a process of its own, in a new home folder, with no variable but PATH, LANG, TERM,
   HOME and, if an environment is active, VIRTUAL_ENV. orchestra's own environment is not on PATH unless a try says so.
4. A try is right if it ends as its row says. Ending green where the row does not say so is FALSELY GREEN.
5. `--by-hand` runs the check without orchestra as well, before and after the change, as a user in a shell would.
6. Setups and checks by hand run the project's code with the rights of this process, as they do for a user.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from public_projects import GREEN, NOT_GREEN, OWN, PROJECTS, PROVES_NOTHING, Project, Setup, Try

BIN = Path(sys.executable).parent  # of orchestra's own environment
GOAL = "make the failing test pass"
PLAN = "1. Find what the failing test is about. 2. Change the sources so that it passes. 3. Leave the tests alone."
HEAD = "<<<AIO_RESULT_START>>>\ntype: PATCH\nsummary: the project's own change\n<<<AIO_RESULT_END>>>\n\n"
PATIENCE_S = 900
WIDTHS = (14, 44, 50, 13, 7, 5, 22, 7)


@dataclass(frozen=True)
class Ending:
    """How one run ended."""

    code: int
    status: str
    before: str
    after: str
    proves_nothing: bool
    text: str  # everything that was printed
    seconds: float

    @property
    def green(self) -> bool:
        """Whether the run claims that the goal is reached, and that the checks show it."""
        return self.code == 0 and self.status == "completed" and not self.proves_nothing


def main() -> int:
    """Run the tries that were asked for; 1 if one of them did not end as it should."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    asked.add_argument("clones", type=Path)
    asked.add_argument("names", nargs="*", metavar="NAME", help="projects (default: all)")
    asked.add_argument("--by-hand", action="store_true", help="run each check without orchestra too")
    asked.add_argument("--keep", action="store_true", help="keep the folders")
    options = asked.parse_args()
    known = {project.name: project for project in PROJECTS}
    if unknown := set(options.names) - set(known):
        asked.error(f"no such project: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    place = Path(tempfile.mkdtemp(prefix="orchestra-projects-"))
    print(row("project", "setup", "check", "active", "before", "after", "end", "seconds"), flush=True)
    try:
        chosen = [known[name] for name in options.names or known]
        wrong = [text for project in chosen for text in run_project(project, options, place)]
    finally:
        if options.keep:
            print(f"kept: {place}")
        else:
            shutil.rmtree(place, ignore_errors=True)
    print("\n" + ("\n".join(wrong) if wrong else "Every try ended as it should; none is falsely green."))
    return 1 if wrong else 0


def run_project(project: Project, options: argparse.Namespace, place: Path) -> Iterator[str]:
    """Set the project up in each of its ways and run the tries; what went wrong, in words."""
    for number, setup in enumerate(project.setups):
        folder = place / f"{project.name}-{number}" / project.name
        prepare(project, setup, options.clones.resolve() / project.name, folder)
        script = folder.parent / "replies.yaml"
        script.write_text(replies(project, folder), encoding="utf-8")
        for one in setup.tries:
            restore(project, folder)
            ending = run_try(one, folder, script)
            wrong = judge(one, ending)
            shown = [project.name, setup.name, one.check, one.active or "-"]
            print(row(*shown, ending.before, ending.after, end(one, ending), f"{ending.seconds:.0f}"), flush=True)
            if wrong:
                yield f"{project.name}, {setup.name}, `{one.check}`: {wrong}\n{ending.text[-3000:]}"
            if options.by_hand and one.ends == GREEN:
                yield from by_hand(project, one, folder)


# -- the project's files ----------------------------------------------------------------------------------------------


def prepare(project: Project, setup: Setup, clone: Path, folder: Path) -> None:
    """Clone the project, take the tests of `gold`, and type what a user types (rule 1)."""
    folder.parent.mkdir(parents=True)
    command(["git", "clone", "-q", "--no-checkout", str(clone), str(folder)], folder.parent)
    command(["git", "checkout", "-q", project.base], folder)
    restore(project, folder)
    for line in setup.commands:
        said = line.format(gold=project.gold, base=project.base)
        command(["sh", "-c", said], folder, env={**os.environ, "PATH": path_of(""), "VIRTUAL_ENV": ""})


def restore(project: Project, folder: Path) -> None:
    """The files of `base` with the tests of `gold`, and no runs. What git ignores or does not track stays."""
    command(["git", "checkout", "-q", project.base, "--", "."], folder)
    command(["git", "checkout", "-q", project.gold, "--", *project.tests], folder)
    command(["git", "reset", "-q"], folder)
    shutil.rmtree(folder / ".runs", ignore_errors=True)


def gold_patch(project: Project, folder: Path) -> str:
    """The change of `gold` without its tests, as git prints it."""
    rest = [".", *(f":(exclude){path}" for path in project.tests)]
    return command(["git", "diff", "--no-color", "--no-ext-diff", project.base, project.gold, "--", *rest], folder)


def replies(project: Project, folder: Path) -> str:
    """The script: a plan, and the project's own change as the developer's reply (rule 2)."""
    patch = f"{HEAD}[PATCH_BEGIN]\n{gold_patch(project, folder)}[PATCH_END]\n"
    said = [{"match": {"role": "planner"}, "text": PLAN}, {"match": {"role": "developer"}, "text": patch}]
    return str(yaml.safe_dump({"replies": said}, allow_unicode=True))


# -- one try ----------------------------------------------------------------------------------------------------------


def path_of(active: str) -> str:
    """PATH of a user's shell with this environment active (rule 3)."""
    usual = [part for part in os.environ["PATH"].split(":") if part and Path(part).resolve() != BIN.resolve()]
    return ":".join([f"{active}/bin", *usual] if active else usual)


def shell(active: str, folder: Path, home: str) -> dict[str, str]:
    """The environment variables of a user's shell (rule 3)."""
    venv = str(BIN.parent) if active == OWN else str(folder / active) if active else ""
    language = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TERM") if name in os.environ}
    return {"PATH": path_of(venv), "HOME": home, **language, **({"VIRTUAL_ENV": venv} if venv else {})}


def run_try(one: Try, folder: Path, script: Path) -> Ending:
    """Run orchestra, and read how it ended from what it printed."""
    options = ["--provider", f"scripted:{script}", "--approval", "never", "--no-input", "--json"]
    argv = [str(BIN / "orchestra"), "loop", GOAL, "--check", one.check, *options]
    with tempfile.TemporaryDirectory(prefix="orchestra-home-") as home:
        began = time.monotonic()
        done = subprocess.run(
            argv, cwd=folder, env=shell(one.active, folder, home), capture_output=True, text=True, timeout=PATIENCE_S
        )
        seconds = time.monotonic() - began
    records = [json.loads(line) for line in done.stdout.splitlines()]
    last: dict[str, Any] = records[-1] if records else {}
    result = last.get("result") or {}
    checks = result.get("checks") or verdict(folder)
    return Ending(
        code=done.returncode,
        status=last.get("status", "not started"),
        before=", ".join(check.get("before", "?") for check in checks) or baseline(records),
        after=", ".join(check["status"] for check in checks) or "-",
        proves_nothing=bool(result.get("provesNothing", True)),
        text=done.stdout + done.stderr,
        seconds=seconds,
    )


def verdict(folder: Path) -> list[dict[str, Any]]:
    """The checks of the last verdict of a run that did not complete; nothing if there was none."""
    found = sorted(folder.glob(".runs/workflows/*/artifacts/evaluate/iter-????.json"))
    return list(json.loads(found[-1].read_text(encoding="utf-8"))["checks"]) if found else []


def baseline(records: list[dict[str, Any]]) -> str:
    """What was before, of a run that ended before the plan."""
    return "blocked" if any(record.get("type") == "QUESTION_RAISED" for record in records) else "-"


def judge(one: Try, ending: Ending) -> str:
    """What is wrong about this ending (rule 4); empty if it is as it should be."""
    if ending.green and one.ends != GREEN:
        return "FALSELY GREEN"
    if one.ends == GREEN and not (ending.green and ending.before == "fail" and ending.after == "pass"):
        return f"not green: exit code {ending.code}, {ending.status}, before {ending.before}, after {ending.after}"
    if one.ends == NOT_GREEN and ending.status == "completed":
        return "completed"
    if one.ends == PROVES_NOTHING and not (ending.status == "completed" and ending.before == "pass"):
        return f"exit code {ending.code}, {ending.status}, before {ending.before}: the case is not what it should be"
    return "" if one.told in ending.text else f"it does not print {one.told!r}"


def end(one: Try, ending: Ending) -> str:
    """The column `end`."""
    if ending.green:
        return "green" if one.ends == GREEN else "FALSELY GREEN"
    return PROVES_NOTHING if ending.status == "completed" else f"{ending.status} ({ending.code})"


def by_hand(project: Project, one: Try, folder: Path) -> Iterator[str]:
    """Run the check in a shell before and after the change (rule 5); what is wrong about the case, in words."""
    codes = []
    for change in ("", gold_patch(project, folder)):
        restore(project, folder)
        if change:
            subprocess.run(["git", "apply"], cwd=folder, input=change, text=True, check=True)
        env = {**shell(one.active or hands(folder), folder, os.environ.get("HOME", "/"))}
        codes.append(
            subprocess.run(["sh", "-c", one.check], cwd=folder, env=env, capture_output=True, check=False).returncode
        )
    print(row("", "", "  by hand, without orchestra", "", *("fail" if code else "pass" for code in codes), "", ""))
    if not codes[0] or codes[1]:
        yield f"{project.name}, `{one.check}`: by hand it is not red before and green after (exit codes {codes})"


def hands(folder: Path) -> str:
    """The environment that a user activates to run a check by hand."""
    return next((name for name in (".venv", "venv") if (folder / name).is_dir()), "")


# -- helpers ----------------------------------------------------------------------------------------------------------


def command(argv: list[str], folder: Path, env: dict[str, str] | None = None) -> str:
    """Run a command of the setup and return its output; a failure ends the program with what it printed."""
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: exit code {done.returncode} in {folder}\n{done.stdout}{done.stderr}")
    return done.stdout


def row(*cells: str) -> str:
    """One row of the printed table."""
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)) + " |"


if __name__ == "__main__":
    sys.exit(main())
