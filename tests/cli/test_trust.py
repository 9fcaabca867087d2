"""`orchestra trust` and `orchestra schema` where there is nothing to ask."""

from __future__ import annotations

import json
from pathlib import Path

from orchestra.schemas import RECORDS
from tests.support.inside import said


def test_a_project_that_asks_for_nothing_needs_no_consent(tmp_path: Path) -> None:
    for words in (("trust",), ("trust", "--yes"), ("trust", "--show")):
        told = said(tmp_path, *words)
        assert told.code == 0 and "nothing to agree to" in told.out, told.err
    assert "there was no consent to take back" in said(tmp_path, "trust", "--revoke").out
    assert said(tmp_path, "trust", "--yes", "--show").code == 2


def test_the_schema_of_every_record_is_listed_and_printed(tmp_path: Path) -> None:
    listed = said(tmp_path, "schema", "--list")
    assert listed.code == 0 and [line.split()[0] for line in listed.out.splitlines()] == list(RECORDS)
    every = said(tmp_path, "schema")
    assert every.code == 0 and list(json.loads(every.out)) == list(RECORDS)
    assert json.loads(said(tmp_path, "schema", "Event").out) == json.loads(every.out)["event"]
