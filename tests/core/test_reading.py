"""Events are read as types, and reading never fails, whoever wrote the journal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestra.core import reading
from orchestra.core.reading import (
    ChangedFile,
    Failure,
    Params,
    Reference,
    Request,
    RunCreated,
    RunEnded,
    StepEvent,
    StepOutcome,
    outcome_of,
)
from orchestra.core.records import EVENT_TYPES, Event, EventType
from orchestra.core.shape import OUTCOME, PARAMS, PAYLOAD, misfit
from orchestra.core.work import Applied, Approval, Masked
from orchestra.policy.binding import containment, typed_of
from orchestra.workflows.all import ALL

_LEAF = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5)
_JSON = st.recursive(
    _LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from((*OUTCOME, "path", "pid")), inner),
    max_leaves=8,
)
_KNOWN = st.fixed_dictionaries(
    {},
    optional={
        "effect": st.sampled_from(("", "RunCommand", "AdoptPlan", "ModelCall", "Mine")),
        "outcome": st.dictionaries(st.sampled_from(OUTCOME), _JSON, max_size=2),
        "params": st.dictionaries(st.sampled_from(PARAMS), _JSON, max_size=2),
    },
)
_PAYLOAD = st.builds(
    lambda known, odd: known | odd, _KNOWN, st.dictionaries(st.sampled_from(PAYLOAD), _JSON, max_size=3)
)


def _event(payload: dict[str, Any], type: EventType = "PHASE_COMPLETED") -> Event:
    return Event("00000001", "r", "2026-01-01T00:00:00Z", type, payload)


@settings(suppress_health_check=[HealthCheck.too_slow])  # another test may have the machine
@given(_PAYLOAD)
def test_reading_never_fails(payload: dict[str, Any]) -> None:
    event = _event(payload)
    outcome = reading.outcome_of(event)
    for record in (RunCreated.of(event), StepEvent.of(event), Request.of(event), RunEnded.of(event), outcome):
        for name, part in vars(type(record)).items():
            if isinstance(part, property):
                getattr(record, name)
        msgspec.to_builtins(record)
    params = RunCreated.of(event).params
    assert isinstance(params.commands, tuple) and isinstance(params.opened, tuple)
    assert reading.outcome_as(event, Applied) is None or isinstance(payload["outcome"], dict)
    assert isinstance(reading.job_of(event), dict)
    assert reading.duration_of(event) == reading.duration_of(event)
    assert reading.branch_of(event) == reading.key_of(event).partition("/")[0]
    containment(RunCreated.of(event), reading.recorded(event, "tier"))
    typed_of(RunCreated.of(event))


@settings(suppress_health_check=[HealthCheck.too_slow])  # another test may have the machine
@given(_PAYLOAD, st.sampled_from(EVENT_TYPES))
def test_every_event_that_fits_has_a_headline_or_none(payload: dict[str, Any], type: EventType) -> None:
    event = _event(payload, type)
    if misfit(event, 2) == "":
        for workflow in ALL:
            assert isinstance(workflow.headline(event), str)


@settings(suppress_health_check=[HealthCheck.too_slow])  # another test may have the machine
@given(_PAYLOAD)
def test_what_fits_is_read_as_it_was_recorded(payload: dict[str, Any]) -> None:
    event = _event(payload)
    if misfit(event, 2) == "":
        step, created = StepEvent.of(event), RunCreated.of(event)
        for name in ("key", "task", "attempt", "retryAt", "process"):
            assert getattr(step, name) == payload.get(name, getattr(StepEvent(), name))
        for name in ("workflow", "goal", "workspace", "parentRunId"):
            assert getattr(created, name) == payload.get(name, getattr(RunCreated(), name))


def test_a_field_that_does_not_fit_leaves_the_others_readable() -> None:
    step = StepEvent.of(_event({"key": "a/b.1", "attempt": "two", "task": "a", "error": {"message": 5, "code": "X"}}))
    assert (step.key, step.attempt, step.task) == ("a/b.1", 1, "a")
    assert step.error == Failure(code="X")


def test_an_error_that_cannot_be_read_is_still_an_error() -> None:
    assert StepEvent.of(_event({"error": "broken"})).error == Failure()
    assert RunEnded.of(_event({"error": ["broken"]})).error == Failure()
    assert StepEvent.of(_event({"error": None})).error is None


def test_a_run_that_is_not_here_has_no_facts() -> None:
    assert RunCreated.of(None) == RunCreated()
    assert reading.job_of(None) == {}


def test_the_job_is_read_in_part_and_given_whole() -> None:
    params = {"dry": True, "checks": [["sh", "-c", "true"], "odd"], "context": ["a.txt"], "mine": {"deep": 1}}
    event = _event({"params": params}, "RUN_CREATED")
    assert RunCreated.of(event).params == Params(dry=True, checks=params["checks"], context=["a.txt"])
    assert RunCreated.of(event).params.commands == (("sh", "-c", "true"), ("odd",))
    assert RunCreated.of(event).params.opened == ("a.txt",)
    assert reading.job_of(event) == params
    assert RunCreated.of(_event({"params": None})).params == Params()


def test_the_process_of_a_step_has_an_id_and_a_time() -> None:
    assert StepEvent.of(_event({"process": {"pid": 7, "startTime": "99"}})).started == (7, "99")
    for odd in (None, 7, {}, {"pid": "7"}, {"pid": 7}, {"startTime": "99"}):
        assert StepEvent.of(_event({"process": odd})).started is None


def test_a_command_that_was_not_run_is_told_from_no_command() -> None:
    dry = reading.outcome_of(_event({"effect": "RunCommand", "outcome": {"exitCode": None}}))
    assert dry.is_command and dry.exit_code is None
    assert not reading.outcome_of(_event({"effect": "AskPerson", "outcome": {"text": "yes"}})).is_command


def test_the_diffstats_of_a_patch_are_both_there_or_not() -> None:
    both = StepOutcome(before=(), after=(ChangedFile("a", 1, 0),))
    assert both.has_diffstats and both.applied == (ChangedFile("a", 1, 0),)
    assert not StepOutcome(before=()).has_diffstats and StepOutcome().applied == ()


def test_tokens_are_counted_from_what_is_recorded() -> None:
    assert StepOutcome(usage={"totalTokens": 7, "inputTokens": 1}).tokens == 7
    assert StepOutcome(usage={"inputTokens": 1, "outputTokens": 2}).tokens == 3
    assert StepOutcome(usage={"totalTokens": "many"}).tokens == 0
    assert StepOutcome().tokens == 0


def test_a_request_has_what_a_person_is_asked() -> None:
    payload = {
        "approvalId": "a1",
        "digest": "sha256:d",
        "files": [{"path": "a", "change": "modify", "added": 1, "removed": 2}],
        "masked": [{"path": "a", "line": 1, "characters": 9, "what": "a key"}, "odd"],
        "commands": ["sha256:c"],
        "patch": {"path": "artifacts/p", "bytes": 1, "sha256": "sha256:p"},
    }
    request = Request.of(_event(payload, "APPROVAL_REQUESTED"))
    assert (request.id, request.digest, request.subject, request.paths) == ("a1", "sha256:d", "patch", ("a",))
    assert request.files == (ChangedFile("a", 1, 2, "modify"),)
    assert request.hidden == (Masked("a", 1, 9, "a key"),)
    assert request.granted_commands == ("sha256:c",)
    assert request.patch == Reference("artifacts/p", 1, "sha256:p")
    assert Request.of(_event({"questionId": "q1"}, "QUESTION_RAISED")).id == "q1"


def test_an_outcome_is_given_whole_as_the_record_of_its_effect() -> None:
    approval = Approval(granted=True, by="kim", digest="sha256:" + "0" * 64)
    event = _event({"effect": "Approve", "outcome": msgspec.to_builtins(approval)})
    assert reading.outcome_as(event, Approval) == approval
    assert reading.outcome_as(_event({"effect": "Approve", "outcome": {"granted": 1}}), Approval) is None
    assert reading.outcome_as(_event({}), Approval) is None


def test_fields_are_copied_as_they_were_recorded() -> None:
    event = _event({"argv": ["a"], "tier": None, "key": "k"})
    assert reading.recorded(event, "argv", "process", "tier") == {"argv": ["a"], "tier": None}


@pytest.mark.parametrize(("effect", "read"), [("ModelCall", "답"), ("Mine", ""), ("", "답")])
def test_only_an_outcome_of_orchestras_own_steps_is_read_as_one(effect: str, read: str) -> None:
    """A workflow's own effect may have fields of the same names, which mean something else."""
    assert (outcome_of(_event({"effect": effect, "outcome": {"text": "답"}})).text or "") == read
