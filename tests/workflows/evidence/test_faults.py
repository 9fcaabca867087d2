"""The evidence loop on a model server with faults, on loopback: whatever the server does, a plain answer comes out."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.evidence import GREP, decision, events_of, finalize, natives, planning, result, runs_of, said, tool
from tests.support.models import KEY
from tests.support.modelserver import Behaviour, Cut, Fail, ModelServer, Say, Stall
from tests.support.project import KNOWN, Project, records
from tests.support.runs import verify

SECRET = "sk-ant-api03-" + "a1B2" * 24


def say(reply: dict[str, Any], **more: Any) -> Say:
    """A scripted reply, as the server streams it."""
    return Say(reply["text"], **{"pieces": 7, "torn": True, **more})


def torn_stream(text: str) -> Fail:
    """A stream whose connection breaks in the middle of a character."""
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    body = f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()
    broken = body + body[: body.index(text.encode()) + 1]
    return Fail(200, headers={"content-type": "text/event-stream", "content-length": "9999"}, body=broken)


def ask(
    path: Path, *behaviours: Behaviour, more: tuple[str, ...] = (), config: str = "", env: dict[str, str] | None = None
) -> tuple[Project, subprocess.CompletedProcess[str], ModelServer]:
    """One turn on a server with these behaviours."""
    project = Project(path / "p")
    with ModelServer(*behaviours) as server:
        project.configure(
            "retries: {max: 2, backoff_base_sec: 0}\n"
            f"providers: {{default: {{kind: openai_compat, base_url: {server.url}/v1, model: m, key_env: WIRE_WORD,"
            f" idle_sec: 1{config}}}}}\n"
        )
        arguments = ("agent:run", "--session", "s1", "--goal", "add()는 무엇을 하나?", "--no-input", *more)
        ran = project.run(*arguments, env={"WIRE_WORD": KEY, **(env or {})})
    return project, ran, server


def told(output: str) -> dict[str, str]:
    """The joined token records of each call."""
    texts: dict[str, str] = {}
    for record in records(output):
        if record["type"] == "token":
            texts[record["key"]] = texts.get(record["key"], "") + record["text"]
    return texts


def stored(project: Project) -> dict[str, str]:
    """The text of each complete reply, as its event has it."""
    return {
        event.payload["key"]: event.payload["outcome"]["text"]
        for event in events_of(project)
        if event.type == "PHASE_COMPLETED" and "text" in event.payload["outcome"]
    }


@pytest.mark.spec("S5-13", "S5-59", "S5-60", "S5-68", "S5-69", "S5-70", "S5-71")
def test_a_turn_survives_stalled_torn_and_unfinished_streams(tmp_path: Path) -> None:
    """Every call but the last fails first; the last answer is JSON and is rewritten. Tokens are the stored text."""
    project, ran, server = ask(
        tmp_path,
        *(Stall(after=1, keepalive=True), say(planning())),
        *(torn_stream("한글이 끊긴다"), say(tool(GREP))),
        *(Cut(after=2), say(finalize())),
        *(Cut(after=1, clean=False), say(decision(answer='{"answer": "뺀다"}'))),
        Say(f"뺀다. 열쇠는 {SECRET} 이다.\n", pieces=30, torn=True),
        more=("--json", "--stream"),
    )
    assert ran.returncode == 0, ran.stderr
    assert len(server.seen) == 9
    failed = [event.payload for event in events_of(project) if event.type == "PHASE_FAILED"]
    assert [(one["key"], one["error"]["code"]) for one in failed] == [
        *(("planning.1", "TIMEOUT"), ("worker.1", "UNKNOWN"), ("worker.3", "UNKNOWN"), ("decision.1", "UNKNOWN")),
    ]
    answer = "뺀다. 열쇠는 ***REDACTED*** 이다."
    assert result(project)["answer"] == answer and said(project)[-1] == answer
    tokens, whole = told(ran.stdout), stored(project)
    assert whole.keys() == {"planning.2", "worker.2", "worker.4", "decision.2", "answer.1"}
    assert {key: text for key, text in tokens.items() if key in whole} == whole
    assert tokens["worker.1"] == "한글이 끊긴다"  # half a character is never shown
    assert SECRET not in ran.stdout + ran.stderr
    assert [str(finding) for run in runs_of(project) for finding in verify(run, KNOWN)] == []


@pytest.mark.spec("S5-26", "S5-46", "S5-61")
def test_a_server_that_sends_no_action_still_gets_to_an_answer(tmp_path: Path) -> None:
    """Seven replies of the worker that are none; then the answer. Nothing streams: each reply comes as a document."""
    garbage = [Say(text) for text in ("네", "{}", '{"action": "rm"}', "[]", '{"action": ', "\ufeff\ufeff", "{{{")]
    project, ran, server = ask(tmp_path, say(planning()), *garbage, Say("아마도 뺄셈이다."), more=("--no-stream",))
    assert (ran.returncode, ran.stdout) == (0, "아마도 뺄셈이다.\n"), ran.stderr
    assert [seen.body["stream"] for seen in server.seen] == [False] * 9
    assert natives(project).count("worker-start") == 7


@pytest.mark.spec("S5-47", "S5-54", "S5-72", "S5-73", "S5-74")
def test_the_think_bypass_is_sent_for_worker_and_main_and_logged(tmp_path: Path) -> None:
    replies = (planning(), finalize(), decision(answer="생각 없이 답한다"))
    project, ran, server = ask(
        tmp_path, *map(say, replies), config=", think_bypass: true", env={"DEBUG_LLM_REQUESTS": "true"}
    )
    assert (ran.returncode, ran.stdout) == (0, "생각 없이 답한다\n"), ran.stderr
    for seen in server.seen:
        *_, asked, begun = seen.body["messages"]
        assert asked["role"] == "user" and begun == {"role": "assistant", "content": "<think></think>"}
    lines = [json.loads(line) for line in (runs_of(project)[0] / "logs" / "llm-requests.log").read_text().splitlines()]
    assert [(line["agent"], line["thinkBypass"]) for line in lines] == [
        ("main", True),
        ("worker", True),
        ("main", True),
    ]
    assert [line["key"] for line in lines] == ["planning.1", "worker.1", "decision.1"]
    assert all(line["systemChars"] and line["userChars"] and KEY not in json.dumps(line) for line in lines)


@pytest.mark.spec("S5-58", "S5-73")
def test_forced_synthesis_thinks_if_main_says_so_whatever_the_provider_does_else(tmp_path: Path) -> None:
    more = decision("continue", forced_synthesis_enable_think=True)
    project, ran, server = ask(
        tmp_path,
        *(say(planning()), say(finalize()), say(more), Say("<think>음…</think>답이다", pieces=5)),
        more=("--max-steps", "1"),
        config=", think_bypass: true",
        env={"DEBUG_LLM_REQUESTS": "true"},
    )
    assert (ran.returncode, ran.stdout) == (0, "답이다\n"), ran.stderr
    begun = [seen.body["messages"][-1]["role"] for seen in server.seen]
    assert begun == ["assistant", "assistant", "assistant", "user"]
    log = (runs_of(project)[0] / "logs" / "llm-requests.log").read_text()
    assert [json.loads(line)["thinkBypass"] for line in log.splitlines()] == [True, True, True, False]


@pytest.mark.spec("S5-61")
def test_a_server_that_dies_after_the_evidence_leaves_an_answer(tmp_path: Path) -> None:
    """Not one more reply comes after a command was run: the evidence is the answer, in fixed words."""
    dead = [Fail(400, "gone")] * 9
    project, ran, _ = ask(tmp_path, say(planning()), say(tool(GREP)), *dead)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("No model could write an answer to: add()는") and "return a - b" in ran.stdout
    assert "[MAIN_FORCE_FINALIZE_FAIL]" in said(project)
