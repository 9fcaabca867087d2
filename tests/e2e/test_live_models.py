"""The real program with live providers, everything on loopback: runs, their audit, their secrets, their replay."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestra.core.calls import past_calls
from tests.support.evidence import events_of
from tests.support.models import CLAUDE, KEY, needs_claude
from tests.support.modelserver import Cut, Fail, ModelServer, Say
from tests.support.project import PLAN, RIGHT, RIGHT_PATCH, Project

PASS = "DECISION: PASS\nGROUNDS: 검사가 통과했다"
REPLIES = (Say(PLAN, input_tokens=1000, output_tokens=100, cached_tokens=400), Say(RIGHT_PATCH), Say(PASS))
SERVER = Path(__file__).parents[2] / "benchmarks" / "goals" / "server.py"


def environment(kind: str, url: str) -> dict[str, str]:
    names = {"openai_compat": "OPENAI", "anthropic": "ANTHROPIC", "claude_code": "ANTHROPIC"}
    base = f"{url}/v1" if kind == "openai_compat" else url
    path = f"{CLAUDE.parent}:{os.environ['PATH']}"
    return {f"{names[kind]}_BASE_URL": base, f"{names[kind]}_API_KEY": KEY, "PATH": path}


def run_loop(project: Project, env: dict[str, str], *more: str) -> subprocess.CompletedProcess[str]:
    arguments = ("loop", "make add() add", "--check", project.check, "--approval", "never", "--no-input", *more)
    return project.run(*arguments, env=env, timeout=120)


def everything(folder: Path) -> str:
    texts = [path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]
    return "\n".join(texts)


@pytest.mark.parametrize("kind", ["openai_compat", "anthropic", pytest.param("claude_code", marks=needs_claude)])
def test_a_loop_just_works_with_what_the_environment_offers(kind: str, tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    with ModelServer(*REPLIES) as server:
        env = environment(kind, server.url)
        asked = () if kind != "anthropic" else ("--provider", "anthropic")  # the CLI is on PATH too, and comes first
        done = run_loop(project, env, "--model", "wire-model", *asked)
        assert done.returncode == 0, done.stderr
        assert len(server.seen) == 3
        assert {seen.headers["x-orchestra-trace-id"] for seen in server.seen} == {project.folder.id}  # S2-87
    assert project.calc().endswith(RIGHT)
    calls = past_calls(project.events())
    assert [(call.role, call.status, call.provider) for call in calls] == [
        ("planner", "ok", kind),
        ("developer", "ok", kind),
        ("evaluator", "ok", kind),
    ]
    assert [call.usage.inputTokens for call in calls] == [1000, 12, 12]
    assert calls[0].usage.cacheReadTokens == 400
    assert KEY not in everything(project.folder.path)
    assert project.run("verify", "last").returncode == 0


def test_a_recorded_run_replays_offline_byte_for_byte(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    before = project.calc()
    with ModelServer(*REPLIES) as server:
        assert run_loop(project, environment("openai_compat", server.url)).returncode == 0
    first = project.folder
    (project.path / "calc.py").write_text(before)
    done = run_loop(project, {}, "--provider", f"replay:{first.id}")
    assert done.returncode == 0, done.stderr
    again = [path for path in first.path.parent.iterdir() if path != first.path and path.is_dir()]
    for name in ("plan", "execute", "evaluate"):
        raw = f"artifacts/{name}/iter-0001.raw.txt"
        assert (again[0] / raw).read_bytes() == (first.path / raw).read_bytes()
    assert project.calc().endswith(RIGHT)


def test_a_run_of_a_model_that_reads_little_replays_too(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    for number in range(40):  # more than 3000 tokens of it
        (project.path / f"notes{number}.py").write_text("# calc.add: 가나다라마바사 " * 40)
    before = project.calc()
    with ModelServer(*REPLIES) as server:
        project.configure(
            f"providers: {{small: {{kind: openai_compat, base_url: {server.url}/v1, model: m, context_tokens: 4000,"
            " max_output_tokens: 300}}\n"
        )
        assert run_loop(project, {}, "--provider", "small").returncode == 0
        sent = len(json.dumps(server.seen[1].body["messages"], ensure_ascii=False).encode())
        assert 3000 < sent < 3 * 4000
    first = project.folder
    (project.path / "calc.py").write_text(before)
    done = run_loop(project, {}, "--provider", f"replay:{first.id}")
    assert done.returncode == 0, done.stderr


def test_roles_go_to_the_models_they_are_routed_to_and_the_audit_says_what_each_cost(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    with (
        ModelServer(Say(PLAN, input_tokens=2000, output_tokens=1000), Say(RIGHT_PATCH)) as one,
        ModelServer(Say(PASS, input_tokens=1_000_000, output_tokens=0)) as two,
    ):
        project.configure(
            "providers:\n"
            f"  default: {{kind: openai_compat, base_url: {one.url}/v1, model: big}}\n"
            f"  judge: {{kind: anthropic, base_url: {two.url}, model: small, key_env: JUDGE_WORD}}\n"
            "roles: {evaluator: judge}\n"
            "budget: {prices: {big: {input: 1.0, output: 10.0}, small: {input: 0.5}}}\n"
        )
        env = {"OPENAI_API_KEY": KEY, "JUDGE_WORD": "not-a-usual-name-0123456789"}
        done = run_loop(project, env)
        assert done.returncode == 0, done.stderr
        # The usual key goes to the usual server only; an entry's own server gets what the entry names.
        assert all("authorization" not in seen.headers for seen in one.seen)
        assert two.seen[0].headers["x-api-key"] == "not-a-usual-name-0123456789"
        assert [seen.body["model"] for seen in (*one.seen, *two.seen)] == ["big", "big", "small"]
    audit = [json.loads(line) for line in project.run("audit", "last", "--json").stdout.splitlines()]
    costs = {line["role"]: round(line["costUsd"], 6) for line in audit if line["type"] == "role"}
    assert costs == {"planner": 0.012, "developer": 0.000042, "evaluator": 0.5}
    assert "not-a-usual-name" not in everything(project.folder.path)


def test_a_failure_that_may_pass_is_waited_out_as_long_as_the_server_says(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure("retries: {max: 2, backoff_base_sec: 0}\n")
    replies = (Fail(429, headers={"retry-after": "1"}), REPLIES[0], Cut(after=1), REPLIES[1], REPLIES[2])
    with ModelServer(*replies) as server:
        done = run_loop(project, environment("openai_compat", server.url))
        assert done.returncode == 0, done.stderr
        assert len(server.seen) == 5
        ids = [seen.headers["idempotency-key"] for seen in server.seen]
        assert len(set(ids)) == 5  # another try is another call
    failed = [event for event in project.events() if event.type == "PHASE_FAILED"]
    assert [event.payload["error"]["code"] for event in failed] == ["RATE_LIMIT", "UNKNOWN"]
    assert (project.folder.artifacts / "execute" / "iter-0001.attempt-1.raw.txt").read_text()  # the prefix is kept


def test_a_reply_cut_at_its_limit_is_said_to_be_cut(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    with ModelServer(REPLIES[0], Say("반쯤 쓴 답", finish="length"), REPLIES[1], REPLIES[2]) as server:
        done = run_loop(project, environment("openai_compat", server.url))
        assert done.returncode == 0, done.stderr
    assert "cut by the length limit (raise the provider's max_output_tokens)" in done.stderr


def test_a_dead_server_is_exit_code_6_with_its_address_and_the_cure(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure("retries: {max: 1, backoff_base_sec: 0}\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = run_loop(project, environment("openai_compat", url), "--model", "m")
    assert done.returncode == 6
    assert url in done.stderr and "Is the server running" in done.stderr and "OPENAI_BASE_URL" in done.stderr


def test_a_wrong_key_is_said_once_and_never_shown(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    with ModelServer(default=Fail(401, f"Incorrect API key provided: {KEY}")) as server:
        done = run_loop(project, environment("openai_compat", server.url))
        assert len(server.seen) == 1
    assert done.returncode == 6
    assert "Check the key (OPENAI_API_KEY)" in done.stderr
    assert KEY not in done.stderr + done.stdout + everything(project.folder.path)


@pytest.mark.spec("S5-72", "S5-73", "S5-74")
def test_requests_are_summed_up_if_asked_and_only_then(tmp_path: Path) -> None:
    for debug in ("", "true"):
        project = Project(tmp_path / f"p{debug}")
        project.configure("providers: {openai_compat: {think_bypass: true}}\n")
        with ModelServer(*REPLIES) as server:
            env = environment("openai_compat", server.url) | {"DEBUG_LLM_REQUESTS": debug}
            assert run_loop(project, env, "--provider", "openai_compat").returncode == 0
        log = project.folder.logs / "llm-requests.log"
        assert log.exists() == bool(debug)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["role"] for line in lines] == ["planner", "developer", "evaluator"]
    assert all(line["thinkBypass"] for line in lines)
    assert [part["name"] for part in lines[0]["context"]] == [
        "files of the workspace",
        "calc.py",
        "orchestra.config.yaml",
        "the checks before any change",
    ]


def test_the_exact_prompt_of_a_call_can_be_seen(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    with ModelServer(*REPLIES) as server:
        assert run_loop(project, environment("openai_compat", server.url)).returncode == 0
        sent = server.seen[1].body["messages"]
    shown = project.run("show", "last", "--prompt", "execute.1").stdout
    for line in sent[0]["content"].splitlines():
        assert line.rstrip() in shown
    assert "calc.py" in shown and "def add(a, b):" in shown and "tokens (about)" in shown
    wrong = project.run("show", "last", "--prompt", "nope.1")
    assert wrong.returncode == 2 and "execute.1" in wrong.stderr


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """A real OpenAI-compatible server with a real model, in a process of its own."""
    server = subprocess.Popen(
        [sys.executable, SERVER],
        env={**os.environ, "SERVER_KEY": KEY},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin and server.stdout
    with server, server.stdin:
        yield server.stdout.readline().strip()


@pytest.mark.spec("S5-68")
def test_a_graph_on_a_real_small_model_keeps_the_contract(llama: str, tmp_path: Path) -> None:
    """Quality is not the point: a 135M model plans nonsense, and the run must end in order all the same."""
    project = Project(tmp_path / "p")
    project.configure(
        "retries: {max: 0}\n"
        f"providers: {{default: {{kind: openai_compat, base_url: {llama}/v1, key_env: LLAMA_KEY, constrain: true,"
        " context_tokens: 8192, max_output_tokens: 8}}\n"
    )
    arguments = ("dag", "list the files", "--approval", "never", "--no-input", "--json")
    done = project.run(*arguments, env={"LLAMA_KEY": KEY}, timeout=240)
    assert done.returncode in (0, 1, 3, 5), done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["type"] == "done"
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    assert project.run("verify", "last").returncode == 0
    calls = [json.loads(line) for line in project.run("audit", "last", "--json").stdout.splitlines()]
    assert calls[0]["usage"]["inputTokens"] > 0


@pytest.mark.spec("S5-42", "S5-68")
def test_an_evidence_run_on_a_real_small_model_runs_a_command_and_main_ends_it(llama: str, tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure(
        f"providers: {{default: {{kind: openai_compat, base_url: {llama}/v1, key_env: LLAMA_KEY, constrain: true,"
        " context_tokens: 8192, max_output_tokens: 1024}}\n"
    )
    arguments = ("--session", "s1", "--goal", "what does calc.py do?", "--max-steps", "2", "--no-input", "--json")
    done = project.run("agent:run", *arguments, env={"LLAMA_KEY": KEY}, timeout=240)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["result"]
    assert found["answer"] and not found["answer"].startswith("No model could")
    assert found["evidence"][0]["exitCodes"]  # it was executed
    ended = [event.payload.get("native") for event in events_of(project) if event.type == "PHASE_COMPLETED"]
    assert ended == [
        *("planning-result", "worker-action", "tool-result", "worker-action", "main-decision", "final-answer"),
        "complete",
    ]


@needs_claude
def test_the_audit_counts_the_request_that_the_cli_makes_by_itself(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    with ModelServer(default=Fail(404, "그런 모델은 없다")) as server:
        assert run_loop(project, environment("claude_code", server.url)).returncode == 6
        assert len(server.seen) == 2
    call, *_, total = map(json.loads, project.run("audit", "last", "--json").stdout.splitlines())
    assert (call["requests"], call["asked"], total["calls"], total["requests"]) == (2, 1, 1, 2)
    assert "plan.1 made 2 requests: the claude CLI asks once more by itself" in project.run("audit", "last").stdout
    assert "| failed (2 requests) |" in project.run("report", "last").stdout
