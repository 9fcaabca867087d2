"""The keys of steps: names that no key may have, and names that are used again."""

from __future__ import annotations

import pytest

from orchestra.core.errors import DurabilityError
from orchestra.core.scopes import Scope


@pytest.mark.parametrize("name", ["a/b", "/", "a/"])
def test_a_slash_is_in_no_name(name: str) -> None:
    scope = Scope("plan/")
    for use in (scope.next_key, scope.place, scope.branch):
        with pytest.raises(DurabilityError, match="may not contain '/'"):
            use(name)


@pytest.mark.parametrize("name", ["", "a@1", "@", "draft.2"])
def test_an_edition_has_a_name_that_is_told_from_a_number(name: str) -> None:
    with pytest.raises(DurabilityError, match="may not contain '/' or '@' or end like a repeat count"):
        Scope("").place(name)


def test_a_name_that_is_used_again_has_a_number() -> None:
    scope = Scope("plan/")
    assert [scope.next_key("call") for _ in range(2)] == ["plan/call.1", "plan/call.2"]
    assert scope.peek_key("call") == "plan/call.3"
    assert [scope.place("draft") for _ in range(2)] == ["draft", "draft.2"]
