"""Which run a command is about: by number, a part of its id, words of its goal, or the run that is meant."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestra.app import App
from tests.support.inside import Said, said
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, Project, ask, records, role

REPLIES = (role("planner", PLAN), role("developer", RIGHT_PATCH))


def waiting(path: Path, *goals: str) -> Project:
    """A project with one run for each goal; each waits for an approval."""
    project = Project(path, *(reply for _ in goals for reply in REPLIES))
    for goal in goals:
        code = ["--check", "true", "--no-input", "--no-baseline"]
        begun = said(path, "loop", goal, *code, "--provider", f"scripted:{project.script}")
        assert begun.code == 3, begun.err
    return project


def shown(project: Project, *reference: str) -> Said:
    return said(project.path, "show", *reference)


def test_a_run_is_found_by_number_parts_of_its_id_and_words_of_its_goal(tmp_path: Path) -> None:
    project = waiting(tmp_path / "p", "fix the parser", "받침에 맞게 인사하기", "fix the lexer")
    parser, greeting, lexer = (one.id for one in sorted(project.runs, key=lambda f: ("lex" in f.id, "받" in f.id)))
    assert greeting.endswith("_loop_받침에-맞게-인사하기")
    for reference, run in (
        *(("1", parser), ("@1", parser), ("2", greeting), ("@3", lexer)),
        *((parser, parser), ("the-parser", parser), ("parser", parser), (parser[:-1], parser)),
        *(("인사하기", greeting), ("받침에 인사", greeting), ("THE lexer", lexer), ("last", lexer)),
    ):
        assert f"run        {run}" in shown(project, reference).out, reference
    for reference in ("fix", "the"):
        both = shown(project, reference)
        assert both.code == 2 and f"@1 {parser}  fix the parser" in both.err and f"@3 {lexer}" in both.err, both.err
    for reference in ("4", "@0", "arser", "rser", "#1", "parser lexer", "9" * 40):
        assert shown(project, reference).code == 2, reference
    assert "empty" in shown(project, "").err and shown(project, "  ").code == 2


def test_numbers_are_stable_shown_and_never_given_again(tmp_path: Path) -> None:
    project = waiting(tmp_path / "p", "one", "two")
    assert [line.split()[0] for line in said(project.path, "runs").out.splitlines()] == ["no", "@1", "@2"]
    assert [said(project.path, "cancel", number).code for number in ("1", "2")] == [0, 0]
    assert said(project.path, "clean", "--keep", "0", "--yes").code == 0
    project.write_script(*REPLIES)
    rest = ("--check", "true", "--no-input", "--no-baseline", "--provider", f"scripted:{project.script}")
    assert said(project.path, "loop", "three", *rest, "--yes").code == 0
    [row] = records(said(project.path, "runs", "--json").out)
    assert row["number"] == 3
    fork = said(project.path, "fork", "3", "--at", "1", "--no-drive")
    assert fork.code == 0 and "run        " + fork.out.strip() in shown(project, "4").out


def test_a_foreign_run_takes_no_number_from_ours(tmp_path: Path) -> None:
    """An unpacked archive may have any number and any goal: it must not stand in for the person's own run."""
    project = waiting(tmp_path / "p", "mine")
    [own] = project.runs
    other = own.path.with_name(own.id.replace("mine", "theirs"))
    other.mkdir()
    journal = own.events.read_text().replace(own.id, other.name).replace('"mine"', '"mine too"')
    (other / "events.ndjson").write_text(journal)
    for reference in ("1", "mine"):
        assert f"run        {own.id}" in shown(project, reference).out
    assert said(project.path, "approve", "--no-drive").code == 0  # the only one that waits: the foreign one does not


def test_without_a_run_the_one_that_waits_is_meant_else_the_newest(tmp_path: Path) -> None:
    project = waiting(tmp_path / "p", "first", "second")
    look = shown(project)
    assert look.code == 0 and "second" in look.out and "orchestra: run @2 " in look.err  # both wait: the newest
    for command in (["approve"], ["reject", "--reason", "no"], ["cancel"], ["resume"]):
        several = said(project.path, *command)
        assert several.code == 2 and "2 runs fit" in several.err and "@1 " in several.err and "@2 " in several.err
    assert [App(project.path).runs.summary(one).fold.state.status for one in project.runs] == ["awaiting_approval"] * 2
    assert said(project.path, "cancel", "2").code == 0
    look = shown(project)
    assert look.code == 0 and look.out.startswith("first"), "only this one waits, and another is newer"
    done = said(project.path, "approve")
    assert done.code == 0 and "orchestra: run @1 " in done.err
    for command, why in ((["approve"], "no run here waits"), (["cancel"], "every run here has ended")):
        assert why in said(project.path, *command).err
    assert said(project.path, "diff").code == 0 and said(project.path, "answer", "blue").code == 2


def test_an_answer_needs_no_run_where_one_question_is_open(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", ask("which colour?")))
    assert project.loop("--no-baseline").returncode == 3
    assert said(project.path, "answer", "푸른색", "--no-drive").code == 0
    again = said(project.path, "answer", "green")
    assert again.code == 2 and "no run here asks a question" in again.err
    many = said(project.path, "answer", "a", "b", "c")
    assert many.code == 2 and "too many words" in many.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_where_the_shell_looks_and_nowhere_else(tmp_path: Path, shell: str) -> None:
    project = Project(tmp_path / "p")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("mine\n")
    done = project.run("completion", shell, "--install", env={"HOME": str(home)})
    assert done.returncode == 0, done.stderr
    [written] = [path for path in home.rglob("*") if path.is_file() and path.name != ".bashrc"]
    assert str(written) in done.stdout and "_ORCHESTRA_COMPLETE" in written.read_text()
    assert (home / ".bashrc").read_text() == "mine\n"
    written.write_text("another program's\n")
    refused = project.run("completion", shell, "--install", env={"HOME": str(home)})
    assert refused.returncode == 2 and written.read_text() == "another program's\n"


def test_tab_completes_runs_providers_and_workflows(tmp_path: Path) -> None:
    project = waiting(tmp_path / "p", "고치기", "fix it")

    def completed(*words: str) -> list[str]:
        env = {**os.environ, "COMP_WORDS": " ".join(("orchestra", *words)), "COMP_CWORD": str(len(words))}
        env["_ORCHESTRA_COMPLETE"] = "bash_complete"
        done = subprocess.run([PROGRAM], cwd=project.path, env=env, capture_output=True, text=True)
        assert done.stderr == "", done.stderr
        return [line.partition(",")[2] for line in done.stdout.splitlines() if line]

    ids = [one.id for one in sorted(project.runs, key=lambda f: "고" in f.id)]
    assert completed("show", "20") == ids and completed("approve", "고치") == ids[1:]
    assert completed("show", "@") == ["@2", "@1"]
    assert project.run("undo", ids[1], "--json").returncode == 0  # a run too, and `고치` is in its id
    assert completed("undo", "고치") == ids[1:]
    assert completed("show", "_loop_") == ["_loop_", *ids]  # what was typed stays: it is in both
    assert completed("loop", "x", "--provider", "anth") == ["anthropic"]
    assert "evidence" in completed("start", "e")
    (project.path / "orchestra.config.yaml").write_text("no: [such\n")
    assert completed("show", "20") == []


def test_tab_in_bash_completes_words_that_bash_itself_splits(tmp_path: Path) -> None:
    project = waiting(tmp_path / "p", "고치기", "fix it")
    script = project.run("completion", "bash").stdout

    def replies(replaced: str, *words: str) -> list[str]:
        """What bash puts in the place of `replaced`, the end of the line. `words` is how it splits the line."""
        line = " ".join(words).replace("@ ", "@")
        told = f'COMP_LINE=$2; replaced=$1; shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))\n{script}'
        told += '_orchestra_completion "$0" "$replaced"; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "--norc", "-c", told, PROGRAM, replaced, line, *words],
            cwd=project.path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert replies("@", "orchestra", "show", "@") == ["@2", "@1"]
    assert replies("@2", "orchestra", "show", "@", "2") == replies("@2", "orchestra", "show", "@2") == ["@2"]
    assert replies("고", "orchestra", "show", "고") == [one.id for one in project.runs if "고" in one.id]
    goal = ("orchestra", "loop", '"a b"', "--provider")
    assert replies("anth", *goal, "anth") == ["anthropic"]
    assert "local" in replies("", *goal, "")


@pytest.mark.parametrize("words", [("more", "last"), ("more", "@1"), ("more", "1"), ("answer", "last")])
def test_a_run_alone_is_no_goal_and_no_answer(tmp_path: Path, words: tuple[str, ...]) -> None:
    project = waiting(tmp_path / "p", "fix it")
    done = said(project.path, *words)
    assert done.code == 2 and f"{words[1]} names a run" in done.err and len(project.runs) == 1


def test_mistakes_on_the_command_line_look_like_all_others(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    for words in (["lop"], ["loop", "x", "--nope"], ["loop", "x", "--max-fixes", "x"], ["inspect"], ["show", "a", "b"]):
        done = said(project.path, *words)
        assert done.code == 2 and done.err.startswith("orchestra: ") and "Usage:" not in done.err, done.err
        assert done.err.count("\n") == 1 and "--help" in done.err


def test_help_is_grouped_and_has_the_names_people_try(tmp_path: Path) -> None:
    project = waiting(tmp_path / "p", "one")
    help = said(project.path, "--help").out
    assert [line for line in help.splitlines() if line in ("Start:", "Decide:", "Look:", "Set up:", "More:")] == [
        *("Start:", "Decide:", "Look:", "Set up:")
    ]
    assert said(project.path, "help", "loop").out == said(project.path, "loop", "--help").out
    assert said(project.path, "list").out == said(project.path, "runs").out
    assert said(project.path, "status", "1").out == said(project.path, "show", "1").out
    assert said(project.path, "help", "nothing").code == 2


def test_runs_shows_when_how_long_and_what_it_cost(tmp_path: Path) -> None:
    project = waiting(tmp_path / "p", "one")
    seoul = {"TZ": "Asia/Seoul"}
    header, row = project.run("runs", env=seoul).stdout.splitlines()
    assert header.split() == ["no", "run", "status", "started", "took", "cost", "goal"]
    assert " KST " in row and " s  $0.0000  one" in row
    for command in ("show", "report"):
        assert " KST" in project.run(command, env=seoul).stdout
    assert said(project.path, "cancel").code == 0
    assert " KST · 1 plan done" in project.run("watch", env=seoul).stdout
    assert "KST" not in project.runs[0].events.read_text() + project.runs[0].report.read_text()
