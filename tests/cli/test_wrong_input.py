"""Wrong input to the real program: one clear message, exit code 2, nothing done."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.cli.commands import COMMANDS
from tests.support.project import (
    PLAN,
    RIGHT_PATCH,
    Project,
    role,
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lop", "x"], "Did you mean 'loop'?"),
        (["loop", "g", "--chekc", "true"], "No such option '--chekc'. Did you mean '--check'? All of it"),
        (["loop"], "Missing argument 'GOAL'"),
        (["loop", "  ", "--check", "true"], "the goal is empty"),
        (["loop", "g", "--check", "true"], "no model is configured; three ways to a model"),
        (["loop", "g", "--check", "true", "--provider", "claude_code"], "claude"),
        (["loop", "g", "--check", "true", "--provider", "anthropic"], "set ANTHROPIC_API_KEY"),
        (["loop", "g", "--check", "true", "--provider", "openai_compat"], "set OPENAI_BASE_URL or OPENAI_API_KEY"),
        (["loop", "g", "--check", "true", "--provider", "local:nope.gguf"], "there is no model file"),
        (["loop", "g", "--check", "true", "--provider", "gpt"], "there is no provider 'gpt'"),
        (["loop", "g", "--check", "true", "--provider", "antropic"], "did you mean 'anthropic'?"),
        (["loop", "g", "--check", "true", "--provider", "scripted"], "needs a file"),
        (["loop", "g", "--check", "true", "--provider", "replay"], "needs a run"),
        (["loop", "g", "--check", "true", "--provider", "scripted:nope.yaml"], "cannot read the script"),
        (["loop", "g", "--check", "true", "--provider", "replay:nope"], "no run 'nope'"),
        (["loop", "g", "--check", "no-such-program", "--provider", "S"], "is not on PATH"),
        (["loop", "g", "--check", "grep 'x", "--provider", "S"], "No closing quotation"),
        (["loop", "g", "--check", "", "--provider", "S"], "--check is empty"),
        (["loop", "g", "--check", "true", "--approval", "maybe", "--provider", "S"], "'maybe' is not one of"),
        (["loop", "g", "--provider", "S"], "nothing can decide"),
        (["loop", "g", "--check", "true", "--role", "evaluator", "--provider", "S"], "want NAME=PROVIDER"),
        (["loop", "g", "--check", "true", "--max-budget-usd", "0", "--provider", "S"], "'0': want an amount"),
        (["loop", "g", "--check", "true", "--max-budget-usd", "nan", "--provider", "S"], "'nan': want an amount"),
        (
            ["loop", "g", "--check", "echo ghp_0123456789abcdefghijABCDEFGHIJ012345", "--provider", "S"],
            "holds a secret",
        ),
        (["resume", "nope"], "no run 'nope'"),
        (["resume", "last"], "no run in"),
        (["show", "last", "-C", "/no/such/folder"], "is not a folder; give -C DIR"),
        (["reject", "last"], "Missing option '--reason'"),
        (["verify", "nope"], "neither a run folder nor a run here"),
        (["schema", "nope"], "no record 'nope'"),
        (["config", "validate"], "orchestra init"),
        (["completion", "tcsh"], "is not one of"),
    ],
)
def test_wrong_input_gets_one_clear_message_and_exit_code_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    project = Project(tmp_path / "p")
    done = project.run(*[f"scripted:{project.script}" if a == "S" else a for a in arguments])
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert project.runs == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("polices: {}", ":1: unknown key `polices`; did you mean `policies`?"),
        ("loop:\n  approval: maybe", ":2: `loop.approval`: invalid enum value 'maybe'; it can be always, risk, never"),
        ('policies:\n  allow_network: "no"', ":2: `policies.allow_network`: expected `bool`, got `str`"),
        ("loop:\n  checks:\n  - 5", ":3: `loop.checks.0`: expected `str`, got `int`"),
        ("a: [", "not valid YAML"),
        ("- 1", "`the file`: expected `object`, got `array`"),
    ],
)
def test_a_wrong_configuration_is_named_with_its_line(tmp_path: Path, config: str, message: str) -> None:
    project = Project(tmp_path / "p")
    (project.path / "orchestra.config.yaml").write_text(config)
    for command in (["config", "validate"], ["runs"]):
        done = project.run(*command)
        assert done.returncode == 2
        assert message in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("kind", "said"), [("link", "leads to nowhere.yaml, which cannot be read"), ("folder", "is a folder")]
)
def test_a_configuration_that_is_no_file_is_never_passed_over(tmp_path: Path, kind: str, said: str) -> None:
    project = Project(tmp_path / "p")
    config = project.path / "orchestra.config.yaml"
    config.symlink_to("nowhere.yaml") if kind == "link" else config.mkdir()
    for command in (["config", "validate"], ["config", "path"], ["runs"], ["policy", "show"], ["tool", "run", "true"]):
        done = project.run(*command)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    doctor = project.run("doctor")
    assert doctor.returncode == 1 and said in doctor.stdout
    assert project.run("init").returncode == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path / "p")
    done = project.run(name, "--help")
    assert done.returncode == 0 and done.stdout.startswith("Usage: orchestra ")


def test_a_run_goes_on_with_roles_that_exist_or_not_at_all(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN))
    project.loop(goal="one")
    before = project.runs[0].events.read_bytes()
    done = project.run("resume", "last", "--role", f"plannner=scripted:{project.script}")
    assert done.returncode == 2 and "--role plannner: there is no such role or agent" in done.stderr
    assert project.runs[0].events.read_bytes() == before


def test_a_role_is_one_of_the_started_workflow_although_there_are_workflows_of_ones_own(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    own = "import orchestra\n@orchestra.workflow\nasync def own(ctx: orchestra.Context) -> str:\n    return 'done'\n"
    (project.path / "own.py").write_text(own)
    script = f"scripted:{project.script}"
    project.configure(f'workflows: {{own: "own.py:own"}}\nroles: {{writer: "{script}"}}\n')
    wrong = project.run("loop", "x", "--role", f"developr={script}", "--no-input")
    assert wrong.returncode == 2, wrong.stderr
    assert "--role developr: there is no such role or agent; there are planner, developer" in wrong.stderr
    assert wrong.stderr.count("planner") == 1
    assert project.runs == list[object]()
    anybody = project.run("start", "own", "--role", f"developr={script}", "--no-input")
    assert anybody.returncode == 0, anybody.stderr  # its agents are not known
    project.loop(goal="one")  # `writer` of the configuration may be an agent of another workflow
    (loop,) = (run for run in project.runs if not run.id.endswith("own"))
    before = loop.events.read_bytes()
    again = project.run("resume", loop.id, "--role", f"plannner={script}")
    assert again.returncode == 2 and "--role plannner: there is no such role or agent" in again.stderr
    assert loop.events.read_bytes() == before


def test_an_ambiguous_prefix_names_the_runs(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    project.loop(goal="one")
    project.loop(goal="two")
    done = project.run("show", project.runs[0].id[:8])
    assert done.returncode == 2
    assert all(folder.id in done.stderr for folder in project.runs)
    assert project.run("show", project.runs[0].id[:-1]).returncode == 0


def test_a_configuration_that_nobody_wrote_by_hand_is_not_read(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    config = project.path / "orchestra.config.yaml"
    config.write_text("# 설명\n" * 3_000_000)
    for command in (["config", "validate"], ["runs"], ["policy", "test"]):
        done = project.run(*command, timeout=20)
        assert done.returncode == 2 and f"{config} has 25.75 MiB; no such file has more than 1 MiB" in done.stderr
