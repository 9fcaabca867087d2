"""The description of a workflow: one record with everything the rest of the program needs to know about it.

A workflow is a folder with shapes.py (records and prompts), states.py (transition table), flow.py (the steps) and
workflow.py, which builds this record. `workflows/all.py` lists them. Outside these, only the workflow's commands in
`cli/` name it. Only `name`, `params`, `flow` and `goal` are required.

Rules
1. `prepare` completes or refuses a job, for a root run and for a child run. So a job that a start would refuse is
   refused as a child too, before the child run exists.
2. Text for people (`headline`, `results`, `shown`, …) is data. Faces look it up by the run's workflow, and format it.
3. Functions here may read the project; flow, states and shapes are pure.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from orchestra.config.sections import Config
from orchestra.core.context import Context, Handlers, Verdict
from orchestra.core.errors import UsageError
from orchestra.core.ledger import Ledger
from orchestra.core.ownership import Ownership
from orchestra.core.plain import fitted
from orchestra.core.projections import Document, Projection, shared
from orchestra.core.records import Event, Finding, utf8
from orchestra.core.run import RunFolder
from orchestra.core.tables import Table
from orchestra.policy.policy import ApprovalPolicy, Policy
from orchestra.providers.choose import Models
from orchestra.workflows.headline import headline
from orchestra.workflows.project import Project
from orchestra.workflows.report import Reported, as_text, ended, render

__all__ = [
    "MIXED",
    "Check",
    "Ended",
    "Findings",
    "Hint",
    "Inner",
    "Pace",
    "Projection",
    "Renewed",
    "Roots",
    "Running",
    "ShownLine",
    "Workflow",
    "usual_root",
]
Findings = Iterator[Finding]
Roots = Callable[[str], Path]  # a workflow's name -> the folder of its runs


class Check(Protocol):
    """Checks one kind of requirement, for `verify`: gets each event, and reports findings."""

    def see(self, number: int, event: Event) -> Findings: ...

    def end(self) -> Findings: ...


class ShownLine(Struct, frozen=True):
    """A line for a person; `mark` is its style."""

    text: str
    mark: Literal["", "dim", "bold", "warning"] = ""


class Hint(Struct, frozen=True):
    """Points to a result: a text, and the command or path that shows it."""

    what: str
    command: tuple[str, ...] = ()
    path: str = ""


# Gets the events of one run in order, each once: the step that the run is at, and how many there may be; None if the
# event tells neither. It never fails, because the events may be anybody's.
Pace = Callable[[Event], tuple[int, int] | None]


class Ended(Struct, frozen=True):
    """A run that has ended, for `results`."""

    folder: RunFolder
    params: Mapping[str, Any]
    events: Sequence[Event]


class Inner(Struct, frozen=True):
    """A table of something inside a run that has states of its own, for the documents."""

    title: str
    about: str
    start: str
    moves: Mapping[str, Iterable[str]]  # state -> the states that may follow


class Renewed(Struct, frozen=True):
    """What a new run of the same job would take from the project's files, where these have changed since."""

    params: Mapping[str, Any] = MappingProxyType({})  # the fields of the job that are other ones now
    why: tuple[str, ...] = ()  # a line for each file that was edited; empty: none was
    wrong: str = ""  # why no run can begin with these files; empty: one can


class Running(Struct, frozen=True):
    """A run that is about to be driven, for `effects`."""

    project: Project
    ledger: Ledger
    approval: ApprovalPolicy | None  # the project's approval mode of now, if it asks more often than the run's


class Workflow(Struct, frozen=True, kw_only=True):
    """The description of one workflow."""

    name: str
    params: Any  # the type of its job, a frozen struct
    flow: Callable[[Context, Any], Awaitable[Verdict]]
    goal: Callable[[Any], str]  # of a job: shown to people, and part of the run's id
    table: Table | None = None  # None: any step is allowed at any time
    returns: Any = None  # the type of its result; None: plain JSON
    root: Callable[[Project], Path] = lambda project: usual_root(project)

    # -- starting
    defaults: Callable[[Project], dict[str, Any]] = lambda project: {}  # parameters from the configuration
    prepare: Callable[[Project, Any, Models], tuple[Any, Models]] = lambda project, job, models: (job, models)
    reserved: frozenset[str] = frozenset()  # parameters that only its own verbs may set, not `start` or a parent
    # the job with no more authority than the parent has, whose first event is given
    as_child: Callable[[Project, Any, Event], Any] = lambda project, job, parent: job
    facts: Callable[[Project, Any], dict[str, Any]] = lambda project, job: {}  # recorded beside the usual ones
    files: Callable[[Project, Any], Mapping[str, bytes]] = lambda project, job: {}  # a run begins with
    uncommitted: str = ""  # what uncommitted changes in git mean for its runs, said at their start; empty: nothing
    # the last two parts of a run's id; None: the workflow's name, and a slug of the goal
    id_parts: Callable[[Any], tuple[str, str]] | None = None
    agents: tuple[str, ...] | None = ()  # who may be given a model by name besides the roles; None: anybody
    own_agents: Callable[[Project], tuple[str, ...]] = lambda project: ()  # more of them, from the project's files

    # -- driving
    routed: Callable[[Mapping[str, Any], Models], Models] = lambda params, models: models  # who answers in this run
    # programs that a model may start in this run besides the whitelist's; rules and sandbox are the same
    tools: Callable[[Mapping[str, Any], Config], tuple[str, ...]] = lambda params, config: ()
    effects: Callable[[Running], Handlers] = lambda running: {}
    # Files derived from its events, besides report.md and those of every run. Those outside the run's folder belong to
    # the newest run of its lineage: an older one never writes them (core/ownership.py).
    projections: Callable[[Project, RunFolder], tuple[Projection, ...]] = lambda project, folder: ()
    limit: Callable[[Policy], float] = lambda policy: math.inf  # total seconds of a run
    approval: Callable[[Config], ApprovalPolicy | None] = lambda config: None  # the project's approval mode
    needs_commands: Callable[[Mapping[str, Any]], bool] = lambda params: False  # then the sandbox is tried first

    # -- going on after a failure
    forks_open: bool = True  # a run that has not ended may be forked; False: its files are its own until it ends
    limits: frozenset[str] = frozenset()  # error codes of a limit: everything is kept, and `raised` raises the limit
    # Given the job, and how many fixes a person allows (None: not said): the fields of the job that change.
    raised: Callable[[Mapping[str, Any], int | None], dict[str, Any]] | None = None

    # Given the job and what a person wishes to change of it: the fields that change; raises to refuse. None: none may.
    changed: Callable[[Project, Mapping[str, Any], Mapping[str, Any]], dict[str, Any]] | None = None

    # A run goes on with the job it recorded, and says so if the files are others; `rerun --stale` takes them.
    renewed: Callable[[Project, Mapping[str, Any]], Renewed] = lambda project, params: Renewed()

    # -- reading
    headline: Callable[[Event], str] = headline  # one line for an event; empty: none
    outline: Callable[[Iterable[Event]], Iterable[ShownLine]] = lambda events: ()  # its parts, and how far each is
    pace: Callable[[Mapping[str, Any]], Pace] = lambda params: lambda event: None  # how far a run of this job is
    details: Callable[[Mapping[str, Any], RunFolder, Event], Iterable[ShownLine]] = lambda params, folder, event: ()
    shown: Callable[[RunFolder, Event, bool], Iterable[ShownLine] | None] = lambda folder, request, whole: None
    # what a person who decides on a patch must know of the run: in short, or whole
    about: Callable[[Mapping[str, Any], Iterable[Event], bool], Iterable[ShownLine]] = lambda params, events, whole: ()
    after_no: Callable[[Mapping[str, Any], str], str] = lambda params, subject: "kept in the run"
    warning: Callable[[Iterable[Event]], str] = lambda events: ""  # shown at the end
    results: Callable[[Ended], Iterable[Hint]] = lambda ended: ()
    spoken: Callable[[str], bool] = lambda key: False  # whether a call, by its key, writes text for the person as it is
    printed: Callable[[Any], str] = lambda result: ""  # the text on stdout for a completed run's result
    report: Callable[[Reported], Iterator[str]] = render  # report.md, line by line
    checks: Callable[[RunFolder], Sequence[Check]] = lambda folder: ()  # of `verify`, besides those of every run
    # Files of its own that are no run, for `verify`: the folder that a name means, and its findings (at PATH:LINE).
    verified: Callable[[Path, str], tuple[Path, Findings] | None] = lambda project, name: None
    title: str = ""  # "a loop": as documents call one of its runs
    start: str = ""  # the command that starts one, as an example for who has no run yet
    inner: tuple[Inner, ...] = ()
    records: Mapping[str, tuple[Any, str]] = MappingProxyType({})  # of `orchestra schema`

    def job(self, project: Project, params: Mapping[str, Any]) -> Any:
        """The job of a run with these parameters; the configuration gives the others. UsageError names a wrong one."""
        defaults = self.defaults(project)
        names: tuple[str, ...] = self.params.__struct_encode_fields__
        takes = ", ".join(name for name in names if name not in self.reserved) or "none"
        if unknown := [name for name in params if name not in names]:
            raise UsageError(f"workflow {self.name} has no parameter {unknown[0]!r}. Its parameters: {takes}")
        try:
            job = fitted({**defaults, **params}, self.params)
        except ValueError as wrong:
            raise UsageError(f"workflow {self.name}: {wrong}. Its parameters: {takes}") from wrong
        if self.reserved:
            self._refuse_reserved(job, defaults)
        return job

    def _refuse_reserved(self, job: Any, defaults: Mapping[str, Any]) -> None:
        """UsageError if a parameter that only the workflow's own verbs may set has another value than the usual one."""
        usual = {field.encode_name: field.default for field in msgspec.structs.fields(self.params)}
        reserved = {name: (usual[name], defaults.get(name, usual[name])) for name in self.reserved}
        if set_by_others := [name for name, own in reserved.items() if getattr(job, name) not in own]:
            raise UsageError(f"workflow {self.name}: {set_by_others[0]!r} cannot be set from outside")

    @property
    def transitions(self) -> Table:
        """The workflow's table; if it has none, one that allows any step at any time."""
        return self.table or Table.any(self.name)

    def so_far(
        self, folder: RunFolder, events: Sequence[Event], status: str, whole: Iterable[Event], roots: Roots
    ) -> Iterator[str]:
        """The report of a run that has not ended, line by line. `whole` has the unabridged events."""
        return self.report(Reported(folder, events, status, whole=whole, roots=roots))

    def derived(
        self, project: Project, roots: Roots, folder: RunFolder, tell: Callable[[str], None] = lambda newer: None
    ) -> tuple[Projection, ...]:
        """The files that are derived from a run's events: report.md, and the workflow's own.

        `tell` gets the id of a newer run that has its files outside the run's folder.
        """

        def text(events: Sequence[Event]) -> bytes:
            return utf8(project.redactor.text(as_text(self.report(ended(folder, events, roots)))))

        report = Document(folder.report, project.disk, text, written="ended")
        own = self.projections(project, folder)
        return (report, *shared(own, folder.path, Ownership(project.store, folder, tell)))


MIXED = "uncommitted changes will mix with the run's (to keep them apart: commit first)"


def usual_root(project: Project) -> Path:
    """The default folder for runs (S1-100)."""
    return project.usual_runs
