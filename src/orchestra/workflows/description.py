"""What a workflow is, in one record: everything the rest of the program needs to know of a way of working.

A workflow is a folder with shapes.py (what is said), states.py (what may happen), flow.py (what happens) and
workflow.py, which builds this record; `workflows/all.py` lists them. Nothing else names a workflow but its own verbs
in `cli/`. Only `name`, `params`, `flow` and `goal` must be given.

Rules
1. `prepare` settles a job and refuses it, for a root and for a child alike: what a start refuses, a child run is
   refused too, before it exists.
2. What a person reads (`headline`, `results`, `shown`, …) is data: faces paint it, and ask by the run's workflow.
3. Functions here may read the project; flow, states and shapes stay pure.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol

from msgspec import Struct

from orchestra.config.sections import Config
from orchestra.core.context import Context, Handlers, Verdict
from orchestra.core.ledger import Ledger, Projection
from orchestra.core.records import Event, Finding
from orchestra.core.run import RunFolder
from orchestra.core.tables import Table
from orchestra.policy.policy import ApprovalPolicy, Policy
from orchestra.providers.choose import Models
from orchestra.workflows.headline import headline
from orchestra.workflows.project import Project
from orchestra.workflows.report import REPORT, Reported, as_text, render

Findings = Iterator[Finding]


class Check(Protocol):
    """One kind of requirement, for `verify`: looks at each event, and at the end at what it saw."""

    def see(self, number: int, event: Event) -> Findings: ...

    def end(self) -> Findings: ...


class ShownLine(Struct, frozen=True):
    """A line for a person; a face paints it as `mark` says."""

    text: str
    mark: Literal["", "dim", "bold", "warning"] = ""


class Hint(Struct, frozen=True):
    """Where a result is: a text, and a command or a path that shows it."""

    what: str
    command: tuple[str, ...] = ()
    path: str = ""


class Ended(Struct, frozen=True):
    """A run that is over, for `results`."""

    folder: RunFolder
    params: Mapping[str, Any]
    events: Sequence[Event]


class Inner(Struct, frozen=True):
    """A table of something inside a run that has states of its own, for the documents."""

    title: str
    about: str
    start: str
    moves: Mapping[str, Iterable[str]]  # state -> the states that may follow


class Running(Struct, frozen=True):
    """A run that is about to be driven, for `effects`."""

    project: Project
    ledger: Ledger
    approval: ApprovalPolicy | None  # what the project says now, where that asks a person more often than the run does


class Workflow(Struct, frozen=True, kw_only=True):
    """One way of working."""

    name: str
    params: Any  # the type of its job, a frozen struct
    flow: Callable[[Context, Any], Awaitable[Verdict]]
    goal: Callable[[Any], str]  # of a job: what a person reads, and the slug of the run's id
    table: Table | None = None  # None: any step at any time
    returns: Any = None  # the type of its result; None: as it is recorded
    root: Callable[[Project], Path] = lambda project: usual_root(project)

    # -- starting
    defaults: Callable[[Project], dict[str, Any]] = lambda project: {}  # of a job, as the configuration has them
    prepare: Callable[[Project, Any, Models], tuple[Any, Models]] = lambda project, job, models: (job, models)
    facts: Callable[[Project, Any], dict[str, Any]] = lambda project, job: {}  # recorded beside the usual ones
    files: Callable[[Project, Any], Mapping[str, bytes]] = lambda project, job: {}  # a run begins with
    agents: tuple[str, ...] | None = ()  # who may be given a model by name besides the roles; None: anybody

    # -- driving
    effects: Callable[[Running], Handlers] = lambda running: {}
    projections: Callable[[Project, RunFolder], tuple[Projection, ...]] = lambda project, folder: ()
    limit: Callable[[Policy], float] = lambda policy: math.inf  # seconds that a run may take in all
    approval: Callable[[Config], ApprovalPolicy | None] = lambda config: None  # what the project says now
    needs_commands: Callable[[Mapping[str, Any]], bool] = lambda params: False  # the sandbox is tried before a call

    # -- reading
    headline: Callable[[Event], str] = headline  # one line for an event; empty: none
    details: Callable[[Mapping[str, Any], RunFolder, Event], Iterable[ShownLine]] = lambda params, folder, event: ()
    shown: Callable[[RunFolder, Event, bool], Iterable[ShownLine] | None] = lambda folder, request, whole: None
    after_no: Callable[[Mapping[str, Any], str], str] = lambda params, subject: "kept in the run"
    warning: Callable[[Iterable[Event]], str] = lambda events: ""  # what a person must know at the end
    results: Callable[[Ended], Iterable[Hint]] = lambda ended: ()
    hopeless: frozenset[str] = frozenset()  # error codes that a fork would meet again
    printed: Callable[[Any], str] = lambda result: ""  # of a completed run's result, on standard output
    report: Callable[[Reported], Iterator[str]] = render  # report.md, line by line
    leaves: Callable[[Reported], Mapping[str, str]] | None = None  # files written before its end; None: report.md
    checks: Callable[[RunFolder], Sequence[Check]] = lambda folder: ()  # of `verify`, besides those of every run
    title: str = ""  # "a loop": as documents call one of its runs
    start: str = ""  # the command that starts one, as an example for who has no run yet
    inner: tuple[Inner, ...] = ()
    records: Mapping[str, tuple[Any, str]] = MappingProxyType({})  # of `orchestra schema`

    @property
    def transitions(self) -> Table:
        """Its table; one that allows any step at any time if it has none of its own."""
        return self.table or Table.any(self.name)

    def so_far(self, folder: RunFolder, events: Sequence[Event], status: str, whole: Iterable[Event]) -> Iterator[str]:
        """The report of a run that goes on, line by line. `whole` are the events with their longest parts."""
        return self.report(Reported(folder, events, status, whole=whole))

    def left(self, run: Reported) -> Mapping[str, str]:
        """The files that a run leaves when it ends, by name."""
        return self.leaves(run) if self.leaves else {REPORT: as_text(self.report(run))}


def usual_root(project: Project) -> Path:
    """Where runs are kept unless a spec says otherwise (S1-100)."""
    return project.path / ".runs" / "workflows"
