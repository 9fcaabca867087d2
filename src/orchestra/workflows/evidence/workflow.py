"""The description of the evidence loop (S5)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from orchestra.commands.tools import NoTool
from orchestra.config.sections import Config, EvidenceAgent
from orchestra.context.walk import walk
from orchestra.core.command import CommandOutcome, RunCommand
from orchestra.core.context import Handlers
from orchestra.core.errors import ContractError, UsageError
from orchestra.core.files import size
from orchestra.core.globs import Globs
from orchestra.core.reading import Request, StepEvent, effect_of, job_of, outcome_as
from orchestra.core.records import FINAL, Event
from orchestra.core.text import brief, cell, clean, count, estimated_tokens
from orchestra.core.work import ModelReply
from orchestra.providers.choose import Models
from orchestra.workflows.description import Ended, Hint, Pace, Running, Workflow
from orchestra.workflows.evidence import protocol
from orchestra.workflows.evidence.effects import (
    Compact,
    Conclude,
    Concluded,
    Decline,
    Declined,
    Handling,
    Kept,
    Saved,
    SaveSession,
)
from orchestra.workflows.evidence.flow import evidence, is_answer
from orchestra.workflows.evidence.offered import likeliest, search_words
from orchestra.workflows.evidence.prompting import SHOWN_TO_MAIN
from orchestra.workflows.evidence.sessions import Session, Sessions, checked_id
from orchestra.workflows.evidence.shapes import (
    CONTEXT_TOKENS,
    KEPT_CHARACTERS,
    Evidence,
    Job,
    Result,
    evidence_of,
    exit_codes,
)
from orchestra.workflows.evidence.states import TABLE
from orchestra.workflows.headline import headline, short
from orchestra.workflows.project import Project
from orchestra.workflows.report import Reported, render

AGENTS = ("worker", "main")
DEFAULT = "default"  # the agent that always exists


# -- starting ---------------------------------------------------------------------------------------------------------


def _defaults(project: Project) -> dict[str, Any]:
    retries = project.config.retries
    return {
        "timeoutMs": project.config.loop.timeout_ms,
        "retries": retries.max,
        "backoffSec": retries.backoff_base_sec,
        **_programs(project),
    }


def _programs(project: Project) -> dict[str, Any]:
    """The programs that the worker may start, and those of them that are not on this machine."""
    names = tuple(dict.fromkeys((*project.config.evidence.tools, *project.policy.whitelist)))
    absent = tuple(name for name in names if isinstance(project.workshop.toolbox.resolve(name), NoTool))
    return {"tools": names, "absent": absent}


def agent_of(project: Project, name: str) -> EvidenceAgent:
    """The configuration of an agent; UsageError (exit 2) if there is none of this name."""
    agents = project.config.evidence.agents
    if name not in agents and name != DEFAULT:
        raise UsageError(
            f"there is no agent {name!r}; there are {', '.join(dict.fromkeys((DEFAULT, *agents)))}."
            f" To add one: evidence.agents.{name} in orchestra.config.yaml"
        )
    return agents.get(name, EvidenceAgent())


def configured(project: Project, goal: str, agent: str = DEFAULT, **typed: Any) -> Job:
    """The job of a goal for an agent; `typed` are the fields that flags set."""
    found = agent_of(project, agent)
    usual = {"mode": found.mode, "maxSteps": found.max_steps, "stream": found.stream}
    return Job(goal=goal, agent=agent, **{**_defaults(project), **usual, **typed})


def _pace(params: Mapping[str, Any]) -> Pace:
    """The worker's step, and how many it may take."""
    most = params.get("maxSteps")

    def at(event: Event) -> tuple[int, int] | None:
        step = StepEvent.of(event).step
        return (step, most) if step and isinstance(most, int) else None

    return at


def prepare(project: Project, job: Job, models: Models) -> tuple[Job, Models]:
    """Complete the job, or refuse it before a run exists."""
    if not job.goal.strip():
        raise UsageError("the goal is empty; say what you want to know")
    if job.maxSteps < 1:  # G5-7
        raise UsageError(f"{job.maxSteps} steps are too few; the worker needs at least one")
    if job.session:
        checked_id(job.session)
    models = _routed(project, job, models)
    lengths = [project.provider(models, role, agent).capabilities.maxContextTokens for agent, role in _CALLED]
    limit = min(CONTEXT_TOKENS if isinstance(length, UnsetType) else length for length in lengths)
    _refuse_too_long(job.goal, [length for length in lengths if not isinstance(length, UnsetType)])
    chosen = tuple((name, models.roles[name]) for name in AGENTS if name in models.roles)
    names, words = likeliest(_listed(project), job.goal, most=limit // 16), search_words(job.goal)
    return replace(job, contextTokens=limit, models=chosen, names=names, words=words), models


def _refuse_too_long(goal: str, contexts: Sequence[int]) -> None:
    """UsageError for a goal of more than half of a known context: it is in every prompt, beside the evidence."""
    tokens = estimated_tokens(goal)
    if contexts and tokens > min(contexts) // 2:
        raise UsageError(
            f"the goal has about {tokens} tokens, and the models take {min(contexts)} with everything else."
            " Put the text into a file of the project, and name that file in the goal"
        )


def _listed(project: Project) -> list[str]:
    """The files whose names a model may be told: not those that the configuration hides."""
    hides = Globs(project.config.context.hide, below=project.folder)
    return [found.path for found in walk(project.workspace, most=_MOST_WALKED).files if not hides(found.path)]


_MOST_WALKED = 5_000  # files whose names are looked at
_CALLED = (("main", "planner"), ("worker", "planner"), ("main", "evaluator"))


def _routed(project: Project, job: Job, models: Models) -> Models:
    """The models with those of the agent (S5-13, S5-14). What a person typed comes first, then the agent's."""
    agent, usual = agent_of(project, job.agent), project.config.roles
    typed = {name: spec for name, spec in models.roles.items() if spec != usual.get(name)}
    own = {name: spec for name, spec in (("main", agent.main), ("worker", agent.worker)) if spec}
    roles = {**models.roles, **own, **typed}
    if job.mode == "single-main":  # S5-87
        roles["worker"] = replace(models, roles=roles).spec("main", "planner")
    return replace(models, roles={name: spec for name, spec in roles.items() if spec})


def _of_child(params: Mapping[str, Any], models: Models) -> Models:
    """The models of a run: those of its tree, and for the rest those of its own agent."""
    own = msgspec.convert(params.get("models", ()), tuple[tuple[str, str], ...])
    return replace(models, roles={**dict(own), **models.roles}) if own else models


def _tools(params: Mapping[str, Any], config: Config) -> tuple[str, ...]:
    """The programs that a run may start besides the whitelist's: those it began with that are still configured."""
    return tuple(name for name in config.evidence.tools if name in params.get("tools", ()))


def _facts(project: Project, job: Job) -> dict[str, Any]:
    return {"policy": msgspec.to_builtins(project.policy), "native": "start"}


def _effects(running: Running) -> Handlers:
    project = running.project
    own = Handling(project.workspace, sessions_of(project), running.ledger.folder.id)
    return {Compact: own.compact, Conclude: own.conclude, Decline: own.decline, SaveSession: own.save}


def sessions_of(project: Project) -> Sessions:
    """The sessions of a project."""
    return Sessions(project.path, project.disk, project.redactor)


# -- reading ----------------------------------------------------------------------------------------------------------


def _headline(event: Event) -> str:
    """One line for an event: the S5 event's name, and what it says."""
    told = StepEvent.of(event)
    native, step = told.native, told.step
    if event.type in ("RUN_CREATED", *FINAL) or not native:
        return headline(event)
    match event.type, native:
        case "PHASE_STARTED", "tool-start":
            return short(f"tool-start: step {step}: $ {told.line or shlex.join(told.argv)}")
        case "PHASE_COMPLETED", "tool-result" if effect_of(event) == RunCommand.__name__:
            found = outcome_as(event, CommandOutcome)
            return f"tool-result: step {step}: {_ended(found)}, {_kept_lines(found)}" if found else native
        case "PHASE_COMPLETED", "tool-result" if (declined := outcome_as(event, Declined)) is not None:
            return short(f"tool-result: step {step}: {declined.why}")
        case "PHASE_COMPLETED", "compaction-complete":
            kept = outcome_as(event, Kept)
            return f"compaction-complete: about {kept.before} -> {kept.after} tokens" if kept else native
        case "PHASE_COMPLETED", "complete":
            saved = outcome_as(event, Saved)
            if saved is not None and not saved.saved:
                return f"complete: session {saved.session} was not changed: another turn was saved meanwhile"
            return f"complete: session {saved.session} saved, turn {saved.turn}" if saved else native
        case "PHASE_COMPLETED", "final-answer":
            return "final-answer"
        case "PHASE_COMPLETED", _ if (reply := outcome_as(event, ModelReply)) is not None:
            return short(f"{native}: {_said(native, reply.text)}")
        case "PHASE_FAILED", _:
            return f"{native}: {short(told.message)}"
        case "QUESTION_RAISED", _:
            return f"{native}: {short(Request.of(event).question)}"
        case _:
            return headline(event)


def _kept_lines(found: CommandOutcome) -> str:
    """How many lines of a command's output the evidence has, and of how much, if that is not all; else its error."""
    if found.stderr and not found.stdout:
        return f"stderr: {brief(found.stderr, 100)}"
    lines = count(len(found.stdout.splitlines()), "line")
    cut_short = len(found.stdout) > KEPT_CHARACTERS and found.artifacts
    return f"{lines} kept of {size(found.artifacts[0].bytes)}" if cut_short else lines


def _ended(found: CommandOutcome) -> str:
    if found.timedOut:
        return "timed out"
    return found.error or f"exit {','.join(map(str, found.exitCodes))}"


def _said(native: str, text: str) -> str:
    """What a reply says, in a few words."""
    try:
        match native:
            case "planning-result":
                planning = protocol.read_planning(text)
                return f"{planning.next}: {planning.reason}"
            case "worker-action":
                action = protocol.read_action(text)
                return action.reason if isinstance(action, protocol.CallTool) else str(action.__struct_config__.tag)
            case "main-decision":
                decision = protocol.read_decision(text)
                return f"{decision.decision}{f': {decision.guidance}' if decision.guidance else ''}"
    except ContractError:
        pass
    return brief(text, 100)


def _results(ended: Ended) -> Iterator[Hint]:
    """The evidence that an answer stands on: each command, the lines of its output, and the file that has all of it."""
    for one in list(_pieces(ended.events))[:SHOWN_TO_MAIN]:
        lines = f", lines {one.lines[0]}-{one.lines[1]}" if one.lines[1] else ""
        what = f"evidence, step {one.step}: $ {brief(one.command, 80)} (exit {exit_codes(one)}{lines})"
        yield Hint(what, path=str(ended.folder.path / one.artifact) if one.artifact else "no output")


def _report(run: Reported) -> Iterator[str]:
    yield from render(run, headline=_headline)
    found = [outcome_as(event, Concluded) for event in run.events if effect_of(event) == Conclude.__name__]
    pieces = list(_pieces(run.events))
    if found and found[-1] is not None:
        yield from ("", "## Answer", "", *clean(found[-1].answer).splitlines())
    if pieces:
        yield from ("", "## Evidence", "", "| step | command | exit | lines | output |", "|---|---|---|---|---|")
        for one in pieces:
            where = f"`{cell(one.artifact)}`" if one.artifact else "none"
            lines = f"{one.lines[0]}-{one.lines[1]}" if one.lines[1] else "none"
            yield f"| {one.step} | `{cell(one.command)}` | {exit_codes(one)} | {lines} | {where} |"


def _pieces(events: Sequence[Event]) -> Iterator[Evidence]:
    """The command lines that were run, from their events."""
    found_limit = job_of(events[0]).get("contextTokens")
    limit = found_limit if isinstance(found_limit, int) else CONTEXT_TOKENS  # a journal may be anybody's
    for event in events:
        if event.type != "PHASE_COMPLETED" or effect_of(event) != RunCommand.__name__:
            continue
        if (found := outcome_as(event, CommandOutcome)) is not None:
            yield evidence_of(StepEvent.of(event).step, found.command, found, limit)


def _printed(result: Any) -> str:
    return str(result.get("answer", "")) if isinstance(result, Mapping) else ""


EVIDENCE = Workflow(
    name="evidence",
    params=Job,
    flow=evidence,
    goal=lambda job: str(job.goal),
    table=TABLE,
    returns=Result,
    root=lambda project: project.runs_folder,  # D-06
    defaults=_defaults,
    prepare=prepare,
    reserved=frozenset({"tools", "absent", "models", "memory", "session", "turn", "previous", "contextTokens"})
    | {"names", "words"},
    facts=_facts,
    agents=AGENTS,
    routed=_of_child,
    tools=_tools,
    effects=_effects,
    needs_commands=lambda params: True,
    headline=_headline,
    results=_results,
    spoken=is_answer,
    pace=_pace,
    printed=_printed,
    report=_report,
    title="an evidence loop",
    start='orchestra agent:run --session S --goal "GOAL"',
    records={
        "evidence-job": (Job, "payload.params of an evidence loop's RUN_CREATED"),
        "evidence-result": (Result, "payload.result of its RUN_COMPLETED: the answer, its evidence and its files"),
        "session": (Session, ".orchestra/sessions/ID.json"),
        "planning": (protocol.Planning, "main's planning"),
        "action": (protocol.Action, "the worker's action"),
        "decision": (protocol.Decision, "main's decision"),
    },
)
