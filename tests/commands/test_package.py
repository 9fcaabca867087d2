"""Which copy of the project's package checks get: installations as pip, uv, poetry and setup.py develop leave them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestra.commands.described import environment_lines
from orchestra.commands.environment import Choice, find_environment
from orchestra.commands.package import PackageCopy, package_copy, package_name
from orchestra.commands.tools import Toolbox

SITE = ".venv/lib/python3.11/site-packages"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "work"
    (place / SITE).mkdir(parents=True)
    (place / ".venv/bin").mkdir()
    (place / ".venv/bin/python").symlink_to("/usr/bin/python3")
    (place / ".venv/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    (place / "pyproject.toml").write_text('[project]\nname = "My.Pkg"\n')
    (place / "src/my_pkg").mkdir(parents=True)
    return place


def installed(work: Path, url: str = "", *, editable: bool = False) -> Path:
    info = work / SITE / "my_pkg-1.0.dist-info"
    info.mkdir()
    if url:
        (info / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {"editable": editable}}))
    return info


def copy(work: Path) -> PackageCopy:
    return package_copy(find_environment(str(work), {}, own=""), str(work))


def line(work: Path) -> str:
    used = find_environment(str(work), {}, own="")
    [said] = environment_lines(Toolbox("/usr/bin", work, environment=used, own=""), str(work))
    return said


def test_an_editable_installation_is_the_projects_files(work: Path) -> None:
    installed(work, f"file://{work}", editable=True)
    assert copy(work).kind == "files"
    assert line(work) == "environment: .venv, Python 3.11.7; My.Pkg is your files"


@pytest.mark.parametrize("how", ["index", "folder"])
def test_an_installed_copy_is_a_warning(work: Path, how: str) -> None:
    installed(work, f"file://{work}" if how == "folder" else "")
    assert copy(work) == PackageCopy("copy", "My.Pkg", str(work / SITE), sure=True)
    said = line(work)
    assert "WARNING: checks get the copy of My.Pkg installed in .venv/lib/python3.11/site-packages" in said
    assert "patches will not be tested. Make it yours: .venv/bin/python -m pip install -e ." in said


def test_a_copy_beside_a_package_in_the_root_may_or_may_not_be_used(work: Path) -> None:
    installed(work)
    (work / "my_pkg").mkdir()
    assert not copy(work).sure and "checks may get the copy" in line(work)


def test_an_editable_installation_of_another_folder_is_a_warning(work: Path, tmp_path: Path) -> None:
    installed(work, f"file://{tmp_path}/other%20one", editable=True)
    assert copy(work) == PackageCopy("elsewhere", "My.Pkg", f"{tmp_path.resolve()}/other one")
    assert "WARNING: My.Pkg is the files in" in line(work)


def test_path_files_and_egg_links_count(work: Path) -> None:
    info = installed(work)
    (work / SITE / "my_pkg.pth").write_text(f"{work}/src\n")
    assert copy(work).kind == "files"
    (work / SITE / "my_pkg.pth").write_text("import os; os.system('no')\n/somewhere/else\n")
    assert copy(work).kind == "copy"
    info.rmdir()
    (work / SITE / "My-Pkg.egg-link").write_text(f"{work}/src\n.\n")
    assert copy(work).kind == "files"


def test_pytest_may_put_the_projects_files_first(work: Path) -> None:
    installed(work)
    (work / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    assert copy(work).kind == "files"


def test_a_package_that_is_not_installed_or_has_no_name_is_not_told(work: Path) -> None:
    assert copy(work).kind == "absent" and line(work) == "environment: .venv, Python 3.11.7"
    (work / "pyproject.toml").unlink()
    assert copy(work).kind == "unnamed"


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("pyproject.toml", '[project]\nname = "one"\n', "one"),
        ("pyproject.toml", '[tool.poetry]\nname = "two"\n', "two"),
        ("setup.cfg", "[metadata]\nname = three\n", "three"),
        ("setup.py", "from setuptools import setup\nsetup(\n    name='four',\n)\n", "four"),
        ("setup.py", "setup(name=NAME)\n", ""),
        ("pyproject.toml", "not [ toml", ""),
        ("pyproject.toml", "project = 1\ntool = 2\n", ""),
        ("setup.cfg", "no section\n", ""),
    ],
)
def test_the_name_of_the_package(tmp_path: Path, file: str, text: str, name: str) -> None:
    (tmp_path / file).write_text(text)
    assert package_name(str(tmp_path)) == name


@pytest.mark.parametrize("text", ["[]", "{", '{"dir_info": 1}', '{"url": "http://x", "dir_info": {"editable": true}}'])
def test_odd_metadata_is_no_trouble(work: Path, text: str) -> None:
    (installed(work) / "direct_url.json").write_text(text)
    assert copy(work).kind in ("copy", "elsewhere")


def test_who_chose_no_environment_is_not_told_to_make_one(work: Path) -> None:
    used = find_environment(str(work), {}, Choice("none", "--environment"), own="")
    [said] = environment_lines(Toolbox("/usr/bin", work, environment=used, own=""), str(work))
    assert said.startswith("environment: none (--environment); ") and "To make one" not in said


def test_why_none_of_two_environments_is_used_is_told(work: Path) -> None:
    (work / "venv/bin").mkdir(parents=True)
    (work / "venv/pyvenv.cfg").touch()
    assert line(work).startswith("environment: both .venv and venv are environments, so neither is used")
