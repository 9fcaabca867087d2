"""Where the completions of a shell are put; what `make install` writes, keeps and removes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestra.cli.setup import completion_file

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("shell", "file", "words"),
    [
        ("bash", "data/bash-completion/completions/orchestra", "source {}"),
        ("zsh", "data/zsh/site-functions/_orchestra", "before compinit"),
        ("fish", "config/fish/completions/orchestra.fish", "open a new shell"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_each_shell_finds_its_completions_where_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, file: str, words: str, named: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    places = {"data": tmp_path / ".local" / "share", "config": tmp_path / ".config"}
    for name in places:
        if named:
            places[name] = tmp_path / name
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(places[name]) if named else "")
    target, cure = completion_file(shell)
    kind, _, rest = file.partition("/")
    assert target == places[kind] / rest and words.format(target) in cure


_PYTHON = """#!/bin/sh
# Stands for Python with its venv and pip: what it installs prints $VERSION; without one, installing fails.
case "$*" in
  "-m venv --clear "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-m pip "*) [ -n "$VERSION" ] && printf '#!/bin/sh\\necho orchestra %s\\n' "$VERSION" > "${0%/*}/orchestra" &&
    chmod +x "${0%/*}/orchestra" ;;
esac
"""


def test_an_installation_is_kept_until_the_new_one_works_and_goes_without_a_trace(tmp_path: Path) -> None:
    python, data, link = tmp_path / "python", tmp_path / "share" / "orchestra", tmp_path / "bin" / "orchestra"
    python.write_text(_PYTHON)
    python.chmod(0o755)

    def script(what: str, version: str = "") -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.environ["PATH"], "PYTHON": str(python), "VERSION": version}
        words = ["sh", str(_ROOT / "install.sh"), what, str(data), str(link)]
        return subprocess.run(words, env=env, capture_output=True, text=True, check=False)

    assert script("install", "1").returncode == 0
    broken = script("install")
    assert broken.returncode != 0 and "orchestra 1, which was there, is kept" in broken.stderr
    assert [subprocess.check_output([link], text=True), os.listdir(data)] == ["orchestra 1\n", ["venv"]]
    assert "(orchestra 2)" in script("install", "2").stdout and os.listdir(data) == ["venv"]
    assert script("uninstall").returncode == 0
    assert (os.listdir(link.parent), os.listdir(data.parent)) == ([], [])
    link.write_text("another program's\n")
    assert [script("install", "3").returncode, link.read_text()] == [2, "another program's\n"]
