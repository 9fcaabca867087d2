"""A YAML file as a record, with the line of every key: all of its mistakes at once, each with its line.

Rules
1. A mistake is named with file, line, key path and, for an unknown key, the nearest known one (G2-9).
2. After a mistake the rest of the file is still read: the wrong part is removed, and the rest is converted again.
3. A key that is there twice is a mistake: the parser would silently use the second.
4. A file that holds itself, or by repeating its parts (`*name`) more than a person could write, is refused: it would
   take all memory, later and somewhere else.
5. It is a plain file of a size that a person writes: nothing else is read, and nothing is waited for.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from orchestra.core.errors import OddFile, UsageError
from orchestra.core.files import MIB, read_bounded

Record = TypeVar("Record", bound=Struct)
_MOST_VALUES = 100_000  # rule 4
_MOST_BYTES = MIB  # rule 5
MOST = 50  # mistakes that are reported; more mean that it is probably the wrong file

_WHERE = re.compile(r" - at `(key` in `)?\$?(.*)`$")  # of a value, or of a mapping with a wrong key
_UNKNOWN = re.compile(r"unknown field `(.+?)`")
_MISSING = re.compile(r"missing required field `(.+?)`")


class Origins:
    """The line of each key of a file. Without a file every key is built in."""

    def __init__(
        self,
        path: Path | None = None,
        tree: Any = None,
        shifts: dict[str, list[int]] | None = None,
        data: Any = None,
        section: tuple[str, ...] = (),
    ) -> None:
        """`data` is the file's content as plain values; key paths begin below `section`."""
        self.path = path
        self._tree = tree
        self._shifts = shifts or {}
        self._data = data
        self._section = section

    def below(self, *section: str) -> Origins:
        """The same file, with key paths that begin below a section of it."""
        return Origins(self.path, self._tree, self._shifts, self._data, (*self._section, *section))

    def given(self, *keys: str) -> Any:
        """The file's own value at a key path, without defaults; None if there is none."""
        found = self._data
        for key in (*self._section, *keys):
            found = _inner(found, key)
        return found

    def places(self, *keys: str | int) -> list[str]:
        """A key path of the record as the file has it."""
        return _places([*self._section, *map(str, keys)], self._shifts)

    def line(self, *keys: str | int) -> int:
        """The line of a key path, as far as the file has it."""
        return line_at(self._tree, self.places(*keys))

    def where(self, *keys: str | int) -> str:
        """`file:line` of a key; "built in" if the file does not have it."""
        if self.path is None or not _has(self._tree, self.places(*keys)):
            return "built in"
        return f"{self.path.name}:{self.line(*keys)}"


class Mistake(NamedTuple):
    """What is wrong in a line of a file."""

    line: int
    text: str
    places: tuple[str, ...] = ()  # the key path, as the file has it


def read_text(path: Path, most: int = _MOST_BYTES, *, name: str = "") -> str:
    """The text of a file that a person wrote (rule 5); `name` is what messages call it."""
    name = name or str(path)
    try:
        return read_bounded(path, most, follow=True).decode()
    except OddFile as odd:
        raise UsageError(f"{name} {odd.what}") from odd
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text (byte {error.start})") from error


def read_yaml(path: Path, kind: type[Record], *, most: int = _MOST_BYTES) -> tuple[Record, Origins, list[Mistake]]:
    """The record in a file, the lines of its keys, and its mistakes; the record lacks the wrong parts."""
    import yaml  # imported here: a project without a file does not need the parser

    text = read_text(path, most)
    try:
        data: Any = yaml.safe_load(text)
        tree = yaml.compose(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: e.g. a date that is none
        raise UsageError(f"{path} is not valid YAML: {error}") from error
    if tree is not None and whole_size(tree, {}) > _MOST_VALUES:
        raise UsageError(f"{path} holds more than {_MOST_VALUES:,} values, most of them by `*name`; write fewer")
    shifts: dict[str, list[int]] = {}  # list -> the places of its elements in the file, once one was taken out
    record, mistakes = _convert({} if data is None else data, tree, kind, shifts)
    return record, Origins(path, tree, shifts, data), (keys_twice(tree) if tree is not None else []) + mistakes


def whole_size(node: Any, known: dict[int, float]) -> float:
    """How many values a part of the file stands for, each as often as it is repeated; endless if it holds itself."""
    if id(node) not in known:
        known[id(node)] = float("inf")  # until it is counted: meeting this node again below itself is a cycle
        inner = node.value if isinstance(node.value, list) else ()
        parts = (part for one in inner for part in (one if isinstance(one, tuple) else (one,)))
        known[id(node)] = 1 + sum(whole_size(part, known) for part in parts)
    return known[id(node)]


def _convert(data: Any, tree: Any, kind: type[Record], shifts: dict[str, list[int]]) -> tuple[Record, list[Mistake]]:
    mistakes: list[Mistake] = []
    taken: set[tuple[str, ...]] = set()
    while True:
        try:
            return msgspec.convert(data, kind), mistakes
        except msgspec.ValidationError as error:
            keys, message, missing = _explain(str(error), kind)
            keys = _named(data, keys, kind)
            places = tuple(_places(keys, shifts))
            if (*places, missing) not in taken:  # or it is missing because it was wrong
                name = ".".join(places) or "the file"
                mistakes.append(Mistake(line_at(tree, places), message.replace("{key}", name), places))
            taken.add(places)
            if len(mistakes) >= MOST or not _take_out(data, keys, shifts):
                return _blank(kind), mistakes


def _blank(kind: type[Record]) -> Record:
    """The record of an empty file: its defaults. A field without a default is missing, which is reported already."""
    return kind(**{field.name: None for field in msgspec.structs.fields(kind) if field.required})


def _explain(error: str, kind: type[Struct]) -> tuple[list[str], str, str]:
    """The key path in msgspec's message, the message with {key} for it and with its cure; the key that is missing."""
    where = _WHERE.search(error)
    keys = [key for key in re.split(r"[.\[\]]+", where.group(2).replace("[...]", ".*")) if key] if where else []
    what = error[: where.start()] if where else error
    if unknown := _UNKNOWN.search(error):
        known = _fields(_type_at(kind, keys))
        near = difflib.get_close_matches(unknown.group(1), known, n=1, cutoff=0.5)
        hint = f"did you mean `{near[0]}`?" if near else f"known keys here: {', '.join(known)}"
        return [*keys, unknown.group(1)], f"unknown key `{{key}}`; {hint}", ""
    if missing := _MISSING.search(error):
        return keys, f"`{{key}}`: `{missing.group(1)}` is missing", missing.group(1)
    allowed = _type_at(kind, keys)
    values = get_args(allowed) if get_origin(allowed) is Literal else ()
    names = [value if re.match(r"[a-z]", value) else f'"{value}"' for value in map(str, values)]
    choice = f"; it can be {', '.join(names)}" if names else ""
    part = "a key below it: " if where and where.group(1) else ""
    return keys, f"`{{key}}`: {part}{what[:1].lower()}{what[1:]}{choice}", ""


def _type_at(kind: Any, keys: list[str], *, whole: bool = False) -> Any:
    """The type a key path leads to, or None; `whole` with everything else it may be."""
    for key in keys:
        kind = _given(kind)
        if isinstance(kind, type) and issubclass(kind, Struct):
            kind = get_type_hints(kind).get(key)
        elif key.isdigit() or key == "*":
            kind = get_args(kind)[-1 if key == "*" else 0] if get_args(kind) else None
        else:
            return None
    return kind if whole else _given(kind)


def _given(kind: Any) -> Any:
    """The type without None (a key that may be missing); of a union of text and a section, the section."""
    while get_origin(kind) in (Union, UnionType):
        parts = [part for part in get_args(kind) if part is not type(None)]
        kind = next((part for part in parts if isinstance(part, type) and issubclass(part, Struct)), parts[0])
    return kind


def _named(data: Any, keys: list[str], kind: Any) -> list[str]:
    """A key path in which each `*`, msgspec's word for some entry of a mapping, is the first entry that is wrong."""
    found: list[str] = []
    for at, key in enumerate(keys):
        if key == "*" and isinstance(data, dict):
            wanted = _type_at(kind, keys[: at + 1], whole=True)
            key = next((str(name) for name, value in data.items() if not _fits(value, wanted)), key)
        found.append(key)
        data = _inner(data, key)
    return found


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _fields(kind: Any) -> list[str]:
    return list(kind.__struct_fields__) if isinstance(kind, type) and issubclass(kind, Struct) else []


def _places(keys: list[str], shifts: dict[str, list[int]]) -> list[str]:
    """A key path as the file has it: indexes as they were before elements were taken out."""
    found: list[str] = []
    for depth, key in enumerate(keys):
        moved = shifts.get(".".join(keys[:depth]))
        found.append(str(moved[int(key)]) if moved and key.isdigit() else key)
    return found


def _take_out(data: Any, keys: list[str], shifts: dict[str, list[int]]) -> bool:
    """Remove the part at a key path from the data (rule 2); False if there is none."""
    if not keys:
        return False
    above, at = data, 0
    while at < len(keys) - 1 and (inner := _inner(above, keys[at])) is not None and keys[at + 1] != "*":
        above, at = inner, at + 1
    if isinstance(above, dict):
        name = next((name for name in above if str(name) == keys[at]), None)
        if name is not None:
            del above[name]
            return True
    if isinstance(above, list) and keys[at].isdigit():  # msgspec names only what is there
        del shifts.setdefault(".".join(keys[:at]), list(range(len(above))))[int(keys[at])]
        del above[int(keys[at])]
        return True
    return False


def _inner(data: Any, key: str) -> Any:
    if isinstance(data, dict):
        return next((value for name, value in data.items() if str(name) == key), None)
    return data[int(key)] if isinstance(data, list) and key.isdigit() and int(key) < len(data) else None


def keys_twice(tree: Any) -> list[Mistake]:
    """Keys that are there twice (rule 3)."""
    found: list[Mistake] = []
    queue, met = [tree], {id(tree)}
    while queue:
        node = queue.pop()
        pairs = [part for part in node.value if isinstance(part, tuple)] if isinstance(node.value, list) else []
        lines: dict[str, int] = {}
        for key, _ in pairs:
            if isinstance(key.value, str) and key.value in lines:
                first = lines[key.value]
                text = f"`{key.value}` stands twice (first in line {first})"
                found.append(Mistake(key.start_mark.line + 1, text))
            elif isinstance(key.value, str):
                lines[key.value] = key.start_mark.line + 1
        inner = [value for _, value in pairs] if pairs else node.value if isinstance(node.value, list) else []
        for value in inner:
            if id(value) not in met:  # an alias leads to the same node again
                met.add(id(value))
                queue.append(value)
    return found


def _next(node: Any, key: str) -> tuple[int, Any] | None:
    """The line and the node of a key below a node."""
    values = getattr(node, "value", None)
    if not isinstance(values, list):
        return None
    pairs = [pair for pair in values if isinstance(pair, tuple)]
    if not pairs:
        element = values[int(key)] if key.isdigit() and int(key) < len(values) else None
        return (element.start_mark.line + 1, element) if element is not None else None
    match = next((pair for pair in pairs if pair[0].value == key), None)
    return (match[0].start_mark.line + 1, match[1]) if match else None


def line_at(node: Any, keys: Sequence[str]) -> int:
    """The line of a key path in the YAML tree, as far as it can be followed."""
    line = int(node.start_mark.line) + 1 if node is not None else 1
    for key in keys:
        found = _next(node, key)
        if found is None:
            break
        line, node = found
    return line


def _has(node: Any, keys: list[str]) -> bool:
    for key in keys:
        found = _next(node, key)
        if found is None:
            return False
        node = found[1]
    return True
