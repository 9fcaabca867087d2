"""Who asked for a command is said, never inferred; a rule that asks is kept at the door."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestra.commands.sandbox import RefusedCommand, Workshop
from orchestra.commands.tools import Tool, Toolbox
from orchestra.core.command import NOT_GRANTED, Asker, RunCommand, command_digest
from orchestra.core.context import Verdict
from orchestra.core.disk import Disk
from orchestra.core.records import ErrorInfo
from orchestra.core.redact import Redactor
from orchestra.policy.policy import Layer, Policy, Rule

ASKS = Rule(prefix=(("ls",),), decision="ask", reason="look first")
POLICY = Policy(layers=(Layer(whitelist=("ls", "cat"), rules=(ASKS,)),))


def resolved(tmp_path: Path, argv: tuple[str, ...], asker: Asker, *granted: tuple[str, ...]) -> Tool | RefusedCommand:
    command = RunCommand(argv=argv, timeoutMs=1000, artifact="x", asker=asker, keeps="layer")
    tools = shop(tmp_path).resolve(command, POLICY, granted=lambda wanted: wanted.argv in granted)
    return tools if isinstance(tools, RefusedCommand) else tools[0]


def shop(tmp_path: Path) -> Workshop:
    return Workshop(
        tmp_path,
        Toolbox("/usr/bin:/bin", tmp_path),
        disk=Disk(),
        redactor=Redactor([]),
        runs=tmp_path / "runs",
        scratch=tmp_path / "scratch",
    )


def test_a_command_without_an_asker_cannot_be_built() -> None:
    with pytest.raises(TypeError, match="asker"):
        RunCommand(argv=("perl", "-e", "1"), timeoutMs=1000, artifact="x", keeps="layer")  # type: ignore[call-arg]


def test_a_models_command_needs_the_whitelist_whatever_it_keeps_and_however_it_is_labelled(tmp_path: Path) -> None:
    refused = resolved(tmp_path, ("perl", "-e", "1"), "model")
    assert isinstance(refused, RefusedCommand) and "TOOL_WHITELIST_VIOLATION" in refused.problem
    assert isinstance(resolved(tmp_path, ("perl", "-e", "1"), "person"), Tool)


def test_a_rule_that_asks_refuses_a_models_command_that_nobody_granted(tmp_path: Path) -> None:
    refused = resolved(tmp_path, ("ls", "-1"), "model")
    assert isinstance(refused, RefusedCommand) and refused.code == NOT_GRANTED and "look first" in refused.problem
    assert isinstance(resolved(tmp_path, ("ls", "-1"), "model", ("ls", "-2")), RefusedCommand), (
        "another command was granted"
    )
    assert isinstance(resolved(tmp_path, ("ls", "-1"), "model", ("ls", "-1")), Tool)
    assert isinstance(resolved(tmp_path, ("cat", "a"), "model"), Tool)


def test_a_grant_names_words_not_a_line_of_text() -> None:
    words = [("a", "b c"), ("a", "b", "c"), ("a b", "c")]
    assert len({command_digest(argv, net=net) for argv in words for net in (False, True)}) == 6


def test_a_grant_without_network_is_known_by_the_digest_that_older_journals_hold() -> None:
    held = "sha256:0473ef2dc0d324ab659d3580c1134e9d812035905c4781fdd6d529b0c6860e13"
    assert command_digest(("a", "b"), net=False) == held


def test_checks_and_tasks_of_older_journals_are_still_known_by_their_digest() -> None:
    """The digests are those that the code before `asker` and `keeps` recorded."""
    check = RunCommand(argv=("a", "b"), timeoutMs=1000, artifact="x", asker="person", keeps="layer")
    assert check.identity() == "sha256:8b27145f14d87327b9cbe1b3874653c703e98b265bae3dda6378d15ec1c527c8"
    task = RunCommand(
        argv=("a", "b"),
        timeoutMs=1000,
        artifact="x",
        asker="person",
        keeps="files",
        task="t",
        taskId="i",
        env=(("A", "b"),),
        fs="rw",
        after=("z",),
        mustPass=True,
    )
    assert task.identity() == "sha256:03cb8d7091d249699f8aa0edc6277e1df4bceb54ebb9368a164fae7b5463ec96"


def test_who_asks_and_what_is_kept_are_part_of_what_is_wanted() -> None:
    def wanted(asker: Asker, task: str = "") -> str:
        return RunCommand(argv=("a",), timeoutMs=1, artifact="x", asker=asker, keeps="nothing", task=task).identity()

    check = RunCommand(argv=("a",), timeoutMs=1, artifact="x", asker="person", keeps="layer").identity()
    assert len({wanted("person"), wanted("model"), check}) == 3


@pytest.mark.spec("S1-119")
def test_a_run_cannot_fail_without_saying_why() -> None:
    with pytest.raises(ValueError, match="needs an error"):
        Verdict(status="failed")
    Verdict(status="failed", error=ErrorInfo("X", "because"))
