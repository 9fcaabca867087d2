"""orchestra policy: explain, test, show; the real program."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tests.support.project import Project

CONFIG = """\
rules:
  - prefix: [git, [push, fetch]]
    decision: forbid
    reason: 원격 저장소가 없다
    match: ["git push origin main"]
    not_match: ["git log"]
  - {prefix: [git, commit], decision: ask}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "p")
    (project.path / "orchestra.config.yaml").write_text(CONFIG, encoding="utf-8")
    return project


def test_explain_says_decision_rule_line_reason_and_program(project: Project) -> None:
    done = project.run("policy", "explain", "--", "git", "push", "origin")
    assert done.returncode == 5
    assert done.stdout.splitlines()[:3] == [
        "forbid  git push origin",
        "  by       git (push|fetch) (orchestra.config.yaml:2)",
        "  because  원격 저장소가 없다",
    ]
    assert "/git" in done.stdout.splitlines()[3]
    asked = project.run("policy", "explain", "git", "commit", "-m", "한글 메시지")
    assert (asked.returncode, asked.stdout.splitlines()[0]) == (0, "ask  git commit -m '한글 메시지'")
    allowed = project.run("policy", "explain", "--", "ls", "-l")
    assert allowed.returncode == 0
    assert "tier strict" in allowed.stdout and "network none" in allowed.stdout and "read-only" in allowed.stdout


def test_explain_as_json_has_everything(project: Project) -> None:
    done = project.run("policy", "explain", "--json", "--", "git", "commit")
    record = json.loads(done.stdout)
    assert (record["decision"], record["rule"], record["where"]) == ("ask", "git commit", "orchestra.config.yaml:7")
    assert record["argv"] == ["git", "commit"]
    assert record["tool"]["path"].endswith("/git")
    assert record["sandbox"]["net"] == "deny" and record["sandbox"]["tier"] == "strict"
    assert record["policy"] == json.loads(project.run("policy", "show", "--json").stdout)["digest"]
    missing = json.loads(project.run("policy", "explain", "--json", "no-such-tool").stdout)
    assert (missing["decision"], missing["tool"]) == ("forbid", None) and "not on PATH" in missing["noTool"]


def test_explain_for_a_person_needs_no_whitelist_and_takes_paths(project: Project) -> None:
    assert project.run("policy", "explain", "make", "test").returncode == 5
    assert project.run("policy", "explain", "--as", "person", "make", "test").returncode == 0
    assert project.run("policy", "explain", "--as", "person", "--", "/usr/bin/git", "push").returncode == 5
    asked = project.run("policy", "explain", "--as", "person", "--", "git", "commit").stdout
    assert asked.startswith("allow") and "because  typed by a person; `ask` does not apply\n" in asked
    tool = project.path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert str(tool) in project.run("policy", "explain", "--as", "person", "./tool").stdout


def test_explain_shows_tricks_and_does_not_play_them(project: Project) -> None:
    done = project.run("policy", "explain", "--", "gi\u202et\x1b[31m", "x")
    assert done.returncode == 5
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout
    long = project.run("policy", "explain", "--", "echo", "x" * 1001)
    assert long.returncode == 5 and "at most 1000" in long.stdout
    assert project.run("policy", "explain").returncode == 2
    assert project.run("policy", "explain", "--", "").returncode == 2


def test_test_runs_the_examples_and_names_the_line_of_each_that_fails(project: Project) -> None:
    good = project.run("policy", "test")
    assert (good.returncode, good.stdout) == (0, "2 example(s) of 2 rule(s) hold\n")
    (project.path / "orchestra.config.yaml").write_text(CONFIG.replace('"git log"', '"git log", "git push"'))
    bad = project.run("policy", "test")
    assert bad.returncode == 1
    assert bad.stdout == "orchestra.config.yaml:6: 'git push': the rule `git (push|fetch)` matches it\n"
    assert "1 of 3" in bad.stderr
    record = json.loads(project.run("policy", "test", "--json").stdout)
    assert [failed["where"] for failed in record["failed"]] == ["orchestra.config.yaml:6"]
    (project.path / "orchestra.config.yaml").unlink()
    none = project.run("policy", "test")
    assert none.returncode == 0
    sample = none.stdout.partition("orchestra.config.yaml:\n")[2]
    (project.path / "orchestra.config.yaml").write_text(textwrap.dedent(sample))
    assert project.run("policy", "test").stdout == "2 example(s) of 1 rule(s) hold\n"


def test_test_warns_of_rules_that_another_spelling_passes(project: Project) -> None:
    config = """\
rules:
  - prefix: [python3, -m, pip]
    decision: forbid
    match: ["python3 -m pip install x"]
  - {prefix: [git, push, [--force, 강제]], decision: ask}
  - {prefix: [ls, -l], decision: allow}
  - {prefix: [git, fetch], decision: forbid}
"""
    (project.path / "orchestra.config.yaml").write_text(config, encoding="utf-8")
    done = project.run("policy", "test")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "orchestra.config.yaml:2: warning: `python3 -m pip` names an option, and another spelling passes it, e.g. "
        "`python3 -mpip` and `python3 -v -m pip`. Rules are no boundary; the sandbox is",
        "orchestra.config.yaml:5: warning: `git push (--force|강제)` names an option, and another spelling passes it, "
        "e.g. `git push -v --force`. Rules are no boundary; the sandbox is",
        "1 example(s) of 4 rule(s) hold",
    ]
    warnings = json.loads(project.run("policy", "test", "--json").stdout)["warnings"]
    assert [(warning["where"], len(warning["passes"])) for warning in warnings] == [
        ("orchestra.config.yaml:2", 2),
        ("orchestra.config.yaml:5", 1),
    ]
    (project.path / "orchestra.config.yaml").write_text(config.replace("-m pip install", "-m poetry"))
    assert project.run("policy", "test").returncode == 1


def test_show_prints_the_policy_in_force(project: Project) -> None:
    done = project.run("policy", "show")
    assert done.returncode == 0
    assert done.stdout.startswith("policy sha256:")
    assert "원격 저장소가 없다" in done.stdout and "orchestra.config.yaml:2" in done.stdout
    record = json.loads(project.run("policy", "show", "--json").stdout)
    assert record["tools"]["git"].endswith("/git")
    assert record["policy"]["max_task_sec"] == 300


def test_a_wrong_configuration_stops_every_one_of_them(project: Project) -> None:
    (project.path / "orchestra.config.yaml").write_text("polices: {}")
    for command in (["explain", "ls"], ["test"], ["show"]):
        done = project.run("policy", *command)
        assert done.returncode == 2 and "did you mean `policies`?" in done.stderr
