"""The budget holds before a call is made, also for calls at the same time; the run parks and goes on after a raise."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestra.core.calls import past_calls
from orchestra.core.errors import BudgetReached
from orchestra.core.model import Usage
from orchestra.core.records import Event
from orchestra.providers.budget import Budget
from orchestra.providers.prices import Price, known
from tests.support.cut import cut_after
from tests.support.modelserver import Fail, ModelServer, Say, Stall
from tests.support.project import PLAN, PROGRAM, RIGHT_PATCH, Project

PASS = "DECISION: PASS\nGROUNDS: 된다"


def test_what_is_under_way_is_set_aside() -> None:
    async def scenario() -> None:
        budget = Budget(1.0, spent=0.2, run_id="r")
        await budget.set_aside("a", 0.5)
        second = asyncio.ensure_future(budget.set_aside("b", 0.5))
        await asyncio.sleep(0)
        assert not second.done()  # it may fit once the first has cost less than its most
        budget.settle("a", 0.1)
        await second
        third = asyncio.ensure_future(budget.set_aside("c", 0.5))
        await asyncio.sleep(0)
        budget.settle("b", 0.5)  # 0.8 spent: it will never fit
        with pytest.raises(BudgetReached, match=r"\$0.8000 of \$1.0000 spent.*may cost up to \$0.5000"):
            await third

    asyncio.run(scenario())


def test_a_failed_call_gives_back_what_was_set_aside() -> None:
    async def scenario() -> None:
        budget = Budget(1.0, spent=0.0, run_id="r")
        for key in ("a", "b", "c"):
            await budget.set_aside(key, 1.0)  # waits for ever if nothing was given back
            budget.settle(key, 0.0)
        budget.settle("d", 0.25)
        with pytest.raises(BudgetReached, match=r"\$0.2500 of \$1.0000 spent.*may cost up to \$1.0000"):
            await budget.set_aside("e", 1.0)  # nothing is under way that it could wait for

    asyncio.run(scenario())


@pytest.mark.parametrize(("spent", "most", "fits"), [(0.75, 0.25, True), (0.75, 0.26, False), (1.0, 0.0, False)])
def test_a_call_may_use_a_budget_up_and_then_there_is_none_not_even_a_free_one(
    spent: float, most: float, fits: bool
) -> None:
    with nullcontext() if fits else pytest.raises(BudgetReached):
        asyncio.run(Budget(1.0, spent=spent, run_id="r").set_aside("a", most))


def test_no_cap_holds_nothing() -> None:
    async def scenario() -> list[bool]:
        budget = Budget(None, spent=1e9, run_id="r")
        calls = [asyncio.ensure_future(budget.set_aside(key, 1e9)) for key in ("a", "b")]
        await asyncio.sleep(0)
        return [call.done() and call.exception() is None for call in calls]

    assert asyncio.run(scenario()) == [True, True]


def first_call(project: Project) -> dict[str, Any]:
    """A loop to its end; its first call, as the audit tells it."""
    done = project.run("loop", "g", "--check", project.check, "--approval", "never", "--no-input")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(project.run("audit", "last", "--json").stdout.splitlines()[0])
    return told


def test_cached_tokens_have_their_own_price() -> None:
    price = Price(3.0, 15.0, 0.3, 3.75)
    usage = Usage(1000, 100, 1100, cacheReadTokens=600, cacheWriteTokens=300)
    assert price.of(usage) == pytest.approx((100 * 3 + 600 * 0.3 + 300 * 3.75 + 100 * 15) / 1e6)
    assert price.at_most(1000, 100) >= price.of(usage)


def test_what_is_cached_for_an_hour_is_paid_at_the_price_of_an_hour(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    plan = Say(PLAN, input_tokens=1_000_000, cached_tokens=100_000, written_tokens=700_000, hour_tokens=400_000)
    with ModelServer(plan, Say(RIGHT_PATCH), Say(PASS)) as server:
        project.configure(
            f"providers: {{default: {{kind: anthropic, base_url: {server.url}, model: m}}}}\n"
            "budget: {prices: {m: {input: 1.0, cache_read: 0.1, cache_write: 1.25}}}\n"
        )
        first = first_call(project)
    assert first["costUsd"] == pytest.approx(0.2 * 1.0 + 0.1 * 0.1 + 0.3 * 1.25 + 0.4 * 2.0)


def test_a_budget_sets_aside_what_an_hour_in_the_cache_would_cost(tmp_path: Path) -> None:
    def asked(cap: float, price: str) -> tuple[int, str, int]:
        with ModelServer() as server:
            project = Project(tmp_path / f"p{cap}{len(price)}")
            project.configure(
                f"providers: {{default: {{kind: anthropic, base_url: {server.url}, model: m}}}}\n"
                f"budget: {{prices: {{m: {price}}}}}\nretries: {{max: 0}}\n"
            )
            arguments = ("loop", "g", "--check", "true", "--no-input", "--max-budget-usd", str(cap))
            done = project.run(*arguments)
            return done.returncode, done.stderr, len(server.seen)

    code, told, calls = asked(0.01, "{input: 100.0}")
    assert (code, calls) == (4, 0)
    [plain] = map(float, re.findall(r"may cost up to \$([0-9.]+[0-9])", told))
    cached = "{input: 100.0, cache_write: 125.0}"
    assert asked(1.9 * plain, cached)[::2] == (4, 0)  # enough for five minutes, not for an hour
    assert asked(2.1 * plain, cached)[2] > 0


def test_a_dated_name_is_found_by_its_longest_beginning() -> None:
    found = known("gpt-4o-mini-2024-07-18")
    assert found and found.price.input == 0.15
    assert known("no-such-model") is None


def configured(folder: Path, server: ModelServer, most: int = 1000) -> Project:
    project = Project(folder)
    project.configure(
        f"providers: {{default: {{kind: openai_compat, base_url: {server.url}/v1, model: m,"
        f" max_output_tokens: {most}}}}}\n"
        "budget: {prices: {m: {input: 1.0, output: 100.0}}}\n"
    )
    return project


def start(project: Project, *arguments: str) -> subprocess.Popen[bytes]:
    """The program, in the background."""
    nothing = subprocess.DEVNULL
    return subprocess.Popen([PROGRAM, *arguments], cwd=project.path, stdin=nothing, stdout=nothing, stderr=nothing)


def cut_off(project: Project, server: ModelServer, *arguments: str, requests: int = 1) -> None:
    """Kill the program when so many requests of it have reached the server."""
    count = len(server.seen) + requests
    killed = start(project, *arguments)
    try:
        server.wait_for_seen(20, count=count)
    finally:
        killed.kill()
        killed.wait()


def audited(project: Project) -> list[dict[str, Any]]:
    """What `audit --json` tells: calls, roles, total."""
    return [json.loads(line) for line in project.run("audit", "last", "--json").stdout.splitlines()]


def test_a_run_stops_before_the_call_that_could_pass_the_cap_and_goes_on_after_a_raise(tmp_path: Path) -> None:
    replies = (Say(PLAN, output_tokens=900), Say(RIGHT_PATCH), Say(PASS))
    with ModelServer(*replies) as server:
        project = configured(tmp_path / "p", server)
        # A call may cost 1000 x $100/M = $0.1 and some input. The first costs $0.09: the second could pass $0.15.
        done = project.run(
            "loop", "g", "--check", project.check, "--approval", "never", "--no-input", "--max-budget-usd", "0.15"
        )
        assert done.returncode == 4, done.stderr
        assert "may cost up to $0.1" in done.stderr and "--max-budget-usd" in done.stderr
        assert " of $0.1500 is spent; more: resume with --max-budget-usd USD" in project.run("show", "last").stdout
        assert len(server.seen) == 1 and server.seen[0].body["max_tokens"] == 1000
        status = json.loads(project.run("show", "last", "--json").stdout)["status"]
        assert status == "running"
        again = project.run("resume", "last", "--no-input", "--max-budget-usd", "1")
        assert again.returncode == 0, again.stderr
        assert len(server.seen) == 3
    assert "possibly twice" not in project.run("audit", "last").stdout


def test_a_call_that_a_kill_cut_off_counts_at_its_most(tmp_path: Path) -> None:
    with ModelServer(Stall(after=1), Say(PLAN), Say(RIGHT_PATCH), Say(PASS)) as server:
        project = configured(tmp_path / "p", server)
        arguments = ("loop", "g", "--check", project.check, "--approval", "never", "--no-input")
        cut_off(project, server, *arguments, "--max-budget-usd", "0.15")
        done = project.run("resume", "last", "--no-input")
        assert done.returncode == 4 and "for a call cut off by a kill" in done.stderr
        assert len(server.seen) == 1
        done = project.run("resume", "last", "--no-input", "--max-budget-usd", "1")
        assert done.returncode == 0, done.stderr
        assert server.seen[0].headers["idempotency-key"] == server.seen[1].headers["idempotency-key"]
    assert "possibly twice" in project.run("audit", "last").stdout


def test_a_call_that_kills_cut_off_again_and_again_is_counted_each_time(tmp_path: Path) -> None:
    with ModelServer(Stall(after=1), Stall(after=1), Say(PLAN), Say(RIGHT_PATCH), Say(PASS)) as server:
        project = configured(tmp_path / "p", server)
        loop = ("loop", "g", "--check", project.check, "--approval", "never", "--no-input", "--max-budget-usd", "1")
        cut_off(project, server, *loop)
        cut_off(project, server, "resume", "last", "--no-input")
        # Two calls at $0.1 and some input each may have been paid for: a third does not fit.
        stopped = project.run("resume", "last", "--no-input", "--max-budget-usd", "0.25")
        assert stopped.returncode == 4 and len(server.seen) == 2, stopped.stderr
        done = project.run("resume", "last", "--no-input", "--max-budget-usd", "1")
        assert done.returncode == 0, done.stderr
        assert len(server.seen) == 5
    audit = project.run("audit", "last").stdout
    assert "possibly 3 times" in audit.splitlines()[1] and "twice" not in audit
    assert "1 call may have been paid 3 times: orchestra was killed" in audit
    first, *_, total = map(json.loads, project.run("audit", "last", "--json").stdout.splitlines())
    assert (first["asked"], first["paid"], total["askedAgain"]) == (3, "possibly 3 times", 1)
    assert "(possibly paid 3 times)" in project.folder.report.read_text()
    assert not list(project.folder.artifacts.rglob("*.asked.json"))
    assert project.run("verify", "last").returncode == 0


PLACES = {
    "the request is counted and not made": ("replace", ".asked.json"),
    "the reply has begun": ("append", ".raw.txt.part"),
    "the reply has arrived": ("replace", ".raw.json"),
    "the reply has its name": ("replace", ".raw.txt"),
    "the count is gone": ("unlink", ".asked.json"),
    "the reply is recorded": ("append", "events.ndjson"),
}


@pytest.mark.spec("S1-121")
@pytest.mark.parametrize("place", PLACES)
def test_no_request_is_missing_from_the_audit_wherever_a_second_kill_comes(tmp_path: Path, place: str) -> None:
    with ModelServer(Stall(after=1), default=Say(PLAN)) as server:
        project = configured(tmp_path / "p", server)
        cut_off(project, server, "loop", "g", "--check", "true", "--no-input")
        assert cut_after(project.path, *PLACES[place]) == -9
        project.run("resume", "last", "--no-input")
        requests = Counter(seen.headers["idempotency-key"] for seen in server.seen)  # in the order of the calls
    asked = [call["asked"] for call in audited(project) if call["type"] == "call"]
    made = list(requests.values())
    assert made[0] == (3 if place in ("the reply has begun", "the reply has arrived") else 2)
    assert len(made) == len(asked)
    assert all(told >= sent for told, sent in zip(asked, made, strict=True)), (asked, made)
    assert asked[0] <= 3 and asked[1:] == made[1:]


def spent(project: Project) -> tuple[float, float]:
    """What a budget of nearly nothing says is spent, and how much of it for requests that were cut off."""
    told = project.run("resume", "last", "--no-input", "--max-budget-usd", "0.0001")
    assert told.returncode == 4, told.stderr
    [figures] = re.findall(r"\$([0-9.]+) of \$0.0001 spent(?: \(\$([0-9.]+) of it at most)?", told.stderr)
    return float(figures[0]), float(figures[1] or 0)


@pytest.mark.parametrize("budget", [(), ("--max-budget-usd", "1")])
def test_what_a_kill_cut_off_stays_spent_in_every_later_life_and_is_counted_once(
    tmp_path: Path, budget: tuple[str, ...]
) -> None:
    with ModelServer(Stall(after=1), Stall(after=1), Say(PLAN, output_tokens=900), default=Stall(after=1)) as server:
        project = configured(tmp_path / "p", server)
        cut_off(project, server, "loop", "g", "--check", project.check, "--no-input", *budget)
        cut_off(project, server, "resume", "last", "--no-input")
        all_in, lost = spent(project)
        assert all_in == lost and 0.2 < lost < 0.3  # two requests, at $0.1 and some input each
        assert spent(project) == (all_in, lost)  # nothing was asked meanwhile
        # The plan arrives; the patch's request is cut off, once.
        cut_off(project, server, "resume", "last", "--no-input", "--max-budget-usd", "1", requests=2)
        first = audited(project)[0]
        assert (first["asked"], first["lostUsd"]) == (3, pytest.approx(lost, abs=1e-4))
        again, lost_then = spent(project)
        assert lost_then == pytest.approx(lost + 0.1, abs=0.02)
        assert again == pytest.approx(first["costUsd"] + lost_then, abs=2e-4)
        assert spent(project) == (again, lost_then)
        audit = project.run("audit", "last").stdout
    assert (
        "1 call may have been paid 3 times: orchestra was killed or stopped while the reply was on its way, and"
        in audit
    )
    assert f"The replies that never arrived cost ${lost:.4f} at most, which is not in the sum; a budget" in audit
    assert audited(project)[-1]["lostUsd"] == pytest.approx(lost, abs=1e-4)


def test_a_reply_that_is_found_whole_counts_in_the_life_that_finds_it(tmp_path: Path) -> None:
    with ModelServer(Stall(after=1), Say(PLAN, output_tokens=900), default=Say(RIGHT_PATCH)) as server:
        project = configured(tmp_path / "p", server)
        cut_off(project, server, "loop", "g", "--check", project.check, "--no-input")
        assert cut_after(project.path, "replace", ".raw.txt") == -9
        found, lost = spent(project)  # the plan is found here, and the patch no longer fits
        assert 0.1 < lost < 0.15 and found == pytest.approx(lost + 0.09, abs=0.01)
        assert spent(project) == (found, lost)  # the plan is recorded now
        assert len(server.seen) == 2


def test_a_run_of_an_older_version_is_read_without_what_its_lost_requests_cost(tmp_path: Path) -> None:
    with ModelServer(Stall(after=1), Say(PLAN), Say(RIGHT_PATCH), Say(PASS)) as server:
        project = configured(tmp_path / "p", server)
        cut_off(project, server, "loop", "g", "--check", project.check, "--approval", "never", "--no-input")
        assert cut_after(project.path, "replace", ".asked.json") == -9
        [count] = project.folder.artifacts.rglob("*.asked.json")
        older = {key: value for key, value in json.loads(count.read_text()).items() if key != "lostUsd"}
        count.write_text(json.dumps(older))
        assert project.run("resume", "last", "--no-input").returncode == 0
        assert 0.2 < audited(project)[0]["lostUsd"] < 0.3  # told by what the next one may cost
    lines = [json.loads(line) for line in project.folder.events.read_text().splitlines()]
    calls = past_calls(msgspec.convert([_without_lost(line) for line in lines], list[Event]))
    assert [(call.asked, call.lostUsd) for call in calls] == [(3, None), (1, None), (1, None)]


def _without_lost(line: dict[str, Any]) -> dict[str, Any]:
    line["payload"].get("outcome", {}).pop("lostUsd", None)
    return line


def test_of_a_call_that_never_got_a_reply_the_audit_says_how_often_it_was_asked_and_no_price(tmp_path: Path) -> None:
    with ModelServer(default=Stall(after=1)) as server:
        project = configured(tmp_path / "p", server)
        cut_off(project, server, "loop", "g", "--check", project.check, "--no-input")
        [call, _, total] = audited(project)
        assert (call["status"], call["asked"], call["paid"], call["costUsd"]) == ("open", 1, "possibly once", None)
        cut_off(project, server, "resume", "last", "--no-input")
        cut_off(project, server, "resume", "last", "--no-input")
        before = audited(project)
        assert project.run("cancel", "last").returncode == 0
    assert audited(project) == before
    [call, _, total] = before
    assert (call["status"], call["asked"], call["paid"], call["costUsd"]) == ("open", 3, "possibly 3 times", None)
    assert (total["costUsd"], total["knownCostUsd"], total["askedAgain"]) == (None, 0.0, 1)
    assert 0.2 < total["lostUsd"] < 0.3
    audit = project.run("audit", "last").stdout
    assert audit.splitlines()[1].split()[-4:] == ["?", "possibly", "3", "times"]
    assert "? no reply is recorded of 1 call: the cost is not known" in audit and "no price is known" not in audit
    report = project.folder.report.read_text()
    assert "| ? | open (possibly paid 3 times) |" in report
    assert "$0.0000 and 1 call without a reply and $0.2" in report
    assert project.run("verify", "last").returncode == 0


def test_a_raise_lasts_though_somebody_else_drives_the_run_on(tmp_path: Path) -> None:
    with ModelServer(Say(PLAN, output_tokens=900), Say(RIGHT_PATCH), Say(PASS)) as server:
        project = configured(tmp_path / "p", server)
        first = project.run("loop", "g", "--check", project.check, "--no-input", "--max-budget-usd", "0.15")
        assert first.returncode == 4
        assert project.run("resume", "last", "--no-input", "--max-budget-usd", "1").returncode == 3  # the patch waits
        done = project.run("approve", "last", "--no-input")
        assert done.returncode == 0, done.stderr
    assert project.run("verify", "last").returncode == 0


def test_a_cap_below_one_call_makes_none(tmp_path: Path) -> None:
    with ModelServer() as server:
        project = configured(tmp_path / "p", server)
        done = project.run("loop", "g", "--check", "true", "--no-input", "--max-budget-usd", "0.05")
        assert done.returncode == 4
        assert server.seen == []


def test_a_model_known_only_by_its_answer_has_its_price(tmp_path: Path) -> None:
    with ModelServer(Say(PLAN, input_tokens=1_000_000), Say(RIGHT_PATCH), Say(PASS)) as server:
        project = Project(tmp_path / "p")
        project.configure(
            f"providers: {{default: {{kind: openai_compat, base_url: {server.url}/v1}}}}\n"
            "budget: {prices: {wire-model: {input: 2.0}}}\n"
        )
        first = first_call(project)
    assert (first["model"], first["costUsd"]) == ("wire-model", 2.0)


def test_a_price_that_nobody_knows_is_not_shown_as_nothing(tmp_path: Path) -> None:
    with ModelServer(Say(PLAN), Say(RIGHT_PATCH)) as server, ModelServer(Say(PASS, output_tokens=1000)) as judge:
        project = Project(tmp_path / "p")
        project.configure(
            f"providers: {{default: {{kind: openai_compat, base_url: {server.url}/v1, model: 새모델}},"
            f" judge: {{kind: openai_compat, base_url: {judge.url}/v1, model: m}}}}\n"
            "roles: {evaluator: judge}\nbudget: {prices: {m: {output: 5.0}}}\n"
        )
        done = project.run("loop", "g", "--check", project.check, "--approval", "never", "--no-input")
        assert done.returncode == 0, done.stderr
    audit = project.run("audit", "last").stdout
    costs = {tuple(line.split()[:2]): line for line in audit.splitlines()}
    assert costs["plan.1", "planner"].split()[-2:] == ["?", "once"]
    assert costs["evaluate.1", "evaluator"].split()[-2:] == ["0.0050", "once"]
    assert costs["planner", "1"].split()[-1] == "?" and costs["evaluator", "1"].split()[-1] == "0.0050"
    assert costs["total", "3"].split()[-1] == "0.0050+?"
    assert "? no price is known for 새모델, so the sum is incomplete (add budget.prices)" in audit
    lines = [json.loads(line) for line in project.run("audit", "last", "--json").stdout.splitlines()]
    assert [line["costUsd"] for line in lines] == [None, None, 0.005, None, None, 0.005, None]
    assert lines[-1]["knownCostUsd"] == 0.005
    report = project.folder.report.read_text()
    assert "$0.0050 and 2 calls at an unknown price" in report and "| ? | ok |" in report


def test_a_call_that_failed_before_anything_was_used_cost_nothing(tmp_path: Path) -> None:
    with ModelServer(default=Fail(401)) as server:
        project = Project(tmp_path / "p")
        env = {"OPENAI_BASE_URL": f"{server.url}/v1"}
        arguments = ("loop", "g", "--check", "true", "--no-input", "--provider", "openai_compat:새모델")
        assert project.run(*arguments, env=env).returncode == 6
    [call, *_] = map(json.loads, project.run("audit", "last", "--json").stdout.splitlines())
    assert (call["paid"], call["costUsd"]) == ("failed (AUTH)", 0.0)


def test_usage_that_is_not_told_is_estimated_and_marked(tmp_path: Path) -> None:
    with ModelServer(Say(PLAN, usage=False), Say(RIGHT_PATCH), Say(PASS)) as server:
        project = configured(tmp_path / "p", server)
        done = project.run("loop", "g", "--check", project.check, "--approval", "never", "--no-input")
        assert done.returncode == 0, done.stderr
    audit = project.run("audit", "last").stdout
    assert "~" in audit.splitlines()[1] and "~" not in audit.splitlines()[2]
    assert "estimated by orchestra" in audit
