"""A clone's configuration counts only once the person agreed to what it asks for (F3), through the real program."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from orchestra.app import App
from tests.support.project import PROGRAM, Project, agree
from tests.support.terminal import Terminal

SERVER = (
    "providers: {default: {kind: openai_compat, base_url: 'http://127.0.0.1:9/v1', key_env: AWS_SECRET_ACCESS_KEY}}"
)


def clone(path: Path, config: str) -> Project:
    """A project whose configuration came with it."""
    project = Project(path)
    (project.path / "orchestra.config.yaml").write_text(config, encoding="utf-8")
    return project


WIDER = {
    "sandbox: {tier: none}": "sandbox.tier: none",
    "sandbox: {tier: landlock}": "sandbox.tier: landlock",
    "sandbox: {env: [HOME_TOWN]}": "sandbox.env: HOME_TOWN",
    SERVER: "providers.default: kind=openai_compat base_url=http://127.0.0.1:9/v1 key_env=AWS_SECRET_ACCESS_KEY",
    "providers: {openai_compat: {key_env: X_KEY}}": "providers.openai_compat: kind=openai_compat key_env=X_KEY",
    "providers: {claude_code: {program: ./claude}}": "claude_code program=",
    "providers: {local: {file: m.gguf}}": "kind=local file=",
    "policies: {allow_network: true}": "policies.allow_network: true",
    "policies: {allow_network: true}\nsecurity: {net: {allow_domains: [pypi.org]}}": "allow_domains: pypi.org",
    "security: {fs: {allow_read: [./, OUTSIDE]}}": "security.fs.allow_read: OUTSIDE",
    "security: {fs: {allow_write: [OUTSIDE]}}": "security.fs.allow_write: OUTSIDE",
    "paths: {runs: OUTSIDE, logs: 'OUTSIDE/{run_id}/t', artifacts: 'OUTSIDE/{run_id}/a'}": "paths.runs: OUTSIDE",
    "tools: {mytool: /bin/true}": "tools.mytool: ",
    "roles: {planner: 'local:evil.gguf'}": "roles.planner: ",
    "providers: {default: 'local:evil.gguf'}": "providers.default: ",
    "providers: {mine: {kind: local}, default: mine}\nroles: {fixer: 'mine:evil.gguf'}": "roles.fixer: ",
    "security: {redact_secrets: false}": "security.redact_secrets: false",
    "loop: {approval: risk}": "loop.approval: risk",
    "loop: {approval: never}": "loop.approval: never",
    "dag: {approval: never}": "dag.approval: never",
}


@pytest.mark.parametrize("config", WIDER)
def test_each_line_that_does_more_than_the_defaults_needs_consent(config: str, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    outside = str(tmp_path / "outside")
    project = clone(tmp_path / "p", config.replace("OUTSIDE", outside))
    consent = App(project.path).project.consent
    texts = [line.text for line in consent.missing]
    assert any(WIDER[config].replace("OUTSIDE", outside) in text for text in texts), texts
    assert all(re.fullmatch(r"orchestra\.config\.yaml:\d+", line.where) for line in consent.missing)
    agree(project.path)
    assert App(project.path).project.consent.missing == ()


@pytest.mark.parametrize(
    "config",
    [
        "",
        "whitelist_tools: [sh, python, curl]",
        "rules: [{prefix: [git, push], decision: allow}]",
        "policies: {default_fs_mode: rw, max_task_duration_sec: 10}",
        "budget: {max_usd: 100, prices: {m: {input: 1}}}",
        "providers: {default: 'scripted:replies.yaml', other: {kind: scripted, file: replies.yaml}}",
        "tools: {mytool: ./tool.sh}",
        "paths: {runs: ./state/graph, logs: './state/graph/{run_id}/t', artifacts: './state/graph/{run_id}/a', "
        "report: './state/graph/{run_id}/r'}",
        "security: {fs: {allow_read: [./, /tmp, ./src]}}",
        "dag: {approval: risk}",
        "loop: {approval: always, checks: ['pytest -q']}",
        "security: {net: {allow_domains: [pypi.org]}}",  # no network: a name alone opens nothing
    ],
)
def test_what_narrows_or_runs_in_the_sandbox_anyway_needs_none(config: str, tmp_path: Path) -> None:
    project = clone(tmp_path / "p", config)
    (project.path / "tool.sh").write_text("#!/bin/sh\n")
    (project.path / "tool.sh").chmod(0o755)
    assert App(project.path).project.consent.missing == ()


def test_what_a_server_gets_is_said(tmp_path: Path) -> None:
    project = clone(tmp_path / "p", "providers: {mine: {kind: openai_compat, base_url: 'http://127.0.0.1:9/v1'}}\n")
    [line] = App(project.path).project.consent.missing
    assert "your files are sent there" in line.why


def test_without_consent_nothing_starts_and_the_lines_are_named(tmp_path: Path) -> None:
    """F3 (a): the first loop in a clone would send a variable of the person's as a key."""
    project = clone(tmp_path / "p", f"# 설정\n{SERVER}\nsandbox: {{tier: none}}\n")
    env = {"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"}
    for words in (
        ["loop", "g", "--check", "true", "--no-input"],
        ["dag", "g", "--no-input"],
        ["tool", "run", "--no-input", "--", "true"],
        ["models", "--reach"],
        ["models", "try", "hello"],
    ):
        refused = project.run(*words, env=env)
        assert refused.returncode == 5, (words, refused.stderr)
        assert "orchestra.config.yaml:3  sandbox.tier: none" in refused.stderr
        assert "key_env=AWS_SECRET_ACCESS_KEY" in refused.stderr
        assert "orchestra trust --yes" in refused.stderr and "ORCHESTRA_TRUST=sha256:" in refused.stderr
        assert "Traceback" not in refused.stderr and "wJalrX" not in refused.stderr
    assert not (project.path / ".runs").exists() and not (project.path / "runs").exists()
    doctor = project.run("doctor")
    assert doctor.returncode == 1 and "consent: you have not agreed to 2 of its lines" in doctor.stdout


def test_consent_is_for_exactly_these_lines_and_can_be_taken_back(tmp_path: Path) -> None:
    project = clone(tmp_path / "p", "sandbox: {tier: none}\n")
    asked = project.run("trust")
    assert asked.returncode == 5 and "orchestra trust --yes" in asked.stderr
    agreed = project.run("trust", "--yes")
    assert agreed.returncode == 0 and "! sandbox.tier: none" in agreed.stdout
    assert not [p for p in project.path.iterdir() if "consent" in p.name]  # outside the project
    done = project.loop("--approval", "never")
    assert done.returncode == 0, done.stderr
    config = project.path / "orchestra.config.yaml"
    config.write_text("# another comment\nretries: {max: 1}\nsandbox:\n  tier: 'none'\n")
    assert project.run("trust", "--show").stdout.count("you agreed to all of it") == 1
    config.write_text("sandbox: {tier: none, env: [HOME_TOWN]}\n")
    refused = project.loop()
    assert refused.returncode == 5 and "sandbox.env: HOME_TOWN" in refused.stderr
    assert "sandbox.tier" not in refused.stderr  # to that line the person agreed
    config.write_text("sandbox: {tier: none}\n")
    assert project.run("trust", "--revoke").returncode == 0
    assert project.loop().returncode == 5
    assert "no consent to take back" in project.run("trust", "--revoke").stdout


def test_a_key_agreed_to_for_one_server_is_not_agreed_to_for_another(tmp_path: Path) -> None:
    project = clone(tmp_path / "p", SERVER)
    agree(project.path)
    for other in (
        SERVER.replace("127.0.0.1:9", "127.0.0.1:8"),
        SERVER.replace("base_url: 'http://127.0.0.1:9/v1', ", ""),
    ):
        (project.path / "orchestra.config.yaml").write_text(other)
        assert [line.key for line in App(project.path).project.consent.missing] == ["providers.default"]


def test_a_line_can_be_read_in_one_way_only(tmp_path: Path) -> None:
    """A value with a newline looked like two lines, and had their digest."""
    one = clone(tmp_path / "one", 'providers: {claude_code: {program: "claude\\nsandbox.tier: none"}}')
    two = clone(tmp_path / "two", "providers: {claude_code: {program: claude}}\nsandbox: {tier: none}")
    assert App(one.path).project.consent.digest != App(two.path).project.consent.digest
    assert "\\nsandbox.tier" in one.run("trust", "--show").stdout


def test_no_consent_lies_in_the_project(tmp_path: Path) -> None:
    project = clone(tmp_path / "p", "sandbox: {tier: none}\n")
    env = {"XDG_STATE_HOME": str(project.path / "state")}
    refused = project.run("trust", "--yes", env=env)
    assert refused.returncode == 2 and "lies in the project" in refused.stderr
    assert project.loop(env=env).returncode == 5


def test_the_key_of_this_user_goes_to_no_server(tmp_path: Path) -> None:
    project = clone(tmp_path / "p", "providers: {openai_compat: {key_env: ORCHESTRA_KEY}}\n")
    refused = project.run("config", "validate")
    assert refused.returncode == 2 and "orchestra's own" in refused.stderr


def test_a_machine_without_a_person_names_the_digest(tmp_path: Path) -> None:
    project = clone(tmp_path / "p", "loop: {approval: never}\n")
    shown = project.run("trust", "--show")
    assert shown.returncode == 0
    digest = re.search(r"sha256:[0-9a-f]{64}", shown.stdout)
    assert digest is not None
    assert project.loop(env={"ORCHESTRA_TRUST": digest[0]}).returncode == 0
    other = project.loop(env={"ORCHESTRA_TRUST": "sha256:" + "0" * 64})
    assert other.returncode == 5 and "it is for other lines" in other.stderr
    assert project.loop().returncode == 5  # it was said once, and not remembered


def test_a_persons_own_file_agrees_for_every_project(tmp_path: Path) -> None:
    own = Path(os.environ["HOME"]) / ".config" / "orchestra" / "config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("loop: {approval: never}\nsandbox: {env: [HOME_TOWN]}\n")
    project = clone(tmp_path / "p", "loop: {approval: never}\n")
    assert project.loop().returncode == 0
    (project.path / "orchestra.config.yaml").write_text("sandbox: {tier: none}\n")
    assert project.loop().returncode == 5
    own.write_text("sandbocks: {}\n")
    wrong = project.loop()
    assert wrong.returncode == 2 and f"{own}:1" in wrong.stderr


def test_a_consent_in_the_project_counts_for_nothing(tmp_path: Path) -> None:
    project = clone(tmp_path / "p", "sandbox: {tier: none}\n")
    own = project.path / "orchestra" / "config.yaml"
    own.parent.mkdir()
    own.write_text("sandbox: {tier: none}\n")
    refused = project.loop(env={"XDG_CONFIG_HOME": str(project.path)})
    assert refused.returncode == 2 and "lies in the project" in refused.stderr


def test_at_a_terminal_the_person_sees_the_lines_and_agrees_once(tmp_path: Path) -> None:
    project = clone(tmp_path / "p", "sandbox: {tier: none}\n")
    words = [PROGRAM, "loop", "더하기", "--check", project.check, "--provider", f"scripted:{project.script}"]
    terminal = Terminal([*words, "--approval", "never"], project.path)
    shown = terminal.wait_for("Do you agree")
    assert "sandbox.tier: none" in shown and "nothing contains commands" in shown
    terminal.type("n\n")
    terminal.wait_for("nothing was started")
    assert terminal.end() == 5
    assert not (project.path / ".runs").exists()
    terminal = Terminal([*words, "--approval", "never"], project.path)
    terminal.wait_for("Do you agree")
    terminal.type("y\n")
    terminal.wait_for("Its commands are not contained")
    assert terminal.end() == 0
    again = project.run("tool", "run", "--", "true")
    assert "Do you agree" not in again.stderr and again.returncode == 0


def test_less_than_strict_is_said_at_the_start_and_in_the_report(tmp_path: Path) -> None:
    project = clone(tmp_path / "p", "sandbox: {tier: none}\n")
    agree(project.path)
    done = project.loop("--approval", "never")
    assert done.returncode == 0 and "Its commands are not contained" in done.stderr
    assert "Its commands are not contained" in project.run("report", "last").stdout
    plan = project.path.parent / "plan.json"
    plan.write_text(json.dumps([{"task_id": "a", "intent": "a", "tools": ["echo"], "depends_on": []}]))
    graph = project.run("dag", "g", "--plan", str(plan), "--no-input")
    assert "Its commands are not contained" in graph.stderr
    assert "Its commands are not contained" in project.run("report", "last").stdout


def test_init_agrees_to_what_it_wrote_and_validate_lists_what_needs_consent(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert project.run("init").returncode == 0
    assert project.loop("--approval", "never").returncode == 0
    (project.path / "orchestra.config.yaml").write_text(SERVER)
    valid = project.run("config", "validate")
    assert valid.returncode == 0 and "! providers.default: kind=openai_compat" in valid.stdout


@pytest.mark.parametrize("how", ["before", "torn", "after"])
def test_a_kill_while_agreeing_or_revoking_leaves_consent_or_none(how: str, tmp_path: Path) -> None:
    project = clone(tmp_path / "p", "loop: {approval: never}\n")
    for word, steps in (("--yes", 4), ("--revoke", 2)):
        killed = 0
        for number in range(1, 10):
            consent = App(project.path).project.consent
            consent.revoke() if word == "--yes" else consent.agree("tester")
            done = project.run("trust", word, env={"ORCHESTRA_CHAOS": f"{number}:{how}"})
            assert done.returncode in (0, -9), done.stderr
            shown = project.run("trust", "--show").stdout
            assert ("you agreed to all of it" in shown) != ("not agreed to: 1" in shown)
            if done.returncode == 0:
                break
            killed += 1
        assert killed == steps
