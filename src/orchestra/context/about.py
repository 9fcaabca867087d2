"""What a model is told about the files that it is shown: a note beside them. Pure.

Rules
1. The note is the same for the same facts, and short: it is paid for with every call.
2. Missing parts are said, and that a patch may touch only what was shown.
3. Where not all is shown and no word of the goal was found, this is said, and a model that may ask is asked for English
   search terms.
4. Everything that the model asked for has its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from orchestra.context.sheets import Sheet
from orchestra.context.words import asked_for, compounds, words_in
from orchestra.core.shown import Search, Wanted
from orchestra.core.text import count, some

NAME = "about the files shown"
_FORM = (
    "The form: a first line `NEED`, then lines `- file: PATH`, `- file: PATH:FIRST-LAST` or `- search: TERM`, and"
    " nothing else."
)
_FORM_IN_JSON = (
    'The form: {"need": [{"file": "PATH"}, {"file": "PATH:FIRST-LAST"}, {"search": "TERM"}]}, and nothing else.'
)


class Facts(NamedTuple):
    """What the note is made of."""

    search: Search
    sheets: Sequence[Sheet]
    everything: bool  # every file of the project is shown whole
    outlined: Sequence[str]
    found: dict[str, int]  # word -> files
    files_with: dict[str, int]  # term -> files
    missing: Sequence[str]
    refused: dict[Wanted, str]
    withheld: Sequence[str]
    more: bool  # the project has files that were not looked at


def about(facts: Facts) -> str:
    """The text of the note."""
    lines: list[str] = []
    if any(not sheet.is_whole for sheet in facts.sheets):
        lines.append(
            "Of some files only parts are shown: a line `… lines A-B not shown` stands for the others. A patch may"
            " change only lines that are shown."
        )
    if not facts.everything:
        lines.append("The project has files that are not shown; the list of files has their names.")
    if facts.more:
        lines.append("The project is so big that not all of its files were looked at.")
    if facts.outlined:
        lines.append(f"Only the definitions are shown of: {some(facts.outlined, 12)}.")
    lines += _words(facts)
    lines += _answered(facts)
    lines += (f"Not shown, because of its name: {path}." for path in facts.withheld)
    return "".join(f"{line}\n" for line in lines)


def _words(facts: Facts) -> list[str]:
    """What was found of the words (rule 3)."""
    if facts.everything:
        return []
    form, word = (_FORM_IN_JSON, "`need`") if facts.search.inJson else (_FORM, "NEED")
    if not facts.found and not any(sheet.how != "found" for sheet in facts.sheets):
        said = "Nothing in this project matches the words of the goal."
        return [f"{said} Reply first with {word} and English search terms. {form}" if facts.search.mayAsk else said]
    lines = [f"These words were found nowhere: {some(facts.missing, 20)}."] if facts.missing else []
    if facts.search.mayAsk:
        lines.append(f"If what you need is not shown, you may reply with a list of what you need instead. {form}")
    return lines


def _answered(facts: Facts) -> list[str]:
    """The answer to each thing that was asked for (rule 4)."""
    lines: list[str] = []
    shown = {sheet.path: sheet for sheet in facts.sheets}
    for one in dict.fromkeys(facts.search.wanted):
        if one in facts.refused:
            lines.append(f"You asked for {one}: refused, {facts.refused[one]}.")
        elif one.search:
            lines.append(f"You asked for {one}: {_where(one.search, facts)}.")
        else:
            here = [path for path in shown if path == one.file or path.endswith(f"/{one.file}")]
            answer = "shown" if here else "there is no room for it"
            if here and not all(shown[path].is_whole for path in here):
                answer = "parts of it are shown"
            lines.append(f"You asked for {one}: {answer}.")
    return lines


def _where(term: str, facts: Facts) -> str:
    """The number of files with a search term exactly as written; else, the number of files with its words."""
    asked = {found: word for found, word in asked_for(term) if found in facts.files_with}
    if not asked:
        return "too common a word to search for"
    typed = {*words_in(term), *compounds(term)}
    files = max((facts.files_with[found] for found, word in asked.items() if word in typed), default=0)
    if not files:
        parts = [
            f"{word} in {count(many, 'file')}" for found, word in asked.items() if (many := facts.files_with[found])
        ]
        return f"not found as it is written; {some(parts, 6)}" if parts else "found nowhere"
    wanted = term.lower()
    with_it = [sheet.path for sheet in facts.sheets if wanted in sheet.content().lower()]
    return f"found in {count(files, 'file')}" + (f", shown in {some(with_it, 6)}" if with_it else "")
