"""Verifies a contract tree, or one document of it, against S3, by requirement id and line. Only reads.

Rules
1. Each document is judged alone first (documents.py, rules.py): schema, enums, ids = path, orders, results.
2. Then what must hold between them: the gates (S3-127 … S3-131), folders that the breakdown and the brief know, failed
   tests that the test contract knows, and state.json, where there is one.
3. `file_refs` are compared with the workspace by the state of the request (S3-48 … S3-50): what is to be created is
   absent until work on its task begins, and there when the task is complete. In between anything may be true.
4. A subtask is complete if its test result says so and is passed; a task if all its subtasks are. No state.json and no
   other claim can make it so (S3-131 … S3-133).
5. `history/` holds earlier results and is not judged (G3-5). Other names are left alone, but for documents in the wrong
   place and folders that look like a task or a subtask.
6. The tree may come from anybody: sizes and numbers are limited, and no link is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from orchestra.core.errors import OddFile
from orchestra.core.files import MIB, read_below
from orchestra.core.names import CONTRACTS
from orchestra.core.records import Finding
from orchestra.workflows.contracts import places, records
from orchestra.workflows.contracts.documents import MOST_BYTES, Malformed, read_lines
from orchestra.workflows.contracts.places import DOCUMENTS, HISTORY, STATE, Places, ids_of, project_hash
from orchestra.workflows.contracts.records import Contract, FileRef
from orchestra.workflows.contracts.rules import Ids, KeyPath
from orchestra.workflows.contracts.storage import ContractState, SubtaskState

MOST_FINDINGS = 200
_MOST_FOLDERS = 2000  # of tasks and subtasks in one request
_KINDS = {name: kind for known in DOCUMENTS.values() for name, kind in known.items()}
_LEVELS = {1: "S3-03", 2: "S3-05", 3: "S3-07"}  # where documents lie
Kind = TypeVar("Kind", bound=Contract)
Findings = Iterator[Finding]


class _Document(Struct, frozen=True):
    """A document that was read."""

    where: str
    record: Contract
    line: Callable[[KeyPath], int]

    def finding(self, places: KeyPath, field: str, requirement: str, text: str) -> Finding:
        return Finding(requirement, f"{self.where}:{self.line(places)}", f"{field}: {text}")


def _read(root: Path, path: str, where: str, ids: Ids) -> _Document | list[Finding]:
    """A document below a folder, or what is broken in it (rule 1)."""
    name = path.rpartition("/")[2]
    try:
        record, line = read_lines(read_below(root, path, MOST_BYTES).decode(), _KINDS[name], name, ids=ids)
    except Malformed as malformed:
        return [
            Finding(one.requirement, f"{where}:{one.line}", f"{one.field or 'document'}: {one.text}")
            for one in malformed.mistakes
        ]
    except OddFile as odd:
        wrong = f"it {odd.what}"
    except OSError as error:
        wrong = f"it cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        wrong = f"it is not UTF-8 text (byte {error.start})"
    else:
        return _Document(where, record, line)
    return [Finding("S3-134", f"{where}:1", f"document: {wrong}")]


def verified(project: Path, name: str) -> tuple[Path, Findings] | None:
    """The contract tree or document that a name means, and what is broken in it; None if the name means none."""
    if (file := Path(name)).is_file() and file.name in _KINDS:
        return file, verify_document(file)
    folder = tree_at(project, name)
    return (folder, verify_tree(project, folder)) if folder is not None else None


def tree_at(project: Path, name: str) -> Path | None:
    """The contract tree that a name means: a folder `…/R1` or `…/contracts`, or R1 of this project; None if none."""
    if places.request_number(name) and not Path(name).is_dir():
        own = project / Places(project_hash(project)).request(name)
        return own if own.is_dir() else None
    folder = Path(name)
    if not folder.is_dir():
        return None
    resolved = folder.resolve()
    if places.request_number(resolved.name) or (resolved.name == "contracts" and _requests(folder)):
        return folder
    return None


def verify_document(file: Path) -> Findings:
    """All findings about one document, judged alone. Its ids are compared with its folder, if it lies in one of S3."""
    level = next(level for level, known in DOCUMENTS.items() if file.name in known)
    found = _read(file.resolve().parent, file.name, str(file), ids_of(file.resolve().parent.parts[-level:]) or Ids())
    yield from found if isinstance(found, list) else ()


def verify_tree(project: Path, folder: Path) -> Findings:
    """All findings about a request's folder, or about the requests below a folder (`where` is PATH:LINE)."""
    workspace = _workspace(folder.resolve()) or project
    if places.request_number(folder.resolve().name):
        yield from _Request(folder, workspace).findings()
        return
    for name in _requests(folder):
        yield from _Request(folder / name, workspace).findings()


def _requests(folder: Path) -> list[str]:
    found = [name for name in _names(folder) if places.request_number(name)]
    return sorted(found, key=lambda name: places.request_number(name) or 0)


def _workspace(folder: Path) -> Path | None:
    """The project that a tree lies in, by its path; None if it lies elsewhere."""
    own = tuple(CONTRACTS.split("/"))
    for at in range(len(folder.parts) - len(own), 0, -1):
        if folder.parts[at : at + len(own)] == own:
            return Path(*folder.parts[:at])
    return None


class _Request:
    """One request's folder."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self._folder, self._workspace = folder, workspace
        self._id = folder.resolve().name
        self._documents: dict[tuple[str, ...], _Document] = {}  # by the ids of its folder, and its name
        self._there: set[tuple[str, ...]] = set()  # documents that exist, also those that cannot be read
        self._tasks: dict[str, list[str]] = {}  # folders of tasks -> folders of their subtasks

    def findings(self) -> Findings:
        """All findings, at most MOST_FINDINGS."""
        for number, finding in enumerate(self._all()):
            if number == MOST_FINDINGS:
                more = f"{finding.message}; there are more: these are the first {number + 1}"
                yield Finding(finding.requirement, finding.where, more)
                return
            yield finding

    def _all(self) -> Findings:
        yield from self._read_all()
        yield from self._gates()
        yield from self._known()
        yield from self._failed_tests()
        yield from self._files()
        yield from self._state()

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read_all(self) -> Findings:
        yield from self._level(())
        count = 0
        for task in sorted(_folders(self._folder), key=_natural):
            if ids_of((self._id, task)) is None:
                if task[:1] in "Tt":
                    yield Finding("S3-10", f"{self._folder / task}:1", f"{task}: a task's folder is named T1, T2, …")
                continue
            self._tasks[task] = []
            yield from self._level((task,))
            for subtask in sorted(_folders(self._folder / task), key=_natural):
                count += 1
                if count > _MOST_FOLDERS:
                    yield Finding("S3-01", f"{self._folder / task}:1", f"{task}: more than {_MOST_FOLDERS} subtasks")
                    return
                if ids_of((self._id, task, subtask)) is None:
                    if subtask != HISTORY and subtask[:1] in "STst":
                        text = f"{subtask}: a subtask's folder is named {task}-S1, {task}-S2, …"
                        yield Finding("S3-12", f"{self._folder / task / subtask}:1", text)
                    continue
                self._tasks[task].append(subtask)
                yield from self._level((task, subtask))

    def _level(self, ids: tuple[str, ...]) -> Findings:
        """The documents of one folder."""
        depth = len(ids) + 1
        for name in _names(self._folder.joinpath(*ids)):
            level = next((level for level, known in DOCUMENTS.items() if name in known), 0)
            if level and level != depth:
                where = f"{self._folder.joinpath(*ids, name)}:1"
                kinds = {1: "of a request", 2: "of a task", 3: "of a subtask"}
                yield Finding(_LEVELS[level], where, f"{name}: it belongs into the folder {kinds[level]}")
            elif level:
                yield from self._document((*ids, name), Ids(self._id, *ids))

    def _document(self, path: tuple[str, ...], ids: Ids) -> Findings:
        self._there.add(path)
        found = _read(self._folder.resolve(), "/".join(path), str(self._folder.joinpath(*path)), ids)
        if isinstance(found, _Document):
            self._documents[path] = found
        else:
            yield from found

    def _get(self, kind: type[Kind], *path: str) -> tuple[_Document, Kind] | None:
        found = self._documents.get(path)
        return (found, found.record) if found is not None and isinstance(found.record, kind) else None

    # -- between documents --------------------------------------------------------------------------------------------

    def _gates(self) -> Findings:
        """Findings for a document that exists before the documents it is made from (S3-127 … S3-130)."""
        for task, subtasks in self._tasks.items():
            for needed in (places.EXPLORED, places.BREAKDOWN):
                yield from self._needs((task, places.BRIEF), (needed,), "S3-127")
            yield from self._needs((task, places.DESIGN), (task, places.BRIEF), "S3-128")
            for subtask in subtasks:
                yield from self._needs((task, subtask, places.TESTS), (task, places.DESIGN), "S3-129")
                yield from self._needs((task, subtask, places.RESULT), (task, subtask, places.TESTS), "S3-130")

    def _needs(self, path: tuple[str, ...], needed: tuple[str, ...], requirement: str) -> Findings:
        if path in self._there and needed not in self._there:
            text = f"{path[-1]}: it is there, and {'/'.join(needed)} is not"
            yield Finding(requirement, f"{self._folder.joinpath(*path)}:1", text)

    def _known(self) -> Findings:
        """Folders of tasks that the breakdown has, and of subtasks that the brief has."""
        breakdown = self._get(records.TaskBreakdown, places.BREAKDOWN)
        for task, subtasks in self._tasks.items():
            if breakdown and task not in {one.id for one in breakdown[1].tasks}:
                yield breakdown[0].finding(("tasks",), "tasks", "S3-24", f"there is a folder {task}, and no such task")
            brief = self._get(records.DesignBrief, task, places.BRIEF)
            for subtask in subtasks:
                if brief and subtask not in {one.id for one in brief[1].subtasks}:
                    text = f"there is a folder {subtask}, and no such subtask"
                    yield brief[0].finding(("subtasks",), "subtasks", "S3-42", text)

    def _failed_tests(self) -> Findings:
        for task, subtask in self._subtasks():
            tests = self._get(records.TestContract, task, subtask, places.TESTS)
            result = self._get(records.TestResult, task, subtask, places.RESULT)
            if not tests or not result:
                continue
            known = {one.id for one in tests[1].test_cases}
            for at, failed in enumerate(result[1].failed_tests):
                if failed.id not in known:
                    text = f"{failed.id} is no test case of {places.TESTS}"
                    yield result[0].finding(("failed_tests", at, "id"), f"failed_tests[{at}].id", "S3-111", text)

    def _subtasks(self) -> Iterator[tuple[str, str]]:
        return ((task, subtask) for task, subtasks in self._tasks.items() for subtask in subtasks)

    # -- the workspace ------------------------------------------------------------------------------------------------

    def _files(self) -> Findings:
        made = {
            ref.path: task
            for task in self._tasks
            for found in self._with_refs(task)
            for ref in _refs(found)
            if ref.status == "to_create"
        }
        for task in self._tasks:
            for found in self._with_refs(task):
                for at, ref in enumerate(_refs(found)):
                    if self._is_dropped(task, ref):
                        continue
                    if wrong := self._wrong_file(task, ref, made):
                        requirement, text = wrong
                        path: KeyPath = ("file_refs", at, "status")
                        yield found.finding(path, f"file_refs[{at}].status", requirement, f"{ref.path}: {text}")

    def _is_dropped(self, task: str, ref: FileRef) -> bool:
        """Whether a brief has a new file that the design leaves out: the design is what is built."""
        design = self._documents.get((task, places.DESIGN))
        return ref.status == "to_create" and design is not None and ref.path not in {one.path for one in _refs(design)}

    def _wrong_file(self, task: str, ref: FileRef, made: dict[str, str]) -> tuple[str, str] | None:
        """What the workspace shows against a file's status (rule 3)."""
        there = self._is_there(ref.path)
        others = made.get(ref.path) not in (None, task)  # another task makes it, before or after this one
        if ref.status == "to_create":
            if there and not others and not self._begun(task):
                return "S3-49", "it is to be created, and is there before work on its task began"
            if not there and self._complete(task):
                return "S3-49", "it is to be created, and is not there although its task is complete"
        elif not there and not others:
            requirement = "S3-48" if ref.status == "exists" else "S3-50"
            return requirement, f"its status is {ref.status}, and it is not there"
        return None

    def _with_refs(self, task: str) -> Iterator[_Document]:
        for name in (places.BRIEF, places.DESIGN):
            if found := self._documents.get((task, name)):
                yield found

    def _is_there(self, path: str) -> bool:
        try:
            return stat.S_ISREG(os.stat(self._workspace / path).st_mode)
        except OSError:
            return False

    def _begun(self, task: str) -> bool:
        """Whether the work on a task has begun: there is a test contract, and with it perhaps code."""
        return any((task, subtask, places.TESTS) in self._there for subtask in self._tasks.get(task, ()))

    def _subtask_complete(self, task: str, subtask: str) -> bool:
        result = self._get(records.TestResult, task, subtask, places.RESULT)
        return result is not None and is_complete(result[1])

    def _complete(self, task: str) -> bool:
        """Whether all subtasks of a task are complete (rule 4); not if no brief says which they are."""
        brief = self._get(records.DesignBrief, task, places.BRIEF)
        return brief is not None and all(self._subtask_complete(task, one.id) for one in brief[1].subtasks)

    # -- state.json ---------------------------------------------------------------------------------------------------

    def _state(self) -> Findings:
        where = f"{self._folder / STATE}:1"
        try:
            data = read_below(self._folder.resolve(), STATE, MIB)
        except OddFile as odd:
            yield Finding("S3-141", where, f"{STATE}: it {odd.what}")
            return
        except OSError:
            return  # another tool need not have one
        try:
            state = msgspec.json.decode(data, type=ContractState)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield Finding("S3-141", where, f"{STATE}: {error}")
            return
        if state.request.id != self._id:
            yield Finding("S3-19", where, f"request.id: it is {state.request.id}, and the path has {self._id}")
        for task, own in state.tasks.items():
            for subtask, held in own.subtasks.items():
                for requirement, text in self._claims(task, subtask, held):
                    yield Finding(requirement, where, f"tasks.{task}.subtasks.{subtask}: {text}")
            if own.status == "completed" and any(one.status != "completed" for one in own.subtasks.values()):
                text = f"{task} is completed, and not all its subtasks are"
                yield Finding("S3-132", where, f"tasks.{task}.status: {text}")
        if state.request.status == "completed" and any(one.status != "completed" for one in state.tasks.values()):
            yield Finding("S3-133", where, f"request.status: {self._id} is completed, and not all its tasks are")
        if sorted(state.task_order) != sorted(state.tasks):
            yield Finding("S3-34", where, "task_order: it must have each id exactly once")

    def _claims(self, task: str, subtask: str, held: SubtaskState) -> Iterator[tuple[str, str]]:
        """What state.json claims about a subtask and the files do not show."""
        done = self._subtask_complete(task, subtask)
        if (held.status == "completed" or held.gates.get("GATE-2") == "passed") and not done:
            yield "S3-131", "it is completed, and no passed test result says so"
        tests = self._get(records.TestContract, task, subtask, places.TESTS)
        if held.gates.get("GATE-1") == "passed" and (task, subtask, places.TESTS) not in self._there:
            yield "S3-130", f"GATE-1 is passed, and there is no {places.TESTS}"
        elif held.gates.get("GATE-1") == "passed" and tests and not tests[1].test_cases:
            yield "S3-130", "GATE-1 is passed, and there is no test case"
        elif held.gates.get("GATE-1") == "passed" and tests and not self._is_there(tests[1].test_file_path):
            yield "S3-130", f"GATE-1 is passed, and {tests[1].test_file_path} is not there"


def is_complete(result: records.TestResult) -> bool:
    """Whether a test result completes its subtask: the tests were run and passed (S3-119, S3-124)."""
    return result.execution.result == "pass" and result.recommendation.action == "complete"


def _refs(document: _Document) -> tuple[FileRef, ...]:
    record = document.record
    return record.file_refs if isinstance(record, records.DesignBrief | records.DesignContract) else ()


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _folders(folder: Path) -> list[str]:
    """The folders in a folder; links are none (rule 6)."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _natural(name: str) -> tuple[int, str]:
    """T2 before T10."""
    digits = "".join(letter for letter in name.rpartition("-")[2] if letter.isdigit())
    return int(digits[:9] or 0), name
