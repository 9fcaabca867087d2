"""Real git repositories for tests, and one that runs a program wherever git would let it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

NAME, EMAIL = "홍 길동", "hong@example.com"
IDENTITY = {"GIT_AUTHOR_NAME": NAME, "GIT_AUTHOR_EMAIL": EMAIL}
_QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
_PROGRAMS = (
    "core.fsmonitor core.sshCommand core.editor core.pager core.askPass core.gitProxy core.alternateRefsCommand"
    " diff.external gpg.program gpg.ssh.program sequence.editor credential.helper interactive.diffFilter"
    " uploadpack.packObjectsHook alias.status alias.commit diff.evil.command diff.evil.textconv filter.evil.clean"
    " filter.evil.smudge filter.evil.process merge.evil.driver trailer.evil.command remote.origin.uploadpack"
)
_HOOKS = (
    "pre-commit prepare-commit-msg commit-msg post-commit post-checkout pre-push reference-transaction"
    " post-index-change fsmonitor-watchman applypatch-msg pre-applypatch post-applypatch"
)


def git(folder: Path, *words: str, check: bool = True) -> str:
    """Run git, without anybody's configuration but the repository's; its output."""
    who = {f"GIT_{kind}_{key}": value for kind in ("AUTHOR", "COMMITTER") for key, value in _WHO.items()}
    done = subprocess.run(
        ["git", "-c", "core.quotePath=false", *words],
        cwd=folder,
        env={**os.environ, **_QUIET, **who},
        capture_output=True,
        check=check,
    )
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


_WHO = {"NAME": "first", "EMAIL": "first@example.com"}


def repository(folder: Path) -> Path:
    """A repository of what is in the folder, with one commit."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def hostile(folder: Path, marker: Path) -> None:
    """Make a repository run a program that leaves the marker, in every way that its own files can ask for one."""
    trap = folder / ".git" / "trap"
    trap.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{marker}'\nexit 1\n")
    trap.chmod(0o755)
    lines = ["[user]\n\tname = evil\n\temail = evil@example.com\n[commit]\n\tgpgSign = true\n"]
    for key in _PROGRAMS.split():
        section, _, name = key.rpartition(".")
        group, _, sub = section.partition(".")
        head = f'[{group} "{sub}"]' if sub else f"[{group}]"
        lines.append(f"{head}\n\t{name} = {'!' if group in ('alias', 'credential') else ''}{trap}\n")
    lines.append(f"[core]\n\thooksPath = {folder}/.git/hooks\n[include]\n\tpath = {folder}/.git/more\n")
    (folder / ".git" / "more").write_text(f"[core]\n\tfsmonitor = {trap}\n")
    with (folder / ".git" / "config").open("a") as config:
        config.writelines(lines)
    (folder / ".git" / "hooks").mkdir(exist_ok=True)
    for name in _HOOKS.split():
        hook = folder / ".git" / "hooks" / name
        hook.write_text(trap.read_text())
        hook.chmod(0o755)
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    (folder / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
