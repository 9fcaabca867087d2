"""The test command of a project: recognised, detected, narrowed to one file, started so that it reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestra.workflows.contracts import testcommand as commands

PACKAGE = '{"scripts": {"test": "vitest run"}}'


@pytest.mark.parametrize(
    ("line", "runner"),
    [
        ("pytest", "pytest"),
        ("python -m pytest -q", "pytest"),
        (".venv/bin/python3.12 -m pytest", "pytest"),
        ("uv run pytest tests", "pytest"),
        ("python -m unittest", "unittest"),
        ("python -m unittest discover -s tests", "unittest"),
        ("npx jest", "jest"),
        ("npx vitest run", "vitest"),
        ("npm test", "vitest"),
        ("npm run test", "vitest"),
        ("node --test tests", "node"),
        ("node build.js", "other"),
        ("npm run build test", "other"),  # the script is the first word after `run`
        ("./gradlew test", "gradle"),
        ("gradle :app:test", "gradle"),
        ("go test ./...", "go"),
        ("gotestsum ./...", "gotestsum"),
        ("cargo test", "cargo"),
        ("make test", "other"),
        ("python -m tox", "other"),
        ("python run_pytest.py", "other"),
        ("gradle build", "other"),
        ("grep pytest", "other"),
        ("", "other"),
    ],
)
def test_a_runner_is_recognised_by_its_command(line: str, runner: str) -> None:
    assert commands.runner_of(tuple(line.split()), PACKAGE) == runner


@pytest.mark.parametrize(
    ("files", "line", "origin"),
    [
        ({"pytest.ini": ""}, "python -m pytest", "pytest.ini"),
        (
            {"pyproject.toml": '[project]\n[dependency-groups]\ndev = ["pytest>=8"]'},
            "python -m pytest",
            "pyproject.toml",
        ),
        ({"tests/conftest.py": ""}, "python -m pytest", "tests/conftest.py"),
        ({"pyproject.toml": "[project]", "tests/test_a.py": ""}, "python -m unittest discover -s tests", "Python"),
        ({"setup.py": ""}, "python -m unittest discover -s .", "Python"),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, "npm test", "package.json"),
        ({"package.json": '{"scripts": {"test": "tsc && node --test"}}'}, "npm test", "package.json"),
        ({"gradlew": "", "build.gradle": ""}, "./gradlew test", "gradlew"),
        ({"build.gradle.kts": ""}, "gradle test", "build.gradle.kts"),
        ({"go.mod": "module x"}, "go test ./...", "go.mod"),
        ({"Cargo.toml": "[package]"}, "cargo test", "Cargo.toml"),
    ],
)
def test_the_command_is_detected_from_the_projects_files(
    tmp_path: Path, files: dict[str, str], line: str, origin: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = commands.detect(tmp_path)
    assert found is not None
    assert found.line == line
    assert found.origin.startswith("detected: ") and origin in found.origin


@pytest.mark.parametrize(
    ("script", "runner"),
    [
        ("tsc && jest --ci", "jest"),
        ("NODE_ENV=test node --test", "other"),
        ("jest && eslint .", "other"),
        ("", "other"),
    ],
)
def test_the_runner_of_a_script_is_the_command_that_the_options_reach(script: str, runner: str) -> None:
    assert commands.runner_of(("npm", "test"), json.dumps({"scripts": {"test": script}})) == runner


@pytest.mark.parametrize("text", ["", "{", "[]", '{"scripts": 1}', '{"scripts": {"test": "echo no test specified"}}'])
def test_where_no_runner_is_recognised_none_is_guessed(tmp_path: Path, text: str) -> None:
    (tmp_path / "package.json").write_text(text)
    (tmp_path / "README.md").write_text("pytest")
    assert commands.detect(tmp_path) is None


@pytest.mark.parametrize(
    ("line", "path", "selected"),
    [
        ("pytest", "tests/test_a.py", "pytest tests/test_a.py"),
        ("python -m pytest -q tests other", "tests/test_a.py", "python -m pytest -q tests/test_a.py"),
        ("pytest -k slow -n 2 tests", "tests/테스트.py", "pytest -k slow -n 2 tests/테스트.py"),
        ("python -m unittest", "tests/test_a.py", "python -m unittest tests/test_a.py"),
        ("python -m unittest tests.test_b -v", "tests/test_a.py", "python -m unittest -v tests/test_a.py"),
        (
            "python -m unittest discover -s tests -p *_t.py",
            "tests/x/test_a.py",
            "python -m unittest discover -s tests/x -p test_a.py",
        ),
        ("npm test", "src/a.test.ts", "npm test -- src/a.test.ts"),
        ("npx vitest run", "src/a.test.ts", "npx vitest run src/a.test.ts"),
        ("node --test", "src/a.test.js", "node --test src/a.test.js"),
        ("./gradlew test", "src/test/java/com/x/ATest.java", "./gradlew test --tests com.x.ATest"),
        ("./gradlew test", "app/src/test/kotlin/com/x/ATest.kt", "./gradlew test --tests com.x.ATest"),
        ("go test -race ./...", "pkg/a/a_test.go", "go test -race ./pkg/a"),
        ("go test ./...", "a_test.go", "go test ."),
        ("cargo test", "tests/a.rs", "cargo test --test a"),
        ("cargo test", "src/lib.rs", ""),
        ("./gradlew test", "tests/a.java", ""),
        ("python -m unittest", "tests/a.txt", ""),
        ("make test", "tests/test_a.py", ""),
    ],
)
def test_one_test_file_is_selected_where_the_runner_can(line: str, path: str, selected: str) -> None:
    command = commands.given(tuple(line.split()), "--check", PACKAGE)
    found = commands.selecting(command, path)
    assert (" ".join(found.argv) if found else "") == selected


@pytest.mark.parametrize(
    ("line", "argv", "env"),
    [
        ("pytest -q", "pytest -q", {"PYTEST_ADDOPTS": "--junitxml=/out/report.xml -o junit_family=xunit1"}),
        ("python -m unittest", "python -m unittest -v", {}),
        ("python -m unittest -v", "python -m unittest -v", {}),
        ("npx jest", "npx jest --json --outputFile=/out/report.json", {}),
        (
            "npm test",
            "npm test -- --reporter=default --reporter=junit --outputFile.junit=/out/report.xml",
            {},
        ),
        (
            "node --test",
            "node --test",
            {
                "NODE_OPTIONS": "--test-reporter=spec --test-reporter-destination=stdout"
                " --test-reporter=junit --test-reporter-destination=/out/report.xml"
            },
        ),
        ("gotestsum", "gotestsum", {"GOTESTSUM_JUNITFILE": "/out/report.xml"}),
        ("go test ./...", "go test -v ./...", {}),
        ("cargo test", "cargo test", {}),
        ("make test", "make test", {}),
    ],
)
def test_a_command_is_started_so_that_it_reports(line: str, argv: str, env: dict[str, str]) -> None:
    found = commands.reporting(commands.given(tuple(line.split()), "--check", PACKAGE), "/out")
    assert (" ".join(found.argv), dict(found.env)) == (argv, env)


def test_gradle_is_given_an_init_script_that_moves_its_reports() -> None:
    found = commands.reporting(commands.given(("./gradlew", "test", "--tests", "com.x.ATest"), "--check"), "/out")
    (script,) = found.files
    assert found.argv == ("./gradlew", "--init-script", script.path, "test", "--tests", "com.x.ATest")
    assert "junitXml" in script.content and f'System.getenv("{found.env[0][0]}")' in script.content
    assert found.env[0][1] == "/out"
