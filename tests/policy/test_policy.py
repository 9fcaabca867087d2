"""A policy narrows and never widens: properties of narrow, for_task, digest and the entries of allow_domains."""

from __future__ import annotations

import math
from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.core.domains import Entry, common, parse_entry
from orchestra.policy.decide import decide
from orchestra.policy.policy import (
    Bounds,
    Layer,
    Policy,
    Rule,
    TaskWishes,
    digest,
    for_task,
    narrow,
    with_tools,
    within,
)

STRICTNESS = {"allow": 0, "ask": 1, "forbid": 2}
WORDS = ("git", "push", "make", "test", "env", "-C", "sh")
COMMANDS = [argv for size in (1, 2) for argv in product(WORDS, repeat=size)] + [("git", "-C", "x", "push")]
PATHS = ("/a", "/a/b", "/a/b/c", "/a/bc", "/d", "/d/e")
ENTRIES = ("example.com", "*.example.com", "a.example.com", "*.a.example.com", "example.com:8443", "*.example.com:443")
HOSTS = [
    (host, port)
    for host in ("example.com", "a.example.com", "b.a.example.com", "evil-example.com", "example.com.evil.org")
    for port in (80, 443, 8443)
]

words = st.sampled_from(WORDS)
rules = st.builds(
    Rule,
    prefix=st.lists(st.lists(words, min_size=1, max_size=2).map(tuple), min_size=1, max_size=2).map(tuple),
    decision=st.sampled_from(("allow", "ask", "forbid")),
    where=st.sampled_from(("a:1", "b:2")),
)
layers = st.builds(
    Layer, whitelist=st.lists(words, max_size=4).map(tuple), rules=st.lists(rules, max_size=3).map(tuple)
)
few = st.integers(1, 5)
policies = st.builds(
    Policy,
    layers=st.lists(layers, min_size=1, max_size=2).map(tuple),
    fs=st.sampled_from(("read-only", "rw")),
    domains=st.lists(st.sampled_from(ENTRIES).map(parse_entry), max_size=4).map(tuple),
    reads=st.lists(st.sampled_from(PATHS), max_size=3).map(tuple),
    writes=st.lists(st.sampled_from(PATHS), max_size=3).map(tuple),
    bounds=st.builds(Bounds, memory_mb=few, processes=few, file_mb=few, disk_mb=few, tmp_mb=few),
    max_task_sec=few,
    max_total_sec=few,
    max_retries=few,
    max_workers=few,
    tier=st.sampled_from(("strict", "landlock", "none")),
)


def decisions(policy: Policy) -> list[str]:
    return [decide(argv, policy, asker=asker).decision for argv in COMMANDS for asker in ("model", "person")]


def readable(policy: Policy) -> set[str]:
    return {path for path in PATHS if any(within(path, folder) for folder in policy.reads)}


def writable(policy: Policy) -> set[str]:
    return {path for path in PATHS if any(within(path, folder) for folder in policy.writes)}


def reachable(policy: Policy) -> set[tuple[str, int]]:
    return {host for host in HOSTS if any(entry.covers(*host) for entry in policy.domains)}


@settings(deadline=None)
@given(policies, policies)
def test_both_sides_must_agree_and_nothing_is_added(one: Policy, other: Policy) -> None:
    both = narrow(one, other)
    for ours, theirs, joint in zip(decisions(one), decisions(other), decisions(both), strict=True):
        assert STRICTNESS[joint] == max(STRICTNESS[ours], STRICTNESS[theirs])
    assert readable(both) == readable(one) & readable(other)
    assert writable(both) == writable(one) & writable(other)
    assert reachable(both) == reachable(one) & reachable(other)
    assert set(both.whitelist) == set(one.whitelist) & set(other.whitelist)
    assert both.fs == ("rw" if one.fs == other.fs == "rw" else "read-only")
    for name in Bounds.__struct_fields__:
        assert getattr(both.bounds, name) == min(getattr(one.bounds, name), getattr(other.bounds, name))
    assert both.max_task_sec == min(one.max_task_sec, other.max_task_sec)
    assert both.max_workers == min(one.max_workers, other.max_workers)
    assert both.tier == next(tier for tier in ("strict", "landlock", "none") if tier in (one.tier, other.tier))


@settings(deadline=None)
@given(policies, policies, policies)
def test_narrowing_has_no_order_and_no_second_effect(one: Policy, other: Policy, third: Policy) -> None:
    assert digest(narrow(one, one)) == digest(one)
    both = narrow(one, other)
    assert narrow(both, other) == both
    assert digest(narrow(other, one)) == digest(both)
    assert digest(narrow(both, third)) == digest(narrow(one, narrow(other, third)))


@settings(deadline=None)
@given(policies, policies)
def test_the_digest_is_of_what_a_policy_says(one: Policy, other: Policy) -> None:
    moved = [
        msgspec.structs.replace(
            layer,
            where="elsewhere:9",
            rules=tuple(msgspec.structs.replace(rule, where="x:1", reason="r") for rule in reversed(layer.rules)),
        )
        for layer in one.layers
    ]
    assert digest(msgspec.structs.replace(one, layers=tuple(moved))) == digest(one)
    if digest(one) == digest(other):
        assert decisions(one) == decisions(other)
        assert (readable(one), reachable(one)) == (readable(other), reachable(other))


def test_the_digest_has_its_form_and_is_the_same_tomorrow() -> None:
    value = digest(Policy(layers=(Layer(whitelist=("git", "echo")),), reads=("/w",)))
    assert value == "sha256:" + value[7:] and len(value) == 71
    assert value == digest(Policy(layers=(Layer(whitelist=("echo", "git", "git")),), reads=("/w", "/w/x")))


wishes = st.none() | st.floats() | st.integers(-3, 9)


@pytest.mark.spec("S2-113")
@settings(deadline=None)
@given(
    policies,
    st.builds(
        TaskWishes,
        max_duration_sec=wishes,
        max_retries=st.none() | st.integers(-3, 9),
        concurrency=st.none() | st.integers(-3, 9),
        fs=st.sampled_from((None, "read-only", "rw")),
        net=st.sampled_from((None, "allow", "deny")),
    ),
)
def test_a_task_can_only_tighten(policy: Policy, constraints: TaskWishes) -> None:
    task = for_task(policy, constraints)
    assert 0 < task.max_task_sec <= policy.max_task_sec
    assert 0 <= task.max_retries <= policy.max_retries
    assert 1 <= task.max_workers <= policy.max_workers
    assert digest(narrow(policy, task)) == digest(task)
    assert task.fs == ("read-only" if constraints.fs == "read-only" else policy.fs)
    assert reachable(task) == (set() if constraints.net == "deny" else reachable(policy))


@pytest.mark.spec("S2-113")
def test_a_larger_limit_is_cut_and_a_smaller_one_holds() -> None:
    policy = Policy(layers=())
    assert for_task(policy, TaskWishes(max_duration_sec=900, max_retries=9)) == policy
    assert for_task(policy, TaskWishes(max_duration_sec=30, max_retries=0)).max_task_sec == 30
    assert for_task(policy, TaskWishes(max_duration_sec=math.nan)).max_task_sec == 300
    least = for_task(policy, TaskWishes(max_duration_sec=0.001, max_retries=0, concurrency=1))
    assert (least.max_task_sec, least.max_retries, least.max_workers) == (0.001, 0, 1)
    assert for_task(policy, TaskWishes(fs="rw", net="allow")) == policy


def test_paths_are_compared_by_components() -> None:
    assert within("/runs/x", "/runs") and within("/runs", "/runs") and within("/x", "/")
    assert not within("/runs-evil", "/runs")
    assert not within("/runs", "/runs/x")


# -- allow_domains ----------------------------------------------------------------------------------------------------

LONGEST = "a." * 125 + "com"  # a host name has 253 characters at most


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("example.com", Entry("example.com")),
        ("Example.COM.", Entry("example.com")),
        ("*.example.com", Entry("example.com", below=True)),
        ("example.com:8443", Entry("example.com", port=8443)),
        ("xn--9t4b11yi5a.com", Entry("xn--9t4b11yi5a.com")),
        ("a_b.example.com", Entry("a_b.example.com")),
        (LONGEST, Entry(LONGEST)),
    ],
)
def test_entries(text: str, entry: Entry) -> None:
    assert parse_entry(text) == entry
    assert parse_entry(str(entry)) == entry


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "*.",
        "*.com",
        f"x{LONGEST}",
        "com",
        "localhost",
        "a.*.com",
        "*example.com",
        "**.example.com",
        ".example.com",
        "example..com",
        "-a.example.com",
        "a-.example.com",
        "http://example.com",
        "example.com/",
        "user@example.com",
        "example.com:",
        "example.com:0",
        "example.com:65536",
        "example.com:080",
        "example.com:８０",
        "example.com:80:80",
        "127.0.0.1",
        "10.1",
        "1.2.3.0x7f",
        "[::1]",
        "::1",
        "예시.com",
        "exam ple.com",
        "example.com\n",
        "example.com\0",
        "a" * 64 + ".com",
        "a." * 130 + "com",
    ],
)
def test_what_is_no_entry_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_entry(text)
    assert str(error.value)


def test_what_an_entry_covers() -> None:
    below = parse_entry("*.example.com")
    assert below.covers("a.example.com", 443) and below.covers("b.a.example.com", 80)
    assert not below.covers("example.com", 443)
    assert not below.covers("evil-example.com", 443)
    assert not below.covers("a.example.com.evil.org", 443)
    assert not below.covers("a.example.com", 8443)
    assert parse_entry("example.com:8443").covers("example.com", 8443)
    assert not parse_entry("example.com:8443").covers("example.com", 443)


@pytest.mark.parametrize(("one", "other"), list(product(ENTRIES, repeat=2)))
def test_what_two_entries_have_in_common_is_what_both_cover(one: str, other: str) -> None:
    ours, theirs = parse_entry(one), parse_entry(other)
    both = common(ours, theirs)
    for host, port in HOSTS:
        assert any(entry.covers(host, port) for entry in both) == (
            ours.covers(host, port) and theirs.covers(host, port)
        )


def test_a_workflow_s_own_programs_are_added_to_every_layer() -> None:
    policy = Policy(layers=(Layer(whitelist=("ls",)), Layer(whitelist=("cat", "ls"))))
    assert [layer.whitelist for layer in with_tools(policy, ("cat",)).layers] == [("ls", "cat"), ("cat", "ls")]
    assert with_tools(policy, ()) is policy


def test_ports_of_this_machine_are_part_of_the_digest() -> None:
    policies = [Policy(layers=(), loopback=ports) for ports in ((), (5432,), (5433,))]
    assert len({digest(policy) for policy in policies}) == 3
