"""The test command of a project: which runner it is, how one test file is selected, how it writes a report.

Rules
1. The command is a person's (`--check`), else the configuration's, else it is detected from the files of the project
   (G3-9). `origin` names where it comes from, so that it can be shown before its first use.
2. A runner is recognised by the words of the command. Any other command is `other`: it is judged by its exit code.
3. Where a runner takes the name of its report from an environment variable, that is used: then the command stays as the
   person wrote it. Else options are added at the end. gradle has neither: it is given an init script, a file that only
   the command sees, which has every project's test tasks write their reports elsewhere.
4. A selection never runs fewer tests than those of the file. Where a runner cannot select a file, all tests are run.

Only `detect` reads files, a few of them, within bounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec
from msgspec import Struct

from orchestra.core.command import InputFile, typed
from orchestra.core.errors import OddFile
from orchestra.core.files import read_bounded

Runner = Literal["pytest", "unittest", "jest", "vitest", "node", "gradle", "go", "gotestsum", "cargo", "other"]
MARKERS = ("pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg", "conftest.py", "tests/conftest.py", "package.json")
_EXISTING = ("gradlew", "build.gradle", "build.gradle.kts", "go.mod", "Cargo.toml", "setup.py", "tests", "test")
_MOST_BYTES = 256 * 1024
_PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")
_JAVA_TESTS = re.compile(r"(?:^|.*/)src/(?:test|\w*[tT]est)/(?:java|kotlin|groovy|scala)/(.+)\.\w+")
# Options of pytest with a value in the next word; the value is no test that is asked for.
_PYTEST_VALUES = frozenset(
    [
        "-k",
        "-m",
        "-n",
        "-p",
        "-c",
        "-o",
        "-W",
        "-r",
        "--maxfail",
        "--tb",
        "--durations",
        "--cov",
        "--timeout",
        "--rootdir",
        "--dist",
    ]
)
_UNITTEST_VALUES = frozenset(
    ["-k", "-s", "-p", "-t", "--start-directory", "--pattern", "--top-level-directory", "--durations"]
)
_GRADLE = re.compile(r"(?:.*/)?gradlew?")
_INIT_FILE = "orchestra-reports.init.gradle"
# `outputLocation` is of gradle 6.1 and newer, `destination` of older ones. Each task has a folder of its own: two
# projects may have a class of the same name.
_INIT_SCRIPT = """\
allprojects {
    tasks.withType(Test) { task ->
        def folder = new File(System.getenv("ORCHESTRA_TEST_REPORTS"), task.path.replace(":", "_"))
        def xml = task.reports.junitXml
        if (xml.hasProperty("outputLocation")) xml.outputLocation.set(folder) else xml.destination = folder
        if (xml.hasProperty("required")) xml.required.set(true) else xml.enabled = true
    }
}
"""


class TestCommand(Struct, frozen=True):
    """How the tests of a project are run."""

    argv: tuple[str, ...]
    runner: Runner = "other"
    origin: str = ""  # "--check", "contracts.test of orchestra.config.yaml", "detected: pytest.ini"

    @property
    def line(self) -> str:
        """The command as people write it."""
        return typed(self.argv)


class Reporting(Struct, frozen=True):
    """How a command is started so that its results can be read."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    files: tuple[InputFile, ...] = ()  # that only the command sees


def given(argv: tuple[str, ...], origin: str, package: str = "") -> TestCommand:
    """The command that a person wrote. `package` is the text of package.json, which says what `npm test` runs."""
    return TestCommand(argv, runner_of(argv, package), origin)


def runner_of(argv: tuple[str, ...], package: str = "") -> Runner:
    """The runner that a command starts (rule 2)."""
    names = [PurePosixPath(word).name for word in argv]
    if not names:
        return "other"
    if names[0] in ("npm", "pnpm", "yarn") and ("test" in names[1:3] or names[1:2] == ["t"]):
        return _script_runner(_script(package))
    for number, name in enumerate(names):
        if _PYTHON.fullmatch(argv[number]) and names[number + 1 : number + 2] == ["-m"]:
            module = names[number + 2 : number + 3]
            return "pytest" if module == ["pytest"] else "unittest" if module == ["unittest"] else "other"
        if name in ("pytest", "py.test"):
            return "pytest"
        if name in ("jest", "vitest", "gotestsum"):
            return name  # type: ignore[return-value]  # these three are runners
        if name in ("gradle", "gradlew") and any("test" in word.lower() for word in names[number + 1 :]):
            return "gradle"
        if name in ("go", "cargo") and names[number + 1 : number + 2] == ["test"]:
            return name  # type: ignore[return-value]  # both are runners
        if name == "node" and "--test" in names[number + 1 :]:
            return "node"
        if name not in ("uv", "poetry", "pipenv", "run", "npx", "env", "exec", "node", "bunx"):
            break  # another program, which gets the rest as its own words
    return "other"


def _script_runner(script: str) -> Runner:
    """The runner of a script: of its last command, which the options at the end reach."""
    words = [PurePosixPath(word).name for word in re.split(r"&&|[|;&]", script)[-1].split()]
    if words[:1] == ["node"] and "--test" in words:
        return "node"
    return "vitest" if "vitest" in words else "jest" if "jest" in words else "other"


def _script(package: str) -> str:
    """The script that `npm test` runs; empty if there is none."""
    try:
        return msgspec.json.decode(package, type=_Package).scripts.get("test", "") if package else ""
    except (msgspec.DecodeError, RecursionError):
        return ""


class _Package(Struct, frozen=True):
    """The parts of package.json that matter here."""

    scripts: dict[str, str] = {}


# -- detection --------------------------------------------------------------------------------------------------------


def detect(project: Path) -> TestCommand | None:
    """The command for the tests of a project, from its files; None if no runner is recognised."""
    texts = {name: text for name in MARKERS if (text := _text(project / name)) is not None}
    return detected(texts, frozenset(name for name in _EXISTING if (project / name).exists()))


def detected(texts: Mapping[str, str], names: frozenset[str]) -> TestCommand | None:
    """The command for these texts of marker files and names of other files; pure."""
    if why := _uses_pytest(texts):
        return TestCommand(("python", "-m", "pytest"), "pytest", f"detected: {why}")
    package = texts.get("package.json", "")
    if (script := _script(package)) and "no test specified" not in script:
        return TestCommand(("npm", "test"), _script_runner(script), "detected: scripts.test of package.json")
    if "gradlew" in names:
        return TestCommand(("./gradlew", "test"), "gradle", "detected: gradlew")
    for name, argv in (
        ("build.gradle", ("gradle", "test")),
        ("build.gradle.kts", ("gradle", "test")),
        ("go.mod", ("go", "test", "./...")),
        ("Cargo.toml", ("cargo", "test")),
    ):
        if name in names:
            return TestCommand(argv, runner_of(argv), f"detected: {name}")
    if {"pyproject.toml", "setup.py", "setup.cfg"} & (set(texts) | names) or {"tests", "test"} & names:
        folder = next((name for name in ("tests", "test") if name in names), ".")
        discover = ("python", "-m", "unittest", "discover", "-s", folder)
        return TestCommand(discover, "unittest", "detected: a project of Python without pytest")
    return None


def _uses_pytest(texts: Mapping[str, str]) -> str:
    """The file that shows that a project uses pytest; empty if none does."""
    for name in ("pytest.ini", "conftest.py", "tests/conftest.py"):
        if name in texts:
            return name
    for name in ("pyproject.toml", "tox.ini", "setup.cfg"):
        if re.search(r"\bpytest\b", texts.get(name, "")):
            return name
    return ""


def _text(path: Path) -> str | None:
    try:
        return read_bounded(path, _MOST_BYTES, follow=True).decode("utf-8", "replace")
    except (OSError, OddFile):
        return None


# -- one test file ----------------------------------------------------------------------------------------------------


def selecting(command: TestCommand, path: str) -> TestCommand | None:
    """The command for one test file only; None if its runner cannot select it (rule 4)."""
    argv = _selected(command, path)
    return msgspec.structs.replace(command, argv=argv) if argv else None


def _selected(command: TestCommand, path: str) -> tuple[str, ...] | None:
    argv, file = command.argv, PurePosixPath(path)
    match command.runner:
        case "pytest":
            return (*_without_tests(argv, _PYTEST_VALUES), path)
        case "unittest" if file.suffix != ".py":
            return None
        case "unittest" if "discover" in argv:
            kept = _without_option(argv, ("-p", "--pattern", "-s", "--start-directory"))
            return (*kept, "-s", str(file.parent), "-p", file.name)
        case "unittest":
            return (*_without_tests(argv, _UNITTEST_VALUES), path)
        case "jest" | "vitest" | "node":
            return _with_options(command, path)
        case "gradle" if found := _JAVA_TESTS.fullmatch(path):
            return (*argv, "--tests", found[1].replace("/", "."))
        case "go" | "gotestsum" if file.suffix == ".go":
            folder = str(file.parent)
            return (*(word for word in argv if not word.startswith("./")), "." if folder == "." else f"./{folder}")
        case "cargo" if len(file.parts) == 2 and file.parts[0] == "tests" and file.suffix == ".rs":
            return (*argv, "--test", file.stem)
    return None


def _without_tests(argv: tuple[str, ...], valued: frozenset[str]) -> tuple[str, ...]:
    """A command of pytest or unittest without the tests that it names."""
    runners = ("pytest", "py.test", "unittest")
    start = next(number for number, word in enumerate(argv) if PurePosixPath(word).name in runners)
    kept, before = [*argv[: start + 1]], ""
    for word in argv[start + 1 :]:
        if word.startswith("-") or before in valued:
            kept.append(word)
        before = word
    return tuple(kept)


def _without_option(argv: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    kept: list[str] = []
    before = ""
    for word in argv:
        if word not in names and before not in names:
            kept.append(word)
        before = word
    return tuple(kept)


# -- the report -------------------------------------------------------------------------------------------------------


def reporting(command: TestCommand, folder: str) -> Reporting:
    """How the command is started so that it writes a report into a folder (rule 3); as it is, if it cannot."""
    report = f"{folder}/report.xml"
    match command.runner:
        case "pytest":
            # xunit1 has the file of each test.
            return Reporting(command.argv, (("PYTEST_ADDOPTS", f"--junitxml={report} -o junit_family=xunit1"),))
        case "unittest":
            return Reporting(command.argv if {"-v", "--verbose"} & set(command.argv) else (*command.argv, "-v"))
        case "jest":
            return Reporting(_with_options(command, "--json", f"--outputFile={folder}/report.json"))
        case "vitest":
            options = ("--reporter=default", "--reporter=junit", f"--outputFile.junit={report}")
            return Reporting(_with_options(command, *options))
        case "gotestsum":
            return Reporting(command.argv, (("GOTESTSUM_JUNITFILE", report),))
        case "go":
            return Reporting(command.argv if "-v" in command.argv else (*command.argv[:2], "-v", *command.argv[2:]))
        case "node":
            printed = "--test-reporter=spec --test-reporter-destination=stdout"
            kept = f"--test-reporter=junit --test-reporter-destination={report}"
            return Reporting(command.argv, (("NODE_OPTIONS", f"{printed} {kept}"),))
        case "gradle":
            at = 1 + next(number for number, word in enumerate(command.argv) if _GRADLE.fullmatch(word))
            argv = (*command.argv[:at], "--init-script", _INIT_FILE, *command.argv[at:])
            return Reporting(argv, (("ORCHESTRA_TEST_REPORTS", folder),), (InputFile(_INIT_FILE, _INIT_SCRIPT),))
        case "cargo" | "other":
            return Reporting(command.argv)


def _with_options(command: TestCommand, *options: str) -> tuple[str, ...]:
    """Options for a runner that npm may start: those after `--` reach it."""
    argv = command.argv
    if PurePosixPath(argv[0]).name != "npm":
        return (*argv, *options)
    return (*argv, *(() if "--" in argv else ("--",)), *options)
