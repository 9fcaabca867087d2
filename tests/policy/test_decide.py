"""May a command run: the table of decisions, tricks with names, rules and their examples."""

from __future__ import annotations

from typing import Literal

import pytest

from orchestra.policy.decide import Ruling, decide, failed_examples, reasons_to_ask
from orchestra.policy.policy import Example, Layer, Policy, Rule
from orchestra.policy.readings import RUNNERS, WRAPPERS

WHITELIST = ("echo", "ls", "cat", "node", "python", "poetry", "pnpm", "git")
PUSH = Rule(prefix=(("git",), ("push", "fetch")), decision="forbid", reason="no remote here", where="c.yaml:7")
COMMIT = Rule(prefix=(("git",), ("commit",)), decision="ask", where="c.yaml:9")
MAKE = Rule(prefix=(("make",), ("test",)), decision="allow", where="c.yaml:11")
NO_GIT_RM = Rule(prefix=(("git",), ("rm",), ("-r",)), decision="forbid", where="c.yaml:13")
POLICY = Policy(layers=(Layer(whitelist=WHITELIST, rules=(PUSH, COMMIT, MAKE, NO_GIT_RM), where="c.yaml:1"),))


def said(*argv: str, asker: Literal["model", "person"] = "model", policy: Policy = POLICY) -> str:
    return decide(argv, policy, asker=asker).decision


@pytest.mark.parametrize(
    ("command", "model", "person"),
    [
        ("echo hello", "allow", "allow"),
        ("git log", "allow", "allow"),
        ("git push", "forbid", "forbid"),
        ("git fetch --all", "forbid", "forbid"),
        ("git commit -m x", "ask", "allow"),
        ("make test", "allow", "allow"),
        ("make test -j2", "allow", "allow"),
        ("make install", "forbid", "allow"),
        ("make", "forbid", "allow"),
        ("git rm file", "allow", "allow"),
        ("git rm -r folder", "forbid", "forbid"),
        ("curl http://example.com", "forbid", "allow"),
        ("bash -c ls", "forbid", "allow"),
        ("env git push", "forbid", "forbid"),
    ],
)
def test_the_strictest_rule_wins_and_a_person_needs_no_whitelist(command: str, model: str, person: str) -> None:
    assert said(*command.split()) == model
    assert said(*command.split(), asker="person") == person


@pytest.mark.spec("S2-11", "S2-52")
def test_a_ruling_names_its_rule_its_line_and_its_reason() -> None:
    assert decide(("git", "push"), POLICY, asker="model") == Ruling(
        decision="forbid", rule="git (push|fetch)", where="c.yaml:7", reason="no remote here", code="RULE_FORBIDS"
    )
    assert decide(("ls", "-l"), POLICY, asker="model") == Ruling(
        decision="allow", rule="whitelist_tools", where="c.yaml:1", reason="ls is whitelisted"
    )
    refused = decide(("curl",), POLICY, asker="model")
    assert (refused.code, refused.where) == ("TOOL_WHITELIST_VIOLATION", "c.yaml:1")
    assert decide(("curl",), POLICY, asker="person").rule == "typed by a person"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "./git",
        "/usr/bin/git",
        "../git",
        "bin\\git",
        "Git",
        "GIT",
        "git ",
        " git",
        "git.",
        "git\t",
        "git\n",
        "git\0",
        "-git",
        "--version",
        "gіt",  # Cyrillic
        "ｇｉｔ",  # full width
        "g\u200bit",
        "git\u00a0",
        "\u202egit",
        "python3",
        "python3.11",
        "git;ls",
        "git|ls",
        "$(git)",
        "`git`",
        "git*",
        "~/git",
        "VAR=1",
        "가",
        "git" * 30,
    ],
)
def test_a_tool_has_one_spelling(name: str) -> None:
    ruling = decide((name, "log"), POLICY, asker="model")
    assert (ruling.decision, ruling.code) == ("forbid", "TOOL_WHITELIST_VIOLATION")
    assert ruling.reason


def test_the_spelling_that_is_meant_is_named() -> None:
    assert "python" in decide(("python3.12",), POLICY, asker="model").reason
    assert "git" in decide(("gti",), POLICY, asker="model").reason
    assert "'git'" in decide(("ｇｉｔ",), POLICY, asker="model").reason
    assert "tools:" in decide(("./x",), POLICY, asker="model").reason


def test_nothing_to_run_and_words_with_nul_are_refused() -> None:
    for asker in ("model", "person"):
        assert decide((), POLICY, asker=asker).decision == "forbid"
        assert decide(("ls", "a\0b"), POLICY, asker=asker).decision == "forbid"
    assert decide(("bin/",), POLICY, asker="person").decision == "forbid"


@pytest.mark.parametrize("name", sorted(WRAPPERS))
def test_wrappers_are_refused_unless_named(name: str) -> None:
    ruling = decide((name, "ls"), POLICY, asker="model")
    assert (ruling.decision, ruling.rule) == ("forbid", "wrappers")
    named = Policy(layers=(Layer(whitelist=(name,)),))
    allowed = decide((name, "ls"), named, asker="model")
    assert allowed.decision == "allow" and "any other program" in allowed.note


@pytest.mark.parametrize(
    "command",
    [
        ("git", "-C", ".", "push"),
        ("git", "-c", "a=b", "push"),
        ("git", "--no-pager", "push"),
        ("git", "--git-dir=x", "--work-tree", "y", "push"),
        ("timeout", "5", "git", "push"),
        ("env", "A=1", "git", "-C", ".", "push"),
        ("bash", "-c", "cd x && git push"),
        ("sh", "-c", "(git push)"),
        ("sh", "-c", "true;git push"),
        ("xargs", "-n1", "/usr/bin/git", "push"),
        ("nice", "-n", "5", "timeout", "1", "git", "fetch"),
        ("env", *["A=1"] * 300, "git", "push"),
        ("git", "--shallow-file", "x", "push"),
        ("git", "--new-option", "--no-pager", "push"),
        ("git", "git", "push"),
        ("git", "git", "-C", ".", "push"),
        ("git", "-c", "alias.p=push", "p"),
        ("git", "-c", "Alias.P=push", "p"),
        ("git", "-calias.p=push", "p"),
        ("git", "--config-env=alias.p=WORD", "p"),
        ("git", "-c", "include.path=aliases", "p"),
        ("timeout", "1", "git", "-c", "alias.p=push", "p"),
        ("env", "-Sgit push"),
        ("env", "-vSgit push"),
        ("env", "--split-string=git push"),
        ("env", "-S", "git push"),
        ("su", "-cgit push"),
        ("poetry", "run", "git", "push"),
        ("poetry", "-C", ".", "run", "git", "push"),
        ("pnpm", "exec", "git", "push"),
        ("pnpm", "--silent", "dlx", "git", "push"),
        ("npm", "exec", "--", "git", "push"),
        ("npm", "exec", "--call=git push"),
        ("npx", "-c", "git push"),
        ("uv", "run", "--with", "x", "git", "push"),
        ("yarn", "exec", "timeout", "5", "git", "push"),
    ],
)
def test_a_rule_that_forbids_sees_through_wrappers_and_options(command: tuple[str, ...]) -> None:
    every = Policy(layers=(Layer(whitelist=(*WHITELIST, *WRAPPERS, *RUNNERS), rules=(PUSH,)),))
    assert said(*command, policy=every) == "forbid"
    assert said(*command, policy=every, asker="person") == "forbid"


@pytest.mark.parametrize(
    "command",
    [
        ("git", "log", "push"),
        ("git", "--no-pager", "log"),
        ("git", "--no-pager", "log", "push"),
        ("git", "-c", "user.name=push", "log"),
        ("git", "commit", "-c", "HEAD"),
        ("git", "log", "alias.p"),
        ("echo", "git", "push"),
        ("bash", "-c", "git log"),
        ("poetry", "add", "git", "push"),
        ("npm", "run", "build"),
    ],
)
def test_a_rule_that_forbids_leaves_other_commands_alone(command: tuple[str, ...]) -> None:
    every = Policy(layers=(Layer(whitelist=(*WHITELIST, *WRAPPERS, *RUNNERS), rules=(PUSH,)),))
    assert said(*command, policy=every) == "allow"


def test_an_option_nobody_knows_is_read_in_both_ways() -> None:
    publish = Rule(prefix=(("npm",), ("publish",)), decision="forbid")
    policy = Policy(layers=(Layer(whitelist=("npm",), rules=(publish,)),))
    for command in (("npm", "--tag", "beta", "publish"), ("npm", "--silent", "publish"), ("npm", "-w", "a", "publish")):
        assert said(*command, policy=policy) == "forbid"
    assert said("npm", "--tag=beta", "test", policy=policy) == "allow"


def test_a_rule_that_allows_sees_through_nothing() -> None:
    assert said("make", "-f", "evil.mk", "test") == "forbid"
    assert said("env", "make", "test") == "forbid"


def test_a_persons_path_is_judged_by_the_program_it_names() -> None:
    assert said("/usr/bin/git", "push", asker="person") == "forbid"
    assert said(".venv/bin/pytest", "-q", asker="person") == "allow"


def test_without_a_layer_nothing_is_allowed() -> None:
    assert said("echo", policy=Policy(layers=())) == "forbid"


def test_examples_are_checked_against_their_own_rule() -> None:
    rule = Rule(
        prefix=(("git",), ("push",)),
        decision="forbid",
        match=(Example("git push origin", "c:1"), Example("git pull", "c:2"), Example("git 'push", "c:3")),
        not_match=(Example("git log", "c:4"), Example("git -C x push", "c:5")),
    )
    assert [(failed.where, failed.text) for failed in failed_examples((rule,))] == [
        ("c:2", "git pull"),
        ("c:3", "git 'push"),
        ("c:5", "git -C x push"),
    ]


def test_when_a_patch_needs_a_person() -> None:
    assert reasons_to_ask("never", ("x",)) == ()
    assert reasons_to_ask("risk", ("x",)) == ("x",)
    assert reasons_to_ask("always", ("x",)) == ("policy: every patch is approved by a person", "x")


def test_what_would_change_orchestra_itself_needs_a_person_under_every_policy() -> None:
    assert reasons_to_ask("never", ("x",), ("g",)) == ("g",)
    assert reasons_to_ask("risk", ("x",), ("g",)) == ("g", "x")
    assert reasons_to_ask("always", ("x",), ("g",)) == ("policy: every patch is approved by a person", "g", "x")
