"""A command as people read it, what is granted of it, and where its output lies."""

from __future__ import annotations

from typing import Any

import pytest

from orchestra.core.command import MOST_STAGES, Keeps, RunCommand, Stage, command_digest, line_of, output_files, typed
from orchestra.core.effects import digest_of
from orchestra.core.run import digest


def command(*then: Stage) -> RunCommand:
    return RunCommand(argv=("ls",), timeoutMs=1, artifact="a", asker="model", keeps="nothing", then=then)


@pytest.mark.parametrize(
    ("words", "line"), [(("it's",), '"it\'s"'), (("it's $x",), "'it'\"'\"'s $x'"), (("a b", "c"), "'a b' c")]
)
def test_words_are_shown_as_a_person_types_them(words: tuple[str, ...], line: str) -> None:
    assert typed(words) == line


def test_a_command_has_at_most_two_pipes() -> None:
    assert len(command(*[Stage(("cat",))] * (MOST_STAGES - 1)).stages) == MOST_STAGES
    with pytest.raises(ValueError, match="at most 3 stages, not 4"):
        command(*[Stage(("cat",))] * MOST_STAGES)
    assert line_of((Stage(("a",), "stdout"), Stage(("b",), "nothing"), Stage(("c",)))) == "a 2>&1 | b 2>/dev/null | c"


def test_a_grant_is_for_exactly_this_command() -> None:
    plain = command_digest(("ls",), net=False)
    assert plain == digest_of(("ls",))  # as journals have held it from the beginning
    others = [
        command_digest(("ls", "x"), net=False),
        command_digest(("ls",), net=True),
        command_digest(("ls",), net=False, errors="stdout"),
        command_digest(("ls",), net=False, then=(Stage(("cat",)),)),
        command_digest(("ls",), net=True, then=(Stage(("cat",)),)),
    ]
    assert len({plain, *others}) == 1 + len(others)
    assert command(Stage(("cat",))).grant() == others[3] and command(Stage(("cat",))).public()["line"] == "ls | cat"
    assert "line" not in command().public()


@pytest.mark.parametrize(
    ("keeps", "key", "files"),
    [
        ("layer", "check.2", ("a",)),
        ("nothing", "tool.2", ("a.stdout.txt", "a.stderr.txt")),
        ("files", "task.1", ("a/stdout.txt", "a/stderr.txt")),
        ("files", "task.2", ("a/attempt-2.stdout.txt", "a/attempt-2.stderr.txt")),
    ],
)
def test_where_output_is_stored(keeps: Keeps, key: str, files: tuple[str, ...]) -> None:
    assert output_files("a", key, keeps) == files


@pytest.mark.parametrize(
    ("more", "recorded"),
    [
        ({"asker": "person", "keeps": "layer"}, ""),  # a check
        ({"asker": "model", "keeps": "layer"}, ',"keeps":"layer","asker":"model"'),
        ({"asker": "model", "keeps": "files", "task": "t"}, ',"task":"t"'),
        ({"asker": "person", "keeps": "files", "task": "t"}, ',"task":"t","typed":true'),
        ({"asker": "model", "keeps": "files"}, ',"keeps":"files","asker":"model"'),  # of no task
        ({"asker": "person", "keeps": "nothing", "task": "t"}, ',"task":"t","keeps":"nothing","asker":"person"'),
    ],
)
def test_a_waiting_run_of_an_older_version_finds_its_checks_and_tasks_by_their_digests(
    more: dict[str, Any], recorded: str
) -> None:
    command = RunCommand(argv=("ls",), timeoutMs=1, artifact="a", **more)
    digested = f'["RunCommand",{{"argv":["ls"],"timeoutMs":1,"artifact":"a"{recorded}}}]'
    assert command.identity() == digest(digested.encode())
