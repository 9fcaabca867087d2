"""Files that run by themselves or guard something: a change to one is shown to a person by name (sandbox.md §6, G1-2).

A table of names. A path is sensitive if its last name, or a folder on the way, is in it; names fold their case, because
asking once too often is the cheap mistake.
"""

from __future__ import annotations

import re
from itertools import pairwise

_FILES: dict[str, str] = {
    reason_name: reason
    for reason, names in {
        "git configuration": ".gitmodules .gitattributes .gitconfig .lfsconfig",
        "runs in CI": ".gitlab-ci.yml .travis.yml jenkinsfile azure-pipelines.yml bitbucket-pipelines.yml .drone.yml "
        "appveyor.yml .appveyor.yml .cirrus.yml .woodpecker.yml cloudbuild.yaml .pre-commit-config.yaml",
        "runs when a shell or editor starts": ".bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv "
        ".zprofile .zlogin .inputrc .envrc .vimrc .gvimrc .exrc .nvimrc .nvim.lua .emacs .dir-locals.el .tmux.conf "
        ".sublime-project .lvimrc .mcp.json",
        "runs when Python or its tests start": "conftest.py sitecustomize.py usercustomize.py",
        "package manager configuration": ".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs pip.conf pip.ini .pypirc .condarc "
        ".gemrc bunfig.toml nuget.config uv.toml poetry.toml gradle.properties .cargo-config .netrc",
        "orchestra's own configuration": "orchestra.config.yaml orchestra.config.yml",
    }.items()
    for reason_name in names.split()
}
_FOLDERS: dict[str, str] = {
    ".github/workflows": "runs in CI",
    ".github/actions": "runs in CI",
    ".circleci": "runs in CI",
    ".buildkite": "runs in CI",
    ".woodpecker": "runs in CI",
    ".gitlab": "runs in CI",
    ".ci": "runs in CI",
    ".husky": "runs as a git hook",
    ".githooks": "runs as a git hook",
    ".vscode": "runs when a shell or editor starts",
    ".idea": "runs when a shell or editor starts",
    ".vim": "runs when a shell or editor starts",
    ".devcontainer": "runs when a shell or editor starts",
    ".claude": "steers a coding agent",
    ".cursor": "steers a coding agent",
    ".cargo": "package manager configuration",
    ".bundle": "package manager configuration",
    ".mvn": "package manager configuration",
    ".yarn": "package manager configuration",
}
_SECURITY = re.compile(
    r"(?:o?auth(?!or(?:s|ed|ship)?(?:$|[^a-z]))|security|secret|credential|token|permission)"
)  # G1-2


def reason_to_ask(path: str) -> str:
    """Why a change to this path needs a person's eye, or an empty string."""
    parts = path.casefold().split("/")
    name = parts[-1]
    if reason := _FILES.get(name):
        return reason
    if name.endswith(".pth"):
        return "runs when Python or its tests start"
    folders = [*parts[:-1], *(f"{first}/{second}" for first, second in pairwise(parts))]
    for folder in folders:
        if reason := _FOLDERS.get(folder):
            return reason
    if name == ".env" or name.startswith(".env.") or name.endswith(".env"):
        return "holds environment secrets"
    if any(_SECURITY.match(word) for word in _words(path)):
        return "the path concerns security"
    return ""


def _words(path: str) -> list[str]:
    """The words of a path: `src/userTokens_v2.py` -> src, user, tokens, v2, py."""
    return [word.casefold() for word in re.split(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])", path)]
