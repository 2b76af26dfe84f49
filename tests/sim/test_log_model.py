"""The model that logs are judged by: histories made by hand, of three batches in two leader epochs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.linearizable.search import NEVER, Operation, Verdict, judge
from tests.sim.log_model import (
    OUT_OF_RANGE,
    Append,
    AskEnd,
    AskEpochEnd,
    AskStart,
    DeleteRecords,
    Log,
    MoveStart,
    Read,
    log_model,
)

FIRST, SECOND, THIRD = Append(0, 2, 1), Append(2, 3, 1), Append(3, 5, 4)
LOG = [(0.0, 1.0, FIRST, None), (2.0, 3.0, SECOND, None), (4.0, 5.0, THIRD, None)]
"""Each acknowledged before the next one came."""

Row = tuple[float, float, Any, Any]

RIGHT: dict[str, list[Row]] = {
    "ends": [(1.5, 1.6, AskEnd(), (2, 1)), (3.5, 3.6, AskEnd(), (3, 1)), (6, 7, AskEnd(), (5, 4))],
    "an end beside an append": [(4.2, 4.3, AskEnd(), (5, 4)), (4.4, 4.5, AskEnd(), (5, 4))],
    "the end of a former leader": [(3.5, 9, AskEnd(), (3, 1)), (6, 7, AskEnd(), (5, 4))],
    "reads": [(6, 7, Read(0), 2), (6, 7, Read(1), 5), (6, 7, Read(5), 5), (6, 7, Read(6), OUT_OF_RANGE)],
    "nothing yet": [(3.5, 3.6, Read(3), 3)],
    "a log start": [
        (5.5, NEVER, MoveStart(2), None),
        (6, 7, DeleteRecords(1), 2),
        (8, 9, AskStart(), 2),
        (8, 9, Read(1), OUT_OF_RANGE),
        (8, 9, AskEpochEnd(0), (0, 2)),
    ],
    "ends of epochs": [
        (3.5, 3.6, AskEpochEnd(1), (1, 3)),
        (6, 7, AskEpochEnd(1), (1, 3)),
        (6, 7, AskEpochEnd(3), (1, 3)),
        (6, 7, AskEpochEnd(4), (4, 5)),
    ],
}

WRONG: dict[str, list[Row]] = {
    "an end that is too old": [(3.5, 3.6, AskEnd(), (2, 1))],
    "an end that nothing has reached": [(6, 7, AskEnd(), (6, 4))],
    "an end within a batch": [(0.5, 6, AskEnd(), (1, 1))],
    "an end that goes back": [(4.1, 4.2, AskEnd(), (5, 4)), (4.3, 4.4, AskEnd(), (3, 1))],
    "an epoch that goes back": [(6, 7, AskEnd(), (5, 4)), (8, 9, AskEnd(), (5, 1))],
    "nothing there, and there is": [(3.5, 3.6, Read(2), 2)],
    "what was not durable yet": [(3.5, 3.6, Read(2), 5)],
    "out of range, and it is not": [(3.5, 3.6, Read(3), OUT_OF_RANGE)],
    "a start that nobody has moved": [(6, 7, AskStart(), 2)],
    "a start that goes back": [
        (5.5, NEVER, MoveStart(2), None),
        (6, 7, AskStart(), 2),
        (8, 9, AskStart(), 0),
    ],
    "records that were deleted are there": [
        (5.5, NEVER, MoveStart(2), None),
        (6, 7, DeleteRecords(2), 2),
        (8, 9, Read(1), 2),
    ],
    "deleted, and the start is below": [(5.5, NEVER, MoveStart(2), None), (6, 7, DeleteRecords(3), 2)],
    "an epoch that ends too late": [(6, 7, AskEpochEnd(1), (1, 5))],
    "an epoch that ends too early": [(6, 7, AskEpochEnd(4), (4, 3))],
}


def judged(rows: list[Row]) -> Verdict:
    operations = [Operation(number, *row) for number, row in enumerate([*LOG, *rows])]
    return judge(operations, log_model([FIRST, SECOND, THIRD]), Log(0)).verdict


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    assert judged(RIGHT[name]) is Verdict.LINEARIZABLE


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    assert judged(WRONG[name]) is Verdict.NOT_LINEARIZABLE


def test_two_batches_at_one_offset() -> None:
    """Both acknowledged: the log has room for one."""
    other = Append(0, 1, 1)
    operations = [Operation("a", 0, 1, FIRST, None), Operation("b", 2, 3, other, None)]
    assert judge(operations, log_model([FIRST, other]), Log(0)).verdict is Verdict.NOT_LINEARIZABLE
