"""Whether a check failed for lack of its environment, and not because of the code. Pure.

Rules
1. A failure is the environment's only if what is missing lies outside the workspace, and no patch could supply it: a
   program, a package that others make, a plugin or an option of the runner, a shared library. Then a person is asked,
   never the fixer.
2. In doubt a failure is the code's. So a missing module counts only if it is not in the workspace and is third-party by
   evidence: the project requires it, a package that is installed imports it, or it is well known
   (commands/thirdparty.py). A test may import a module that the run has yet to write.
3. The text of a check's output is evidence, and a check may print anything. Only texts at the place where the program
   itself puts them count: a last line, a summary, an exit code that fits.
4. The cure is one line that a person can type.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Set
from typing import Protocol
from urllib.parse import unquote

from msgspec import Struct

from orchestra.commands.thirdparty import NODE, PACKAGES, PLUGINS, PROGRAMS, PYTHON, RUNNERS
from orchestra.core.command import CommandOutcome, Denied, RunCommand
from orchestra.worker.task import CommandResult

_NOT_FOUND = (
    re.compile(r"^(?P<by>[^\s:]+): (?:line )?(?:\d+: )?(?P<name>[^\s:]+): (?:command )?not found$", re.MULTILINE),
    re.compile(r"^(?P<by>zsh)(?::\d+)?: command not found: (?P<name>\S+)$", re.MULTILINE),
    re.compile(r"^(?P<by>\S*env): [‘'\"]?(?P<name>[^\s:’'\"]+)[’'\"]?: No such file or directory$", re.MULTILINE),
    re.compile(r"^(?P<by>g?make)(?:\[\d+\])?: (?P<name>\S+): No such file or directory$", re.MULTILINE),
    re.compile(
        r"^(?P<by>[^\s:]+): (?:line )?(?:\d+: )?(?P<name>/[^\s:]+): No such file or directory$",
        re.MULTILINE,
    ),
)
_DENIED = re.compile(r"^[^\s:]+: (?:line )?(?:\d+: )?(?P<name>/[^\s:]+): Permission denied$", re.MULTILINE)
_BAD = re.compile(r"^\S+: (?:line \d+: )?(?P<script>[^\s:]+): (?P<name>/[^\s:]+): bad interpreter: ", re.MULTILINE)
_ACTIVATE = re.compile(
    r"^[^\s:]+: (?:line )?(?:\d+: )?(?:\.: cannot open )?(?P<folder>[^\s:]+)/bin/activate: No such file\b",
    re.MULTILINE,
)
_MAKE_127 = re.compile(r"^g?make(?:\[\d+\])?: \*\*\* .*Error 127$", re.MULTILINE)
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "make", "gmake", "env", "npm"))
_RUN_MODULE = re.compile(r"^\S*python[\d.]*: No module named (?P<name>[\w.]+)$", re.MULTILINE)
_MODULE = re.compile(
    r"^(?:E +)?(?:ModuleNotFoundError|ImportError): No module named '?(?P<name>[\w.]+)'?", re.MULTILINE
)
_FRAME = re.compile(r'^(?: *File "(?P<file>[^"]+)", line \d+|(?P<short>[^\s:]+\.py):\d+: in )', re.MULTILINE)
_SUMMARY = re.compile(r"^(?:FAILED|ERROR) \S.*$", re.MULTILINE)
_COUNTS = re.compile(r"(\d+) (?:failed|errors?)\b")
_PLUGIN = re.compile(r"^(?:ERROR: )?Error importing plugin \"(?P<plugin>[^\"]+)\": No module named '?(?P<name>[\w.]+)")
_REQUIRED = re.compile(r"^ERROR: Missing required plugins: (?P<names>\S.*)$", re.MULTILINE)
_USAGE = re.compile(r"^(?P<by>.*?): error: unrecognized arguments: (?P<words>.+)$", re.MULTILINE)
_NODE = re.compile(
    r"^(?:.*?\b)?(?:Error(?: \[\w+\])?: )?Cannot find (?:module|package) '(?P<name>[^']+)'", re.MULTILINE
)
_NPX = re.compile(r"npx canceled due to missing packages and no YES option: \[\"(?P<name>@?[^@\"]+)")
_NPM_FETCH = re.compile(r"^npm (?:error|ERR!) request to \S+/(?P<name>[^/\s]+) failed\b", re.MULTILINE)
_LIBRARY = re.compile(
    r"(?:error while loading shared libraries: |^(?:E +)?ImportError: )(?P<name>[\w.+-]+\.so[\w.]*): cannot open",
    re.MULTILINE,
)
_MANAGED = re.compile(r"^error: externally-managed-environment$", re.MULTILINE)


_REFUSED = re.compile(r"connection refused|ECONNREFUSED|ConnectionRefusedError", re.IGNORECASE)
_SERVICE = re.compile(r"(?:127\.0\.0\.1|localhost|::1)\b[^\d\n]{1,20}(?P<port>[1-9]\d{1,4})(?!\d|\.\d)")


_UNREACHED = re.compile(
    r"name or service not known|temporary failure in name resolution|could not resolve host|network is unreachable"
    r"|getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|failed to (?:resolve|lookup address)|NameResolutionError",
    re.IGNORECASE,
)


class EnvironmentFailure(Struct, frozen=True):
    """What a check lacked, in one sentence, and the line that cures it."""

    what: str
    cure: str


class Surroundings(Protocol):
    """What the judgement must know of the project (commands/surroundings.py)."""

    def has_module(self, name: str) -> bool:
        """Whether a module or package of this name is in the workspace."""

    def has_program(self, name: str) -> bool:
        """Whether the workspace has a file of this name that could be a program of its own."""

    def has_path(self, path: str) -> bool:
        """Whether a path lies in the workspace, and not in an environment in it. It need not exist."""

    def requires(self, name: str) -> bool:
        """Whether the project names this package as something it needs."""

    def install(self, package: str) -> str:
        """The line that installs a package of Python."""

    def install_node(self, package: str) -> str:
        """The line that installs a package of node; without a name, all that the project requires."""


def environment_failure(
    argv: tuple[str, ...], outcome: CommandOutcome, project: Surroundings
) -> EnvironmentFailure | None:
    """Why this check could not do its work; None if it failed because of the code, or if that may be."""
    if outcome.status != "fail" or outcome.timedOut or outcome.limit or not outcome.exitCode:
        return None
    text = outcome.output
    return (
        _missing_program(outcome.exitCode, text, project)
        or _missing_environment(text)
        or _missing_runner(text, project)
        or _wrong_usage(argv, outcome.exitCode, text, project)
        or _missing_module(outcome.exitCode, text, project)
        or _missing_node(outcome.exitCode, text, project)
        or _missing_library(text, project)
    )


def missing_tool(argv: tuple[str, ...], reason: str, project: Surroundings) -> EnvironmentFailure | None:
    """The same for a check whose own program was not found; None if it is a file of the project, yet to be made."""
    name = argv[0]
    if "/" in name and project.has_path(name):
        return None
    return EnvironmentFailure(reason, project.install(name) if name in RUNNERS else f"install {name}")


def refused_service(text: str, opened: tuple[int, ...], ports_of_machine: Callable[[], Set[int]]) -> str:
    """A hint for a check that was refused by a service of this machine: the line that opens its port; else empty.

    `ports_of_machine` finds the ports of this machine on which something listens: a port that a check itself should
    serve is not among them. Few checks fail so, and to find them takes milliseconds.
    """
    if not _REFUSED.search(text):
        return ""
    listening = ports_of_machine()
    ports = dict.fromkeys(int(found["port"]) for found in _SERVICE.finditer(text))
    for port in ports:
        if port in listening and port not in opened:
            line = ", ".join(map(str, sorted({*opened, port})))
            return (
                f"the check was refused on port {port}, where a service of this machine listens: commands reach none"
                f" unless the configuration opens its port (sandbox: {{loopback: [{line}]}})"
            )
    if ports or not listening:
        return ""
    return (
        "the check was refused a connection; if it was to a service of this machine: commands reach none unless the"
        " configuration opens its port (sandbox: {loopback: [PORT]})"
    )


def needs_network(text: str) -> bool:
    """Whether a command says that it could not reach another machine."""
    return _UNREACHED.search(text) is not None


def denials_of(effect: RunCommand, result: CommandResult, *, passed: bool) -> tuple[Denied, ...]:
    """The connections that were refused. For a task without any network there are only its own words."""
    said = f"{result.stdout.excerpt}{result.stderr.excerpt}"
    if effect.task and not effect.net and not passed and needs_network(said):
        return (Denied("the network", "this task has none"),)
    return tuple(Denied(f"{d.host}:{d.port}", f"{d.reason} ({d.times} x)") for d in result.denials)


# -- programs ---------------------------------------------------------------------------------------------------------


def _missing_program(code: int, text: str, project: Surroundings) -> EnvironmentFailure | None:
    if code == 126 and (denied := _last(_DENIED.finditer(text))) and not project.has_path(denied["name"]):
        return EnvironmentFailure(f"{denied['name']} may not be started", "choose another: --environment DIR")
    if code == 126 and (bad := _last(_BAD.finditer(text))) and not project.has_path(bad["script"]):
        return EnvironmentFailure(
            f"{bad['script']} needs {bad['name']}, which is not there", "make the environment anew"
        )
    if code != 127 and not _MAKE_127.search(text):
        return None
    found = _last(match for pattern in _NOT_FOUND for match in pattern.finditer(text))
    if found is None:
        return None
    name, by = found["name"], os.path.basename(found["by"])
    if "/" in name:
        installed = os.path.basename(os.path.dirname(name)) == "bin" and os.path.basename(name) in PROGRAMS
        if project.has_path(name) and not installed:  # `env/bin/pytest` is in an environment that is not there
            return None
        return EnvironmentFailure(f"there is no program {name}", _install(os.path.basename(name), project))
    own_script = by not in _SHELLS
    if project.has_program(name) or (own_script and name not in PROGRAMS and not project.requires(name)):
        return None  # a script of the project may call what it should not
    return EnvironmentFailure(f"there is no program {name}", _install(name, project))


def _missing_environment(text: str) -> EnvironmentFailure | None:
    """A shell cannot activate the environment that the check names."""
    found = _last(_ACTIVATE.finditer(text))
    if found is None:
        return None
    folder = found["folder"]
    return EnvironmentFailure(
        f"there is no environment {folder}", f"python3 -m venv {shlex.quote(folder)}, and install the project there"
    )


def _install(name: str, project: Surroundings) -> str:
    if name in RUNNERS or project.requires(name):
        return project.install_node(name) if name in NODE else project.install(PACKAGES.get(name, name))
    return project.install_node("") if name in NODE else f"install {name}, or map it: tools: {{{name}: PATH}}"


def _missing_library(text: str, project: Surroundings) -> EnvironmentFailure | None:
    if found := _last(_LIBRARY.finditer(text)):
        if project.has_program(found["name"]):
            return None
        return EnvironmentFailure(f"the shared library {found['name']} is missing", f"install {found['name']}")
    if _MANAGED.search(text):
        return EnvironmentFailure(
            "the check wants to install into the system's Python, which is managed externally",
            "python3 -m venv .venv, install there, and take the installing out of the check",
        )
    return None


# -- Python -----------------------------------------------------------------------------------------------------------


def _missing_runner(text: str, project: Surroundings) -> EnvironmentFailure | None:
    """`python -m NAME` without NAME: the interpreter's own line."""
    found = _last(_RUN_MODULE.finditer(text))
    if found is None or not _third_party(found["name"], project):
        return None
    return _module_failure(found["name"], project)


def _wrong_usage(argv: tuple[str, ...], code: int, text: str, project: Surroundings) -> EnvironmentFailure | None:
    """The runner does not take its own options, or lacks a plugin that it is told to load."""
    if code == 4 and (required := _REQUIRED.search(text)):
        names = re.split(r"[,\s]+", required["names"].strip())
        return EnvironmentFailure(f"pytest lacks plugins: {', '.join(names)}", project.install(shlex.join(names)))
    for line in text.splitlines():
        if code == 4 and (plugin := _PLUGIN.match(line)) and not project.has_module(plugin["name"]):
            return _module_failure(plugin["name"], project)
    found = _last(_USAGE.finditer(text))
    if found is None or code not in (2, 4):
        return None
    by = os.path.basename(found["by"].split()[-1]) if found["by"].split() else ""
    if by not in RUNNERS and not (by == "__main__.py" and _module_of(argv) in RUNNERS):
        return None
    option = found["words"].split()[0]
    plugin_of = [package for name, package in PLUGINS.items() if option.split("=")[0].startswith(name)]
    cure = project.install(plugin_of[0]) if plugin_of else f"correct the options of {by} in the check or its settings"
    return EnvironmentFailure(f"{by} does not know the option {option}", cure)


def _missing_module(code: int, text: str, project: Surroundings) -> EnvironmentFailure | None:
    """A module that others make cannot be imported, and nothing else is wrong (rule 3)."""
    found = list(_MODULE.finditer(text))
    if not found:
        return None
    third = [match for match in found if _third_party(match["name"], project) or _imported_by_package(match, text)]
    third = [match for match in third if not project.has_module(match["name"])]
    if not third:
        return None
    collecting = code == 2 and re.search(r"^!+ Interrupted: \d+ errors? during collection !+$", text, re.MULTILINE)
    loading = code == 4 and "ImportError while loading conftest" in text
    if collecting or loading or (len(third) == len(found) and _only_reason(found, text)):
        return _module_failure(third[0]["name"], project)
    return None


def _only_reason(found: list[re.Match[str]], text: str) -> bool:
    """Whether the missing modules are all that is wrong: in pytest's summary, unittest's, or a program's last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    summary = _SUMMARY.findall(text)
    if "short test summary info" in text:
        named = [line for line in summary if "ModuleNotFoundError" in line]
        return bool(named) and len(named) == len(summary) == sum(map(int, _COUNTS.findall(last)))
    if ended := re.fullmatch(r"FAILED \(errors=(\d+)(?:, skipped=\d+)?\)", last):
        return text.count("ImportError: Failed to import test module") == int(ended.group(1)) == len(found)
    return found[-1].group() == last[: len(found[-1].group())]


def _imported_by_package(match: re.Match[str], text: str) -> bool:
    """Whether the frame above the error lies in an installed package."""
    frame = _last(_FRAME.finditer(text, 0, match.start()))
    file = (frame["file"] or frame["short"] or "") if frame else ""
    return "/site-packages/" in file or "/dist-packages/" in file


def _third_party(name: str, project: Surroundings) -> bool:
    top = name.split(".")[0]
    if project.has_module(top):
        return False
    return top in PYTHON or project.requires(PACKAGES.get(top, top)) or project.requires(top)


def _module_failure(name: str, project: Surroundings) -> EnvironmentFailure:
    top = name.split(".")[0]
    return EnvironmentFailure(f"Python has no module {name}", project.install(PACKAGES.get(top, top)))


def _module_of(argv: tuple[str, ...]) -> str:
    """NAME of `python -m NAME`; empty if there is none."""
    at = argv.index("-m") + 1 if "-m" in argv else len(argv)
    return argv[at].split(".")[0] if at < len(argv) else ""


# -- node -------------------------------------------------------------------------------------------------------------


def _missing_node(code: int, text: str, project: Surroundings) -> EnvironmentFailure | None:
    if wanted := _NPX.search(text):
        return EnvironmentFailure(f"there is no package {wanted['name']}", project.install_node(wanted["name"]))
    if fetched := _NPM_FETCH.search(text):  # npx asks the registry for what is not installed
        name = unquote(fetched["name"])
        return EnvironmentFailure(f"there is no package {name}", project.install_node(name))
    found = _NODE.search(text)
    if found is None or code != 1 or found["name"].startswith((".", "/", "#", "node:", "~", "@/")):
        return None
    parts = found["name"].split("/")
    package = "/".join(parts[:2]) if parts[0].startswith("@") else parts[0]
    stack = re.search(r"^Require stack:\n- (?P<file>.+)$", text, re.MULTILINE)
    by_package = bool(stack) and "/node_modules/" in str(stack["file"] if stack else "")
    if not (project.requires(package) or package in NODE or by_package) or project.has_module(package):
        return None
    return EnvironmentFailure(f"node has no package {package}", project.install_node(package))


def _last(matches: Iterator[re.Match[str]]) -> re.Match[str] | None:
    """The match that is furthest down in the text."""
    return max(matches, key=lambda match: match.start(), default=None)
