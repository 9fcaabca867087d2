"""What was made from what: the editions, files, child runs and inputs of a run, from its journal alone. Pure.

Rules
1. An edition has the inputs it was made from. It is replaced if its place has a newer one, or lies in a replaced one.
2. A file has the digest of its newest look. It was made in the edition whose step gave its text, if one did.
3. Nothing is stored for this: it is read from RUN_CREATED, the editions and the looks (core/editions.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from orchestra.core.accounts import children_of
from orchestra.core.editions import Began, Input
from orchestra.core.looks import Inside, Seen
from orchestra.core.newest import Newest, edition_of, editions_above
from orchestra.core.reading import RunCreated, effect_of, key_of, outcome_as, outcome_of
from orchestra.core.records import Event, utf8
from orchestra.core.run import digest


class MadeEdition(Struct, frozen=True):
    """An edition and what it was made from."""

    edition: str
    inputs: dict[str, Input]
    replaced: bool = False


class MadeFile(Struct, frozen=True):
    """A file that the run made, as it was last seen."""

    path: str
    inside: Inside
    digest: str
    edited: bool
    madeIn: str = ""  # the edition; empty: none, or not known


class MadeChild(Struct, frozen=True):
    """A child run that the run began."""

    key: str
    workflow: str
    childRunId: str


class Lineage(Struct, frozen=True):
    """What a run was made from, and what it made."""

    created: RunCreated
    editions: tuple[MadeEdition, ...]
    files: tuple[MadeFile, ...]
    children: tuple[MadeChild, ...]


def lineage_of(events: Iterable[Event]) -> Lineage:
    """The lineage of the run with these events."""
    newest, created = Newest(), RunCreated()
    began: dict[str, dict[str, Input]] = {}
    files: dict[tuple[str, str], tuple[Seen, str]] = {}  # with the edition in which the run's own text was made
    texts: dict[str, str] = {}  # by digest: the edition in which a text was made, the latest so far
    children: dict[str, MadeChild] = {}
    for event in events:
        if event.type == "RUN_CREATED":
            created = RunCreated.of(event)
        key, effect = key_of(event), effect_of(event)
        newest.note(event)
        if effect == "Edition" and (made := outcome_as(event, Began)) is not None:
            began[key.removesuffix(".1")] = made.inputs
        elif effect in ("Look", "WriteFile") and (seen := outcome_as(event, Seen)) is not None and not seen.conflict:
            before, made_in = files.get((seen.inside, seen.path), (None, ""))
            if before is None or before.made != seen.made:  # another edition may have made an equal text since
                made_in = texts.setdefault(seen.made, edition_of(key))
            files[(seen.inside, seen.path)] = (seen, made_in)
        elif text := _text(event):
            texts[digest(utf8(text))] = edition_of(key)
        children |= {place: MadeChild(place, workflow, run_id) for place, workflow, run_id in children_of((event,))}
    return Lineage(
        created,
        tuple(MadeEdition(name, inputs, _is_replaced(name, newest)) for name, inputs in began.items()),
        tuple(
            MadeFile(path, seen.inside, seen.file, seen.edited, made_in) for (_, path), (seen, made_in) in files.items()
        ),
        tuple(children.values()),
    )


def files_of(events: Iterable[Event], folder: str) -> list[str]:
    """The files in the project that a run made or looked at; `folder` is the one that the run works in, if any."""
    made = lineage_of(events).files
    return [f"{folder}/{file.path}" if folder else file.path for file in made if file.inside == "project"]


def _text(event: Event) -> str:
    """The text that a step gave; empty if it gave none."""
    if effect_of(event) == "CallFunction":
        called = outcome_as(event, _Called)
        return called.result if called else ""
    return outcome_of(event).text


class _Called(Struct):
    """The outcome of a function that returned a text."""

    result: str


def _is_replaced(edition: str, newest: Newest) -> bool:
    """Whether a newer edition took the place of this one, or of one it lies in (rule 1)."""
    for path in editions_above(f"{edition}/x"):
        place, _, number = path.rstrip("/").rpartition("@")
        if newest.numbers.get(place, 0) > int(number):
            return True
    return False
