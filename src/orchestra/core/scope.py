"""The scope of a run: the files that its patches may change. Pure.

Rules
1. `only` and `never` are globs as in `.gitignore`, from the folder that the run works in. Without `only` every file is
   in scope. What `never` names is out of scope, whatever `only` names.
2. `never` is judged as a file system without case would: `never: [tests/]` also covers `Tests/a.py`.
3. Both names of a renamed file must be in scope.
4. A scope only takes away: what the gate refuses without a scope stays refused.
5. `expected` are the files that a design names, as globs. A patch of another file is a reason to ask a person, whatever
   the approval mode.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from orchestra.core.globs import Globs
from orchestra.core.names import folded
from orchestra.core.work import PatchFile, Refusal

_OF = "scope:"  # in a message about a wrong glob


class Scope(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The files that a run may change, by globs."""

    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()

    def check(self) -> None:
        """UsageError for a glob that cannot be used."""
        Globs((*self.only, *self.never, *self.expected), of=_OF)

    def unexpected(self, files: Iterable[PatchFile]) -> tuple[str, ...]:
        """Why a person must approve a patch of these files: those that nobody expected (rule 5)."""
        if not self.expected:
            return ()
        expected = Globs(self.expected, of=_OF)
        out = [path for path in _paths(files) if not expected(path)]
        return (f"no design names {', '.join(out)}",) if out else ()

    def refusal(self, files: Iterable[PatchFile]) -> Refusal | None:
        """Why a patch of these files is refused; None if all of them are in scope. Every wrong path is named."""
        only, never = Globs(self.only, of=_OF), Globs(map(folded, self.never), of=_OF)
        out = [path for path in _paths(files) if never(folded(path)) or (self.only and not only(path))]
        if not out:
            return None
        what = f"{', '.join(out)}: out of scope for this run, so nothing was applied. {self}"
        cure = "Write the patch again without the files that are out of scope"
        return Refusal("path_violation", f"{what}. {cure}", out[0])

    def __str__(self) -> str:
        """The scope as a sentence, without its full stop."""
        said = f"It may change only {', '.join(self.only)}" if self.only else "It may change any file"
        return f"{said}, and never {', '.join(self.never)}" if self.never else said


def _paths(files: Iterable[PatchFile]) -> tuple[str, ...]:
    """Every path of a patch, the old ones of renamed files too (rule 3)."""
    return tuple(dict.fromkeys(path for file in files for path in (file.oldPath, file.path) if path is not None))
