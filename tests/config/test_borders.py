"""What a configuration cannot open to tools, because orchestra itself, or the sandbox, stands on it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import orchestra
from orchestra.commands.scratch import Scratch, scratch_root
from orchestra.config.borders import Place, wrong_read, wrong_runs, wrong_target, wrong_write


def place(tmp_path: Path, **environ: str) -> Place:
    (tmp_path / "project").mkdir(exist_ok=True)
    (tmp_path / "home").mkdir(exist_ok=True)
    return Place.of(tmp_path / "project", "./runs", {"HOME": str(tmp_path / "home"), **environ})


@pytest.mark.spec("S2-74", "S2-75")
@pytest.mark.parametrize("entry", ["~/.cache", "~/.cache/orchestra", "~/.cache/orchestra/some-run/task", "/var/tmp"])
def test_the_scratch_folder_is_opened_to_nobody(tmp_path: Path, entry: str) -> None:
    where = place(tmp_path)
    assert "orchestra keeps there what commands wrote" in wrong_write(entry, where)
    assert "orchestra keeps there what commands wrote" in wrong_read(entry, where)


def test_the_scratch_folder_is_where_the_variable_says(tmp_path: Path) -> None:
    where = place(tmp_path, XDG_CACHE_HOME=str(tmp_path / "caches"))
    (tmp_path / "link").symlink_to(tmp_path / "caches")
    assert "orchestra keeps there" in wrong_write(str(tmp_path / "caches"), where)
    assert "orchestra keeps there" in wrong_write(str(tmp_path / "link"), where)
    (tmp_path / "caches" / "pip").mkdir(parents=True)
    assert wrong_write(str(tmp_path / "caches" / "pip"), where) == ""


@pytest.mark.spec("S2-75")
def test_orchestras_own_installation_is_not_written(tmp_path: Path) -> None:
    package = Path(orchestra.__file__).parent
    for folder in (package, package.parent, package / "core", Path(sys.prefix), Path(sys.prefix, "lib")):
        assert wrong_write(str(folder), place(tmp_path)) != "", folder
    assert "orchestra itself runs from there" in wrong_write(str(package), place(tmp_path))


@pytest.mark.spec("S2-136")
def test_layers_are_believed_within_the_runs_own_scratch_only(tmp_path: Path) -> None:
    where = place(tmp_path)
    keys = tmp_path / "home" / ".ssh"
    keys.mkdir()
    root = scratch_root(tmp_path / "project", {"XDG_CACHE_HOME": str(tmp_path / "caches")})
    scratch, other = (Scratch(root, run, Path(where.base)) for run in ("run-1", "run-2"))
    own, foreign = scratch.fresh("a") / "up", other.fresh("a") / "up"
    own.mkdir()
    foreign.mkdir()
    (own.parent / "link").symlink_to(keys)
    hostile = [keys, foreign, own.parent / "link", own / "../../../../home/.ssh", Path(f"{own}\0"), own.parent.parent]
    scratch.remember("a", (*hostile, own))
    assert scratch.layers("a") == (own,)


@pytest.mark.spec("S2-74")
@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("./", ""),
        ("../beside", ""),
        ("..", "the workspace lies in it"),
        ("/", "it is everything there is"),
        ("~", "your home folder is in it"),
        ("/proc/self", "sockets, devices and other processes"),
        ("/etc/ssl", "a command has an /etc of its own"),
        ("  ", "it is empty"),
        ("a\nb", "characters that no path has"),
    ],
)
def test_what_may_be_read(tmp_path: Path, entry: str, why: str) -> None:
    (tmp_path / "top" / "project").mkdir(parents=True)
    where = Place.of(tmp_path / "top" / "project", "./runs", {"HOME": str(tmp_path / "home")})
    said = wrong_read(entry, where)
    assert why in said and bool(said) is bool(why)


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ("./runs", ""),
        ("../kept", ""),
        ("./", "a folder of their own"),
        ("..", "a folder of their own"),
        ("./.git/runs", "a folder of their own"),
        ("/dev/shm/x", "sockets, devices"),
        ("", "it is empty"),
    ],
)
def test_where_runs_may_be_kept(tmp_path: Path, runs: str, why: str) -> None:
    place(tmp_path)
    where = Place.of(tmp_path / "project", runs, {"HOME": str(tmp_path / "home")})
    said = wrong_runs(runs, where)
    assert why in said and bool(said) is bool(why)


def test_a_name_is_mapped_to_an_executable_file_only(tmp_path: Path) -> None:
    where = place(tmp_path)
    for name, mode in (("program", 0o755), ("text", 0o644)):
        (tmp_path / "project" / name).write_text("#!/bin/sh\n")
        (tmp_path / "project" / name).chmod(mode)
    (tmp_path / "project" / "folder").mkdir(mode=0o755)
    assert wrong_target("./program", where) == ""
    assert "is not a program" in wrong_target("./text", where)  # not executable
    assert "is not a program" in wrong_target("./folder", where)  # a folder may be entered, and is no file
    assert "there is no" in wrong_target("./none", where)
