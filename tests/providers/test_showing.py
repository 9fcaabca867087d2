"""What a call was shown: recorded before it is made, told in one line, the same for the same project and words."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from orchestra.core.context import Context
from orchestra.core.faces import News, Notice
from orchestra.core.model import (
    Constraints,
    ContextArtifact,
    Gathered,
    OnToken,
    Prompt,
    ProviderCapabilities,
    ProviderFailure,
    ProviderRequest,
    ProviderResponse,
    Withheld,
)
from orchestra.core.shown import LeftOut, Receipt, Search, Shown, Wanted
from orchestra.core.work import ModelCall, ModelReply
from orchestra.providers.budget import Budget
from orchestra.providers.calling import Caller
from orchestra.providers.contract import Route
from orchestra.providers.showing import Showing
from tests.support.core import open_ledger
from tests.support.models import KEY
from tests.support.modelserver import Fail, ModelServer, Say, Stall
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, Project, records, role

SECRET = "s3cr3t-value-1234"  # what the tests' redactor knows
FILES = (
    Shown("a.py", "named", "named in the goal", 10, 3, 2.5),
    Shown("b.py", "found", f"terms: {SECRET}", 20, 5, 1.25, ((3, 5), (9, 9))),
    Shown("c.py", "found", "outline", 0, 0, lines=()),
)
RECEIPT = Receipt("test-1", FILES, 30, {"add": 2}, ("빼기",), (LeftOut("huge.py", "too long", ((3, 5),)),), ("x: no",))
FOUND = Gathered(
    (
        ContextArtifact("files of the workspace", ".", "a.py\nb.py\nc.py\n"),
        ContextArtifact("a.py", "a.py", "a = 1234\n"),
        ContextArtifact("b.py", "b.py", f"three\n{SECRET}\n"),
        ContextArtifact("c.py", "c.py", "def c():\n"),
    ),
    (Withheld(".env", "a secret by its name"),),
    RECEIPT,
)


class Scripted:
    """A provider that says these texts, one a call; an empty one is a failure."""

    def __init__(self, *texts: str, tokens: int | None = None) -> None:
        self.texts = list(texts)
        self.capabilities = ProviderCapabilities(
            name="scripted", supportsPatchFirst=True, maxContextTokens=UNSET if tokens is None else tokens
        )

    async def complete(self, request: ProviderRequest, on_token: OnToken) -> ProviderResponse:
        text = self.texts.pop(0)
        if text:
            return ProviderResponse(rawText=text, finishReason="stop", durationMs=1)
        failure = ProviderFailure(code="TIMEOUT", message="late", retriable=True)
        return ProviderResponse(rawText="", finishReason="error", durationMs=1, error=failure)


class Heard:
    """A face that keeps notices."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def tell(self, news: News) -> None:
        if isinstance(news, Notice):
            self.notices.append(news)


def call(**more: Any) -> ModelCall:
    limits = Constraints(timeoutMs=20_000, patchFirst=False)
    return ModelCall("planner", "planner", Prompt("s", "u"), (), limits, "plan/iter-0001", **more)


def perform(
    path: Path,
    effect: ModelCall,
    *texts: str,
    times: int = 1,
    found: Callable[[Search | None, int], Gathered] = lambda search, most: FOUND,
    **more: Any,
) -> tuple[list[ModelReply], list[Notice], list[dict[str, Any]]]:
    """The replies to the same call made several times, what a person saw, and what was recorded as sent."""
    ledger, face, provider = open_ledger(path), Heard(), Scripted(*texts, tokens=more.pop("tokens", None))
    showing = Showing(found, ledger, face, **more)
    caller = Caller(
        ledger, lambda call: Route(provider, "p"), showing=showing, face=face, budget=Budget(None, run_id=path.name)
    )

    async def flow() -> list[ModelReply]:
        ctx = Context(ledger, {ModelCall: caller}).at("plan", 1)
        return [await ctx.perform("plan", effect) for _ in range(times)]

    try:
        replies = asyncio.run(flow())
    finally:
        ledger.close()
    prompt = json.loads((path / "artifacts/plan/iter-0001.prompt.json").read_text())
    return replies, face.notices, prompt["sent"]


def test_a_reply_and_its_record_have_the_lines_that_were_shown(tmp_path: Path) -> None:
    [reply], _, [sent] = perform(tmp_path / "run", call(), "the plan")
    assert reply.files == ("a.py", "b.py") and reply.parts == {"b.py": ((3, 5), (9, 9))}
    parts = {part["name"]: part for part in sent["parts"] if part["kind"] == "file"}
    assert (parts["a.py"]["start"], parts["a.py"]["end"], "lines" in parts["a.py"]) == (0, 9, False)
    assert parts["b.py"]["lines"] == [[3, 5], [9, 9]] and "start" not in parts["b.py"]
    assert sent["receipt"]["method"] == "test-1" and sent["receipt"]["notFound"] == ["빼기"]
    assert sent["receipt"]["files"][1]["reason"] == "terms: ***REDACTED***"


@pytest.mark.parametrize(
    ("schema", "more", "search"),
    [
        ({}, {"files": False}, None),
        ({}, {"hints": ("goal",)}, Search(("goal",))),
        (
            {"schema": {"type": "object"}},
            {"traces": ("line 3",), "wanted": (Wanted(search="add"),), "mayAsk": True},
            Search((), ("line 3",), (Wanted(search="add"),), mayAsk=True, inJson=True),
        ),
    ],
)
def test_what_is_shown_follows_from_what_the_call_says(
    tmp_path: Path, schema: dict[str, Any], more: dict[str, Any], search: Search | None
) -> None:
    searches: list[Search | None] = []

    def found(search: Search | None, most: int) -> Gathered:
        searches.append(search)
        return FOUND

    effect = call(**more)
    limits = msgspec.structs.replace(effect.constraints, **schema)
    perform(tmp_path / "run", msgspec.structs.replace(effect, constraints=limits), "x", found=found)
    assert searches == [search]


def test_a_person_sees_one_line_a_call_and_a_retry_of_the_same_request_adds_none(tmp_path: Path) -> None:
    line = "context: 2 files, 1 KB (1 named, 1 found, 1 outlined); left out: huge.py, lines 3-5"
    _, told, sent = perform(tmp_path / "run", call(), "one", "two", times=2)
    assert [(notice.text, notice.progress) for notice in told] == [
        (line, True),
        ("not shown to the model: .env (a secret by its name)", False),
    ]
    assert len(sent) == 2  # both requests are recorded
    contents = iter(("before", "after"))

    def changed(search: Search | None, most: int) -> Gathered:
        return Gathered((ContextArtifact("a.py", "a.py", next(contents)),), receipt=RECEIPT)

    _, told, _ = perform(tmp_path / "changed", call(), "one", "two", times=2, found=changed)
    assert [notice.text for notice in told] == [line, line]


def test_the_line_is_masked(tmp_path: Path) -> None:
    named = Receipt("m", (), 0, leftOut=(LeftOut(f"{SECRET}.py", "too long"),))
    _, told, _ = perform(tmp_path / "run", call(), "x", found=lambda search, most: Gathered(receipt=named))
    assert [notice.text for notice in told] == ["context: 0 files, 0 KB; left out: ***REDACTED***.py"]


def test_a_call_without_files_asks_for_none_and_has_no_line(tmp_path: Path) -> None:
    asked: list[Search | None] = []

    def nothing(search: Search | None, most: int) -> Gathered:
        asked.append(search)
        return Gathered((ContextArtifact("rules of this project", "", "rules"),), receipt=Receipt("none", rules=("R",)))

    _, told, [sent] = perform(tmp_path / "run", call(files=False), "x", found=nothing)
    assert asked == [None] and told == [] and sent["receipt"]["rules"] == ["R"]


@pytest.mark.parametrize(
    ("tokens", "most", "given"), [(None, 200_000, 200_000), (None, 5_000, 5_000), (4_096, 200_000, 7_678), (10, 9, 1)]
)
def test_the_models_context_and_the_configuration_limit_the_bytes(
    tmp_path: Path, tokens: int | None, most: int, given: int
) -> None:
    seen: list[int] = []

    def found(search: Search | None, most: int) -> Gathered:
        seen.append(most)
        return Gathered()

    [reply], *_ = perform(tmp_path / "run", call(), "x", found=found, tokens=tokens, most=most)
    assert seen == [given] and reply.contextBytes == given


@pytest.mark.parametrize("text", ["NEED\n- file: a.py", "\n  NEED  \n- search: x"])
def test_a_reply_that_asks_to_see_more_is_no_document(tmp_path: Path, text: str) -> None:
    wish = call(asking="NEED", document="plan/iter-0001.md")
    [reply], *_ = perform(tmp_path / "run", wish, text)
    assert reply.document is None and not (tmp_path / "run/artifacts/plan/iter-0001.md").exists()
    for name, text in {"plan": "1. NEED nothing", "early": "Plan\nNEED"}.items():
        [reply], *_ = perform(tmp_path / name, wish, text)
        assert reply.document is not None
    [reply], *_ = perform(tmp_path / "unasked", call(document="plan/iter-0001.md"), "NEED\n- file: a.py")
    assert reply.document is not None


# -- with the real program --------------------------------------------------------------------------------------------


def receipts(project: Project) -> list[str]:
    """The key of every recorded request whose receipt has calc.py."""
    prompts = [json.loads(path.read_text()) for path in sorted(project.folder.artifacts.rglob("*.prompt.json"))]
    sent = [one for prompt in prompts for one in prompt["sent"]]
    return [one["key"] for one in sent if "calc.py" in [file["path"] for file in one["receipt"]["files"]]]


def test_failed_and_killed_calls_have_their_receipt(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.configure("retries: {max: 1, backoff_base_sec: 0.01}\n")
    options = ("--approval", "never", "--no-input", "--provider", "openai_compat", "--model", "m")
    pass_ = Say("DECISION: PASS\nGROUNDS: ok")
    with ModelServer(Stall(after=1), Say(PLAN), Fail(503), Say(RIGHT_PATCH), pass_) as server:
        env = {**os.environ, "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
        process = subprocess.Popen(
            [PROGRAM, "loop", "calc.py를 고쳐라", "--check", project.check, *options],
            cwd=project.path,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        server.wait_for_seen()
        process.kill()
        process.wait()
        assert receipts(project) == ["plan.1"]
        done = project.run("resume", "last", "--no-input", env=env)
        assert done.returncode == 0, done.stderr
    assert receipts(project) == ["evaluate.1", "execute.1", "execute.2", "plan.1", "plan.1"]


def test_a_reply_that_a_killed_process_stored_has_the_lines_that_were_shown(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    (project.path / "notes.txt").write_text("".join(f"{number}\n" for number in range(60)))
    for number in range(1, 400):
        if (project.path / ".runs").exists():
            subprocess.run(["rm", "-r", ".runs"], cwd=project.path, check=True)
        (project.path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        killed = project.loop("--context", "notes.txt:20-24", env={"ORCHESTRA_CHAOS": f"{number}:after"})
        if killed.returncode != -9:
            break
        if not list(project.path.glob(".runs/workflows/*/artifacts/plan/iter-0001.raw.txt")):
            continue
        resumed = project.run("resume", "last", "--no-input")
        assert resumed.returncode == 3, resumed.stderr
        plan = next(e for e in project.events() if e.type == "PHASE_COMPLETED" and e.payload["key"] == "plan.1")
        if plan.payload["outcome"].get("recovered"):
            assert plan.payload["outcome"]["parts"] == {"notes.txt": [[20, 24]]}
            return
    pytest.fail("no kill fell between the reply and its event")


def test_the_same_project_and_words_give_the_same_request_digest(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", role("planner", PLAN), role("developer", RIGHT_PATCH))
    (project.path / "AGENTS.md").write_text("four spaces\n")

    def digests() -> list[str]:
        done = project.loop()
        assert done.returncode == 3, done.stderr
        outcomes = (line["payload"]["outcome"] for line in records(done.stdout) if line["type"] == "PHASE_COMPLETED")
        return [outcome["request"] for outcome in outcomes if "request" in outcome]  # the others are checks

    first = digests()
    assert len(first) == 2 and digests() == first
    (project.path / "AGENTS.md").write_text("two spaces\n")
    assert digests() != first
