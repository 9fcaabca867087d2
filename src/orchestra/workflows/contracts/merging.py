"""Merging the exploration and the breakdown, without a model (section 5/S3). Pure.

Rules
1. An assumption is looked up by the paths and identifiers in it, in the explored files and in the workspace. It holds
   if all of them are there, and is wrong if one is not. Without any it is unknown: neither right nor wrong.
2. If half or more of the assumptions that could be looked up are wrong, the planner is called again, and shown the
   exploration. Smaller differences are the architect's to see: they are named in the brief.
3. A design brief is made of the task and of what was explored: its files are those that the task names, with their
   status as of now (S3-46 … S3-50), and the explored files that exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from orchestra.workflows.contracts.records import (
    BriefSubtask,
    DesignBrief,
    Explored,
    FileRef,
    PlannedTask,
)

Verdict = Literal["holds", "wrong", "unknown"]
MOST_REFS = 30  # explored files in a brief
_MOST_TEXT = 4_000  # characters of a text that are looked through

_PATH = re.compile(
    r"(?<![\w/.:-])(?:[\w.+-]+/)+(?:[\w.+-]*\w)?|(?<![\w/.-])[\w+-]+(?:\.[\w+-]+)*\.[A-Za-z]\w{0,8}\b", re.ASCII
)
_QUOTED = re.compile(r"`([^`\s]{2,120})`")
_NAME = re.compile(r"\b[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*\b(?:\(\))?", re.ASCII)
_HUMP = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]|[A-Za-z0-9]_[A-Za-z0-9]|\(\)$|::")
_SUFFIXES = re.compile(
    r"(?i)py[iw]?|[cm]?[jt]sx?|java|kts?|scala|go|rs|[ch](?:c|pp|xx)?|cs|rb|php|swift|sh|md|txt|toml|ya?ml|json|xml|html?"
    r"|css|sql|cfg|ini|gradle|vue|svelte"
)


class Terms(Struct, frozen=True):
    """What can be looked up of a text: paths of the project, and identifiers of its code."""

    paths: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.paths or self.identifiers)


class Judged(Struct, frozen=True):
    """An assumption of the planner, and whether the exploration confirms it."""

    assumption: str
    verdict: Verdict
    missing: tuple[str, ...] = ()  # the terms that are nowhere


def terms_of(texts: Iterable[str]) -> Terms:
    """The paths and identifiers in these texts."""
    paths: dict[str, None] = {}
    words: dict[str, None] = {}
    for text in (text[:_MOST_TEXT] for text in texts):
        quoted = _QUOTED.findall(text)
        own = [found[0] for found in _PATH.finditer(text) if _is_path(found[0], quoted)]
        paths |= dict.fromkeys(path.removeprefix("./") for path in own)
        rest = text
        for path in own:
            rest = rest.replace(path, " ")
        named = (found[0] for found in _NAME.finditer(rest) if _HUMP.search(found[0]))
        for word in (*(word for word in quoted if "/" not in word), *named):
            bare = word.removesuffix("()")
            if bare not in paths and re.fullmatch(r"[A-Za-z_][\w.:]*", bare, re.ASCII):
                words[re.split(r"\.|::", bare)[-1]] = None
    return Terms(tuple(paths), tuple(words))


def _is_path(text: str, quoted: Iterable[str]) -> bool:
    """Whether a text is a path, and not words like `and/or`: it has a known ending, a last slash, or many of them."""
    if _SUFFIXES.fullmatch(text.rpartition(".")[2]):
        return True
    return "/" in text and (text.endswith("/") or text.count("/") > 1 or text in quoted)


def judge(assumption: str, explored: Explored, found: Terms) -> Judged:
    """Whether an assumption holds (rule 1). `found` are the terms that the workspace has."""
    terms = terms_of([assumption])
    if not terms:
        return Judged(assumption, "unknown")
    known = [file.path for file in explored.explored_files]
    folders = [*explored.directory_structure, *(path.rpartition("/")[0] for path in known)]
    texts = "\n".join(f"{file.path} {file.summary}" for file in explored.explored_files)
    missing = [path for path in terms.paths if path not in found.paths and not _is_known(path, known, folders)]
    missing += [word for word in terms.identifiers if word not in found.identifiers and word not in texts]
    return Judged(assumption, "wrong" if missing else "holds", tuple(missing))


def _is_known(path: str, files: list[str], folders: list[str]) -> bool:
    bare = path.rstrip("/")
    inside = any(f"/{bare}/" in f"/{folder}/" for folder in folders)
    return inside or any(f"/{file}".endswith(f"/{bare}") for file in files)


def must_replan(judged: Iterable[Judged]) -> bool:
    """Whether half or more of the assumptions that could be looked up are wrong (rule 2)."""
    verdicts = [one.verdict for one in judged if one.verdict != "unknown"]
    return bool(verdicts) and 2 * verdicts.count("wrong") >= len(verdicts)


def task_texts(task: PlannedTask) -> tuple[str, ...]:
    """The texts in which a task names its files."""
    return (task.name, task.objective, *(f"{one.name}\n{one.description}" for one in task.subtasks))


def brief_of(
    request: str, task: PlannedTask, explored: Explored, found: Terms, others: Iterable[str], at: str
) -> DesignBrief:
    """The design brief of a task (rule 3). `found` are the paths that exist now, `others` the other tasks."""
    named = [path for path in terms_of(task_texts(task)).paths if not path.endswith("/")]
    refs = {path: _ref(path, "to_modify" if path in found.paths else "to_create") for path in named}
    for file in explored.explored_files[:MOST_REFS]:
        if file.path in found.paths:
            refs.setdefault(file.path, _ref(file.path, "exists"))
    return DesignBrief(
        version=1,
        request_id=request,
        task_id=task.id,
        created_at=at,
        created_by="orchestrator",
        task_name=task.name,
        objective=task.objective,
        subtasks=tuple(BriefSubtask(id=one.id, name=one.name) for one in task.subtasks),
        completion_criteria=(task.objective, *(f"{one.id}: the tests of {one.name} pass" for one in task.subtasks)),
        scope_in=tuple(f"{one.id} {one.name}" for one in task.subtasks),
        scope_out=tuple(others),
        file_refs=tuple(refs.values()),
        subtask_order=tuple(one.id for one in task.subtasks),
    )


def _ref(path: str, status: Literal["exists", "to_create", "to_modify"]) -> FileRef:
    stem = path.rpartition("/")[2].rpartition(".")[0]
    return FileRef(entity=stem or path, path=path, status=status)
