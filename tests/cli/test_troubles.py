"""What goes wrong around a run must not end it: faces, neighbours, scripts, workspaces, foreign files."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from orchestra.core.tree import child_id
from tests.support.project import (
    PLAN,
    PROGRAM,
    RIGHT,
    RIGHT_PATCH,
    Project,
    ask,
    new_file,
    processes,
    records,
    reply,
    role,
    sleeping,
    until,
)
from tests.support.terminal import Terminal


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))


def loop(project: Project, *more: str) -> str:
    words = [PROGRAM, "loop", "g", "--check", "true", "--provider", f"scripted:{project.script}", "--no-input", *more]
    return " ".join(f"'{word}'" for word in words)


# -- faces ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tail", ["--json | head -n 2", "2>&1 | head -n 1", ">&- 2>&-", "2>/dev/full", "--json >/dev/full"]
)
def test_a_face_that_goes_away_stops_no_run(project: Project, tail: str) -> None:
    subprocess.run(f"{loop(project, '--approval', 'never')} {tail}", shell=True, cwd=project.path, capture_output=True)
    assert project.types()[-1] == "RUN_COMPLETED"


@pytest.mark.parametrize("tail", ["--json | head -n 1", "2>&1 | head -n 1", ">/dev/full 2>&1"])
def test_a_closed_pipe_changes_no_exit_code(tmp_path: Path, tail: str) -> None:
    waits = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    dead = {"match": {"role": "planner"}, "error": {"code": "AUTH", "message": "no key", "retriable": False}}
    fails = Project(tmp_path / "q", dead)
    for project, code in ((waits, 3), (fails, 6)):
        script = f"{loop(project)} {tail}; echo ${{PIPESTATUS[0]}} >&3"
        done = subprocess.run(
            ["bash", "-c", f"exec 3>{tmp_path}/code; {script}"], cwd=project.path, capture_output=True
        )
        assert done.stderr == b""
        assert (tmp_path / "code").read_text().strip() == str(code)


def test_a_closed_standard_input_is_an_empty_one(tmp_path: Path) -> None:
    """Services start programs so."""
    waits = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    for command, code in ((loop(waits).replace(" '--no-input'", ""), 3), (f"{PROGRAM} tui", 2)):
        done = subprocess.run(f"{command} <&-", shell=True, cwd=waits.path, capture_output=True, text=True)
        assert (done.returncode, "internal error" in done.stderr) == (code, False)


def test_a_terminal_that_goes_away_stops_no_run(tmp_path: Path) -> None:
    slow = role("developer", RIGHT_PATCH, delayMs=1500, chunk=20)
    project = Project(tmp_path / "p", role("planner", PLAN), slow)
    terminal = Terminal(["/bin/sh", "-c", f"trap '' HUP; exec {loop(project, '--approval', 'never')}"], project.path)
    terminal.wait_for("plan done")
    terminal.vanish()
    terminal.wait()
    assert project.types()[-1] == "RUN_COMPLETED"


def test_ctrl_c_twice_in_a_check_that_ignores_it_is_no_traceback(project: Project) -> None:
    stubborn = sleeping(project.path, "signal.signal(15, signal.SIG_IGN)")
    command = [PROGRAM, "loop", "g", "--check", stubborn, "--approval", "never"]
    running = subprocess.Popen(
        [*command, "--provider", f"scripted:{project.script}"],
        cwd=project.path,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: processes(project.path))
    for _ in range(3):
        running.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "Traceback" not in said and "nothing is lost" in said
    assert processes(project.path) == []


def test_bytes_that_are_no_text_at_a_prompt_are_no_traceback(tmp_path: Path) -> None:
    project = Project(
        tmp_path / "p", role("planner", PLAN), role("developer", ask("?")), role("developer", RIGHT_PATCH)
    )
    terminal = Terminal(
        ["/bin/sh", "-c", loop(project, "--approval", "never").replace("'--no-input'", "")], project.path
    )
    terminal.wait_for("leave it waiting) > ")
    os.write(terminal._fd, b"abc\xff\n")
    assert terminal.end() == 0
    answered = next(e for e in project.events() if e.type == "QUESTION_ANSWERED")
    assert answered.payload["outcome"]["text"] == "abc�"


def test_no_color_is_honoured_on_a_terminal(project: Project) -> None:
    project.loop()
    for command in ("diff", "show", "inbox"):
        words = [command] if command == "inbox" else [command, "last"]
        for variable, colours in (("", True), ("NO_COLOR=1", False)):
            terminal = Terminal(["/bin/sh", "-c", f"{variable} {PROGRAM} {' '.join(words)}"], project.path)
            terminal.end()
            assert ("\x1b[" in terminal.seen) == colours, (command, variable)


# -- what a person can cure -------------------------------------------------------------------------------------------


def test_a_missing_script_or_a_typo_on_resume_ends_nothing(project: Project) -> None:
    assert project.loop().returncode == 3
    assert project.run("approve", "last", "--no-drive").returncode == 0
    assert project.run("resume", "last", "--provider", "scriptd:x", "--no-input").returncode in (0, 2)
    aside = project.script.rename(project.script.with_suffix(".aside"))
    asked = Project(project.path.parent / "q", role("planner", PLAN), role("developer", ask("?")))
    asked.loop()
    gone = asked.script.rename(asked.script.with_suffix(".aside"))
    refused = asked.run("answer", "last", "plus", "--no-input")
    assert refused.returncode == 2 and "cannot read the script" in refused.stderr
    assert asked.types()[-1] == "QUESTION_ANSWERED"
    gone.rename(asked.script)
    asked.write_script(role("planner", PLAN), role("developer", ask("?")), role("developer", RIGHT_PATCH))
    assert asked.run("resume", "last", "--no-input").returncode == 3
    assert aside.exists()


def test_an_odd_workspace_is_no_trouble(project: Project) -> None:
    (project.path / ".gitignore").write_bytes(b"!\n\\\n[z-a]\n*.secret\n\xff\n")
    (project.path / "a.secret").write_text("not for models")
    with open(os.fsencode(project.path) + b"/bad\xff.txt", "w") as file:
        file.write("x")
    deep = project.path
    for _ in range(60):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (project.path / "loop").symlink_to(".")
    (project.path / "image.bin").write_bytes(b"\0\1\2")
    os.mkfifo(project.path / "pipe")
    assert project.loop("--approval", "never").returncode == 0
    prompt = json.loads((project.folder.artifacts / "plan/iter-0001.prompt.json").read_text())
    shown = {a["path"] for a in prompt["contextArtifacts"]}
    assert "calc.py" in shown and not shown & {"a.secret", "image.bin", "pipe"}


def test_a_damaged_answer_is_set_aside_and_given_again(project: Project) -> None:
    project.loop()
    project.folder.inbox.mkdir()
    (project.folder.inbox / "approval-0001.json").write_text("{bad")
    waits = project.run("resume", "last", "--no-input")
    assert waits.returncode == 3 and "inbox/approval-0001.json was not written with your key" in waits.stderr
    assert project.run("approve", "last", "--no-input").returncode == 0


def test_a_cancel_whose_sender_was_killed_is_carried_out_by_the_next(project: Project) -> None:
    project.loop()
    killed = project.run("cancel", "last", env={"ORCHESTRA_CHAOS": "5:before"})
    assert killed.returncode == -9
    assert (project.folder.inbox / "cancel.json").exists()
    assert project.run("cancel", "last").returncode == 0
    assert project.types()[-1] == "RUN_CANCELED"


def test_a_cancel_after_a_kill_inside_an_apply_leaves_no_half_a_patch(tmp_path: Path) -> None:
    two = reply(new_file("a.txt", "one") + new_file("b.txt", "two"))
    halves = 0
    for point in range(55, 80):
        project = Project(tmp_path / f"p{point}", role("planner", PLAN), role("developer", two))
        if project.loop("--approval", "never", env={"ORCHESTRA_CHAOS": f"{point}:after"}).returncode != -9:
            break
        half = len({"a.txt", "b.txt"} & {p.name for p in project.path.iterdir()}) == 1
        halves += half
        assert project.run("cancel", "last").returncode == 0
        assert project.types()[-1] == "RUN_CANCELED"
        written = {"a.txt", "b.txt"} & {p.name for p in project.path.iterdir()}
        assert written in (set(), {"a.txt", "b.txt"}), point
        assert ("PATCH_APPLIED" in project.types()) == bool(written), point
    assert halves


def test_another_script_on_resume_starts_with_all_its_replies(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", ask("?")))
    project.loop()
    other = Project(tmp_path / "q", role("developer", RIGHT_PATCH))
    assert project.run("answer", "last", "plus", "--no-drive").returncode == 0
    assert project.run("resume", "last", "--provider", f"scripted:{other.script}", "--no-input").returncode == 3
    assert project.run("approve", "last", "--no-input").returncode == 0


def test_a_fork_that_is_killed_leaves_no_half_run(project: Project) -> None:
    project.loop("--no-baseline")
    for point in range(1, 40, 3):
        code = project.run(
            "fork", "last", "--at", "5", "--no-drive", env={"ORCHESTRA_CHAOS": f"{point}:before"}
        ).returncode
        shown = records(project.run("runs", "--json").stdout)
        assert all(run["lastEventId"] in ("00000005", project.events_of(run["runId"])[-1].id) for run in shown)
        assert len({len(project.events_of(run["runId"])) for run in shown} - {7}) <= 1, shown
        if code == 0:
            return
    raise AssertionError("the fork never came through")


# -- neighbours -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [0, 2])
def test_a_damaged_run_is_named_and_hurts_no_other(project: Project, line: int) -> None:
    project.loop(goal="one")
    [hurt] = project.runs
    lines = hurt.events.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b"payload", b"payl\xff")
    hurt.events.write_bytes(b"".join(lines))
    assert project.loop("--approval", "never", goal="two").returncode == 0
    runs = project.run("runs").stdout
    assert "damaged" in runs and "completed" in runs
    for command in ("show", "resume", "logs", "audit", "diff"):
        refused = project.run(command, hurt.id)
        assert refused.returncode == 1 and f"line {line + 1}" in refused.stderr, (command, refused.stderr)
    assert project.run("inbox").returncode == 0
    if line:  # the way on that the message names
        assert project.run("fork", hurt.id, "--at", "2", "--no-drive").returncode == 0


def test_two_steps_never_share_a_child() -> None:
    parent = "2026-11-15_001_contracts_x"
    keys = ["a-b/c.1", "a/b-c.1", "t/draft.1", "t-draft.1", "phase2/research/implementation-of-the-controller.1"]
    keys.append("phase2/research/implementation-of-the-controller.2")
    assert len({child_id(parent, "loop", key) for key in keys}) == len(keys)


# -- patches and secrets ----------------------------------------------------------------------------------------------

TOKEN = "ghp_" + "a1B2c3D4e5" * 4


def test_a_patch_whose_exact_bytes_are_gone_is_not_applied(tmp_path: Path) -> None:
    secret = role("developer", reply(new_file("key.txt", f"KEY={TOKEN}")))
    project = Project(tmp_path / "p", role("planner", PLAN), secret, role("fixer", RIGHT_PATCH))
    project.loop()
    (project.folder.artifacts / "execute/iter-0001.raw.txt").unlink()
    assert project.run("approve", "last", "--no-input").returncode == 3
    assert "PATCH_APPLY_FAILED" in project.types()
    assert not (project.path / "key.txt").exists()  # never a redacted file in place of the granted one


def test_a_file_named_like_a_secret_is_refused_and_never_said_to_be_applied(tmp_path: Path) -> None:
    odd = role("developer", reply(new_file(f"{TOKEN}.txt", "x")))
    project = Project(tmp_path / "p", role("planner", PLAN), odd, role("fixer", RIGHT_PATCH))
    assert project.loop("--approval", "never").returncode == 0
    assert project.types().count("PATCH_APPLIED") == 1
    assert [e.payload["outcome"]["refusal"]["reason"] for e in project.events() if e.type == "PATCH_APPLY_FAILED"] == [
        "path_violation"
    ]


def test_secrets_in_errors_answers_and_reasons_are_masked(tmp_path: Path) -> None:
    failure = {"code": "UNKNOWN", "message": f"bad key {TOKEN}", "retriable": True}
    project = Project(
        tmp_path / "p",
        {"match": {"role": "planner"}, "error": failure},
        role("planner", PLAN),
        role("developer", RIGHT_PATCH),
        role("fixer", RIGHT_PATCH),
    )
    project.configure("retries: {max: 1, backoff_base_sec: 0.01}\n")
    project.loop()
    project.run("reject", "last", "--reason", f"not {TOKEN}", "--no-input")
    leaks = [p for p in project.folder.path.rglob("*") if p.is_file() and TOKEN in p.read_text(errors="replace")]
    assert leaks == []


def test_a_declined_file_is_told_to_the_judge_and_left_out_of_the_diff(tmp_path: Path) -> None:
    quoted = new_file("한글.txt", "글").replace(
        "a/한글.txt b/한글.txt", r'"a/\355\225\234\352\270\200.txt" "b/\355\225\234\352\270\200.txt"'
    )
    quoted = quoted.replace("+++ b/한글.txt", r'+++ "b/\355\225\234\352\270\200.txt"')
    both = RIGHT_PATCH.replace("[PATCH_END]", quoted + new_file("NEWS", "news") + "[PATCH_END]")
    judge = {"match": {"role": "evaluator", "contains": "A person declined this part of it:\ndiff --git a/NEWS"}}
    project = Project(
        tmp_path / "p", role("planner", PLAN), role("developer", both), {**judge, "text": "DECISION: PASS"}
    )
    project.loop()
    taken = ["--only", "calc.py", "--only", "한글.txt"]
    assert project.run("approve", "last", *taken, "--no-input").returncode == 0
    diff = project.run("diff", "last").stdout
    assert "calc.py" in diff and "+글" in diff and "NEWS" not in diff
    assert (project.path / "한글.txt").read_text() == "글\n"


def test_escape_codes_of_a_model_never_reach_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;PWNED\x07\x1b[2J올바른 질문?"
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", ask(evil)))
    said = project.loop(goal=f"goal {evil}")
    shown = [project.run(*words).stdout for words in (["report", "last"], ["show", "last"], ["inbox"], ["runs"])]
    written = [p.read_text() for p in project.folder.path.rglob("*.md")]
    assert not any("\x1b" in text for text in (said.stderr, *shown, *written))
    assert any("올바른 질문?" in text for text in shown)


# -- scripts, replays, resume -----------------------------------------------------------------------------------------


def test_a_reply_that_timed_out_is_used_up_after_a_resume_too(tmp_path: Path) -> None:
    slow = role("developer", RIGHT_PATCH, delayMs=60_000, chunk=9)
    project = Project(
        tmp_path / "p", role("planner", PLAN), slow, role("developer", ask("?")), role("developer", RIGHT_PATCH)
    )
    config = "loop: {timeout_ms: 600}\nretries: {max: 1, backoff_base_sec: 0.01}\n"
    project.configure(config)
    assert project.loop("--approval", "never").returncode == 3
    assert project.run("answer", "last", "plus", "--no-input").returncode == 0
    assert project.types().count("PHASE_FAILED") == 1


@pytest.mark.spec("S1-120", "S1-121")
def test_only_the_raw_file_of_a_failed_call_left_is_still_a_failed_call(tmp_path: Path) -> None:
    busy = {"match": {"role": "planner"}, "error": {"code": "RATE_LIMIT", "message": "busy", "retriable": True}}
    replies = (busy, role("planner", PLAN), role("developer", RIGHT_PATCH))
    for point in range(8, 30, 2):
        project = Project(tmp_path / f"p{point}", *replies)
        project.configure("retries: {max: 1, backoff_base_sec: 0.01}\n")
        assert project.loop("--approval", "never", env={"ORCHESTRA_CHAOS": f"{point}:after"}).returncode == -9
        kept = {"state.json", "events.ndjson"}
        for path in project.folder.path.rglob("*"):
            if path.is_file() and path.name not in kept and not path.name.endswith(".raw.txt"):
                path.unlink()
        done = project.run("resume", "last", "--no-input")
        assert done.returncode == 0, (point, done.stderr)
        assert project.calc().endswith(RIGHT)


def test_a_recorded_failure_is_replayed_as_a_failure(tmp_path: Path) -> None:
    busy = {"match": {"role": "planner"}, "error": {"code": "RATE_LIMIT", "message": "busy", "retriable": True}}
    usage = {"inputTokens": 5, "outputTokens": 7}
    project = Project(tmp_path / "p", busy, role("planner", PLAN, usage=usage), role("developer", RIGHT_PATCH))
    project.configure("retries: {max: 1, backoff_base_sec: 0.01}\n")
    assert project.loop("--approval", "never").returncode == 0
    (project.path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    project.script.unlink()
    command = ["loop", "make add() add", "--check", project.check, "--approval", "never", "--no-input"]
    assert project.run(*command, "--provider", "replay:last").returncode == 0
    audits = [project.run("audit", folder.id).stdout.replace("scripted", "replay  ") for folder in project.runs]
    assert audits[0] == audits[1]


def test_a_finish_reason_of_failure_without_its_error_is_a_failure(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN, finishReason="error"))
    project.configure("retries: {max: 0}\n")
    assert project.loop().returncode == 6
    assert project.events()[-2].payload["error"]["code"] == "UNKNOWN"


def test_a_torn_line_is_reported_when_it_is_cut_off(project: Project) -> None:
    project.loop()
    with project.folder.events.open("ab") as file:
        file.write(b'{"id":"0000')
    done = project.run("approve", "last", "--no-input")
    assert done.returncode == 0
    assert "a torn last line (11 bytes) was cut off" in done.stderr


def test_a_check_script_may_be_made_by_the_patch_itself(tmp_path: Path) -> None:
    script = new_file("check.sh", "#!/bin/sh", "exit 0").replace("100644", "100755")
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", reply(script)))
    project.check = "./check.sh"
    assert project.loop("--approval", "never").returncode == 0


@pytest.mark.parametrize(
    ("check", "warned"),
    [("grep -q 'a|b;c' calc.py", False), ("grep '>' calc.py", False), ("echo x && touch pwned; touch pwned", True)],
)
def test_no_shell_runs_a_check_and_who_expects_one_is_told(project: Project, check: str, warned: bool) -> None:
    project.check = check
    done = project.loop("--approval", "never", "--max-fixes", "0")
    assert ("no shell runs it" in done.stderr) == warned
    assert done.returncode == (0 if warned else 1)
    assert not (project.path / "pwned").exists()
    argv = next(e for e in project.events() if e.payload.get("effect") == "RunCommand").payload["argv"]
    assert argv == shlex.split(check)


# -- verify -----------------------------------------------------------------------------------------------------------


def test_verify_reads_another_implementations_run(tmp_path: Path) -> None:
    folder = tmp_path / "run-1"
    folder.mkdir()
    rows = [
        "RUN_CREATED",
        "PHASE_STARTED plan",
        "PHASE_COMPLETED plan",
        "PHASE_STARTED execute",
        "PHASE_COMPLETED execute",
    ]
    rows += ["PATCH_PRODUCED", "APPROVAL_REQUESTED", "APPROVAL_GRANTED", "PATCH_APPLIED", "RUN_COMPLETED"]
    lines = []
    for number, row in enumerate(rows, start=1):
        kind, _, phase = row.partition(" ")
        line = {"id": f"e{number:03}", "runId": "run-1", "ts": "2026-02-14T12:34:56Z", "type": kind, "payload": {}}
        lines.append(json.dumps({**line, "phase": phase} if phase else line))
    (folder / "events.ndjson").write_text("\n".join(lines) + "\n")
    done = subprocess.run([PROGRAM, "verify", str(folder)], capture_output=True, text=True)
    assert done.returncode == 1
    found = {line.split()[0] for line in done.stdout.splitlines()}
    assert {"S1-73", "S1-101", "S1-117"} <= found  # RUN_COMPLETED without an evaluation, no state, no diffstat


@pytest.mark.parametrize(
    ("damage", "requirement"),
    [
        (lambda p: (p / "state.json").unlink(), "S1-101"),
        (lambda p: shutil.rmtree(p / "logs"), "S1-111"),
        (lambda p: (p / "artifacts/execute/iter-0001.raw.txt").write_text("x"), "S1-116"),
        (lambda p: (p / "artifacts/plan/iter-0001.raw.txt").chmod(0o644), "S1-116"),
        (lambda p: (p / "artifacts/execute/iter-0001.patch").unlink(), "S1-125"),
    ],
)
def test_verify_names_what_is_broken(project: Project, damage: object, requirement: str) -> None:
    project.loop("--approval", "never")
    assert project.run("verify", "last").returncode == 0
    assert callable(damage)
    damage(project.folder.path)
    done = project.run("verify", "last")
    assert done.returncode == 1
    assert requirement in {line.split()[0] for line in done.stdout.splitlines()}


def test_a_run_being_driven_conforms(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    words = [
        "loop",
        "g",
        "--check",
        "true",
        "--check",
        sleeping(project.path),
        "--provider",
        f"scripted:{project.script}",
    ]
    running = subprocess.Popen(
        [PROGRAM, *words, "--approval", "never", "--no-input", "--json"], cwd=project.path, stdout=-3
    )
    until(lambda: processes(project.path))
    assert project.run("verify", "last").stdout.endswith("conforms\n")
    running.send_signal(signal.SIGINT)
    running.wait()


def test_records_of_a_run_are_json(project: Project) -> None:
    done = project.loop("--approval", "never")
    assert records(done.stdout)[-1]["type"] == "done"


@pytest.mark.parametrize("words", [["runs"], ["init"], ["loop", "g"], ["dag", "g"]])
def test_a_folder_that_was_removed_under_ones_feet_is_named(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "gone").mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, str(tmp_path / "gone"), PROGRAM, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "") and "the folder you are in was removed" in done.stderr


def test_ctrl_c_while_the_program_is_loaded_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")  # what the signal does in an import
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([PROGRAM, "runs"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_who_has_no_model_is_told_of_plans_and_graphs(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    done = project.run("dag", "g")
    assert done.returncode == 2 and "--plan FILE" in done.stderr
    told = project.run("runs").stdout
    assert told.startswith('no runs here yet; start one: orchestra loop "GOAL" --check "CMD", or orchestra dag "I')
    assert told.count("\n") == 1 and all(f"orchestra {name}" in told for name in ("agent:run", "orchestrate"))
