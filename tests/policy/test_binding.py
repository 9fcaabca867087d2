"""What binds a run: the narrower of what it began with and what holds now."""

from __future__ import annotations

import pytest

from orchestra.core.reading import RunCreated
from orchestra.policy.binding import asks_more, containment, stricter
from orchestra.policy.policy import ApprovalPolicy


@pytest.mark.parametrize(
    ("own", "now", "typed", "counts"),
    [
        ("never", "always", (), True),
        ("always", "never", (), False),
        ("always", "always", (), False),
        ("never", "never", (), False),
        ("never", "always", ("approval",), False),  # a person typed it for this run
        ("unheard-of", "always", (), False),
    ],
)
def test_the_file_s_approval_mode_counts_if_it_asks_more_often(
    own: str, now: ApprovalPolicy, typed: tuple[str, ...], counts: bool
) -> None:
    assert asks_more(RunCreated(approval=own, typed=typed), now) == (now if counts else None)


def test_of_two_approval_modes_the_one_that_asks_more_often_is_the_stricter() -> None:
    assert stricter("never", None) == "never"
    assert stricter("never", "always") == stricter("always", "never") == "always"


@pytest.mark.parametrize(
    ("tier", "ran", "said"),
    [
        ("strict", (), ""),
        ("strict", ("strict",), ""),
        ("none", (), "sandbox: none"),
        ("none", ("strict",), ""),  # what its commands ran in counts
        ("strict", ("none", "strict"), "sandbox: none"),
    ],
)
def test_a_report_names_the_weakest_containment_of_its_commands(tier: str, ran: tuple[str, ...], said: str) -> None:
    lines = containment(RunCreated(policy={"tier": tier}), ran)
    assert bool(lines) is bool(said) and said in "".join(lines)


def test_a_tier_of_a_foreign_journal_that_is_no_text_is_none_that_is_named() -> None:
    assert containment(RunCreated(policy={"tier": []}), ()) == []
