"""The readers of team, agent and task files: a text becomes a record, or the list of everything wrong with it. Pure.

The format is S4's, with the sections of docs/teams.md; Korean and English headings mean the same.

Rules
1. A team has members, phases and artifacts (S4-04). Refused: no member, a phase number below 1, a phase without an
   agent, an agent of a phase or an owner of an artifact that is no member, an artifact twice.
2. The number of agents decides how a phase runs: one alone (S4-40), several in turns (S4-41). Only `loop` and
   `contracts` as its mode make it another workflow, with one agent. A mode that is nearly one of the two is a fault:
   the phase would write a text and no code.
3. An agent has a role, at least one output file and a prompt (S4-105). The prompt is the first code block of its
   section.
4. A file with front matter is an agent as Claude Code has it: its body is the prompt, and its files come from the
   team's table. A key that looks misspelled is a fault, and so is a list or a quoted text that does not end; other
   keys that orchestra does not use are left alone.
5. A task has a direction, which every agent is given, and the teams that may work on it (S4-03).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

from orchestra.core.text import brief, count
from orchestra.workflows.team.definitions import DECISIONS, FOLDER, Agent, Artifact, Member, Mode, Phase, Task, Team
from orchestra.workflows.team.markdown import Entry, Section, plain
from orchestra.workflows.team.sheet import NAME, NAME_FORM, Fault, Heading, Sheet, cell_of, column, name_of

TEAM = Heading(("Team", "팀 구성", "Members"))
PHASES = Heading(("Phases", "Phase 배정", "Phase", "페이즈 배정"))
ARTIFACTS = Heading(("Artifacts", "산출물 정의", "산출물"))
FLOW = Heading(("Flow", "실행 흐름"))
INPUT = Heading(("Input", "입력", "Inputs"))
OUTPUT = Heading(("Output", "출력 → 다음 단계", "출력", "Output → next step", "Outputs"))
ROLE = Heading(("Role", "역할"))
INPUTS = Heading(("Inputs", "입력 조건", "입력", "Input"))
OUTPUTS = Heading(("Outputs", "출력 규격", "출력", "Output"))
REVIEW = Heading(("Cross review", "교차 리뷰 역할", "교차 리뷰"))
PROMPT = Heading(("Prompt", "프롬프트 템플릿", "프롬프트", "Prompt template"))
ORCHESTRATORS = Heading(("Orchestrators", "오케스트레이터", "Orchestrator"))
DIRECTION = Heading(("Direction", "프로젝트 방향"))

_AGENT = ("Agent", "Agents", "에이전트")
_PATH = re.compile(rf"`({FOLDER}[^`]+)`")
_FILE = re.compile(r"(?<!\w)(?:파일|files?)\W{0,6}?[:：]\W{0,6}?`([^`]+)`", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d{1,6}")
_CLOSED_BY = {"[": "]", "{": "}", '"': '"', "'": "'"}
_CHILDREN: dict[str, Mode] = {"loop": "loop", "contracts": "contracts"}

USED = ("name", "description", "model", "tools")  # of a Claude agent's front matter
_UNUSED = (
    *("color", "disallowedTools", "permissionMode", "maxTurns", "skills", "mcpServers", "hooks", "memory"),
    *("background", "isolation", "effort", "initialPrompt", "argument-hint", "allowed-tools"),
)


# -- team -------------------------------------------------------------------------------------------------------------


def read_team(text: str, name: str, source: str) -> Team | list[Fault]:
    """The team in a file `orchestrators/NAME.md` (rule 1)."""
    sheet = Sheet(text, source)
    members = tuple(_members(sheet))
    phases = sorted(_phases(sheet, {member.agent for member in members}), key=lambda phase: phase.number)
    artifacts = tuple(_artifacts(sheet, {member.agent for member in members}))
    team = Team(
        name=name,
        members=members,
        phases=tuple(phases),
        artifacts=artifacts,
        title=sheet.title(),
        about=sheet.document.about,
        flow=sheet.text(FLOW),
        input=sheet.text(INPUT),
        output=sheet.text(OUTPUT),
        source=source,
    )
    return sheet.faults or team


def _members(sheet: Sheet) -> Iterator[Member]:
    table = sheet.table(TEAM, "Agent | Role")
    if table is None:
        return
    agent, role = column(table, _AGENT, 0), column(table, ("Role", "역할"), 1)
    lines: dict[str, int] = {}
    for row in table.rows:
        names = sheet.agents(cell_of(row, agent), row.line)
        if len(names) != 1:
            what = f"a row with {count(len(names), 'agent')}" if names else "a row without an agent"
            sheet.fault(row.line, what, "one agent in each row of the team's table")
            continue
        sheet.once(lines, f"`{names[0]}`", row.line, "one row per agent")
        yield Member(names[0], plain(cell_of(row, role)), row.line)


def _phases(sheet: Sheet, members: set[str]) -> Iterator[Phase]:
    table = sheet.table(PHASES, "Phase | Agents | Mode")
    if table is None:
        return
    places = column(table, ("Phase", "페이즈", "단계"), 0), column(table, _AGENT, 1)
    mode_at = column(table, ("Mode", "실행 방식", "Execution mode", "Execution"), 2)
    lines: dict[str, int] = {}
    for row in table.rows:
        phase, listed = (cell_of(row, place) for place in places)
        number = _NUMBER.search(plain(phase))
        if number is None or int(number[0]) < 1:
            sheet.fault(row.line, f"`{brief(plain(phase), 60)}` is no number of a phase", "1, 2, 3, …")
            continue
        agents = sheet.agents(listed, row.line)
        if not agents:
            sheet.fault(row.line, f"phase {number[0]} has no agent", "at least one, several comma separated")
            continue
        _refuse_strangers(sheet, members, agents, row.line)
        mode = _mode(sheet, plain(cell_of(row, mode_at)), agents, row.line)
        sheet.once(lines, f"phase {int(number[0])}", row.line, "one row per phase, with its agents comma separated")
        yield Phase(int(number[0]), agents, mode, row.line)


def _mode(sheet: Sheet, text: str, agents: tuple[str, ...], line: int) -> Mode:
    """How a phase runs (rule 2)."""
    first = next(iter(text.casefold().split()), "")
    child = _CHILDREN.get(first)
    if child is None:
        if near := difflib.get_close_matches(first, _CHILDREN, n=1, cutoff=0.75):
            sheet.fault(line, f"unknown mode `{brief(first, 60)}`", f"`{near[0]}`")
        return "solo" if len(agents) == 1 else "turns"
    if len(agents) > 1:
        sheet.fault(
            line, f"a phase of mode `{child}` with {len(agents)} agents", "one agent, which the child run is for"
        )
    return child


def _artifacts(sheet: Sheet, members: set[str]) -> Iterator[Artifact]:
    table = sheet.table(ARTIFACTS, "Artifact | Owner | About")
    if table is None:
        return
    places = column(table, ("Artifact", "File", "산출물", "파일"), 0), column(table, ("Owner", "담당", *_AGENT), 1)
    about = column(table, ("About", "Description", "설명"), 2)
    lines: dict[str, int] = {}
    for row in table.rows:
        named, owned = (cell_of(row, place) for place in places)
        path = sheet.artifact(named, row.line)
        if not path:
            continue
        sheet.once(lines, f"`{path}`", row.line, "one row per artifact")
        owners = () if path == DECISIONS and name_of(owned) not in members else sheet.agents(owned, row.line)
        if path != DECISIONS and len(owners) != 1:
            what = f"`{path}` has {count(len(owners), 'owner')}"
            sheet.fault(row.line, what, "one agent: no file is written by two (S4-46)")
            continue
        _refuse_strangers(sheet, members, owners, row.line)
        yield Artifact(path, next(iter(owners), ""), plain(cell_of(row, about)), row.line)


def _refuse_strangers(sheet: Sheet, members: set[str], agents: tuple[str, ...], line: int) -> None:
    for agent in agents:
        if agent not in members and members and NAME.fullmatch(agent):
            near = difflib.get_close_matches(agent, members, n=1)
            meant = f"`{near[0]}`, or " if near else ""
            sheet.fault(line, f"`{agent}` is no member of the team", f"{meant}a row for it under {TEAM}")


# -- agent ------------------------------------------------------------------------------------------------------------


def read_agent(text: str, name: str, source: str) -> Agent | list[Fault]:
    """The agent in a file `agents/NAME.md` or `.claude/agents/NAME.md` (rules 3 and 4)."""
    sheet = Sheet(text, source)
    if sheet.document.front is not None:
        return _claude_agent(sheet, name)
    role = sheet.required_text(ROLE, "what the agent is responsible for")
    reviews, criterion = _review(sheet)
    agent = Agent(
        name=name,
        role=role,
        prompt=_prompt(sheet),
        inputs=tuple(_inputs(sheet)),
        outputs=tuple(_outputs(sheet)),
        reviews=reviews,
        criterion=criterion,
        title=sheet.title(),
        source=source,
    )
    return sheet.faults or agent


def _prompt(sheet: Sheet) -> str:
    holds = "the prompt in a code block (```)"
    section = sheet.required(PROMPT, holds)
    if section is None:
        return ""
    if not (section.code or "").strip():
        what = "no code block" if section.code is None else "an empty code block"
        sheet.fault(section.line, f"the section {PROMPT} has {what}", holds)
    return section.code or ""


def _inputs(sheet: Sheet) -> Iterator[str]:
    """Every `artifacts/…` path in backticks, once."""
    section = sheet.section(INPUTS)
    paths = [sheet.artifact(path, line) for path, line in _found(_PATH, section)]
    yield from dict.fromkeys(filter(None, paths))


def _outputs(sheet: Sheet) -> Iterator[str]:
    """Every path after "File:", once."""
    form = "a line File: `artifacts/NAME.md` for each file that the agent makes"
    section = sheet.required(OUTPUTS, form)
    found = _found(_FILE, section)
    if section is not None and not found:
        sheet.fault(section.line, f"the section {OUTPUTS} names no file", form)
    yield from dict.fromkeys(filter(None, (sheet.artifact(path, line) for path, line in found)))


def _review(sheet: Sheet) -> tuple[str, str]:
    """The declared target of an agent's reviews, and what they look at; empty if there is none."""
    section = sheet.section(REVIEW)
    if section is None:
        return "", ""
    paths = _found(_PATH, section)
    target = sheet.artifact(*paths[0]) if paths else ""
    return target, next(iter(section.bullets[1:]), "")


def _found(pattern: re.Pattern[str], section: Section | None) -> list[tuple[str, int]]:
    """What a pattern finds in a section, each with its line."""
    lines = enumerate(section.body, section.line + 1) if section else ()
    return [(found[1], number) for number, line in lines for found in pattern.finditer(line)]


def _claude_agent(sheet: Sheet, name: str) -> Agent | list[Fault]:
    document = sheet.document
    _refuse_misspelled(sheet, document.front or ())
    _refuse_unclosed(sheet, document.front or ())
    if not document.body.strip():
        sheet.fault(document.body_line, "there is no text after the front matter", "the agent's prompt")
    values = {entry.key: entry for entry in document.front or ()}
    title, description, model, tools = (values.get(key, Entry(0, key, "")) for key in USED)
    agent = Agent(
        name=name,
        role=description.value or sheet.title() or name,
        prompt=document.body,
        model="" if model.value == "inherit" else model.value,
        tools=tools.items or tuple(tool for part in tools.value.split(",") if (tool := part.strip())),
        title=title.value or name,
        description=description.value,
        form="claude",
        source=sheet.source,
    )
    return sheet.faults or agent


def _refuse_misspelled(sheet: Sheet, front: Iterable[Entry]) -> None:
    known = {key.lower(): key for key in (*USED, *_UNUSED)}
    lines: dict[str, int] = {}
    for entry in front:
        sheet.once(lines, f"`{entry.key}`", entry.line, "one of them")
        near = difflib.get_close_matches(entry.key.lower(), known, n=1, cutoff=0.75)
        if entry.key not in known.values() and near:
            sheet.fault(entry.line, f"unknown key `{entry.key}`", f"`{known[near[0]]}`")


def _refuse_unclosed(sheet: Sheet, front: Iterable[Entry]) -> None:
    """A text that begins with a bracket or a quote, and has no closing one at all."""
    for entry in front:
        end = _CLOSED_BY.get(entry.value[:1], "")
        if end and end not in entry.value[1:]:
            sheet.fault(entry.line, f"`{entry.key}` begins with {entry.value[0]} and does not end", f"a closing {end}")


# -- task -------------------------------------------------------------------------------------------------------------


def read_task(text: str, name: str, source: str) -> Task | list[Fault]:
    """The task in a file `tasks/NAME.md` (rule 5)."""
    sheet = Sheet(text, source)
    direction = sheet.required_text(DIRECTION, "what the project is about, for every agent")
    table = sheet.table(ORCHESTRATORS, "Step | Orchestrator | About")
    teams: list[str] = []
    if table is not None:
        place = column(table, ("Orchestrator", "Team", "오케스트레이터", "팀"), min(1, len(table.header) - 1))
        for row in table.rows:
            team = name_of(cell_of(row, place))
            if NAME.fullmatch(team):
                teams.append(team)
            else:
                what = f"`{brief(plain(cell_of(row, place)), 60)}` is no team's name"
                sheet.fault(row.line, what, f"the name of its file in orchestrators/: {NAME_FORM}")
    line = table.line if table else 0
    task = Task(name, tuple(dict.fromkeys(teams)), direction, sheet.title(), source, line)
    return sheet.faults or task
