"""The description of a team's run (S4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from orchestra.core.context import Handlers
from orchestra.core.errors import ContractError, UsageError
from orchestra.core.looks import Seen
from orchestra.core.projections import Projection
from orchestra.core.reading import StepEvent, effect_of, outcome_as, outcome_of
from orchestra.core.records import FINAL, Event, utf8
from orchestra.core.run import RunFolder, digest
from orchestra.core.text import cell, count
from orchestra.providers.choose import ROLES, Models
from orchestra.workflows.description import Ended, Hint, Pace, Renewed, Running, ShownLine, Workflow
from orchestra.workflows.headline import again, headline, short
from orchestra.workflows.project import Project
from orchestra.workflows.report import Reported, render
from orchestra.workflows.team.board import Result
from orchestra.workflows.team.decisions import Decisions, Disagreement, read_decisions
from orchestra.workflows.team.definitions import DECISIONS, Definition
from orchestra.workflows.team.effects import HANDLERS, Settled
from orchestra.workflows.team.files import TeamFiles
from orchestra.workflows.team.findings import ReviewFinding
from orchestra.workflows.team.flow import team
from orchestra.workflows.team.load import agent_names, load_team
from orchestra.workflows.team.progress import LogLine, Meta, Progress, what_is_done
from orchestra.workflows.team.replies import asks, read_reply
from orchestra.workflows.team.shapes import Given, Job
from orchestra.workflows.team.states import TABLE

_WORK = ("ModelCall", "ChildRun")


# -- starting ---------------------------------------------------------------------------------------------------------


def job_of_files(project: Project, team: str, task: str) -> Job:
    """The job of a team and a task, from the project's files; UsageError with everything that is wrong (S4-06)."""
    definition = load_team(project.path, project.config.team, team, task).required()
    return Job(definition=definition, **_defaults(project))


def _defaults(project: Project) -> dict[str, Any]:
    config = project.config
    return {
        "workers": config.concurrency.max_workers,
        "timeoutMs": config.loop.timeout_ms,
        "backoffSec": config.retries.backoff_base_sec,
    }


def prepare(project: Project, job: Job, models: Models) -> tuple[Job, Models]:
    """Refuse a team whose models are not available, before a run exists."""
    definition = job.definition
    chosen = tuple(
        (agent.name, agent.model)
        for agent in definition.agents
        if agent.model.partition(":")[0] in project.providers.names
    )
    job = replace(job, models=chosen)
    routed = _routed(msgspec.to_builtins(job), models)
    for agent in definition.agents:
        project.provider(routed, "planner", agent.name)
    return job, models


def _routed(params: Mapping[str, Any], models: Models) -> Models:
    """The models of a run: what a person chose, and for the rest what the agents' files name.

    An agent may be called like a role (`planner`). Its own model is not that of the role: the others keep theirs.
    """
    own = dict(msgspec.convert(params.get("models", ()), tuple[tuple[str, str], ...]))
    if not own:
        return models
    chosen = {**own, **models.roles}
    if set(own) & set(ROLES):
        names = (agent.name for agent in msgspec.convert(params, Job).definition.agents)
        chosen = {**{name: models.spec(name, "planner") for name in names if name not in own}, **chosen}
    return replace(models, roles={name: spec for name, spec in chosen.items() if spec})


def _facts(project: Project, job: Job) -> dict[str, Any]:
    facts: dict[str, Any] = {"policy": msgspec.to_builtins(project.policy)}
    if job.inputRun:  # the digests of what was really brought along: a person may have edited the files (S4-32)
        inputs = {given.path: digest(utf8(given.text)) for given in job.given}
        facts |= {"inputRunId": job.inputRun, "inputs": inputs}
    return facts


def _renewed(project: Project, params: Mapping[str, Any]) -> Renewed:
    """The definition as the files have it now, if they changed since the run began."""
    try:
        recorded = msgspec.convert(params, Job).definition
        loaded = load_team(project.path, project.config.team, recorded.team.name, recorded.task.name)
    except (msgspec.ValidationError, UsageError):
        return Renewed()
    if (now := loaded.definition) is None:
        why = f"the files of {recorded.team.name} are missing or wrong now"
        return Renewed(why=(why,), wrong="\n".join(loaded.told()))
    if now.digest == recorded.digest:
        return Renewed()
    return Renewed({"definition": msgspec.to_builtins(now)}, tuple(_edited(recorded, now)))


def _edited(before: Definition, now: Definition) -> Iterator[str]:
    """A line for each file that was edited."""
    pairs: list[tuple[str, object, object]] = [
        (now.team.source, before.team, now.team),
        (now.task.source, before.task, now.task),
        ("the common rules", before.rules, now.rules),
    ]
    known = {agent.name: agent for agent in before.agents}
    pairs += [(agent.source, known.get(agent.name), agent) for agent in now.agents]
    yield from (f"{name} was edited" for name, one, other in pairs if one != other)


def given_of(folder: RunFolder, files: Iterable[str]) -> tuple[Given, ...]:
    """The files of an earlier run as they are now, for a run that begins with them (S4-57)."""
    found = []
    for path in files:
        try:
            given = Given(path, folder.read(path, _MOST_GIVEN).decode("utf-8"))
            if path == DECISIONS:
                read_decisions(given.text)
            found.append(given)
        except FileNotFoundError:
            continue  # a person removed it
        except UnicodeDecodeError as error:
            raise UsageError(f"--input-run: {folder.path / path} is no text in UTF-8") from error
        except ContractError as error:
            raise UsageError(f"--input-run: {folder.path / path}: {error}") from error
    return tuple(found)


_MOST_GIVEN = 1 << 20  # bytes of one file


# -- reading ----------------------------------------------------------------------------------------------------------


def _pace(params: Mapping[str, Any]) -> Pace:
    """The phase that is worked on, and how many the team has."""
    try:
        phases = [phase.number for phase in msgspec.convert(params, Job).definition.team.phases]
    except msgspec.ValidationError:
        phases = []  # a job of another version
    places = {number: place for place, number in enumerate(phases, 1)}

    def at(event: Event) -> tuple[int, int] | None:
        place = places.get(StepEvent.of(event).stage)
        return (place, len(phases)) if place else None

    return at


def _headline(event: Event) -> str:
    """One line for an event: the phase, the agent, and what it does with which file."""
    step = StepEvent.of(event)
    effect = effect_of(event)
    if effect == "Edition" or (effect == "Look" and not _was_edited(event)):
        return ""  # a file as the run made it is in the line of its agent
    if effect == "TakeOver" and event.type != "PHASE_FAILED":
        return ""  # the patch comes next
    if event.type in ("RUN_CREATED", *FINAL) or not step.stage or effect in ("Look", "WriteFile"):
        return headline(event)
    where = f"phase {step.stage}"
    if effect == "SettlePhase" and (done := outcome_as(event, Settled)) is not None:
        return f"{where} done{_outcome(done)}"
    if effect not in _WORK:
        who = f" · {step.agent}" if step.agent else ""
        return f"{where}{who}: {headline(event)}" if headline(event) else ""
    doing = f"{where} · {step.agent} {what_is_done(step)}" + (f" (round {step.round})" if step.round > 1 else "")
    match event.type:
        case "PHASE_STARTED":
            return doing
        case "PHASE_FAILED":
            return f"{doing}: {short(step.message)}{again(event)}"
        case "PHASE_COMPLETED" if outcome_of(event).status not in ("", "completed"):
            return f"{doing}: {outcome_of(event).status}"
        case "PHASE_COMPLETED" if asks(outcome_of(event).text):
            return f"{where} · {step.agent} has a question"
        case _:
            return f"{doing}: done"


def _was_edited(event: Event) -> bool:
    seen = outcome_as(event, Seen)
    return seen is not None and (seen.edited or seen.conflict)


def _outcome(done: Settled) -> str:
    if not done.rounds:
        return ""
    left = sum(one.is_open for one in done.findings)
    return f": {count(done.rounds, 'review round')}, {count(len(done.findings), 'finding')}, {left} open"


def _details(params: Mapping[str, Any], folder: RunFolder, event: Event) -> Iterator[ShownLine]:
    """What was kept out of a reply (S4-65)."""
    step = StepEvent.of(event)
    if event.type != "PHASE_COMPLETED" or effect_of(event) != "ModelCall" or step.native == "review":
        return
    try:
        own = msgspec.convert(params, Job).definition.artifacts_of(step.agent)
        reply = read_reply(outcome_of(event).text, own)
    except (msgspec.ValidationError, ContractError):
        return  # of another version
    for one in reply.out:
        yield ShownLine(f"kept out of artifacts/: {one.name}: {one.why}", "warning")


def _results(ended: Ended) -> Iterator[Hint]:
    """The deliverables of a run."""
    progress = Progress.of(ended.events)
    for path in progress.files:
        yield Hint(path.removeprefix("artifacts/"), path=str(ended.folder.path / path))
    if any(event.type == "PATCH_APPLIED" for event in ended.events):
        yield Hint("what changed in the project", command=("diff", ended.folder.id))
    if progress.definition is not None:
        task, own = progress.definition.task, progress.definition.team.name
        later = task.teams[task.teams.index(own) + 1 :] if own in task.teams else ()
        if ended.events[-1].type == "RUN_COMPLETED" and later:
            more = ("orchestrate", later[0], task.name, "--input-run", ended.folder.id)
            yield Hint("the next team, with these files", command=more)


def _report(run: Reported) -> Iterator[str]:
    yield from render(run, headline=_headline)
    progress = Progress.of(run.events)
    board = progress.board
    yield from ("", "## Deliverables", "")
    yield from (f"- `{path}`" for path in progress.files) if progress.files else ("none",)
    for agent, out in progress.kept_out:
        yield f"- kept out: `{cell(out.name)}` of {agent}: {cell(out.why)}"
    if board.findings:
        yield from ("", "## Findings", "", "| finding | severity | about | status | text |", "|---|---|---|---|---|")
        yield from (f"| {' | '.join(map(cell, _row(one)))} |" for one in board.findings)
    if board.decisions:
        yield from ("", "## Decisions", "", "| id | chosen | why |", "|---|---|---|")
        yield from (f"| {' | '.join(map(cell, (one.id, one.chosen, one.rationale)))} |" for one in board.decisions)


def _row(one: ReviewFinding) -> tuple[str, ...]:
    kind = f"{one.severity}, advisory" if one.is_advisory else one.severity
    return one.name, kind, one.target, "open" if one.is_open else f"closed: {one.closed}", one.text


def _projections(project: Project, folder: RunFolder) -> tuple[Projection, ...]:
    return (TeamFiles(folder, project.disk),)


def _effects(running: Running) -> Handlers:
    return HANDLERS


TEAM = Workflow(
    name="team",
    params=Job,
    flow=team,
    goal=lambda job: f"{job.definition.team.name} {job.definition.task.name}",
    table=TABLE,
    returns=Result,
    root=lambda project: project.runs_folder,  # D-06
    defaults=_defaults,
    prepare=prepare,
    reserved=frozenset({"models", "given", "inputRun"}),
    facts=_facts,
    id_parts=lambda job: (job.definition.team.name, job.definition.task.name),  # S4-14
    own_agents=lambda project: agent_names(project.path, project.config.team),
    routed=_routed,
    effects=_effects,
    projections=_projections,
    renewed=_renewed,
    headline=_headline,
    pace=_pace,
    details=_details,
    results=_results,
    report=_report,
    title="a team's run",
    start="orchestra orchestrate TEAM TASK",
    records={
        "team-job": (Job, "payload.params of a team's RUN_CREATED"),
        "team-result": (Result, "payload.result of its RUN_COMPLETED"),
        "run-meta": (Meta, "run-meta.json of a team's run"),
        "agent-log": (LogLine, "a line of logs/AGENT.jsonl of a team's run"),
        "decisions": (Decisions, f"{DECISIONS} of a team's run"),
        "disagreement": (Disagreement, f"`conflict` of a decided conflict in {DECISIONS}"),
    },
)
