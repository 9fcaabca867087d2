"""The environment of a project's commands: which one is found, that checks really use it, and what is not opened."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestra.commands.environment import NO_CHOICE, Choice, Environment, find_environment, poetry_name, recorded_form
from orchestra.commands.sandbox import Workshop
from orchestra.commands.tools import NoTool, Tool, Toolbox
from orchestra.core.disk import Disk
from orchestra.core.errors import SandboxError, UsageError
from orchestra.core.redact import Redactor
from orchestra.policy.policy import Layer, Policy
from tests.support.project import PLAN, RIGHT_PATCH, Project, new_file, reply, role

OWN = os.path.realpath(sys.prefix)
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


def fake(folder: Path, home: str = "/usr/bin") -> Path:
    """A folder that looks like a virtual environment; its Python is the system's."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {home}\nversion = 3.11.7\n")
    (folder / "bin" / "python").symlink_to("/usr/bin/python3")
    return folder


def real(folder: Path, *programs: str) -> Path:
    """A real virtual environment without packages, with programs that print which Python runs them."""
    venv.create(folder, symlinks=True, with_pip=False)
    for name in programs:
        place = folder / "bin" / name
        place.write_text(f"#!{folder}/bin/python\nimport sys\nprint('prefix', sys.prefix)\n")
        place.chmod(0o755)
    return folder


def found(
    work: Path, environ: Mapping[str, str] | None = None, choice: Choice = NO_CHOICE, own: str = ""
) -> Environment:
    return find_environment(str(work), environ or {}, choice, own=own)


def box(work: Path, environment: Environment | None = None, *, path: str = SYSTEM_PATH, own: str = "") -> Toolbox:
    return Toolbox(path, work, environ={"HOME": "/nowhere"}, environment=environment or found(work), own=own)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "work"
    place.mkdir()
    return place


# -- which one --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".venv", "venv"])
def test_a_lone_environment_of_the_project_is_found(work: Path, name: str) -> None:
    place = fake(work / name)
    used = found(work)
    assert (used.folder, used.source, used.inside, used.version) == (str(place), "project", True, "3.11.7")
    assert recorded_form(used, str(work)) == name


def test_two_environments_are_none_unless_one_is_active_or_they_are_the_same(work: Path) -> None:
    fake(work / ".venv")
    second = fake(work / "venv")
    used = found(work)
    assert not used and "both .venv and venv" in used.note and "--environment .venv" in used.note
    assert found(work, {"VIRTUAL_ENV": str(second)}).folder == str(second)
    shutil.rmtree(work / ".venv")
    (work / ".venv").symlink_to("venv")
    assert found(work).real == str(second)


def test_the_active_environment_counts_inside_the_project_first(work: Path, tmp_path: Path) -> None:
    fake(work / ".venv")
    other = fake(work / "envs" / "test")
    assert found(work, {"VIRTUAL_ENV": str(other)}).folder == str(other)
    outside = fake(tmp_path.resolve() / "outside")
    used = found(work, {"VIRTUAL_ENV": str(outside)})
    assert used.folder == str(work / ".venv") and f"not {outside}" in used.note
    shutil.rmtree(work / ".venv")
    assert found(work, {"VIRTUAL_ENV": str(outside)}).folder == str(outside)
    assert not found(work, {"VIRTUAL_ENV": str(work / "gone")})
    assert not found(work, {"VIRTUAL_ENV": "envs/test"})


def test_uvs_own_place_is_found_if_it_lies_in_the_project(work: Path, tmp_path: Path) -> None:
    fake(work / "build" / "env")
    assert found(work, {"UV_PROJECT_ENVIRONMENT": "build/env"}).source == "UV_PROJECT_ENVIRONMENT"
    outside = fake(tmp_path.resolve() / "outside")
    used = found(work, {"UV_PROJECT_ENVIRONMENT": str(outside)})
    assert not used and f"--environment {outside}" in used.note


def test_poetrys_environment_is_found_by_its_name(work: Path, tmp_path: Path) -> None:
    (work / "pyproject.toml").write_text('[tool.poetry]\nname = "My Package"\n')
    digest = base64.urlsafe_b64encode(hashlib.sha256(str(work).encode()).digest()).decode()[:8]
    assert poetry_name("My Package", str(work)) == f"my_package-{digest}"
    folder = tmp_path.resolve() / "cache/pypoetry/virtualenvs"
    environ = {"XDG_CACHE_HOME": str(tmp_path.resolve() / "cache")}
    assert not found(work, environ)
    first = fake(folder / f"my_package-{digest}-py3.11")
    fake(folder / "my_package-AAAAAAAA-py3.11")  # of another folder
    used = found(work, environ)
    assert (used.folder, used.source, used.inside) == (str(first), "poetry", False)
    second = fake(folder / f"my_package-{digest}-py3.12")
    assert not found(work, environ) and "several" in found(work, environ).note
    (folder / "envs.toml").write_text(f'["my_package-{digest}"]\nminor = "3.12"\n')
    assert found(work, environ).folder == str(second)
    assert found(work, {"POETRY_VIRTUALENVS_PATH": str(folder)}).folder == str(second)
    fake(work / ".venv")
    assert found(work, environ).folder == str(work / ".venv")


def test_a_person_chooses_by_a_folder_or_none(work: Path, tmp_path: Path) -> None:
    fake(work / ".venv")
    other = fake(tmp_path.resolve() / "other")
    assert found(work, choice=Choice(str(other), "--environment")).folder == str(other)
    assert not found(work, {"VIRTUAL_ENV": str(work / ".venv")}, Choice("none", "environment:"))
    with pytest.raises(UsageError, match=r"--environment: 'gone' is no virtual environment: there is no such folder"):
        found(work, choice=Choice("gone", "--environment"))
    (work / "src").mkdir()
    with pytest.raises(UsageError, match=r"it has no pyvenv.cfg"):
        found(work, choice=Choice("src", "environment:"))


def test_a_link_that_leads_out_of_the_project_is_not_followed(work: Path, tmp_path: Path) -> None:
    outside = fake(tmp_path.resolve() / "private")
    (work / ".venv").symlink_to(outside)
    used = found(work)
    assert not used and f"--environment {outside}" in used.note
    assert found(work, {"VIRTUAL_ENV": str(outside)}).real == str(outside), "a person activated it"


def test_orchestras_own_environment_serves_only_if_it_is_chosen_or_the_projects(work: Path, tmp_path: Path) -> None:
    own = fake(tmp_path.resolve() / "own")
    assert not found(work, {"VIRTUAL_ENV": str(own)}, own=str(own))
    assert found(work, choice=Choice(str(own), "--environment"), own=str(own)).folder == str(own)
    mine = fake(work / ".venv")
    assert found(work, own=str(mine)).folder == str(mine)


# -- what names mean in it --------------------------------------------------------------------------------------------


def tool(answer: Tool | NoTool) -> Tool:
    assert isinstance(answer, Tool), answer
    return answer


def test_names_are_looked_up_in_the_environment_then_in_node_modules_then_on_path(work: Path, tmp_path: Path) -> None:
    place = fake(work / ".venv")
    for path in (
        place / "bin/one",
        work / "node_modules/.bin/one",
        work / "node_modules/.bin/two",
        tmp_path / "bin/two",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    (tmp_path / "bin/three").write_text("#!/bin/sh\n")
    (tmp_path / "bin/three").chmod(0o755)
    tools = box(work, path=f"{tmp_path}/bin:{SYSTEM_PATH}")
    assert tool(tools.resolve("one")).path == f"{place}/bin/one"
    assert tool(tools.resolve("two")).path == f"{work}/node_modules/.bin/two"
    assert tool(tools.resolve("three")).path == f"{tmp_path.resolve()}/bin/three"
    assert tool(tools.resolve("python")).path == f"{place}/bin/python"
    variables = tools.variables(tool(tools.resolve("sh")))
    assert variables["PATH"].split(":")[:2] == [f"{place}/bin", f"{work}/node_modules/.bin"]
    assert variables["VIRTUAL_ENV"] == str(place)


def test_a_broken_program_of_the_environment_is_not_replaced_by_another(work: Path) -> None:
    place = fake(work / ".venv")
    (place / "bin/python").unlink()
    (place / "bin/python").symlink_to("/gone/bin/python3.9")
    answer = box(work).resolve("python")
    assert isinstance(answer, NoTool) and "there is no program" in answer.reason
    assert isinstance(box(work).base, NoTool)


def test_what_is_missing_in_the_environment_is_told_with_the_cure(work: Path, tmp_path: Path) -> None:
    place = fake(work / ".venv")
    missing = box(work).resolve("no-such-runner")
    assert isinstance(missing, NoTool)
    assert f"{place}/bin/python -m pip install no-such-runner" in missing.reason
    other = real(tmp_path.resolve() / "other", "runner")
    assert "another Python's packages" in tool(box(work, path=f"{other}/bin").resolve("runner")).note


@pytest.mark.parametrize("through", ["PATH", "a link on PATH", "a script on PATH"])
def test_orchestras_own_programs_are_passed_over(work: Path, tmp_path: Path, through: str) -> None:
    own = real(tmp_path.resolve() / "own", "runner")
    folder = tmp_path.resolve() / "bin"
    folder.mkdir()
    if through == "a link on PATH":
        (folder / "runner").symlink_to(own / "bin/runner")
    elif through == "a script on PATH":
        (folder / "runner").write_text(f"#!{own}/bin/python\n")
        (folder / "runner").chmod(0o755)
    path = f"{own}/bin" if through == "PATH" else str(folder)
    answer = box(work, path=path, own=str(own)).resolve("runner")
    assert isinstance(answer, NoTool) and "orchestra's own environment" in answer.reason
    written = box(work, path=path, own=str(own)).resolve_path(f"{own}/bin/runner")
    assert tool(written).path == f"{own}/bin/runner"
    chosen = found(work, choice=Choice(str(own), "--environment"), own=str(own))
    assert tool(box(work, chosen, own=str(own)).resolve("runner")).path == f"{own}/bin/runner"


def test_the_program_of_a_provider_is_never_the_projects(work: Path, tmp_path: Path) -> None:
    from orchestra.app import App

    for path in (fake(work / ".venv") / "bin/claude", work / "node_modules/.bin/claude"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    shop = App(work, environ={"PATH": SYSTEM_PATH, "HOME": str(tmp_path)}).project.workshop
    assert tool(shop.toolbox.resolve("claude")).path == f"{work}/.venv/bin/claude"
    assert isinstance(shop.programs.resolve("claude"), NoTool)
    assert "VIRTUAL_ENV" not in shop.program_environment(tool(shop.programs.resolve("sh")))


# -- what is opened ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", ["/root", "{home}", "{home}/bin", "/", "/etc", "{secret}/bin"])
def test_a_hostile_pyvenv_cfg_opens_nothing_and_is_told(work: Path, tmp_path: Path, home: str) -> None:
    secret = tmp_path.resolve() / "secret"
    (secret / "bin").mkdir(parents=True)
    (secret / "bin/python").write_text("key")
    place = fake(work / ".venv", home=home.format(home=tmp_path.resolve(), secret=secret))
    (place / "bin/python").unlink()
    shutil.copy("/usr/bin/true", place / "bin/python")
    tools = Toolbox(SYSTEM_PATH, work, environ={"HOME": str(tmp_path)}, environment=found(work), own="")
    if home != "/etc":  # a sandbox has an /etc of its own
        assert isinstance(tools.base, NoTool) and "leads out of the workspace" in tools.base.reason
    assert tools.shared == ()
    assert isinstance(tools.resolve("sh"), Tool), "other programs still run"


def test_an_environment_that_becomes_a_link_is_refused(work: Path, tmp_path: Path) -> None:
    place = real(work / ".venv", "runner")
    private = real(tmp_path.resolve() / "private", "runner")
    tools = box(work)
    shop = Workshop(
        work, tools, disk=Disk(), redactor=Redactor.blind(), runs=work / "runs", scratch=tmp_path / "scratch"
    )
    policy, sh = Policy(layers=(Layer(),), reads=(str(work),)), tool(tools.resolve("sh"))
    shop.sandbox(policy, sh, upper=None, layers=())
    shutil.rmtree(place)
    place.symlink_to(private)
    answer = tools.resolve("runner")
    assert isinstance(answer, NoTool) and "since it was found" in answer.reason
    with pytest.raises(SandboxError, match="since the run began"):
        shop.sandbox(policy, sh, upper=None, layers=())


# -- in runs ----------------------------------------------------------------------------------------------------------

OWN_FIRST = {"PATH": f"{OWN}/bin:{SYSTEM_PATH}"}
SHOW = "import sys; print('prefix', sys.prefix)"


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize(
    "command",
    [
        ("python", "-c", SHOW),
        ("runner",),
        ("sh", "-c", ". .venv/bin/activate && runner"),
        ("sh", "-c", "python show.py"),
        ("make", "-s", "test"),
        ("make", "-s", "bare"),
    ],
)
def test_commands_use_the_environment_of_the_project(tmp_path: Path, command: tuple[str, ...], active: bool) -> None:
    project = Project(tmp_path.resolve() / "p")
    place = real(project.path / ".venv", "runner")
    (project.path / "Makefile").write_text("test:\n\t.venv/bin/runner\nbare:\n\trunner\n")
    (project.path / "show.py").write_text(SHOW)
    env = {"VIRTUAL_ENV": str(place), "PATH": f"{place}/bin:{OWN_FIRST['PATH']}"} if active else OWN_FIRST
    done = project.run("tool", "run", "--quiet", "--", *command, env=env)
    assert done.stdout == f"prefix {place}\n", done
    assert "environment: .venv" in done.stderr


def test_npm_scripts_find_the_environment_and_the_projects_packages(tmp_path: Path) -> None:
    if shutil.which("npm", path=SYSTEM_PATH) is None:
        pytest.skip("npm is not installed")
    project = Project(tmp_path.resolve() / "p")
    place = real(project.path / ".venv", "runner")
    packaged = project.path / "node_modules/.bin/mocha"
    packaged.parent.mkdir(parents=True)
    packaged.write_text("#!/usr/bin/env node\nconsole.log('mocha')\n")
    packaged.chmod(0o755)
    (project.path / "package.json").write_text('{"scripts": {"test": "mocha && runner"}}')
    done = project.run("tool", "run", "--quiet", "--", "npm", "test", "--silent", env=OWN_FIRST)
    assert done.stdout == f"mocha\nprefix {place}\n", done
    assert project.run("tool", "run", "--quiet", "--", "mocha", env=OWN_FIRST).stdout == "mocha\n"


def test_orchestras_own_environment_runs_no_check_unasked(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    env = {**OWN_FIRST, "VIRTUAL_ENV": OWN}
    project.check = "ruff --version"
    refused = project.loop("--approval", "never", env=env)
    assert refused.returncode == 2 and "orchestra's own environment" in refused.stderr and project.runs == []
    shown = project.run("tool", "run", "--quiet", "--", "python", "-c", SHOW, env=env)
    assert OWN not in shown.stdout
    chosen = project.run("tool", "run", "--quiet", "--environment", OWN, "--", "python", "-c", SHOW, env=env)
    assert chosen.stdout == f"prefix {OWN}\n", chosen


def outcomes(project: Project) -> list[dict[str, Any]]:
    return [event.payload["outcome"] for event in project.events() if "exitCode" in event.payload.get("outcome", {})]


def test_a_run_goes_on_with_the_environment_it_began_with(tmp_path: Path) -> None:
    project = Project(tmp_path.resolve() / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    real(project.path / ".venv", "runner")
    other = real(project.path / "envs/other", "runner")
    project.check = "runner"
    assert project.loop("--environment", "envs/other").returncode == 3
    created = project.events()[0].payload
    assert (created["environment"], "environment" in created["typed"]) == ("envs/other", True)
    assert project.run("approve", "last", "--no-input").returncode == 0
    assert outcomes(project)[-1]["output"] == f"prefix {other}"


def test_an_environment_that_was_found_is_kept_too_unless_the_configuration_names_another(tmp_path: Path) -> None:
    project = Project(tmp_path.resolve() / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    real(project.path / ".venv", "runner")
    active = real(project.path / "envs/active", "runner")
    project.check = "runner"
    assert project.loop(env={"VIRTUAL_ENV": str(active)}).returncode == 3
    assert project.events()[0].payload["environment"] == "envs/active"
    project.configure("environment: .venv\n")
    assert project.run("approve", "last", "--no-input").returncode == 0
    assert outcomes(project)[-1]["output"] == f"prefix {project.path}/.venv"


def test_an_environment_outside_the_project_needs_consent_in_a_file_and_none_on_the_command_line(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path.resolve() / "p")
    other = real(tmp_path.resolve() / "other", "runner")
    (project.path / "orchestra.config.yaml").write_text(f"environment: {other}\n")
    refused = project.run("tool", "run", "--", "runner")
    assert refused.returncode == 5 and "environment" in refused.stderr
    project.configure(f"environment: {other}\n")
    assert project.run("tool", "run", "--quiet", "--", "runner").stdout == f"prefix {other}\n"
    (project.path / "orchestra.config.yaml").unlink()
    done = project.run("tool", "run", "--quiet", "--environment", str(other), "--", "sh", "-c", "runner")
    assert done.stdout == f"prefix {other}\n", done


@pytest.mark.parametrize(
    "path", [".venv/lib/x.py", "node_modules/a/index.js", "envs/used/bin/x", "alias/x.py", "venv/pyvenv.cfg"]
)
def test_no_patch_goes_into_an_environment(tmp_path: Path, path: str) -> None:
    bad = reply(new_file(path, "x = 1"))
    project = Project(
        tmp_path.resolve() / "p", role("planner", PLAN), role("developer", bad), role("fixer", RIGHT_PATCH)
    )
    real(project.path / "envs/used")
    (project.path / "alias").symlink_to("envs/used")
    done = project.loop("--approval", "never", "--environment", "envs/used")
    assert done.returncode == 0, done
    [refusal] = [
        event.payload["outcome"]["refusal"]
        for event in project.events()
        if event.type == "PATCH_PRODUCED" and event.payload["outcome"].get("refusal")
    ]
    assert refusal["reason"] == "path_violation"
    assert "environment that commands use" in refusal["message"] or path.startswith("alias")
    assert not (project.path / path).exists()


def test_allow_read_never_takes_the_project_away(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (tmp_path / "data").mkdir()
    project.configure(f"security: {{fs: {{allow_read: ['{tmp_path}/data']}}}}\n")
    done = project.run("tool", "run", "--quiet", "--", "ls", "calc.py", str(tmp_path / "data"))
    assert done.returncode == 0 and "calc.py" in done.stdout, done


def test_doctor_names_the_environment_and_what_checks_resolve_to(tmp_path: Path) -> None:
    project = Project(tmp_path.resolve() / "p")
    real(project.path / ".venv", "runner")
    project.configure("loop: {checks: ['runner -q', 'no-such-runner']}\nsandbox: {loopback: [1]}\n")
    said = project.run("doctor", env=OWN_FIRST).stdout
    assert "ok   environment: .venv, Python" in said and "the project's only one" in said
    assert f"ok   check: runner -q ({project.path}/.venv/bin/runner)" in said
    assert "FAIL check: no-such-runner" in said and "pip install no-such-runner" in said
    assert "sandbox.loopback: commands reach port 1 of this machine" in said
