"""Transactional ids in each of their states, for tables."""

from __future__ import annotations

from typing import Any, Final

from gateway.transactions.metadata import (
    LAST_EPOCH,
    NO_TIME,
    TopicPartition,
    TransactionMetadata,
    TransactionState,
)
from gateway.transactions.outcomes import Answer, Needs, Outcome, Write

NOW: Final = 1_795_301_596_000
"""When the request comes."""

BEFORE: Final = NOW - 5_000
"""When the id was written last."""

BEGAN: Final = NOW - 9_000
"""When its transaction began."""

PID: Final = 70
PREVIOUS_PID: Final = 60
NEXT_PID: Final = 80
OTHER_PID: Final = 99
EPOCH: Final = 5
TIMEOUT_MS: Final = 60_000
EXHAUSTED: Final = LAST_EPOCH - 1

PARTITIONS: Final[frozenset[TopicPartition]] = frozenset((("orders", 0), ("orders", 1)))

_BUSY_STATES: Final = frozenset(
    (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
)


def known(state: TransactionState, epoch: int = EPOCH, **changes: Any) -> TransactionMetadata:
    """What is known of an id in this state."""
    fields: dict[str, Any] = {
        "producer_id": PID,
        "producer_epoch": epoch,
        "timeout_ms": TIMEOUT_MS,
        "state": state,
        "last_update_ms": BEFORE,
        "partitions": PARTITIONS if state in _BUSY_STATES else frozenset(),
        "start_ms": NO_TIME if state is TransactionState.EMPTY else BEGAN,
    }
    return TransactionMetadata(**fields | changes)


def said(outcome: Outcome) -> tuple[int, int, int] | str:
    """The answer, at once or when something is durable: the error's number, and the producer id and epoch."""
    if isinstance(outcome, Needs):
        return "needs a producer id"
    answer = outcome if isinstance(outcome, Answer) else outcome.answer
    return int(answer.error), answer.producer_id, answer.producer_epoch


def code(outcome: Outcome) -> int:
    """The number of the error that is answered."""
    found = said(outcome)
    assert not isinstance(found, str), found
    return found[0]


def written(outcome: Outcome) -> TransactionMetadata:
    """What is to be durable first."""
    assert isinstance(outcome, Write), outcome
    assert outcome.metadata is not None
    return outcome.metadata
