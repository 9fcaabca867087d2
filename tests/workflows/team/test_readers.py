"""Team, agent and task files: what is read from them, and what is said about a wrong one."""

from __future__ import annotations

import pytest

from orchestra.workflows.team.definitions import Agent, Artifact, Member, Phase, Task, Team
from orchestra.workflows.team.readers import read_agent, read_task, read_team
from orchestra.workflows.team.sheet import artifact_path, name_of

ENGLISH = """# Orchestrator: planning-team

Plans things.

## Team

| Agent | Role |
|---|---|
| `planner` | Vision |
| Tech Architect | Architecture |
| research | Market |

## Phases

| Phase | Agents | Mode |
|---|---|---|
| 2 | `research`, Tech Architect | turns |
| Phase 1 | planner | solo |

## Artifacts

| Artifact | Owner | About |
|---|---|---|
| `project-vision.md` | `planner` | The vision |
| artifacts/market-analysis.md | research | |
| `artifacts/tech-architecture.md` | Tech Architect | A \\| B |
| decisions.json | everybody | |

## Flow

One after another.
"""
KOREAN = """# Orchestrator: 기획 팀

Plans things.

## 팀 구성

| 에이전트 | 역할 |
|---|---|
| `planner` | Vision |
| 아키텍트 (`tech-architect`) | Architecture |
| research | Market |

## Phase 배정

| Phase | 에이전트 | 실행 방식 |
|---|---|---|
| 2 | `research`、`tech-architect` | Turn 기반 |
| 1단계 | planner | 단독 |

## 산출물 정의

| 산출물 | 담당 | 설명 |
|---|---|---|
| `project-vision.md` | `planner` | The vision |
| artifacts/market-analysis.md | research | |
| `artifacts/tech-architecture.md` | `tech-architect` | A \\| B |
| decisions.json | 전체 | |

## 실행 흐름

One after another.
"""


def faults(text: str, read: object = read_team) -> list[str]:
    assert callable(read)
    found = read(text, "x", "f.md")
    assert isinstance(found, list)
    return [str(one) for one in found]


@pytest.mark.spec("S4-01", "S4-04", "S4-40", "S4-41", "S4-104")
@pytest.mark.parametrize(("text", "title"), [(ENGLISH, "planning-team"), (KOREAN, "기획 팀")])
def test_a_team_file_gives_members_phases_and_artifacts(text: str, title: str) -> None:
    assert read_team(text, "planning-team", "orchestrators/planning-team.md") == Team(
        name="planning-team",
        members=(
            Member("planner", "Vision", 9),
            Member("tech-architect", "Architecture", 10),
            Member("research", "Market", 11),
        ),
        phases=(Phase(1, ("planner",), "solo", 18), Phase(2, ("research", "tech-architect"), "turns", 17)),
        artifacts=(
            Artifact("artifacts/project-vision.md", "planner", "The vision", 24),
            Artifact("artifacts/market-analysis.md", "research", "", 25),
            Artifact("artifacts/tech-architecture.md", "tech-architect", "A | B", 26),
            Artifact("artifacts/decisions.json", "", "", 27),
        ),
        title=title,
        about="Plans things.",
        flow="One after another.",
        source="orchestrators/planning-team.md",
    )


@pytest.mark.parametrize(
    ("mode", "agents", "expected"),
    [
        ("loop", "planner", "loop"),
        ("`contracts`", "planner", "contracts"),
        ("Loop (child run)", "planner", "loop"),
        ("단독", "planner", "solo"),
        ("turns", "planner", "solo"),  # S4-40: one agent runs alone
        ("단독", "planner, research", "turns"),  # S4-41: several run in turns
        ("review loop", "planner, research", "turns"),
        ("", "planner", "solo"),
    ],
)
def test_the_number_of_agents_decides_unless_the_mode_is_a_workflow(mode: str, agents: str, expected: str) -> None:
    found = read_team(ENGLISH.replace("| Phase 1 | planner | solo |", f"| 1 | {agents} | {mode} |"), "x", "f.md")
    assert isinstance(found, Team) and found.phases[0].mode == expected


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("planner | solo |", "planner | lop |", "f.md:18: unknown mode `lop`; expected `loop`"),
        ("planner | solo |", "planner | `Contract` |", "f.md:18: unknown mode `contract`; expected `contracts`"),
        ("| Phase 1 |", "| 0 |", "f.md:18: `0` is no number of a phase; expected 1, 2, 3, …"),
        ("| Phase 1 |", "| -1 |", "f.md:18: `-1` is no number"),
        ("| Phase 1 |", "| first |", "f.md:18: `first` is no number"),
        ("| Phase 1 | planner |", "| 1 | |", "f.md:18: phase 1 has no agent; expected at least one"),
        ("| Phase 1 | planner |", "| 2 | planner |", "f.md:18: phase 2 stands twice (first in line 17)"),
        (
            "| Phase 1 | planner |",
            "| 1 | planer |",
            "f.md:18: `planer` is no member of the team; expected `planner`, or",
        ),
        (
            "| Phase 1 | planner |",
            "| 1 | 기획자 |",
            "f.md:18: `기획자` is no agent's name; expected the name of its file",
        ),
        ("| Phase 1 | planner |", "| 1 | my_agent |", "f.md:18: `my_agent` is no agent's name"),  # G4-2
        ("turns |", "loop |", "f.md:17: a phase of mode `loop` with 2 agents; expected one agent"),
        ("## Phases", "## Phasses", "f.md:13: there is no section `## Phases` (or `## Phase 배정`), only `## Phasses`"),
        ("## Phases", "### 1. Phase 배정", "f.md:13: `### 1. Phase 배정` is a heading of level 3; expected one"),
        ("## Team\n", "## Team\n\n## Team\n", "f.md:7: `## Team` (or `## 팀 구성`) stands twice (first in line 5)"),
        ("|---|---|\n| `planner`", "| `planner`", "f.md:5: the section `## Team` (or `## 팀 구성`) has no table"),
        ("| research | Market |", "| | Market |", "f.md:11: a row without an agent; expected one agent in each row"),
        ("| research | Market |", "| planner | Market |", "f.md:11: `planner` stands twice (first in line 9)"),
        ("`project-vision.md`", "`../x.md`", "f.md:24: `../x.md` is no artifact's name; expected a file name"),
        ("`project-vision.md`", "execute", "f.md:24: `execute` is no artifact's name"),  # a folder of working files
        ("`project-vision.md`", "a/b.md", "f.md:24: `a/b.md` is no artifact's name"),
        ("`project-vision.md`", "Market-Analysis.md", "stands twice (first in line 24)"),
        ("| `planner` | The vision", "| planner, research | The vision", "has 2 owners; expected one agent"),
        ("| `planner` | The vision", "| | The vision", "has 0 owners; expected one agent"),
        ("## Flow", "```\n## Flow", "f.md:29: the code block that begins here does not end"),
    ],
)
def test_what_is_wrong_with_a_team_file_is_named_with_its_line(old: str, new: str, fault: str) -> None:
    assert old in ENGLISH
    found = faults(ENGLISH.replace(old, new, 1))
    assert any(fault in one for one in found), found


def test_an_empty_team_is_refused_and_all_faults_are_told_at_once() -> None:
    table = "| Agent | Role |\n|---|---|\n"
    found = faults(f"# T\n\n## Team\n\n{table}")
    assert found[0] == "f.md:5: the table of `## Team` (or `## 팀 구성`) is empty; expected at least one row"
    assert [one.partition(" section ")[2][:12] for one in found[1:]] == ["`## Phases` ", "`## Artifact"]
    assert len(faults("")) == 3


AGENT = """# Agent: Tech Architect

## Role

Designs.

## Inputs

- `artifacts/project-vision.md` and `artifacts/market-analysis.md`, again `artifacts/project-vision.md`
- `README.md` is none

## Outputs

- **File**: `artifacts/tech-architecture.md`
- File: `costs.csv`
- format: `markdown`, a profile: `none`

## Cross review

- Target: `artifacts/market-analysis.md`
- Whether it can be built,
  at a cost

## Prompt

Words before.

````
Write it.
```mermaid
graph TD
```
````

```
another
```
"""
KOREAN_AGENT = (
    AGENT.replace("## Role", "## 역할")
    .replace("## Inputs", "## 입력 조건")
    .replace("## Outputs", "## 출력 규격")
    .replace("**File**:", "파일:")
    .replace("- File:", "- 파일：")
    .replace("## Cross review", "## 교차 리뷰 역할")
    .replace("## Prompt", "## 프롬프트 템플릿")
)


@pytest.mark.spec("S4-05", "S4-105")
@pytest.mark.parametrize("text", [AGENT, KOREAN_AGENT])
def test_an_agent_file_gives_role_files_review_and_prompt(text: str) -> None:
    assert read_agent(text, "tech-architect", "agents/tech-architect.md") == Agent(
        name="tech-architect",
        role="Designs.",
        prompt="Write it.\n```mermaid\ngraph TD\n```",
        inputs=("artifacts/project-vision.md", "artifacts/market-analysis.md"),
        outputs=("artifacts/tech-architecture.md", "artifacts/costs.csv"),
        reviews="artifacts/market-analysis.md",
        criterion="Whether it can be built, at a cost",
        title="Tech Architect",
        source="agents/tech-architect.md",
    )


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "Designs.",
            "",
            "f.md:3: the section `## Role` (or `## 역할`) is empty; expected what the agent is responsible for",
        ),
        ("## Role", "## Duty", "f.md:1: there is no section `## Role` (or `## 역할`); expected this section with"),
        ("File", "Datei", "f.md:12: the section `## Outputs` (or `## 출력 규격`) names no file; expected a line File:"),
        ("## Prompt", "## Promt", "there is no section `## Prompt` (or `## 프롬프트 템플릿`), only `## Promt`"),
        ("`costs.csv`", "`../../etc/passwd`", "`../../etc/passwd` is no artifact's name"),
        (
            "`artifacts/project-vision.md` and",
            "`artifacts/../x.md` and",
            "f.md:9: `artifacts/../x.md` is no artifact's name",
        ),
    ],
)
def test_what_is_wrong_with_an_agent_file_is_named_with_its_line(old: str, new: str, fault: str) -> None:
    found = faults(AGENT.replace(old, new), read_agent)
    assert any(fault in one for one in found), found


def test_a_prompt_without_a_code_block_is_refused() -> None:
    text = AGENT[: AGENT.index("````")]
    assert faults(text, read_agent) == [
        "f.md:24: the section `## Prompt` (or `## 프롬프트 템플릿`) has no code block;"
        " expected the prompt in a code block (```)"
    ]
    assert "has an empty code block" in faults(f"{text}```\n\n```\n", read_agent)[0]


CLAUDE = """---
name: code-reviewer
description: Use this agent when: code changed. <example>user: "코드 리뷰"</example>
model: sonnet
tools: Read, Grep, Glob
color: blue
someFutureKey: 1
---

You review code. 한국어로 답한다.

## Focus

- Bugs
"""


@pytest.mark.spec("S4-96", "S4-105")
def test_a_claude_agent_is_loaded_unchanged() -> None:
    assert read_agent(CLAUDE, "code-reviewer", ".claude/agents/code-reviewer.md") == Agent(
        name="code-reviewer",
        role='Use this agent when: code changed. <example>user: "코드 리뷰"</example>',
        prompt="You review code. 한국어로 답한다.\n\n## Focus\n\n- Bugs",
        model="sonnet",
        tools=("Read", "Grep", "Glob"),
        title="code-reviewer",
        description='Use this agent when: code changed. <example>user: "코드 리뷰"</example>',
        form="claude",
        source=".claude/agents/code-reviewer.md",
    )
    inherited = read_agent(CLAUDE.replace("sonnet", "inherit"), "x", "f.md")
    assert isinstance(inherited, Agent) and inherited.model == ""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("description:", "descripton:", "f.md:3: unknown key `descripton`; expected `description`"),
        ("tools:", "tool:", "f.md:5: unknown key `tool`; expected `tools`"),
        ("model:", "Model:", "f.md:4: unknown key `Model`; expected `model`"),
        ("model: sonnet", "model: [sonnet", "f.md:4: `model` begins with [ and does not end; expected a closing ]"),
        ("model: sonnet", 'model: "소네트', 'f.md:4: `model` begins with " and does not end; expected a closing "'),
        ("color: blue", "name: x", "f.md:6: `name` stands twice (first in line 2); expected one of them"),
        (
            "someFutureKey: 1\n---\n",
            "",
            "f.md:1: the front matter that begins here does not end; expected a line `---`",
        ),
    ],
)
def test_a_misspelled_key_of_a_claude_agent_is_named_with_the_right_one(old: str, new: str, fault: str) -> None:
    assert fault in faults(CLAUDE.replace(old, new), read_agent)


def test_the_text_of_a_claude_agent_may_be_any_text_also_with_a_code_block_that_does_not_end() -> None:
    agent = read_agent(f"{CLAUDE}\n```bash\ngit diff\n", "x", "f.md")
    assert isinstance(agent, Agent) and agent.prompt.endswith("```bash\ngit diff")


def test_quotes_escapes_and_comments_in_front_matter_are_read_as_yaml_has_them() -> None:
    text = CLAUDE.replace("model: sonnet", "model: opus  # 비싸다")
    text = text.replace('user: "코드 리뷰"', "user")
    text = text.replace("Use this agent when: code", '"When:\\n\\n\\"코드\\" \\\\ code')
    agent = read_agent(text.replace("</example>", '</example>"'), "x", "f.md")
    assert isinstance(agent, Agent)
    assert agent.role == 'When:\n\n"코드" \\ code changed. <example>user</example>' and agent.model == "opus"


def test_a_claude_agent_without_a_prompt_is_refused() -> None:
    assert faults("---\nname: x\n---\n\n", read_agent) == [
        "f.md:4: there is no text after the front matter; expected the agent's prompt"
    ]


TASK = """# Task: 블로그

## 오케스트레이터

| 단계 | 오케스트레이터 | 설명 |
|---|---|---|
| 1 | `planning-team` | 기획 |
| 2 | Dev Team | 개발 |

## 프로젝트 방향

블로그를 만든다.

### 제약

- 파이썬
"""


@pytest.mark.spec("S4-02", "S4-03")
def test_a_task_file_gives_the_teams_and_the_direction() -> None:
    expected = Task(
        name="blog-project",
        teams=("planning-team", "dev-team"),
        direction="블로그를 만든다.\n\n### 제약\n\n- 파이썬",
        title="블로그",
        source="tasks/blog-project.md",
        line=5,
    )
    assert read_task(TASK, "blog-project", "tasks/blog-project.md") == expected
    english = TASK.replace("## 오케스트레이터", "## Orchestrators").replace("## 프로젝트 방향", "## Direction")
    english = english.replace("| 단계 | 오케스트레이터 | 설명 |", "| Step | Team | About |")
    assert read_task(english, "blog-project", "tasks/blog-project.md") == expected


def test_a_task_without_a_direction_or_with_a_wrong_team_is_refused() -> None:
    assert faults(TASK.replace("## 프로젝트 방향", "## 기타"), read_task) == [
        "f.md:1: there is no section `## Direction` (or `## 프로젝트 방향`);"
        " expected this section with what the project is about, for every agent"
    ]
    assert "f.md:7: `기획` is no team's name" in faults(TASK.replace("`planning-team`", "기획"), read_task)[0]


@pytest.mark.spec("S4-65")
@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        ".env",
        "../a.md",
        "a/b.md",
        "/a.md",
        "a\\b.md",
        "a.",
        "\u200ba.md",
        "가" * 40 + ".md",
        "a\x00.md",
        "...md",
    ],
)
def test_a_name_that_is_no_file_directly_in_artifacts_is_no_artifact(name: str) -> None:
    assert artifact_path(name) == "" and artifact_path(f"artifacts/{name}") == ""


def test_names_count_with_or_without_markup_and_folder() -> None:
    assert {
        artifact_path(one) for one in ("시장 분석.md", "`artifacts/시장 분석.md`", "**artifacts/시장 분석.md**")
    } == {"artifacts/시장 분석.md"}
    assert {name_of(one) for one in ("Tech Architect", "`tech-architect`", "[x](y) `agents/tech-architect.md`")} == {
        "tech-architect"
    }


@pytest.mark.parametrize(("more", "title"), [("", "reviewer"), ("name: 검토자\n", "검토자")])
def test_an_agent_of_claude_is_called_as_it_says_or_else_as_its_file(more: str, title: str) -> None:
    found = read_agent(f"---\n{more}description: d\n---\nYou review.\n", "reviewer", "x.md")
    assert isinstance(found, Agent)
    assert (found.name, found.title) == ("reviewer", title)
