"""`orchestra models` and `models try` on the real program; what is wrong with a provider is said in one sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.models import CLAUDE, KEY
from tests.support.modelserver import Fail, ModelServer, Say, Stall
from tests.support.project import Project

BARE = "/usr/bin:/bin"  # a PATH without the claude CLI


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "프로젝트")


def configure(project: Project, text: str) -> None:
    project.configure(text)


def test_nobody_answers_yet_and_the_three_shortest_ways_are_named(project: Project) -> None:
    told = project.run("models", env={"PATH": BARE})
    assert told.returncode == 0
    for way in ("claude CLI", "OPENAI_BASE_URL", "--provider local"):
        assert way in told.stderr
    refused = project.run("loop", "g", "--check", "true", env={"PATH": BARE})
    assert refused.returncode == 2
    assert "(1)" in refused.stderr and "(2)" in refused.stderr and "(3)" in refused.stderr


@pytest.mark.parametrize(
    ("env", "who"),
    [
        ({"OPENAI_API_KEY": KEY, "PATH": BARE}, "openai_compat"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "PATH": BARE}, "openai_compat"),
        ({"ANTHROPIC_API_KEY": KEY, "PATH": BARE}, "anthropic"),
        (
            {"ANTHROPIC_API_KEY": KEY, "PATH": f"{CLAUDE.parent}:{BARE}"},
            "claude_code" if CLAUDE.exists() else "anthropic",
        ),
        ({"OPENAI_API_KEY": KEY, "PATH": f"{CLAUDE.parent}:{BARE}"}, "openai_compat"),  # the CLI is not logged in
    ],
)
def test_the_environment_offers_a_default(project: Project, env: dict[str, str], who: str) -> None:
    offers = [json.loads(line) for line in project.run("models", "--json", env=env).stdout.splitlines()]
    assert [offer["name"] for offer in offers if offer["default"]] == [who]


def test_what_is_configured_is_listed_with_context_and_price_and_contacted_only_with_consent(project: Project) -> None:
    with ModelServer() as server:
        configure(
            project,
            "providers:\n  default: fast\n"
            f"  fast: {{kind: openai_compat, base_url: {server.url}/v1, model: 작은모델, context_tokens: 8000}}\n"
            "  judge: anthropic:claude-haiku-4-5-20251001\n"
            "budget: {prices: {작은모델: {input: 0.5, output: 1.5}}}\n",
        )
        told = project.run("models", env={"ANTHROPIC_API_KEY": KEY, "PATH": BARE}).stdout
        assert server.asked == []
        reached = project.run("models", "--reach", "--json", env={"PATH": BARE}).stdout
        assert [seen.method for seen in server.asked] == ["GET", "GET"] and server.seen == []
    lines = {line.split()[0].lstrip("*"): line for line in told.splitlines()}
    assert "8k" in lines["fast"] and "0.5 / 1.5" in lines["fast"] and "작은모델" in lines["fast"]
    assert "200k" in lines["judge"] and "1 / 5" in lines["judge"]
    offers = {offer["name"]: offer for offer in map(json.loads, reached.splitlines())}
    assert offers["fast"]["models"] == ["wire-model"] and offers["default"]["default"]
    assert not offers["judge"]["ready"] and "ANTHROPIC_API_KEY" in offers["judge"]["state"]


def test_one_call_streams_the_reply_and_tells_its_figures(project: Project) -> None:
    with ModelServer(Say("안녕하세요\x1b[31m!", pieces=4, cached_tokens=5)) as server:
        env = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
        done = project.run("models", "try", "openai_compat:gpt-4o-mini", "인사해 줘", env=env)
        assert server.seen[0].body["model"] == "gpt-4o-mini"
        assert "x-orchestra-trace-id" not in server.seen[0].headers
    assert done.returncode == 0
    assert done.stdout == "안녕하세요\\x1b[31m!\n"
    assert "12 tokens in (5 cached), 3 out" in done.stderr and "$0.0000" in done.stderr


@pytest.mark.parametrize(
    ("behaviour", "code", "words"),
    [
        (Fail(401, f"bad key {KEY}"), 6, "Check the key"),
        (Fail(404, "no such model"), 6, "the model's name"),
        (Fail(400, "bad"), 1, "answered 400"),
        (Stall(head=False), 6, "no complete reply within 0.5 s"),
    ],
)
def test_a_call_that_fails_says_why_with_the_right_exit_code(
    project: Project, behaviour: Fail | Stall, code: int, words: str
) -> None:
    with ModelServer(behaviour) as server:
        env = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
        done = project.run("models", "try", "openai_compat:m", "x", "--timeout", "0.5", env=env)
    assert done.returncode == code
    assert words in done.stderr and KEY not in done.stderr and "Traceback" not in done.stderr


def test_an_empty_prompt_costs_no_call(project: Project) -> None:
    done = project.run("models", "try", "local", "  ")
    assert done.returncode == 2 and "the prompt is empty" in done.stderr


def test_a_provider_program_that_is_gone_is_said_before_a_run_exists(project: Project) -> None:
    done = project.run("loop", "g", "--check", "true", "--provider", "claude_code", env={"PATH": BARE})
    assert done.returncode == 2 and "no program 'claude' on PATH" in done.stderr
    assert not (project.path / ".runs").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("providers: {fast: {base_url: http://x/v1}}", "`kind` is missing"),
        ("providers: {fast: {kind: gpt}}", "gpt"),
        ("providers: {fast: {kind: openai_compat, bas_url: x}}", "base_url"),
        ("providers: {fast: {kind: openai_compat, key_env: sk-0123456789abcdef}}", "never the key itself"),
        ("providers: {fast: {kind: openai_compat, idle_sec: 0}}", "idle_sec"),
        ("providers: {'a:b': {kind: local}}", "cannot hold a colon"),
        ("providers: {claude_code: {base_url: 'http://h'}}", "`base_url` means nothing to claude_code"),
        ("providers: {anthropic: {extra: {top_k: 1}}}", "`extra` means nothing to anthropic"),
        ("providers: {openai_compat: {extra: {n: 4}}}", "`extra.n` is orchestra's to say"),
        ("providers: {openai_compat: {extra: {max_tokens: 4}}}", "use max_output_tokens"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_line(project: Project, text: str, words: str) -> None:
    configure(project, text + "\n")
    done = project.run("config", "validate")
    assert done.returncode == 2
    assert words in done.stderr and "orchestra.config.yaml:1" in done.stderr


def test_a_wrong_kind_is_told_once(project: Project) -> None:
    configure(
        project, "providers:\n  fast: {kind: gpt, base_url: 'http://h/v1'}\n  local: {kind: lokal, base_url: x}\n"
    )
    done = project.run("config", "validate")
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert ":2: `providers.fast.kind`" in first and "it can be claude_code, openai_compat" in first
    assert ":3: `providers.local.kind`" in second


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "providers:\n  default: opneai_compat:m",
            ":2: `providers.default`: there is no provider 'opneai_compat'; did",
        ),
        ("providers:\n  fast: local\n  default: fats", ":3: `providers.default`: there is no provider 'fats'; did you"),
        ("providers:\n  a: b\n  b: a", ":2: `providers.a`: the entry 'a' of providers leads back to itself"),
        (
            "providers:\n  fast: {kind: anthropic, base_url: 'ftp://h'}",
            ":2: `providers.fast.base_url`: 'ftp://h' is no",
        ),
        (
            "providers:\n  fast: {kind: openai_compat, base_url: 'h:80/v1'}",
            ":2: `providers.fast.base_url`: 'h:80/v1' is",
        ),
        ("roles:\n  evaluator: nobody", ":2: `roles.evaluator`: there is no provider 'nobody'"),
        ("roles:\n  evaluater: local", ":2: `roles.evaluater`: there is no such role or agent; there are planner"),
    ],
)
def test_a_name_or_an_address_that_leads_nowhere_is_found_before_a_run(project: Project, text: str, words: str) -> None:
    (project.path / "other.yaml").write_text(text + "\n")
    done = project.run("config", "validate", "other.yaml", env={"PATH": BARE})
    assert done.returncode == 2
    assert f"other.yaml{words}" in done.stderr and "three ways to a model" not in done.stderr


def test_all_names_that_lead_nowhere_are_told_each_once_and_the_environment_is_not_asked(project: Project) -> None:
    configure(
        project,
        "providers:\n  default: fast\n  other: default\n"
        "  fast: {kind: openai_compat, base_url: 'nowhere', key_env: NOT_SET}\n  third: gone\n  fourth: third\n"
        "roles: {evaluator: third, planner: fast, fixerr: fast}\n",
    )
    done = project.run("config", "validate", env={"PATH": BARE})
    assert done.returncode == 2
    told = [line.partition("orchestra.config.yaml:")[2].partition(": ")[0] for line in done.stderr.splitlines()]
    assert told == ["4", "5", "7"]
    configure(project, "providers:\n  fast: {kind: openai_compat, base_url: 'http://h/v1', key_env: NOT_SET}\n")
    assert project.run("config", "validate", env={"PATH": BARE}).returncode == 0


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("roles: {planner: gtp, fixer: gtp}", ["roles.fixer", "roles.planner"]),
        ("providers: {a: 'nope:x', b: 'nope:y'}", ["providers.a", "providers.b"]),
        ("providers: {x: nope, y: x, z: y}\nroles: {planner: z, fixer: nope}", ["providers.x", "roles.fixer"]),
        ("providers: {c: a, b: a, a: b}\nroles: {planner: c}", ["providers.b"]),  # a circle is one mistake
        ("providers: {a: a, b: a, d: e, e: d}", ["providers.a", "providers.d"]),
    ],
)
def test_each_mistake_is_told_where_it_is_and_what_follows_from_it_is_not(
    project: Project, text: str, places: list[str]
) -> None:
    configure(project, text + "\n")
    done = project.run("config", "validate", env={"PATH": BARE})
    assert done.returncode == 2
    assert [line.split("`")[1] for line in done.stderr.splitlines()] == places


def test_a_role_without_a_provider_of_its_own_has_the_default(project: Project) -> None:
    configure(project, 'roles: {fixer: ""}\n')
    assert project.run("config", "validate", env={"PATH": BARE}).returncode == 0
    done = project.loop("--approval", "never")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "env", "words"),
    [
        ("providers: {default: {kind: openai_compat, base_url: 'ftp://x'}}", {}, "is no address"),
        ("providers: {default: {kind: openai_compat, base_url: 'http://u:p@h/v1'}}", {}, "must not hold a password"),
        ("providers: {default: {kind: openai_compat, base_url: 'http://h/v1', key_env: NO_SUCH}}", {}, "NO_SUCH"),
        ("providers: {default: {kind: openai_compat, base_url: 'http://h/v1?key=1'}}", {}, "has a query"),
        ("providers: {default: a, a: b, b: a}", {}, "leads back to itself"),
        ("providers: {default: openai_compat}", {"OPENAI_API_KEY": "sk-\u200babc"}, "characters no key has"),
        ("roles: {evaluator: openai_compatt}\nproviders: {default: local}", {}, "did you mean 'openai_compat'?"),
    ],
)
def test_what_cannot_work_is_said_before_a_run_exists(
    project: Project, text: str, env: dict[str, str], words: str
) -> None:
    configure(project, text + "\n")
    done = project.run("loop", "g", "--check", "true", "--no-input", env={"PATH": BARE, **env})
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert not (project.path / ".runs").exists()


def test_doctor_says_who_answers_and_what_is_missing(project: Project) -> None:
    assert "models: none is configured" in project.run("doctor", env={"PATH": BARE}).stdout
    configure(
        project, "providers: {default: {kind: openai_compat, base_url: 'http://127.0.0.1:9/v1', key_env: NOPE}}\n"
    )
    done = project.run("doctor", env={"PATH": os.environ["PATH"]})
    assert done.returncode == 1 and "NOPE" in done.stdout
