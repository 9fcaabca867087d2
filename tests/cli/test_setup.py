"""Where the completions of a shell are put."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.cli.setup import completion_file


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
