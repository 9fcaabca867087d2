"""Records a person's answers to a run: approve, reject, answer, cancel. Drives nothing.

Rules
1. An answer is for one request. If several wait, the person must name one; no request is granted by chance (D-11).
2. The answer is put into the run's inbox. The process that drives the run takes it from there (core/inbox.py).
3. A foreign run gets no answer: another person may have written what it asks for.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping

from orchestra.core.cancel import may_be_applying
from orchestra.core.errors import UsageError
from orchestra.core.inbox import CANCEL, message
from orchestra.core.reading import Request
from orchestra.core.records import FINAL, Event
from orchestra.core.run import RunFolder
from orchestra.core.store import Store
from orchestra.core.text import clean
from orchestra.runs.find import Runs

SHORT_DIGEST = len("sha256:") + 12  # characters of a digest that are enough to identify it


class Answers:
    """Where a person's answers to the runs of a project are recorded."""

    def __init__(self, runs: Runs, store: Store) -> None:
        self._runs = runs
        self._store = store

    def approve(self, folder: RunFolder, *, digest: str = "", only: tuple[str, ...] = (), by: str = "") -> str:
        """Record a grant for the pending approval, or for the one with this digest; returns the approval's id."""
        name, request = self._pending(folder, "APPROVAL_REQUESTED", digest)
        wanted, asked = _digest(folder, request), Request.of(request)
        known, subject = asked.paths, asked.subject
        if only and subject != "patch":
            raise UsageError(f"run {folder.id} waits with a {subject}, which is approved as a whole: leave --only out")
        for path in only:
            if path not in known:
                raise UsageError(f"{path!r} is not in this patch; it touches: {', '.join(sorted(known))}")
        self._store.deliver(folder, name, message("approve", by or who(), digest=wanted, accepted=only))
        return name

    def reject(self, folder: RunFolder, *, reason: str, digest: str = "", end: bool = False, by: str = "") -> str:
        """Record a rejection. The reason goes into the next prompt; with `end` the run ends."""
        if not reason.strip():
            raise UsageError("the reason is empty; say what is wrong: --reason TEXT")
        name, request = self._pending(folder, "APPROVAL_REQUESTED", digest)
        rejection = message("reject", by or who(), text=reason, digest=_digest(folder, request), end=end)
        self._store.deliver(folder, name, rejection)
        return name

    def answer(self, folder: RunFolder, text: str, *, by: str = "") -> str:
        """Record an answer to the pending question."""
        if not text.strip():
            raise UsageError("the answer is empty; say something: orchestra answer RUN TEXT")
        name, request = self._pending(folder, "QUESTION_RAISED")
        self._store.deliver(folder, name, message("answer", by or who(), text=_allowed(folder, request, text)))
        return name

    def ask_to_cancel(self, folder: RunFolder, *, reason: str = "", by: str = "") -> None:
        """Record a cancel. The process that drives the run ends it; if there is none, the caller does next."""
        status = self._runs.vouched(folder).fold.state.status
        if status in FINAL.values():
            raise UsageError(f"run {folder.id} is already {status}")
        # An earlier cancel may have been killed before it could end the run.
        if self._store.mail(folder, CANCEL) is None:
            self._store.deliver(folder, CANCEL, message("cancel", by or who(), text=reason))

    def half_applied(self, folder: RunFolder) -> bool:
        """Whether a kill may have cut a patch of this run short."""
        return may_be_applying(self._runs.summary(folder).events)

    def _pending(self, folder: RunFolder, kind: str, digest: str = "") -> tuple[str, Event]:
        """The one pending request of this kind; UsageError if it is not clear which is meant (rule 1)."""
        fold = self._runs.vouched(folder).fold
        asked = {name: event for name, event in fold.pending.items() if event.type == kind}
        unanswered = self._store.unanswered(folder, asked)
        meant = {n: e for n, e in asked.items() if digest and _is_digest(digest, Request.of(e).digest)}
        if digest and asked and not meant:  # D-11
            now = " or ".join(Request.of(event).digest or "?" for event in (unanswered or asked).values())
            raise UsageError(
                f"run {folder.id}: what waits now is {now}, not {digest}; look again: orchestra diff {folder.id}"
            )
        if not digest and len(unanswered) > 1 and kind == "APPROVAL_REQUESTED":
            raise UsageError(f"run {folder.id} waits with {len(unanswered)} changes; say which:{_choice(unanswered)}")
        for name, event in (self._store.unanswered(folder, meant) or meant or unanswered or asked).items():
            return name, event
        what = "approval" if kind == "APPROVAL_REQUESTED" else "answer"
        other = next(iter(fold.pending.values()), None)
        hint = ""
        if other is not None:
            verb = "answer" if other.type == "QUESTION_RAISED" else "approve"
            hint = f"; it waits for something else: orchestra {verb} {folder.id}"
        raise UsageError(f"run {folder.id} waits for no {what} (status {fold.state.status}){hint}")


def _allowed(folder: RunFolder, request: Event, text: str) -> str:
    """The answer in the spelling of the question's options; UsageError if it is none of them."""
    options = Request.of(request).options
    said = text.strip().casefold()
    for option in options:
        if said == option.strip().casefold():
            return option
    if options:
        raise UsageError(f"run {folder.id}: {text!r} is no answer to this; the options are: {', '.join(options)}")
    return text


def _digest(folder: RunFolder, request: Event) -> str:
    """The digest that a grant is bound to (D-11)."""
    if digest := Request.of(request).digest:
        return digest
    raise UsageError(f"run {folder.id}: event {request.id} asks for an approval and does not say of what")


def _is_digest(given: str, digest: str) -> bool:
    """Whether the text is this digest, or a long enough beginning of it."""
    return given == digest or (len(given) >= SHORT_DIGEST and digest.startswith(given))


def _choice(requests: Mapping[str, Event]) -> str:
    lines: list[str] = []
    for event in list(requests.values())[:10]:
        request = Request.of(event)
        shown, files = (request.digest or "?")[:SHORT_DIGEST], ", ".join(request.paths[:3])
        lines.append(f"\n  --digest {shown}  {request.summary} ({files})")
    return clean("".join(lines))


def who() -> str:
    """The name of the current user, for events."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
