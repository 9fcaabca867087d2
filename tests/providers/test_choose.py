"""Who answers for whom: by agent name, then by role, then the default; and everyone hears what is said as it comes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from orchestra.app import App
from orchestra.core.errors import UsageError
from orchestra.core.faces import News, Token
from orchestra.providers.choose import Models
from orchestra.workflows.loop.shapes import Job
from tests.support.models import KEY
from tests.support.modelserver import ModelServer, Say
from tests.support.project import PLAN, RIGHT_PATCH, Project

CONFIG = """
providers:
  default: openai_compat:everyone
  big: {kind: openai_compat, base_url: "http://127.0.0.1:9/v1", model: large}
  small: {kind: openai_compat, base_url: "http://127.0.0.1:9/v1", model: little}
  same: big
roles: {main: big, worker: small:tiny, planner: same:huge}
"""


@pytest.fixture
def app(tmp_path: Path) -> App:
    (tmp_path / "orchestra.config.yaml").write_text(CONFIG)
    return App(tmp_path, environ={"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY})


@pytest.mark.spec("S5-13", "S5-14")
@pytest.mark.parametrize(
    ("agent", "role", "model"),
    [
        ("main", "planner", "large"),  # the agent's own line wins over its role's
        ("worker", "planner", "tiny"),
        ("summarizer", "planner", "huge"),  # no line of its own: its role's
        ("evaluator", "evaluator", "everyone"),  # neither: the default
    ],
)
def test_routing_goes_by_agent_then_role_then_default(app: App, agent: str, role: str, model: str) -> None:
    models = app.project.providers.routing(provider="", roles={}, model="", budget=None)
    assert app.project.providers.choose(models.spec(agent, role), models.model).model == model


@pytest.mark.parametrize(
    ("spec", "flag", "model"),
    [
        ("openai_compat:x", "flag", "x"),  # what a spec says itself wins
        ("big", "flag", "flag"),  # then the flag, then the entry
        ("big", "", "large"),
        ("claude_code", "", "claude-sonnet-4-5-20250929"),  # S2-54
        ("anthropic", "", "claude-sonnet-4-5-20250929"),
        ("openai_compat", "", ""),
    ],
)
def test_a_model_is_what_the_spec_the_flag_or_the_entry_says(app: App, spec: str, flag: str, model: str) -> None:
    assert app.project.providers.choose(spec, flag).model == model


def test_a_flag_wins_over_the_file_and_names_last(app: App) -> None:
    models = app.project.providers.routing(provider="same", roles={"evaluator": "small"}, model="", budget=None)
    settled = app.project.providers.settled(models)
    assert settled.default == "big"  # a name for another name is resolved; an entry keeps its own
    assert settled.spec("evaluator", "evaluator") == "small"
    assert app.project.providers.settled(Models()) == Models()
    with pytest.raises(UsageError, match="there is no provider 'nope'; there are claude_code"):
        app.project.providers.settled(Models(default="nope"))


@pytest.mark.parametrize(
    ("agent", "model"),
    [("everyone", "flag"), ("main", "large"), ("worker", "tiny")],  # `--model` is for the default, not for a role's own
)
def test_the_model_flag_is_for_the_default(app: App, agent: str, model: str) -> None:
    models = app.project.providers.routing(provider="openai_compat", roles={}, model="flag", budget=None)
    assert app.project.providers.choice_for(models, agent, agent).model == model


def test_an_alias_takes_another_model_and_a_kind_may_stand_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "orchestra.config.yaml").write_text(
        "providers:\n  judge: anthropic:claude-haiku-4-5\n  claude_code: claude_code:opus\n"
        "  mine: {kind: local, file: m.gguf, context_tokens: 1024}\n"
    )
    directory = App(tmp_path, environ={"PATH": os.environ["PATH"]}).project.providers
    assert directory.choose("judge").model == "claude-haiku-4-5"
    assert directory.choose("judge:other").spec == "anthropic:other"
    assert directory.choose("claude_code").model == "opus"
    mine = directory.choose(directory.settled(Models(default="mine")).default)
    assert (mine.argument, mine.entry.context_tokens) == ("m.gguf", 1024)  # an entry keeps all it says


class Listener:
    """A face that keeps what it is told of tokens."""

    def __init__(self) -> None:
        self.heard: dict[str, str] = defaultdict(str)
        self.who: dict[str, tuple[str, str, str]] = {}

    def tell(self, news: News) -> None:
        if isinstance(news, Token):
            self.heard[news.key] += news.text
            self.who[news.key] = (news.run_id, news.role, news.agent)


@pytest.mark.spec("S5-69", "S5-70", "S5-71")
def test_every_token_is_told_and_together_they_are_the_stored_reply(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    face = Listener()
    replies = (Say(PLAN, pieces=20), Say(RIGHT_PATCH, pieces=30, torn=True), Say("DECISION: PASS\nGROUNDS: 된다"))
    with ModelServer(*replies) as server:
        environ = {**os.environ, "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
        app = App(project.path, face=face, environ=environ)
        models = app.project.providers.routing(provider="openai_compat", roles={}, model="m", budget=None)
        job = Job(goal="g", checks=(("grep", "-q", "a + b", "calc.py"),), approval="never")
        folder = app.start("loop", job, models, typed=("approval",))
        assert asyncio.run(app.drive(folder)).exit_code == 0
    stored = {
        "plan.1": folder.artifacts / "plan" / "iter-0001.raw.txt",
        "execute.1": folder.artifacts / "execute" / "iter-0001.raw.txt",
        "evaluate.1": folder.artifacts / "evaluate" / "iter-0001.raw.txt",
    }
    assert dict(face.heard) == {key: path.read_bytes().decode() for key, path in stored.items()}


def test_making_a_provider_loads_no_other(tmp_path: Path) -> None:
    script = tmp_path / "replies.json"
    script.write_text('{"replies": []}')
    code = (
        "import sys; from pathlib import Path; from orchestra.app import App\n"
        "providers = App(Path(sys.argv[1])).project.providers\n"
        "providers.make(providers.choose(f'scripted:{sys.argv[1]}/replies.json'))\n"
        "print(*(name.removeprefix('orchestra.providers.') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    kinds = {"scripted", "replay", "local", "claude_code", "anthropic", "openai_compat"}
    assert set(done.stdout.split()) & (kinds | {"http", "httpx2"}) == {"scripted"}
