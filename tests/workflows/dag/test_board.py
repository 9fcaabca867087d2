"""The board: what it gives away once is not given again."""

from __future__ import annotations

import msgspec

from orchestra.core.records import Event
from orchestra.workflows.dag.board import Board
from tests.support.graph import job


def test_the_messages_between_levels_are_taken_once() -> None:
    board = Board()
    begun = {"workflow": "dag", "params": msgspec.to_builtins(job(""))}
    board.add(Event("00000001", "r", "2026-11-18T00:00:00.000Z", "RUN_CREATED", begun))
    [request] = board.take_messages()
    assert (request.sender, request.receiver) == ("L1", "L2")
    assert board.take_messages() == []
    assert [line.message for line in board.take()] == ["the run begins", "planning begins"]
    assert board.take() == []
