"""Where the command line finds a person's own workflow: the configuration, with consent, and installed packages."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import pytest

from orchestra.app import App
from orchestra.core import installed
from orchestra.core.context import Context
from orchestra.patch.safety import guarded
from orchestra.workflows.description import Workflow
from orchestra.workflows.guard import code_folders
from orchestra.workflows.own.definition import DEFINED
from orchestra.workflows.own.load import own_workflow
from tests.library.support import configured
from tests.patch.support import changes_of
from tests.support.core import live
from tests.support.project import Project, new_file, records

GREET = """\
from __future__ import annotations
from pathlib import Path
import orchestra
Path("IMPORTED").touch()


@orchestra.workflow
async def greet(
    ctx: orchestra.Context,
    name: str,
    times: int = 1,
    loud: bool = False,
    tags: list[str] = [],
    sizes: dict[str, float] | None = None,
) -> dict[str, object]:
    return {"name": name, "times": times, "loud": loud, "tags": tags, "sizes": sizes}
"""
NO_FOLDER: list[object] = []


def test_code_that_the_configuration_names_is_not_loaded_without_consent(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "greet.py").write_text(GREET)
    (project.path / "orchestra.config.yaml").write_text('workflows: {greet: "greet.py:greet"}\n')
    refused = project.run("start", "greet", "name=x")
    assert refused.returncode == 5
    assert "orchestra.config.yaml:1" in refused.stderr and "greet.py:greet" in refused.stderr
    assert "outside the sandbox" in refused.stderr
    for harmless in (("runs",), ("config", "validate"), ("inbox",), ("schema",), ("trust", "--show")):
        project.run(*harmless)
    assert not (project.path / "IMPORTED").exists()
    assert project.runs == NO_FOLDER
    assert project.run("trust", "--yes").returncode == 0
    done = project.run("start", "greet", "name=x")
    assert done.returncode == 0, done.stderr
    assert (project.path / "IMPORTED").exists()


def test_consent_is_for_this_file_and_function(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    configured(project, "greet", GREET)
    (project.path / "other.py").write_text(GREET)
    (project.path / "orchestra.config.yaml").write_text('workflows: {greet: "other.py:greet"}\n')
    assert project.run("start", "greet", "name=x").returncode == 5
    assert not (project.path / "IMPORTED").exists()


def test_values_are_read_as_the_types_of_their_parameters(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    configured(project, "greet", GREET)
    words = ("name=김 a=b", "times=10", "loud=true", 'tags=["가", "2"]', 'sizes={"a": 1.5}')
    done = project.run("start", "greet", *words, "--json", "--no-input")
    assert done.returncode == 0, done.stderr
    wanted = {"name": "김 a=b", "times": 10, "loud": True, "tags": ["가", "2"], "sizes": {"a": 1.5}}
    assert records(done.stdout)[-1]["result"] == wanted
    assert records(done.stdout)[0]["type"] == "launch"


def test_the_result_is_printed_on_standard_output_and_nothing_else(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    configured(project, "greet", GREET)
    done = project.run("start", "greet", "name=10")
    assert done.stdout == '{"name":"10","times":1,"loud":false,"tags":[],"sizes":null}\n'


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "workflow greet: name is missing. Its parameters: name, times"),
        (("name=x", "times=ten"), "times=ten: this is no int"),
        (("name=x", "tags=a,b"), "lists and objects are written as JSON"),
        (("name=x", "colour=red"), "no parameter 'colour'. Its parameters: name, times"),
        (("name",), "write KEY=VALUE"),
        (("name=x", 'sizes={"a": "b"}'), 'sizes={"a": "b"}: an entry: expected float, got str'),
        (("name=x", "name=y"), "name is given twice"),
        (("name=x", "tags=[]", "tags=[]"), "tags is given twice; write a list as JSON"),
    ],
)
def test_wrong_parameters_are_exit_code_2_and_leave_no_folder(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    project = Project(tmp_path / "p")
    configured(project, "greet", GREET)
    done = project.run("start", "greet", *words)
    assert done.returncode == 2
    assert why in done.stderr and "Traceback" not in done.stderr
    assert project.runs == NO_FOLDER


def test_a_script_that_cannot_be_used_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    """Also for a workflow that calls a model only after it has asked a person, or never."""
    project = Project(tmp_path / "p")
    configured(project, "greet", GREET)
    (project.path / "bad.yaml").write_text("replies:\n  - {error: {code: 서버, message: m}}\n")
    for script, why in (("bad.yaml", "bad.yaml:2: `replies.0.error.code`"), ("none.yaml", "none.yaml: No such file")):
        done = project.run("start", "greet", "name=x", "--provider", f"scripted:{script}")
        assert done.returncode == 2 and why in done.stderr
    assert project.runs == NO_FOLDER


def test_an_unknown_name_lists_those_there_are(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    configured(project, "greet", GREET)
    done = project.run("start", "gret", "name=x")
    assert done.returncode == 2
    assert "there are loop, dag, contracts, " in done.stderr and ", greet" in done.stderr
    assert not (project.path / "IMPORTED").exists()


BAD = {
    "missing": ("none.py:f", "No such file or directory"),
    "misspelt": ("greet.py:gret", "greet.py defines no `async def gret`; it has greet"),
    "no_python": ("broken.py:f", "broken.py is no Python"),
    "no_colon": ("greet.py", 'write "file.py:function"'),
    "no_file": ("greet:greet", 'write "file.py:function"'),
    "Big": ("greet.py:greet", "small letters, digits and _ only"),
}


@pytest.mark.parametrize("name", BAD)
def test_config_validate_names_the_line_of_each_mistake(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path / "p")
    (project.path / "greet.py").write_text(GREET)
    (project.path / "broken.py").write_text("async def f(:\n")
    target, why = BAD[name]
    project.configure(f'version: "1.0"\nworkflows:\n  greet: "greet.py:greet"\n  {name}: "{target}"\n')
    done = project.run("config", "validate")
    assert done.returncode == 2
    assert f"orchestra.config.yaml:4: `workflows.{name}`: " in done.stderr and why in done.stderr
    assert not (project.path / "IMPORTED").exists()


def test_a_name_of_orchestra_s_own_is_refused_with_its_line(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (project.path / "greet.py").write_text(GREET)
    project.configure('workflows:\n  loop: "greet.py:greet"\n')
    done = project.run("config", "validate")
    assert done.returncode == 2
    assert "orchestra.config.yaml:2" in done.stderr and "loop" in done.stderr


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys\nsys.exit(3)\n", "it ends the program (SystemExit: 3) (bad.py:2)"),
        ("import nosuchmodule\n", "ModuleNotFoundError: No module named 'nosuchmodule' (bad.py:1)"),
        ("def f(:\n", "SyntaxError"),
        ("import orchestra\n@orchestra.workflow\ndef f(ctx):\n    pass\n", "'f' is no `async def` function"),
        ("async def bad(ctx):\n    pass\n", "write @orchestra.workflow above its `async def`"),
        ("x = 1\n", "bad.py has no bad"),
        (
            "import orchestra\nfrom pathlib import Path\n@orchestra.workflow\nasync def bad(ctx, p: Path):\n    pass\n",
            "the parameters of bad must be text, numbers, lists, dicts or structs (p: Path)",
        ),
    ],
)
def test_a_module_that_cannot_be_loaded_is_one_clear_message(tmp_path: Path, code: str, why: str) -> None:
    project = Project(tmp_path / "p")
    configured(project, "bad", code)
    done = project.run("start", "bad")
    assert done.returncode == 2
    assert why in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert project.run("runs").returncode == 0  # the rest goes on


def test_two_files_may_have_a_function_of_the_same_name_and_a_file_the_name_of_a_module(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    code = (
        "from __future__ import annotations\nimport msgspec, orchestra\nclass Item(msgspec.Struct):\n    n: int = {0}\n"
    )
    code += "class Box(msgspec.Struct):\n    items: list[Item]\n@orchestra.workflow\n"
    code += "async def flow(ctx: orchestra.Context, box: Box) -> int:\n    return box.items[0].n + {0}\n"
    (project.path / "json.py").write_text(code.replace("{0}", "1"))
    (project.path / "second.py").write_text(code.replace("{0}", "2"))
    both = "import orchestra\n@orchestra.workflow\nasync def both(ctx: orchestra.Context) -> list[object]:\n"
    both += "    return [await ctx.call(n, n, items=[{}]) for n in ('one', 'two')]\n"
    (project.path / "both.py").write_text(both)
    project.configure("workflows: {one: 'json.py:flow', two: 'second.py:flow', both: 'both.py:both'}\n")
    done = project.run("start", "both")
    assert (done.returncode, done.stdout) == (0, "[2,4]\n"), done.stderr


def test_a_file_imports_its_neighbours_and_workflows_are_defined_once(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    child = (
        "import orchestra\n@orchestra.workflow\nasync def child(ctx: orchestra.Context) -> str:\n    return 'below'\n"
    )
    parent = "import orchestra\nfrom children import child\n@orchestra.workflow\n"
    parent += "async def parent(ctx: orchestra.Context) -> str:\n    return await ctx.call('c', child)\n"
    (project.path / "children.py").write_text(child)
    (project.path / "parents.py").write_text(parent)
    project.configure("workflows: {parent: 'parents.py:parent', child: 'children.py:child'}\n")
    done = project.run("start", "parent")
    assert (done.returncode, done.stdout) == (0, "below\n"), done.stderr


def test_a_file_outside_the_project_is_named_from_the_configuration(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "greet.py").write_text(GREET)
    project.configure('workflows: {greet: "../outside/greet.py:greet"}\n')
    assert project.run("config", "validate").returncode == 0
    done = project.run("start", "greet", "name=x")
    assert done.returncode == 0, done.stderr


def test_a_workflow_of_an_installed_package_needs_no_consent(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    site = tmp_path / "site"
    info = site / "greetings-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    points = "[orchestra.workflows]\ngreet = greetings:greet\nworse = greetings.worse:f\nloop = greetings:loop\n"
    (info / "entry_points.txt").write_text(points)
    package = site / "greetings"
    package.mkdir()
    (package / "__init__.py").write_text(GREET)
    (package / "worse.py").write_text("raise SystemExit('no')\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))}
    done = project.run("start", "greet", "name=김", "--role", "anybody=scripted", env=env)
    assert done.returncode == 0, done.stderr
    assert '"name":"김"' in done.stdout
    bad = project.run("start", "worse", env=env)
    assert bad.returncode == 2 and "workflow worse of an installed package (greetings.worse:f)" in bad.stderr
    unknown = project.run("start", "nothing", env=env)
    assert ", greet, worse" in unknown.stderr
    unused = "orchestra has a workflow loop of its own; that of an installed package (greetings:loop) is not used"
    assert unused in unknown.stderr
    ours = project.run("start", "loop", "goal=x", "--provider", "scripted:none.yaml", env=env)
    assert ours.stderr.count(unused) == 1 and unused not in project.run("start", "greet", env=env).stderr
    without = project.run("verify", "last")  # without the package
    assert without.returncode == 0, without.stdout


@pytest.mark.parametrize(
    ("file", "what"), [("self", "the code of workflow self"), ("helper", "code that workflow self")]
)
def test_the_code_of_a_workflow_is_changed_by_no_patch_without_a_person(tmp_path: Path, file: str, what: str) -> None:
    project = Project(tmp_path / "p")
    (project.path / "helper.py").write_text("import orchestra\n")
    code = """\
import orchestra
import helper
DIFF = '''diff --git a/FILE.py b/FILE.py
--- a/FILE.py
+++ b/FILE.py
@@ -1 +1,2 @@
 import orchestra
+import os
'''
@orchestra.workflow
async def self(ctx: orchestra.Context) -> bool:
    return (await ctx.patch(DIFF, "more rights")).applied
"""
    configured(project, "self", code.replace("FILE", file), "loop: {approval: never}")
    done = project.run("start", "self", "--no-input")
    assert done.returncode == 3, done.stderr
    assert f"{file}.py is {what}" in project.run("show", "last").stdout + done.stderr


WRITES = """\
import orchestra
@orchestra.workflow
async def writes(ctx: orchestra.Context, diff: str) -> bool:
    import helper  # not before the patch
    return (await ctx.patch(diff, "more rights")).applied
"""


@pytest.mark.parametrize(
    ("file", "held"),
    [
        ("flows/statistics.py", True),
        ("flows/pkg/__init__.py", True),
        ("flows/x.PTH", True),
        ("flows/x-1.dist-info/entry_points.txt", True),
        ("flows/notes.md", False),
        ("statistics.py", False),
    ],
)
def test_what_a_workflow_could_import_is_added_by_no_patch_without_a_person(
    tmp_path: Path, file: str, held: bool
) -> None:
    project = Project(tmp_path / "p")
    flows = project.path / "flows"
    flows.mkdir()
    (flows / "writes.py").write_text(WRITES)
    (flows / "helper.py").write_text("")
    project.configure('workflows: {writes: "flows/writes.py:writes"}\nloop: {approval: never}\n')
    done = project.run("start", "writes", f"diff={new_file(file, 'x')}", "--no-input")
    assert done.returncode == (3 if held else 0), done.stderr
    assert (f"{file} is code that workflow writes may import" in project.run("show", "last").stdout) is held


def test_a_loop_adds_no_module_beside_a_workflow_without_a_person(tmp_path: Path) -> None:
    """Nothing of the workflow is loaded in this process, and its file lies in the project itself."""
    project = Project(tmp_path / "p")
    configured(project, "greet", GREET)
    config, place = App(project.path).project.config, App(project.path).project.place
    assert code_folders(config, place)[str(project.path)] == "code that workflow greet may import"
    known = {".": "code"}
    [reason] = guarded(changes_of(new_file("src/statistics.py", "x")), {}, known)
    assert reason.startswith("src/statistics.py is code")


def test_an_optional_package_is_never_taken_from_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bubblewrap_none.py").write_text("raise SystemExit('loaded')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed.find_installed("bubblewrap_none") is not None
    monkeypatch.setattr(installed, "PROJECT_FOLDERS", {str(tmp_path)})
    assert installed.find_installed("bubblewrap_none") is None
    with pytest.raises(ImportError):
        installed.import_installed("bubblewrap_none")


FLOW = """\
import orchestra, sys
{0}
FIRST = sys.path[0]
@orchestra.workflow
async def {1}(ctx: orchestra.Context) -> str:
    return '{2}'
"""


async def begun(found: Workflow | None, ctx: Context) -> object:
    assert found is not None
    return (await found.flow(ctx, None)).result


def test_a_file_is_loaded_once_and_the_configuration_says_what_a_name_means(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    files = {"load_a": ("import load_b", "first_of_load", "a"), "load_b": ("", "second_of_load", "b")}
    for name, words in {**files, "json": ("", "third_of_load", "c")}.items():
        (project.path / f"{name}.py").write_text(FLOW.format(*words))
    names = {"first": "load_a.py:first_of_load", "second": "load_b.py:second_of_load"}
    names |= {"second_of_load": "json.py:third_of_load"}
    project.configure(f"workflows: {json.dumps(names)}\n")
    known, folder = App(project.path).project, str(project.path)
    for name, result in (("first", "a"), ("second", "b"), ("second_of_load", "c")):
        assert live(tmp_path / name, partial(begun, own_workflow(known, name)), {}) == result
    assert sys.modules["load_b"].second_of_load is DEFINED["second_of_load"]  # once, though named and imported
    assert sys.modules["json"] is json and folder == sys.modules["load_a"].FIRST
    assert sys.path[-1] == folder and sys.path.count(folder) == 1 and folder in installed.PROJECT_FOLDERS
    assert own_workflow(known, "none_of_load") is None
