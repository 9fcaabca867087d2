"""S2, the configuration file: names, defaults, what is refused. The sandbox's own lines are proven with the worker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.config.sections import Config
from orchestra.config.settings import find_config, policy_of, read_config
from orchestra.config.upward import FILE_NAME
from orchestra.core.errors import UsageError
from orchestra.policy.decide import decide
from orchestra.policy.policy import TaskWishes, for_task
from tests.support.project import Project
from tests.support.tasks import Tasks, step

SAMPLE = Path(__file__).with_name("s2_sample.config.yaml")  # the specification's, byte by byte


def load(folder: Path, text: str) -> Config:
    path = folder / FILE_NAME
    path.write_text(text, encoding="utf-8")
    return read_config(path).config


def refused(folder: Path, text: str) -> list[str]:
    """The mistakes of a file, without its name."""
    with pytest.raises(UsageError) as error:
        load(folder, text)
    return [line.removeprefix(f"{folder / FILE_NAME}:") for line in str(error.value).splitlines()]


@pytest.mark.spec("S2-43")
def test_the_file_has_its_name(tmp_path: Path) -> None:
    assert FILE_NAME == "orchestra.config.yaml"
    assert find_config(tmp_path) is None
    (tmp_path / "orchestra.config.yml").touch()
    assert find_config(tmp_path) is None
    (tmp_path / FILE_NAME).touch()
    assert find_config(tmp_path) == tmp_path / FILE_NAME


@pytest.mark.spec("S2-44", "S2-45", "S2-46", "S2-47", "S2-48", "S2-51", "S2-53", "S2-54", "S2-65", "S2-66", "S2-68")
@pytest.mark.spec("S2-69", "S2-70", "S2-71", "S2-72", "S2-74", "S2-75", "S2-78", "S2-80", "S2-82", "S2-84", "S2-86")
def test_defaults() -> None:
    found = msgspec.to_builtins(Config())
    assert found.pop("evidence")["agents"] == {}  # S5
    assert found.pop("team")["agents"] == "./agents"  # S4
    assert found.pop("contracts")["max_designs"] == 2  # S3
    assert found.pop("notify") == ()
    assert found == {
        "version": "1.0",
        "policies": {
            "allow_network": False,
            "default_fs_mode": "read-only",
            "max_task_duration_sec": 300,
            "max_total_duration_sec": 1800,
        },
        "whitelist_tools": ("echo", "ls", "cat", "node", "python", "poetry", "pnpm", "git"),
        "llm": {
            "backend": "claude_code",
            "model": "claude-sonnet-4-5-20250929",
            "prompts": msgspec.to_builtins(Config().llm.prompts),
        },
        "retries": {"max": 2, "backoff_base_sec": 2},
        "concurrency": {"max_workers": 4},
        "paths": {
            "runs": "./runs",
            "logs": "./runs/{run_id}/tasks.jsonl",
            "artifacts": "./runs/{run_id}/artifacts",
            "report": "./runs/{run_id}/report.md",
        },
        "security": {
            "fs": {"allow_read": ("./", "/tmp"), "allow_write": ("./runs",)},
            "net": {"allow_domains": ()},
            "redact_secrets": True,
        },
        "telemetry": {"level": "info", "format": "jsonl", "trace_id_header": "X-Orchestra-Trace-ID"},
        # our own sections
        "providers": {},
        "roles": {},
        "loop": msgspec.to_builtins(Config().loop),
        "dag": {"approval": "risk", "replan": False},
        "workflows": {},
        "sandbox": {
            "tier": "strict",
            "run_as": None,
            "memory_mb": 2048,
            "processes": 256,
            "file_mb": 1024,
            "disk_mb": 2048,
            "tmp_mb": 512,
            "loopback": (),
            "env": (),
        },
        "environment": "",
        "tools": {},
        "rules": (),
        "context": {"bytes": 200_000, "show": (), "hide": (), "rules": True},
        "budget": {"max_usd": None, "max_sec": None, "prices": {}},
    }


@pytest.mark.spec("S2-55", "S2-62", "S2-89")
def test_the_specifications_sample_loads_unchanged_and_is_the_default(tmp_path: Path) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    assert load(tmp_path, text) == Config()
    project = Project(tmp_path / "p")
    (project.path / FILE_NAME).write_bytes(SAMPLE.read_bytes())
    done = project.run("config", "validate")
    assert done.returncode == 0, done.stderr


@pytest.mark.spec("S2-89")
def test_what_init_writes_is_the_default_too(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    assert project.run("init").returncode == 0
    assert read_config(project.path / FILE_NAME).config == Config()


@pytest.mark.spec("S2-44", "S2-53", "S2-83", "S2-84", "S2-88")
@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('policies: {allow_network: "no"}', "1: `policies.allow_network`: expected `bool`, got `str`"),
        ("policies: {allow_network: 0}", "1: `policies.allow_network`: expected `bool`, got `int`"),
        ("policies: {default_fs_mode: readonly}", "it can be read-only, rw"),
        ("policies: {max_task_duration_sec: '300'}", "expected `int`, got `str`"),
        ("policies: {max_total_duration_sec: -1}", "expected `int` >= 1"),
        ("policies: null", "expected `object`, got `null`"),
        ("whitelist_tools: git", "1: `whitelist_tools`: expected `array`, got `str`"),
        ("whitelist_tools: [git, true]", "1: `whitelist_tools.1`: expected `str`, got `bool`"),
        ("version: 1.0", '1: `version`: expected `str`, got `float`; it can be "1.0"'),
        ("version: '2.0'", "`version`: invalid enum value '2.0'"),
        ("llm: {backend: openai}", "it can be claude_code"),
        ("providers: {3: x}", "1: `providers`: a key below it: expected `str`, got `int`"),
        ("retries: {max: 1.5}", "expected `int`, got `float`"),
        ("concurrency: {max_workers: 0}", "expected `int` >= 1"),
        ("telemetry: {level: warning}", "it can be debug, info, warn, error"),
        ("telemetry: {level: INFO}", "it can be debug, info, warn, error"),
        ("telemetry: {format: text}", "it can be jsonl"),
        ("security: {redact_secrets: 'yes'}", "expected `bool`, got `str`"),
        ("security: {net: {allow_domains: example.com}}", "expected `array`, got `str`"),
        ("sandbox: {tier: docker}", "it can be strict, landlock, none"),
        ("sandbox: {run_as: 0}", "expected `int` >= 1"),
        ("dag: {approval: sometimes}", "it can be always, risk, never"),
        ("rules: [{prefix: [git], decision: deny}]", "it can be allow, ask, forbid"),
        ("rules: [{prefix: git, decision: ask}]", "`rules.0.prefix`: expected `array`, got `str`"),
        ("rules: [{decision: ask}]", "`rules.0`: `prefix` is missing"),
        ("tools: [python]", "`tools`: expected `object`, got `array`"),
    ],
)
def test_a_wrong_type_or_value_is_refused(tmp_path: Path, text: str, mistake: str) -> None:
    [said] = refused(tmp_path, text)
    assert mistake in said


@pytest.mark.spec("S2-83")
@pytest.mark.parametrize("level", ["debug", "info", "warn", "error"])
def test_the_four_levels(tmp_path: Path, level: str) -> None:
    assert load(tmp_path, f"telemetry: {{level: {level}}}").telemetry.level == level


@pytest.mark.spec("S2-73")
def test_a_run_keeps_its_files_where_the_three_paths_say(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a"))
    assert project.dag().returncode == 0
    paths = Config().paths
    for text in (paths.logs, paths.artifacts, paths.report):
        assert (project.path / text.replace("{run_id}", project.folder.id)).exists()


@pytest.mark.spec("S2-69", "S2-73")
def test_runs_may_be_kept_elsewhere_whole(tmp_path: Path) -> None:
    project, away = tmp_path / "p", tmp_path / "away"
    project.mkdir()
    places = f"runs: {away}, logs: '{away}/{{run_id}}/tasks.jsonl', report: '../away/{{run_id}}/report.md'"
    config = load(project, f"paths: {{{places}}}")
    assert policy_of(config, project, read_config(None).origins).writes == ()  # ./runs is no hole in the workspace


@pytest.mark.spec("S2-73")
@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("logs: ./runs/tasks.jsonl", "{run_id} is missing"),
        ("artifacts: './runs/{id}/a'", "there is no placeholder {id}"),
        ("report: './runs/{run_id/r.md'", "there is no placeholder"),
        ("report: '/var/{run_id}.md'", "name a place in this folder"),
        ("report: './runs/../../{run_id}.md'", "name a place in this folder"),
        ("runs: './{run_id}'", "the folder of all runs"),
        ("runs: ./", "a folder of their own"),
        ("runs: ../", "a folder of their own"),
        ("runs: .git/runs", "a folder of their own"),
        ("runs: ''", "it is empty"),
        ("runs: /", "a folder of their own"),
        ("runs: /dev/shm/x", "sockets, devices"),
    ],
)
def test_paths_that_would_lose_runs_are_refused(tmp_path: Path, text: str, mistake: str) -> None:
    assert any(mistake in said for said in refused(tmp_path, f"paths: {{{text}}}"))


# -- what a configuration may open ------------------------------------------------------------------------------------


def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a home, with a folder on PATH beside it."""
    home = tmp_path / "home"
    project = home / "project"
    for folder in (project / "runs", home / "bin", tmp_path / "data", tmp_path / "links"):
        folder.mkdir(parents=True)
    targets = {"root": Path("/"), "home": home, "runs": project / "runs", "out": tmp_path / "data"}
    for name, target in targets.items():
        (project / f"to-{name}").symlink_to(target)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")
    return project


@pytest.mark.spec("S2-75")
@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        ("/", "everything there is"),
        ("//", "everything there is"),
        ("/tmp/..", "everything there is"),
        ("to-root", "everything there is"),
        ("~", "your home folder"),
        ("..", "your home folder"),
        ("to-home", "your home folder"),
        ("../..", "your home folder"),
        (".", "runs are kept there"),
        ("./runs/x", "runs are kept there"),
        ("src", "the workspace is not written directly"),
        ("./runs-evil", "the workspace is not written directly"),
        (".git", "the workspace is not written directly"),
        (".runs", "the workspace is not written directly"),
        ("~/bin", "is on PATH"),
        ("~/bin/sub", "is on PATH"),
        ("/usr", "folder of the system"),
        ("/etc/cron.d", "folder of the system"),
        ("/var", "folder of the system"),
        ("../../data/none", "there is no folder"),
        ("/proc", "sockets, devices"),
        ("/dev/shm", "sockets, devices"),
        ("/run", "sockets, devices"),
        ("", "it is empty"),
        (" ", "it is empty"),
        ("a\\0b", "no path has"),
    ],
)
def test_folders_that_no_configuration_opens_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, mistake: str
) -> None:
    project = host(tmp_path, monkeypatch)
    [said] = refused(project, f'security:\n  fs:\n    allow_write:\n    - ./runs\n    - "{entry}"\n')
    assert said.startswith("5: `security.fs.allow_write.1`: ")
    assert mistake in said


@pytest.mark.spec("S2-74")
@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        ("/", "everything there is"),
        ("to-root", "everything there is"),
        ("~", "your home folder"),
        ("~/", "your home folder"),
        ("..", "your home folder"),
        ("../../", "your home folder"),
        ("to-home", "your home folder"),
        ("/proc/self", "sockets, devices"),
        ("/var/run", "sockets, devices"),
        ("/etc", "an /etc of its own"),
        ("/etc/ssl", "an /etc of its own"),
        ("", "it is empty"),
    ],
)
def test_folders_that_no_configuration_opens_for_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, mistake: str
) -> None:
    project = host(tmp_path, monkeypatch)
    [said] = refused(project, f"security:\n  fs:\n    allow_read: ['./', '{entry}']\n")
    assert said.startswith("3: `security.fs.allow_read.1`: ")
    assert mistake in said


@pytest.mark.spec("S2-74", "S2-75")
def test_what_is_opened_is_told_by_real_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = host(tmp_path, monkeypatch)
    text = "security: {fs: {allow_read: [./, /tmp, /usr/share, ../../data, ~/x], allow_write: [to-runs, to-out, /tmp]}}"
    config = load(project, text)
    policy = policy_of(config, project, read_config(None).origins)
    data, real = str((tmp_path / "data").resolve()), str(project.resolve())
    assert policy.reads == (real, "/usr/share", data, f"{os.path.dirname(real)}/x")
    assert policy.writes == (data,)  # of runs, each task gets its own folder; /tmp is private
    for text in ("security: {fs: {allow_read: []}}", "security: {fs: {allow_read: [/tmp]}}"):
        assert policy_of(load(project, text), project, read_config(None).origins).reads == (real,)


@pytest.mark.spec("S2-74", "S2-75")
def test_nothing_is_opened_inside_a_folder_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = host(tmp_path, monkeypatch)
    for folder in ("data/in", "data/tool"):
        (tmp_path / folder).mkdir()
    (tmp_path / "data" / "tool" / "x").touch(0o755)
    fs = "security: {{fs: {{allow_read: [./, {}], allow_write: [{}]}}}}\n"
    [said] = refused(project, fs.format("../../data/in", "to-out"))
    assert "`security.fs.allow_read.1`: '../../data/in': it lies in 'to-out'" in said
    [said] = refused(project, fs.format("./", "../../data, ../../data/in"))
    assert "`security.fs.allow_write.1`: '../../data/in': it lies in '../../data'" in said
    [said] = refused(project, fs.format("./", "../../data") + "tools: {x: ../../data/tool/x}\n")
    assert "`tools.x`: it lies in '../../data'" in said
    load(project, fs.format("../../data", "../../data/in"))  # this way round nothing can be moved
    load(project, fs.format("../../data", "to-out"))


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('telemetry: {trace_id_header: "X-A\\r\\nX-B: 1"}', "no name of an HTTP header"),
        ("telemetry: {trace_id_header: X Trace}", "no name of an HTTP header"),
        ('telemetry: {trace_id_header: ""}', "no name of an HTTP header"),
        ("sandbox: {env: [DEBUG=1]}", "no name of a variable"),
        ('sandbox: {env: [""]}', "no name of a variable"),
        ("sandbox: {env: [LD_PRELOAD]}", "no task may have"),
    ],
)
def test_names_that_cannot_work_are_refused(tmp_path: Path, text: str, mistake: str) -> None:
    [said] = refused(tmp_path, text)
    assert mistake in said


@pytest.mark.spec("S2-74")
def test_a_folder_above_the_workspace_is_not_readable_by_name(tmp_path: Path) -> None:
    project = tmp_path / "above" / "project"
    project.mkdir(parents=True)
    [said] = refused(project, "security: {fs: {allow_read: [./, ..]}}")
    assert "the workspace lies in it" in said


def test_a_project_in_the_home_folder_itself_still_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load(tmp_path, SAMPLE.read_text(encoding="utf-8")) == Config()


@pytest.mark.spec("S2-45", "S2-78")
@pytest.mark.parametrize(
    ("text", "net"),
    [
        ("{}", "deny"),
        ("policies: {allow_network: true}", "deny"),
        ("security: {net: {allow_domains: [example.com]}}", "deny"),
        ("policies: {allow_network: true}\nsecurity: {net: {allow_domains: [example.com]}}", "allow"),
    ],
)
def test_the_network_needs_both_keys(tmp_path: Path, text: str, net: str) -> None:
    policy = policy_of(load(tmp_path, text), tmp_path, read_config(None).origins)
    assert policy.net == net
    assert for_task(policy, TaskWishes(net="allow")).net == net


@pytest.mark.spec("S2-78")
@pytest.mark.parametrize("entry", ["*", "*.com", "localhost", "127.0.0.1", "http://example.com", "예시.한국", ""])
def test_domains_are_checked_when_the_file_is_read(tmp_path: Path, entry: str) -> None:
    [said] = refused(tmp_path, f"security:\n  net:\n    allow_domains:\n    - '{entry}'\n")
    assert said.startswith("4: `security.net.allow_domains.0`: ")


@pytest.mark.spec("S2-11", "S2-51", "S2-52")
def test_the_default_whitelist_is_all_that_runs(tmp_path: Path) -> None:
    policy = policy_of(Config(), tmp_path, read_config(None).origins)
    for name in ("echo", "ls", "cat", "node", "python", "poetry", "pnpm", "git"):
        assert decide((name, "x"), policy, asker="model").decision == "allow"
    for name in ("rm", "curl", "bash", "python3", "npm", "pip", "GIT"):
        ruling = decide((name, "x"), policy, asker="model")
        assert (ruling.decision, ruling.code) == ("forbid", "TOOL_WHITELIST_VIOLATION")


@pytest.mark.spec("S2-46", "S2-47", "S2-48", "S2-65", "S2-68", "S2-113")
def test_the_policy_of_a_configuration(tmp_path: Path) -> None:
    policy = policy_of(Config(), tmp_path, read_config(None).origins)
    limits = [policy.max_task_sec, policy.max_total_sec, policy.max_retries, policy.max_workers]
    assert limits == [300, 1800, 2, 4]
    assert [policy.fs, policy.tier] == ["read-only", "strict"]
    assert for_task(policy, TaskWishes(max_duration_sec=3600, max_retries=5, fs="rw")) == policy


# -- our own sections -------------------------------------------------------------------------------------------------


def test_rules_know_their_lines(tmp_path: Path) -> None:
    text = """\
whitelist_tools: [git]
rules:
  - prefix: [git, [push, fetch]]
    decision: forbid
    match:
      - git push
      - git fetch
  - {prefix: [make], decision: ask, reason: 물어본다}
"""
    path = tmp_path / FILE_NAME
    path.write_text(text, encoding="utf-8")
    loaded = read_config(path)
    policy = policy_of(loaded.config, tmp_path, loaded.origins)
    assert [rule.where for rule in policy.rules] == [f"{FILE_NAME}:3", f"{FILE_NAME}:8"]
    assert [example.where for example in policy.rules[0].match] == [f"{FILE_NAME}:6", f"{FILE_NAME}:7"]
    assert policy.layers[0].where == f"{FILE_NAME}:1"
    assert decide(("make", "x"), policy, asker="model").reason == "물어본다"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("rules: [{prefix: [], decision: ask}]", "`prefix` is empty"),
        ("rules: [{prefix: [[]], decision: ask}]", "`prefix` is empty"),
        ("rules: [{prefix: [/bin/sh], decision: forbid}]", "is a path"),
        ("rules: [{prefix: [git, ''], decision: forbid}]", "an empty word"),
        ('rules: [{prefix: [git], decision: ask, match: ["git \'x"]}]', "cannot be split"),
        ("rules: [{prefix: [git], decision: ask, not_match: ['']}]", "an example is empty"),
        ("whitelist_tools: [git, ./x]", "is a path"),
        ("whitelist_tools: [gіt]", "not plain ASCII"),
        ("tools: {python: .venv/bin/python}", "there is no "),
        ("tools: {python: .}", "is not a program"),
        ("tools: {./python: /bin/ls}", "is a path"),
        ("tools: {python: ''}", "it is empty"),
        ("sandbox: {memory: 5}", "unknown key `sandbox.memory`; did you mean `memory_mb`?"),
    ],
)
def test_mistakes_of_our_sections(tmp_path: Path, text: str, mistake: str) -> None:
    [said] = refused(tmp_path, text)
    assert mistake in said


def test_a_program_of_the_project_can_be_mapped(tmp_path: Path) -> None:
    program = tmp_path / "tools" / "fmt"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    [said] = refused(tmp_path, "tools: {fmt: tools/fmt}")
    assert "not a program" in said
    program.chmod(0o755)
    assert load(tmp_path, "tools: {fmt: tools/fmt}").tools == {"fmt": "tools/fmt"}


MANY = """\
version: 1.0
polices: {}
policies:
  allow_network: "no"
whitelist_tools: [echo, 5, ./x]
rules:
  - {prefix: [git], decision: no}
  - {prefix: [git], decision: ask, reson: x}
  - {prefix: [], decision: ask}
budget: {prices: {m: {input: x}}}
telemetry: {level: trace}
retries: {max: 1}
retries: {max: 2}
"""


def test_all_mistakes_are_named_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    said: list[Any] = [line.split(":")[:2] for line in refused(tmp_path, MANY)]
    assert said == [
        ["1", " `version`"],
        ["2", " unknown key `polices`; did you mean `policies`?"],
        ["4", " `policies.allow_network`"],
        ["5", " `whitelist_tools.1`"],
        ["5", " `whitelist_tools.2`"],
        ["7", " `rules.0.decision`"],
        ["8", " unknown key `rules.1.reson`; did you mean `reason`?"],
        ["9", " `rules.2`"],
        ["10", " `budget.prices.m.input`"],
        ["11", " `telemetry.level`"],
        ["13", " `retries` stands twice (first in line 12)"],
    ]
