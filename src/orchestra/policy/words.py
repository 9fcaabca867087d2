"""A command line -> the stages of a pipe, without a shell (C-15, S5-34). Pure.

A model writes one line of text. A small part of the shell's language is read here: words, quotes, pipes. What comes out
are argument lists. No word of them is ever given to a shell.

Rules
1. What is accepted has the meaning that /bin/sh gives it. A test compares the two.
2. Accepted: plain words, 'single' and "double" quotes, backslash, at most two pipes, `2>&1` and `2>/dev/null`.
3. Everything else is refused: lists (`;`, `&&`), other redirections, expansions, patterns, assignments, comments. The
   sentence is for the model: what was refused, and what to write instead.
4. Inside quotes these characters are text. `$` and a backquote expand inside double quotes too, so they are refused
   there; a `$` that ends a quoted pattern ("foo$") is text.
5. This decides nothing about programs: every stage is ruled by policy/decide.py.
"""

from __future__ import annotations

import re

from orchestra.core.command import MOST_STAGES, Errors, Stage
from orchestra.core.errors import ContractError

MOST_CHARACTERS = 10_000


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BLANKS = " \t"
_ONE = "run one command at a time; the next step can run the next one"
_NO_FILES = "only `2>&1` and `2>/dev/null` are understood; output is recorded by itself"
_LITERAL = "values are not expanded; write the value itself, or 'single quotes' if the character is meant"
_REFUSED = {
    "\n": f"a line break; {_ONE}",
    "\r": f"a line break; {_ONE}",
    ";": f"`;`; {_ONE}, or write \\; if the character is meant",
    "&": f"`&`; {_ONE}",
    "(": "`(`; there are no subshells; put the character into 'single quotes' if it is meant",
    ")": "`)`; there are no subshells; put the character into 'single quotes' if it is meant",
    ">": f"`>`; {_NO_FILES}",
    "<": "`<`; name the file as an argument",
    "$": f"`$`; {_LITERAL}",
    "`": f"a backquote; {_LITERAL}",
    "*": "the pattern `*`; names are not expanded; use find -name '*.py', or quote it if a program needs it",
    "?": "the pattern `?`; names are not expanded; put it into 'single quotes' if it is meant for a program",
    "[": "the pattern `[`; names are not expanded; put it into 'single quotes' if it is meant for a program",
    "{": "`{`; braces are not expanded; write every name, or 'single quotes' if the character is meant",
    "}": "`}`; braces are not expanded; write every name, or 'single quotes' if the character is meant",
}
_KEYWORDS = _names("! case do done elif else esac fi for if in then until while")
_BUILT_IN = _names(". : alias bg cd eval exec exit export fg jobs read return set shift source trap unset wait")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_JOINED = re.compile(r"2>&[ \t]*1(?=[ \t|]|\Z)")
_DROPPED = re.compile(r"2>[ \t]*/dev/null(?=[ \t|]|\Z)")


def parse_line(text: str) -> tuple[Stage, ...]:
    """The stages of a command line; ContractError with a sentence for the model if it is refused (rule 3)."""
    line = text.strip(" \t\r\n") if not text.rstrip(" \t\r\n").endswith("\\") else text.lstrip(" \t\r\n")
    if not line:
        raise _refusal("it is empty; write one command")
    if len(line) > MOST_CHARACTERS:
        raise _refusal(f"it has more than {MOST_CHARACTERS} characters; write a shorter one")
    if not _is_text(line):
        raise _refusal("it has a NUL, a control character or broken UTF-8; write plain text")
    return _Reader(line).stages()


def _refusal(why: str) -> ContractError:
    return ContractError("command_line", f"the command line was not run: {why}.")


def _unreadable(what: str) -> ContractError:
    return _refusal(f"it has {what}")


def _is_text(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return not any((character < " " and character not in "\t\n\r") or character == "\x7f" for character in line)


class _Reader:
    """Reads one line from left to right."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._stages: list[Stage] = []
        self._words: list[str] = []
        self._errors: Errors = "apart"

    def stages(self) -> tuple[Stage, ...]:
        """All stages."""
        line = self._line
        while self._at < len(line):
            if line[self._at] in _BLANKS:
                self._at += 1
            elif line.startswith("\\\n", self._at):
                self._at += 2  # the line goes on
            elif line[self._at] == "|":
                self._pipe()
            elif flag := _JOINED.match(line, self._at):
                self._at, self._errors = flag.end(), "stdout"
            elif flag := _DROPPED.match(line, self._at):
                self._at, self._errors = flag.end(), "nothing"
            else:
                self._words.append(self._word())
        self._end_stage()
        return tuple(self._stages)

    def _pipe(self) -> None:
        after = self._line[self._at + 1 : self._at + 2]
        if after == "|":
            raise _unreadable(f"`||`; {_ONE}")
        if after == "&":
            raise _unreadable("`|&`; write `2>&1 |`")
        self._end_stage()
        if len(self._stages) == MOST_STAGES:
            raise _unreadable(f"more than {MOST_STAGES - 1} pipes; do the rest in the next step")
        self._at += 1

    def _end_stage(self) -> None:
        if not self._words:
            raise _unreadable("nothing on one side of a pipe, or no command; write a program there")
        self._stages.append(Stage(tuple(self._words), self._errors))
        self._words, self._errors = [], "apart"

    def _word(self) -> str:
        """The word that begins here."""
        line, start = self._line, self._at
        if line[start] == "#":
            raise _unreadable("a comment; leave it out, or quote the # if it is meant")
        parts: list[str] = []
        while self._at < len(line) and line[self._at] not in " \t|":
            match line[self._at]:
                case "'":
                    parts.append(self._single())
                case '"':
                    parts.append(self._double())
                case "\\":
                    parts.append(self._escaped())
                case "~" if self._at == start or line[self._at - 1] in "=:":
                    raise _unreadable("`~`; there is no home folder; name paths from the project's folder")
                case "{" if line.startswith("{}", self._at):
                    parts.append("{}")  # no shell expands it: find -exec and xargs use it
                    self._at += 2
                case character if character in _REFUSED:
                    raise self._operator(character)
                case character:
                    parts.append(character)
                    self._at += 1
        word = "".join(parts)
        if not self._words:
            self._check_first(word, line[start : self._at])
        return word

    def _operator(self, character: str) -> ContractError:
        rest = self._line[self._at : self._at + 2]
        if rest == "&&":
            return _unreadable(f"`&&`; {_ONE}")
        if rest == "<<":
            return _unreadable("`<<`; there are no here-documents; name a file as an argument")
        return _unreadable(_REFUSED[character])

    def _check_first(self, word: str, written: str) -> None:
        """Refuse what a shell would not take for a program."""
        if _ASSIGNMENT.match(written):
            raise _unreadable(f"the assignment {written[:40]}; variables cannot be set; write the command alone")
        if word in _KEYWORDS:
            raise _unreadable(f"the shell's word `{word}`; there is no shell; {_ONE}")
        if word in _BUILT_IN:
            hint = "paths start at the project's folder" if word == "cd" else _ONE
            raise _unreadable(f"`{word}`, which only a shell has; {hint}")

    def _single(self) -> str:
        text, closed, _ = self._line[self._at + 1 :].partition("'")
        if not closed:
            raise _unreadable("a ' that is not closed; close it, or write \\' for the character")
        self._at += len(text) + 2
        return text

    def _double(self) -> str:
        line, parts = self._line, list[str]()
        self._at += 1
        while self._at < len(line):
            character, following = line[self._at], line[self._at + 1 : self._at + 2]
            if character == '"':
                self._at += 1
                return "".join(parts)
            if character == "\\" and following and following in '$`"\\\n':
                parts.append("" if following == "\n" else following)
                self._at += 2
                continue
            if character == "`" or (character == "$" and following not in ('"', " ", "|", ")")):
                raise _unreadable(f"{_REFUSED[character]}, also inside double quotes")
            parts.append(character)
            self._at += 1
        raise _unreadable('a " that is not closed; close it, or write \\" for the character')

    def _escaped(self) -> str:
        following = self._line[self._at + 1 : self._at + 2]
        if not following:
            raise _unreadable("a backslash at its end; leave it out, or write it twice")
        self._at += 2
        return "" if following == "\n" else following
