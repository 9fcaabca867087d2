"""`orchestra eval run`: golden scenarios on the real program: what passes, what fails and why, what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.project import PROGRAM, processes, until
from tests.support.runs import read_events
from tests.support.tasks import SUMMARY, Tasks, step

INTENT = "라이선스를 조사해줘"


def scenario(project: Tasks, file: str = "s.yaml", **parts: Any) -> Path:
    """A scenario file in the project; only `input` is there by itself."""
    path = project.path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({"input": {"intent": INTENT}, **parts}, allow_unicode=True), encoding="utf-8")
    return path


def evaluate(project: Tasks, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return project.run("eval", "run", *words, "--provider", f"scripted:{project.script}", **options)


def judged(project: Tasks, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the report as JSON."""
    done = evaluate(project, *words, "--report", "json")
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == report["exitCode"], done.stderr
    return done.returncode, report


def verdicts(report: dict[str, Any]) -> dict[str, bool]:
    """Every expectation of the only scenario, by its name."""
    [result] = report["scenarios"]
    return {one["name"]: one["passed"] for one in result["expectations"]}


def test_a_scenario_is_a_real_run_and_every_expectation_is_told(tmp_path: Path) -> None:
    project = Tasks(
        tmp_path / "프로젝트", step("가", tool="echo"), step("b", "가", tool="echo"), step("c", "b", tool="echo")
    )
    signals = {
        "plan_tasks_count": 3,
        "final_state": "done",
        "artifacts_count": {"min": 1, "max": 9},
        "execution_order": ["가", "c"],
    }
    # Hangul by letters, as some editors write it, is the same text.
    golden = {"report_contains": [unicodedata.normalize("NFD", SUMMARY), "가 하기"]}
    scenario(project, "한글.yaml", expected_signals=signals, golden_output=golden)
    code, report = judged(project, "한글.yaml")
    [result] = report["scenarios"]
    assert (code, report["passed"], result["name"]) == (0, True, "한글")
    assert [one["passed"] for one in result["expectations"]] == [True] * 6
    assert result["runId"] == project.folder.id and result["dir"] == str(project.folder.path)
    assert (result["tokens"], result["costUsd"]) == (120, 0.0) and result["durationMs"] > 0
    assert project.run("verify", str(project.folder.path)).returncode == 0


def test_the_report_for_people_is_markdown_on_stdout_and_progress_is_not_in_it(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    scenario(project, "s/one.yaml", name="하나|둘")
    scenario(project, "s/two.yaml", expected_signals={"plan_tasks_count": 2})
    (project.path / "s" / "plan.json").write_text("[]")  # no scenario: no *.yaml
    done = evaluate(project, "s", str(project.path / "s" / "one.yaml"), "s/two.yaml")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "# Scenarios: 1 of 2 passed"  # each once, however often it is named
    assert any(line.startswith("| 하나\\|둘 | passed |") for line in lines)
    assert "| plan_tasks_count | 2 | 1 | **failed** |" in lines
    assert "| final_state | completed | completed | passed |" in lines
    assert "a begins" in done.stderr and "a begins" not in done.stdout


@pytest.mark.parametrize(
    ("signals", "name", "expected", "actual"),
    [
        ({"plan_tasks_count": 5}, "plan_tasks_count", 5, 2),
        ({"plan_tasks_count": {"min": 3}}, "plan_tasks_count", {"min": 3}, 2),
        ({"artifacts_count": {"max": 0}}, "artifacts_count", {"max": 0}, None),
        ({"execution_order": ["b", "a"]}, "execution_order", ["b", "a"], ["a", "b"]),
        ({"execution_order": ["a", "없는작업"]}, "execution_order", ["a", "없는작업"], ["a", "b"]),
        ({"final_state": "failed"}, "final_state", "failed", "completed"),
        ({"final_state": "canceled"}, "final_state", "canceled", "completed"),
    ],
)
def test_what_was_not_met_is_told_with_what_there_was(
    tmp_path: Path, signals: dict[str, Any], name: str, expected: Any, actual: Any
) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"), step("b", "a", tool="echo"))
    scenario(project, expected_signals=signals)
    code, report = judged(project, "s.yaml")
    [failed] = [one for one in report["scenarios"][0]["expectations"] if not one["passed"]]
    assert (code, failed["name"], failed["expected"]) == (1, name, expected)
    assert actual is None or failed["actual"] == actual


def test_a_text_the_report_lacks_fails_the_scenario(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    scenario(project, golden_output={"report_contains": ["모두 끝났", "없는 말"]})
    code, report = judged(project, "s.yaml")
    told = [(one["expected"], one["actual"]) for one in report["scenarios"][0]["expectations"]]
    assert code == 1 and told[1:] == [("모두 끝났", "found"), ("없는 말", "not found")]


def test_a_failed_run_fails_a_scenario_that_does_not_expect_it_and_passes_one_that_does(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("bad", code="raise SystemExit(3)"), config={"retries": {"max": 0}})
    scenario(project, "s/1.yaml")
    scenario(project, "s/2.yaml", expected_signals={"final_state": "failed"})
    code, report = judged(project, "s")
    assert code == 1 and [result["passed"] for result in report["scenarios"]] == [False, True]
    assert "1 of 1 tasks failed: bad" in report["scenarios"][0]["message"]


def test_a_plan_of_ones_own_beside_the_scenario_needs_no_model(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    path = scenario(project, "s/own.yaml", input={"intent": INTENT, "plan": "own.json"})
    (path.parent / "own.json").write_text(json.dumps([step("a", tool="echo")], ensure_ascii=False))
    done = project.run("eval", "run", "s", "--report", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scenarios"][0]["tokens"] == 0
    (path.parent / "own.json").write_text('[{"task_id": "a"')
    broken = project.run("eval", "run", "s")
    assert broken.returncode == 2 and "s/own.json:1:" in broken.stderr
    (path.parent / "own.json").unlink()
    gone = project.run("eval", "run", "s")
    assert gone.returncode == 2 and "own.json: there is no such file" in gone.stderr
    assert len(project.runs) == 1


def test_a_run_that_waits_for_a_person_fails_its_scenario_and_says_so(tmp_path: Path) -> None:
    config = {"policies": {"default_fs_mode": "rw"}}
    writes = step("w", code="open('new.txt', 'w').write('x')", constraints={"sandbox": {"fs": "rw"}})
    project = Tasks(tmp_path / "p", writes, config=config)
    scenario(project)
    code, report = judged(project, "s.yaml")
    [result] = report["scenarios"]
    assert (code, result["status"], result["exitCode"]) == (1, "awaiting_approval", 3)
    assert "waits for a person (may change the workspace: w)" in result["message"]
    assert "--approval never" in result["message"] and not (project.path / "new.txt").exists()
    assert not verdicts(report)["final_state"]
    code, report = judged(project, "s.yaml", "--approval", "never")
    assert code == 0 and (project.path / "new.txt").exists()


def test_a_rule_that_asks_holds_whatever_approval_is_said(tmp_path: Path) -> None:
    rule = {"prefix": ["echo"], "decision": "ask", "reason": "시끄럽다"}
    project = Tasks(tmp_path / "p", step("a", tool="echo"), config={"rules": [rule]})
    scenario(project)
    code, report = judged(project, "s.yaml", "--approval", "never")
    message = report["scenarios"][0]["message"]
    assert code == 1 and "시끄럽다" in message and "let a rule of the project allow it" in message


def test_an_override_holds_for_its_scenario_alone(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("slow", code="import time; time.sleep(60)"))
    override = {"policies": {"max_task_duration_sec": 1}, "retries": {"max": 0}, "concurrency": {"max_workers": 1}}
    scenario(project, config_override=override, expected_signals={"final_state": "failed"})
    code, report = judged(project, "s.yaml")
    assert code == 0, report
    params = read_events(project.folder.events)[0].payload["params"]
    assert (params["policy"]["max_task_sec"], params["policy"]["max_workers"], params["maxWorkers"]) == (1, 1, 1)
    assert params["policy"]["max_total_sec"] == 1800
    assert yaml.safe_load(project.read("config.yaml"))["retries"] == {"max": 0, "backoff_base_sec": 0.05}


def test_an_override_may_say_who_answers_and_a_flag_wins_over_it(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    scenario(project, config_override={"providers": {"default": f"scripted:{project.script}"}})
    assert project.run("eval", "run", "s.yaml").returncode == 0
    refused = project.run("eval", "run", "s.yaml", "--provider", "scripted:nope.yaml")
    assert refused.returncode == 2 and "nope.yaml" in refused.stderr


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ({"concurrency": {"max_workers": 9}}, "`config_override.concurrency.max_workers`: the project has 4"),
        ({"retries": {"max": 9}}, "retries.max`: the project has 1"),
        ({"policies": {"default_fs_mode": "rw"}}, "default_fs_mode`: the project has read-only"),
        ({"policies": {"max_total_duration_sec": 9999}}, "max_total_duration_sec`: the project has 1800"),
        ({"whitelist_tools": ["echo", "bash"]}, "whitelist_tools.1`: bash is not in the project's"),
        ({"sandbox": {"tier": "none"}}, "sandbox.tier`: the project has strict"),
        ({"sandbox": {"memory_mb": 99999}}, "sandbox.memory_mb`: the project has 2048"),
        ({"sandbox": {"env": ["DATABASE_URL"]}}, "the project does not hand DATABASE_URL to commands"),
        ({"sandbox": {"run_as": 1234}}, "as whom commands run, only the project says"),
        ({"security": {"fs": {"allow_read": ["./", "/opt"]}}}, "security.fs.allow_read`: the project has "),
        (
            {"policies": {"allow_network": True}, "security": {"net": {"allow_domains": ["pypi.org"]}}},
            "security.net.allow_domains`: the project's tools reach no network",
        ),
        ({"security": {"redact_secrets": False}}, "redact_secrets`: the project masks secrets"),
        ({"dag": {"approval": "never"}}, "the project asks a person more often (risk); only you can say otherwise"),
        ({"budget": {"max_usd": None}}, "budget.max_usd`: the project has 2"),
        ({"paths": {"runs": "./elsewhere"}}, "runs are kept where the project's are"),
        ({"tools": {"echo": "/usr/bin/cat"}}, "which program a tool is, only the project says"),
        (
            {"providers": {"x": {"kind": "openai_compat", "base_url": "http://h/v1", "key_env": "AWS_SECRET"}}},
            "providers.x.base_url`: to whom a key goes, only the project says",
        ),
        ({"providers": {"claude_code": {"program": "./claude"}}}, "providers.claude_code.program`: to whom a key goes"),
    ],
)
def test_an_override_that_widens_the_policy_is_refused_with_its_line(
    tmp_path: Path, override: dict[str, Any], said: str
) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"), config={"budget": {"max_usd": 2}})
    scenario(project, config_override=override)
    done = evaluate(project, "s.yaml")
    assert (done.returncode, project.runs, done.stdout) == (5, [], "")
    assert said in done.stderr and "s.yaml:" in done.stderr


def test_rules_of_the_project_hold_whatever_a_scenario_says(tmp_path: Path) -> None:
    forbid = {"prefix": ["git", "push"], "decision": "forbid", "reason": "원격이 없다"}
    push = step("p", tool="git", inputs={"args": ["push"]})
    project = Tasks(tmp_path / "p", config={"rules": [forbid]})
    (project.path / "plan.json").write_text(json.dumps([push]))
    allow = {"prefix": ["git", "push"], "decision": "allow"}
    scenario(project, input={"intent": INTENT, "plan": "plan.json"}, config_override={"rules": [allow]})
    done = project.run("eval", "run", "s.yaml")
    assert done.returncode == 5 and "원격이 없다 (rule `git push`, orchestra.config.yaml:" in done.stderr
    assert project.runs == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("input: {intnt: x}", ["s.yaml:1: `input`: `intent` is missing", "did you mean `intent`?"]),
        ("input: {intent: '  '}", ["s.yaml:1: `input.intent`: it is empty"]),
        ("name: 이름", ["`input` is missing"]),
        ("", ["`input` is missing"]),
        ("- 1", ["s.yaml:1: "]),
        ("input: [", ["s.yaml is not valid YAML"]),
        ("input: {intent: 안녕}\nexpected_signal: {}", ["s.yaml:2: unknown key `expected_signal`; did you mean"]),
        (
            "input: {intent: 안녕}\nexpected_signals:\n  final_state: finished\n  plan_tasks_count: many",
            ["s.yaml:3: `expected_signals.final_state`", "it can be completed, done, failed", "s.yaml:4: "],
        ),
        ("input: {intent: 안녕}\nexpected_signals: {plan_tasks_count: -1}", ["s.yaml:2: "]),
        ("input: {intent: 안녕}\nexpected_signals: {plan_tasks_count: {}}", ["give a number, `min` or `max`"]),
        ("input: {intent: 안녕}\nexpected_signals: {artifacts_count: {min: 3, max: 1}}", ["nothing is both 3 or more"]),
        ("input: {intent: 안녕}\nexpected_signals: {artifacts_count: {most: 1}}", ["unknown key", "min, max"]),
        ("input: {intent: 안녕}\nexpected_signals: {execution_order: [a, b, a]}", ["'a' stands twice"]),
        ("input: {intent: 안녕}\ngolden_output: {report_contains: ['']}", ["it is empty, which every report holds"]),
        (
            "input: {intent: 안녕}\nconfig_override:\n  polcies: {}\n  retries: {max: x}",
            ["s.yaml:3: unknown key `config_override.polcies`; did you mean `policies`?", "s.yaml:4: "],
        ),
        (
            "input: {intent: 안녕}\nconfig_override:\n  security: {fs: {allow_write: [/]}}",
            ["s.yaml:3: `config_override.security.fs.allow_write.0`"],
        ),
        (
            "input: {intent: 안녕}\nconfig_override:\n  roles: {plannr: local}\n  providers: {default: antropic}",
            ["s.yaml:3: `config_override.roles.plannr`: there is no such role", "s.yaml:4: ", "'anthropic'?"],
        ),
    ],
)
def test_a_bad_scenario_is_refused_where_it_is_wrong_and_no_other_is_run(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    project = Tasks(tmp_path / "p", step("a", tool="echo"))
    scenario(project, "good.yaml")
    (project.path / "s.yaml").write_text(text + "\n", encoding="utf-8")
    done = evaluate(project, "good.yaml", "s.yaml")
    assert (done.returncode, done.stdout, project.runs) == (2, "", [])
    assert all(words in done.stderr for words in said), done.stderr
    assert "Traceback" not in done.stderr


def test_the_mistakes_of_all_files_are_told_together(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    for name in ("a.yaml", "b.yaml"):
        (project.path / name).write_text("nam: x\n")
    done = evaluate(project, "a.yaml", "b.yaml", "gone.yaml")
    assert done.returncode == 2
    assert all(name in done.stderr for name in ("a.yaml:1:", "b.yaml:1:", "gone.yaml: No such file"))
    (project.path / "empty").mkdir()
    nothing = evaluate(project, "empty")
    assert nothing.returncode == 2 and "empty has no scenario" in nothing.stderr


def test_a_scenario_without_anybody_to_answer_is_refused_before_a_run_exists(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    scenario(project)
    done = project.run("eval", "run", "s.yaml", env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 2 and "no model is configured" in done.stderr and project.runs == []


def test_a_provider_that_fails_is_no_expected_failure(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", config={"retries": {"max": 0}})
    project.write_script({"match": {"phase": "plan"}, "error": {"code": "AUTH", "message": "no", "retriable": False}})
    scenario(project, expected_signals={"final_state": "failed"})
    code, report = judged(project, "s.yaml")
    assert code == 6 and report["scenarios"][0]["status"] == "failed" and not report["passed"]


def test_a_script_without_a_reply_fails_the_scenario(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    project.write_script({"match": {"role": "fixer"}, "text": "x"})
    scenario(project, expected_signals={"final_state": "failed"})
    code, report = judged(project, "s.yaml")
    [result] = report["scenarios"]
    assert code == 1 and not result["passed"] and "no model answered" in result["message"]


def test_a_plan_the_policy_refuses_can_be_what_is_expected(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p")
    text = json.dumps([step("a", tool="bash")])
    project.write_script({"match": {"phase": "plan"}, "text": text, "repeat": True})
    scenario(project, "bad.yaml")
    assert judged(project, "bad.yaml")[0] == 5
    scenario(project, "good.yaml", expected_signals={"final_state": "failed"})
    assert judged(project, "good.yaml")[0] == 0


def test_a_run_with_a_configuration_of_its_own_does_not_go_on_without_it(tmp_path: Path) -> None:
    """The project's own may allow more."""
    project = Tasks(tmp_path / "p", step("가", tool="echo"), config={"sandbox": {"env": ["HOME_TOWN"]}})
    scenario(project, config_override={"sandbox": {"env": []}, "dag": {"approval": "always"}})
    assert evaluate(project, "s.yaml").returncode == 1
    for word in ("resume", "approve"):
        refused = project.run(word, "last", "--no-input")
        assert refused.returncode == 2, refused.stderr
        assert "orchestra eval run" in refused.stderr and "orchestra cancel" in refused.stderr
    assert project.run("cancel", "last").returncode == 0
    assert project.run("verify", "last").returncode == 0


def test_the_report_is_there_also_if_nobody_hears_the_progress(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("가", tool="echo"))
    scenario(project)
    words = [PROGRAM, "eval", "run", "s.yaml", "--provider", f"scripted:{project.script}"]
    reader, deaf = os.pipe()
    os.close(reader)
    done = subprocess.run(words, cwd=project.path, stdout=subprocess.PIPE, stderr=deaf)
    os.close(deaf)
    assert "1 of 1 passed" in done.stdout.decode()


def test_what_never_ends_is_not_read(tmp_path: Path) -> None:
    """Scenarios come with repositories."""
    project = Tasks(tmp_path / "p", step("가", tool="echo"))
    scenario(project, "plan.yaml", input={"intent": INTENT, "plan": "/dev/zero"})
    (project.path / "zero.yaml").symlink_to("/dev/zero")
    os.mkfifo(project.path / "pipe.yaml")
    for name in ("plan.yaml", "zero.yaml", "pipe.yaml"):
        refused = evaluate(project, name)
        assert refused.returncode == 2 and "is no regular file" in refused.stderr
    (project.path / "self.yaml").write_text(
        "input: {intent: x}\nconfig_override:\n  providers:\n    m: {kind: openai_compat, extra: &e {a: *e}}\n"
    )
    assert "more than 100,000 values" in evaluate(project, "self.yaml").stderr
    bomb = "\n".join(f"  b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 9))
    (project.path / "bomb.yaml").write_text(f"input: {{intent: x}}\nname:\n  b0: &b0 [x]\n{bomb}\n")
    assert "more than 100,000 values" in evaluate(project, "bomb.yaml").stderr
    (project.path / "half.yaml").write_text('name: "a\\ud800b"\ninput: {intent: x}\n')
    assert evaluate(project, "half.yaml", "--report", "json").returncode == 2
    assert not project.runs


def test_what_is_replayed_is_settled_before_the_first_run(tmp_path: Path) -> None:
    project = Tasks(tmp_path / "p", step("가", tool="echo"))
    scenario(project, "1.yaml")
    scenario(project, "2.yaml")
    assert project.dag().returncode == 0
    source = project.folder.id
    done = project.run("eval", "run", "1.yaml", "2.yaml", "--provider", "replay:last")
    assert done.returncode == 0, done.stderr
    began = [read_events(run.events)[0].payload["models"]["default"] for run in project.runs[1:]]
    assert began == [f"replay:{source}"] * 2


def test_ctrl_c_ends_the_run_in_order_and_the_rest_is_not_run(tmp_path: Path) -> None:
    mark = f"import time; time.sleep(600)  # {tmp_path}"
    project = Tasks(tmp_path / "p", step("slow", code=mark))
    scenario(project, "1.yaml")
    scenario(project, "2.yaml")
    words = ["eval", "run", "1.yaml", "2.yaml", "--report", "json", "--provider", f"scripted:{project.script}"]
    running = subprocess.Popen(
        [PROGRAM, *words],
        cwd=project.path,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    until(lambda: processes(tmp_path))
    running.send_signal(signal.SIGINT)
    report = json.loads(running.communicate(timeout=30)[0])
    assert running.returncode == report["exitCode"] == 130
    assert [result["status"] for result in report["scenarios"]] == ["running", "not run"]
    assert len(project.runs) == 1 and processes(tmp_path) == []
