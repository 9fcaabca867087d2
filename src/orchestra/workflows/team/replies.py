"""Reads the replies of agents: artifacts, questions, or "nothing changed" (D-15, S4-65 … S4-75). Pure.

Rules
1. A reply is the Markdown of the agent's file. Several files are blocks, each headed by a line `=== artifacts/NAME`
   (a closing ` ===` counts too: models like symmetry).
2. A file that is not the agent's own is kept out, and reported; the rest of the reply is used (S4-65). The same is true
   of a path that leaves `artifacts/`, like `../x`.
3. A block `=== question` asks a person. It has `kind`, `text`, `options`, `default` and `impact`; one that lacks any of
   them, or is of no important kind, is refused (S4-66 … S4-75).
4. `No changes` (변경 사항 없음) as the whole reply means that the file stays as it is (G4-7).
5. What cannot be read is a ContractError. Its message is written for the agent, which is asked again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, get_args
from unicodedata import normalize

from msgspec import Struct

from orchestra.core.errors import ContractError
from orchestra.core.thinking import split_thinking
from orchestra.workflows.team.definitions import DECISIONS, FOLDER

Kind = Literal["stack", "architecture", "scope", "revenue", "cost"]  # S4-67 … S4-71
KINDS: tuple[str, ...] = get_args(Kind)
QUESTION = "question"
_HEADER = re.compile(r"=== +(\S(?:.*?\S)?)(?: +=+)? *")
_PATH = re.compile(r"[^\s=]*[/.\\][^\s=]*")  # a header that names a file, and not a heading of the text
_FENCE = re.compile(r"(`{3,}|~{3,})[\w-]*")
_UNCHANGED = re.compile(r"(no changes|변경 ?사항 ?없음)[.!]?", re.IGNORECASE)
_FIELD = re.compile(r"(kind|text|options|default|impact) *: *(.*)", re.IGNORECASE)
_REASON = "agent_reply"
_FIELDS = ("kind", "text", "options", "default", "impact")


class Question(Struct, frozen=True):
    """A question of an agent, with all that S4-72 … S4-74 require."""

    kind: Kind
    text: str
    options: tuple[str, ...]
    default: str
    impact: str


class Kept(Struct, frozen=True):
    """A block of a reply that was kept out, and why."""

    name: str
    why: str


class AgentReply(Struct, frozen=True):
    """A reply as read."""

    files: dict[str, str]  # by path: the new texts
    out: tuple[Kept, ...] = ()
    questions: tuple[Question, ...] = ()
    unchanged: bool = False


def read_reply(text: str, own: Sequence[str], *, needed: Sequence[str] = ()) -> AgentReply:
    """The artifacts and questions in a reply of the agent that makes the files `own`.

    `needed`: those that do not exist yet. All of them must be there, unless the agent asks a question.
    """
    said = _unfenced(split_thinking(text)[1].strip())
    if not said:
        raise ContractError(_REASON, "the reply is empty")
    if is_unchanged(said):
        if needed:
            raise ContractError(
                _REASON, f"the reply says that nothing changed, but {_named(needed)} does not exist yet"
            )
        return AgentReply({}, unchanged=True)
    blocks = _blocks(said)
    if not blocks:
        return AgentReply({_only(own): _ended(said)})
    questions = tuple(_question(body) for name, body in blocks if name == QUESTION)
    files = {path: _ended(_unfenced(body.strip("\n"))) for path, body in _files(blocks) if path in own}
    out = tuple(Kept(name, _why_out(name, own)) for name, _ in blocks if name != QUESTION and _path(name) not in own)
    if not files and not questions:
        raise ContractError(_REASON, f"the reply has only {_named([one.name for one in out])}; you write {_named(own)}")
    if blank := [path for path, body in files.items() if not body.strip()]:
        raise ContractError(_REASON, f"the block of {blank[0]} is empty")
    lacking = [path for path in needed if path not in files and path != DECISIONS]
    if lacking and not questions:
        raise ContractError(_REASON, f"the reply lacks {_named(lacking)}: head each file by a line `=== {lacking[0]}`")
    return AgentReply(files, out, questions)


def is_unchanged(text: str) -> bool:
    """Whether a reply is the agreed phrase for "nothing changed" (rule 4)."""
    return _UNCHANGED.fullmatch(normalize("NFC", text.strip().strip("*_`\"'").strip())) is not None


def asks(text: str) -> bool:
    """Whether a reply has a question for a person (rule 3)."""
    return any(name == QUESTION for name, _ in _blocks(_unfenced(split_thinking(text)[1].strip())))


def _only(own: Sequence[str]) -> str:
    """The one file that a reply without blocks is."""
    files = [path for path in own if path != DECISIONS] or list(own)
    if len(files) != 1:
        raise ContractError(_REASON, f"you write {_named(own)}: head each file by a line `=== {own[0]}`")
    return files[0]


def _blocks(text: str) -> list[tuple[str, str]]:
    """Each header with the text below it. What stands before the first one is talk; code blocks have no headers."""
    blocks: list[tuple[str, list[str]]] = []
    fence = ""
    for line in text.splitlines():
        found = _HEADER.fullmatch(line)
        if found and (not fence or _is_own(found[1])) and _is_header(found[1]):
            blocks.append((QUESTION if found[1].lower() == QUESTION else normalize("NFC", found[1]), []))
            fence = ""
            continue
        fence = _fence_after(fence, line)
        if blocks:
            blocks[-1][1].append(line)
    return [(name, "\n".join(lines)) for name, lines in blocks]


def _is_header(name: str) -> bool:
    return name.lower() == QUESTION or _is_own(name) or _PATH.fullmatch(name) is not None


def _is_own(name: str) -> bool:
    return name.startswith(FOLDER)


def _fence_after(fence: str, line: str) -> str:
    """The open code fence after this line; empty if none is open."""
    found = _FENCE.match(line.strip())
    if not found:
        return fence
    if not fence:
        return found[1]
    closes = found[1][0] == fence[0] and len(found[1]) >= len(fence) and line.strip() == found[1]
    return "" if closes else fence


def _unfenced(text: str) -> str:
    """The text without a code fence around the whole of it: models like to add one."""
    lines = text.splitlines()
    if len(lines) < 3 or not (found := _FENCE.fullmatch(lines[0].strip())) or lines[-1].strip() != found[1]:
        return text
    fence = ""
    for number, line in enumerate(lines):
        fence = _fence_after(fence, line)
        if not fence and number < len(lines) - 1:
            return text  # the first fence ends inside: it is a code block of the text
    return "\n".join(lines[1:-1])


def _files(blocks: Collection[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return ((_path(name), body) for name, body in blocks if name != QUESTION)


def _path(name: str) -> str:
    """The artifact that a header names, with or without its folder."""
    return name if name.startswith(FOLDER) else f"{FOLDER}{name}"


def _why_out(name: str, own: Sequence[str]) -> str:
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or name.startswith(("/", "\\")) or ":" in parts[0]:
        return "the path leaves the folder of the artifacts"
    return f"it is not one of the agent's files ({_named(own)})"


def _ended(text: str) -> str:
    return text.strip("\n") + "\n"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names) or "no file"


# -- questions --------------------------------------------------------------------------------------------------------


def _question(body: str) -> Question:
    """The question in a block (rule 3)."""
    fields = _fields(body)
    if missing := [name for name in _FIELDS if not fields.get(name)]:
        raise ContractError(_REASON, f"the question lacks `{missing[0]}:`; a question has {', '.join(_FIELDS)}")
    kind = fields["kind"].lower()
    if kind not in KINDS:
        raise ContractError(
            _REASON,
            f"kind: {kind!r} is no important decision ({', '.join(KINDS)}): decide that yourself, within your role",
        )
    options = _options(fields["options"])
    if len(options) < 2:
        raise ContractError(_REASON, "the question needs two options or more: `options: A | B`")
    default = next((one for one in options if one.casefold() == fields["default"].casefold()), "")
    if not default:
        raise ContractError(
            _REASON, f"default: {fields['default']!r} is not one of the options ({' | '.join(options)})"
        )
    return Question(kind, fields["text"], options, default, fields["impact"])  # type: ignore[arg-type]


def _fields(body: str) -> dict[str, str]:
    """The fields of a question. A value may go on in the lines below it; a list below `options:` is its value."""
    fields: dict[str, list[str]] = {}
    name = ""
    for line in _unfenced(body.strip()).splitlines():
        if found := _FIELD.fullmatch(line.strip()):
            name = found[1].lower()
            fields[name] = [found[2].strip()]
        elif name and line.strip():
            fields[name].append(line.strip())
    return {name: "\n".join(filter(None, lines)) for name, lines in fields.items()}


def _options(text: str) -> tuple[str, ...]:
    """The options: a list, or one line separated by `|`, `;` or commas."""
    lines = text.splitlines()
    if len(lines) > 1 or text.startswith(("- ", "* ")):
        found = [line.removeprefix("- ").removeprefix("* ") for line in lines]
    else:
        inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        mark = next((mark for mark in "|;," if mark in inner), "|")
        found = inner.split(mark)
    return tuple(dict.fromkeys(one for one in (part.strip().strip("\"'").strip() for part in found) if one))
