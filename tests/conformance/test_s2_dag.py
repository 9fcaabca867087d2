"""S2 on the real program: the plan, the messages, the tasks, their files, the report. Real tools in real sandboxes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import conforms, records
from tests.support.tasks import SUMMARY, Tasks, python, step

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

GRAPH = """
```mermaid
graph TD
  t1["list<br/>done"]:::done
  t2["hello<br/>done"]:::done
  t3["table<br/>done"]:::done
  t4["bad<br/>failed"]:::failed
  t5["never<br/>not run"]:::notrun
  t1 --> t3
  t2 --> t3
  t4 --> t5
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Tasks:
    """One graph that has everything: order, a retry, a failure, something not run, files in and out, env, Korean."""
    table = (
        "import os, pathlib; print(pathlib.Path('notes/목록.txt').read_text());"
        "print(os.environ['GREETING']); pathlib.Path(os.environ['ORCHESTRA_ARTIFACTS'], '표.md').write_text('|이름|')"
    )
    files = [{"path": "notes/목록.txt", "content": "MIT"}]
    project = Tasks(
        tmp_path_factory.mktemp("dag") / "p",
        step("list", tool="ls", inputs={"args": ["-a"]}),
        step("hello", tool="echo", inputs={"args": ["Hello", "World"]}),
        step("table", "list", "hello", inputs={**python(table), "env": {"GREETING": "안녕"}, "files": files}),
        step("bad", code="import sys; print('망가짐'); sys.exit(3)"),
        step("never", "bad", tool="echo", inputs={"args": ["x"]}),
    )
    done = project.dag()
    assert done.returncode == 1, done.stderr
    return project


@pytest.mark.spec("S2-01", "S2-03", "S2-05", "S2-06", "S2-132", "S2-133", "D-06", "D-07")
def test_a_run_leaves_its_folder_with_everything(ran: Tasks) -> None:
    names = {path.name for path in ran.folder.path.iterdir()}
    wanted = {"events.ndjson", "state.json", "plan.json", "tasks.jsonl", "metrics.json", "config.yaml", "report.md"}
    assert wanted | {"artifacts", "messages.jsonl", "logs"} <= names
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d{3}_dag_[\w-]+", ran.folder.id)
    conforms(ran)
    assert ran.run("verify", str(ran.folder.path)).returncode == 0


@pytest.mark.spec("S2-90", "S2-91", "S2-92", "S2-93", "S2-94")
def test_l1_tells_l2_what_is_wanted(ran: Tasks) -> None:
    [request] = ran.messages("L1", "L2")
    assert request["intent"] == "라이선스를 조사해줘"
    assert request["constraints"]["max_duration_sec"] == 1800
    assert request["constraints"]["whitelist_tools"] == ["echo", "ls", "cat", "node", "python", "poetry", "pnpm", "git"]
    assert request["config"]["llm"]["backend"] == "claude_code"
    assert request["config"]["policies"]["allow_network"] is False


@pytest.mark.spec("S2-95", "S2-96", "S2-97", "S2-98", "S2-99", "S2-100", "S2-101", "S2-102", "S2-103", "S2-104", "C-03")
def test_l2_answers_with_a_plan(ran: Tasks) -> None:
    [plan] = ran.messages("L2", "L1")
    assert plan == ran.json("plan.json")
    assert uuid.UUID(plan["plan_id"]).version == 5
    tasks = {task["label"]: task for task in plan["tasks"]}
    ids = {label: task["task_id"] for label, task in tasks.items()}
    assert all(uuid.UUID(name).version == 5 for name in ids.values()) and len(set(ids.values())) == 5
    assert tasks["hello"]["intent"] == "hello 하기" and tasks["hello"]["tools"] == ["echo"]
    assert tasks["table"]["depends_on"] == [ids["list"], ids["hello"]]
    assert set(plan["dag"]["nodes"]) == set(ids.values())
    edges = {("list", "table"), ("hello", "table"), ("bad", "never")}
    assert {tuple(edge) for edge in plan["dag"]["edges"]} == {(ids[a], ids[b]) for a, b in edges}


@pytest.mark.spec("S2-09", "S2-107", "S2-108", "S2-109", "S2-110", "S2-111", "S2-112")
def test_l2_gives_tasks_to_l3(ran: Tasks) -> None:
    given = {message["tools"][0]: message for message in ran.messages("L2", "L3") if message["tools"] != ["python"]}
    hello = given["echo"]
    assert uuid.UUID(hello["task_id"])
    assert hello["inputs"]["args"] == ["Hello", "World"]
    assert hello["constraints"]["max_duration_sec"] == 300 and hello["constraints"]["max_retries"] == 1
    assert ran.output("hello") == "Hello World\n"
    assert len(ran.messages("L2", "L3")) == 4  # what is not run was never given


@pytest.mark.spec("S2-114", "S2-115", "S2-116", "S2-117", "S2-118", "S2-119", "S2-14")
def test_l3_answers_with_a_result(ran: Tasks) -> None:
    results = {message["task_id"]: message for message in ran.messages("L3", "L2")}
    tasks = ran.tasks()
    assert set(results) == {task["task_id"] for label, task in tasks.items() if label != "never"}
    good, bad = results[tasks["hello"]["task_id"]], results[tasks["bad"]["task_id"]]
    assert good["state"] == "done" and bad["state"] == "failed"
    assert good["metrics"]["exit_code"] == 0 and bad["metrics"]["exit_code"] == 3
    assert isinstance(good["metrics"]["duration_ms"], int)
    assert good["logs"] and good["artifacts"]


@pytest.mark.spec("S2-15", "S2-16", "S2-17", "S2-18", "S2-19", "S2-20", "S2-21", "S2-22", "S2-25", "S2-26", "S2-27")
@pytest.mark.spec("S2-28", "S2-30", "S2-31", "S2-32", "S2-33", "S2-37", "S2-38", "S2-39", "S2-40", "S2-41", "S2-42")
def test_every_line_is_a_whole_task_record(ran: Tasks) -> None:
    parents = {None}
    for line in ran.lines():
        assert uuid.UUID(line["task_id"]) and line["parent_id"] in parents
        parents.add(line["task_id"])
        assert line["level"] in (1, 2, 3) and isinstance(line["intent"], str)
        assert isinstance(line["inputs"]["args"], list) and isinstance(line["inputs"]["env"], dict)
        assert all(set(file) == {"path", "content"} for file in line["inputs"]["files"])
        assert isinstance(line["tools"], list) and line["constraints"]["concurrency"] == 1
        assert line["constraints"]["sandbox"] == {"fs": "read-only", "net": "deny"}
        assert line["state"] in ("planned", "running", "blocked", "done", "failed")
        for entry in line["logs"]:
            assert ISO.fullmatch(entry["timestamp"]) and entry["level"] in ("info", "warn", "error")
            assert isinstance(entry["message"], str) and isinstance(entry["payload"], dict)
        assert isinstance(line["metrics"]["duration_ms"], int)
        assert line["metrics"]["exit_code"] in (None, 0, 3)
        assert ISO.fullmatch(line["timestamps"]["created_at"])
        begun = line["level"] < 3 or line["state"] in ("running", "done", "failed")
        assert (line["timestamps"]["started_at"] is not None) == begun
        assert (line["timestamps"]["completed_at"] is not None) == (line["state"] in ("done", "failed"))
    tokens = {line["component"]: line["metrics"]["tokens_used"] for line in ran.lines()}
    assert tokens == {"L1": None, "L2": 120, "L3": None}  # the summary's reply says nothing about its tokens


@pytest.mark.spec("S2-04", "S2-85", "S2-132")
def test_the_log_is_json_lines_with_the_trace_id(ran: Tasks) -> None:
    for line in ran.lines():
        assert line["trace_id"] == ran.folder.id and line["component"] == f"L{line['level']}"
        assert line["severity"] in ("info", "warn", "error") and line["message"]


@pytest.mark.spec("S2-12", "S2-34", "S2-35", "S2-36", "S2-134", "G2-8")
def test_output_is_kept_and_named_with_size_and_checksum(ran: Tasks) -> None:
    kept = {a["path"]: a for task in ran.tasks().values() for a in task["artifacts"]}
    assert {"artifacts/hello/stdout.txt", "artifacts/hello/stderr.txt", "artifacts/table/files/표.md"} <= set(kept)
    assert {"artifacts/bad/stdout.txt", "artifacts/bad/attempt-2.stdout.txt"} <= set(kept)
    for path, artifact in kept.items():
        data = (ran.folder.path / path).read_bytes()
        assert artifact["size_bytes"] == len(data)
        assert artifact["checksum"] == f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.mark.spec("S2-135", "S2-136", "S2-20", "S2-21")
@pytest.mark.spec("S2-134", "S2-137")
def test_no_task_finds_what_another_handed_over(tmp_path: Path) -> None:
    """Their folders may be the same one, if nobody touched it; who made something in it was the last to see it."""
    look = "import os; here = os.environ['ORCHESTRA_ARTIFACTS']; print(os.listdir(here), os.stat(here).st_mode & 0o777)"
    plan = (
        step("quiet", code=look),
        step("busy", "quiet", code=f"{look}; open(here + '/결과.txt', 'w').write('끝')"),
        step("sly", "busy", code=f"{look}; os.mkdir(here + '/x'); os.rmdir(here + '/x'); os.chmod(here, 0o777)"),
        step("last", "sly", code=look),
    )
    project = Tasks(tmp_path / "p", *plan)
    done = project.dag("--approval", "never")
    assert done.returncode == 0, done.stderr
    said = [(project.folder.artifacts / task["task_id"] / "stdout.txt").read_text() for task in plan]
    assert said == [f"[] {0o700}\n"] * 4
    assert (project.folder.artifacts / "busy/files/결과.txt").read_text() == "끝"


def test_a_tool_finds_its_files_and_its_environment(ran: Tasks) -> None:
    assert ran.output("table") == "MIT\n안녕\n"
    assert not (ran.path / "notes").exists(), "the workspace itself stays as it was"


@pytest.mark.spec("S2-06", "S2-64", "S2-62", "S2-63", "S2-133")
def test_the_report_says_everything(ran: Tasks) -> None:
    report = ran.read("report.md")
    sections = ("Task Summary", "Summary", "Task Details", "Graph", "Failures", "Artifacts", "Model calls", "Metrics")
    for section in (*sections, "Logs"):
        assert f"\n## {section}\n" in report
    assert "| plan.1 | planner | scripted" in report and "| 100/20 |" in report
    assert "2 model calls, at least 120 tokens" in report
    assert SUMMARY in report
    assert "| 라이선스를 조사해줘 | 5 | 3 | 1 | 1 | 1 |" in report
    assert re.search(r"\| never \|.*\| not run \|", report)
    assert GRAPH in report
    assert "    망가짐" in report and "exit code 3" in report
    prompt = ran.json("artifacts/summary/iter-0001.prompt.json")["prompt"]["user"]
    assert "- bad [failed]" in prompt and "artifacts/hello/stdout.txt" in prompt
    assert "{tasks_summary}" not in prompt and "{artifacts_list}" not in prompt


def test_the_metrics_add_up(ran: Tasks) -> None:
    metrics = ran.json("metrics.json")
    assert (metrics["tasks_total"], metrics["tasks_succeeded"], metrics["tasks_failed"]) == (5, 3, 1)
    assert metrics["tasks_retried"] == 1 and metrics["total_tokens_used"] == 120
    assert metrics["artifacts_total_bytes"] == sum(
        a["size_bytes"] for task in ran.tasks().values() for a in task["artifacts"]
    )
    assert len(metrics["tasks"]) == 5


@pytest.mark.spec("S2-55", "S2-56", "S2-57", "S2-07")
def test_the_planner_gets_the_configured_prompt_filled(ran: Tasks) -> None:
    prompt = ran.json("artifacts/plan/iter-0001.prompt.json")["prompt"]["user"]
    assert "You are L2 Coordinator" in prompt and "라이선스를 조사해줘" in prompt
    assert '"max_duration_sec":1800' in prompt and "echo, ls, cat, node" in prompt
    assert not re.search(r"\{(intent|constraints|whitelist_tools)\}", prompt)


@pytest.mark.spec("S2-52", "S2-59")
def test_a_plan_with_another_tool_is_refused_with_exit_code_5(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="rm", inputs={"args": ["-rf", "."]}))
    project.write_script({"match": {"phase": "plan"}, "text": json.dumps([step("a", tool="rm")]), "repeat": True})
    done = project.dag()
    assert done.returncode == 5
    assert records(done.stdout)[-1] == {
        "type": "done",
        "runId": project.folder.id,
        "status": "failed",
        "exitCode": 5,
    }
    assert "rm is not in whitelist_tools" in done.stderr
    assert not project.started()


@pytest.mark.spec("S2-49", "S2-23")
def test_a_task_over_its_time_is_stopped(tmp_path: Path) -> None:
    slow = step("slow", code="import time; time.sleep(60)", constraints={"max_duration_sec": 0.5, "max_retries": 0})
    project = Tasks(tmp_path / "p", slow, step("fine", tool="echo", inputs={"args": ["ok"]}))
    assert project.dag().returncode == 1
    tasks = project.tasks()
    assert tasks["slow"]["state"] == "failed" and "timed out" in tasks["slow"]["message"]
    assert tasks["fine"]["state"] == "done"


@pytest.mark.spec("S2-50", "G2-6")
def test_the_total_limit_stops_everything_and_the_report_is_written(tmp_path: Path) -> None:
    tasks = [step(f"slow{n}", code="import time; print('began', flush=True); time.sleep(60)") for n in range(3)]
    config = {"policies": {"max_total_duration_sec": 2}, "concurrency": {"max_workers": 2}}
    project = Tasks(tmp_path / "p", *tasks, config=config)
    done = project.dag(timeout=50)
    assert done.returncode == 1 and "total time limit" in done.stderr
    states = {label: task["state"] for label, task in project.tasks().items()}
    assert states == {"slow0": "failed", "slow1": "failed", "slow2": "planned"}
    assert project.output("slow0") == "began\n", "what was said is kept"
    assert "| slow2 |" in project.read("report.md") and "not run" in project.read("report.md")
    conforms(project)


@pytest.mark.spec("S2-50")
def test_a_task_that_the_total_time_leaves_no_room_for_is_never_begun(tmp_path: Path) -> None:
    """The planner took more than the limit the project has when a person approves the plan: the narrower one binds."""
    tasks = (step("first", code=""), step("second", code=""))
    project = Tasks(tmp_path / "p", *tasks, config={"concurrency": {"max_workers": 1}})
    planner = {"match": {"phase": "plan"}, "text": json.dumps(tasks), "delayMs": 1100}
    project.write_script(planner)
    assert project.dag("--approval", "always").returncode == 3
    project.settings({"policies": {"max_total_duration_sec": 1}, "concurrency": {"max_workers": 1}})
    done = project.run("approve", "last", "--no-input")
    assert done.returncode == 1 and "total time limit" in done.stderr
    [started] = project.started()
    assert started.payload["task"] == "first" and "process" not in started.payload
    [failed] = [event.payload for event in project.events() if event.type == "PHASE_FAILED"]
    assert failed["error"]["code"] == "TOTAL_TIMEOUT"
    outcome = failed["outcome"]
    assert outcome["error"] == "the run's total time was used up before it could begin"
    assert (outcome["status"], outcome["exitCode"], outcome["durationMs"]) == ("not_run", None, 0)
    assert {label: task["state"] for label, task in project.tasks().items()} == {"first": "failed", "second": "planned"}
    assert not (project.folder.artifacts / "first").exists(), "no output of a process that never was"
    conforms(project)


@pytest.mark.spec("S2-76", "S2-77", "S2-79", "S2-137", "S2-136", "S2-02")
def test_the_sandbox_holds_a_planned_task(tmp_path: Path) -> None:
    secret = tmp_path / "outside.txt"
    secret.write_text("canary")
    tries = f"""
import os, pathlib, socket, json
def attempt(act):
    try:
        act(); return "worked"
    except Exception as error:
        return type(error).__name__
print(json.dumps({{
    "read": attempt(lambda: pathlib.Path({str(secret)!r}).read_text()),
    "write": attempt(lambda: pathlib.Path("/usr/new.txt").write_text("x")),
    "elsewhere": attempt(lambda: pathlib.Path({str(tmp_path / "new.txt")!r}).write_text("x")),
    "workspace": attempt(lambda: pathlib.Path("new.txt").write_text("x")),
    "runs": attempt(lambda: pathlib.Path("runs/evil").write_text("x")),
    "net": attempt(lambda: socket.create_connection(("127.0.0.1", 1), 1)),
    "key": os.environ.get("MY_API_KEY", "none"),
    "home": attempt(lambda: os.listdir(os.path.expanduser("~root"))),
}}))
"""
    project = Tasks(tmp_path / "p", step("try", code=tries))
    done = project.dag(env={"MY_API_KEY": "sk-secret-canary-value-123456"})
    assert done.returncode == 0, done.stderr
    said = json.loads(project.output("try"))
    assert said["read"] != "worked" and said["write"] != "worked" and said["runs"] != "worked"
    assert said["net"] != "worked" and said["key"] == "none"
    assert not (tmp_path / "new.txt").exists()
    assert not (project.path / "new.txt").exists(), "written to a copy that is thrown away"


@pytest.mark.spec("S2-81", "S2-80")
def test_secrets_a_tool_prints_are_masked_everywhere(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    project = Tasks(tmp_path / "p", step("leak", inputs=python(f"print({key[:20]!r} + {key[20:]!r})")))
    assert project.dag().returncode == 0
    for path in project.folder.path.rglob("*"):
        if path.is_file() and not path.name.endswith(".raw.txt"):
            assert key not in path.read_text(encoding="utf-8", errors="replace"), path.name
    assert "***REDACTED***" in project.output("leak")


@pytest.mark.spec("S2-10")
def test_a_failed_remainder_is_planned_again_once(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    first = [step("good", tool="echo", inputs={"args": ["1"]}), step("bad", code="raise SystemExit(1)")]
    second = [step("bad", tool="echo", inputs={"args": ["better"]})]
    project.write_script(
        {"match": {"phase": "plan"}, "text": json.dumps(first)},
        {"match": {"phase": "plan", "contains": "bad [failed]"}, "text": json.dumps(second)},
    )
    done = project.dag("--replan")
    assert done.returncode == 0, done.stderr
    states = {label: task["state"] for label, task in project.tasks().items()}
    assert states == {"good": "done", "bad": "failed", "again~bad": "done"}
    conforms(project)


def test_plan_only_then_the_edited_plan(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo", inputs={"args": ["one"]}))
    assert project.dag("--plan-only").returncode == 0
    assert not (project.folder.path / "tasks.jsonl").exists()
    plan = project.json("plan.json")
    plan["tasks"][0]["inputs"]["args"] = ["바꿈"]
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(plan, ensure_ascii=False), encoding="utf-8")
    done = project.run("dag", "g", "--plan", str(edited), "--no-input", "--json")
    assert done.returncode == 0, done.stderr
    run = records(done.stdout)[-1]["runId"]
    outputs = list((project.path / "runs" / run / "artifacts").rglob("stdout.txt"))
    assert [path.read_text(encoding="utf-8") for path in outputs] == ["바꿈\n"]


def test_a_dry_run_runs_nothing_and_says_so(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", code="raise SystemExit(1)"), step("b", "a"))
    assert project.dag("--dry-run").returncode == 0
    assert {task["message"] for task in project.tasks().values()} == {"[DRY-RUN] done"}
    assert not list(project.folder.artifacts.rglob("stdout.txt"))


@pytest.mark.spec("D-11", "S1-75")
def test_a_plan_is_approved_by_its_digest(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo", inputs={"args": ["1"]}))
    assert project.dag("--approval", "always").returncode == 3
    shown = project.run("diff", "last")
    assert "echo 1" in shown.stdout
    assert project.run("approve", "last", "--digest", "sha256:" + "0" * 64).returncode == 2
    assert project.run("approve", "last", "--no-input").returncode == 0
    conforms(project)


def test_a_rejected_plan_goes_back_to_the_planner_with_the_reason(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo", inputs={"args": ["1"]}))
    second = {"match": {"phase": "plan", "contains": "너무 위험"}, "text": json.dumps([step("b", tool="ls")])}
    first = {"match": {"phase": "plan"}, "text": json.dumps([step("a", tool="echo")])}
    project.write_script(first, second)
    assert project.dag("--approval", "always").returncode == 3
    assert project.run("reject", "last", "--reason", "너무 위험", "--no-input").returncode == 3
    assert project.run("approve", "last", "--no-input").returncode == 0
    assert list(project.tasks()) == ["a", "b"] and project.tasks()["b"]["state"] == "done"
    conforms(project)


@pytest.mark.spec("S1-64", "C-14")
def test_what_an_rw_task_writes_becomes_a_patch_for_the_gate(tmp_path: Path) -> None:
    change = "import pathlib; p = pathlib.Path('calc.py'); p.write_text(p.read_text().replace('-', '+'));"
    cache = "pathlib.Path('build').mkdir(); pathlib.Path('build/out.o').write_text('x')"
    use = "import pathlib; print(pathlib.Path('calc.py').read_text(), pathlib.Path('build/out.o').read_text())"
    rw: dict[str, Any] = {"constraints": {"sandbox": {"fs": "rw"}}}
    plan = [step("edit", code=change + cache, **rw), step("use", "edit", code=use)]
    project = Tasks(tmp_path / "p", *plan, config={"policies": {"default_fs_mode": "rw"}})
    done = project.dag("--approval", "always")
    assert done.returncode == 3  # the plan
    assert project.run("approve", "last", "--no-input").returncode == 3  # the change
    assert project.calc() == "def add(a, b):\n    return a - b\n", "nothing before the grant"
    assert "+    return a + b" in project.run("diff", "last").stdout
    assert project.run("approve", "last", "--no-input").returncode == 0
    assert project.calc() == "def add(a, b):\n    return a + b\n"
    assert not (project.path / "build").exists(), "build output stays in the run's private layer"
    assert project.output("use").split() == ["def", "add(a,", "b):", "return", "a", "+", "b", "x"]
    conforms(project)


@pytest.mark.spec("S2-78", "G2-11")
def test_network_needs_both_a_switch_and_a_domain(tmp_path: Path) -> None:
    net: dict[str, Any] = {"constraints": {"sandbox": {"net": "allow"}}}
    project = Tasks(tmp_path / "p", step("a", tool="echo", **net), config={"policies": {"allow_network": True}})
    assert project.dag().returncode == 0
    assert project.json("plan.json")["tasks"][0]["constraints"]["sandbox"]["net"] == "deny"
    assert any("no network" in warning for warning in project.json("plan.json")["warnings"])


@pytest.mark.spec("S2-83", "S2-82")
def test_the_telemetry_level_leaves_quiet_lines_out(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"), config={"telemetry": {"level": "error"}})
    assert project.dag().returncode == 0
    assert {line["state"] for line in project.lines()} == {"done"}


@pytest.mark.parametrize(
    ("plan", "code", "says"),
    [
        ("[]", 2, "no task"),
        ("not json", 2, "plan.json:1:1: this is not valid JSON"),
        (json.dumps([step("a", "b")]), 2, "not in the plan"),
        (json.dumps([step("a", tool="bash")]), 5, "bash is a shell"),
        (json.dumps([step("a", inputs={"args": [], "files": [{"path": "../x", "content": ""}]})]), 5, "files"),
        (json.dumps([step("a", inputs={"args": [], "env": {"LD_PRELOAD": "x"}})]), 5, "LD_PRELOAD"),
    ],
)
def test_a_persons_bad_plan_is_refused_before_a_run_exists(tmp_path: Path, plan: str, code: int, says: str) -> None:
    project = Tasks(tmp_path / "p")
    (tmp_path / "plan.json").write_text(plan)
    done = project.run("dag", "g", "--plan", str(tmp_path / "plan.json"), "--no-input", "--json")
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr and "Traceback" not in done.stderr
    assert project.runs == []


def test_each_task_record_carries_the_digest_of_its_policy(ran: Tasks) -> None:
    digests: dict[str, Any] = {label: task["policy"] for label, task in ran.tasks().items()}
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", d) for label, d in digests.items() if label != "never")
    for event in ran.started():
        assert event.payload["tier"] == "strict" and event.payload["process"]["pid"] > 0
        assert not os.path.exists(f"/proc/{event.payload['process']['pid']}")


def test_a_fork_goes_on_before_the_first_task_that_failed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    flaky = f"import pathlib; raise SystemExit(not pathlib.Path({str(outside / 'ok')!r}).exists())"
    plan = [step("good", tool="echo", inputs={"args": ["1"]}), step("flaky", "good", code=flaky), step("end", "flaky")]
    project = Tasks(tmp_path / "p", *plan, config={"security": {"fs": {"allow_read": ["./", str(outside)]}}})
    assert project.dag().returncode == 1
    (outside / "ok").touch()
    done = project.run("fork", "last", "--no-input", "--json")
    assert done.returncode == 0, done.stderr
    new = records(done.stdout)[-1]["runId"]
    assert project.run("verify", new).returncode == 0
    began = [
        e["payload"]["task"] for e in records(done.stdout) if e["type"] == "PHASE_STARTED" and "task" in e["payload"]
    ]
    assert began == ["flaky", "end"], "what was done before is not done again"


def test_a_report_of_a_run_that_goes_on(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    assert project.dag("--approval", "always").returncode == 3
    said = project.run("report", "last").stdout
    assert "status: **awaiting_approval**" in said and "| a | a 하기 | echo | not run |" in said


@pytest.mark.spec("S2-78", "S2-79", "S2-27")
def test_only_the_allowed_domains_and_only_through_the_proxy(tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    tries = """
import json, socket, urllib.error, urllib.request
said = {}
for name, url in (("http", "http://denied.example.org/"), ("tunnel", "https://denied.example.org/"),
                  ("address", "http://127.0.0.1/"), ("port", "http://allowed.example.com:22/")):
    try:
        said[name] = urllib.request.urlopen(url, timeout=10).status
    except Exception as error:
        said[name] = f"{type(error).__name__} {error}"
try:
    socket.create_connection(("127.0.0.1", PORT), 2)
    said["direct"] = "worked"
except OSError as error:
    said["direct"] = type(error).__name__
print(json.dumps(said))
""".replace("PORT", str(listener.getsockname()[1]))
    net: dict[str, Any] = {"constraints": {"sandbox": {"net": "allow"}}}
    config = {"policies": {"allow_network": True}, "security": {"net": {"allow_domains": ["allowed.example.com"]}}}
    project = Tasks(tmp_path / "p", step("fetch", code=tries, **net), config=config)
    with listener:
        assert project.dag("--approval", "never").returncode == 0
    said = json.loads(project.output("fetch"))
    assert said["direct"] != "worked", "an empty network namespace"
    assert all("403" in said[name] for name in ("http", "tunnel", "address", "port")), said
    denied = [line["message"] for line in project.lines() if "NETWORK_ACCESS_DENIED" in line["message"]]
    assert any("denied.example.org:80" in message for message in denied)
    assert project.dag().returncode == 3, "a plan that may reach the network is seen by a person first"
