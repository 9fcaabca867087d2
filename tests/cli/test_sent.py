"""What leaves the machine: files that are secrets by their name never do, and `orchestra sent` lists the rest."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from orchestra.app import App
from orchestra.context.opening import opened_file
from orchestra.core.context import Context, Verdict
from orchestra.core.engine import Beginning
from orchestra.core.errors import UsageError
from orchestra.core.run import RunFolder
from orchestra.workflows.description import Workflow
from orchestra.workflows.loop.shapes import Job
from tests.support.models import KEY
from tests.support.modelserver import Fail, ModelServer, Say, Stall
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, Project, records, reply, role

PASS = "DECISION: PASS\nGROUNDS: 통과"
CANARIES = """
    .env .env.local prod.env .envrc id_rsa id_ecdsa id_ed25519 id_dsa server.pem deploy.key config/master.key store.p12
    .netrc _netrc .npmrc .pypirc .pgpass .my.cnf .htpasswd .vault-token kubeconfig .kube/config .docker/config.json
    .dockercfg terraform.tfstate prod.tfvars secrets.yaml secrets.json secrets.toml credentials credentials.json
    .aws/credentials .git-credentials wp-config.php local.properties service-account.json .s3cfg .boto office.ovpn
    .ssh/work .gnupg/private secrets/db_password 비밀/prod.env
"""


def canary(path: str) -> str:
    """A value that no format of a secret fits, of this file only."""
    return "canary " + " ".join(path.encode().hex(" ").split())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "프로젝트", role("planner", PLAN), role("developer", RIGHT_PATCH))
    (project.path / "한글.py").write_text("# 보인다\n")
    return project


def plant(project: Project, *paths: str) -> None:
    for path in paths:
        file = project.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"first line\n{canary(path)}\nlast line\n")


def environment(server: ModelServer) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}


def command(project: Project, goal: str = "고쳐라") -> tuple[str, ...]:
    options = ("--approval", "never", "--no-input", "--provider", "openai_compat", "--model", "wire-model")
    return ("loop", goal, "--check", project.check, *options)


def ask(project: Project, server: ModelServer, *more: str, goal: str = "고쳐라") -> subprocess.CompletedProcess[str]:
    return project.run(*command(project, goal), *more, env=environment(server))


class Order(Struct):
    """What a parent hands to its child."""

    job: dict[str, Any]


async def parent(ctx: Context, order: Order) -> Verdict:
    child = await ctx.call("work", "loop", order.job)
    return Verdict(status=child.status, result={}, exit_code=0)


def parent_of_a_loop(project: Project) -> RunFolder:
    """A run whose child, a loop, asks the models."""
    project.configure("whitelist_tools: [grep]\n")
    described = Workflow(
        name="parent", params=Order, flow=parent, goal=lambda order: "p", root=lambda project: project.path / "runs"
    )
    app = App(project.path, more=(described,))
    job = Job(goal="g", checks=(("grep", "-q", "a + b", "calc.py"),), approval="never", evaluator=False)
    facts = {
        "goal": "p",
        "models": {"default": f"scripted:{project.script}"},
        "policy": msgspec.to_builtins(app.project.policy),
        "typed": ("approval",),
    }
    root = app.engine.start("parent", "p", Beginning(msgspec.to_builtins(Order(msgspec.to_builtins(job))), facts))
    asyncio.run(app.drive(root))
    return root


def parts(project: Project, *more: str) -> list[dict[str, Any]]:
    return records(project.run("sent", "last", "--json", *more).stdout)


def test_no_content_of_a_file_that_is_a_secret_by_its_name_reaches_a_model(project: Project) -> None:
    paths = CANARIES.split()
    plant(project, *paths)
    # The fixer is told how its patch did not fit; that patch is made for a secret, so nothing of it may be quoted.
    hunk = "@@ -1,2 +1,2 @@\n first line\n-guess\n+other\n"
    misfit = reply(f"diff --git a/prod.env b/prod.env\n--- a/prod.env\n+++ b/prod.env\n{hunk}")
    goal = f"prod.env와 config/master.key, {' '.join(paths)} 를 읽고 고쳐라"
    with ModelServer(Say(PLAN), Say(misfit), Say(RIGHT_PATCH), Say(PASS)) as server:
        done = ask(project, server, goal=goal)
        assert done.returncode == 0, done.stderr
        asked = json.dumps([seen.body for seen in server.seen], ensure_ascii=False)
    kept = "".join(file.read_text("utf-8", "replace") for file in project.folder.path.rglob("*") if file.is_file())
    assert "보인다" in asked and "prod.env" in asked  # files are shown, and the listing names the others
    assert [path for path in paths if canary(path) in asked] == []
    assert [path for path in paths if canary(path) in kept] == []
    assert "it is a secret by its name" in asked  # the fixer knows why
    for path in paths:
        assert f"not shown to the model: {path} (a secret by its name: " in done.stderr, path
    assert done.stderr.count("not shown to the model: prod.env (") == 1
    assert project.folder.report.read_text().count("- not shown to the model: prod.env (") == 1
    assert "to show it: --context prod.env" in done.stderr
    withheld = {part["name"] for part in parts(project) if part["type"] == "withheld"}
    assert withheld == set(paths)


def test_a_file_that_nobody_mentions_and_a_template_are_no_news(project: Project) -> None:
    plant(project, "prod.env")
    (project.path / ".env.example").write_text("NAME=value\n")
    done = project.loop("--approval", "never", goal="see .env.example, and environment of credentials")
    assert done.returncode == 0, done.stderr
    assert "not shown" not in done.stderr
    assert ".env.example" in {part["name"] for part in parts(project) if part["type"] == "part"}


def test_a_mentioned_secret_that_git_ignores_is_told_too(project: Project) -> None:
    plant(project, ".env")
    (project.path / ".gitignore").write_text(".env\n")
    done = project.loop("--approval", "never", goal=".env를 읽어라. (/etc/shadow, ../../.env)")
    assert [
        line.partition("not shown to the model: ")[2] for line in done.stderr.splitlines() if "not shown" in line
    ] == [".env (a secret by its name: a file of environment variables); to show it: --context .env"]


def test_context_opens_a_secret_for_the_whole_run_also_for_who_drives_it_on(project: Project) -> None:
    plant(project, "비밀/prod.env", "other.env")
    (project.path / ".gitignore").write_text("*.env\n")
    with ModelServer(Say(PLAN), Say(RIGHT_PATCH), Say(PASS)) as server:
        opened = ("--context", "./비밀/prod.env", "--context", str(project.path / "비밀" / "prod.env"))  # the same
        asked = ask(project, server, *opened, "--approval", "always", goal="prod.env를 봐라")
        assert asked.returncode == 3 and "not shown" not in asked.stderr, asked.stderr
        done = project.run("approve", "last", "--no-input", env=environment(server))
        assert done.returncode == 0, done.stderr
        bodies = [json.dumps(seen.body, ensure_ascii=False) for seen in server.seen]
    assert len(bodies) == 3
    assert all(canary("비밀/prod.env") in body and canary("other.env") not in body for body in bodies)
    size = (project.path / "비밀/prod.env").stat().st_size
    shown = [part for part in parts(project) if part["type"] == "part" and part["name"] == "비밀/prod.env"]
    assert [(part["start"], part["end"]) for part in shown] == [(0, size)] * 3


def test_context_refuses_what_no_model_can_or_should_be_shown(project: Project) -> None:
    (project.path.parent / "outside.env").write_text("x\n")
    (project.path / "link.env").symlink_to("../outside.env")
    (project.path / "folder.link").symlink_to("..")
    (project.path / "binary.env").write_bytes(b"\0\1")
    (project.path / "long.env").write_text("x" * 101)
    os.mkfifo(project.path / "endless.env")
    for file, why in {
        "../outside.env": "is not in the project",
        "/etc/hostname": "is not in the project",
        "link.env": "no regular file",
        "endless.env": "no regular file",
        "folder.link/outside.env": "links are not followed",
        "none.env": "there is no such file",
        "binary.env": "it is no text",
        "long.env": "101 bytes are more than a prompt may hold (100)",
        ".": "is not in the project",
    }.items():
        with pytest.raises(UsageError) as refused:
            opened_file(project.path, file, 100)
        assert str(refused.value).startswith(f"--context {file}: ") and why in str(refused.value)
    done = project.loop("--context", "link.env")
    assert done.returncode == 2 and "--context link.env: it is no regular file" in done.stderr
    assert project.runs == []


def test_an_opened_file_that_does_not_fit_this_model_is_told(project: Project) -> None:
    (project.path / "orchestra.config.yaml").write_text(
        "providers:\n  small: {kind: openai_compat, context_tokens: 3000, model: m}\n"
    )
    (project.path / "long.env").write_text("x" * 30_000)
    with ModelServer(Say(PLAN), Say(RIGHT_PATCH), Say(PASS)) as server:
        done = ask(project, server, "--context", "long.env", "--provider", "small")
    assert done.returncode == 0, done.stderr
    assert "long.env (its 30000 bytes do not fit into what this model can read)" in done.stderr


def test_a_graph_keeps_secrets_and_opens_them_as_a_loop_does(project: Project) -> None:
    plant(project, "prod.env")
    plan = {
        "tasks": [{"task_id": "a", "intent": "say", "tools": ["echo"], "inputs": {"args": ["hi"]}, "depends_on": []}]
    }
    (project.path / "orchestra.config.yaml").write_text("whitelist_tools: [echo]\n")
    project.write_script(role("planner", json.dumps(plan)), role("planner", json.dumps(plan)))
    provider = ("--provider", f"scripted:{project.script}", "--plan-only", "--no-input")
    told = project.run("dag", "prod.env를 봐라", *provider)
    assert told.returncode == 0 and "not shown to the model: prod.env" in told.stderr, told.stderr
    opened = project.run("dag", "prod.env를 봐라", *provider, "--context", "prod.env")
    assert opened.returncode == 0 and "not shown" not in opened.stderr, opened.stderr


# -- orchestra sent ---------------------------------------------------------------------------------------------------


def test_every_file_and_byte_range_is_listed_with_call_and_server(project: Project) -> None:
    with ModelServer(Say(PLAN), Say(RIGHT_PATCH), Say(PASS)) as server:
        assert ask(project, server).returncode == 0
        bodies = [seen.body for seen in server.seen]
    listed = parts(project)
    calls = ["plan.1", "execute.1", "evaluate.1"]
    files = [part for part in listed if part["type"] == "part" and part["kind"] == "file"]
    sizes = {name: len((project.path / name).read_bytes()) for name in ("calc.py", "한글.py")}
    assert [(part["key"], part["name"], part["start"], part["end"], part["bytes"]) for part in files] == [
        (call, name, 0, size, size) for call in calls for name, size in sizes.items()
    ]
    assert {(part["server"], part["leaves"], part["model"]) for part in files} == {
        (f"{server.url}/v1", False, "wire-model")
    }
    assert [(part["role"], part["agent"]) for part in files[::2]] == [
        (r, r) for r in ("planner", "developer", "evaluator")
    ]
    notes = [(part["key"], part["name"]) for part in listed if part["type"] == "part" and part["kind"] == "note"]
    assert ("evaluate.1", "check results") in notes and ("execute.1", "plan") in notes
    for call, body in zip(calls, bodies, strict=True):  # nothing went out that is not listed
        told = sum(part["bytes"] for part in listed if part["type"] == "part" and part["key"] == call)
        tags = len("".join(message["content"] for message in body["messages"]).encode()) - told
        assert 0 <= tags < 40 * len(listed), (call, tags)
    total = listed[-1]
    assert (total["type"], total["requests"], total["files"]) == ("total", 3, 2)
    assert [r["requests"] for r in listed if r["type"] == "file"] == [3, 3]


def test_a_failed_a_cut_off_and_a_repeated_request_are_listed_too(project: Project) -> None:
    (project.path / "orchestra.config.yaml").write_text("retries: {max: 1, backoff_base_sec: 0.01}\n")
    with ModelServer(Stall(after=1), Say(PLAN), Fail(503), Say(RIGHT_PATCH), Say(PASS)) as server:
        process = subprocess.Popen(
            [PROGRAM, *command(project)],
            cwd=project.path,
            env={**os.environ, **environment(server)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        server.wait_for_seen()
        process.kill()
        process.wait()
        cut = parts(project)
        (project.path / "한글.py").write_text("# 그사이에 길어졌다\n")  # the second request shows another text
        done = project.run("resume", "last", "--no-input", env=environment(server))
        assert done.returncode == 0, done.stderr
        assert len(server.seen) == 5
    assert {(part["key"], part["request"], part["status"]) for part in cut if part["type"] == "part"} == {
        ("plan.1", 1, "open")
    }
    made = [p for p in parts(project) if p["type"] == "part" and p["name"] == "한글.py"]
    assert [(p["key"], p["request"], p["status"]) for p in made] == [
        ("plan.1", 1, "ok"),
        ("plan.1", 2, "ok"),
        ("execute.1", 1, "failed"),
        ("execute.2", 1, "ok"),
        ("evaluate.1", 1, "ok"),
    ]
    assert made[0]["bytes"] == len("# 보인다\n".encode()) and made[1]["bytes"] == len("# 그사이에 길어졌다\n".encode())
    told = project.run("sent", "last").stdout
    assert "plan.1, request 2" in told and "execute.1, failed" in told


def test_a_person_reads_a_table_that_lines_up_and_what_left_the_machine(project: Project) -> None:
    with ModelServer(Say(PLAN), Say(RIGHT_PATCH), Say(PASS)) as server:
        assert ask(project, server, "--model", "작은모델").returncode == 0
    told = project.run("sent", "last")
    assert told.returncode == 0, told.stderr
    table, _, sums = told.stdout.partition("\n\n")
    header, call, *rows = table.splitlines()
    assert call == f"plan.1, planner, to {server.url}/v1 작은모델"
    names = ["(system prompt)", "(user prompt)", "(files of the workspace)", "calc.py", "한글.py"]
    assert [row[header.index("what") :] for row in rows[:5]] == names
    assert [row.split()[:2] for row in rows[3:5]] == [["32", "0-32"], ["12", "0-12"]]
    assert f"to {server.url}/v1: 3 requests, 2 files, " in sums and "a server on this machine" in sums
    project.write_script(role("planner", PLAN), role("developer", RIGHT_PATCH))
    project.loop("--approval", "never")
    told = project.run("sent", "last")
    assert "to scripted: " in told.stdout and "nothing left this machine" in told.stdout


def test_where_the_record_does_not_suffice_it_says_so(project: Project) -> None:
    assert project.loop("--approval", "never").returncode == 0
    [prompt] = project.folder.artifacts.glob("plan/*.prompt.json")
    kept = json.loads(prompt.read_text())
    del kept["sent"]  # as runs had it before requests were recorded
    prompt.write_text(json.dumps(kept))
    [gone] = project.folder.artifacts.glob("execute/*.prompt.json")
    gone.unlink()
    listed = [p for p in parts(project) if p["type"] == "part" and p["name"] == "calc.py"]
    assert [(p["key"], p["bytes"], p["end"]) for p in listed] == [("plan.1", 32, None), ("execute.1", None, None)]
    total = parts(project)[-1]
    assert total["bytes"] is None and total["knownBytes"] > 32
    assert " known bytes" in project.run("sent", "last").stdout
    prompt.unlink()
    os.mkfifo(prompt)  # a file that never ends is none of ours
    assert [p["bytes"] for p in parts(project) if p["type"] == "part"] == [None, None, None, None]


def test_a_fork_does_not_claim_what_its_source_sent(project: Project) -> None:
    project.write_script(role("planner", PLAN), role("developer", RIGHT_PATCH), role("developer", RIGHT_PATCH))
    assert project.loop().returncode == 3
    [source] = project.runs
    at = next(e.id for e in project.events() if e.payload.get("key") == "plan.1" and e.type == "PHASE_COMPLETED")
    forked = project.run("fork", source.id, "--at", at, "--no-input")
    assert forked.returncode == 3, forked.stderr
    assert {p["key"] for p in parts(project) if p["type"] == "part"} == {"execute.1"}
    assert f"were made by run {source.id}" in project.run("sent", "last").stdout


def test_child_runs_are_included(project: Project) -> None:
    root = parent_of_a_loop(project)
    listed = records(project.run("sent", root.id, "--json").stdout)
    [child] = project.runs
    assert {(p["runId"], p["key"]) for p in listed if p["type"] == "part"} == {
        (child.id, "plan.1"),
        (child.id, "execute.1"),
    }


def test_a_run_that_asked_nobody_sent_nothing(project: Project) -> None:
    (project.path / "orchestra.config.yaml").write_text("whitelist_tools: [echo]\n")
    assert project.run("tool", "run", "--", "echo", "hi").returncode == 0
    assert project.run("sent", "last").stdout == "no model was asked: nothing was sent\n"
    assert records(project.run("sent", "last", "--json").stdout) == [
        {"type": "total", "requests": 0, "files": 0, "bytes": 0, "knownBytes": 0, "leaves": False}
    ]


def test_a_clones_gitignore_holds_nobody_up(tmp_path: Path) -> None:
    """Each star of a pattern multiplies the ways a name can be matched; a pipe would be waited for."""
    project = Project(tmp_path / "p")
    (project.path / ".gitignore").write_text("**/a*a*a*a*a*a*a*a*a*a*b\n" + "x" * 100_000 + "\nseen.log\n")
    (project.path / ("a" * 60)).write_text("x")
    (project.path / "seen.log").write_text("ignored all the same")
    (project.path / "sub").mkdir()
    os.mkfifo(project.path / "sub" / ".gitignore")
    assert project.loop().returncode == 3  # `run` gives it a minute
    sent = project.run("sent", "last").stdout
    assert "calc.py" in sent and "seen.log" not in sent
