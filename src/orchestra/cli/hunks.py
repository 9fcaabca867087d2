"""A walk through the parts of a patch, as in `git add -p`: which part is asked about, and what was decided. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestra.cli.text import safe
from orchestra.core.text import brief, count
from orchestra.runs.choosing import Choice, Part

KEYS = "ynadAevpirq?"  # the answers of one letter
_HELP = (
    "y - apply this hunk",
    "n - leave it out; n TEXT: tell the fixer why",
    "a - apply it and the rest of this file",
    "d - leave it and the rest of this file out",
    "A - apply it and all that follow, in all files",
    "a 1,3 - apply these files, and no others",
    "e - edit it ($VISUAL, $EDITOR), then apply it",
    "v - the whole file with its changes ($PAGER, if long)",
    "p - the whole patch again ($PAGER, if long)",
    "i - the whole plan, and what failed last",
    "r - reject the patch; r TEXT: say why",
    "q - decide nothing now: the run waits",
    "? - this help",
)


def helped(said: str) -> Iterator[str]:
    """What may be answered; first that `said` is not among it, unless it asked for just this."""
    if said not in ("", "?"):
        yield f"`{brief(said, 20)}` is no answer here; these are:"
    yield from _HELP


class Walk:
    """The parts of a patch, one after the other."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = list(parts)
        self._taken: list[Part] = []
        self._reasons: list[str] = []
        self._at = 0

    @property
    def over(self) -> bool:
        """Whether every part is decided on."""
        return self._at == len(self._parts)

    @property
    def decided(self) -> str:
        """How many parts are decided on, as text; empty if none is."""
        return f"{self._at} of {count(len(self._parts), 'hunk')}" if self._at else ""

    @property
    def here(self) -> Part:
        """The part that is asked about."""
        return self._parts[self._at]

    @property
    def alone(self) -> bool:
        """Whether the patch is one part."""
        return len(self._parts) == 1

    @property
    def prompt(self) -> str:
        """The question; as short as git's, so that it fits a narrow terminal."""
        number = "" if self.alone else f"({self._at + 1}/{len(self._parts)}) "
        what = "this hunk" if self.here.of > 1 else "this file" if not self.alone else "this patch"
        return f"{number}apply {what} [y,n,a,d,e,?,q]? "

    def take(self, edited: Part | None = None) -> None:
        """Take the part that is asked about, or what it was edited to."""
        self._taken.append(edited or self.here)
        self._at += 1

    def skip(self, reason: str = "") -> None:
        """Decline the part that is asked about."""
        if reason:
            self._reasons.append(reason if self.alone else f"{self.here.path}, hunk {self.here.number}: {reason}")
        self._at += 1

    def take_file(self) -> None:
        """Take it and all later ones of its file."""
        for _ in self._rest_of_file():
            self.take()

    def skip_file(self, reason: str = "") -> None:
        """Decline it and all later ones of its file."""
        for _ in self._rest_of_file():
            self.skip(reason)
            reason = ""  # it is said once

    def take_all(self) -> None:
        """Take it and all that follow."""
        while not self.over:
            self.take()

    def _rest_of_file(self) -> list[Part]:
        path = self.here.path
        return [part for part in self._parts[self._at :] if part.path == path]

    def choice(self, reason: str = "") -> Choice:
        """What was decided; `reason` is why parts were declined."""
        return Choice(self._taken, self._parts, "; ".join(filter(None, (*self._reasons, reason))))


def to_edit(part: Part) -> str:
    """A hunk as it is given to an editor."""
    return (
        f"{part.body}# ---\n"
        f"# This is a hunk of {safe(part.path)}. Lines that begin with # are left out.\n"
        "# To leave out a line with +, delete it. To keep a line with -, make its - a space.\n"
        "# The counts behind @@ need not be right. Delete everything to change nothing.\n"
    )


def as_edited(part: Part, text: str) -> Part | None:
    """The part as an editor left it; None if nothing is left of it, or nothing was changed."""
    lines = [line for line in text.rstrip("\n").split("\n") if not line.startswith("#")]
    body = "".join(f"{line}\n" for line in lines)
    if not body.strip() or body == part.body:
        return None
    if not body.startswith("@@"):
        body = "@@ @@\n" + body
    return Part(part.path, part.number, part.of, part.header, body, edited=True)


def read_numbers(text: str, paths: tuple[str, ...]) -> tuple[str, ...] | None:
    """The files chosen by number; none given means all; None if a number is wrong."""
    chosen: list[str] = []
    for word in text.replace(",", " ").split():
        if not word.isdecimal() or not 1 <= int(word) <= len(paths):
            return None
        chosen.append(paths[int(word) - 1])
    return tuple(chosen)
