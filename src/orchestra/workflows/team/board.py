"""The state of a team's work at one moment: its files, findings and decisions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from orchestra.core.records import utf8
from orchestra.core.run import digest
from orchestra.workflows.team.decisions import Decision, decisions_text
from orchestra.workflows.team.definitions import DECISIONS, Definition
from orchestra.workflows.team.effects import Settled
from orchestra.workflows.team.findings import ReviewFinding
from orchestra.workflows.team.replies import AgentReply
from orchestra.workflows.team.shapes import NOT_THERE, Text

BUILT = "files that were changed for you"  # the heading of what an agent's child run built


class KeptOut(Struct, frozen=True):
    """A block of an agent's reply that is no artifact of the agent (S4-65)."""

    agent: str
    name: str
    why: str


class Board(Struct, frozen=True):
    """What the agents have made so far."""

    files: Mapping[str, Text] = {}  # by path
    phases: tuple[Settled, ...] = ()  # those that have ended
    built: Mapping[str, str] = {}  # by agent: the files that its child run changed
    out: tuple[KeptOut, ...] = ()

    @property
    def findings(self) -> tuple[ReviewFinding, ...]:
        """The findings of all phases that have ended."""
        return tuple(one for phase in self.phases for one in phase.findings)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decided conflicts of all phases that have ended."""
        return tuple(one for phase in self.phases for one in phase.decisions)

    @property
    def decisions_file(self) -> str:
        """The text of decisions.json; empty if there is none."""
        return decisions_text(self.text(DECISIONS), self.decisions, self.findings)

    def text(self, path: str) -> str:
        """The text of a file; empty if there is none."""
        return str(self.files.get(path, ""))

    def with_file(self, path: str, text: Text) -> Board:
        """The board with another text of a file."""
        return replace(self, files={**self.files, path: text})

    def after(self, agent: str, reply: AgentReply) -> Board:
        """The board with the files of an agent's reply."""
        out = (KeptOut(agent, one.name, one.why) for one in reply.out)
        return replace(self, files={**self.files, **reply.files}, out=(*self.out, *out))

    def joined(self, others: Iterable[Board]) -> Board:
        """The board with the files of these, which do not share any (S4-46)."""
        boards = (self, *others)
        files = {path: text for board in boards for path, text in board.files.items()}
        return replace(self, files=files, out=tuple(one for board in boards for one in board.out))

    def with_built(self, agent: str, files: str) -> Board:
        """The board after an agent's child run."""
        return replace(self, built={**self.built, agent: files})

    def settled(self, phase: Settled) -> Board:
        """The board after a phase."""
        return replace(self, phases=(*self.phases, phase))

    def only(self, paths: Iterable[str]) -> dict[str, Text]:
        """Those of these files that exist."""
        return {path: self.files[path] for path in paths if path in self.files}

    def shown(self, definition: Definition, agent: str) -> dict[str, Text]:
        """What an agent is shown before it writes: its inputs, as far as they exist (S4-83), and its own files."""
        existing = {**self.files, **({DECISIONS: text} if (text := self.decisions_file) else {})}
        wanted = definition.wanted(agent, existing)
        own = definition.artifacts_of(agent)
        built: dict[str, Text] = {BUILT: self.built[agent]} if agent in self.built else {}
        return {**{path: existing.get(path, NOT_THERE) for path in wanted}, **self.only(own), **built}


class Made(Struct, frozen=True):
    """A deliverable in the result of a run."""

    path: str
    digest: str


class Result(Struct, frozen=True):
    """The result of a run, for the person or the parent run."""

    artifacts: tuple[Made, ...]
    reviewRounds: int
    findingsOpen: int
    findingsClosed: int
    decisions: int
    keptOut: tuple[KeptOut, ...] = ()

    @classmethod
    def of(cls, board: Board) -> Result:
        """The result of a run that ends with this board."""
        return cls(
            tuple(Made(path, digest(utf8(str(text)))) for path, text in board.files.items()),
            sum(phase.rounds for phase in board.phases),
            sum(one.is_open for one in board.findings),
            sum(not one.is_open for one in board.findings),
            len(board.decisions),
            board.out,
        )
