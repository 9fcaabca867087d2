"""The forms of replies as grammars: whatever follows one is read by the reader of that form, and its patch fits."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.core.model import ContextArtifact
from orchestra.core.records import ArtifactRef
from orchestra.core.redact import MASK
from orchestra.core.work import ModelReply, Refusal
from orchestra.patch.diff import parse_diff
from orchestra.patch.locate import Image, compute
from orchestra.patch.result import Ask, Noop, Patch, Unparsable, parse_result
from orchestra.providers.forms import form_grammar
from orchestra.workflows.need import read_need
from orchestra.workflows.replies import read_decision, read_result
from tests.support.grammar import sentences

PYTHON = "def add(a, b):\n    return a - b\n\n\ndef 인사(이름):\n    return f'Hello, {이름}'\n"
FILES = {
    "calc.py": PYTHON,
    "src/한글/인사말.js": "function f() {\n\treturn '\\\\ \"x\" / 안녕';\r\n}\r\n",
    "crlf.txt": "하나\r\n둘\r\n\r\n셋\r\n",
    "no-end.txt": "one line without an end",
    "marks.md": "<<<AIO_RESULT_END>>>\n[PATCH_END]\n```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-- list\n... \n",
}


def _artifacts(files: dict[str, str]) -> tuple[ContextArtifact, ...]:
    return tuple(ContextArtifact(path, path, content) for path, content in files.items())


def _offered(files: dict[str, str]) -> str:
    return form_grammar("result", _artifacts(files), small=True)


@pytest.mark.spec("S1-79", "S1-97")
@settings(max_examples=150, deadline=None)
@given(sentences(_offered(FILES)))
def test_every_patch_left_to_a_small_model_is_read_fits_and_changes_one_place(reply: str) -> None:
    result = read_result(reply)
    assert isinstance(result, Patch) and result.summary
    changes = parse_diff(result.diff)
    assert not isinstance(changes, Refusal), changes
    [change] = changes
    [path] = change.paths
    before = FILES[path].encode()
    made = compute(changes, {path: Image(before, 0o644)})
    assert not isinstance(made, Refusal), (made, reply)
    [file] = made.files
    assert file.data is not None and file.data != before
    ends = {re.sub(rb"[^\r\n]", b"", line) for line in file.data.splitlines(keepends=True)}
    assert ends <= {re.sub(rb"[^\r\n]", b"", line) for line in before.splitlines(keepends=True)} | {b"\n", b""}


@pytest.mark.spec("S1-79")
@settings(max_examples=100, deadline=None)
@given(sentences(form_grammar("result", _artifacts(FILES), small=False)))
def test_every_result_of_a_large_model_is_read(reply: str) -> None:
    result = parse_result(reply)
    match result:
        case Patch():
            changes = parse_diff(result.diff)
            assert not isinstance(changes, Refusal)
            paths = [path for change in changes for path in change.paths if path in FILES]
            assert len(paths) == len(set(paths))  # no shown file twice: that would be refused
        case Ask():
            assert result.question.endswith("?") and result.needed_input
        case Noop():
            assert result.reason
        case Unparsable():
            pytest.fail(result.message)


@settings(max_examples=60, deadline=None)
@given(sentences(form_grammar("plan", (), small=False)))
def test_every_plan_is_a_plan_or_a_request_for_something(reply: str) -> None:
    wanted = read_need(reply)
    assert bool(wanted) == reply.startswith("NEED\n")


@settings(max_examples=60, deadline=None)
@given(sentences(form_grammar("plan", _artifacts(FILES), small=True)))
def test_a_small_models_plan_is_about_files_it_was_shown(reply: str) -> None:
    assert read_need(reply) is None
    for line in reply.split("\n")[:-1]:
        assert any(line.startswith(f"- `{path}`: ") for path in FILES)


@pytest.mark.spec("F1-07")
@settings(max_examples=60, deadline=None)
@given(sentences(form_grammar("decision", (), small=False)))
def test_every_decision_is_read(reply: str) -> None:
    opinion = read_decision(ModelReply(reply, ArtifactRef("r", 1, "sha256:0"), "stop", 1, "local"))
    assert bool(opinion.question) == (opinion.decision == "blocked")


def _changed_lines(files: dict[str, str]) -> set[str]:
    """The lines that a small model may replace."""
    return set(re.findall(r'\("-((?:[^"\\]|\\.)*?)\\n\+', _offered(files)))


@pytest.mark.parametrize(
    ("content", "offered"),
    [
        ("one\ntwo\nthree\nfour\n", {"one", "two", "three", "four"}),
        (f"one\nkey = '{MASK}'\nthree\nfour\nfive\n", {"five"}),  # beside a secret: the line differs
        ("one\ntwo\nthree\n… lines 4-90 not shown\nx\ny\nz\n", {"one", "z"}),  # beside what is not shown
        ("same\n" * 9, set()),  # no place is one place
        ("\n\n \n", set()),  # there is nothing to replace
        ("가\x0c\n나\n다\n라\n마\n", {"라", "마"}),  # a form feed is in no patch
        ("", set()),
    ],
)
def test_a_small_model_is_offered_the_lines_that_a_patch_can_find(content: str, offered: set[str]) -> None:
    assert _changed_lines({"a.txt": content}) == offered


@given(st.lists(st.sampled_from(["a", "b", "", "  c"]), max_size=14))
def test_each_place_that_is_offered_occurs_once(lines: list[str]) -> None:
    blocks = [lines[max(0, at - 2) : at + 3] for at in range(len(lines))]
    once = {at for at, block in enumerate(blocks) if lines[at].strip() and _occurrences(lines, block) == 1}
    assert _places(_offered({"a.txt": "".join(f"{line}\n" for line in lines)})) == len(once)


def _occurrences(lines: Sequence[str], block: Sequence[str]) -> int:
    return sum(lines[at : at + len(block)] == block for at in range(len(lines)))


@pytest.mark.parametrize("path", ["with blank.py", 'quo"te.py', "back\\slash.py", "new\nline.py", "."])
def test_a_path_that_a_diff_would_have_to_quote_is_not_offered(path: str) -> None:
    assert "ask | noop" in _offered({path: "x = 1\n"})
    assert "change" not in _offered({path: "x = 1\n"})


def test_a_small_model_is_left_to_ask_only_where_it_has_nothing_to_change() -> None:
    assert '"ASK' not in _ways(_offered({"a.py": "x = 1\n"}))
    assert "ask | noop" in _ways(_offered({}))
    assert "patch | ask | noop" in _ways(form_grammar("result", (), small=False))


def _ways(grammar: str) -> str:
    return next(line for line in grammar.splitlines() if line.startswith("start: "))


def test_tests_are_not_offered_where_there_is_code() -> None:
    files = {"tests/test_a.py": "assert a\n", "a.py": "a = 0\n"}
    assert _changed_lines(files) == {"a = 0"}
    assert _changed_lines({"tests/test_a.py": "assert a\n"}) == {"assert a"}


def test_the_offered_places_of_a_large_project_are_bounded() -> None:
    module = "".join(f"v{line} = 0\n" for line in range(200))
    assert _places(_offered({f"m{number}.py": module for number in range(9)})) == 400


def _places(grammar: str) -> int:
    """How many places a small model is offered."""
    return len(re.findall(r"^p\d+: ", grammar, re.MULTILINE))
