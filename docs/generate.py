"""Writes the parts of the documents that follow from the code. `make docs` runs it; a test fails when they are stale.

    python docs/generate.py           write what changed
    python docs/generate.py --check   change nothing; exit 1 and name what is stale

docs/cli.md           from click's help of every command
docs/config.md        from config.sample.yaml and the options' environment variables
docs/run-folder.md    from orchestra.schemas.RECORDS
docs/*-states.md      from the tables of each workflow
docs/{loop,tasks,contracts}.md
                      their transcripts: what `make demo`, `make demo-dag` and `make demo-contracts` really print
docs/pictures/*.svg   from a real run at a terminal (docs/pictures.py)
"""

from __future__ import annotations

import functools
import importlib.resources
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from pictures import pictures, settled

from orchestra.cli.commands import COMMANDS
from orchestra.cli.program import program
from orchestra.core.tables import Table
from orchestra.schemas import RECORDS, schema
from orchestra.workflows.all import ALL
from orchestra.workflows.description import Inner, Workflow

ROOT = Path(__file__).resolve().parents[1]
NOTE = "<!-- Written by docs/generate.py: change the code it is made from, then run `make docs`. -->"
WIDTH = 96


def main(arguments: list[str]) -> int:
    """Write every stale page, or with --check only name it."""
    with tempfile.TemporaryDirectory() as demos:
        fresh = {**pages(), **transcripts(Path(demos)), **pictures()}
    stale = {path: text for path, text in fresh.items() if _read(path) != text}
    for path, text in stale.items():
        name = path.relative_to(ROOT)
        if arguments == ["--check"]:
            sys.stdout.write(f"{name} is stale: run `make docs`\n")
        else:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")
    return 1 if stale and arguments else 0


def pages() -> dict[Path, str]:
    """Every generated page with its text."""
    docs = ROOT / "docs"
    return {
        docs / "cli.md": cli_page(),
        docs / "config.md": config_page(),
        docs / "run-folder.md": run_folder_page(),
        **{docs / f"{workflow.name}-states.md": states_page(workflow) for workflow in ALL},
    }


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


# -- docs/cli.md ------------------------------------------------------------------------------------------------------

CLI_INTRO = """\
# Commands

What `orchestra COMMAND --help` prints, for every command.

RUN is a run's id, a unique prefix of it, or `last`: the newest run that you started. It stands for the run and its
child runs.
"""


def cli_page() -> str:
    """The help of every command."""
    parts = [NOTE, "", CLI_INTRO, "| command | what it does |", "|---|---|"]
    parts += [f"| [`{name}`](#orchestra-{name.replace(':', '')}) | {line} |" for name, (_, line) in COMMANDS.items()]
    parts += ["", "## orchestra", "", *_help(program, "orchestra")]
    for name, command in _commands(program, "orchestra"):
        parts += [f"## {name}", "", *_help(command, name)]
    return "\n".join(parts)


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


def _help(command: click.Command, name: str) -> list[str]:
    settings: dict[str, Any] = {**program.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, info_name=name, **settings)
    return ["```text", *(line.rstrip() for line in command.get_help(context).splitlines()), "```", ""]


# -- docs/config.md ---------------------------------------------------------------------------------------------------

CONFIG_INTRO = """\
# Configuration

No file is needed: every key has a default. `orchestra init` writes `orchestra.config.yaml` into the project folder
with all of them:
"""
CONFIG_RULES = """\
- Flags win over environment variables, and these over the file.
- An unknown key or a wrong type is refused (exit code 2) with the file, the line and the nearest known key.
- Run orchestra in the project folder: that is where a relative `scripted:` file is looked for.
- A budget needs prices: tokens of a model without a known price count as free, and a notice reports it.
- There are no secrets in this file: a provider names the variable that holds its key (`key_env`).

`orchestra config show` prints what is in force, `orchestra config path` where it was found, and
`orchestra config validate` checks it, and that the names of providers and roles lead somewhere: all mistakes at once.

## What tools may do

[The sandbox](security.md) is what protects; the whitelist says what may start. `orchestra policy explain -- COMMAND`
says what holds for a command and by which line of the file, `orchestra policy test` runs the examples of the rules.

- A model's task runs only tools in `whitelist_tools`, each under that one spelling: no path, no `python3` for `python`.
  Shells and programs that start others (`bash`, `env`, `xargs`, …) are tools like any other: refused unless named.
- The strictest matching rule of `rules` wins: forbid, then ask, then allow, then the whitelist. A rule that allows or
  asks admits the commands it names without the whole tool being whitelisted. Rules that forbid or ask see through
  wrappers, runners and options: `timeout 5 git -C . push` is `git push`, and so is `poetry run git push`.
- What a person typed (`--check`, `loop.checks`) needs no whitelist; rules that forbid hold for it too.
- A tool is found once: in [the project's environment](security.md#the-environment-of-the-project) (`.venv`,
  `node_modules/.bin`), then on the PATH of the person who started orchestra, never elsewhere in the workspace. Another
  program of the project needs a line: `tools: {fmt: bin/fmt}`. An interpreter outside `/usr` (venv, pyenv, nvm, asdf,
  conda) is given to the sandbox for reading.
- `allow_read` adds to `./`, which can always be read. `sandbox.loopback` opens services of this machine by port.
- `allow_write` cannot name `/`, your home, the workspace, runs other than `./runs`, system folders or folders on PATH;
  `allow_read` cannot name `/`, your home, `/proc`, `/sys`, `/dev` or `/run`.
- `allow_domains` has exact names or `*.example.com` (every name below it), for ports 80 and 443 unless one is given.
- A task's `inputs.env` may not set variables that change which code a tool runs or where its traffic goes: `PATH`,
  `HOME`, `LD_*`, `GIT_*`, `NODE_OPTIONS`, `BASH_ENV`, proxies and the like (`src/orchestra/policy/inputs.py` has the
  list).
- A task, and a child run, can only narrow the policy.

## Notify

`notify:` is your own command for when a run waits for you or has ended, as a list of words: `[notify-send, orchestra]`.
It runs on your machine, outside the sandbox, so it needs your consent (`orchestra trust`), and its program may not lie
in the project. Variables tell it what happened: `ORCHESTRA_RUN_ID`, `ORCHESTRA_RUN_NUMBER`, `ORCHESTRA_RUN_STATUS`,
`ORCHESTRA_RUN_GOAL` and `ORCHESTRA_PROJECT`. For example:

```yaml
notify: [sh, -c, 'notify-send "$ORCHESTRA_RUN_STATUS" "$ORCHESTRA_RUN_GOAL"']
```

## What works in this release

Every key is in force but these, which are read and checked and wait for later releases: `telemetry.format`, and of
`paths` all but `runs`: a run's files are in its own folder, under the names in the sample.
`redact_secrets: false` writes secrets into events, logs, reports and prompts as they are; a patch that adds one still
needs a look, and commands still do not see yours.

[Models](models.md) has everything about providers. The roles are `planner`, `developer`, `evaluator` and `fixer`; a
task graph's summarizer has the role `planner`, and the agent name `summarizer`.

## Environment variables

| variable | the same as | commands |
|---|---|---|
"""
CONFIG_OTHERS = """\
| `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_MODEL` | the server, key and model of `openai_compat` | all that call models |
| `ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN` | the same for `anthropic` and `claude_code` | all that call models |
| `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY` | the way to models; never used for an address of this machine | all that call models |
| `DEBUG_LLM_REQUESTS` | `true`: a summary of every request in the run's `logs/llm-requests.log` | all that call models |
| `NO_COLOR` | no colours at a terminal | all |
| `ORCHESTRA_DEBUG` | show the traceback of an internal error | all |
| `ORCHESTRA_CHAOS` | `N:before`, `N:torn` or `N:after`: kill orchestra (SIGKILL) at its N-th disk operation; `N:enospc`: be a full disk from there on. For trying out what it withstands | all |
"""  # noqa: E501  # a row of a table is one line


def config_page() -> str:
    """The commented sample, what of it works, and the environment."""
    sample = importlib.resources.files("orchestra.config").joinpath("sample.yaml").read_text(encoding="utf-8")
    parts = [NOTE, "", CONFIG_INTRO, "```yaml", sample.rstrip("\n"), "```", "", CONFIG_RULES.rstrip("\n")]
    parts += [f"| `{variable}` | `{flag}` | {', '.join(names)} |" for variable, flag, names in _variables()]
    return "\n".join(parts) + "\n" + CONFIG_OTHERS


def _variables() -> list[tuple[str, str, list[str]]]:
    found: dict[tuple[str, str], list[str]] = {}
    for name, command in _commands(program, "orchestra"):
        for option in command.params:
            if isinstance(option, click.Option) and isinstance(option.envvar, str):
                found.setdefault((option.envvar, option.opts[-1]), []).append(name.removeprefix("orchestra "))
    return [(variable, flag, names) for (variable, flag), names in sorted(found.items())]


# -- docs/run-folder.md -----------------------------------------------------------------------------------------------

RUN_FOLDER_INTRO = """\
# The run folder

A run is a folder of plain files. `events.ndjson` is the truth; everything else is what was said and made, or can be
rebuilt from the events. `orchestra verify DIR` checks a folder against these rules.

## A loop

```text
.runs/workflows/<runId>/
  events.ndjson                       the journal: one event per line, only ever added to
  state.json                          the newest snapshot; rebuilt from the journal when missing, stale or damaged
                                      (of this run only: a parent whose child waits is `running` here)
  rules.json                          AGENTS.md and the like, as they were when the run began (docs/rules.md)
  report.md                           what happened, for people; written before the run ends
  artifacts/
    plan/iter-0001.md                 the plan
    execute/iter-0001.raw.txt         the developer's reply, byte by byte, readable by the owner only
    execute/iter-0001.patch           the patch in it, secrets masked
    execute/iter-0001.gatekeeper-risk.json   why a person should look at it, if there is a reason
    evaluate/iter-0001.json           the verdict: decision, grounds, check results, diffstat
    evaluate/iter-0001.check-1.txt    what the first check printed, secrets masked
    evaluate/iter-0001.raw.txt        the evaluator's reply, if there is an evaluator
    fix/iter-0002.raw.txt             the first fix is iteration 2
    fix/iter-0002.patch
    ask/iter-0002.md                  a question, and its answer
    <phase>/iter-NNNN.prompt.json     what the model was asked, secrets masked; `sent` says of each request of this name
                                      what went where, also of those that failed or were cut off
    <phase>/iter-NNNN.raw.json        all of the response but its text: usage, finish reason, provider, cost
    <phase>/iter-NNNN.asked.json      how often a call was made that a kill cut off, and what that may have cost; gone
                                      when its reply is whole, and kept if it never is
    <phase>/iter-NNNN.attempt-K.raw.txt   an earlier attempt of the same call, or one that failed
    undo/<digest>.json                the lines that an applied patch replaced, to take it back; for the owner only
  logs/
    provider-<phase>.log              one JSON line per model call that began or ended
    gatekeeper.log                    every patch, approval and rejection
    run.log                           the rest: start, verdicts, questions, errors in full, end
  inbox/<request>.json                an answer, approval or cancel on its way in
  inbox/models.json                   another model, budget or time, as given to `resume`; holds from then on
  lock                                held by the process that drives the run; holds its process id
  .clock                              how long the run and all runs below it had worked a moment ago, for a time limit:
                                      also work that a kill cut off; gone when the run has ended
  scratch/                            half-made files of a patch that is being applied
  workspace/                          the run's own copy of the project, if it builds for a team
```

`state.json`, `report.md` and `logs/` follow from the events, and so do a graph's `plan.json`, `tasks.jsonl`,
`messages.jsonl` and `metrics.json`. When a run is opened (`resume`, an answer), each is compared with what the events
give: one that is missing, torn, behind or was edited is written anew. `report` brings a missing report of an ended run
back.

A child run has a folder of its own, beside the others of its workflow. Its step in the parent's journal has its result,
its error and exit code, and for it and all runs below it: cost, tokens and changed paths. So the parent's report has
their totals, and a resumed tree reads only the children that have not ended.

## A task graph

`events.ndjson`, `state.json`, `logs/`, `inbox/`, `lock`, `.clock` and `scratch/` are as above. `paths.runs` in the
configuration says where runs are.

```text
runs/<runId>/
  config.yaml                         the configuration as it was when the run began, whole
  plan.json                           the newest plan: tasks, dependencies, limits, and the graph by ids
  tasks.jsonl                         one line for each change: the task as it is now, and what happened to it
  messages.jsonl                      what the levels told each other: request, plan, assignments, results
  metrics.json                        counts, durations, tokens, bytes; of the run and of each task
  report.md                           tables, the graph with states, failures with their last output, artifacts, summary
  artifacts/
    plan/adopt.1.json                 the plan that was approved or rejected, by digest
    plan/iter-0001.prompt.json, …     the planner's calls, named as a loop's; the second plan's are in replan/
    <task>/stdout.txt, stderr.txt     what its first attempt printed, up to 8 MiB each, secrets masked
    <task>/attempt-2.stdout.txt, …    the second attempt
    <task>/files/…                    what it left in the folder ORCHESTRA_ARTIFACTS names
    <task>/changes-1.raw.txt          the exact patch of an `rw` task, readable by the owner only
    <task>/changes.patch              the same, secrets masked
    summary/iter-0001.raw.txt, …      the summarizer's call
```

What commands write before it is taken over lies elsewhere: in a folder for each run below `$XDG_CACHE_HOME/orchestra`
(`~/.cache/orchestra`). It is removed when the run ends. A run goes on without it if it is lost.

`orchestra clean` removes the folders of old runs that have ended. One that it was killed in the middle of is called
`.<runId>.removed`: it is no run any more, and the next `clean` removes the rest of it.

## A team's run

```text
runs/<runId>/
  run-meta.json                       team, task, status, phases with their rounds, cost, errors
  logs/<agent>.jsonl                  one line for each step of an agent that began, ended or failed
  artifacts/<file>                    the deliverables; yours to edit when their phase has ended
  artifacts/decisions.json            what was decided and what stayed open, with the reasons of both sides
  artifacts/execute/, evaluate/, fix/ prompts and replies, named by phase and agent
  reviews/phase<N>-<reviewer>-reviews-<file>.md   a review, all rounds
```

`events.ndjson`, `state.json`, `report.md`, `inbox/`, `lock`, `.clock` and `scratch/` are as above.

## Rules

- `<runId>` is `<date>_<number>_<workflow>_<words of the goal>`. Numbers are `iter-` and four digits.
- Times are UTC and end in `Z`. Digests are `sha256:` and 64 hex digits.
- Each event carries the digest of the line before it (`payload.prev`). A changed byte in the middle is found, and the
  run is refused with the line number. A torn last line is what a kill leaves: it is cut off on the next open.
- A file that an event names (`path`, `bytes`, `sha256`) was complete on disk before the event was written.
- Secrets are masked in everything but `*.raw.txt`. These hold the exact bytes, and only their owner can read them.
- A step is an intent (`PHASE_STARTED`) and an outcome (`PHASE_COMPLETED` or `PHASE_FAILED`) with the same
  `payload.key`, such as `fix.2`: the name of the step and how often it was used. A task's is `<task>/run.1`.
- The intent of a command names its process (pid and start time), the sandbox tier and the digest of its policy.

## Records

Below is every record, from the same definitions the program checks with. `orchestra schema NAME` prints its JSON
Schema.
"""
EXPANDED_ELSEWHERE = {
    "config": "See [the configuration](config.md).",
    "scenario": "See [scenarios](tasks.md#scenarios).",
}


def run_folder_page() -> str:
    """The tree, and a table for every record and every type in it."""
    parts = [NOTE, "", RUN_FOLDER_INTRO, "| record | where it is |", "|---|---|"]
    parts += [f"| [`{name}`](#{name}) | {_cell(where)} |" for name, (_, where) in RECORDS.items()]
    shared: dict[str, dict[str, Any]] = {}
    for name, (_, where) in RECORDS.items():
        parts += ["", f"## {name}", "", f"Where: {_cell(where)}", ""]
        if name in EXPANDED_ELSEWHERE:
            parts.append(EXPANDED_ELSEWHERE[name])
            continue
        tree = schema(name)
        roots = [part["$ref"].rsplit("/", 1)[-1] for part in tree.get("anyOf", [tree])]
        for root in roots:
            parts += _fields(tree["$defs"][root], title=f"**{root}**" if len(roots) > 1 else "")
        shared |= {key: part for key, part in tree["$defs"].items() if key not in roots}
    parts += ["", "## Types used above"]
    for key in sorted(shared):
        parts += ["", f"### {key}", "", *_fields(shared[key], title="")]
    return "\n".join(parts) + "\n"


def _fields(part: dict[str, Any], *, title: str) -> list[str]:
    lines = [title, ""] if title else []
    if "description" in part:
        lines += [_cell(" ".join(part["description"].split())), ""]
    lines += ["| field | type | |", "|---|---|---|"]
    for name, field in part["properties"].items():
        required = "required" if name in part.get("required", ()) else _default(field)
        lines.append(f"| `{name}` | {_type(field)} | {required} |")
    return lines


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    return "optional" if value in (None, "", [], {}) else f"default `{value}`"


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "enum" in field:
        return " \\| ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(_type(part) for part in field["anyOf"])
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}" if field.get("items") else "list"
    if isinstance(field.get("additionalProperties"), dict) and field["additionalProperties"]:
        return f"object of {_type(field['additionalProperties'])}"
    if "pattern" in field:
        return "digest" if "sha256" in field["pattern"] else "time"
    return str(field.get("type", "any"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


# -- docs/<workflow>-states.md ----------------------------------------------------------------------------------------

STATES_INTRO = """\
Drawn from `src/orchestra/workflows/{name}/states.py`. A table is asked before an event is written: what it does not
allow cannot be recorded.
"""
RUN_INTRO = """\
A state is named after what was just recorded. Left out of the picture: `RUN_FAILED` and `RUN_CANCELED` may follow in
every state that is not an end.
"""
ANYWHERE = ("RUN_FAILED", "RUN_CANCELED")


def states_page(workflow: Workflow) -> str:
    """The tables of a workflow: those of what is inside its runs, and the run's."""
    lines = [NOTE, "", f"# The states of {workflow.title}", "", STATES_INTRO.format(name=workflow.name)]
    for inner in workflow.inner:
        lines += [f"## {inner.title}", "", inner.about, *_moves(inner), ""]
    return "\n".join(
        [*lines, *(["## The run", ""] if workflow.inner else ()), RUN_INTRO, _states(workflow.transitions)]
    )


def _moves(inner: Inner) -> list[str]:
    moves = inner.moves.items()
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {inner.start}"]
    lines += [f"    {state} --> {target}" for state, targets in moves for target in targets]
    lines += [f"    {state} --> [*]" for state, targets in moves if not targets]
    lines += ["```", "", "| state | next state |", "|---|---|"]
    return lines + [f"| `{state}` | `{target}` |" for state, targets in moves for target in targets]


def _states(table: Table) -> str:
    """A transition table as a diagram, and as a table."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {table.start}"]
    for state, edges in table.edges.items():
        together: dict[str, list[str]] = {}
        for trigger, target in edges.items():
            if trigger not in ANYWHERE:
                together.setdefault(target, []).append(trigger)
        lines += [f"    {state} --> {target}: {' or '.join(names)}" for target, names in together.items()]
        if not edges:
            lines.append(f"    {state} --> [*]")
    lines += ["```", "", "| state | event | next state |", "|---|---|---|"]
    for state, edges in table.edges.items():
        lines += [f"| `{state}` | {name} | `{target}` |" for name, target in edges.items() if name not in ANYWHERE]
    ends = ", ".join(f"`{state}`" for state, edges in table.edges.items() if not edges)
    return "\n".join(lines) + f"\n\nEnds: {ends}.\n"


# -- the transcripts --------------------------------------------------------------------------------------------------

# What is between the markers of a page is what a demo prints below these headings; the rest of it differs by machine.
TRANSCRIPTS = {
    "docs/loop.md": ("transcript", "demo.py", ("Have it fixed", "What it changed", "Every model call")),
    "docs/tasks.md": ("dag transcript", "demo_dag.py", ("Have it looked into", "What it made")),
    "docs/contracts.md": ("contracts transcript", "demo_contracts.py", ("What it was made of", "Is that tree")),
}
NO_PYTHON = "  there is no python on PATH: python3 is used\n"  # so it is on many machines
SIDE_BY_SIDE = re.compile(r"(?:· 1 (?:declared|texts) .*\n)+")  # tasks that do not wait for each other


def transcripts(demos: Path) -> dict[Path, str]:
    """Every page that has a transcript, with what the demos really print, each in its folder of this one."""
    return {ROOT / page: _with_transcript(page, demos, *what) for page, what in TRANSCRIPTS.items()}


def _with_transcript(page: str, demos: Path, name: str, demo: str, headings: tuple[str, ...]) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    marks = (f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n")
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise SystemExit(f"{page} has lost its markers {marks[0].strip()} and {marks[1].strip()}")
    folder = demos.resolve() / demo
    sections = [part for part in _settled(printed(demo, folder), folder).split("\n== ") if part.startswith(headings)]
    commands = "\n".join(part[part.index("$ ") :].rstrip("\n") + "\n" for part in sections)
    return f"{before}{begin}\n```text\n{commands}```\n\n{end}{after}"


@functools.cache
def printed(demo: str, folder: Path) -> str:
    """What a demo prints in a new folder."""
    command = [sys.executable, str(ROOT / "examples" / demo), str(folder)]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={n: v for n, v in os.environ.items() if not n.startswith("ORCHESTRA_")} | {"COLUMNS": "100"},
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the demo failed (exit code {done.returncode}):\n{done.stdout}")
    return done.stdout


def _settled(text: str, folder: Path) -> str:
    """What a demo printed, without what differs by day and machine."""
    text = text.replace(str(folder), "demo/1").replace(NO_PYTHON, "")
    text = re.sub(r"(?<=sessions/)[0-9a-f]{8}(?=/)", "1a2b3c4d", settled(text))  # the digest of the project's path
    return SIDE_BY_SIDE.sub(lambda found: "".join(sorted(found[0].splitlines(keepends=True), key=_in_order)), text)


def _in_order(line: str) -> tuple[bool, str]:
    """One order for what happens at the same time: first what begins."""
    return not line.endswith("begins\n"), line


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
