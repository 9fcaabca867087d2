"""Pipes of a run: every stage is ruled, a grant binds the whole pipe, every exit code is journaled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path
from typing import Any

import pytest

import orchestra
from orchestra.commands.sandbox import RefusedCommand
from orchestra.core.command import NOT_GRANTED, RunCommand, Stage, command_digest
from orchestra.core.errors import PolicyError
from orchestra.policy.policy import Layer, Policy, Rule
from orchestra.policy.words import parse_line
from orchestra.workflows.gate import run_command
from tests.commands.test_run import shop
from tests.library.support import conforms
from tests.support.project import Project, until
from tests.worker.rig import marked

POLICY = Policy(
    layers=(
        Layer(
            whitelist=("ls", "cat", "sort"),
            rules=(
                Rule(prefix=(("ls",),), decision="ask", reason="look first"),
                Rule(prefix=(("cat",), ("secret",)), decision="forbid", reason="never"),
            ),
        ),
    )
)


def wanted(line: str, **changes: Any) -> RunCommand:
    first, *then = parse_line(line)
    fields: dict[str, Any] = {"timeoutMs": 20_000, "artifact": "command/x", "asker": "model", "keeps": "nothing"}
    return RunCommand(argv=first.argv, errors=first.errors, then=tuple(then), **{**fields, **changes})


def refused(tmp_path: Path, line: str, *granted: str) -> RefusedCommand:
    grants = {wanted(one).grant() for one in granted}
    found = shop(tmp_path).resolve(wanted(line), POLICY, granted=lambda command: command.grant() in grants)
    assert isinstance(found, RefusedCommand)
    return found


def test_the_strictest_ruling_of_all_stages_counts_and_names_its_stage(tmp_path: Path) -> None:
    forbidden = refused(tmp_path, "ls | cat secret | sort")
    assert forbidden.code == PolicyError.code
    assert "stage 2 of 3 (cat secret): RULE_FORBIDS: never" in forbidden.problem
    unlisted = refused(tmp_path, "cat a | perl -e 1")
    assert unlisted.code == PolicyError.code
    assert "stage 2 of 2 (perl -e 1): TOOL_WHITELIST_VIOLATION" in unlisted.problem


def test_a_rule_that_asks_needs_a_grant_of_the_whole_pipe(tmp_path: Path) -> None:
    for granted in ("ls", "cat a", "ls | cat", "cat a | ls", "cat a | sort", "cat a | ls -1", "cat a | ls 2>&1 | sort"):
        assert refused(tmp_path, "cat a | ls | sort", granted).code == NOT_GRANTED
    whole = wanted("cat a | ls | sort")
    found = shop(tmp_path).resolve(whole, POLICY, granted=lambda command: command.grant() == whole.grant())
    assert not isinstance(found, RefusedCommand)
    assert [tool.name for tool in found] == ["cat", "ls", "sort"]


def test_a_stage_whose_program_is_missing_is_named(tmp_path: Path) -> None:
    policy = Policy(layers=(Layer(whitelist=("cat", "no-such-tool")),))
    found = shop(tmp_path).resolve(wanted("cat a | no-such-tool"), policy, granted=lambda command: False)
    assert isinstance(found, RefusedCommand)
    assert found.missing
    assert "stage 2 of 2 (no-such-tool): " in found.problem


def test_what_is_granted_and_wanted_is_the_pipe_with_its_flags() -> None:
    lines = ["a", "a | b", "a b", "a 2>&1", "a 2>&1 | b", "a | b 2>&1", "a | b | c", "a 2>/dev/null"]
    assert len({wanted(line).grant() for line in lines}) == len(lines)
    assert len({wanted(line).identity() for line in lines}) == len(lines)
    assert wanted("a b").grant() == command_digest(("a", "b"), net=False)
    assert wanted("a", keep=12_000).identity() != wanted("a").identity()
    assert wanted("a", net=True).grant() == command_digest(("a",), net=True)


def test_a_pipe_of_four_programs_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at most 3 stages"):
        RunCommand(argv=("a",), then=(Stage(("b",)),) * 3, timeoutMs=1, artifact="x", asker="model", keeps="nothing")


# -- runs -------------------------------------------------------------------------------------------------------------


@orchestra.workflow
async def looking(ctx: orchestra.Context, line: str) -> orchestra.CommandOutcome:
    return await run_command(ctx._run, "look", wanted(line, keep=12_000))


def _outcome(project: Project, line: str) -> orchestra.CommandOutcome:
    done = orchestra.run(looking, line=line, project=project.path)
    assert done.exitCode == 0, done
    assert done.result is not None
    return done.result


TOOLS = "whitelist_tools: [cat, sort, head, ls, echo, python]\n"


def test_a_pipe_of_a_run_journals_every_code_and_keeps_both_streams_apart(tmp_path: Path) -> None:
    project = Project(tmp_path / "프로젝트")
    project.configure(TOOLS)
    (project.path / "큰 목록.txt").write_text("나\n가\n나\n", encoding="utf-8")
    outcome = _outcome(project, "cat '큰 목록.txt' '없음' | sort -u | head -1")
    assert outcome.command == "cat '큰 목록.txt' '없음' | sort -u | head -1"
    assert (outcome.exitCodes, outcome.exitCode, outcome.status, outcome.output) == ((1, 0, 0), 0, "pass", "")
    assert outcome.stdout == "가\n"
    assert "없음" in outcome.stderr
    begun = next(event for event in project.events() if event.type == "PHASE_STARTED" and event.payload.get("line"))
    assert begun.payload["line"] == outcome.command
    out, err = outcome.artifacts
    assert (project.folder.path / out.path).read_text(encoding="utf-8") == "가\n"
    assert "없음" in (project.folder.path / err.path).read_text(encoding="utf-8")
    conforms(project)


def test_one_command_has_its_code_in_the_list_too(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure(TOOLS)
    assert _outcome(project, "cat none 2>/dev/null").exitCodes == (1,)
    killed = _outcome(project, "python -c 'import os; os.kill(os.getpid(), 9)'")
    assert (killed.exitCodes, killed.exitCode) == ((137,), None)


@pytest.mark.parametrize("line", ["cat big", "cat big | cat", "cat big 2>&1"])
def test_at_most_so_many_characters_are_kept_of_hostile_output_and_all_of_it_in_the_artifact(
    tmp_path: Path, line: str
) -> None:
    project = Project(tmp_path / "p")
    project.configure(TOOLS)
    data = "가\x1b[31m\x07\u202e".encode() * 5000 + b"\x00\xff" * 9000
    (project.path / "big").write_bytes(data)
    outcome = _outcome(project, line)
    assert 11_900 <= len(outcome.stdout) <= 12_100
    assert "\x1b" not in outcome.stdout and "\x07" not in outcome.stdout and "\u202e" not in outcome.stdout
    assert f"[… cut: {len(data)} bytes in all …]" in outcome.stdout
    assert (project.folder.path / outcome.artifacts[0].path).read_bytes() == data


def test_a_rule_that_asks_shows_the_whole_pipe_and_runs_it_once_granted(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure("rules: [{prefix: [ls], decision: ask, reason: look first}]\n")
    waiting = orchestra.run(looking, line="echo a | ls calc.py", project=project.path)
    assert waiting.message == f"echo a | ls calc.py (orchestra approve {waiting.runId})"
    assert project.run("approve", "last", "--no-drive").returncode == 0
    done = orchestra.resume("last", looking, project=project.path)
    assert done.result is not None and done.result.stdout == "calc.py\n"
    conforms(project)


def test_a_driver_that_is_killed_in_the_middle_of_a_pipe_leaves_nothing_and_the_run_goes_on(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure(TOOLS)
    mark = f"mark-{uuid.uuid4().hex}"
    script = tmp_path / "drive.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        import orchestra
        from pathlib import Path
        from tests.commands.test_pipes import lingering
        orchestra.run(lingering, mark={mark!r}, project=Path({str(project.path)!r}))
        """)
    )
    driver = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: len(marked(mark)) >= 3)  # the shell, the program of each stage
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    until(lambda: not marked(mark))
    (project.path / "go").write_text("")
    done = orchestra.resume("last", lingering, project=project.path)
    assert done.exitCode == 0, done
    assert done.result is not None
    assert (done.result.exitCodes, done.result.stdout) == ((0, 0), "done\n")
    assert marked(mark) == []
    conforms(project)


@orchestra.workflow
async def lingering(ctx: orchestra.Context, mark: str) -> orchestra.CommandOutcome:
    """A pipe that lasts until a file of the workspace is there."""
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('done')"
    first = ("python", "-c", code, mark)
    second = ("python", "-c", "import sys; print(sys.stdin.read(), end='')", mark)
    command = RunCommand(
        argv=first, then=(Stage(second),), timeoutMs=60_000, artifact="command/x", asker="model", keeps="nothing"
    )
    return await run_command(ctx._run, "linger", command)
