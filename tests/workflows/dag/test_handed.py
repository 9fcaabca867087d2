"""What a task hands over reaches the tasks that depend on it, for reading; plans and denials in words."""

from __future__ import annotations

from pathlib import Path

from tests.support.tasks import Tasks, step

LEAVE = "import os; open(os.environ['ORCHESTRA_ARTIFACTS'] + '/{}', 'w').write('{}')"
LOOK = """
import os
top = os.environ.get('ORCHESTRA_INPUTS', '')
for place, _, names in sorted(os.walk(top)):
    for name in sorted(names):
        print(os.path.relpath(place, top), name, open(os.path.join(place, name)).read())
for what in ('make/new', 'make/수.txt'):
    try:
        open(os.path.join(top, what), 'w')
        print('written')
    except OSError as error:
        print(type(error).__name__)
"""


def test_files_of_the_tasks_before_are_there_for_reading(tmp_path: Path) -> None:
    tasks = Tasks(
        tmp_path / "p",
        step("make", code=LEAVE.format("수.txt", "일곱")),
        step("other", code=LEAVE.format("theirs", "8")),
        step("nothing", code="pass"),
        step("see", "make", "nothing", code=LOOK),
        step("later", "see", code="import os; print(os.environ.get('ORCHESTRA_INPUTS', 'none'))"),
    )
    assert tasks.dag().returncode == 0, tasks.dag().stderr
    assert tasks.output("see").splitlines() == ["make 수.txt 일곱", "OSError", "OSError"]
    assert tasks.output("later") == "none\n", "what a task before the one before left is not handed on"


def test_another_process_hands_over_what_an_earlier_one_took(tmp_path: Path) -> None:
    """The process that drives the run now did not run the first task: a retry, as after a kill."""
    tasks = Tasks(
        tmp_path / "p",
        step("make", code=LEAVE.format("수.txt", "일곱")),
        step("see", "make", code=LOOK + "raise SystemExit(os.path.exists('wait'))", constraints={"max_retries": 0}),
    )
    (tasks.path / "wait").touch()
    assert tasks.dag().returncode == 1
    (tasks.path / "wait").unlink()
    assert tasks.run("retry", "last", "--no-input").returncode == 0
    newest = max(tasks.runs, key=lambda one: one.id)
    assert (newest.artifacts / "see" / "stdout.txt").read_text().startswith("make 수.txt 일곱\n")


def test_a_file_that_was_changed_meanwhile_is_not_handed_over(tmp_path: Path) -> None:
    tasks = Tasks(
        tmp_path / "p",
        step("make", code=LEAVE.format("a", "7")),
        step("see", "make", code=LOOK + "raise SystemExit(1)", constraints={"max_retries": 0}),
    )
    assert tasks.dag().returncode == 1
    (tasks.folder.artifacts / "make" / "files" / "a").write_text("8")
    retried = tasks.run("retry", "last", "--no-input")
    assert retried.returncode == 1, retried.stderr
    newest = max(tasks.runs, key=lambda one: one.path.stat().st_mtime)
    shown = tasks.run("show", newest.id).stdout
    assert "see failed" in shown


def test_a_task_hangs_below_one_that_it_depends_on(tmp_path: Path) -> None:
    """S2: the tree had `see` below `web`, and it depends on `make`."""
    tasks = Tasks(
        tmp_path / "p",
        *(step(name, tool="echo") for name in ("make", "bad", "web")),
        step("see", "make", tool="echo"),
        step("after-bad", "bad", tool="echo"),
        step("last", "web", "see", tool="echo"),
    )
    done = tasks.run("dag", "x", "--provider", f"scripted:{tasks.script}", "--no-input", "--plan-only")
    tree = [line.rstrip() for line in done.stderr.splitlines() if line.rstrip().endswith("echo")]
    named = [line.split("  ")[0] if not line.startswith(" ") else line[: line.index("read")].rstrip() for line in tree]
    assert named == [
        "  make",
        "  └─ see        make",
        "     └─ last    web, see",
        "  bad",
        "  └─ after-bad  bad",
        "  web",
    ]


def test_a_task_without_a_network_says_so_and_what_to_do(tmp_path: Path) -> None:
    code = "import urllib.request as u; u.urlopen('http://elsewhere.example')"
    tasks = Tasks(tmp_path / "p", step("web", code=code, constraints={"max_retries": 0}))
    done = tasks.run("dag", "x", "--provider", f"scripted:{tasks.script}", "--no-input")
    [line] = [line for line in done.stderr.splitlines() if "web failed" in line]
    assert "the network (this task has none)" in line and '"net": "allow"' in line and "allow_domains" in line
    assert "NETWORK_ACCESS_DENIED" in tasks.run("trace", "last").stdout


def test_a_domain_that_is_not_allowed_is_named_with_the_setting(tmp_path: Path) -> None:
    code = "import urllib.request as u; u.urlopen('http://elsewhere.example')"
    net = {"sandbox": {"net": "allow"}, "max_retries": 0}
    config = {"policies": {"allow_network": True}, "security": {"net": {"allow_domains": ["example.org"]}}}
    tasks = Tasks(tmp_path / "p", step("web", code=code, constraints=net), config=config)
    done = tasks.run("dag", "x", "--provider", f"scripted:{tasks.script}", "--no-input", "--yes")
    [line] = [line for line in done.stderr.splitlines() if "web failed" in line]
    assert "refused: elsewhere.example:80 (not in allow_domains" in line and "name the domain" in line
