"""Records a person's answers to a tree of runs: approve, reject, answer, cancel. Drives nothing.

Rules
1. The run that is named stands for its tree: the request may be of any run below it.
2. An answer is for one request. If several wait, the person must name one; no request is answered by chance (D-11).
3. An answer is checked here, against the question: what it does not allow is refused, and nothing is recorded.
4. The answer is put into the inbox of the run that asks. The process that drives the tree takes it from there
   (core/inbox.py). The first answer stands.
5. A foreign run gets no answer: another person may have written what it asks for.
"""

from __future__ import annotations

import getpass
import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from orchestra.core.cancel import may_be_applying
from orchestra.core.errors import ForeignRun, UsageError
from orchestra.core.inbox import CANCEL, message
from orchestra.core.newest import edition_of
from orchestra.core.reading import Request, key_of, outcome_of
from orchestra.core.records import FINAL, Event
from orchestra.core.redact import Redactor
from orchestra.core.run import RunFolder
from orchestra.core.store import Store
from orchestra.core.text import and_more, brief, clean
from orchestra.patch.choosing import Part
from orchestra.runs.choosing import Choice, Choosing, GateOf, pick
from orchestra.runs.find import Runs, RunSummary
from orchestra.runs.meant import Meant
from orchestra.runs.tree import OpenRequest, Trees, given_name, named, names_of

SHORT_DIGEST = len("sha256:") + 12  # characters of a digest that are enough to identify it
_LISTED = 20  # requests in a message
_YES, _NO = ("yes", "y", "예", "네"), ("no", "n", "아니오", "아니요")


class Answers:
    """Where a person's answers to the runs of a project are recorded."""

    def __init__(self, runs: Runs, store: Store, gate_of: GateOf, redactor: Redactor) -> None:
        """`gate_of` gives the gate of a run, which offers the parts of its patches."""
        self.trees = Trees(runs, store)
        self.meant = Meant(runs, self.trees)
        self.choosing = Choosing(gate_of, redactor)
        self._runs = runs
        self._store = store

    def approve(
        self,
        folder: RunFolder,
        *,
        digest: str = "",
        only: Sequence[str] = (),
        hunks: Mapping[str, Sequence[int]] = MappingProxyType({}),
        reason: str = "",
        by: str = "",
    ) -> OpenRequest:
        """Record a grant for the pending approval, or for the one with this digest; returns the request.

        With `only` or `hunks` it is for these files and hunks of a patch; `reason` tells why not for the others.
        """
        request = self._approval(folder, digest)
        if not only and not hunks:
            said = message("approve", by or who(), digest=_digest(request))
            self._store.deliver(request.run.folder, request.id, said)
            return request
        offered = self.offer(request)
        return self.choose(request, Choice(pick(offered, only, hunks), offered, reason), by=by)

    def offer(self, request: OpenRequest) -> tuple[Part, ...]:
        """The parts of the patch that waits; UsageError if it is no patch, or does not fit the files any more."""
        if (subject := request.asked.subject) != "patch":
            raise UsageError(
                f"run {request.run.folder.id} waits with a {subject}, which is approved as a whole: leave --only and"
                " --hunks out"
            )
        return self.choosing.offer(request)

    def choose(self, request: OpenRequest, choice: Choice, *, by: str = "") -> OpenRequest:
        """Record a grant for what a person chose of a patch; UsageError if it does not fit the files."""
        said = self.choosing.grant(request, choice, by=by or who(), digest=_digest(request))
        self._store.deliver(request.run.folder, request.id, said)
        return request

    def waiting(self, folder: RunFolder, digest: str) -> OpenRequest:
        """The approval of this digest that the tree waits for; UsageError if it waits for none."""
        return self._approval(folder, digest)

    def reject(
        self, folder: RunFolder, *, reason: str, digest: str = "", end: bool = False, by: str = ""
    ) -> OpenRequest:
        """Record a rejection. The reason goes into the next prompt; with `end` the run that asks ends."""
        if not reason.strip():
            raise UsageError("the reason is empty; say what is wrong: --reason TEXT")
        request = self._approval(folder, digest)
        rejection = message("reject", by or who(), text=reason, digest=_digest(request), end=end)
        self._store.deliver(request.run.folder, request.id, rejection)
        return request

    def answer(self, folder: RunFolder, text: str, *, question: str = "", by: str = "") -> OpenRequest:
        """Record an answer to the pending question, or to the one of this name; returns the request."""
        request = self._question(folder, question)
        said = self.checked(request.run.folder, request.event, text)
        at, name = request.run.folder, clean(request.name)
        if request.answered and (first := self._store.mail(at, request.id)) is not None:  # and no process took it yet
            what = f"was already answered by {clean(first.by)} at {first.at}; the first answer stands"
            raise UsageError(f"run {folder.id}: {name!r} {what}")
        self._store.deliver(at, request.id, message("answer", by or who(), text=said))
        return request

    def checked(self, folder: RunFolder, request: Event, text: str) -> str:
        """An answer as this question takes it; UsageError if it is empty, or none of the question's options."""
        if not text.strip():
            raise UsageError("the answer is empty; say something: orchestra answer RUN TEXT")
        return _allowed(folder, request, text)

    def ask_to_cancel(self, folder: RunFolder, *, reason: str = "", by: str = "") -> None:
        """Record a cancel. The process that drives the run ends it; if there is none, the caller does next."""
        status = self._runs.vouched(folder).fold.state.status
        if status in FINAL.values():
            raise UsageError(f"run {folder.id} is already {status}")
        # An earlier cancel may have been killed before it could end the run.
        if self._store.mail(folder, CANCEL) is None:
            self._store.deliver(folder, CANCEL, message("cancel", by or who(), text=reason))

    def half_applied(self, folder: RunFolder, *, only_open: bool = False) -> Iterator[RunSummary]:
        """The runs of a tree of which a kill may have cut a patch short; `only_open` as for `Runs.members`."""
        for member in self._runs.members(folder, only_open=only_open):
            if may_be_applying(member.summary.events):
                yield member.summary

    # -- which request is meant (rule 2) ------------------------------------------------------------------------------

    def _approval(self, folder: RunFolder, digest: str) -> OpenRequest:
        requests = self._requests(folder)
        asked = [one for one in requests if one.is_approval]
        unanswered = [one for one in asked if not one.answered]
        meant = [one for one in asked if _is_digest(digest, one.asked.digest)] if digest else unanswered or asked
        if digest and asked and not meant:  # D-11
            now = " or ".join(one.asked.digest or "?" for one in unanswered or asked)
            raise UsageError(
                f"run {folder.id}: what waits now is {now}, not {digest}; look again: orchestra diff {folder.id}"
            )
        meant = [one for one in meant if not one.answered] or meant[:1]
        if len(meant) > 1 and len(own := [one for one in meant if not one.path]) == 1 and digest:
            return own[0]
        if len(meant) > 1:
            what = "changes" if all(one.asked.subject == "patch" for one in meant) else "requests"
            raise UsageError(
                f"run {folder.id} waits with {len(meant)} {what}; say which:{_choice(meant, by_run=bool(digest))}"
            )
        return meant[0] if meant else self._nothing(folder, "approval", requests)

    def _question(self, folder: RunFolder, name: str) -> OpenRequest:
        requests = self._requests(folder)
        asked = [one for one in requests if not one.is_approval]
        unanswered = [one for one in asked if not one.answered]
        meant = named(asked, name) if name else unanswered or asked
        if name and not meant:
            raise UsageError(self._not_open(folder, name, asked))
        meant = [one for one in meant if not one.answered] or meant[:1]
        if len(meant) > 1:
            which = f"{name!r} fits {len(meant)} of its questions" if name else f"it waits with {len(meant)} questions"
            raise UsageError(f"run {folder.id}: {which}; say which:{_questions(asked, meant)}")
        return meant[0] if meant else self._nothing(folder, "answer", requests)

    def _requests(self, folder: RunFolder) -> list[OpenRequest]:
        """What the tree waits for. Requests of foreign runs are left out; ForeignRun if no other is left (rule 5)."""
        self._runs.vouched(folder)
        requests = self.trees.requests(folder)
        if not requests and (above := self.trees.ended_above(folder)) is not None:
            status = self._runs.summary(above, keep=False).fold.state.status
            cure = "" if status == "completed" else f". To go on from there: orchestra retry {above.id}"
            raise UsageError(
                f"run {folder.id} waits for nothing any more: run {above.id} above it has ended ({status}){cure}"
            )
        own = [one for one in requests if not one.run.foreign]
        for one in requests if not own else ():
            raise ForeignRun(one.run.folder.id, one.run.foreign)
        return own

    def _nothing(self, folder: RunFolder, what: str, requests: Sequence[OpenRequest]) -> OpenRequest:
        """UsageError: the tree waits for nothing of this kind."""
        kind = "APPROVAL_REQUESTED" if what == "approval" else "QUESTION_RAISED"
        if gone := [request for request in self._withdrawn(folder) if request.event.type == kind]:
            raise UsageError(f"run {folder.id}: {_withdrawal(gone[-1].event)}")
        hint = ""
        if requests:
            verb = "approve" if requests[0].is_approval else "answer"
            hint = f"; it waits for something else: orchestra {verb} {folder.id}"
        raise UsageError(f"run {folder.id} waits for no {what} (status {self.trees.status(folder)}){hint}")

    def _withdrawn(self, folder: RunFolder) -> list[OpenRequest]:
        """The requests of the tree that were withdrawn, because their inputs changed."""
        return [
            OpenRequest(member.summary, member.path, name, event, answered=False)
            for member in self._runs.members(folder)
            for name, event in member.summary.fold.withdrawn.items()
        ]

    def _not_open(self, folder: RunFolder, name: str, open_ones: Sequence[OpenRequest]) -> str:
        """Why no question of this name can be answered."""
        if gone := named(self._withdrawn(folder), name):
            return f"run {folder.id}: {_withdrawal(gone[-1].event)}"
        for member in self._runs.members(folder):
            raised: dict[str, Event] = {}
            for event in member.summary.events:
                asked = Request.of(event).questionId
                if event.type == "QUESTION_RAISED":
                    raised[asked] = event
                elif event.type == "QUESTION_ANSWERED" and asked in raised:
                    question = OpenRequest(member.summary, member.path, asked, raised[asked], answered=True)
                    if named([question], name):
                        said = f"by {clean(outcome_of(event).by)} at {event.ts}"
                        return f"run {folder.id}: {name!r} was already answered {said}; the first answer stands"
        unanswered = [one for one in open_ones if not one.answered]
        now = f"; what is asked now:{_questions(open_ones, unanswered)}" if unanswered else "; nothing is asked now"
        return f"run {folder.id} asks no question {name!r}{now}"


def told_apart(requests: Sequence[OpenRequest]) -> list[tuple[str, ...]]:
    """The option that tells each request from the other open ones of its kind; empty where it is the only one.

    A request that is answered and not yet taken counts as open: else its name would mean another question.
    """
    known = [one for one in requests if not one.run.foreign]
    questions = [one for one in known if not one.is_approval]
    approvals = [one for one in known if one.is_approval]
    found = {id(one): ("--question", name) for one, name in zip(questions, names_of(questions), strict=True)}
    found |= {id(one): ("--digest", one.asked.digest[:SHORT_DIGEST]) for one in approvals}
    left = [[one for one in kind if not one.answered] for kind in (questions, approvals)]
    alone = [id(kind[0]) for kind in left if len(kind) == 1]
    return [() if id(one) in alone else found.get(id(one), ()) for one in requests]


def _withdrawal(request: Event) -> str:
    """Why a request of a replaced edition cannot be answered."""
    what = "question" if request.type == "QUESTION_RAISED" else "approval"
    return f"{what} {Request.of(request).id} of {edition_of(key_of(request))} was withdrawn: its inputs changed"


def _allowed(folder: RunFolder, request: Event, text: str) -> str:
    """The answer as it is recorded (rule 3): in the spelling of the question's options, or `yes` or `no`."""
    asked = Request.of(request)
    options = asked.options or (("yes", "no") if asked.kind == "yes_no" else ())
    said = _plain(text)
    for option in options:
        if said == _plain(option):
            return option
    for form in (_shown, _name):  # as a person sees it; `R1` of `R1: a text`
        same = [option for option in options if said == _plain(form(option))]
        if len(same) == 1:
            return same[0]
    for words in (_YES, _NO):
        same = [option for option in options if _plain(option) in words]
        if said in words and len(same) == 1:
            return same[0]
    if options:
        raise UsageError(
            f"run {folder.id}: {text!r} is no answer to {clean(given_name(asked.questionId, key_of(request)))};"
            f" the options are: {brief(', '.join(map(_shown, options)), 1000)}"
        )
    return text


def _name(option: str) -> str:
    return option.partition(": ")[0]


def _shown(option: str) -> str:
    """An option as it is shown: one line, without colours, control characters as escapes."""
    return brief(option, 500)


def _plain(text: str) -> str:
    """Text for comparison: a keyboard may send the parts of a Hangul syllable one by one."""
    return unicodedata.normalize("NFC", text).strip().casefold()


def _digest(request: OpenRequest) -> str:
    """The digest that a grant is bound to (D-11)."""
    if digest := request.asked.digest:
        return digest
    raise UsageError(
        f"run {request.run.folder.id}: event {request.event.id} asks for an approval and does not say of what"
    )


def _is_digest(given: str, digest: str) -> bool:
    """Whether the text is this digest, or a long enough beginning of it."""
    return given == digest or (len(given) >= SHORT_DIGEST and digest.startswith(given))


def _choice(requests: Sequence[OpenRequest], *, by_run: bool) -> str:
    """Lines that tell approvals apart: by their digests, or `by_run` if they have the same."""
    lines: list[str] = []
    for one in requests[:_LISTED]:
        asked = one.asked
        files = f" ({brief(', '.join(asked.paths[:3]), 200)})" if asked.paths else ""
        where = f"{one.child}: " if one.path else ""
        digest = (asked.digest or "?")[:SHORT_DIGEST]
        which = f"orchestra approve {one.run.folder.id}" if by_run else f"--digest {digest}"
        lines.append(f"\n  {which}  {where}{brief(asked.summary, 200)}{files}")
    return "".join(lines) + and_more(requests, _LISTED, "\n  ")


def _questions(all_open: Sequence[OpenRequest], shown: Sequence[OpenRequest]) -> str:
    """Lines with the names of questions, their texts and options. Names are told apart among all open ones."""
    names = {id(one): name for one, name in zip(all_open, names_of(all_open), strict=True)}
    lines: list[str] = []
    for one in shown[:_LISTED]:
        options = f" (options: {brief(', '.join(one.asked.options), 500)})" if one.asked.options else ""
        lines.append(f"\n  --question {names.get(id(one), one.name)}  {brief(one.asked.question, 200)}{options}")
    return "".join(lines) + and_more(shown, _LISTED, "\n  ")


def who() -> str:
    """The name of the current user, for events."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
