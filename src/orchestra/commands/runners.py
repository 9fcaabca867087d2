"""Programs that make environments of their own: uv, poetry, pipenv, tox and nox. Whether they work without a network.

Tried for real, in the sandbox (uv 0.13, poetry 2, pipenv 2026, tox 4, nox 2026; docs/security.md):

Rules
1. `uv run`, `poetry run` and `pipenv run` work with an environment that is there: VIRTUAL_ENV names it, and UV_NO_SYNC
   keeps uv from installing anew when a patch has changed pyproject.toml. Without one they want the network: refused.
2. `tox` works with environments in `.tox` that hold the project's files (`package = editable`, `no_package`). One that
   holds an installed copy would test that copy, or want the network to build another: refused. The same for `nox -R`
   and `.nox`; `nox` without `-R` installs again: refused.
3. A refusal has the line to write instead.
"""

from __future__ import annotations

import configparser
import os
import shlex
from glob import glob

from orchestra.commands.environment import Environment, is_venv
from orchestra.commands.installation import plain, text
from orchestra.commands.package import package_copy

OFFLINE = {"UV_NO_SYNC": "1", "UV_OFFLINE": "1"}  # variables of a command that has an environment and no network
# The same for a project of node: npx fails at once, and does not ask an unreachable registry for more than a minute.
NODE_OFFLINE = {"npm_config_offline": "true"}
_INSTALL = {
    "uv": "uv sync",
    "poetry": "poetry install",
    "pipenv": "PIPENV_VENV_IN_PROJECT=1 pipenv install --dev",
}


def refused_runner(argv: tuple[str, ...], environment: Environment, workspace: str) -> str:
    """Why this check cannot work in the sandbox, with the line to write instead; empty if it can."""
    name = os.path.basename(argv[0])
    if name in _INSTALL and argv[1:2] == ("run",) and not environment:
        return f"{name} run makes an environment when there is none, which needs a network. First: {_INSTALL[name]}"
    if name == "tox" and not _only_asks(argv):
        return _refused_tox(argv, workspace)
    if name == "nox" and not _only_asks(argv):
        return _refused_nox(argv, workspace)
    return ""


def _only_asks(argv: tuple[str, ...]) -> bool:
    """Whether a command only prints something about the program itself."""
    return bool({"--version", "--help", "-h", "-l", "--list", "list", "config"} & set(argv[1:]))


def _refused_tox(argv: tuple[str, ...], workspace: str) -> str:
    instead = f"Write the command that it runs: --check {shlex.quote(_tox_command(workspace))}"
    made = _environments(f"{workspace}/.tox")
    if not made:
        return f"tox makes its environments anew, which needs a network. {instead}, or run tox once yourself"
    if copy := _copy_in(made, workspace):
        return f"tox would test the copy installed in {copy}, not your files. {instead}, or set package = editable"
    return ""


def _refused_nox(argv: tuple[str, ...], workspace: str) -> str:
    line = shlex.join((argv[0], "-R", *argv[1:]))
    kept = "-R" in argv or ("--no-install" in argv and {"-r", "--reuse-existing-virtualenvs"} & set(argv))
    if not kept:
        return (
            f"nox installs into its environments each time, which needs a network. Write: --check {shlex.quote(line)}"
        )
    made = _environments(f"{workspace}/.nox")
    if not made:
        return "nox has no environments yet, and making them needs a network: run nox once yourself"
    if copy := _copy_in(made, workspace):
        return f'nox would test the copy installed in {copy}, not your files: session.install("-e", "."), then run nox'
    return ""


def _environments(folder: str) -> list[str]:
    return [place for place in sorted(glob(f"{plain(folder)}/*")) if is_venv(place)]


def _copy_in(environments: list[str], workspace: str) -> str:
    """The first of these environments that holds an installed copy of the project's package; empty if none does."""
    for place in environments:
        if package_copy(Environment(folder=place, real=os.path.realpath(place)), workspace).kind == "copy":
            return os.path.relpath(place, workspace)
    return ""


def _tox_command(workspace: str) -> str:
    """The first command of tox's [testenv], if it can be typed as it is; else an example."""
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text(f"{workspace}/tox.ini", 1 << 20))
    except configparser.Error:
        return "pytest -q"
    lines = parser.get("testenv", "commands", fallback="").strip().splitlines()
    words = lines[0].split(" {posargs")[0].strip() if lines else ""
    return words if words and "{" not in words else "pytest -q"
