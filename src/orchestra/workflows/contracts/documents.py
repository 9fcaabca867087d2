"""Reads and writes the YAML documents of S3: text → record or all of its mistakes, record → text. Pure.

Rules
1. Every mistake is reported at once, each with its line, its field and the requirement it breaks (S3-137, S3-138).
2. The text may come from a model, a person or another tool. Its size, its depth and what its aliases stand for are
   limited. Tags, merge keys and keys that stand twice are refused (S3-134).
3. A value is what it looks like in YAML 1.1, but for times: these stay text. A text field does not take `yes` or `404`:
   such a value must be in quotes, or another reader would see something else.
4. A time without a zone is UTC. Times are written with Z, in quotes (G3-6, C-08).
5. Writing is stable: the same record gives the same bytes, fields in the order of the record, Unicode text
   unchanged (S3-135).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from orchestra.config.yamlfile import keys_twice, line_at, whole_size
from orchestra.core.errors import ContractError
from orchestra.core.text import and_more, brief
from orchestra.patch.safety import wrong_path
from orchestra.workflows.contracts.records import Contract
from orchestra.workflows.contracts.rules import Broken, Ids, KeyPath, broken, other_ids

MOST_BYTES = 256 * 1024  # of one document: PyYAML needs seconds for more
_MOST_VALUES = 20_000  # with what aliases repeat
_MOST_DEPTH = 40
_MOST_REPORTED = 50
_TAG = "tag:yaml.org,2002:"
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n`]*$", re.MULTILINE)
_CLOCK = re.compile(r"[\d_]+(?::[\d_]+)+(?:\.[\d_]*)?")  # 10:30, which YAML 1.1 takes for a number
_ODD = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|z|[+-]\d{2}:?\d{2})?")

Kind = TypeVar("Kind", bound=Struct)


class BrokenLine(Struct, frozen=True):
    """What is wrong in a line of a document."""

    line: int
    requirement: str
    field: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.field or 'the document'}: {self.text} ({self.requirement})"


class Malformed(ContractError):
    """A document that is no contract, with all of its mistakes."""

    def __init__(self, name: str, mistakes: Sequence[BrokenLine]) -> None:
        lines = "".join(f"\n- {mistake}" for mistake in mistakes[:_MOST_REPORTED])
        more = and_more(mistakes, _MOST_REPORTED, "\n- ")
        super().__init__("CONTRACT_INVALID", f"{name} is not valid:{lines}{more}")
        self.mistakes = tuple(mistakes)


# -- reading ----------------------------------------------------------------------------------------------------------


def read(text: str, kind: type[Kind], name: str, *, ids: Ids | None = None) -> Kind:
    """The contract in a text; Malformed with all mistakes. `ids` are those of its path (S3-19)."""
    return _Reading(text, name).record(kind, ids or Ids())


def read_lines(text: str, kind: type[Kind], name: str, *, ids: Ids) -> tuple[Kind, Callable[[KeyPath], int]]:
    """The same, with a function that gives the line of a key path."""
    reading = _Reading(text, name)
    return reading.record(kind, ids), reading.line


def read_reply(
    text: str, kind: type[Kind], name: str, *, ids: Ids | None = None, stamp: Mapping[str, str] | None = None
) -> Kind:
    """The contract in a model's reply, plain or fenced (D-15); Malformed has a message for a repair prompt.

    `stamp` has top-level fields that the orchestrator sets, whatever the model wrote: `created_at`, because a model has
    no clock.
    """
    return _Reading(_document_in(text), name, stamp or {}).record(kind, ids or Ids())


def plain_reply(text: str, name: str) -> Any:
    """The plain values of the document in a model's reply, not judged; Malformed if it is no YAML."""
    return _plain(_Reading(_document_in(text), name).tree)


def _document_in(text: str) -> str:
    """The YAML of a reply: the longest fenced block, else everything."""
    fences = list(_FENCE.finditer(text))
    blocks = [text[one.end() : other.start()] for one, other in zip(fences[::2], fences[1::2], strict=False)]
    if len(fences) == 1:  # the reply was cut, or the end fence was forgotten: the parser finds out
        blocks = [text[fences[0].end() :]]
    return max(blocks, key=len, default=text)


class _Reading:
    """One document while it is read."""

    def __init__(self, text: str, name: str, stamp: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._wrong: list[Broken] = []
        self.tree = self._composed(text)
        self._stamp = stamp or {}

    def record(self, kind: type[Kind], ids: Ids) -> Kind:
        """The record, after all checks (rule 1)."""
        data = _plain(self.tree)
        if isinstance(data, dict):
            data |= self._stamp
        value = self._value(data, kind, (), "S3-141")
        self._wrong += self._twice()
        if not self._wrong:
            record = msgspec.convert(value, kind)
            if isinstance(record, Contract):
                self._wrong += [*broken(record), *other_ids(record, ids)]
        if self._wrong:
            raise Malformed(self._name, [self._mistake(one) for one in self._wrong])
        return record

    def _composed(self, text: str) -> Any:
        """The YAML tree of a text, within its limits (rule 2)."""
        import yaml  # imported here, as everywhere: most commands need no parser

        if len(text.encode("utf-8", "replace")) > MOST_BYTES:
            raise self._not_yaml(1, f"it is longer than {MOST_BYTES // 1024} KiB")
        try:
            tree = yaml.compose(text, Loader=yaml.SafeLoader)
            values = whole_size(tree, {}) if tree is not None else 0
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise self._not_yaml(line, f"it is no YAML: {brief(error.problem or str(error), 200)}") from error
        except yaml.YAMLError as error:
            raise self._not_yaml(1, f"it is no YAML: {brief(str(error), 200)}") from error
        except (RecursionError, ValueError) as error:
            raise self._not_yaml(1, "it is no YAML that can be read: too deep, or a value that is none") from error
        if tree is None:
            raise self._not_yaml(1, "it is empty")
        if values > _MOST_VALUES:
            raise self._not_yaml(1, f"it stands for more than {_MOST_VALUES:,} values")
        for node, depth in _nodes(tree):
            if depth > _MOST_DEPTH:
                raise self._not_yaml(node.start_mark.line + 1, f"it is nested deeper than {_MOST_DEPTH} levels")
            if wrong := _wrong_node(node):
                raise self._not_yaml(node.start_mark.line + 1, wrong)
        return tree

    def _not_yaml(self, line: int, text: str) -> Malformed:
        return Malformed(self._name, [BrokenLine(line, "S3-134", "", text)])

    def _twice(self) -> Iterator[Broken]:
        for mistake in keys_twice(self.tree):
            yield Broken((f"line {mistake.line}",), "S3-134", mistake.text)

    def _mistake(self, wrong: Broken) -> BrokenLine:
        if wrong.field.startswith("line "):
            return BrokenLine(int(wrong.field[5:]), wrong.requirement, "", wrong.text)
        return BrokenLine(self.line(wrong.places), wrong.requirement, wrong.field, wrong.text)

    def line(self, places: KeyPath) -> int:
        """The line of a key path, as far as the document has it."""
        return line_at(self.tree, [str(place) for place in places])

    # Below, `requirement` is that of the field that a value belongs to.

    def _value(self, data: Any, declared: Any, at: KeyPath, requirement: str) -> Any:
        """The value in its normal form; mistakes are noted."""
        kind, metas = _unwrapped(declared)
        requirement = _extra(metas, "requirement") or requirement
        if get_origin(kind) in (Union, UnionType):  # a value or None
            if data is None:
                return None
            declared = kind = next(part for part in get_args(kind) if part is not NoneType)
        if isinstance(kind, type) and issubclass(kind, Struct):
            return self._struct(data, kind, at, requirement)
        if get_origin(kind) is tuple:
            return self._list(data, get_args(kind)[0], at, requirement)
        if get_origin(kind) is dict:
            return self._mapping(data, get_args(kind)[1], at, requirement)
        return self._leaf(data, declared, at, requirement)

    def _struct(self, data: Any, kind: type[Struct], at: KeyPath, requirement: str) -> dict[str, Any]:
        if not isinstance(data, dict):
            self._note(at, requirement, f"it must be a mapping (key: value); it is {_kind_of(data)}")
            return {}
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        for name in data:
            if name not in fields:
                self._note((*at, name), requirement, f"unknown field{_nearest(name, [*fields])}")
        found: dict[str, Any] = {}
        for name, field in fields.items():
            if name in data:
                found[name] = self._value(data[name], field.type, (*at, name), requirement)
            elif field.required:
                self._note((*at, name), _extra(_unwrapped(field.type)[1], "requirement") or requirement, "is missing")
        return found

    def _list(self, data: Any, kind: Any, at: KeyPath, requirement: str) -> list[Any]:
        if not isinstance(data, list):
            self._note(at, requirement, f"it must be a list; it is {_kind_of(data)}")
            return []
        return [self._value(one, kind, (*at, number), requirement) for number, one in enumerate(data)]

    def _mapping(self, data: Any, kind: Any, at: KeyPath, requirement: str) -> dict[str, Any]:
        if not isinstance(data, dict):
            self._note(at, requirement, f"it must be a mapping (key: value); it is {_kind_of(data)}")
            return {}
        return {name: self._value(one, kind, (*at, name), requirement) for name, one in data.items()}

    def _leaf(self, data: Any, declared: Any, at: KeyPath, requirement: str) -> Any:
        kind, metas = _unwrapped(declared)
        form = _extra(metas, "form")
        wanted = next((meta.description for meta in reversed(metas) if meta.description), "a text")
        if get_origin(kind) is Literal:
            values = get_args(kind)
            if type(data) not in {type(value) for value in values} or data not in values:
                self._note(at, requirement, f"it must be {' or '.join(map(str, values))}; it is {_shown(data)}")
        elif kind is str and not isinstance(data, str):
            cure = "" if isinstance(data, list | dict | None) else "; write it in quotes"
            self._note(at, requirement, f"it must be {wanted}; it is {_kind_of(data)}{cure}")
        elif form == "time":
            if (moment := normal_time(data)) is None:
                self._note(at, requirement, f"it must be {wanted}; it is {_shown(data)}")
            return moment
        elif form == "path":
            if wrong := wrong_path(data):
                self._note(at, requirement, f"{wrong}: {_shown(data)}")
        elif not _fits(data, declared):
            self._note(at, requirement, f"it must be {wanted}; it is {_shown(data)}")
        return data

    def _note(self, at: KeyPath, requirement: str, text: str) -> None:
        self._wrong.append(Broken(at, requirement, text))


def normal_time(text: str) -> str | None:
    """A time in UTC, ending in Z (rule 4); None if the text is no time."""
    if not _TIME.fullmatch(text.strip()):
        return None
    try:
        moment = datetime.fromisoformat(text.strip().upper())
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment.isoformat().replace("+00:00", "Z")


def _nodes(tree: Any) -> Iterator[tuple[Any, int]]:
    """Every node of a tree, once, with its depth."""
    queue, met = [(tree, 1)], {id(tree)}
    while queue:
        node, depth = queue.pop()
        yield node, depth
        inner = node.value if isinstance(node.value, list) else []
        for part in (part for one in inner for part in (one if isinstance(one, tuple) else (one,))):
            if id(part) not in met:
                met.add(id(part))
                queue.append((part, depth + 1))


def _wrong_node(node: Any) -> str:
    """What makes a node unsafe or unclear (rule 2); empty if nothing does."""
    known = {f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "value")}
    if node.tag == f"{_TAG}merge":
        return "it has a merge key (<<); write the fields out"
    if node.tag not in known:
        return f"it has the tag {brief(node.tag.replace(_TAG, '!!'), 80)}; only plain values are read"
    pairs = [pair for pair in node.value if isinstance(pair, tuple)] if isinstance(node.value, list) else []
    if any(isinstance(key.value, list) for key, _ in pairs):
        return "a key is a list or a mapping; keys are texts"
    return ""


def _plain(node: Any) -> Any:
    """A node as plain values. Times stay text (rule 3); keys are texts."""
    import yaml

    if isinstance(node.value, list):
        if node.tag == f"{_TAG}map":
            return {key.value: _plain(value) for key, value in node.value}
        return [_plain(one) for one in node.value]
    name = node.tag.removeprefix(_TAG)
    if name in ("str", "timestamp", "value") or _CLOCK.fullmatch(node.value):
        return node.value
    return yaml.constructor.SafeConstructor().construct_object(node)


def _unwrapped(kind: Any) -> tuple[Any, tuple[Meta, ...]]:
    """A type without its annotations, and these."""
    metas: tuple[Meta, ...] = ()
    while get_origin(kind) is Annotated:
        kind, *more = get_args(kind)
        metas = (*(one for one in more if isinstance(one, Meta)), *metas)
    return kind, metas


def _extra(metas: Sequence[Meta], name: str) -> str:
    return next((str(meta.extra[name]) for meta in metas if meta.extra and name in meta.extra), "")


def _fits(data: Any, declared: Any) -> bool:
    try:
        msgspec.convert(data, declared)
    except msgspec.ValidationError:
        return False
    return True


def _nearest(name: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; known fields here: {', '.join(known)}"


def _shown(data: Any) -> str:
    return brief(repr(data), 80)


def _kind_of(data: Any) -> str:
    names = {NoneType: "empty", bool: "yes or no", dict: "a mapping", list: "a list", str: "a text"}
    return names.get(type(data), "a number")


# -- writing ----------------------------------------------------------------------------------------------------------


def write(record: Struct) -> str:
    """A record as YAML (rule 5); ContractError if a contract breaks its own rules."""
    if isinstance(record, Contract) and (wrong := [*broken(record)]):
        mistakes = [BrokenLine(1, one.requirement, one.field, one.text) for one in wrong]
        raise Malformed(type(record).__name__, mistakes)
    return _text(msgspec.to_builtins(record))


def _text(data: Mapping[str, Any]) -> str:
    """Plain values as YAML, with an empty line before each part that has several lines."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Indents lists below their key, as the spec's samples do."""

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
        block = "|" if "\n" in value and not re.search(r"[ \t]\n|^\s|[^\S\n]$", value) else None
        style = '"' if _ODD.search(value) else block  # PyYAML takes U+0085 in other styles for a line break
        return dumper.represent_scalar(f"{_TAG}str", value, style=style)

    Dumper.add_representer(str, text)
    parts = []
    for name, value in data.items():
        part = yaml.dump({name: value}, Dumper=Dumper, allow_unicode=True, sort_keys=False, width=120)
        parts.append(f"\n{part}" if part.count("\n") > 1 else part)
    return "".join(parts).lstrip("\n")
