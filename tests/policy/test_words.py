"""Command lines without a shell: what is accepted means what /bin/sh means; everything else is refused with a cure."""

from __future__ import annotations

import os
import subprocess
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra.core.command import Stage, line_of
from orchestra.core.errors import ContractError
from orchestra.policy.words import MOST_CHARACTERS, parse_line


def _argvs(line: str) -> list[list[str]]:
    return [list(stage.argv) for stage in parse_line(line)]


def _refused(line: str) -> str:
    with pytest.raises(ContractError) as caught:
        parse_line(line)
    assert caught.value.reason == "command_line"
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls", ["ls"]),
        ("  ls -la  src\t\n", ["ls", "-la", "src"]),
        ("grep -n 'a  b' f", ["grep", "-n", "a  b", "f"]),
        ('grep "say \\"hi\\" \\$x \\n" f', ["grep", 'say "hi" $x \\n', "f"]),
        ("echo a\\ b '' \"\"", ["echo", "a b", "", ""]),
        ("rg '$HOME; `id` * ~ {a,b} > x | y # z'", ["rg", "$HOME; `id` * ~ {a,b} > x | y # z"]),
        ('rg "end$" src', ["rg", "end$", "src"]),
        ("git show HEAD~1:a#b", ["git", "show", "HEAD~1:a#b"]),
        (
            "find . -name '*.py' -exec grep -l x {} \\;",
            ["find", ".", "-name", "*.py", "-exec", "grep", "-l", "x", "{}", ";"],
        ),
        ("grep --include=\\*.py x", ["grep", "--include=*.py", "x"]),
        ("grep '빌드가 느린 이유' 문서/설명.md", ["grep", "빌드가 느린 이유", "문서/설명.md"]),
        ("sed -n '1,5p\n7p' f", ["sed", "-n", "1,5p\n7p", "f"]),
        ("ls \\\n  -l", ["ls", "-l"]),
        ("dd if=x a=b", ["dd", "if=x", "a=b"]),
    ],
)
def test_a_line_is_split_into_words(line: str, words: list[str]) -> None:
    assert _argvs(line) == [words]


def test_a_line_is_split_at_pipes_and_flags_belong_to_their_stage() -> None:
    line = "rg -n 빌드 2>/dev/null | sort -u 2>&1|head -5"
    assert parse_line(line) == (
        Stage(("rg", "-n", "빌드"), "nothing"),
        Stage(("sort", "-u"), "stdout"),
        Stage(("head", "-5")),
    )


@pytest.mark.parametrize("line", ["2> /dev/null ls", "ls 2>& 1", "ls 2>/dev/null 2>&1", "ls 2>&1 2>/dev/null|cat"])
def test_flags_may_stand_anywhere_and_the_last_one_counts(line: str) -> None:
    errors = {"2> /dev/null ls": "nothing", "ls 2>& 1": "stdout", "ls 2>/dev/null 2>&1": "stdout"}
    first = parse_line(line)[0]
    assert first == Stage(("ls",), errors.get(line, "nothing"))  # type: ignore[arg-type]  # one of the three


@pytest.mark.parametrize(
    ("line", "what", "instead"),
    [
        ("", "empty", "one command"),
        (" \n ", "empty", "one command"),
        ("ls; rm x", "`;`", "one command at a time"),
        ("ls &", "`&`", "one command at a time"),
        ("cd src && ls", "`cd`", "project's folder"),
        ("ls && cat x", "`&&`", "next step"),
        ("ls || cat x", "`||`", "next step"),
        ("ls\ncat x", "line break", "next step"),
        ("ls\r\ncat x", "line break", "next step"),
        ("ls > out", "`>`", "2>/dev/null"),
        ("ls >/dev/null 2>&1", "`>`", "recorded by itself"),
        ("ls 2>err.txt", "`>`", "2>&1"),
        ("ls 2>/dev/nullx", "`>`", "2>&1"),
        ("ls foo2>&1", "`>`", "2>&1"),
        ("wc -l < f", "`<`", "argument"),
        ("cat <<EOF", "`<<`", "argument"),
        ("ls |& cat", "`|&`", "2>&1 |"),
        ("echo $HOME", "`$`", "value itself"),
        ('echo "$(id)"', "`$`", "inside double quotes"),
        ('echo "${x}"', "`$`", "single quotes"),
        ("echo $'a'", "`$`", "single quotes"),
        ("echo `id`", "backquote", "value itself"),
        ('echo "`id`"', "backquote", "inside double quotes"),
        ("ls *.py", "`*`", "find -name"),
        ("ls a?", "`?`", "single quotes"),
        ("ls [ab]", "`[`", "single quotes"),
        ("ls {a,b}", "`{`", "every name"),
        ("ls a}", "`}`", "single quotes"),
        ("ls ~/x", "`~`", "project's folder"),
        ("ls a=~", "`~`", "project's folder"),
        ("(ls)", "`(`", "subshell"),
        ("A=b ls", "assignment A=b", "command alone"),
        ("A='b c' ls", "assignment", "command alone"),
        ("ls # all", "comment", "leave it out"),
        ("ls | | cat", "side of a pipe", "program"),
        ("| cat", "side of a pipe", "program"),
        ("ls |", "side of a pipe", "program"),
        ("2>&1", "no command", "program"),
        ("a | b | c | d", "more than 2 pipes", "next step"),
        ("if true", "`if`", "no shell"),
        ("! ls", "`!`", "no shell"),
        ("export A", "`export`", "shell"),
        ("echo 'a", "not closed", "close it"),
        ('echo "a', "not closed", "close it"),
        ("echo a\\", "backslash", "twice"),
        ("ls a\0b", "NUL", "plain text"),
        ("ls '\x1b[2J'", "control character", "plain text"),
        ("ls \udc80", "UTF-8", "plain text"),
        ("x" * (MOST_CHARACTERS + 1), "characters", "shorter"),
    ],
)
def test_everything_else_is_refused_with_what_to_write_instead(line: str, what: str, instead: str) -> None:
    said = _refused(line)
    assert what in said
    assert instead in said
    assert "\n" not in said


_TEXT = "ab2 \t'\"\\$`|;&<>()*?[]{}~#!=:%@+,.-_/한글é\n"
_PIECES = [
    "a",
    "한",
    " ",
    "\t",
    "2",
    "=",
    "~",
    "#",
    "!",
    ":",
    "\\",
    "\\\\",
    "\\\n",
    "'",
    '"',
    "{}",
    "$",
    "|args ",
    " 2>&1",
    "2>/dev/null",
]
_LINES = st.text(st.sampled_from(_TEXT), max_size=16) | st.lists(
    st.sampled_from(_PIECES)
    | st.text(st.sampled_from(_TEXT), max_size=5).map(lambda text: "'" + text.replace("'", "") + "'")
    | st.text(st.sampled_from(_TEXT), max_size=5).map(lambda text: f'"{text}"')
    | st.sampled_from(_TEXT).map(lambda character: "\\" + character),
    max_size=8,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(_LINES, _LINES)
def test_what_is_accepted_means_what_the_shell_means(first: str, second: str) -> None:
    """Each stage is a function that appends its words to a file."""
    line = f"args {first}|args {second}"
    try:
        stages = parse_line(line)
    except ContractError:
        return
    assert len(stages) <= 3
    if any(stage.argv[0] != "args" for stage in stages):
        return
    assert _shell_says(line) == sorted("\0".join((str(len(stage.argv) - 1), *stage.argv[1:])) for stage in stages)


def _shell_says(line: str) -> list[str]:
    script = 'args() { printf "%s\\0" "$#" "$@" "$END" >>"$OUT"; cat >/dev/null; }\n' + line
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={"LANG": "C.UTF-8", "PATH": os.defpath, "OUT": out.name, "END": "\1"},
            check=False,
        )
        said = out.read().decode()
    assert done.returncode == 0, done.stderr
    return sorted(words.removesuffix("\0") for words in said.split("\1\0")[:-1])


def test_the_longest_line_is_still_read() -> None:
    [stage] = parse_line("x" * MOST_CHARACTERS)
    assert stage.argv == ("x" * MOST_CHARACTERS,)


_WORD = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
_STAGE = st.builds(
    Stage,
    st.tuples(st.sampled_from(["grep", "cat"]), _WORD, _WORD),
    st.sampled_from(["apart", "stdout", "nothing"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_STAGE, min_size=1, max_size=3).map(tuple))
def test_a_shown_line_is_read_back_as_the_same_stages(stages: tuple[Stage, ...]) -> None:
    assert parse_line(line_of(stages)) == stages


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_accepted_or_refused_in_one_sentence(line: str) -> None:
    try:
        stages = parse_line(line)
    except ContractError as refusal:
        assert str(refusal).startswith("the command line was not run: ")
        return
    assert 1 <= len(stages) <= 3
    assert all("\0" not in word for stage in stages for word in stage.argv)


def test_a_word_with_single_quotes_is_shown_as_a_person_types_it() -> None:
    assert line_of((Stage(("python3", "-c", "print('안녕')")),)) == """python3 -c "print('안녕')\""""
    assert line_of((Stage(("echo", "it's $5")),)) == """echo 'it'"'"'s $5'"""  # double quotes would change it
