"""Failing checks that lack their environment, told from those whose code is wrong. The outputs are of real programs."""

from __future__ import annotations

import contextlib
import socket
import venv
from pathlib import Path
from typing import Any

import pytest

from orchestra.commands.environment import Choice, find_environment
from orchestra.commands.failures import (
    EnvironmentFailure,
    denials_of,
    environment_failure,
    missing_tool,
    refused_service,
)
from orchestra.commands.surroundings import ProjectFiles
from orchestra.core.command import CommandOutcome, RunCommand
from orchestra.worker.task import Captured, CommandResult, Denial
from tests.support.project import PLAN, RIGHT_PATCH, Project, role


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for folder in ("src/pkg", "tests", "packages/own", ".venv/bin", "node_modules"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".venv/pyvenv.cfg").touch()
    (tmp_path / ".venv/bin/python").symlink_to("/usr/bin/python3")
    (tmp_path / "src/pkg/__init__.py").touch()
    (tmp_path / "run.sh").touch()
    (tmp_path / "requirements-dev.txt").write_text("declared-lib>=2  # for tests\n-r other.txt\n")
    (tmp_path / "package.json").write_text('{"name": "root", "devDependencies": {"left-pad": "1"}}')
    (tmp_path / "packages/own/package.json").write_text('{"name": "@team/own"}')
    return tmp_path


def judged(work: Path, code: int, text: str, argv: tuple[str, ...] = ("x",)) -> EnvironmentFailure | None:
    outcome = CommandOutcome("x", code, "fail", 1, False, text)
    return environment_failure(argv, outcome, ProjectFiles(str(work), find_environment(str(work), {}, own="")))


MAKE = "make: *** [Makefile:2: test] Error 127"
COLLECTED = """\
==================================== ERRORS ====================================
_______________________ ERROR collecting tests/test_a.py _______________________
ImportError while importing test module '/w/tests/test_a.py'.
Traceback:
tests/test_a.py:1: in <module>
    import {name}
E   ModuleNotFoundError: No module named '{name}'
=========================== short test summary info ============================
ERROR tests/test_a.py
!!!!!!!!!!!!!!!!!!!! Interrupted: 1 error during collection !!!!!!!!!!!!!!!!!!!!
1 error in 0.30s"""
IN_A_TEST = """\
E       ModuleNotFoundError: No module named 'numpy'
tests/test_a.py:2: ModuleNotFoundError
=========================== short test summary info ============================
FAILED tests/test_a.py::test_x - ModuleNotFoundError: No module named 'numpy'
{more}"""
UNITTEST = """\
ImportError: Failed to import test module: test_a
Traceback (most recent call last):
  File "/w/tests/test_a.py", line 1, in <module>
    import {name}
ModuleNotFoundError: No module named '{name}'

Ran 1 test in 0.000s

FAILED (errors=1)"""
NODE = """\
node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '{name}'
Require stack:
- {by}
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15) {{
  code: 'MODULE_NOT_FOUND',
}}

Node.js v20.20.2"""
USAGE = """\
ERROR: usage: pytest [options] [file_or_dir] [file_or_dir] [...]
pytest: error: unrecognized arguments: {option}
  inifile: None
  rootdir: /w"""


@pytest.mark.parametrize(
    ("code", "text", "what", "cure"),
    [
        (127, "sh: 1: nosuch: not found", "no program nosuch", "install nosuch"),
        (127, "bash: line 1: pytest: command not found", "no program pytest", ".venv/bin/python -m pip install pytest"),
        (127, "zsh:1: command not found: nosuch", "no program nosuch", "install nosuch"),
        (127, "sh: 1: .venv/bin/pytest: not found", "no program .venv/bin/pytest", "pip install pytest"),
        (127, "sh: 1: env/bin/pytest: not found", "no program env/bin/pytest", "pip install pytest"),
        (127, "/usr/bin/env: 'node': No such file or directory", "no program node", "install node"),
        (127, "./run.sh: 2: shellcheck: not found", "no program shellcheck", "install shellcheck"),
        (127, "> test\n> mocha\n\nsh: 1: mocha: not found", "no program mocha", "npm install"),
        (2, f"pytestx -q\nmake: pytestx: No such file or directory\n{MAKE}", "no program pytestx", "install pytestx"),
        (
            2,
            f".venv/bin/pytest -q\nmake: .venv/bin/pytest: No such file or directory\n{MAKE}",
            ".venv/bin/pytest",
            "pip",
        ),
        (2, f'sh -c "nosuch x"\nsh: 1: nosuch: not found\n{MAKE}', "no program nosuch", "install nosuch"),
        (126, "bash: line 1: .venv/bin/x: /gone/python: bad interpreter: No such file", "needs /gone/python", "anew"),
        (126, "sh: 1: /opt/py/bin/python: Permission denied", "may not be started", "--environment"),
        (1, "/w/.venv/bin/python: No module named pytest", "no module pytest", "pip install pytest"),
        (2, COLLECTED.format(name="numpy"), "no module numpy", "pip install numpy"),
        (2, COLLECTED.format(name="declared_lib"), "no module declared_lib", "pip install declared_lib"),
        (2, COLLECTED.format(name="yaml"), "no module yaml", "pip install pyyaml"),
        (1, IN_A_TEST.format(more="1 failed, 1 passed in 0.03s"), "no module numpy", "pip install numpy"),
        (
            4,
            "ImportError while loading conftest '/w/c.py'.\nE   ModuleNotFoundError: No module named 'numpy'",
            "numpy",
            "",
        ),
        (1, UNITTEST.format(name="requests"), "no module requests", "pip install requests"),
        (1, "Traceback:\nModuleNotFoundError: No module named 'numpy'", "no module numpy", "pip install numpy"),
        (
            1,
            "  File \"/w/.venv/lib/python3.11/site-packages/a.py\", line 1\nModuleNotFoundError: No module named 'odd'",
            "no module odd",
            "pip install odd",
        ),
        (4, USAGE.format(option="--cov"), "does not know the option --cov", "pip install pytest-cov"),
        (4, USAGE.format(option="-n"), "does not know the option -n", "pip install pytest-xdist"),
        (4, USAGE.format(option="--odd"), "does not know the option --odd", "correct the options"),
        (4, "ERROR: Missing required plugins: pytest-xdist", "lacks plugins: pytest-xdist", "pip install pytest-xdist"),
        (4, "ERROR: Error importing plugin \"xdist\": No module named 'xdist'", "no module xdist", "pytest-xdist"),
        (1, NODE.format(name="express", by="/w/a.js"), "no package express", "npm install --save-dev express"),
        (1, NODE.format(name="left-pad", by="/w/a.js"), "no package left-pad", "npm install"),
        (1, NODE.format(name="odd/x", by="/w/node_modules/a/b.js"), "no package odd", "npm install"),
        (1, "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'express' imported from /w/c.mjs", "express", "npm"),
        (
            1,
            'npm error npx canceled due to missing packages and no YES option: ["mocha@12.0.3"]',
            "mocha",
            "npm install",
        ),
        (
            2,
            "/bin/sh: 1: .: cannot open venv/bin/activate: No such file\nmake: *** [Makefile:9: test] Error 2",
            "venv",
            "m venv",
        ),
        (
            1,
            "bash: line 1: venv/bin/activate: No such file or directory",
            "no environment venv",
            "python3 -m venv venv",
        ),
        (
            1,
            "npm error code ENOTCACHED\nnpm error request to http://r.invalid/left-pad failed: cache mode is",
            "no package left-pad",
            "npm install",
        ),
        (
            1,
            "npm error request to http://r.invalid/@a%2fb failed, reason: getaddrinfo EAI_AGAIN r.invalid",
            "no package @a/b",
            "npm install --save-dev @a/b",
        ),
        (
            127,
            "x: error while loading shared libraries: libpq.so.5: cannot open shared object file: No",
            "libpq.so.5",
            "",
        ),
        (
            1,
            "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
            "libGL.so.1",
            "install",
        ),
        (1, "error: externally-managed-environment\n\n× This environment is externally managed", "externally", ".venv"),
    ],
)
def test_what_lies_outside_the_workspace_is_the_environments(
    work: Path, code: int, text: str, what: str, cure: str
) -> None:
    failure = judged(work, code, text)
    assert failure is not None and what in failure.what and cure in failure.cure, failure


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "assert 1 == 2"),
        (127, "sh: 1: ./run.sh: not found"),
        (127, "sh: 1: ./yet-to-be-made: not found"),
        (127, "sh: 1: run.sh: not found"),
        (127, "run.sh: 3: ehco: not found"),
        (127, "no such words"),
        (126, "bash: line 1: ./run.sh: /gone/python: bad interpreter: No such file or directory"),
        (1, "sh: 1: nosuch: not found"),  # printed by a test, which then failed for another reason
        (2, "make: *** [Makefile:2: test] Error 1"),
        (2, "make: *** No rule to make target 'test'.  Stop."),
        (1, "/w/.venv/bin/python: No module named pkg"),
        (1, "/w/.venv/bin/python: No module named mytool"),
        (2, COLLECTED.format(name="pkg.new")),
        (2, COLLECTED.format(name="brandnew")),  # a test may come before its module
        (1, IN_A_TEST.format(more="FAILED tests/test_a.py::test_y - assert 1 == 2\n2 failed in 0.03s")),
        (1, IN_A_TEST.format(more="3 failed in 0.03s")),  # two more were cut off
        (1, UNITTEST.format(name="brandnew")),
        (1, UNITTEST.format(name="numpy").replace("errors=1", "failures=1, errors=1")),
        (1, "ModuleNotFoundError: No module named 'numpy'\ncaught it\nassert False"),
        (4, "ERROR: file or directory not found: tests/test_new.py"),
        (5, "no tests ran in 0.01s"),
        (2, "usage: app.py [-h]\napp.py: error: unrecognized arguments: --new-flag"),
        (
            2,
            "usage: __main__.py [-h]\n__main__.py: error: unrecognized arguments: --new-flag",
        ),  # of a package of its own
        (1, NODE.format(name="./local", by="/w/a.js")),
        (1, NODE.format(name="/w/a.js", by="/w/a.js")),
        (1, NODE.format(name="@team/own", by="/w/a.js")),
        (1, NODE.format(name="brandnew", by="/w/a.js")),
        (2, "python: can't open file '/w/x.py': [Errno 2] No such file or directory"),
    ],
)
def test_what_the_project_lacks_or_may_yet_get_is_the_codes(work: Path, code: int, text: str) -> None:
    assert judged(work, code, text) is None


def test_only_a_failure_is_judged(work: Path) -> None:
    project = ProjectFiles(str(work), find_environment(str(work), {}, own=""))
    text = "sh: 1: nosuch: not found"
    for outcome in (
        CommandOutcome("x", 0, "pass", 1, False, text),
        CommandOutcome("x", None, "fail", 1, True, text),
        CommandOutcome("x", 127, "fail", 1, False, text, limit="memory"),
    ):
        assert environment_failure(("x",), outcome, project) is None


def test_a_program_that_was_not_found_is_the_environments_unless_it_is_a_path_of_the_project(work: Path) -> None:
    project = ProjectFiles(str(work), find_environment(str(work), {}, own=""))
    assert missing_tool(("pytest", "-q"), "pytest is not on PATH", project) is not None
    assert missing_tool((".venv/bin/pytest",), "there is no program", project) is not None
    assert missing_tool(("/opt/x/pytest",), "there is no program", project) is not None
    assert missing_tool(("./build/app",), "there is no program", project) is None


@pytest.mark.parametrize(
    "text",
    [
        "ConnectionRefusedError: [Errno 111] Connection refused\n  s.connect(('127.0.0.1', 5432))",
        'connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused',
        "Error: connect ECONNREFUSED 127.0.0.1:5432",
        "dial tcp [::1]:5432: connect: connection refused",
        "HTTPConnectionPool(host='localhost', port=5432): Max retries exceeded [Errno 111] Connection refused",
    ],
)
def test_a_refused_service_is_told_with_the_line_that_opens_it(text: str) -> None:
    assert "sandbox: {loopback: [80, 5432]}" in refused_service(text, (80,), lambda: {5432})
    assert refused_service(text, (5432,), lambda: {5432}) == ""
    assert refused_service(text, (), set) == "", "the check itself should have served it"


def test_a_refused_connection_without_a_port_is_told_what_to_write() -> None:
    text = "urllib.error.URLError: <urlopen error [Errno 111] Connection refused>"
    assert "(sandbox: {loopback: [PORT]})" in refused_service(text, (), lambda: {22, 5432})
    assert refused_service(text, (), set) == "", "no service is there to be meant"


def test_the_ports_of_the_machine_are_looked_up_only_for_a_check_that_was_refused() -> None:
    def ports() -> set[int]:
        raise AssertionError("the kernel walks every connection for this")

    assert refused_service("localhost:5432: assert 1 == 2", (), ports) == ""


# -- in runs ----------------------------------------------------------------------------------------------------------


def outcomes(project: Project) -> list[dict[str, Any]]:
    return [event.payload["outcome"] for event in project.events() if "exitCode" in event.payload.get("outcome", {})]


@pytest.mark.parametrize(
    ("check", "what"),
    [
        ("python -m pytest -q", "Python has no module pytest"),
        ("sh -c '.venv/bin/pytest -q'", "there is no program .venv/bin/pytest"),
        ("make -s test", "there is no program no-such-runner"),
    ],
)
def test_a_check_without_its_runner_is_blocked_in_the_record(tmp_path: Path, check: str, what: str) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    venv.create(project.path / ".venv", symlinks=True, with_pip=False)
    (project.path / "Makefile").write_text("test:\n\tno-such-runner -q\n")
    project.check = check
    project.loop("--approval", "never")
    outcome = outcomes(project)[-1]
    assert (outcome["blocked"], outcome["status"]) == (what, "fail"), outcome
    assert outcome["cure"]


def test_a_red_check_is_not_blocked(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    project.check = "python3 -c 'import yet_to_be_made'"
    project.loop("--approval", "never")
    assert "blocked" not in outcomes(project)[-1]


@contextlib.contextmanager
def listening() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_service_of_this_machine_is_reached_only_by_an_agreed_port(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    with listening() as port:
        (project.path / "db.py").write_text(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 20)\n")
        project.check = "python3 db.py"
        failed = project.loop("--approval", "never")
        assert failed.returncode != 0 and f"sandbox: {{loopback: [{port}]}}" in failed.stderr
        (project.path / "orchestra.config.yaml").write_text(f"sandbox: {{loopback: [{port}]}}\n")
        refused = project.run("tool", "run", "--", "python3", "db.py")
        assert refused.returncode == 5 and f"sandbox.loopback: {port}" in refused.stderr
        project.configure(f"sandbox: {{loopback: [{port}]}}\n")
        done = project.run("tool", "run", "--", "python3", "db.py")
        assert done.returncode == 0 and f"reach port {port} of this machine" in done.stderr, done
        told = project.run("policy", "explain", "--", "python", "db.py").stdout
        assert f"to port {port} of this machine" in told


@pytest.mark.parametrize(
    "settings",
    [
        '[tool.setuptools]\npy-modules = ["newmod"]\n',
        '[tool.ruff.lint.isort]\nknown-first-party = ["newmod"]\n',
        '[project]\nname = "p"\n[project.optional-dependencies]\nnewmod = ["declared-lib"]\n',
    ],
)
def test_a_list_that_is_no_list_of_dependencies_requires_nothing(work: Path, settings: str) -> None:
    (work / "pyproject.toml").write_text(settings)
    assert judged(work, 1, "ModuleNotFoundError: No module named 'newmod'\n") is None


@pytest.mark.parametrize(
    "settings",
    [
        '[project]\ndependencies = ["unheard-of>=2"]\n',
        '[project.optional-dependencies]\ntest = ["unheard-of"]\n',
        '[dependency-groups]\nanything = ["unheard-of"]\n',
        '[tool.poetry.dependencies]\nunheard-of = "^1"\n',
        '[tool.poetry.group.dev.dependencies]\nunheard-of = {version = "1"}\n',
        '[tool.hatch.envs.test]\ndependencies = ["unheard-of"]\n',
    ],
)
def test_every_list_of_dependencies_requires_its_packages(work: Path, settings: str) -> None:
    (work / "pyproject.toml").write_text(settings)
    assert judged(work, 1, "ModuleNotFoundError: No module named 'unheard_of'\n") is not None


@pytest.mark.parametrize("inside", [".venv", "env-3.12"])
def test_what_an_installation_holds_is_no_path_of_the_project(tmp_path: Path, inside: str) -> None:
    (tmp_path / inside / "bin").mkdir(parents=True)
    (tmp_path / inside / "pyvenv.cfg").touch()
    (tmp_path / inside / "bin/python").symlink_to("/usr/bin/python3")
    project = ProjectFiles(str(tmp_path), find_environment(str(tmp_path), {}, Choice(inside), own=""))
    paths = (f"{inside}/bin/pytest", "node_modules/.bin/tsc", "src/new.py", "../elsewhere", "/etc/passwd", "envs/x")
    assert [path for path in paths if project.has_path(path)] == ["src/new.py", "envs/x"]


UNREACHED = Captured(excerpt="curl: (6) Could not resolve host: a.example")


@pytest.mark.parametrize(
    ("more", "said", "passed", "denied"),
    [
        ({"task": "get"}, UNREACHED, False, [("the network", "this task has none")]),
        ({"task": "get", "net": True}, UNREACHED, False, [("a.example:443", "not allowed (2 x)")]),
        ({"task": "get"}, UNREACHED, True, [("a.example:443", "not allowed (2 x)")]),
        ({"task": "get"}, Captured(), False, [("a.example:443", "not allowed (2 x)")]),
        ({}, UNREACHED, False, [("a.example:443", "not allowed (2 x)")]),
    ],
)
def test_a_task_without_a_network_is_judged_by_its_own_output(
    more: dict[str, Any], said: Captured, passed: bool, denied: list[tuple[str, str]]
) -> None:
    effect = RunCommand(argv=("curl",), timeoutMs=1000, artifact="a", asker="model", keeps="files", **more)
    result = CommandResult(exitCode=0, stderr=said, denials=(Denial("a.example", 443, "not allowed", 2),))
    assert [(one.what, one.why) for one in denials_of(effect, result, passed=passed)] == denied
