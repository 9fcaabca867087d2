"""The patches of a tree of runs, as a person sees them: those that wait for approval, and those that were applied.

Rules
1. The text of a patch is the one with masked secrets, unless its exact bytes are asked for.
2. Of an applied patch only the granted parts are shown.
3. Files are named from the project's folder: a run that works in a folder of its own names them from there.
4. Of a tree, the patches of runs in a copy of the project (core/copies.py) are left out: their result comes to the
   project as one patch. A run in a copy has its own patches.
5. The net change is one diff, as `git apply` takes it. Where a secret is masked it is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from orchestra.core.errors import UsageError
from orchestra.core.files import MIB
from orchestra.core.reading import ChangedFile, Reference, outcome_as, outcome_of, scope_of
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.work import Masked, PatchProposal, Refusal, Reply
from orchestra.patch.choosing import parts_about
from orchestra.patch.diff import parse_diff
from orchestra.patch.gatekeeper import exact_patch
from orchestra.patch.hidden import hidden_lines
from orchestra.patch.paths import quote
from orchestra.patch.result import Patch
from orchestra.patch.undo import Net
from orchestra.patch.unified import git_line, side_lines
from orchestra.patch.written import diff_text
from orchestra.runs.find import RunSummary
from orchestra.runs.tree import OpenRequest, TreeEvent

MOST_PATCH = 16 * MIB


class ShownPatch(Struct, frozen=True):
    """A patch as a person sees it, its masked parts, and the run it is of."""

    folder: RunFolder
    diff: str
    masked: tuple[Masked, ...] = ()
    data: bytes = b""  # the same to the byte, if no secret is masked; empty: it is not known


def waiting(request: OpenRequest, *, exact: bool = False) -> ShownPatch:
    """The patch that an approval is about."""
    asked = request.asked
    made = _proposals(request.run).get(_path(asked.patch))
    shown = _patch(request.run.folder, asked.patch, made, asked.files, exact=exact)
    return _from_project(shown, request.run.facts.folder)


def exact_text(request: OpenRequest) -> str:
    """The exact patch that an approval is about, with the names that its files have in the run's own folder."""
    asked = request.asked
    made = _proposals(request.run).get(_path(asked.patch))
    return _patch(request.run.folder, asked.patch, made, asked.files, exact=True).diff


def proposed(request: OpenRequest) -> PatchProposal:
    """The patch that an approval is about, as it was recorded; UsageError if its record cannot be read."""
    made = _proposals(request.run).get(_path(request.asked.patch))
    if made is None:
        raise UsageError(f"run {request.run.folder.id} does not say what its patch changes: approve or reject it whole")
    return made


def applied(events: Iterable[TreeEvent], *, copy: str, exact: bool = False) -> Iterator[ShownPatch]:
    """The granted parts of the applied patches of a tree, in the order in which they were applied.

    `copy` is the copy of the project that its first run works in; empty: the project itself (rule 4).
    """
    made: dict[tuple[str, str], Reference | None] = {}  # by run and scope: the newest patch is the one that is applied
    proposals: dict[str, dict[str, PatchProposal]] = {}
    for one in events:
        event, member = one.event, one.member
        if member.summary.facts.copy != copy:  # rule 4
            continue
        place = (member.folder.id, scope_of(event))
        if event.type == "PATCH_PRODUCED":
            made[place] = outcome_of(event).patch
        elif event.type == "PATCH_APPLIED":
            if member.folder.id not in proposals:
                proposals[member.folder.id] = _proposals(member.summary)
            patch = made.get(place)
            proposal = proposals[member.folder.id].get(_path(patch))
            shown = _patch(member.folder, patch, proposal, outcome_of(event).applied, exact=exact)
            yield _from_project(shown, member.summary.facts.folder)


def net_patch(folder: RunFolder, net: Net, redactor: Redactor, *, exact: bool = False) -> ShownPatch:
    """The net change of a tree as one diff (rule 4)."""
    files = sorted(net.files, key=lambda file: file.path)
    diff = "".join(map(diff_text, files))
    shown = diff if exact else redactor.text(diff)
    masked = () if exact else tuple(s for f in files for s in hidden_lines(f.path, diff_text(f), redactor))
    data = "".join(diff_text(file, errors="surrogateescape") for file in files)
    return ShownPatch(folder, shown, masked, data.encode("utf-8", "surrogateescape") if shown == diff else b"")


def about(patch: ShownPatch, paths: Iterable[str]) -> ShownPatch:
    """The part of a patch that is about these files."""
    wanted = set(paths)
    masked = tuple(span for span in patch.masked if span.path in wanted)
    return replace(patch, diff=parts_about(patch.diff, wanted), masked=masked)


def _proposals(run: RunSummary) -> dict[str, PatchProposal]:
    """The patches of a run as they were proposed, by the paths of their files."""
    produced = ((event, outcome_as(event, PatchProposal)) for event in run.events if event.type == "PATCH_PRODUCED")
    return {_path(outcome_of(event).patch): proposal for event, proposal in produced if proposal is not None}


def _path(patch: Reference | None) -> str:
    return patch.path if patch else ""


def _patch(
    folder: RunFolder, said: Reference | None, made: PatchProposal | None, files: Iterable[ChangedFile], *, exact: bool
) -> ShownPatch:
    """The part of an event's patch that is about these files. `made` is the patch as proposed, if recorded."""
    paths = {file.path for file in files}
    if exact and made is not None and made.exact is not None:
        patch = exact_patch(Reply("", made.exact), folder)
        if not isinstance(patch, Patch):
            raise UsageError(patch.message)
        return ShownPatch(folder, parts_about(patch.diff, paths))
    text = folder.recorded(said, MOST_PATCH).decode("utf-8", "replace")
    masked = tuple(span for span in (made.masked if made else ()) if span.path in paths)
    return ShownPatch(folder, parts_about(text, paths), masked)


def _from_project(patch: ShownPatch, folder: str) -> ShownPatch:
    """The patch with the names that its files have in the project (rule 3)."""
    if not folder:
        return patch
    parts = re.split(r"^(?=diff --git )", patch.diff, flags=re.MULTILINE)
    masked = tuple(replace(span, path=f"{folder}/{span.path}") for span in patch.masked)
    return replace(patch, diff="".join(_renamed(part, folder) for part in parts), masked=masked)


def _renamed(part: str, folder: str) -> str:
    """One file's part of a diff, with the folder before its names. What cannot be read stays as it is."""
    changes = parse_diff(part)
    if isinstance(changes, Refusal) or len(changes) != 1:
        return part
    old, new = (name if name is None else f"{folder}/{name}" for name in (changes[0].old, changes[0].new))
    minus, plus = side_lines(old, new)
    header = {
        "diff --git ": git_line(old, new),
        "--- ": minus,
        "+++ ": plus,
        "rename from ": f"rename from {quote(old or '')}",
        "rename to ": f"rename to {quote(new or '')}",
    }
    head, hunks, rest = part.partition("\n@@")
    lines = [
        next((said for begin, said in header.items() if line.startswith(begin)), line) for line in head.split("\n")
    ]
    return "\n".join(lines) + hunks + rest
